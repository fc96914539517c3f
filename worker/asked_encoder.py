"""The child's half of encoding: an encoder to the solver, which has its supervisor ask the real one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import orjson

from solver.features import Encoder, EncoderIdentity
from solver.features.encoded import PROBES
from solver.features.vectors import VectorArray
from solver.row_model import RowModel
from worker.protocol import MOST_TEXTS_ASKED, TEXTS_FILE, VECTORS_FILE, JobSpec, Reporter, UnrunnableJobError

TakesRows = TypeVar("TakesRows", bound=RowModel[Any])

SHORT_PATIENCE: Final = 2.0
"""Seconds for which an encoder that does not answer is asked again where the job can do without."""
PROBE_SECONDS: Final = 60.0
"""A job goes on for hours: so often the encoder is asked whether it is still the same one."""

Tell = Callable[[int, int], object]


class AskedEncoder:
    """Makes vectors of texts by asking; may be used by several threads.

    Parameters
    ----------
    reporter : Reporter
        Knows the supervisor, which knows the encoder.
    scratch : Path
        Where supervisor and child leave files for each other.
    name : str
        What the encoder is called.
    known : EncoderIdentity, optional
        Which one it has to be, if that is known.
    tell : callable, optional
        Called with how many texts of a call are encoded, and how many there are.
    keeps : bool, default False
        Whether vectors are kept for the next call, as trainings look at the same rows several times.

    Attributes
    ----------
    patience : float or None
        Seconds for which an encoder that does not answer is asked again; None for those of any job.
    was_asked : bool
    """

    def __init__(
        self,
        reporter: Reporter,
        scratch: Path,
        name: str,
        *,
        known: EncoderIdentity | None = None,
        tell: Tell = lambda _done, _texts: None,
        keeps: bool = False,
    ) -> None:
        self._reporter = reporter
        self._scratch = scratch
        self._name = name
        self._identity = known
        self._probe_at = 0.0
        self._tell = tell
        self._keeps = keeps
        self._places: dict[str, int] = {}
        self._kept: VectorArray | None = None
        self._lock = threading.Lock()
        self.patience: float | None = None
        self.was_asked = False

    def identity(self) -> EncoderIdentity:
        """Return which encoder it is, as its answer to the probes shows now."""
        with self._lock:
            self._probe()
            assert self._identity is not None  # noqa: S101 (for the type checker)
            return self._identity

    def is_that_of(self, identity: EncoderIdentity) -> bool:
        """Whether it is the encoder that another model was trained with, by its last answer to the same probes."""
        known = self._identity
        return known is not None and known.texts == identity.texts and not identity.change_to("", known.probes)

    def encode(self, texts: Sequence[str]) -> VectorArray:
        """Return the vectors of texts.

        Raises
        ------
        UnrunnableJobError
            If the encoder is away, is another one by now, or the job is to stop.
        """
        with self._lock:
            if not self._keeps:
                return self._encoded(texts)
            new = [text for text in dict.fromkeys(texts) if text not in self._places]
            if new:
                made = self._encoded(new)
                first = len(self._places)
                self._kept = made if self._kept is None else np.concatenate([self._kept, made])
                self._places |= {text: first + place for place, text in enumerate(new)}
            assert self._kept is not None  # noqa: S101 (nobody asks for no texts)
            return self._kept[[self._places[text] for text in texts]]

    def _encoded(self, texts: Sequence[str]) -> VectorArray:
        parts = []
        for start in range(0, len(texts), MOST_TEXTS_ASKED):
            if time.monotonic() > self._probe_at:
                self._probe()
            self._tell(start, len(texts))
            parts.append(self._ask(texts[start : start + MOST_TEXTS_ASKED]))
        self._tell(len(texts), len(texts))
        return np.concatenate(parts)

    def _probe(self) -> None:
        texts = PROBES if self._identity is None else self._identity.texts
        probes = self._ask(texts, probes=True)
        self._probe_at = time.monotonic() + PROBE_SECONDS
        if self._identity is None:
            self._identity = EncoderIdentity(self._name, tuple(texts), probes)
        elif (change := self._identity.change_to(self._name, probes)) is not None:
            raise UnrunnableJobError("encoder_changed", f"{change}; train with the encoder that there is now")

    def _ask(self, texts: Sequence[str], *, probes: bool = False) -> VectorArray:
        self.was_asked = True
        (self._scratch / TEXTS_FILE).write_bytes(orjson.dumps(list(texts)))
        patience = {} if self.patience is None else {"patience": self.patience}
        answer = self._reporter.ask("encode", probes=probes, **patience)
        if answer is None:
            raise UnrunnableJobError(
                "not_encoded", "the job had to stop before all of its texts were encoded, so that nothing is to be kept"
            )
        if "changed" in answer:
            raise UnrunnableJobError("encoder_changed", f"{answer['changed']}; train again")
        if "dimensions" not in answer:
            raise UnrunnableJobError("encoder_away", str(answer.get("away", "the texts could not be encoded")))
        vectors = np.frombuffer((self._scratch / VECTORS_FILE).read_bytes(), dtype="<f4")
        return vectors.reshape(len(texts), int(answer["dimensions"])).astype(np.float32, copy=False)


def with_encoder(
    model: TakesRows, job: JobSpec, reporter: Reporter, open_: Encoder | None = None, patience: float | None = None
) -> TakesRows:
    """Return a model with the encoder at hand that it was trained with, if it needs one.

    Parameters
    ----------
    model : Model or ClassesModel
    job : JobSpec
    reporter : Reporter
    open_ : Encoder, optional
        One that the job has asked before, which is taken if it is the same.
    patience : float, optional
        Seconds for which it is asked again if it does not answer, from now on; by default those of any job.

    Raises
    ------
    UnrunnableJobError
        ``encoder_away``, ``encoder_changed``.
    """
    identity = model.encoder
    if identity is None:
        return model
    name = job.details.get("encoder")
    if name is None:
        raise UnrunnableJobError(
            "encoder_away",
            f"the model encodes texts with {identity.model!r}, and this worker has no encoder configured "
            "(PREFSVM_ENCODER_URL)",
        )
    if isinstance(open_, AskedEncoder) and open_.is_that_of(identity):
        open_.patience = patience
        return model.encoding_by(open_)
    encoder = AskedEncoder(reporter, Path(job.scratch), name, known=identity)
    encoder.patience = patience
    encoder.identity()
    return model.encoding_by(encoder)

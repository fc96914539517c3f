"""What the supervisor and the child of one job say to each other: JSON lines, never pickles.

Supervisor to child, on its standard input: one line with the job (`JobSpec`), then perhaps the line ``stop`` ("come to
an end and keep the best so far") and answers to questions, which repeat the number of the question. The end of the
input means that the supervisor is gone.

Child to supervisor, on a file descriptor of its own: ``ready`` (warm), any number of ``progress``, questions about
parts of the job that other workers might compute (`worker.part_answers`) and about vectors of texts
(`worker.encoder_answers`), and one of ``succeeded`` and ``failed``.
Bigger results are files in the job's scratch folder.
"""

from __future__ import annotations

import json
import math
import os
import queue
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict

DEFAULT_RUNNER = "worker.fit"
"""Module that trains, and is loaded before there is a job. Tests have another in its place."""
LONGEST_LINE = 1 << 20
"""Bytes of one line from the child; a longer one is a defect of the child."""
PROGRESS_SECONDS = 0.25
"""Time between two lines about the same phase."""
ANSWER_SECONDS = 0.2
"""Pause between two looks, while an answer is waited for, whether the job is to stop."""
MODEL_FILE = "model.safetensors"
"""What a training makes and a batch applies."""
SHADOW_FILE = "shadow.safetensors"
"""The shadow of the alias by which a batch was asked for; there only if it has one that can be read."""
PREDECESSOR_FILE = "predecessor.safetensors"
PREDECESSOR_LABELS_FILE = "predecessor-labels"
"""The model that the alias of a training points at, and its `solver.labelled_rows`; only where it can be compared."""
LABELS_FILE = "labels"
"""The `solver.labelled_rows` of a training."""
KEPT_ROWS_FILE = "kept-rows"
"""The `solver.nearest.KeptRows` of a training."""
LEFT_OUT_FILE = "left-out"
"""The `solver.multiclass.LeftOutProbabilities` of a training of several classes."""
FEEDBACK_FILE = "feedback.jsonl"
"""What users have corrected, for a training; there only if there is any."""
PREDICTIONS_FILE = "predictions"
"""What a batch makes."""
AUDIT_FILE = "audit"
"""The rows that an audit has drawn: a list in JSON a line."""
RESULT_FILE = "result.json"
PART_FILE = "part"
"""The result of a part of somebody else's job."""
TEXTS_FILE, VECTORS_FILE = "encoder-texts", "encoder-vectors"
"""Texts that a child wants encoded, a list in JSON, and what the encoder made of them, as float32."""
MOST_TEXTS_ASKED = 256
"""Texts that a child asks for at once."""


def part_file(stage: str, number: int) -> str:
    """Return the name of the file with the result of a part of a stage."""
    return f"part-{stage}-{number}"


class UploadedFile(TypedDict):
    """The file that a data set was read from, with how and within which `ReadingLimits`."""

    key: str
    sha256: str
    format: str
    options: dict[str, Any]
    limits: dict[str, Any]


@dataclass(frozen=True)
class JobSpec:
    """All that a child knows of its job. It has no address of the database and none of the broker."""

    job_id: str
    attempt: int
    request: dict[str, Any]
    layout: str
    columnar_key: str
    blob_location: str
    scratch: str
    """Private folder; also the working folder and the place of temporary files."""
    columnar_sha256: str | None = None
    """Of the file at `columnar_key`; None for a data set from before there were checksums."""
    labels_key: str | None = None
    """The file of the data set that has the labels of a training; None where its own rows have them."""
    labels_sha256: str | None = None
    upload: UploadedFile | None = None
    """What the data set was read from."""
    computes: str = "worker.fit:run"
    """What is called with this job, see `worker.kinds.kind.JobKind`."""
    makes: str = MODEL_FILE
    """The file that this writes."""
    details: dict[str, Any] = field(default_factory=dict)
    """What else the kind of the job tells its child."""

    def to_line(self) -> bytes:
        """Return the job as one JSON line."""
        return json.dumps(asdict(self), allow_nan=False).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> JobSpec:
        """Read what `to_line` wrote."""
        return cls(**json.loads(line))


@dataclass(frozen=True)
class Result:
    """What is said of what a job has made, beside the file; a batch has a report only.

    `operating_point` is one that the model shall decide by instead of that of its training.
    """

    algorithm: str
    manifest: dict[str, Any]
    report: dict[str, Any]
    operating_point: dict[str, Any] | None = None


class UnrunnableJobError(Exception):
    """Raised by a runner for what another attempt would not change, such as labels of one class only.

    Parameters
    ----------
    code : str
        Stable, for programs.
    message : str
        What was wrong, where, and what was expected, for the user.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Reporter:
    """The child's end of the line.

    Parameters
    ----------
    descriptor : int
        File descriptor that the supervisor reads.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._stop = threading.Event()
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._questions = 0
        self._phase = ""
        self._fraction = 0.0
        self._next = 0.0

    def send(self, kind: str, **fields: Any) -> None:
        """Write one line. A number that JSON cannot say is written as null."""
        line = json.dumps(storable({"type": kind, **fields}), allow_nan=False).encode() + b"\n"
        while line:
            line = line[os.write(self._descriptor, line) :]

    def progress(self, phase: str, fraction: float, details: dict[str, Any] | None = None) -> bool:
        """Tell how far the job is, which never goes back. Cheap enough to be called often: most calls write nothing.

        Parameters
        ----------
        phase : str
            ``reading``, ``features``, ``encoding``, ``training``, ``evaluating``, ``refitting`` or ``storing``.
        fraction : float
            Share of the whole job that is done, 0 to 1.
        details : dict, optional
            JSON-ready; one with the key ``round`` is always sent.

        Returns
        -------
        bool
            True if the job should come to an end and keep the best so far.
        """
        now = time.monotonic()
        details = details or {}
        self._fraction = max(self._fraction, min(1.0, float(fraction)))
        if phase != self._phase or now >= self._next or "round" in details:
            self._phase, self._next = phase, now + PROGRESS_SECONDS
            self.send("progress", phase=phase, progress=self._fraction, details=details)
        return self._stop.is_set()

    @property
    def should_stop(self) -> bool:
        """Whether the job should come to an end and keep the best so far."""
        return self._stop.is_set()

    def ask(self, kind: str, **fields: Any) -> dict[str, Any] | None:
        """Ask the supervisor something and wait for the answer; None if the job is to stop meanwhile."""
        self._questions += 1
        self.send(kind, question=self._questions, **fields)
        while not self._stop.is_set():
            try:
                answer = self._answers.get(timeout=ANSWER_SECONDS)
            except queue.Empty:
                continue
            if answer.get("question") == self._questions:
                return answer
        return None

    def hear(self, answer: dict[str, Any]) -> None:
        """Take an answer of the supervisor."""
        self._answers.put(answer)

    def ask_to_stop(self) -> None:
        """Make `progress` return True from now on."""
        self._stop.set()


def storable(value: Any) -> Any:
    """Return `value` with what neither JSON nor Postgres can hold replaced.

    NaN and infinities become None; NumPy scalars and arrays become Python numbers and lists; NUL characters in text
    become U+FFFD, lone surrogates a question mark.
    """
    if value is None or type(value) in (bool, int):
        return value
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {storable(str(key)): storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "tolist"):
        return storable(value.tolist())
    raise TypeError(f"a report holds a {type(value).__name__}, which JSON cannot say")

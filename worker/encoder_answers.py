"""The supervisor's half of encoding: it sends the texts of its child to the encoder, as the child has no network.

The child asks for some texts at a time, which lie in the scratch folder, and finds their vectors there. It may ask for
any text: to the encoder of the settings, and nowhere else, is where texts of this deployment go anyway.

Nothing here imports NumPy, as in `worker.supervise`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from service.db.session import AWAY
from service.encoders.configuration import EncoderConfig
from service.encoders.errors import EncoderAway, EncoderChanged
from service.encoders.repository import VectorCache, are_same
from worker.attempt import Attempt
from worker.protocol import MOST_TEXTS_ASKED, TEXTS_FILE, VECTORS_FILE

if TYPE_CHECKING:
    from service.encoders.client import HttpEncoder

log = logging.getLogger("prefsvm.worker")

PATIENCE_SECONDS = 120.0
"""For so long an encoder that does not answer is asked again: a job has time, and encoders are restarted."""
SHORT_PROBE_SECONDS = 5.0
"""For so long one is waited for at most, by whom it is said that he has little patience, before it has shown that it is
there."""
QUIET_SECONDS = 3.0
"""An encoder that has not answered for so long, and not for twice as long as its slowest answer took, is said to be
waited for; one whose answer was an error at once."""
SAY_AGAIN_SECONDS = 10.0
KEPT_BY = "train"
"""Kind of jobs whose vectors are kept: of batches there may be more than is ever of use again."""
MOST_TEXTS_BYTES = 64 << 20
LOOK_SECONDS = 0.1
Result = TypeVar("Result")


class EncoderAnswers:
    """Answers the questions of one child that concern the encoder.

    Parameters
    ----------
    config : EncoderConfig or None
        The deployment's; None if it has none.
    attempt : Attempt
        The job. In its folder supervisor and child leave files for each other.
    stopped : threading.Event
        Set when the child waits no more.
    waits : callable, optional
        Called with ``message``, ``seconds`` and ``until`` while the encoder is waited for, and with None when it
        answers again.
    """

    def __init__(
        self,
        config: EncoderConfig | None,
        attempt: Attempt,
        stopped: threading.Event,
        waits: Callable[[dict[str, Any] | None], object] = lambda _: None,
    ) -> None:
        self._config = config
        self._waits = waits
        self._client: HttpEncoder | None = None
        self._slowest = 0.0
        self._says_at: float | None = None
        """When it is said again that the encoder is waited for; None as long as it is not."""
        self._folder = attempt.folder
        self._database = attempt.database
        self._project_id = attempt.claim.project_id
        self._most_bytes = attempt.settings.encoder_cache_bytes
        self._keeps = attempt.claim.kind == KEPT_BY
        self._stopped = stopped
        self._encoder_id: str | None = None
        self._probes: tuple[list[str], list[bytes]] | None = None
        """The texts that tell which encoder it is, and what it made of them last."""
        self._kept_bytes = 0
        self.was_asked = False

    def answer(self, question: Mapping[str, Any]) -> dict[str, Any] | None:
        """Encode the texts that the child has left: probes anew, others if their vectors are not known yet.

        Returns
        -------
        dict or None
            ``dimensions`` of the vectors, which lie in the folder as float32; or, under ``away`` or ``changed``, why
            there are none.
            None if the child waits no more.
            The question may have a ``patience`` of its own, in seconds.
        """
        self.was_asked = True
        texts = self._texts()
        digests = [hashlib.sha256(text.encode()).digest() for text in texts]
        known = {} if question.get("probes") else self._find(digests)
        new = [text for text, digest in zip(texts, digests, strict=True) if digest not in known]
        try:
            made = asyncio.run(self._until_stopped(self._encode_as_before(new, question))) if new else []
        except EncoderAway as error:
            return {"away": error.detail}
        except EncoderChanged as error:
            return {"changed": error.detail}
        except asyncio.CancelledError:
            return None
        finally:
            self._say_no_more()
        fresh = dict(zip((digest for digest in digests if digest not in known), made, strict=True))
        if question.get("probes"):
            self._know(texts, made)
        else:
            self._keep(fresh)
        known |= fresh
        vectors = [known[digest] for digest in digests]
        (self._folder / VECTORS_FILE).write_bytes(b"".join(vectors))
        return {"dimensions": len(vectors[0]) // 4 if vectors else 0}

    def close(self) -> None:
        """Let go what there is no room for, of what was kept."""
        if self._kept_bytes:
            self._with_cache(lambda cache: cache.evict(self._most_bytes))
            self._kept_bytes = 0

    def _know(self, texts: list[str], probes: list[bytes]) -> None:
        """Find out which vectors of before are of this encoder."""
        self._probes = texts, probes
        name = "" if self._config is None else self._config.model
        keep = self._keeps
        self._encoder_id = self._with_cache(lambda cache: cache.encoder(name, texts, probes, keep=keep))

    def _find(self, digests: list[bytes]) -> dict[bytes, bytes]:
        encoder_id = self._encoder_id
        found = None if encoder_id is None else self._with_cache(lambda cache: cache.find(encoder_id, digests))
        return found or {}

    def _keep(self, vectors: dict[bytes, bytes]) -> None:
        """Keep what was encoded, if the job is of those that do."""
        encoder_id = self._encoder_id
        if encoder_id is None or not self._keeps:
            return
        self._with_cache(lambda cache: cache.keep(encoder_id, vectors))
        self._kept_bytes += sum(map(len, vectors.values()))
        if self._kept_bytes > self._most_bytes / 4:
            self.close()

    def _with_cache(self, use: Callable[[VectorCache], Result]) -> Result | None:
        """Use what is kept of before, if anything is; None where the database is away: then all is encoded."""
        if not self._most_bytes:
            return None
        try:
            with self._database.transaction() as session:
                return use(VectorCache(session, self._project_id))
        except AWAY as error:
            log.warning("vectors of texts are not kept (%s)", type(error).__name__)
            return None

    def _texts(self) -> list[str]:
        path = self._folder / TEXTS_FILE
        if path.stat().st_size > MOST_TEXTS_BYTES:
            raise ValueError("too many texts at once")
        texts = orjson.loads(path.read_bytes())
        if not isinstance(texts, list) or len(texts) > MOST_TEXTS_ASKED:
            raise ValueError("too many texts at once")
        if not all(isinstance(text, str) and text for text in texts):
            raise ValueError("what is encoded must be text")
        return texts

    async def _encode_as_before(self, texts: list[str], question: Mapping[str, Any]) -> list[bytes]:
        """Encode texts, and make sure that no other encoder did: its vectors would be kept for all later trainings."""
        is_probe, patience = bool(question.get("probes")), question.get("patience")
        made = await self._encode(texts, patience, is_probe=is_probe)
        if self._probes is not None and not is_probe:
            probes, before = self._probes
            now = await self._encode(probes, patience, is_probe=True)
            if not are_same(b"".join(before), b"".join(now), len(probes)):
                raise EncoderChanged("the encoder became another one while texts were encoded")
        return made

    async def _encode(self, texts: list[str], patience: float | None, *, is_probe: bool) -> list[bytes]:
        # Loaded where it is used: most deployments have no encoder.
        from service.encoders.client import HttpEncoder

        config = self._config
        if config is None:
            raise EncoderAway
        if patience is not None and is_probe:
            config = replace(config, seconds=min(config.seconds, SHORT_PROBE_SECONDS))
        async with HttpEncoder(config) as encoder:
            self._client = encoder
            try:
                return await encoder.encode(texts, PATIENCE_SECONDS if patience is None else patience)
            finally:
                self._client, self._slowest = None, max(self._slowest, encoder.longest)

    async def _until_stopped(self, work: Coroutine[Any, Any, Result]) -> Result:
        task = asyncio.ensure_future(work)
        while not task.done():
            if self._stopped.is_set():
                task.cancel()
            await asyncio.wait([task], timeout=LOOK_SECONDS)
            self._say_what_is_waited_for()
        return task.result()

    def _say_what_is_waited_for(self) -> None:
        wait, now = None if self._client is None else self._client.waiting, time.monotonic()
        if wait is None or self._config is None:
            return
        seconds = now - wait.since
        if not wait.reason and seconds < max(QUIET_SECONDS, 2 * self._slowest):
            self._say_no_more()
            return
        if self._says_at is not None and now < self._says_at:
            return
        self._says_at = now + SAY_AGAIN_SECONDS
        until = datetime.now(UTC) + timedelta(seconds=max(0.0, wait.until - now))
        why = f" ({wait.reason})" if wait.reason else ""
        message = (
            f"the encoder at {self._config.host} has not answered for {seconds:.0f} s{why}; waiting until "
            f"{until:%H:%M:%S} UTC"
        )
        self._waits({"message": message, "seconds": round(seconds, 1), "until": until.isoformat(timespec="seconds")})

    def _say_no_more(self) -> None:
        if self._says_at is not None:
            self._says_at = None
            self._waits(None)

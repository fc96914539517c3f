"""Asks an encoder over HTTP: in batches, in bounded time and memory, again where that may help."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import httpx
from anyio import to_thread

from service.encoders.configuration import EncoderConfig
from service.encoders.errors import AGAIN_SECONDS, EncoderAway
from service.encoders.exchange import BadAnswerError, body_of, most_answer_bytes, vectors_of

CONNECTIONS = 32
QUICK_BYTES = 1 << 17
"""Of an answer that is read on the event loop; longer ones are read in a thread."""
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0
SHORTEST_SECONDS = 1.0
"""That a request has, however late it is sent again."""
WORTH_TRYING_AGAIN = frozenset({408, 425, 429, *range(500, 600)})


@dataclass(eq=False)
class Wait:
    """Texts whose vectors have been asked for and have not come.

    Attributes
    ----------
    since, until : float
        By `time.monotonic`: when they were asked for first, and when that is given up.
    reason : str
        Why they had to be asked for again, if they had.
    """

    since: float
    until: float
    reason: str = ""


class HttpEncoder:
    """An encoder as OpenAI's, Ollama, vLLM, text-embeddings-inference and LocalAI speak.

    For use on one event loop. Nothing that is sent or answered gets into logs or errors.

    Parameters
    ----------
    config : EncoderConfig

    Attributes
    ----------
    longest : float
        Seconds that an answer has taken at most.
    """

    def __init__(self, config: EncoderConfig) -> None:
        self.config = config
        self.longest = 0.0
        self._http: httpx.AsyncClient | None = None
        self._waits: list[Wait] = []

    @property
    def waiting(self) -> Wait | None:
        """What is waited for the longest, if anything is."""
        return min(self._waits, key=lambda wait: wait.since, default=None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def encode(
        self,
        texts: Sequence[str],
        patience: float,
        tell: Callable[[list[int], list[bytes]], Awaitable[None]] | None = None,
    ) -> list[bytes]:
        """Return the vectors of texts, each as float32, little-endian, and all of one length.

        Parameters
        ----------
        texts : sequence of str
            None of them empty.
        patience : float
            Seconds for which a request that failed is tried again. The first try has the time that the settings give
            one request, and no later one ends after both.
        tell : callable, optional
            Awaited with places and vectors of each batch that has come.

        Raises
        ------
        EncoderAway
            If the encoder does not answer, or not as it should.
        """
        found: list[bytes] = [b""] * len(texts)

        async def lane() -> None:
            for places in batches:
                made = await self._patiently([texts[place] for place in places], patience)
                for place, vector in zip(places, made, strict=True):
                    found[place] = vector
                if tell is not None:
                    await tell(places, made)

        # Those of like length together, as an encoder fills all of a batch up to its longest.
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        batches: Iterator[list[int]] = iter(
            [order[start : start + self.config.batch] for start in range(0, len(order), self.config.batch)]
        )
        await _together([lane] * min(self.config.at_once, -(-len(texts) // self.config.batch)))
        if len(set(map(len, found))) > 1:
            raise self._away("its vectors are not all of one length")
        return found

    async def _patiently(self, texts: Sequence[str], patience: float) -> list[bytes]:
        """Ask, and ask again as long as that may help."""
        began = sent = time.monotonic()
        wait = Wait(began, began + max(patience, self.config.seconds))
        self._waits.append(wait)
        pause = FIRST_PAUSE
        try:
            while True:
                try:
                    made = await self._once(texts, max(SHORTEST_SECONDS, wait.until - sent))
                    self.longest = max(self.longest, time.monotonic() - sent)
                    return made
                except _FailedError as failure:
                    wait.reason = failure.reason
                    seconds = pause * random.uniform(0.5, 1.0)  # noqa: S311 (nothing to be guessed)
                    seconds = max(seconds, failure.after or 0.0)
                    if not failure.again or time.monotonic() + seconds > began + patience:
                        raise self._away(failure.reason, failure.after) from None
                await asyncio.sleep(seconds)
                pause = min(LONGEST_PAUSE, 2 * pause)
                sent = time.monotonic()
        finally:
            self._waits.remove(wait)

    async def _once(self, texts: Sequence[str], most_seconds: float) -> list[bytes]:
        config = self.config
        seconds = min(config.seconds, most_seconds)
        try:
            async with asyncio.timeout(seconds):
                body = body_of(config.model, [config.prefix + text for text in texts], config.dimensions)
                raw = await self._post(body, len(texts))
        except TimeoutError:
            raise _FailedError(f"no answer within {seconds:.3g} s", again=True) from None
        except httpx.HTTPError as error:
            raise _FailedError(f"the connection failed ({type(error).__name__})", again=True) from None
        try:
            if len(raw) <= QUICK_BYTES:
                return vectors_of(raw, len(texts), config.dimensions)
            return await to_thread.run_sync(vectors_of, raw, len(texts), config.dimensions)
        except BadAnswerError as error:
            raise _FailedError(str(error), again=False) from None

    async def _post(self, body: bytes, count: int) -> bytes:
        headers = {"Content-Type": "application/json"}
        if self.config.key is not None:
            headers["Authorization"] = f"Bearer {self.config.key}"
        async with self._opened().stream("POST", self.config.url, content=body, headers=headers) as response:
            if response.status_code != httpx.codes.OK:
                raise _FailedError(
                    f"it answered with the status {response.status_code}",
                    again=response.status_code in WORTH_TRYING_AGAIN,
                    after=_seconds(response.headers.get("Retry-After")),
                )
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise _FailedError("its answer is compressed, which was not asked for", again=False)
            most, pieces, size = most_answer_bytes(count, self.config.dimensions), [], 0
            async for piece in response.aiter_raw():
                size += len(piece)
                if size > most:
                    raise _FailedError(f"its answer is longer than {most} bytes", again=False)
                pieces.append(piece)
            return b"".join(pieces)

    def _opened(self) -> httpx.AsyncClient:
        if self._http is None:
            logging.getLogger("httpx").setLevel(logging.WARNING)  # else each request is a line
            # Texts go where the settings say and nowhere else: no redirects, and no proxy that some variable names.
            self._http = httpx.AsyncClient(
                follow_redirects=False,
                trust_env=False,
                verify=ssl.create_default_context() if self.config.url.startswith("https:") else False,
                timeout=self.config.seconds,
                limits=httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
                headers={"User-Agent": "prefsvm", "Accept": "application/json", "Accept-Encoding": "identity"},
            )
        return self._http

    def _away(self, reason: str, after: float | None = None) -> EncoderAway:
        seconds = AGAIN_SECONDS if after is None else max(1, round(after))
        detail = f"the encoder {self.config.model!r} that texts are sent to: {reason}"
        return EncoderAway(detail, headers={"Retry-After": str(seconds)})


class _FailedError(Exception):
    """One request that came to nothing."""

    def __init__(self, reason: str, *, again: bool, after: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.again, self.after = reason, again, after


def _seconds(retry_after: str | None) -> float | None:
    """Return what a Retry-After header says in seconds; one with a date says nothing here."""
    return min(3600.0, float(retry_after)) if retry_after is not None and retry_after.strip().isdecimal() else None


async def _together(lanes: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Run some coroutines beside each other; when one fails, end the others."""
    if len(lanes) == 1:
        await lanes[0]()
        return
    tasks = [asyncio.ensure_future(lane()) for lane in lanes]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

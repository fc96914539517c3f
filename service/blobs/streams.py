"""Blobs that are written and read from the event loop, with every slow step in a thread."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread

from service.blobs.store import BlobSink, BlobStore

BUFFER_BYTES = 1 << 20
THREADS = 8
"""Threads that read and write; a slow disk then cannot keep the other calls from theirs."""
Result = TypeVar("Result")


class BlobWriter:
    """Takes bytes in pieces of any size."""

    def __init__(self, out: BlobSink, run: Callable[..., Any]) -> None:
        self._out = out
        self._run = run
        # Filled again and again: the first touch of fresh memory takes longer than to copy into it.
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._filled = 0
        self._digest = hashlib.sha256()
        self.bytes = 0
        """Taken so far."""

    async def write(self, data: bytes) -> None:
        """Append bytes."""
        self.bytes += len(data)
        left = memoryview(data)
        while left:
            fits = left[: BUFFER_BYTES - self._filled]
            self._buffer[self._filled : self._filled + len(fits)] = fits
            self._filled += len(fits)
            left = left[len(fits) :]
            if self._filled == BUFFER_BYTES:
                await self.flush()

    async def flush(self) -> None:
        """Pass on what is waiting."""
        await self._run(self._write)

    def _write(self) -> None:
        waiting = self._buffer[: self._filled]
        self._digest.update(waiting)
        self._out.write(waiting)
        self._filled = 0

    @property
    def sha256(self) -> str:
        """Of what was passed on."""
        return self._digest.hexdigest()


class BlobStreams:
    """The door of the event loop to a blob store."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._threads = CapacityLimiter(THREADS)

    async def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call a function in one of the threads."""
        return await to_thread.run_sync(function, *arguments, limiter=self._threads)

    @asynccontextmanager
    async def writer(self, key: str) -> AsyncIterator[BlobWriter]:
        """Open a new blob for writing, as `BlobStore.writer`."""
        blob = self._blobs.writer(key)
        writer = BlobWriter(await self.run(blob.__enter__), self.run)
        try:
            yield writer
            await writer.flush()
        except BaseException as error:
            await asyncio.shield(self.run(blob.__exit__, type(error), error, error.__traceback__))
            raise
        await self.run(blob.__exit__, None, None, None)

    async def read(self, key: str) -> AsyncIterator[bytes]:
        """Yield the bytes of a blob; raises `BlobNotFoundError`."""
        file = await self.run(self._blobs.open, key)
        try:
            while data := await self.run(file.read, BUFFER_BYTES):
                yield data
        finally:
            await asyncio.shield(self.run(file.close))

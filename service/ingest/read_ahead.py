"""How far the thread that reads a file for Arrow may get ahead of whoever takes the rows."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 0.1
"""So long a thread that has read far enough ahead waits for Arrow, which may be waiting for it in turn."""


class BoundedReadAhead:
    """Holds back the thread in which Arrow reads a file, which is up to 32 blocks ahead otherwise.

    That is 128 MiB of the text of a narrow table, and far more of a wide one, without a row of it being parsed; Arrow
    has no option for it (ARROW-12090). As a context, it lets that thread go at the end.

    Parameters
    ----------
    block_bytes : int
        That Arrow reads at once. Of each block it makes a batch.
    blocks : int
        How many may be read that no batch was taken of; more than Arrow parses at once, and three or more, as it
        needs the beginning of a block to end the one before.
    """

    def __init__(self, block_bytes: int, blocks: int) -> None:
        self._block_bytes = block_bytes
        self._blocks = blocks
        self._taken = 0
        self._is_over = False
        self._is_awaited = True  # Arrow is at work, or waits: somebody has asked it for a batch
        self._change = threading.Condition()

    def __enter__(self) -> BoundedReadAhead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._change:
            self._is_over = True
            self._change.notify()

    def chunks(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Pass on the chunks of the file as far as they may be read; they end where the context does."""
        passed = 0
        for chunk in chunks:
            yield chunk
            passed += len(chunk)
            self._wait_behind(passed)
            if self._is_over:
                return

    def batches(self, batches: Iterable[T]) -> Iterator[T]:
        """Pass on what Arrow makes of the file; with each batch one more block may be read."""
        for batch in batches:
            self._note(taken=1, is_awaited=False)
            yield batch
            self._note(taken=0, is_awaited=True)

    def _note(self, *, taken: int, is_awaited: bool) -> None:
        with self._change:
            self._taken += taken
            self._is_awaited = is_awaited
            self._change.notify()

    def _wait_behind(self, passed: int) -> None:
        with self._change:
            while not self._is_over and passed >= (self._taken + self._blocks) * self._block_bytes:
                # Where Arrow has come upon an error it may wait until this thread is through, before it says so.
                if not self._change.wait(PATIENCE_SECONDS if self._is_awaited else None) and self._is_awaited:
                    return

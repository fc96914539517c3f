"""Parts of a delimited text that are parsed by themselves, several at once: Arrow's own reader does one after another.

Where rows end `service.ingest.quoting.QuoteScan` knows, which looks at each text anyway. So Arrow need not search for
it, which takes as long as to parse them where line breaks may be part of values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import pyarrow as pa

from service.ingest.quoting import QuoteScan
from service.ingest.side_by_side import SideBySide

T = TypeVar("T")

BLOCKS_AHEAD = 2
"""That wait to be parsed, beside those that are."""


class RowTooLongError(Exception):
    """A row is longer than a block may be."""


def row_blocks(chunks: Iterable[bytes], scan: QuoteScan, block_bytes: int) -> Iterator[bytes]:
    """Cut a text into blocks of whole rows, of `block_bytes` or a little more.

    Parameters
    ----------
    chunks : iterable of bytes
        Its last line has to end with a line break.
    scan : QuoteScan
        Sees all of it.
    block_bytes : int
        No row may be longer.

    Raises
    ------
    RowTooLongError
    ImproperQuoteError
    """
    waiting: list[bytes] = []
    size = open_bytes = 0
    for piece in scan.passing(chunks):
        end = scan.row_end
        if end and size + end >= block_bytes:
            yield b"".join((*waiting, memoryview(piece)[:end]))
            waiting, size = [piece[end:]], len(piece) - end
        else:
            waiting.append(piece)
            size += len(piece)
        open_bytes = len(piece) - end + (0 if end else open_bytes)
        if open_bytes > block_bytes:
            raise RowTooLongError
    if size:
        yield b"".join(waiting)


def side_by_side(work: Callable[[bytes], T], blocks: Iterable[bytes]) -> Iterator[T]:
    """Yield what the work makes of each block, in order; some are worked on ahead of whoever takes them, by threads."""
    begun = deque[Callable[[], T]]()
    with SideBySide() as threads:
        for block in blocks:
            begun.append(threads.begin(work, block).result)
            if len(begun) > pa.cpu_count() + BLOCKS_AHEAD:
                yield begun.popleft()()
        while begun:
            yield begun.popleft()()

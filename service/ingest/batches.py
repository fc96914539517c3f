"""How many rows of a table are looked at together: enough that work done once a column and batch does not weigh."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

COLUMNS_TOGETHER = 1024
"""Of which Arrow makes one copy at once: enough that the calls do not weigh, few enough for the copy not to."""
MOST_ROWS = 65_536
LEAST_BYTES = 16 << 20
BYTES_A_COLUMN = 32 << 10
"""4,096 numbers. What a batch costs by itself grows with its columns, so its rows must not shrink as these grow."""
MOST_BYTES = 384 << 20
"""Beyond it memory counts for more: from 12,000 columns on, batches are smaller again."""


def batch_bytes(columns: int) -> int:
    """Return how many bytes of values the batches of a table of so many columns should have."""
    wide = MOST_BYTES // BYTES_A_COLUMN
    if columns > wide:  # what very many columns take by themselves, batches have to leave to them
        return max(LEAST_BYTES, MOST_BYTES * wide // columns)
    return max(LEAST_BYTES, BYTES_A_COLUMN * columns)


def batch_rows(columns: int) -> int:
    """Return how many rows of numbers these are."""
    return max(1, min(MOST_ROWS, batch_bytes(columns) // (8 * max(1, columns))))


def rows_of_values(columns: int) -> int:
    """Return how many rows are read together where each value is an object of Python."""
    return max(1, min(8192, (1 << 18) // max(1, columns)))


def joined(batches: Iterator[list[pa.Array]]) -> Iterator[list[pa.Array]]:
    """Join batches of few rows, in order, until they have `batch_rows` rows or about `batch_bytes` bytes.

    One of far more rows is cut: of short rows a few megabytes of text hold a million, and whatever looks at a batch
    takes several times 8 bytes for each of its values.
    """
    held: list[list[pa.Array]] = []
    rows = size = 0
    for batch in _cut(batches):
        held.append(batch)
        rows += len(batch[0])
        size += sum(array.get_total_buffer_size() for array in batch)
        if _are_enough(rows, size, len(batch)):
            yield _one(held)
            held, rows, size = [], 0, 0
    if held:
        yield _one(held)


def joined_record_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.Array]]:
    """Do what `joined` does with record batches of one schema, in which no column has to be touched by itself."""
    held: list[list[pa.RecordBatch]] = []  # of some columns each, so that there are two copies of no more than these
    rows = size = 0
    for batch in batches:
        columns = batch.num_columns
        most = batch_rows(columns)
        step = most if batch.num_rows > 2 * most else max(1, batch.num_rows)
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            rows += part.num_rows
            size += part.get_total_buffer_size()
            for group, first in enumerate(range(0, columns, COLUMNS_TOGETHER)):
                if group == len(held):
                    held.append([])
                held[group].append(part.select(list(range(first, min(first + COLUMNS_TOGETHER, columns)))))
            if _are_enough(rows, size, columns):
                yield _columns_of(held)
                held, rows, size = [], 0, 0
    if held:
        yield _columns_of(held)


def _are_enough(rows: int, size: int, columns: int) -> bool:
    return rows >= batch_rows(columns) or size >= batch_bytes(columns)


def _columns_of(held: list[list[pa.RecordBatch]]) -> list[pa.Array]:
    columns: list[pa.Array] = []
    for parts in held:
        columns += (parts[0] if len(parts) == 1 else pa.concat_batches(parts)).columns
        parts.clear()
    return columns


def _cut(batches: Iterator[list[pa.Array]]) -> Iterator[list[pa.Array]]:
    """Cut batches of more than twice `batch_rows` rows; the parts share their memory."""
    for batch in batches:
        most = batch_rows(len(batch))
        if len(batch[0]) <= 2 * most:
            yield batch
            continue
        for start in range(0, len(batch[0]), most):
            yield [array[start : start + most] for array in batch]


def _one(batches: list[list[pa.Array]]) -> list[pa.Array]:
    if len(batches) == 1:
        return batches[0]
    # Column by column, so that of no more than one there are two copies.
    columns = []
    for position in range(len(batches[0])):
        columns.append(pa.concat_arrays([batch[position] for batch in batches]))
        for batch in batches:
            batch[position] = None
    return columns

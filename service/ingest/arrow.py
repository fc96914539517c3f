"""Reads Arrow IPC: files (also called Feather) and streams."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from service.ingest.errors import IngestError, is_of_the_disk
from service.ingest.limits import ReadingLimits, check_unpacked
from service.ingest.options import TableOptions
from service.ingest.profile import Columnar
from service.ingest.table import check_columns, check_size
from service.ingest.typed import TypedColumns

FILE_MAGIC = b"ARROW1\0\0"
MAX_BATCH_BYTES = 512 << 20
"""What one packed batch may unpack to; one that is not packed is read in place."""
FREE_BYTES = 64 << 20
"""What all batches may unpack to, however small the file is."""


def read_arrow(path: Path, options: TableOptions, limits: ReadingLimits, output: Path, warnings: list[str]) -> Columnar:
    """Write the ``table`` layout of an Arrow IPC file or stream; see `TypedColumns` for what its types mean.

    Before anything is unpacked, all messages are looked through for the rows and bytes that they promise.

    Raises
    ------
    IngestError
    """
    try:
        with pa.memory_map(str(path)) as file:
            if file.read(len(FILE_MAGIC)) != FILE_MAGIC:
                file.seek(0)
            # A file is a stream between a magic number and a footer, which is not needed to read it from the start.
            start = file.tell()
            _check_messages(file, limits, path.stat().st_size)

            def batches() -> Iterator[list[pa.Array]]:
                file.seek(start)
                with pa.ipc.open_stream(file) as reader:
                    rows = 0
                    for batch in reader:
                        batch.validate(full=True)
                        for first in range(0, len(batch), columns.batch_rows):
                            part = _without_views(batch.slice(first, columns.batch_rows), columns.text_names)
                            yield from columns.bounded(iter([part]), rows + first)
                        rows += len(batch)

            def read(names: list[str]) -> Iterator[pa.RecordBatch]:
                file.seek(start)
                with pa.ipc.open_stream(file) as reader:
                    for batch in reader:
                        batch.validate(full=True)
                        yield batch.select(names)

            file.seek(start)
            with pa.ipc.open_stream(file) as reader:
                schema = reader.schema
            # The lists of a batch lie in the file, or were unpacked with the rest of it: no need to know how long.
            columns = TypedColumns(schema, options, limits, warnings, path.stat().st_size, read, {})
            return columns.store(batches, output)
    except pa.ArrowMemoryError:
        raise
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        if is_of_the_disk(error):
            raise
        raise IngestError(
            "malformed", "not a whole Arrow file or stream, or one with features that cannot be read"
        ) from None


def _without_views(batch: pa.RecordBatch, text_names: list[str]) -> pa.RecordBatch:
    """Return the batch with its views of text as plain text, which more functions take."""
    for name in text_names:
        position = batch.schema.get_field_index(name)
        if pa.types.is_string_view(batch.schema.field(position).type):
            batch = batch.set_column(position, name, pc.cast(batch.column(position), pa.large_string()))
    return batch


def _check_messages(file: pa.MemoryMappedFile, limits: ReadingLimits, file_bytes: int) -> None:
    """Refuse messages that promise too many rows, or too many bytes after unpacking."""
    rows = unpacked = 0
    columns = 1
    reader = pa.ipc.MessageReader.open_stream(file)
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        if message.type == "schema":
            columns = len(pa.ipc.read_schema(message).names)
            check_columns(columns, limits)
            continue
        header = _Header.of(message)
        if message.type == "record batch":
            rows += header.rows
            check_size(rows, max(columns, 1), limits)
        unpacked += header.unpacked_bytes
        if header.unpacked_bytes > MAX_BATCH_BYTES:
            raise IngestError(
                "expands_too_much", f"a packed batch of more than {MAX_BATCH_BYTES} bytes; send smaller batches"
            )
        check_unpacked(unpacked, file_bytes, limits, FREE_BYTES)


class _Header:
    """What the metadata of a batch promises. They are a flatbuffer, of which this reads two numbers."""

    def __init__(self, rows: int, unpacked_bytes: int) -> None:
        self.rows = rows
        self.unpacked_bytes = unpacked_bytes

    @classmethod
    def of(cls, message: pa.Message) -> _Header:
        data = message.metadata.to_pybytes()
        body = message.body
        try:
            batch = _child(data, _root(data), 2)
            if batch is not None and message.type == "dictionary":
                batch = _child(data, batch, 1)
            if batch is None:
                return cls(0, 0)
            at = _field(data, batch, 0)
            rows = 0 if at is None else struct.unpack_from("<q", data, at)[0]
            unpacked = 0
            buffers = _child(data, batch, 2)
            if _field(data, batch, 3) is not None and buffers is not None and body is not None:
                view = memoryview(body)
                for i in range(struct.unpack_from("<I", data, buffers)[0]):
                    start, length = struct.unpack_from("<qq", data, buffers + 4 + 16 * i)
                    if length >= 8:  # of the packed bytes, the first eight say how many they become
                        unpacked += max(0, struct.unpack_from("<q", view, start)[0])
        except (struct.error, ValueError, IndexError):
            raise pa.ArrowInvalid("broken metadata") from None
        if rows < 0:
            raise pa.ArrowInvalid("negative length")
        return cls(rows, unpacked)


def _root(data: bytes) -> int:
    return int(struct.unpack_from("<I", data, 0)[0])


def _field(data: bytes, table: int, number: int) -> int | None:
    """Return where a field of a flatbuffer table lies, None if it has its default."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    if vtable < 0 or 4 + 2 * number >= struct.unpack_from("<H", data, vtable)[0]:
        return None
    offset = struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0]
    return table + offset if offset else None


def _child(data: bytes, table: int, number: int) -> int | None:
    """Return where the table or vector lies that a field refers to."""
    at = _field(data, table, number)
    return None if at is None else at + int(struct.unpack_from("<I", data, at)[0])

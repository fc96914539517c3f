"""Bytes of a text format: unpacked, decoded and checked while they pass by, with flat memory."""

from __future__ import annotations

import bz2
import codecs
import io
import itertools
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from service.ingest.errors import IngestError
from service.ingest.limits import ReadingLimits, check_unpacked

CHUNK_BYTES = 1 << 20
PACKED_CHUNK_BYTES = CHUNK_BYTES // 4
GZIP_MAGIC = b"\x1f\x8b"
BZIP2_MAGIC = b"BZh"
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks, with which no text in UTF-8 can begin."""
_OTHER_FILES = {
    b"PK\3\4": "a zip archive, or a workbook (.xlsx), which its name has to say; of an archive send the file in it",
    b"\xd0\xcf\x11\xe0": "a workbook of an old Excel (.xls), or one with a password; save it as .xlsx without one",
    b"%PDF": "a PDF document",
    b"PAR1": "a Parquet file; say so by option format or the file's name",
    b"\xfd7zXZ": "packed by xz; unpack it, or pack it by gzip",
    b"\x28\xb5\x2f\xfd": "packed by zstd; unpack it, or pack it by gzip",
}
"""What files begin with that are no text, and what they are."""
_OTHER_ENCODING = ", or another one by option encoding (such as utf-16, or cp1252 of many Windows files)"
_LF = ord("\n")
_HTML = re.compile(rb"\s*<(?:!doctype\s+html|html)[\s>]", re.IGNORECASE)


class _Decompressor(Protocol):
    """What zlib and bz2 have in common, made equal."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Gzip:
    def __init__(self) -> None:
        self._z = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._z.eof

    @property
    def needs_input(self) -> bool:
        return not self._z.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._z.unused_data

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        return self._z.decompress(self._z.unconsumed_tail + data, max_length)


def unpacked(path: Path, limits: ReadingLimits) -> Iterator[bytes]:
    """Yield the bytes of a file in chunks of at most 1 MiB, unpacked if it is a gzip or bzip2 file.

    Whether it is packed is told by its first bytes, whatever it is called.

    Parameters
    ----------
    path : Path
    limits : ReadingLimits
        `max_bytes` bounds what comes out.

    Raises
    ------
    IngestError
        ``truncated``, ``malformed``, ``expands_too_much``.
    """
    with path.open("rb") as file:
        yield from _unpacked(file, limits)


def check_beginning(path: Path, limits: ReadingLimits) -> None:
    """Refuse a packed file whose beginning unpacks to too much, before work is put into the rows in it.

    Of an honest file that beginning is a few megabytes, which take milliseconds; small files that ask for much are
    known by it.

    Raises
    ------
    IngestError
        ``expands_too_much``. Whatever else is wrong with the file `unpacked` tells.
    """
    with path.open("rb") as file:
        beginning = io.BytesIO(file.read(PACKED_CHUNK_BYTES))
    if not beginning.getvalue().startswith((GZIP_MAGIC, BZIP2_MAGIC)):
        return
    try:
        for _ in _unpacked(beginning, limits):
            pass
    except IngestError as error:
        if error.code == "expands_too_much":
            raise


def _unpacked(file: BinaryIO, limits: ReadingLimits) -> Iterator[bytes]:
    magic = file.read(3)
    file.seek(0)
    if magic.startswith(GZIP_MAGIC):
        yield from _members(file, _Gzip, "gzip", limits)
    elif magic == BZIP2_MAGIC:
        yield from _members(file, bz2.BZ2Decompressor, "bzip2", limits)
    else:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def _members(file: BinaryIO, decompressor: type[_Decompressor], name: str, limits: ReadingLimits) -> Iterator[bytes]:
    """Yield what one compressed stream, or several in a row, hold."""
    packed = unpacked_bytes = 0
    data = b""
    current: _Decompressor | None = None
    while True:
        at_end = False
        if not data and (current is None or current.needs_input):
            data = file.read(PACKED_CHUNK_BYTES)
            packed += len(data)
            at_end = not data
        if current is None:
            # A further member may follow; zero bytes are padding, which gzip allows.
            data = data.lstrip(b"\0")
            if at_end:
                return
            if not data:
                continue
            current = decompressor()
        try:
            chunk = current.decompress(data, CHUNK_BYTES)
        except (zlib.error, OSError, ValueError):
            raise IngestError(
                "malformed", f"the file is not a whole {name} file: its packed data are damaged"
            ) from None
        data = b""
        if chunk:
            unpacked_bytes += len(chunk)
            check_unpacked(unpacked_bytes, packed, limits)
            yield chunk
        if current.eof:
            data = current.unused_data
            current = None
        elif at_end and not chunk:
            raise IngestError("truncated", f"the {name} file ends too early; its end is missing")


def recoded(chunks: Iterator[bytes], encoding: str | None) -> Iterator[bytes]:
    """Turn text in any encoding into UTF-8 without a byte order mark, and check it.

    Without an `encoding` the format has no option for it, and is UTF-8. What begins with a byte order mark of UTF-16 is
    read as that where UTF-8 was expected: it can be nothing else.

    Raises
    ------
    IngestError
        ``bad_encoding`` with the line where it was noticed; NUL characters count as such, because no text has them.
        ``malformed`` for what is no text at all.
    """
    advice = "" if encoding is None else _OTHER_ENCODING
    encoding = encoding or "utf-8"
    first = next(chunks, b"")
    _refuse_other_files(first)
    if encoding == "utf-8" and first.startswith(UTF_16_MARKS):
        encoding = "utf-16"
    chunks = itertools.chain([first], chunks)
    decoder = codecs.getincrementaldecoder("utf-8-sig" if encoding == "utf-8" else encoding)()
    lines = _Lines()
    at_start = True
    for chunk in _with_end(chunks):
        final = chunk is None
        if chunk and encoding == "utf-8" and not at_start and chunk.isascii() and decoder.getstate()[0] == b"":
            out = chunk
        else:
            try:
                text = decoder.decode(chunk or b"", final)
            except UnicodeDecodeError as error:
                good = error.object[: error.start]
                if encoding.startswith("utf-16"):
                    good = good.decode(error.encoding, "replace").encode()
                raise IngestError(
                    "bad_encoding", f"not {encoding} text; expected {encoding}{advice}", line=lines.line_behind(good)
                ) from None
            if encoding not in ("utf-8", "utf-16") and at_start:  # of which the decoder has taken it
                text = text.removeprefix("\ufeff")
            try:
                out = text.encode()
            except UnicodeEncodeError:
                raise IngestError(
                    "bad_encoding", "halves of surrogate pairs are not text", line=lines.line_behind(b"")
                ) from None
            at_start = at_start and not out
        if b"\0" in out:
            raise IngestError(
                "bad_encoding",
                f"a NUL character; expected text in {encoding}{advice}",
                line=lines.line_behind(out[: out.index(b"\0")]),
            )
        lines.pass_by(out)
        if out:
            yield out


def _refuse_other_files(begin: bytes) -> None:
    if begin and not begin.strip(b"\0"):
        raise IngestError(
            "malformed", "the file begins with nothing but NUL bytes: it is damaged, or was never written to its end"
        )
    for magic, meaning in _OTHER_FILES.items():
        if begin.startswith(magic):
            raise IngestError("malformed", f"expected text, but this is {meaning}")
    if _HTML.match(begin[:1000]):
        raise IngestError("malformed", "expected a data set, but this is a web page; maybe it was saved in its place")


def _with_end(chunks: Iterator[bytes]) -> Iterator[bytes | None]:
    yield from chunks
    yield None


def with_bounded_lines(chunks: Iterator[bytes], max_line_bytes: int) -> Iterator[bytes]:
    """Pass text on as long as no line is longer than allowed. A carriage return alone ends a line too.

    Raises
    ------
    IngestError
        ``too_long`` with the line.
    """
    open_bytes = 0  # length so far of the line that the last chunk left open
    lines = _Lines()
    for chunk in chunks:
        # Leap from break to break, each time to the last one in reach: a few steps a chunk.
        position = -open_bytes
        while len(chunk) - position > max_line_bytes:
            reach = position + max_line_bytes + 1
            begin = max(position, 0)
            found = max(chunk.rfind(b"\n", begin, reach), chunk.rfind(b"\r", begin, reach))
            if found < 0:
                line = lines.line_behind(chunk[:begin])
                raise IngestError("too_long", f"a line of more than {max_line_bytes} bytes", line=line)
            position = found + 1
        last = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
        open_bytes = len(chunk) - last - 1 if last >= 0 else open_bytes + len(chunk)
        lines.pass_by(chunk)
        yield chunk


class _Lines:
    """Counts the lines of a text that passes by: a line feed ends one, and so does a carriage return before none."""

    def __init__(self) -> None:
        self._ended = 0
        self._last_is_return = False

    def pass_by(self, chunk: bytes) -> None:
        """Take a part of the text into account."""
        self._ended += self._ended_in(chunk)
        self._last_is_return = chunk.endswith(b"\r") if chunk else self._last_is_return

    def line_behind(self, part: bytes) -> int:
        """Return the line of what follows a part that has not passed by yet."""
        return self._ended + self._ended_in(part) + 1

    def _ended_in(self, chunk: bytes) -> int:
        count = _line_feeds(chunk)
        if b"\r" in chunk:
            count += chunk.count(b"\r") - chunk.count(b"\r\n")
        # The carriage return that the part before ended with has been counted.
        return count - (self._last_is_return and chunk.startswith(b"\n"))


def _line_feeds(chunk: bytes) -> int:
    """Count line feeds, which NumPy does several times as fast as Python."""
    import numpy as np  # here, as the client's installation loads this module, and has none

    return int(np.count_nonzero(np.frombuffer(chunk, dtype=np.uint8) == _LF))


def behind(chunks: Iterator[bytes], count: int) -> Iterator[bytes]:
    """Pass a text on without its first bytes."""
    for chunk in chunks:
        if count < len(chunk):
            yield chunk[count:] if count else chunk
        count = max(0, count - len(chunk))


def with_last_line_ended(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Pass text on, with a line break at its end if there is none."""
    last = b"\n"
    for chunk in chunks:
        yield chunk
        last = chunk[-1:] or last
    if last != b"\n":
        yield b"\n"


class ChunkReader(io.RawIOBase):
    """A readable file over chunks of bytes, for libraries that want one."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill a buffer as far as the next chunk goes."""
        if not self._rest:
            self._rest = memoryview(next(self._chunks, b""))
        n = min(len(buffer), len(self._rest))
        buffer[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        return n

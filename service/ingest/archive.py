"""Members of tar and zip archives, one after the other. Nothing is ever extracted: no name becomes a path."""

from __future__ import annotations

import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from service.ingest.errors import IngestError, is_of_the_disk
from service.ingest.limits import ReadingLimits, UnpackingBudget
from service.ingest.stream import unpacked

BLOCK_BYTES = 512
MAX_EXTENSION_BYTES = 64 << 10
"""Of a header of a tar archive that holds a long name."""
MAX_DIRECTORY_BYTES = 32 << 20
"""Of the directory of a zip archive, which has to be read as a whole: some hundred thousand members."""
DAMAGED_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    UnicodeDecodeError,
    struct.error,
    ValueError,
    RuntimeError,
    OSError,
)


@dataclass(frozen=True)
class Member:
    """A file of an archive.

    Attributes
    ----------
    folders : tuple of str
        Folders that it lies in, outermost first.
    name : str
    content : bytes
        The first bytes of it, as many as were asked for.
    is_cut : bool
        Whether there are more.
    """

    folders: tuple[str, ...]
    name: str
    content: bytes
    is_cut: bool


def zip_members(path: Path, limits: ReadingLimits, most: int) -> Iterator[Member]:
    """Yield the files of a zip archive with at most so many bytes of each.

    Raises
    ------
    IngestError
        ``malformed``, also for a name that leads out of the archive; ``unsupported``, ``expands_too_much``.
    """
    try:
        check_directory(path)
        with zipfile.ZipFile(path) as archive:
            budget = UnpackingBudget(path.stat().st_size, limits)
            for info in archive.infolist():
                folders, name = _parts(info.filename)
                if not name or info.filename.endswith("/"):
                    continue
                if info.flag_bits & 1:
                    raise IngestError("unsupported", "the zip archive is encrypted")
                with archive.open(info) as file:
                    content = file.read(most)
                budget.spend(len(content))
                yield Member(folders, name, content, is_cut=info.file_size > len(content))
    except DAMAGED_ZIP as error:
        if is_of_the_disk(error):
            raise
        raise IngestError("malformed", "not a whole zip archive: it is damaged or cut off") from None


def check_directory(path: Path) -> None:
    """Refuse a directory that is too large to be read."""
    with path.open("rb") as file:
        size = path.stat().st_size
        file.seek(max(0, size - (1 << 16) - 22))
        tail = file.read()
    end = tail.rfind(b"PK\5\6")
    directory = struct.unpack_from("<I", tail, end + 12)[0] if 0 <= end <= len(tail) - 22 else 0
    if directory == 0xFFFFFFFF:
        extended = tail.rfind(b"PK\6\6")
        directory = struct.unpack_from("<Q", tail, extended + 40)[0] if 0 <= extended <= len(tail) - 56 else 0
    if directory > MAX_DIRECTORY_BYTES:
        raise IngestError("unsupported", "a zip archive of too many files; send a tar archive instead")


def tar_members(path: Path, limits: ReadingLimits, most: int) -> Iterator[Member]:
    """Yield the files of a tar archive, maybe packed by gzip or bzip2, with at most so many bytes of each.

    Raises
    ------
    IngestError
        ``malformed``, also for a name that leads out of the archive; ``truncated``, ``expands_too_much``.
    """
    source = _Source(unpacked(path, limits))
    long_name: str | None = None
    while block := source.read(BLOCK_BYTES):
        if len(block) < BLOCK_BYTES:
            raise _truncated()
        if not block.strip(b"\0"):
            source.skip_rest()  # whether a packed one is whole shows at its end
            return
        try:
            info = tarfile.TarInfo.frombuf(block, "utf-8", "replace")
        except (tarfile.HeaderError, ValueError, OverflowError):
            raise IngestError("malformed", "not a whole tar archive: a header is damaged") from None
        if info.size < 0:
            raise IngestError("malformed", "not a whole tar archive: a negative size")
        padding = -info.size % BLOCK_BYTES
        if info.type in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE):
            if info.size > MAX_EXTENSION_BYTES:
                raise IngestError("malformed", f"a name in the archive has more than {MAX_EXTENSION_BYTES} bytes")
            data = source.read(info.size)
            found = _pax_path(data) if info.type != tarfile.GNUTYPE_LONGNAME else data.rstrip(b"\0")
            long_name = found.decode("utf-8", "replace") if found is not None else long_name
            source.skip(padding)
            continue
        if info.type in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE):
            folders, name = _parts(long_name if long_name is not None else info.name)
            content = source.read(min(most, info.size))
            if len(content) < min(most, info.size):
                raise _truncated()
            yield Member(folders, name, content, is_cut=info.size > len(content))
            source.skip(info.size - len(content) + padding)
        else:  # a folder, a link, a device: nothing to read
            source.skip(info.size + padding)
        if info.type != tarfile.GNUTYPE_LONGLINK:
            long_name = None


def is_tar(path: Path, limits: ReadingLimits) -> bool:
    """Tell whether a file begins as a tar archive does, maybe packed."""
    block = _Source(unpacked(path, limits)).read(BLOCK_BYTES)
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "replace")
    except (tarfile.HeaderError, ValueError, OverflowError):
        return False
    return True


def _truncated() -> IngestError:
    return IngestError("truncated", "the tar archive ends too early; its end is missing")


def _pax_path(data: bytes) -> bytes | None:
    """Return the path that an extended header gives: records ``length key=value\\n``."""  # noqa: D301
    position = 0
    while position < len(data):
        digits, _, _ = data[position : position + 20].partition(b" ")
        length = int(digits) if digits.isdigit() else 0
        if length <= len(digits):
            return None
        key, _, value = data[position + len(digits) + 1 : position + length - 1].partition(b"=")
        if key == b"path":
            return value
        position += length
    return None


class _Source:
    """Reads so many bytes of chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def read(self, size: int) -> bytes:
        """Return `size` bytes, fewer only at the end."""
        parts: list[memoryview] = []
        while size > 0 and (self._rest or self._next()):
            part = self._rest[:size]
            self._rest = self._rest[len(part) :]
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def skip(self, size: int) -> None:
        """Pass over bytes; refuses if there are not as many."""
        while size > 0:
            if not self._rest and not self._next():
                raise _truncated()
            passed = min(size, len(self._rest))
            self._rest = self._rest[passed:]
            size -= passed

    def skip_rest(self) -> None:
        """Pass over all that is left."""
        while self._next():
            pass

    def _next(self) -> bool:
        self._rest = memoryview(next(self._chunks, b""))
        return bool(self._rest)


def _parts(name: str) -> tuple[tuple[str, ...], str]:
    """Tell folders and name apart; refuses a name that leads out of the archive."""
    parts = name.replace("\\", "/").split("/")
    if name[:1] in ("/", "\\") or ".." in parts or parts[0][1:2] == ":":
        raise IngestError("malformed", "a name in the archive leads out of it; expected relative names without ..")
    kept = [part for part in parts if part not in ("", ".")]
    return tuple(kept[:-1]), kept[-1] if kept else ""

"""Arrays of an NPZ file, unpacked to files of their own. Only their headers are parsed; pickles are refused."""

from __future__ import annotations

import math
import shutil
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from service.ingest.errors import IngestError
from service.ingest.limits import UnpackingBudget

MAX_HEADER_BYTES = 10_000
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError, struct.error)
"""What zipfile raises for archives that are not in order."""


@dataclass(frozen=True)
class NpzArray:
    """An array whose items lie in a file, packed no more."""

    name: str
    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool

    @classmethod
    def unpack(
        cls, archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, path: Path, budget: UnpackingBudget
    ) -> NpzArray:
        """Check what the header says, then unpack no more than that."""
        if info.flag_bits & 1:
            raise IngestError("unsupported", "the zip archive is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise IngestError("unsupported", "the zip archive is packed in a way that NumPy does not use")
        with archive.open(info) as member:
            shape, fortran, dtype = read_header(member, name)
            size = dtype.itemsize
            for length in shape:
                size *= length
            budget.spend(size)
            with path.open("wb") as out:
                shutil.copyfileobj(_Bounded(member, size, name), out, 1 << 20)
        return cls(name, path, dtype, shape, fortran)

    @property
    def bytes(self) -> int:
        """Size of all items."""
        return self.dtype.itemsize * math.prod(self.shape)

    def items(self, start: int, stop: int) -> NDArray[Any]:
        """Read items of a 1-D array."""
        return np.fromfile(self.path, self.dtype, stop - start, offset=start * self.dtype.itemsize)

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Read rows of a 2-D array."""
        n, d = self.shape
        if not self.fortran:
            return self.items(start * d, stop * d).reshape(stop - start, d)
        return np.column_stack([self.items(j * n + start, j * n + stop) for j in range(d)])


class _Bounded:
    """A file of exactly so many bytes."""

    def __init__(self, file: IO[bytes], size: int, name: str) -> None:
        self._file = file
        self._left = size
        self._name = name

    def read(self, size: int = 1 << 20, /) -> bytes:
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        if not data and self._left:
            raise IngestError("truncated", f"array {self._name} has fewer items than its header says")
        if not data and self._file.read(1):
            raise IngestError("malformed", f"array {self._name} has more items than its header says")
        return data


def read_header(member: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and type of an array, before which nothing of it was read."""
    try:
        version = np.lib.format.read_magic(member)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = read(member, max_header_size=MAX_HEADER_BYTES)
    except (ValueError, KeyError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise IngestError("malformed", f"array {name} has no readable NumPy header") from None
    if dtype.hasobject:
        raise IngestError("unsupported", f"array {name} holds Python objects; expected numbers or fixed-width text")
    if any(length < 0 for length in shape):
        raise IngestError("malformed", f"array {name} has a negative length")
    return shape, fortran, dtype

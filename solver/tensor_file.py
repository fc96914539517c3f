"""Files of named arrays in the safetensors format, read as if an enemy had written them.

The format (https://github.com/huggingface/safetensors) is eight bytes of header length, a JSON header, then the arrays'
bytes without a gap. The files written here open with the `safetensors` package and the other way round. This reader is
our own because it also takes bytes (a model comes out of a database), never copies, and bounds what a lying header can
cost: nothing is allocated by a declared size, arrays are views of bytes that are there.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# longest header: the columns of a table are in it, of which there may be a hundred thousand
MAX_HEADER_BYTES: Final = 32 << 20
# of JSON, about: so that hostile JSON cannot become much memory. Long lists belong into arrays.
MAX_HEADER_VALUES: Final = 2_000_000
MAX_TENSORS: Final = 256
MAX_DIMENSIONS: Final = 2
_ALIGNMENT: Final = 64

_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "U8": np.dtype("u1"),
}
_NAMES: Final = {dtype: name for name, dtype in _DTYPES.items()}


class TensorFileError(ValueError):
    """The bytes are no file of arrays that could have been written here; its text says what is wrong."""


def write_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]
) -> None:
    """Write arrays to a file, one after the other, without holding a second copy in memory.

    The file appears whole or not at all: it is written beside `path` first, then renamed.

    Parameters
    ----------
    path : path-like
    tensors : mapping of str to ndarray
        One or two dimensions; float64, float32, int64, int32 or uint8.
    metadata : mapping of str to str

    Raises
    ------
    ValueError
        If the arrays or the metadata are more than `read_tensors` would take.
    """
    pieces = tensor_pieces(tensors, metadata)
    start = next(pieces)
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(start)
            file.writelines(pieces)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def tensor_pieces(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> Iterator[bytes | memoryview]:
    """Yield a file of arrays: its header, then each array; see `write_tensors`."""
    # widest items first, so that every array is aligned to its item size
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    offset = 0
    for name, array in ordered:
        if array.dtype not in _NAMES or not 1 <= array.ndim <= MAX_DIMENSIONS:
            raise ValueError(f"array {name!r}: {array.ndim} dimensions of {array.dtype} cannot be stored")
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    yield encode_header(header)
    for _, array in ordered:
        if array.size:
            yield np.ascontiguousarray(array).data


def encode_header(header: Mapping[str, Any]) -> bytes:
    """Return what stands before the arrays; raises `ValueError` if it is more than `read_tensors` would take."""
    encoded = json.dumps(header, allow_nan=False, separators=(",", ":")).encode()
    encoded += b" " * (-(len(encoded) + 8) % _ALIGNMENT)
    arrays = len(header) - ("__metadata__" in header)
    if len(encoded) > MAX_HEADER_BYTES or arrays > MAX_TENSORS:
        raise ValueError(f"{arrays} arrays with a header of {len(encoded)} bytes are more than the format takes")
    return len(encoded).to_bytes(8, "little") + encoded


def read_tensors(source: bytes | str | os.PathLike[str]) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Read arrays from bytes or a file.

    Parameters
    ----------
    source : bytes or path-like
        Bytes are not copied; a file is read once as a whole.

    Returns
    -------
    tensors : dict of str to ndarray
        Read-only views (copies where the file does not align them). Only the form is checked, not what the numbers
        say.
    metadata : dict of str to str

    Raises
    ------
    TensorFileError
        If anything about the form is wrong.
    OSError
        If the file cannot be read.
    """
    content = source if isinstance(source, bytes) else Path(source).read_bytes()
    if len(content) < 8:
        raise TensorFileError(f"too short: {len(content)} bytes, the header length alone takes 8")
    header_bytes = int.from_bytes(content[:8], "little")
    if header_bytes > MAX_HEADER_BYTES or 8 + header_bytes > len(content):
        raise TensorFileError(
            f"the header claims {header_bytes} bytes; there are {len(content) - 8}, and at most "
            f"{MAX_HEADER_BYTES >> 20} MiB are read"
        )
    header = parse_json(content[8 : 8 + header_bytes])
    if not isinstance(header, dict):
        raise TensorFileError("the header is not a JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise TensorFileError("the header's metadata must map text to text")
    if len(header) > MAX_TENSORS:
        raise TensorFileError(f"{len(header)} arrays are declared, at most {MAX_TENSORS} are read")
    data_start = 8 + header_bytes
    tensors: dict[str, NDArray[Any]] = {}
    spans: list[tuple[int, int]] = []
    for name, entry in header.items():
        dtype, shape, start, end = _checked_entry(name, entry)
        if end > len(content) - data_start:
            raise TensorFileError(
                f"array {name!r} ends at byte {end} of {len(content) - data_start}: truncated or lying"
            )
        view = np.frombuffer(content, dtype=dtype, count=(end - start) // dtype.itemsize, offset=data_start + start)
        tensors[name] = (view if view.flags.aligned else view.copy()).reshape(shape)
        spans.append((start, end))
    spans.sort()
    position = 0
    for start, end in spans:
        if start != position:
            raise TensorFileError(f"the arrays overlap or leave a gap at byte {position}")
        position = end
    if position != len(content) - data_start:
        raise TensorFileError(f"{len(content) - data_start - position} bytes after the arrays belong to none")
    return tensors, metadata


def parse_json(text: bytes | str) -> Any:
    """JSON without what only Python understands: no NaN or infinity, and no key twice.

    Raises
    ------
    TensorFileError
        If it is not that, is nested too deeply, or holds too much.
    """
    if (text.count(b",") if isinstance(text, bytes) else text.count(",")) > MAX_HEADER_VALUES:
        raise TensorFileError(f"not valid JSON: it holds more than {MAX_HEADER_VALUES} values")
    try:
        return json.loads(
            text, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant, parse_float=_finite_float
        )
    except (
        ValueError,
        RecursionError,
    ) as error:  # broken UTF-8 and numbers of thousands of digits are ValueErrors, too
        detail = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise TensorFileError(f"not valid JSON: {detail}") from error


def _checked_entry(name: str, entry: Any) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise TensorFileError(f"array {name!r}: expected dtype, shape and data_offsets")
    dtype = _DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if dtype is None:
        raise TensorFileError(f"array {name!r}: the dtype must be one of {', '.join(_DTYPES)}")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not _sizes(shape) or not 1 <= len(shape) <= MAX_DIMENSIONS:
        raise TensorFileError(f"array {name!r}: the shape must be 1 or 2 sizes")
    if not _sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise TensorFileError(f"array {name!r}: data_offsets must be a start and an end")
    if offsets[1] - offsets[0] != math.prod(shape) * dtype.itemsize:
        raise TensorFileError(f"array {name!r}: shape and dtype do not match its {offsets[1] - offsets[0]} bytes")
    return dtype, tuple(shape), offsets[0], offsets[1]


def _sizes(value: Any) -> bool:
    """Whether it is a list of whole numbers from 0 up to what a size can be."""
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 48 for item in value)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key appears twice in one object")
    return made


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is beyond the range of float64")
    return number

"""CBOR (RFC 8949), as far as JSON has the same: what comes from strangers is read with limits on depth and number."""

from __future__ import annotations

import struct
from typing import Any

from service.json_sizes import TooManyValuesError

MAX_DEPTH = 16
MAX_ITEMS = 20_000
"""Values in one message: bytes that are one value each would take a hundred times as much memory as they are."""
_SIMPLE = {20: False, 21: True, 22: None, 23: None}
_FLOATS = {25: ">e", 26: ">f", 27: ">d"}
_LENGTHS = {24: 1, 25: 2, 26: 4, 27: 8}
_BREAK = object()


class CborError(ValueError):
    """These bytes are none, or are more than is read."""


class TooManyItemsError(CborError, TooManyValuesError):
    """These bytes hold more values than `MAX_ITEMS`."""


def loads(data: bytes) -> Any:
    """Return the value that bytes stand for, tags left out; raises `CborError`.

    Keys of maps must be texts, as in JSON.
    """
    reader = _Reader(data)
    value = reader.value(0)
    if value is _BREAK or reader.at != len(data):
        raise CborError("expected one value and nothing behind it")
    return value


def dumps(value: Any) -> bytes:
    """Return the bytes of None, a bool, an int, a str, bytes, a list or a dict of such."""
    match value:
        case None:
            return b"\xf6"
        case bool():
            return b"\xf5" if value else b"\xf4"
        case int():
            return _head(0, value) if value >= 0 else _head(1, -1 - value)
        case bytes():
            return _head(2, len(value)) + value
        case str():
            data = value.encode()
            return _head(3, len(data)) + data
        case list() | tuple():
            return _head(4, len(value)) + b"".join(map(dumps, value))
        case dict():
            return _head(5, len(value)) + b"".join(dumps(part) for item in value.items() for part in item)
    raise TypeError(f"no CBOR for {type(value).__name__}")


def _head(major: int, argument: int) -> bytes:
    if argument < 24:
        return bytes([major << 5 | argument])
    for kind, size in _LENGTHS.items():
        if argument < 1 << 8 * size:
            return bytes([major << 5 | kind]) + argument.to_bytes(size)
    raise OverflowError("CBOR: an integer of more than 64 bits")


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.at = 0
        self._data = data
        self._left = MAX_ITEMS

    def value(self, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise TooManyItemsError(f"expected at most {MAX_ITEMS} values")
        if depth > MAX_DEPTH:
            raise CborError(f"expected at most {MAX_DEPTH} levels")
        first = self._take(1)[0]
        major, kind = first >> 5, first & 31
        if major == 7:
            return self._simple(kind)
        argument = None if kind == 31 else self._argument(kind)
        match major:
            case 0 | 1 if argument is not None:
                return argument if major == 0 else -1 - argument
            case 2 | 3:
                return self._string(major, argument, depth)
            case 4:
                return [each for (each,) in self._entries(argument, 1, depth)]
            case 5:
                entries = self._entries(argument, 2, depth)
                if not all(isinstance(key, str) for key, _ in entries):
                    raise CborError("expected texts as keys")
                return dict(entries)
            case 6 if argument is not None:
                value = self.value(depth + 1)
                if value is not _BREAK:
                    return value
        raise CborError("expected a length")

    def _simple(self, kind: int) -> Any:
        if kind == 31:
            return _BREAK
        if kind in _FLOATS:
            (number,) = struct.unpack(_FLOATS[kind], self._take(_LENGTHS[kind]))
            return number
        if kind not in _SIMPLE:
            raise CborError("expected false, true, null or a number")
        return _SIMPLE[kind]

    def _string(self, major: int, length: int | None, depth: int) -> bytes | str:
        if length is not None:
            data = self._take(length)
        else:
            pieces = self._entries(None, 1, depth)
            if not all(isinstance(piece, bytes if major == 2 else str) for (piece,) in pieces):
                raise CborError("expected pieces of one string")
            return b"".join(p for (p,) in pieces) if major == 2 else "".join(p for (p,) in pieces)
        if major == 2:
            return data
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise CborError("expected texts in UTF-8") from None

    def _entries(self, count: int | None, size: int, depth: int) -> list[tuple[Any, ...]]:
        """Return so many entries of `size` values, or those up to the break."""
        if count is not None and count * size > self._left:
            raise TooManyItemsError(f"expected at most {MAX_ITEMS} values")
        found: list[tuple[Any, ...]] = []
        while count is None or len(found) < count:
            values = []
            for i in range(size):
                value = self.value(depth + 1)
                if value is _BREAK:
                    if count is None and i == 0:
                        return found
                    raise CborError("expected a value, and not an end")
                values.append(value)
            found.append(tuple(values))
        return found

    def _argument(self, kind: int) -> int:
        if kind < 24:
            return kind
        if kind not in _LENGTHS:
            raise CborError("expected a length")
        return int.from_bytes(self._take(_LENGTHS[kind]))

    def _take(self, count: int) -> bytes:
        if count > len(self._data) - self.at:
            raise CborError("expected more bytes")
        self.at += count
        return self._data[self.at - count : self.at]

"""Reads ARFF, the format of Weka: dense rows and sparse ones."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from service.ingest.batches import rows_of_values
from service.ingest.errors import IngestError
from service.ingest.limits import CELL_BYTES, ReadingLimits, check_laid_out
from service.ingest.options import TableOptions
from service.ingest.profile import Columnar, checked_names
from service.ingest.stream import ChunkReader, check_beginning, recoded, unpacked, with_bounded_lines
from service.ingest.table import TableReader, check_columns

BATCH_CHARACTERS = 16 << 20
_ATTRIBUTE = re.compile(
    r"""@attribute\s+(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^\s'"{}%,]+))\s*(.*)""", re.IGNORECASE | re.DOTALL
)
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")
_BARE = re.compile(r"[^,\t{}'\"%]*")
_LISTED = re.compile(r"[^}'\"]+")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NEEDS_CARE = re.compile(r"""['"\\%{}\t]""")
_INDEX = re.compile(r"[0-9]{1,9}")
Value = float | str | None


def read_arff(path: Path, options: TableOptions, limits: ReadingLimits, output: Path, warnings: list[str]) -> Columnar:
    """Write the ``table`` layout of an ARFF file, maybe gzipped.

    Numeric attributes are numbers, nominal ones categories, strings and dates what they look like. ``?`` is
    missing. What a sparse row leaves out is 0, which for a nominal attribute means its first value. Weights of rows are
    refused, relational attributes too.

    Raises
    ------
    IngestError
    """
    return _Reader(path, options, limits, warnings).store(output)


@dataclass(frozen=True)
class _Attribute:
    name: str
    type: str
    """``numeric``, ``nominal``, ``string`` or ``date``."""
    values: tuple[str, ...] = ()
    """Of a nominal attribute."""

    @property
    def default(self) -> Value:
        """What a sparse row means that does not mention it."""
        if self.type == "numeric":
            return 0.0
        return self.values[0] if self.values else None


class _Reader(TableReader):
    def __init__(self, path: Path, options: TableOptions, limits: ReadingLimits, warnings: list[str]) -> None:
        super().__init__(path, options, limits, warnings)
        check_beginning(path, limits)
        self._attributes: list[_Attribute] = []
        next(self._rows(), None)  # reads the header
        self._allowed = [frozenset(each.values) for each in self._attributes]
        names = checked_names([each.name for each in self._attributes], warnings)
        self._know(names, ["number" if each.type == "numeric" else "text" for each in self._attributes])

    def store(self, output: Path) -> Columnar:
        return self._store(output, {j: "category" for j, each in enumerate(self._attributes) if each.type == "nominal"})

    # -- lines --------------------------------------------------------------------------------------------------------

    def _lines(self) -> Iterator[tuple[int, str]]:
        """Yield what is neither empty nor a comment, with its line."""
        chunks = with_bounded_lines(recoded(unpacked(self._path, self._limits), None), self._limits.max_line_bytes)
        text = io.TextIOWrapper(io.BufferedReader(ChunkReader(chunks), 1 << 20), encoding="utf-8")
        for number, line in enumerate(text, start=1):
            stripped = line.strip()
            if stripped and not stripped.startswith("%"):
                yield number, stripped

    def _rows(self) -> Iterator[tuple[int, str]]:
        """Read the header, then yield the rows with their lines."""
        attributes: list[_Attribute] = []
        lines = self._lines()
        for number, line in lines:
            word = line.split(None, 1)[0].lower()
            if word == "@attribute":
                check_columns(len(attributes) + 1, self._limits, line=number)
                attributes.append(_attribute(line, number))
            elif word == "@data":
                break
            elif word != "@relation":
                raise IngestError("malformed", "expected @relation, @attribute or @data", line=number)
        else:
            raise IngestError("malformed" if attributes else "empty", "the file has no @data; expected an ARFF file")
        if not attributes:
            raise IngestError("malformed", "the file has no @attribute")
        self._attributes = attributes
        yield from lines

    def _batches(self) -> Iterator[list[pa.Array]]:
        most = rows_of_values(len(self._names))
        rows: list[list[Value]] = []
        size = 0
        packed = self._path.stat().st_size
        for count, (number, line) in enumerate(self._rows(), start=1):
            row_bytes = len(line)
            if line.startswith("{"):  # what it leaves out is in no line
                row_bytes += sum(max(CELL_BYTES, len(str(each.default))) for each in self._attributes)
                check_laid_out(count * row_bytes, packed, line=number)
            rows.append(self._row(line, number))
            size += row_bytes
            if len(rows) == most or size > BATCH_CHARACTERS:
                yield self._columns(rows)
                rows, size = [], 0
        if rows:
            yield self._columns(rows)

    def _columns(self, rows: list[list[Value]]) -> list[pa.Array]:
        return [
            pa.array(values, pa.float64() if attribute.type == "numeric" else pa.string())
            for attribute, values in zip(self._attributes, zip(*rows, strict=True), strict=True)
        ]

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _row(self, line: str, number: int) -> list[Value]:
        if line.startswith("{"):
            return self._sparse_row(line, number)
        if _NEEDS_CARE.search(line):
            texts, quoted = _split(line, number)
        else:
            texts = [text.strip() for text in line.split(",")]
            quoted = frozenset[int]()
        if len(texts) != len(self._attributes):
            raise IngestError(
                "ragged",
                f"a row of {len(texts)} values; expected {len(self._attributes)}, one an attribute",
                line=number,
            )
        return [self._value(j, text, j in quoted, number) for j, text in enumerate(texts)]

    def _sparse_row(self, line: str, number: int) -> list[Value]:
        if not line.endswith("}"):
            raise IngestError("malformed", "a sparse row without its closing brace, or with a weight", line=number)
        row = [each.default for each in self._attributes]
        inner = line[1:-1].strip()
        texts, quoted = _split(inner, number, sparse=True) if inner else ([], frozenset[int]())
        last = -1
        for place, text in enumerate(texts):
            index_text, _, value = text.partition(" ")
            index = int(index_text) if _INDEX.fullmatch(index_text) else -1
            if not last < index < len(row) or not value:
                raise IngestError(
                    "malformed",
                    "expected {index value, index value, …} with ascending indices of attributes",
                    line=number,
                )
            row[index] = self._value(index, value, place in quoted, number)
            last = index
        return row

    def _value(self, position: int, text: str, quoted: bool, line: int) -> Value:
        if (text == "?" and not quoted) or text in self._missing:
            return None
        attribute = self._attributes[position]
        if attribute.type == "numeric":
            if self._words.is_one(position, text):
                return None
            value = float(text) if _NUMBER.fullmatch(text) else math.nan
            if not math.isfinite(value):
                raise self._bad_value(position, "something that is no finite number; a missing one is ?", line)
            return value
        if attribute.type == "nominal" and text not in self._allowed[position]:
            raise self._bad_value(position, "a value that its @attribute does not list", line)
        return text or None

    def _bad_value(self, position: int, what: str, line: int) -> IngestError:
        name = self._names[position]
        return IngestError("bad_value", f"column {name!r} holds {what}", line=line, column=name)


def _attribute(line: str, number: int) -> _Attribute:
    found = _ATTRIBUTE.fullmatch(line)
    if found is None:
        raise IngestError("malformed", "expected @attribute name type", line=number)
    name = _unescaped(found[1] or found[2] or "") if found[3] is None else found[3]
    kind = found[4].strip()
    if kind.startswith("{"):
        values, rest = _listed(kind[1:], number)
        if rest and not rest.startswith("%"):
            raise IngestError(
                "malformed",
                "expected nothing but a comment, which begins with %, behind the closing brace",
                line=number,
            )
        return _Attribute(name, "nominal", tuple(values))
    word = kind.split(None, 1)[0].lower() if kind else ""
    if word in ("numeric", "real", "integer"):
        return _Attribute(name, "numeric")
    if word in ("string", "date"):
        return _Attribute(name, word)
    if word == "relational":
        raise IngestError("unsupported", "relational attributes cannot be used", line=number)
    raise IngestError("malformed", "expected numeric, string, date or {value, value, …} as the type", line=number)


def _listed(text: str, number: int) -> tuple[list[str], str]:
    """Return the values up to the brace that closes their list, and what follows it."""
    end = 0
    while text[end : end + 1] != "}":
        found = _QUOTED.match(text, end) or _LISTED.match(text, end)
        if found is None:
            raise IngestError("malformed", "a nominal attribute without its closing brace", line=number)
        end = found.end()
    inner = text[:end].strip()
    return (_split(inner, number, comment=False)[0] if inner else []), text[end + 1 :].strip()


def _split(text: str, number: int, *, sparse: bool = False, comment: bool = True) -> tuple[list[str], frozenset[int]]:
    """Tell values apart, and say which of them stood in quotes; a sparse one keeps its index and a blank in front."""
    values: list[str] = []
    quoted: set[int] = set()
    position = 0
    while True:
        position = _after_blanks(text, position)
        index = ""
        if sparse:
            found = _INDEX.match(text, position)
            index = f"{found[0] if found else ''} "
            position = _after_blanks(text, found.end() if found else position)
        if text[position : position + 1] in ("'", '"'):
            found = _QUOTED.match(text, position)
            if found is None:
                raise IngestError("malformed", "a quote that is never closed", line=number)
            value = _unescaped(found[1] if found[1] is not None else found[2])
            quoted.add(len(values))
        else:
            found = _BARE.match(text, position)
            assert found is not None  # noqa: S101 (it matches an empty text)
            value = found[0].strip()
            if "\\" in value:
                value = _unescaped(value)
        values.append(index + value)
        position = _after_blanks(text, found.end())
        following = text[position : position + 1]
        if following in ("", "%"):
            if following and not comment:
                raise IngestError(
                    "malformed", "a value with % has to stand in quotes, else a comment begins", line=number
                )
            return values, frozenset(quoted)
        if following != ",":
            raise IngestError(
                "malformed", "expected a comma between values; weights of rows cannot be used", line=number
            )
        position += 1


def _after_blanks(text: str, position: int) -> int:
    while text[position : position + 1] in (" ", "\t"):
        position += 1
    return position


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        what = match[1]
        if len(what) == 5:
            character = chr(int(what[1:], 16))
            return character if character.isprintable() else "\ufffd"
        return _ESCAPED.get(what, what)

    return _ESCAPE.sub(plain, text)

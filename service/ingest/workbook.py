"""Opens the first sheet of an Excel workbook (.xlsx), once it is known that laying it out takes no more than it may."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import python_calamine as calamine
from numpy.typing import NDArray

from service.ingest.archive import DAMAGED_ZIP, check_directory
from service.ingest.errors import IngestError, is_of_the_disk
from service.ingest.limits import ReadingLimits, UnpackingBudget
from service.ingest.stream import CHUNK_BYTES
from service.ingest.table import check_columns

MAX_LAID_OUT_CELLS = 40_000_000
"""Between the outermost cells; the library lays out all of them, at 24 to 64 bytes each."""
MAX_TEXT_BYTES = 1 << 30
"""Of the texts of all cells. A workbook has each text once, and the library makes one of its own for each cell."""
MAX_ROW_BYTES = 16 << 20
"""Of XML."""
MAX_SMALL_PART_BYTES = 16 << 20
"""Of the list of sheets, which is read as a whole."""
_OLD_OR_LOCKED = b"\xd0\xcf\x11\xe0"
_ADVICE = "save the sheet as .xlsx or CSV"
_TEXTS = "xl/sharedstrings.xml"
_ROOT_LINKS = "_rels/.rels"
_WORKBOOK = "xl/workbook.xml"
_STYLES = "xl/styles.xml"
_PERCENT_FORMATS = ("9", "10")
"""Numbers of formats that every workbook has."""
_NOT_SHOWN = re.compile(r'"[^"]*"|[\\_*].', re.DOTALL)
"""What in the code of a format is no sign of it."""
_LINKS = "xl/_rels/workbook.xml.rels"
_DOCTYPE = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS = b"0123456789"
_REFERENCE = re.compile(rb"""<(?:\w+:)?c\s(?:[^>]*?\s)?r\s*=\s*["']([A-Za-z]{1,3}[0-9]{1,7})["']""")
_ANY_CELL = re.compile(rb"<(?:\w+:)?c[\s/>]")
_ANY_ROW = re.compile(rb"<(?:\w+:)?row[\s/>]")
_ROW_NUMBER = re.compile(rb"""<(?:\w+:)?row\s(?:[^>]*?\s)?r\s*=\s*["']([0-9]{1,7})["']""")
_TEXT = re.compile(rb"<(?:\w+:)?si[\s/>]")
_TEXT_USED = re.compile(rb"""\st\s*=\s*["']s["'][^>]*>\s*<(?:\w+:)?v>\s*([0-9]{1,9})""")
_ERROR = re.compile(rb"""<(?:\w+:)?c\s(?:[^>]*\s)?t\s*=\s*["']e["'][^>]*>""")
_WITHOUT_VALUE = re.compile(
    rb"<(?:\w+:)?c(\s[^>]*)?>\s*<(?:\w+:)?f(?:\s[^>]*)?(?:/>|>[^<]*</(?:\w+:)?f>)\s*"
    rb"(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v>\s*</(?:\w+:)?v>)?\s*</(?:\w+:)?c>"
)
_STYLED = re.compile(rb"""<(?:\w+:)?c\s(?:[^>]*?\s)?s\s*=\s*["']([0-9]{1,6})["'][^>]*>""")
_IS_TEXT = re.compile(rb"""\st\s*=\s*["']str["']""")


@dataclass
class Sheet:
    """The first sheet.

    Attributes
    ----------
    cells : python_calamine.CalamineSheet
        Its rows begin with the first row of the sheet, their values with `first_column`.
    first_column : int
        0 for A.
    errors : Counter of int
        Cells with an error such as ``#DIV/0!``, by their column (0 for A).
    without_value : int
        Formulas whose value was never calculated.
    percents : dict of int to bytearray
        By column (0 for `first_column`), for each row (1 for the first of the sheet) whether its cell is shown as
        percent; not as far as the last row.
    unplaced_percents : int
        Such cells that do not say where they are.
    """

    cells: calamine.CalamineSheet
    first_column: int
    errors: Counter[int]
    without_value: int
    percents: dict[int, bytearray]
    unplaced_percents: int


def open_first_sheet(path: Path, limits: ReadingLimits, warnings: list[str]) -> Sheet:
    """Return the first sheet that is shown.

    All parts that the library will read are unpacked here once before, against the limits; cells are laid out as a
    rectangle, so the outermost ones have to be known first.

    Raises
    ------
    IngestError
        ``unsupported`` for what other programs write, ``malformed``, ``expands_too_much``, ``too_many_columns``,
        ``too_many_cells``, ``too_long``, ``empty``.
    """
    with path.open("rb") as file:
        magic = file.read(4)
    if magic == _OLD_OR_LOCKED:
        raise IngestError(
            "unsupported", f"a workbook of an old Excel (.xls), or one with a password; {_ADVICE} without a password"
        )
    if not magic.startswith(b"PK"):
        raise IngestError("malformed", f"not an Excel workbook (.xlsx); {_ADVICE}")
    try:
        check_directory(path)
        with zipfile.ZipFile(path) as archive:
            package = _Package(archive, path.stat().st_size, limits)
            index, part = package.first_sheet(warnings)
            outline = package.checked(part)
        workbook = calamine.CalamineWorkbook.from_path(str(path))
        cells = workbook.get_sheet_by_index(index)
    except calamine.PasswordError:
        raise IngestError("unsupported", "the workbook has a password; save it without one") from None
    except (calamine.CalamineError, ElementTree.ParseError, *DAMAGED_ZIP) as error:
        if is_of_the_disk(error):
            raise
        raise IngestError("malformed", "not a whole Excel workbook: it is damaged or cut off") from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # how the library's own faults come here
            raise
        raise IngestError("malformed", "not a whole Excel workbook: it is damaged") from None
    if cells.start is None:
        raise IngestError("empty", "the first sheet is empty; expected column names and rows")
    first = cells.start[1]
    percents = {column - first: rows for column, rows in outline.percents.items() if 0 <= column - first < cells.width}
    return Sheet(cells, first, outline.errors, outline.without_value, percents, outline.unplaced_percents)


class _Package:
    """The parts of a workbook."""

    def __init__(self, archive: zipfile.ZipFile, packed: int, limits: ReadingLimits) -> None:
        self._archive = archive
        self._limits = limits
        self._budget = UnpackingBudget(packed, limits)
        self._parts: dict[str, zipfile.ZipInfo] = {}
        for info in archive.infolist():
            name = info.filename.replace("\\", "/").lower()
            if name in self._parts:
                raise IngestError("malformed", "not an Excel workbook: a part is there twice")
            if info.flag_bits & 1:
                raise IngestError("unsupported", "the workbook is encrypted; save it without a password")
            self._parts[name] = info
        if _WORKBOOK not in self._parts:
            what = "an Excel workbook of the binary kind (.xlsb)" if "xl/workbook.bin" in self._parts else ""
            what = "a sheet of another program (.ods)" if "content.xml" in self._parts else what
            raise IngestError("unsupported" if what else "malformed", f"{what or 'no Excel workbook'}; {_ADVICE}")

    def first_sheet(self, warnings: list[str]) -> tuple[int, str]:
        """Return the position and the part of the first sheet with cells that is not hidden."""
        roots = [link.get("Target", "") for link in self._elements(_ROOT_LINKS, "Relationship")]
        if _WORKBOOK not in (target.lstrip("/").lower() for target in roots):
            raise IngestError("malformed", f"not an Excel workbook as other programs write them; {_ADVICE}")
        links = {link.get("Id"): link.get("Target", "") for link in self._elements(_LINKS, "Relationship")}
        sheets = []
        for element in self._elements(_WORKBOOK, "sheet"):
            link = next((value for name, value in element.items() if name.endswith("}id")), None)
            hidden = element.get("state", "visible") != "visible"
            sheets.append((element.get("name", ""), _part_of(links.get(link, "")), hidden))
        shown = [
            (index, part)
            for index, (_, part, hidden) in enumerate(sheets)
            if not hidden and part in self._parts and not part.startswith(("xl/chartsheets/", "xl/dialogsheets/"))
        ]
        if not shown:
            raise IngestError("empty", "the workbook has no sheet with cells that is not hidden")
        if len(sheets) > 1:
            index = shown[0][0]
            name = sheets[index][0]
            warnings.append(
                f"the workbook has {len(sheets)} sheets, of which {name[:100]!r} was read, the first that is shown; "
                "upload others each by itself"
            )
        return shown[0]

    def checked(self, sheet: str) -> _Outline:
        """Unpack the parts that will be read, and return where the cells of the sheet are."""
        for name in self._parts:
            if name.startswith("xl/") and name.count("/") == 1 and name not in (sheet, _TEXTS):
                for _ in self._chunks(name):
                    pass
        outline = _Outline(self._limits, self._text_lengths(), self._percent_styles())
        for chunk in self._chunks(sheet):
            outline.add(chunk)
        outline.close()
        return outline

    def _percent_styles(self) -> frozenset[bytes]:
        """Return the styles of cells that show a number as percent, as cells name them."""
        if _STYLES not in self._parts:
            return frozenset()
        root = ElementTree.fromstring(self._small(_STYLES))  # noqa: S314 (entities are refused)
        formats = {
            element.get("numFmtId"): element.get("formatCode", "") for element in root.iter() if _is(element, "numFmt")
        }
        percent = {*_PERCENT_FORMATS, *(key for key, code in formats.items() if "%" in _NOT_SHOWN.sub("", code))}
        styles = next((element for element in root.iter() if _is(element, "cellXfs")), ())
        return frozenset(str(j).encode() for j, style in enumerate(styles) if style.get("numFmtId") in percent)

    def _text_lengths(self) -> NDArray[np.int64]:
        """Return how long the XML of each text is that cells share."""
        starts: list[int] = []
        passed, rest = 0, b""
        for chunk in self._chunks(_TEXTS) if _TEXTS in self._parts else ():
            text = rest + chunk
            cut = max(text.rfind(b"<"), 0)
            starts += [passed + found.start() for found in _TEXT.finditer(text, 0, cut)]
            passed += cut
            rest = text[cut:]
            if len(rest) > self._limits.max_line_bytes:
                raise IngestError("too_long", f"a text of more than {self._limits.max_line_bytes} bytes")
        ends = [*starts[1:], passed] if starts else []
        return np.array(ends, dtype=np.int64) - np.array(starts, dtype=np.int64)

    def _elements(self, part: str, name: str) -> list[ElementTree.Element]:
        """Return the elements of that name in a part that is small in any workbook."""
        root = ElementTree.fromstring(self._small(part))  # noqa: S314 (entities are refused)
        return [element for element in root.iter() if element.tag.endswith(f"}}{name}")]

    def _small(self, name: str) -> bytes:
        """Return a part that is small in any workbook."""
        data = b""
        for chunk in self._chunks(name):
            data += chunk
            if len(data) > MAX_SMALL_PART_BYTES:
                raise IngestError("unsupported", f"a workbook with too many sheets, names or styles; {_ADVICE}")
        return data

    def _chunks(self, name: str) -> Iterator[bytes]:
        if name not in self._parts:
            raise IngestError("malformed", "not a whole Excel workbook: a part is missing")
        before = b""
        with self._archive.open(self._parts[name]) as file:
            while chunk := file.read(CHUNK_BYTES):
                self._budget.spend(len(chunk))
                if b"\0" in chunk:
                    raise IngestError("malformed", f"not an Excel workbook: a part is not in UTF-8; {_ADVICE}")
                if _DOCTYPE.search(before + chunk):
                    raise IngestError("malformed", "not an Excel workbook: a part declares entities")
                before = chunk[-16:]
                yield chunk


@dataclass
class _Outline:
    """Where the cells of a sheet are, told from its XML without laying it out."""

    limits: ReadingLimits
    text_lengths: NDArray[np.int64]
    percent_styles: frozenset[bytes]
    percents: dict[int, bytearray] = field(default_factory=dict)
    """By column (0 for A), for each row whether its cell is shown as percent."""
    unplaced_percents: int = 0
    errors: Counter[int] = field(default_factory=Counter)
    without_value: int = 0
    _rest: bytes = b""
    _text_bytes: int = 0
    _columns: set[bytes] = field(default_factory=set)
    _rows: int = 0
    _unnumbered_rows: int = 0
    _unnumbered_cells: int = 0
    """Most cells without a reference in one piece: they go on behind the one before."""

    def add(self, chunk: bytes) -> None:
        text = self._rest + chunk
        prefixed = text.rfind(b":row")
        cut = max(text.rfind(b"<row"), text.rfind(b"<", 0, prefixed) if prefixed >= 0 else 0, 0)
        self._rest = text[cut:]
        if len(self._rest) > MAX_ROW_BYTES:
            raise IngestError("too_long", f"a row of more than {MAX_ROW_BYTES} bytes", line=self._rows + 1)
        self._look_at(text[:cut])

    def close(self) -> None:
        """Take the end into account; refuses what would be too large."""
        self._look_at(self._rest)
        self._rest = b""
        self._check()

    def _look_at(self, text: bytes) -> None:
        references = _REFERENCE.findall(text)
        if references:
            # All at once: a sheet has millions.
            line = b" ".join(references).upper()
            self._columns.update(line.translate(None, _DIGITS).split())
            self._rows = max(self._rows, *map(int, set(line.translate(None, _LETTERS).split())), 0)
        if len(references) < len(_ANY_CELL.findall(text)):
            most = max(len(_ANY_CELL.findall(row)) - len(_REFERENCE.findall(row)) for row in _ANY_ROW.split(text))
            self._unnumbered_cells = max(self._unnumbered_cells, most)
            numbers = _ROW_NUMBER.findall(text)
            self._rows = max(self._rows, *map(int, numbers), 0) if numbers else self._rows
            self._unnumbered_rows += len(_ANY_ROW.findall(text)) - len(numbers)
        if len(self.text_lengths) and (used := _TEXT_USED.findall(text)):
            places = np.array(list(map(int, used)))
            self._text_bytes += int(self.text_lengths[places[places < len(self.text_lengths)]].sum())
            if self._text_bytes > MAX_TEXT_BYTES:
                raise IngestError(
                    "expands_too_much",
                    f"the texts of all cells have more than {MAX_TEXT_BYTES} bytes; save the sheet as CSV",
                )
        if b'"e"' in text or b"'e'" in text:
            for cell in _ERROR.finditer(text):
                reference = _REFERENCE.match(cell[0])
                self.errors[_column(reference[1].upper().rstrip(_DIGITS)) if reference else -1] += 1
        if b"<f" in text or b":f" in text:
            found = _WITHOUT_VALUE.finditer(text)
            self.without_value += sum(not _IS_TEXT.search(cell[1] or b"") for cell in found)
        self._check()
        if self.percent_styles:
            self._note_percents(text)

    def _note_percents(self, text: bytes) -> None:
        for cell in _STYLED.finditer(text):
            if cell[1] not in self.percent_styles:
                continue
            reference = _REFERENCE.match(cell[0])
            if reference is None:
                self.unplaced_percents += 1
                continue
            letters = reference[1].upper().rstrip(_DIGITS)
            row = int(reference[1][len(letters) :])
            rows = self.percents.setdefault(_column(letters), bytearray())
            rows.extend(bytes(max(0, row + 1 - len(rows))))
            rows[row] = 1

    def _check(self) -> None:
        columns = [_column(letters) for letters in self._columns]
        first, last = (min(columns), max(columns)) if columns else (0, -1)
        width = last + 1 - first + self._unnumbered_cells
        check_columns(width, self.limits)
        rows = self._rows + self._unnumbered_rows
        if rows * width > min(MAX_LAID_OUT_CELLS, self.limits.max_cells):
            raise IngestError(
                "too_many_cells",
                f"cells lie as far apart as {rows} rows × {width} columns, of which at most {MAX_LAID_OUT_CELLS} cells "
                "can be read; delete what lies outside of the table, or save the sheet as CSV",
            )


def _is(element: ElementTree.Element, name: str) -> bool:
    return element.tag.rpartition("}")[2] == name


def _column(letters: bytes) -> int:
    """Return 0 for A."""
    number = 0
    for letter in letters:
        number = number * 26 + letter - 64
    return number - 1


def _part_of(target: str) -> str:
    """Return the part that a link of the workbook leads to, as the library does."""
    target = target.replace("\\", "/").lower()
    if target.startswith("/"):
        return target[1:]
    return target if target.startswith("xl/") else f"xl/{target}"

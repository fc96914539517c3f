"""Workbooks written by two independent programs, and ones that nobody should write."""

from __future__ import annotations

import datetime
import io
import zipfile
from collections.abc import Callable
from typing import Any

import openpyxl
import pytest
from ingest_helpers import Read, book, refusal
from openpyxl.utils.datetime import CALENDAR_MAC_1904

from service.ingest import workbook as workbook_module
from service.ingest.options import guess_format

DAY = datetime.date(2026, 11, 28)
TIME = datetime.datetime(2026, 11, 28, 13, 45, 30)


def changed(data: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    """The same workbook with another part."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            content = old.read(info)
            new.writestr(info.filename, change(content) if info.filename == name else content)
    return out.getvalue()


SHEET = "xl/worksheets/sheet1.xml"


def with_cells(xml: bytes) -> bytes:
    """A workbook with cells of one's own."""
    return changed(book([["a", "b"], [1, 2]]), SHEET, lambda old: old.replace(b"</sheetData>", xml + b"</sheetData>"))


def test_each_kind_of_cell_is_what_it_is() -> None:
    read = Read(
        book(
            [
                ["number", "day", "time", "flag", "formula", "word", "code"],
                [1.5, DAY, TIME, True, "=A2*2|3", "red", "0123"],
                [None, None, None, False, "=A3*2|0", "blue", "0045"],
                [-2e10, DAY, TIME, True, "=A4*2|-4e10", "red", "9999"],
            ]
        ),
        "xlsx",
    )
    assert read.table == {
        "number": [1.5, None, -2e10],
        "day": ["2026-11-28", None, "2026-11-28"],
        "time": ["2026-11-28 13:45:30", None, "2026-11-28 13:45:30"],
        "flag": ["true", "false", "true"],
        "formula": [3.0, 0.0, -4e10],
        "word": ["red", "blue", "red"],
        "code": ["0123", "0045", "9999"],
    }
    assert read.kinds == {
        **{"number": "number", "day": "date", "time": "date", "flag": "category"},
        **{"formula": "number", "word": "category", "code": "category"},
    }
    assert read.warnings == []


@pytest.mark.parametrize("date_1904", [False, True])
def test_days_are_the_same_in_both_calendars(date_1904: bool) -> None:
    days = [datetime.date(1999, 12, 31), datetime.date(2000, 2, 29), DAY]
    rows: list[list[Any]] = [["day"], *([day] for day in days)]
    assert Read(book(rows, date_1904=date_1904), "xlsx").table["day"] == [day.isoformat() for day in days]


def test_another_program_writes_texts_into_the_cells_and_counts_from_1904() -> None:
    written = openpyxl.Workbook()
    written.epoch = CALENDAR_MAC_1904
    for row in (["name", "day", "ok"], ["ä", DAY, True], ["b", TIME, False]):
        written.active.append(row)
    out = io.BytesIO()
    written.save(out)
    read = Read(out.getvalue(), "xlsx")
    assert read.table == {
        "name": ["ä", "b"],
        "day": ["2026-11-28", "2026-11-28 13:45:30"],
        "ok": ["true", "false"],
    }
    assert read.kinds["day"] == "date"


def test_formulas_that_were_never_calculated_are_said() -> None:
    written = openpyxl.Workbook()
    for row in (["x", "y"], [1, "=A2*2"], [2, "=A3*2"]):
        written.active.append(row)
    out = io.BytesIO()
    written.save(out)
    read = Read(out.getvalue(), "xlsx")
    assert read.table == {"x": [1.0, 2.0], "y": [None, None]}
    assert any("2 formulas have no stored value" in each for each in read.warnings)
    # An empty text is a value.
    cell = b'<row r="3"><c r="A3"><v>2</v></c><c r="B3" t="str"><f>""</f><v></v></c></row>'
    assert not Read(with_cells(cell), "xlsx").warnings


def test_errors_are_missing_and_said() -> None:
    read = Read(book([["x", "y"], [1, "=1/0|#DIV/0!"], [2, 5], [3, "=NA()|#N/A"]]), "xlsx")
    assert read.table["y"] == [None, 5.0, None]
    assert [each for each in read.warnings if "error" in each] == [
        "column 'y': 2 cells with an error (#DIV/0!, …) count as missing"
    ]


def test_numbers_stored_as_text_and_words_for_missing() -> None:
    read = Read(book([["x"], [1], ["2.5"], ["NA"], [3]]), "xlsx")
    assert read.table == {"x": [1.0, 2.5, None, 3.0]}
    assert read.columns["x"]["missing_words"] == {"NA": 1}
    assert any("1 numbers stored as text" in each for each in read.warnings)
    # Zeros in front are codes, a long one is an identifier, and so is a column of nothing but texts.
    assert Read(book([["x"], [1], ["007"], [3]]), "xlsx").table == {"x": ["1", "007", "3"]}
    assert Read(book([["x"], [1], ["12345678901234567890"]]), "xlsx").table["x"] == ["1", "12345678901234567890"]
    read = Read(book([["x"], *([str(i)] for i in range(40))]), "xlsx")
    assert read.kinds == {"x": "category"}
    assert any("all of its texts are numbers" in each for each in read.warnings)
    assert Read(book([["x"], ["1"], ["2"]]), "xlsx", {"columns": {"x": "number"}}).table == {"x": [1.0, 2.0]}


def test_a_column_of_two_kinds_is_text_and_says_where() -> None:
    read = Read(book([["x", "y"], [1, 1], [2, 1], ["n. d.", 2], [4, 2]]), "xlsx")
    assert read.table["x"] == ["1", "2", "n. d.", "4"]
    assert any("1 cells that are none, the first in row 4" in each for each in read.warnings)
    read = Read(book([["x", "y"], [1, 1], [2, 1], ["n. d.", 2], [4, 2]]), "xlsx", {"missing": ["n. d."]})
    assert read.table["x"] == [1.0, 2.0, None, 4.0]


def test_durations_are_days_and_said() -> None:
    read = Read(book([["x"], [datetime.timedelta(hours=36)], [datetime.timedelta(hours=12)]]), "xlsx")
    assert read.table == {"x": [1.5, 0.5]}
    assert any("durations" in each for each in read.warnings)


def test_titles_empty_rows_and_columns_and_merged_names() -> None:
    read = Read(
        book(
            [
                ["Patients of 2026"],
                [None, None, None, None],
                [None, "age", None, "both", None],
                [None, 30, None, "x", 1],
                [None, None, None, None, None],
                [None, 40, None, "y", 2],
            ]
        ),
        "xlsx",
    )
    assert read.table == {"age": [30.0, 40.0], "both": ["x", "y"], "column3": [1.0, 2.0]}
    assert any("stand in row 3; of 1 row above it" in each for each in read.warnings)
    assert any("2 columns have neither a name nor values" in each for each in read.warnings)
    assert any("1 empty row was skipped" in each for each in read.warnings)


def test_a_first_row_of_values() -> None:
    rows = [[(i + 1) * 37 % 101 / 7, i % 7, ("a", "b")[i % 2]] for i in range(60)]
    read = Read(book(rows), "xlsx")
    assert read.rows == 60
    assert list(read.columns) == ["f0", "f1", "f2"]
    assert any("read as values" in each for each in read.warnings)
    assert Read(book(rows), "xlsx", {"header": True}).rows == 59
    assert Read(book([["a"], ["b"]]), "xlsx", {"header": False}).table == {"f0": ["a", "b"]}


def test_an_index_without_a_name_is_one() -> None:
    read = Read(book([[None, "x"], *([i, i * i % 17] for i in range(30))]), "xlsx")
    assert "identifier" in read.columns["column1"]
    assert "identifier" not in read.columns["x"]


def test_of_several_sheets_the_first_that_is_shown_is_read() -> None:
    read = Read(book([["x"], [1]], sheets=3), "xlsx")
    assert any("3 sheets, of which 'first' was read" in each for each in read.warnings)
    written = openpyxl.Workbook()
    written.active.append(["hidden"])
    written.active.sheet_state = "hidden"
    written.create_chartsheet("picture")
    for row in (["x"], [7]):
        sheet = written["data"] if "data" in written.sheetnames else written.create_sheet("data")
        sheet.append(row)
    out = io.BytesIO()
    written.save(out)
    read = Read(out.getvalue(), "xlsx")
    assert read.table == {"x": [7.0]}
    assert any("'data' was read" in each for each in read.warnings)


@pytest.mark.parametrize(
    "cell",
    [
        b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>',
        b"<row r='1048576'><c s='0' r='XFD1048576'><v>1</v></c></row>",
        b'<x:row xmlns:x="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><x:c r="xfd1048576"><x:v>1</x:v>'
        b"</x:c></x:row>",
    ],
)
def test_a_cell_far_away(cell: bytes) -> None:
    assert refusal(with_cells(cell), "xlsx").code == "too_many_cells"
    assert refusal(with_cells(cell), "xlsx", max_columns=10_000).code == "too_many_columns"
    error = refusal(with_cells(cell.replace(b"XFD", b"ABC").replace(b"xfd", b"abc")), "xlsx")
    assert error.code == "too_many_cells"
    assert "1048576 rows × 731 columns" in error.message
    # One at the end of a column is an empty row more than a thousand times, no more.
    assert Read(with_cells(b'<row r="90000"><c r="A90000"><v>1</v></c></row>'), "xlsx").rows == 2


def test_cells_that_do_not_say_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def bare(old: bytes) -> bytes:
        head, _, rest = old.partition(b"<sheetData>")
        tail = rest.partition(b"</sheetData>")[2]
        rows = b"<row><c t=\"str\"><v>a</v></c><c t='str'><v>b</v></c></row>" + b"<row><c><v>1</v></c><c/></row>" * 9
        return head + b"<sheetData>" + rows + b"</sheetData>" + tail

    data = changed(book([["a", "b"], [1, 2]]), SHEET, bare)
    assert Read(data, "xlsx").table["a"] == [1.0] * 9
    monkeypatch.setattr(workbook_module, "MAX_LAID_OUT_CELLS", 19)
    assert refusal(data, "xlsx").code == "too_many_cells"


def test_what_unpacks_to_too_much() -> None:
    data = changed(book([["a"], ["x"]]), "xl/sharedStrings.xml", lambda old: old + b"<a/>" * (16 << 20))
    assert refusal(data, "xlsx").code == "expands_too_much"
    data = changed(
        book([["a"], ["x"]]), SHEET, lambda old: old.replace(b"<sheetData>", b"<sheetData>" + b" " * (64 << 20))
    )
    assert refusal(data, "xlsx").code in ("expands_too_much", "too_long")


@pytest.mark.parametrize("name", ["xl/sharedStrings.xml", "xl/workbook.xml", "xl/_rels/workbook.xml.rels", SHEET])
def test_entities_are_not_expanded(name: str) -> None:
    entities = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10 if i else "x" * 100}">' for i in range(10)).encode()
    data = changed(
        book([["a"], ["x"]]),
        name,
        lambda old: old.replace(b"?>", b"?><!DOCTYPE x [" + entities + b"]>", 1).replace(b"<t>x<", b"<t>&e9;<"),
    )
    error = refusal(data, "xlsx")
    assert error.code == "malformed"
    assert "declares entities" in error.message


def other(name: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, "x")
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "unsupported", "password"),
        (b"a,b\n1,2\n", "malformed", ".xlsx"),
        (b"", "malformed", ".xlsx"),
        (other("xl/workbook.bin"), "unsupported", ".xlsb"),
        (other("content.xml"), "unsupported", ".ods"),
        (other("x.eml"), "malformed", "save the sheet"),
        (book([["a"], [1]])[:-100], "malformed", "damaged"),
        (book([]), "empty", "empty"),
        (book([["a", "b"]]), "empty", "no rows"),
        (book([["a", "a"], [1, 2]]), "bad_column_name", "same name"),
    ],
)
def test_what_is_refused(data: bytes, code: str, words: str) -> None:
    error = refusal(data, "xlsx")
    assert error.code == code
    assert words in error.message


def test_parts_that_are_there_twice_or_missing() -> None:
    whole = book([["a"], [1]])
    out = io.BytesIO(whole)
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr("XL/worksheets/sheet1.xml", "<worksheet/>")
    assert refusal(out.getvalue(), "xlsx").code == "malformed"
    data = changed(whole, "xl/_rels/workbook.xml.rels", lambda old: old.replace(b"sheet1.xml", b"sheet9.xml"))
    assert refusal(data, "xlsx").code == "empty"


def test_limits_hold() -> None:
    rows: list[list[Any]] = [["a", "b", "c"], *([i, i, i] for i in range(5))]
    assert refusal(book(rows), "xlsx", max_columns=2).code == "too_many_columns"
    assert refusal(book(rows), "xlsx", max_rows=4).code == "too_many_rows"
    assert refusal(book(rows), "xlsx", max_cells=14).code == "too_many_cells"


@pytest.mark.parametrize("name", ["a.xlsx", "A.XLSM", "a.xls", "a.ods"])
def test_formats_by_name(name: str) -> None:
    assert guess_format(name) == "xlsx"

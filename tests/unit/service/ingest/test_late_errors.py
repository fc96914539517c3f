"""A row that is wrong late in a file is found without walking through all rows before it."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import suppress

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from ingest_helpers import Read, refusal

from service.ingest import delimited
from service.ingest.delimited import HEAD_ROWS
from service.ingest.locating import Before, rows_by_pieces
from service.ingest.records import ImproperQuoteError, Record, split_records
from service.ingest.stream import CHUNK_BYTES

ROW = b'"a, b",0123456789\n'
ROWS = 3 * CHUNK_BYTES // len(ROW)
PLACE = ROWS - 1000
SEVERAL_LINES = b'"a\r\n\r\n, ""b""",1\n'


@pytest.fixture
def split(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Records that were split in Python, by their lines."""
    seen: list[int] = []

    def counted(*arguments: object, **named: object) -> Iterator[Record]:
        for record in split_records(*arguments, **named):  # type: ignore[arg-type]
            seen.append(record.line)
            yield record

    monkeypatch.setattr(delimited, "split_records", counted)
    return seen


@pytest.mark.parametrize("row", [b'"a",1,2\n', b'"a\nb",1,2\n', b"a\n"])
def test_a_late_row_of_another_width_is_told_by_its_line(row: bytes, split: list[int]) -> None:
    body = [ROW] * ROWS
    body[5], body[PLACE] = SEVERAL_LINES + b"\n", row
    error = refusal(b"text,number\n" + b"".join(body), "csv")
    assert (error.code, error.line) == ("ragged", PLACE + 2 + 3)
    assert len(split) < HEAD_ROWS + 10 + 2 * CHUNK_BYTES // len(ROW)


def test_a_late_value_that_is_no_number_is_told_by_its_line(split: list[int]) -> None:
    body = [b"a,1\n" + b"b,22222222222222222\n"] * (3 * CHUNK_BYTES // 24)
    body[3], body[-7] = SEVERAL_LINES, b"c,x\n"
    error = refusal(b"text,number\n" + b"".join(body), "csv", {"columns": {"number": "number"}})
    assert (error.code, error.line) == ("bad_value", 2 * (len(body) - 7) + 2 + 1)
    assert len(split) < HEAD_ROWS + 10 + 2 * CHUNK_BYTES // 12


ESCAPED_BREAKS = b"a\\\nb\\\r\nc\\\r,1\n"  # that end three lines of the file, but no row
SPELT_BREAK = b"a\\nb,1\n"  # that ends none


@pytest.mark.parametrize(
    ("row", "code", "behind"),
    [
        (b"a,1,2\n", "ragged", 0),
        (b"a,x\n", "bad_value", 0),
        (b'"a"b,1\n', "malformed", 0),
        (b'"a\\\nb"c,1\n', "malformed", 0),
        (b'a\\\nb,"c"d\n', "malformed", 1),
        (b'a\\\nb,"c\n', "malformed", 1),
    ],
)
@pytest.mark.parametrize("place", [3, HEAD_ROWS, HEAD_ROWS + 500])
def test_escaped_line_breaks_count_as_lines(row: bytes, code: str, behind: int, place: int) -> None:
    body = [SPELT_BREAK] * (HEAD_ROWS + 1000)
    body[1], body[place - 1] = ESCAPED_BREAKS, ESCAPED_BREAKS
    body[place] = row
    options = {"escape": "\\", "columns": {"number": "number"}, "quote": '"'}
    error = refusal(b"text,number\n" + b"".join(body), "csv", options)
    assert (error.code, error.line) == (code, 2 + place + 6 + behind)


def test_a_value_of_several_lines_is_told_by_its_first_one_where_breaks_are_escaped() -> None:
    body = [b"a\\\nb\n", b'"c\\\n""d\ne"\n', b"f\n"]
    read = Read(b"text\n" + b"".join(body), "csv", {"escape": "\\", "delimiter": ","})
    assert read.table == {"text": ["a\nb", 'c\n"d\ne', "f"]}
    assert "line 4" in read.warnings[-1]
    assert read.result["lines"] == {"total": 7, "header": 1, "blank": 0, "continued": 3}


@pytest.mark.parametrize("letter", ["b", "€"])
def test_a_row_that_is_too_long_is_told_without_a_walk_over_the_rest(letter: str, split: list[int]) -> None:
    """Its bytes count, which Arrow looks at, and not its characters."""
    line = letter * 600 + "\n"
    body = [ROW] * (3 * ROWS)
    body[ROWS] = b'"' + (line * (11 * CHUNK_BYTES // len(line.encode()))).encode() + b'",1\n'
    error = refusal(b"text,number\n" + b"".join(body), "csv", {"quote": '"'})
    assert error.code == "too_long"
    assert error.line is not None
    assert ROWS + 2 <= error.line < ROWS + 2 + body[ROWS].count(b"\n")
    assert len(split) < HEAD_ROWS + 10 + 2 * CHUNK_BYTES // len(ROW)


def records(lines: Iterable[str], delimiter: str, quote: str | None, before: int) -> list[Record]:
    """Those until a quote that is none, or the end."""
    found: list[Record] = []
    with suppress(ImproperQuoteError):
        found.extend(split_records(lines, delimiter, quote, max_characters=1000, skipped_lines=before))
    return found


@given(
    st.lists(st.sampled_from(["a", "é", ",", ";", " ", "\n", "\r\n", "\r", '"', '""', "'"]), min_size=1, max_size=40),
    st.sampled_from(['"', "'", None]),
    st.integers(1, 20),
)
@settings(max_examples=examples(300), deadline=None)
def test_rows_are_those_of_the_walk(parts: list[str], quote: str | None, size: int) -> None:
    text = "".join(parts) + "\n"
    raw = text.encode()
    walked = records(io.StringIO(text, newline=""), ",", quote, 3)
    widths: list[int] = []
    for some in rows_by_pieces((raw[at : at + size] for at in range(0, len(raw), size)), ",", quote, Before(0, 3, 0)):
        rest = io.StringIO(raw[some.before.bytes :].decode(), newline="")
        assert records(rest, ",", quote, some.before.lines) == walked[some.before.rows :]
        assert some.before.rows == len(widths)
        widths += [] if some.widths is None else some.widths.tolist()
    assert widths == [len(record.values) for record in walked][: len(widths)]
    assert some.widths is None or len(widths) == len(walked)

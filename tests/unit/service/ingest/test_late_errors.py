"""A row that is wrong late in a file is found without walking through all rows before it."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import suppress

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from ingest_helpers import refusal

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

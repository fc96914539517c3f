from __future__ import annotations

import gzip
import json
import math
import unicodedata

import pytest
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ingest_helpers import Read, refusal

from solver.labels import is_missing_word


def test_types() -> None:
    lines = b'{"a": 1, "b": "x", "c": true}\n\n{"b": "", "a": null, "d": 1.5}\n{"a": -2e3, "c": "x", "e": false}'
    read = Read(lines, "jsonl")
    assert read.table == {
        "a": [1, None, -2000],
        "b": ["x", None, None],
        "c": ["true", None, "x"],
        "d": [None, 1.5, None],
        "e": [None, None, "false"],
    }
    assert Read(gzip.compress(lines), "jsonl").table == read.table


def test_long_integers_are_identifiers() -> None:
    long = str(10**25 + 1)
    read = Read(f'{{"id": {long}, "n": 1e22}}\n{{"id": 1, "n": 2}}\n'.encode(), "jsonl")
    assert read.table == {"id": [long, "1"], "n": [1e22, 2]}
    assert Read(b'{"id": 9007199254740993}', "jsonl").table == {"id": ["9007199254740993"]}


def test_kinds_can_be_set() -> None:
    read = Read(b'{"zip": 10115, "n": "7"}\n', "jsonl", {"columns": {"zip": "category", "n": "number"}})
    assert read.table == {"zip": ["10115"], "n": [7]}
    error = refusal(b'{"n": "7"}\n{"n": "secret"}\n', "jsonl", {"columns": {"n": "number"}})
    assert (error.code, error.line) == ("bad_value", 2)
    assert "secret" not in error.message


@pytest.mark.parametrize(
    ("second", "code"),
    [
        ("[1]", "malformed"),
        ("1", "malformed"),
        ("{", "malformed"),
        ('{"a": 1e400}', "malformed"),
        ('{"a": NaN}', "malformed"),
        ('{"a": "\\ud800"}', "malformed"),
        ('{"a": 1, "a": 2}', "malformed"),
        ('{"a": 1, "\\u0061": "\\u003a"}', "malformed"),
        ('{"a": 1} {"a": 2}', "malformed"),
        ('{"a": ' + "[" * 1000 + "]" * 1000 + ', "a": 1e30}', "malformed"),
        ('{"t": "\\u0000"}', "bad_value"),
        ('{"a": ' + "9" * 5000 + "}", "malformed"),
        ('{"a": ' + "[" * 5000 + "}", "malformed"),
        ('{"x\\u0000": 1}', "bad_column_name"),
        ('{"' + "x" * 300 + '": 1}', "bad_column_name"),
        ('{"b": "\xff"}', "bad_encoding"),
    ],
)
def test_refusals(second: str, code: str) -> None:
    error = refusal(b'{"a": 1, "t": "x"}\n' + second.encode("latin-1"), "jsonl")
    assert error.code == code
    if code != "bad_column_name":
        assert error.line == 2


def test_columns_of_lists_and_objects_are_left_out_and_said() -> None:
    lines = (
        b'{"id": {"$oid": "x"}, "n": 1, "tags": null}\n{"n": 2, "tags": ["a", {"n": 1}], "late": 5}\n'
        b'{"tags": "b", "n": 3, "late": {}, "empty": []}\n'
    )
    read = Read(lines, "jsonl")
    assert read.table == {"n": [1, 2, 3]}
    assert list(read.result["left_out"]) == ["id", "tags", "late", "empty"]
    assert [warning[:24] for warning in read.warnings][:2] == ["column 'id' is left out:", "column 'tags' is left ou"]
    error = refusal(lines, "jsonl", {"columns": {"tags": "text"}})
    assert (error.code, error.column) == ("unsupported", "tags")
    assert "lists or objects" in error.message
    assert refusal(b'{"a": [1]}\n{"a": 1, "b": {}}\n', "jsonl").code == "unsupported"
    many = Read(json.dumps({"n": 1} | {f"x{j}": [] for j in range(1000)}).encode(), "jsonl")
    assert len(many.result["left_out"]) == 1000
    assert many.warnings[-1] == "980 more columns are left out for such reasons"


def test_empty_and_limits() -> None:
    for data in (b"", b"\n \n", b"{}\n"):
        assert refusal(data, "jsonl").code == "empty"
    assert refusal(b'{"a": 1}\n' * 11, "jsonl", max_rows=10).code == "too_many_rows"
    assert refusal(b'{"a": 1, "b": 2}\n', "jsonl", max_columns=1).code == "too_many_columns"


cells = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8),
)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.fixed_dictionaries({}, optional={"a": cells, "b:": cells}), min_size=1, max_size=6))
@example([{"a": 0}, {"a": "NULL"}])
@example([{"a": "yes"}, {"a": "NULL"}])
def test_round_trip(rows: list[dict[str, object]]) -> None:
    rows = [{"x": 1, **row} for row in rows]
    read = Read("\n".join(map(json.dumps, rows)).encode(), "jsonl")
    for name, stored in read.table.items():
        values = [row.get(name) for row in rows]
        texts = [value for value in values if isinstance(value, str) and value]
        # A word such as NULL is no value among numbers.
        among_numbers = all(map(is_missing_word, texts)) and read.columns[name]["kind"] == "number"
        for value, kept in zip(values, stored, strict=True):
            if value is None or value == "":
                assert kept is None
            elif isinstance(value, bool):
                assert kept == str(value).lower()
            elif isinstance(value, str):
                assert kept == (None if among_numbers else unicodedata.normalize("NFC", value))
            else:
                assert math.isclose(float(kept), value)


def test_numbers_in_quotes_are_remarked_on() -> None:
    lines = "".join(f'{{"x": "{i}.5", "zip": "0{i}", "y": "{i % 2}"}}\n' for i in range(9)).encode()
    (warning,) = Read(lines, "jsonl").warnings
    assert "column 'x' is text, and all of its texts are numbers" in warning
    assert Read(lines, "jsonl", {"columns": {"x": "category"}}).warnings == []


def test_the_place_of_what_is_no_json() -> None:
    error = refusal(b'{"a": 1}\n{"a": 1,}\n', "jsonl")
    assert error.line == 2
    assert "at character 8 of the line" in error.message
    assert "line 1" not in error.message
    assert "option" not in refusal(b'{"a": "\xff"}\n', "jsonl").message  # it has none for the encoding

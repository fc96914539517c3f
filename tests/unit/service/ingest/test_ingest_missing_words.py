"""Words for missing values: missing among numbers, values of their own among categories, said in both."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from ingest_helpers import Read, refusal

from solver.features import TableFeatures

WORDS = ["NA", "N/A", "n/a", "nan", "NaN", "NULL", "None", "-", "?", "unknown", "\\N"]


def csv(values: list[str]) -> bytes:
    return ("n,c\n" + "".join(f"{value},{'ab'[i % 2]}\n" for i, value in enumerate(values))).encode()


def jsonl(values: list[str]) -> bytes:
    def typed(value: str) -> Any:
        try:
            return float(value) if math.isfinite(float(value)) else value
        except ValueError:
            return value

    return "".join(json.dumps({"n": typed(value), "c": "ab"[i % 2]}) + "\n" for i, value in enumerate(values)).encode()


def arff(values: list[str]) -> bytes:
    rows = "".join(f"{value if value != '-' else repr(value)},{'ab'[i % 2]}\n" for i, value in enumerate(values))
    return ("@relation r\n@attribute n numeric\n@attribute c {a,b}\n@data\n" + rows).encode()


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("write", [csv, jsonl, arff])
def test_among_numbers_they_are_missing_and_said(write: Any, word: str) -> None:
    if write is arff and word in ("?", "\\N"):
        return  # the first is the format's own, the second an escape
    values = [str(i % 7 + 0.5) for i in range(40)] + [word] * 3
    read = Read(write(values), write.__name__)
    assert (read.columns["n"]["kind"], read.columns["n"]["missing"]) == ("number", 3)
    assert read.columns["n"]["missing_words"] == {word: 3}
    assert read.table["n"] == [*(i % 7 + 0.5 for i in range(40)), None, None, None]
    (said,) = [warning for warning in read.warnings if "count as missing" in warning]
    assert said == f"column 'n': 3 times {word!r} count as missing in a column of numbers"
    # a row that comes later is read alike
    features = TableFeatures().fit(read.data)
    (given, null), _, _ = features.transform_rows([{"n": value, "c": "a"} for value in (word, None)])
    assert given.tolist() == null.tolist()


def test_many_rows_spellings_and_blanks() -> None:
    values = [str(i) if i % 3 else (" NA", "na ", "?")[i // 3 % 3] for i in range(300_000)]  # several batches
    read = Read(csv(values), "csv")
    assert read.columns["n"]["missing_words"] == {"?": 33_333, "NA": 33_334, "na": 33_333}
    assert read.columns["n"]["missing"] == 100_000


def test_another_text_makes_it_a_column_of_texts_with_its_words() -> None:
    for values in (["1", "NA", "some"] * 5, [*["1", "NA"] * 100_000, "some"]):
        read = Read(csv(values), "csv")
        assert read.columns["n"]["kind"] == "category"
        assert "missing_words" not in read.columns["n"]
        assert read.table["n"] == values
    assert Read(jsonl(["1", "NA", "some"] * 5), "jsonl").table["n"] == ["1", "NA", "some"] * 5


@pytest.mark.parametrize("write", [csv, jsonl])
def test_a_column_of_such_words_alone_keeps_them(write: Any) -> None:
    read = Read(write(["None", "unknown"] * 20), write.__name__)
    assert read.columns["n"]["values"] == {"None": 20, "unknown": 20}


def test_among_categories_they_are_values_and_said() -> None:
    values = ["red", "blue", "unknown", "N/A"] * 10
    read = Read(csv(values), "csv")
    assert read.columns["n"]["values"] == {"N/A": 10, "blue": 10, "red": 10, "unknown": 10}
    (said,) = read.warnings
    assert said.startswith("column 'n': 10 times 'N/A', 10 times 'unknown' are values of their own")
    read = Read(csv(values), "csv", {"missing": ["unknown", "N/A"]})
    assert read.columns["n"]["values"] == {"blue": 10, "red": 10}
    assert read.warnings == []


def test_who_says_what_a_column_is_is_heard() -> None:
    values = ["1", "2", "NA"] * 10
    assert Read(csv(values), "csv", {"columns": {"n": "number"}}).columns["n"]["missing_words"] == {"NA": 10}
    assert Read(csv(values), "csv", {"columns": {"n": "category"}}).columns["n"]["values"] == {
        "1": 10,
        "2": 10,
        "NA": 10,
    }
    assert refusal(csv([*values, "some"]), "csv", {"columns": {"n": "number"}}).code == "bad_value"


def test_decimal_commas() -> None:
    read = Read(b"n;c\n1,5;a\nNA;b\n2,5;a\n", "csv", {"decimal": ",", "delimiter": ";"})
    assert read.table["n"] == [1.5, None, 2.5]


@pytest.mark.parametrize("cell", ["?", " ? ", " 007 ", "+1"])
@pytest.mark.parametrize("trim", [True, False])
def test_what_an_option_calls_missing_leaves_nothing_behind(cell: str, trim: bool) -> None:
    options = {"missing": [cell.strip() if trim else cell], "trim": trim}
    for values in ([*"123", cell], [cell, *"123"], [*"123", cell, "", "4"]):
        read = Read("".join(f"{value},a\n" for value in ("n", *values)).encode(), "csv", options)
        assert read.columns["n"]["kind"] == "number", values
        assert read.table["n"] == [None if value in ("", cell) else float(value) for value in values]

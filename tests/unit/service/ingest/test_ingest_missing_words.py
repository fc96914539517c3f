"""Words for missing values: missing among numbers, values of their own among categories, said in both."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ingest_helpers import Read, book, refusal

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


@pytest.mark.parametrize("word", ["\u00a0NA", "null\u2003"])
def test_beside_blanks_that_do_not_count_it_is_another_text(word: str) -> None:
    values = ["1", "2", word] * 10
    for write in (csv, jsonl):
        assert Read(write(values), write.__name__).kinds["n"] == "category"
        assert refusal(write(values), write.__name__, {"columns": {"n": "number"}}).code == "bad_value"


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


def parquet(values: list[Any]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"n": values, "c": ["ab"[i % 2] for i in range(len(values))]}), out)
    return out.getvalue()


def arrow(values: list[Any]) -> bytes:
    out = io.BytesIO()
    table = pa.table({"n": values, "c": ["ab"[i % 2] for i in range(len(values))]})
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def dictionaries(values: list[Any]) -> bytes:
    out = io.BytesIO()
    table = pa.table({"n": pa.array(values).dictionary_encode(), "c": ["ab"[i % 2] for i in range(len(values))]})
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def xlsx(values: list[Any]) -> bytes:
    return book([["n", "c"], *([value, "ab"[i % 2]] for i, value in enumerate(values))])


def json_lines(values: list[Any]) -> bytes:
    return "".join(json.dumps({"n": value, "c": "ab"[i % 2]}) + "\n" for i, value in enumerate(values)).encode()


def arff_texts(values: list[Any]) -> bytes:
    rows = "".join(f"{value!r},{'ab'[i % 2]}\n" for i, value in enumerate(values))
    return ("@relation r\n@attribute n string\n@attribute c {a,b}\n@data\n" + rows).encode()


TABLES: dict[Any, str] = {csv: "csv", json_lines: "jsonl", parquet: "parquet", arrow: "arrow", dictionaries: "arrow"}
TABLES |= {xlsx: "xlsx", arff_texts: "arff"}


@pytest.mark.parametrize("write", TABLES)
def test_the_option_takes_words_out_of_texts_in_every_format(write: Any) -> None:
    """And what a warning advises can be done in every format."""
    values = ["red", "blue", "unknown", "k.A."] * 10
    (said,) = Read(write(values), TABLES[write]).warnings
    assert "are values of their own; if they mean missing, name them in option missing" in said
    read = Read(write(values), TABLES[write], {"missing": ["unknown", "k.A."]})
    assert (read.columns["n"]["values"], read.columns["n"]["missing"]) == ({"blue": 10, "red": 10}, 20)
    assert read.warnings == []
    assert read.table["n"] == ["red", "blue", None, None] * 10
    assert read.labels("n") == read.table["n"]
    features = TableFeatures().fit(read.data)
    rows, _, _ = features.transform_rows([{"n": value, "c": "a"} for value in ("k.A.", "unknown", None, "")])
    assert len({tuple(row) for row in np.asarray(rows).tolist()}) == 1


@pytest.mark.parametrize(
    "write", [csv, json_lines, parquet, arrow, dictionaries, xlsx, arff, "parquet of whole numbers", "mixed", "npz"]
)
def test_a_number_that_means_missing_does_so_in_every_format(write: Any) -> None:
    """-999 is missing as text and as number, in the file and in each row that comes later."""
    numbers: list[Any] = [1.5, 2.5, -999.0, 4.0] * 10
    format = TABLES.get(write, "arff")
    if write == "parquet of whole numbers":
        numbers = [1, 2, -999, 4] * 10
        data, format = parquet(numbers), "parquet"
    elif write == "mixed":
        data, format = json_lines([f"{x:g}" if i % 3 else x for i, x in enumerate([1.5, 2.5, -999, 4.0] * 10)]), "jsonl"
    elif write == "npz":
        out = io.BytesIO()
        np.savez(out, X=np.array(numbers)[:, None], y=np.arange(40) % 2)
        data, format = out.getvalue(), "npz"
    else:
        data = write([f"{x:g}" for x in numbers] if write in (csv, arff) else numbers)
    read = Read(data, format, {"missing": ["-999", "k.A."]})
    name = "f0" if write == "npz" else "n"
    if write == "mixed":
        assert read.table["n"] == ["1.5", "2.5", None, "4"] * 10
    else:
        expected = [None if x == -999 else x for x in numbers]
        assert (read.columns[name]["kind"], read.table[name], read.columns[name]["missing"]) == ("number", expected, 10)
    features = TableFeatures().fit(read.data)
    others = {column["name"]: 0 if write == "npz" else "a" for column in features.columns}
    rows, _, _ = features.transform_rows([others | {name: value} for value in ("-999", -999, -999.0, "k.A.", None)])
    assert len({tuple(row) for row in np.asarray(rows).tolist()}) == 1
    assert features.transform(read.data)[0].tolist()[2] == np.asarray(rows).tolist()[0]


@pytest.mark.parametrize("write", [json_lines, parquet, arrow, dictionaries, arff_texts])
def test_texts_that_are_numbers_but_for_such_words_are_said(write: Any) -> None:
    values = ["1", "25", "NA", "4"] * 10
    read = Read(write(values), TABLES[write])
    assert any("all of its texts are numbers" in said for said in read.warnings)
    read = Read(write(values), TABLES[write], {"columns": {"n": "number"}})
    assert (read.table["n"], read.columns["n"]["missing_words"]) == ([1, 25, None, 4] * 10, {"NA": 10})


def test_a_sparse_matrix_has_no_missing_values() -> None:
    out = io.BytesIO()
    np.savez(out, data=[1.0], indices=[0], indptr=[0, 1], shape=(1, 2), y=[1])
    assert "option missing" in refusal(out.getvalue(), "npz", {"missing": ["-1"]}).message

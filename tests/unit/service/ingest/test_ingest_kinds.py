"""Kinds of columns, guessed and set, and what the profile says of rows and columns."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xlsxwriter
from ingest_helpers import Read, refusal

from service.ingest.columnar import read_identifiers, read_kinds
from solver.features.dates import SHORT_YEARS
from solver.training import TrainingRequest, train

PROSE = ["the cat sat on the mat", "a dog barks at night", "rain falls in the hills"]


def test_kinds_are_guessed() -> None:
    rows = "".join(
        f"{i},{PROSE[i % 3]} {i},{PROSE[i % 3]},2026-01-{i % 28 + 1:02},28.{i % 12 + 1:02}.2026,id{i}\n"
        for i in range(40)
    )
    read = Read(f"n,prose,few,iso,german,code\n{rows}".encode(), "csv")
    assert read.kinds == {
        "n": "number", "prose": "text", "few": "category", "iso": "date", "german": "date", "code": "category",
    }  # fmt: skip
    assert read_kinds(read.path, "table") == {}, "guesses are not handed on"


def test_years_of_two_digits_are_said() -> None:
    data = b"n,day\n" + b"".join(b"%d,%02d.11.26\n" % (i % 7, i % 28 + 1) for i in range(40))
    said = "column 'day' seems to hold dates whose years have two digits; "
    guessed = Read(data, "csv")
    assert guessed.kinds["day"] == "category"
    assert guessed.warnings == [
        f'{said}if so, PATCH /datasets/{{id}} with {{"columns": {{"day": "date"}}}}: {SHORT_YEARS}'
    ]
    assert Read(data, "csv", {"columns": {"day": "date"}}).warnings == [said + SHORT_YEARS]
    assert Read(data.replace(b".11.26", b".11.2026"), "csv").warnings == []


@pytest.mark.parametrize("form", ["{0:02}/{1:02}/2026", "{0}/{1}/2026 10:30", "{0}.{1}.2026"])
def test_dates_whose_day_may_be_the_month_are_said(form: str) -> None:
    def read(last: str) -> Read:
        lines = "".join(f"{i % 7},{form.format(i % 12 + 1, i % 11 + 1)}\n" for i in range(40))
        return Read(f"n,day\n{lines}3,{last}\n".encode(), "csv")

    open_ = read(form.format(1, 2))
    if form == "{0}.{1}.2026":  # with points the day comes first
        assert (open_.kinds["day"], open_.warnings) == ("date", [])
        return
    assert open_.kinds["day"] == "category"
    assert "column 'day' holds dates of which no row tells whether the day or the month comes first" in "".join(
        open_.warnings
    )
    assert "2026-02-01" in "".join(open_.warnings)
    assert not any("comes first" in warning for warning in read("17 of May").warnings)


def test_short_texts_that_would_be_left_out_are_said() -> None:
    words = ["prize", "money", "lunch", "paper", "meeting", "minutes", "dinner"]

    def rows(count: int) -> bytes:
        lines = (f"{i % 7},{words[i % 7]} {words[i // 7 % 7]} {'x' * (i // 49 + 1)},id {i}" for i in range(count))
        return "\n".join(["n,message,code", *lines]).encode()

    (said,) = Read(rows(78), "csv").warnings
    assert said.startswith("column 'message': nearly all of its short texts differ")
    assert '{"columns": {"message": "text"}}' in said
    assert Read(rows(78), "csv", {"columns": {"message": "text"}}).warnings == []
    assert Read(rows(9), "csv").warnings == [], "so few are categories in a training"


def test_the_range_of_dates_is_said_as_they_are_written() -> None:
    days = [(year, month, day) for day in range(1, 29) for month in range(1, 13) for year in (2024, 2023, 2025)]
    forms = {
        "iso": "{0}-{1:02}-{2:02}", "hour": "{0}-{1:02}-{2:02}T{1:02}:30", "german": "{2}.{1}.{0}", "word": "w{0}{1}",
    }  # fmt: skip
    names = ",".join(forms)

    def ranges(rows: list[tuple[int, int, int]]) -> dict[str, tuple[str | None, str | None]]:
        lines = "".join(",".join(form.format(*row) for form in forms.values()) + "\n" for row in rows)
        columns = Read(f"{names}\n,,,\n{lines}".encode(), "csv").columns
        return {name: (columns[name].get("earliest"), columns[name].get("latest")) for name in forms}

    long = Read(f"day,n\n2026-01-01T10:00:00.{'0' * 300},1\n2026-01-02,2\n".encode(), "csv").columns["day"]
    assert (long["kind"], long.get("earliest")) == ("date", None)
    few = ranges(days[:900])
    assert few["word"] == (None, None)
    assert few["german"] == ("1.1.2023", "25.12.2025")
    # Of more than a thousand only where the order of the texts is the order of time.
    assert ranges(days) == {
        "iso": ("2023-01-01", "2025-12-28"), "hour": ("2023-01-01T01:30", "2025-12-28T12:30"),
        "german": (None, None), "word": (None, None),
    }  # fmt: skip


def test_kinds_that_are_set_are_handed_on() -> None:
    kinds = {"zip": "category", "note": "text", "day": "date"}
    read = Read(b"zip,note,day,n\n10115,x,1.2.2026,1\n", "csv", {"columns": kinds})
    assert read.kinds == kinds | {"n": "number"}
    assert read.table["zip"] == ["10115"]
    assert read_kinds(read.path, "table") == kinds


def test_values_are_counted_where_there_are_few() -> None:
    rows = "".join(f"{'spam' if i % 3 else 'ham'},{i % 20},{i % 21},{'x' * 300}\n" for i in range(60))
    columns = Read(f"label,few,many,long\n{rows}".encode(), "csv").columns
    assert columns["label"]["values"] == {"spam": 40, "ham": 20}
    assert columns["few"]["values"] == {str(i): 3 for i in sorted(range(20), key=str)}
    assert "values" not in columns["many"]
    assert columns["many"]["distinct"] == 21
    assert "values" not in columns["long"]
    assert "distinct_capped" not in columns["many"]


def test_duplicate_rows() -> None:
    read = Read(b"a,b\n1,x\n2,x\n1,x\n,x\n,x\n1,x\n-0,\n0,\n", "csv")
    assert read.result["duplicate_rows"] == 4
    assert read.result["dropped_rows"] == 0
    assert Read(b"a,b\n1,2\n2,1\n", "csv").result["duplicate_rows"] == 0
    assert Read(b"1 1:1\n1 1:1\n", "svmlight").result["duplicate_rows"] is None


def test_decimal_commas() -> None:
    german = {"delimiter": ";", "decimal": ","}
    read = Read(b"a;b;c\n1,5;1.234,5;x,y\n-,25;1;,\n;2;\n", "csv", german)
    assert read.table == {"a": [1.5, -0.25, None], "b": [1234.5, 1, 2], "c": ["x,y", ",", None]}
    assert refusal(b"a;b\n1.5;x\n", "csv", german | {"columns": {"a": "number"}}).code == "bad_value"
    assert Read(b"a;b\n1,5;x\n", "csv", {"delimiter": ";"}).kinds["a"] == "category"


@pytest.mark.parametrize(
    ("value", "why"),
    [("1e400", "beyond 1.8e308"), ("9007199254740993", "identifiers"), ("none of them", "option missing")],
)
def test_why_a_column_of_numbers_is_none(value: str, why: str) -> None:
    (warning,) = Read(f"a,b\n1,x\n2,x\n{value},x\n".encode(), "csv").warnings
    assert why in warning
    assert value not in warning


# --- columns that number or name the rows -----------------------------------------------------------------------------


def as_csv(columns: dict[str, list[Any]]) -> bytes:
    made = io.StringIO()
    csv.writer(made).writerows([list(columns), *zip(*columns.values(), strict=True)])
    return made.getvalue().encode()


def as_jsonl(columns: dict[str, list[Any]]) -> bytes:
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def as_parquet(columns: dict[str, list[Any]]) -> bytes:
    made = io.BytesIO()
    pq.write_table(pa.table(columns), made)
    return made.getvalue()


def as_arff(columns: dict[str, list[Any]]) -> bytes:
    types = {name: "string" if isinstance(values[0], str) else "numeric" for name, values in columns.items()}
    head = "".join(f"@attribute '{name}' {kind}\n" for name, kind in types.items())
    rows = "".join(
        ",".join("?" if value is None else str(value) for value in row) + "\n"
        for row in zip(*columns.values(), strict=True)
    )
    return f"@relation r\n{head}@data\n{rows}".encode()


def as_xlsx(columns: dict[str, list[Any]]) -> bytes:
    made = io.BytesIO()
    with xlsxwriter.Workbook(made, {"in_memory": True}) as book:
        sheet = book.add_worksheet()
        for j, (name, values) in enumerate(columns.items()):
            sheet.write_column(0, j, [name, *values])
    return made.getvalue()


FORMATS = {"csv": as_csv, "jsonl": as_jsonl, "parquet": as_parquet, "arff": as_arff, "xlsx": as_xlsx}


def damaged_counters() -> dict[str, list[int | None]]:
    counter: list[int | None] = [*range(1000, 1400)]
    twice, gap = counter.copy(), counter.copy()
    twice[200] = 1199
    gap[200] = None
    several = [None if i in (7, 90) else value - 2 if i % 100 == 50 else value for i, value in enumerate(counter)]
    random = np.random.default_rng(2)
    with_holes = sorted(random.choice(4000, 400, replace=False).tolist())
    with_holes[13] = with_holes[12]
    # by which nobody sorted the file, but the numbers of positive rows were given later
    later = [*random.permutation(200).tolist(), *(200 + random.permutation(200)).tolist()]
    later[5] = later[6]
    return {"twice": twice, "gap": gap, "several": several, "with holes": with_holes, "later": later}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("damage", damaged_counters())
def test_noise_sorted_by_class_teaches_nothing_whatever_happened_to_the_counter(format: str, damage: str) -> None:
    noise = np.random.default_rng(1).normal(size=400).tolist()
    y = ["a"] * 200 + ["b"] * 200
    read = Read(FORMATS[format]({"x": noise, "row": damaged_counters()[damage], "y": y}), format)
    assert "nearly all" in read.columns["row"]["identifier"]
    assert any("column 'row' holds whole numbers that nearly all" in warning for warning in read.warnings)
    if format != "csv":
        return
    # rows whose labels the training has not seen
    hidden = np.random.default_rng(4).permutation(400) < 200
    labels = np.array(read.labels("y"), dtype=object)
    labels[hidden] = None

    def area(identifiers: dict[str, str]) -> float:
        request = TrainingRequest(
            algorithm="svm", positive="b", target="y", params={"C": 1.0, "gamma": 0.1}, identifiers=identifiers
        )
        scores = train(read.data, labels, request).model.predict(read.data).scores
        negative, positive = scores[hidden & (np.arange(400) < 200)], scores[hidden & (np.arange(400) >= 200)]
        return float((positive[:, None] > negative).mean())

    assert 0.35 < area(read_identifiers(read.path, "table")) < 0.65
    assert area({}) > 0.9, "the counter would have told"


@pytest.mark.parametrize("format", FORMATS)
def test_measures_are_no_identifiers_whatever_they_are_called(format: str) -> None:
    random = np.random.default_rng(3)
    doses = random.permutation(np.arange(100, 900, 2)).tolist()
    columns = {
        "platelet number": (1000 * random.permutation(400) + random.integers(0, 1000, 400)).tolist(),
        "income num": (100 * random.permutation(400) + random.integers(0, 100, 400)).tolist(),
        "heat index": (100 * random.permutation(400) + random.integers(0, 100, 400)).tolist(),
        "dose": [f"{dose}mg" for dose in doses],
        "week": [i % 40 for i in range(400)],
    }
    read = Read(FORMATS[format](columns), format)
    assert {name: column.get("identifier") for name, column in read.columns.items()} == dict.fromkeys(columns)
    assert any("column 'dose' holds numbers with units that are not read (mg)" in each for each in read.warnings)
    names = {"patient number": "platelet number", "row_index": "income num", "OrderNum": "heat index", "number": "dose"}
    ids = Read(FORMATS[format]({name: columns[old] for name, old in names.items()}), format)
    assert all(column.get("identifier") for column in ids.columns.values())

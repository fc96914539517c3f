"""Numbers with commas, separators of thousands and units, dates in words: read where that is sure, in each format."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ingest_helpers import Read, refusal

from solver.features import BadValue, TableFeatures


def as_csv(values: list[str]) -> bytes:
    made = io.StringIO()
    csv.writer(made).writerows([["x", "z"], *([value, i] for i, value in enumerate(values))])
    return made.getvalue().encode()


def as_jsonl(values: list[str]) -> bytes:
    return "".join(json.dumps({"x": value, "z": i}) + "\n" for i, value in enumerate(values)).encode()


def as_parquet(values: list[str]) -> bytes:
    made = io.BytesIO()
    pq.write_table(pa.table({"x": values, "z": list(range(len(values)))}), made)
    return made.getvalue()


FORMATS = {"csv": as_csv, "jsonl": as_jsonl, "parquet": as_parquet}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        (["1,234.5", "12", "7,000"], [1234.5, 12, 7000]),
        (["1,234,567", "12", "7,000"], [1234567, 12, 7000]),
        (["1.234,5", "12", "7.000"], [1234.5, 12, 7000]),
        (["1,5", "12", "0,25"], [1.5, 12, 0.25]),
        (["0,234", "12", "3"], [0.234, 12, 3]),
        (["1 234", "950", "12 345 678"], [1234, 950, 12345678]),
        (["1\u202f234,5", "950", "-12\u202f345"], [1234.5, 950, -12345]),
        (["1'234.50", "950", "12'345"], [1234.5, 950, 12345]),
        (["12 %", "7.5 %", "100 %"], [12, 7.5, 100]),
        (["12%", "7,5%", "100%"], [12, 7.5, 100]),
        (["$1,234.50", "-$5", "$ 7"], [1234.5, -5, 7]),
        (["1.234,50 €", "5 €", "7 €"], [1234.5, 5, 7]),
        (["USD 12", "USD 7.25", "USD 3"], [12, 7.25, 3]),
        (["\u22125", "7", "3.5"], [-5, 7, 3.5]),
    ],
)
def test_numbers_are_read_where_they_can_be_nothing_else(format: str, values: list[str], numbers: list[float]) -> None:
    read = Read(FORMATS[format](values), format)
    assert read.table["x"] == numbers
    assert read.columns["x"]["kind"] == "number"
    assert any("'x' is read as numbers" in warning for warning in read.warnings)
    assert not any("'x' is text" in warning for warning in read.warnings)
    # and so they are when predicting
    features = TableFeatures().fit(read.data)
    sent = [features.transform_rows([{"x": value, "z": 0}])[0][0, 0] for value in values]
    as_numbers = [features.transform_rows([{"x": value, "z": 0}])[0][0, 0] for value in numbers]
    assert sent == as_numbers == features.transform(read.data)[0][:, 0].tolist()


@pytest.mark.parametrize(
    "values",
    [
        ["1,234", "567", "8,901"],  # thousands, or decimals
        ["$1.234", "$5.678", "$9.012"],
        ["1,5", "2.5", "3"],  # two ways in one column
        ["12 %", "7 %", "5"],
        ["$5", "€5", "$7"],
        ["923 609 016", "123 456 789", "555 666 777"],  # identifiers in groups
        ["+4917012345", "+4930123456", "+4940123"],
        ["01,5", "02,5", "03,5"],
        ["1,234,567,890,123,456,789", "1,234.5", "12"],
        ["yes", "no", "1,5"],
        ["10%", "20%", "10%"],  # two classes
    ],
)
def test_what_may_be_something_else_stays_text(values: list[str]) -> None:
    for format, write in FORMATS.items():
        read = Read(write(values), format)
        assert read.table["x"] == values
        assert not any("'x' is read as numbers" in warning for warning in read.warnings)


def test_another_unit_is_refused() -> None:
    features = TableFeatures().fit(Read(as_csv(["$1,234.50", "$5", "$7"]), "csv").data)
    with pytest.raises(BadValue, match=r"column 'x': expected a finite number, as text written like '1,234.5 \$'"):
        features.transform_rows([{"x": "€5", "z": 0}])
    with pytest.raises(ValueError, match="column 'x' is in €, the model was trained on"):
        features.transform(Read(as_csv(["€1,234.50", "€5", "€7"]), "csv").data)


@pytest.mark.parametrize(
    "values",
    [
        ["28 Nov 2026", "1 May 2026", "3 January 2027"],
        ["November 28, 2026", "May 1, 2026", "Jan 3, 2027"],
        ["28-Nov-2026", "01-May-2026", "03-Jan-2027"],
    ],
)
def test_dates_in_words_are_dates(values: list[str]) -> None:
    for format, write in FORMATS.items():
        read = Read(write(values), format)
        assert read.columns["x"]["kind"] == "date"
        words, iso = (
            TableFeatures(kinds={"x": "date"}).fit(Read(write(each), format).data)
            for each in (values, ["2026-11-28", "2026-05-01", "2027-01-03"])
        )
        row = {"x": values[0], "z": 0}
        made = words.transform_rows([row])[0].tolist()
        assert made == iso.transform_rows([row | {"x": "2026-11-28"}])[0].tolist()


@pytest.mark.parametrize(("factor", "sent"), [(1, 1764288000), (1000, 1764288000000)])
def test_counts_of_seconds_are_dates_where_that_is_said(factor: int, sent: Any) -> None:
    values = [str(factor * (1764288000 + 100_000 * i)) for i in range(9)]
    for format, write in FORMATS.items():
        read = Read(write(values), format, {"columns": {"x": "date"}})
        assert read.columns["x"]["kind"] == "date"
        features = TableFeatures(kinds={"x": "date"}).fit(read.data)
        assert "x day" in features.feature_names
        made = [features.transform_rows([{"x": value, "z": 0}])[0].tolist() for value in (sent, str(sent), float(sent))]
        assert made[0] == made[1] == made[2]
        assert made[0][0] == features.transform(read.data)[0][0].tolist()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("values", "options", "numbers"),
    [
        (["1,234", "567", "8,901"], {"thousands": ","}, [1234, 567, 8901]),
        (["1,234", "567", "8,901"], {"decimal": ","}, [1.234, 567, 8.901]),
        (["1,234", "5,678", "8,901"], {"thousands": ","}, [1234, 5678, 8901]),
        (["1.234", "567", "8.901"], {"thousands": ".", "decimal": ","}, [1234, 567, 8901]),
        (["$1.234", "$5.678", "$9.012"], {"thousands": ".", "decimal": ","}, [1234, 5678, 9012]),
        (["1 234", "5 678", "9 012"], {"thousands": " "}, [1234, 5678, 9012]),
        (["1'234", "5'678"], {"thousands": "'"}, [1234, 5678]),
        (["1,234.5", "12", "7,000"], {"columns": {"x": "number"}}, [1234.5, 12, 7000]),
        (["12 %", "7 %"], {"columns": {"x": "number"}}, [12, 7]),
        (["$1.234", "$5.678", "$9.012"], {"columns": {"x": "number"}}, [1.234, 5.678, 9.012]),
        (["1,5", "+2,5", "03"], {"columns": {"x": "number"}}, [1.5, 2.5, 3]),
        (["1,234", "567"], {"columns": {"x": "number"}, "thousands": ","}, [1234, 567]),
    ],
)
def test_options_tell_how_numbers_are_written(
    format: str, values: list[str], options: dict[str, Any], numbers: list[float]
) -> None:
    read = Read(FORMATS[format](values), format, options)
    assert read.table["x"] == numbers
    features = TableFeatures().fit(Read(FORMATS[format](values * 3), format, options).data)
    sent = [features.transform_rows([{"x": value, "z": 0}])[0][0, 0] for value in values]
    assert sent == [features.transform_rows([{"x": value, "z": 0}])[0][0, 0] for value in numbers]


@pytest.mark.parametrize("format", FORMATS)
def test_numbers_that_may_be_two_things_are_said_with_what_to_do(format: str) -> None:
    values = ["1,234", "567", "8,901"]
    read = Read(FORMATS[format](values), format)
    said = [warning for warning in read.warnings if "column 'x' is text, but looks like numbers" in warning]
    assert len(said) == 1
    assert 'option decimal ","' in said[0]
    assert 'option thousands ","' in said[0]
    refused = refusal(FORMATS[format](values), format, {"columns": {"x": "number"}})
    assert (refused.code, refused.column) == ("bad_value", "x")
    assert 'with option thousands ","' in refused.message
    mixed = refusal(FORMATS[format](["12 %", "7 kg", "3"]), format, {"columns": {"x": "number"}})
    assert (mixed.code, mixed.column) == ("bad_value", "x")
    assert "one unit, such as %, the same in all rows" in mixed.message


@pytest.mark.parametrize("options", [{"thousands": "."}, {"thousands": ",", "decimal": ","}, {"thousands": "_"}])
def test_a_separator_of_thousands_that_cannot_be_one_is_refused(options: dict[str, Any]) -> None:
    refused = refusal(as_csv(["1", "2"]), "csv", options)
    assert refused.code == "bad_option"
    assert "thousands" in refused.message


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("values", "options"),
    [
        (["10%", "20%", "30%"], {}),
        (["$5", "$1,000", "$7.5"], {}),
        (["1,5", "2,5", "3"], {}),
        (["1,5", "2,5"], {"decimal": ","}),
        (["10%", "20%"], {"columns": {"x": "number"}}),
    ],
)
def test_labels_are_called_as_they_stand_in_the_file(format: str, values: list[str], options: dict[str, Any]) -> None:
    read = Read(FORMATS[format](values * 8), format, options)
    assert read.kinds["x"] == "number"
    assert read.labels("x") == values * 8
    assert set(read.columns["x"]["written"].values()) == {*values}


def test_zero_and_one_with_decimals_need_no_telling_as_labels() -> None:
    read = Read(as_csv(["1,0", "0,0"] * 5), "csv", {"decimal": ","})
    assert read.labels("x") == ["1", "0"] * 5


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("factor", "unit"), [(1, "seconds"), (1000, "milliseconds")])
def test_counts_of_seconds_are_said_with_what_to_do(format: str, factor: int, unit: str) -> None:
    values = [factor * (1764288000 + 100_000 * i) for i in range(30)]
    write = {
        "csv": lambda: as_csv([str(value) for value in values]),
        "jsonl": lambda: "".join(json.dumps({"x": value}) + "\n" for value in values).encode(),
        "parquet": lambda: as_parquet(values),  # type: ignore[arg-type]
    }
    read = Read(write[format](), format)
    (said,) = [warning for warning in read.warnings if "since 1970" in warning]
    assert f"column 'x' may count {unit} since 1970 (2025-11-28 to 2025-12-31)" in said
    assert "say date for it in option columns" in said
    assert not any("since 1970" in each for each in Read(write[format](), format, {"columns": {"x": "date"}}).warnings)


@pytest.mark.parametrize("format", FORMATS)
def test_yes_and_no_in_several_capitals_are_the_same(format: str) -> None:
    values = ["Yes", "no", "YES", "No", "yes"]
    read = Read(FORMATS[format](values), format)
    assert read.table["x"] == ["yes", "no", "yes", "no", "yes"]
    assert "column 'x' spells yes and no in several ways; they are the same" in read.warnings
    kept = Read(FORMATS[format](["Yes", "No", "Yes"]), format)
    assert kept.table["x"] == ["Yes", "No", "Yes"]


@pytest.mark.parametrize("long", ["1e999", "1" * 400])
def test_a_number_beyond_all_is_told_with_its_row(long: str) -> None:
    refused = refusal(f"x;y\n1,5;a\n{long};b\n2,5;c\n".encode(), "csv", {"columns": {"x": "number"}})
    assert (refused.code, refused.column, refused.line) == ("bad_value", "x", 2)

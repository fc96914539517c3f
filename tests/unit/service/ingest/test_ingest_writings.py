"""Numbers with commas, separators of thousands and units, dates in words: read where that is sure, in each format."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xlsxwriter
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
    assert 'PATCH /datasets/{id} with {"columns": {"' in said
    assert '"date"}}' in said
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


def several_csv(columns: dict[str, list[str]]) -> bytes:
    made = io.StringIO()
    csv.writer(made, delimiter=";").writerows([list(columns), *zip(*columns.values(), strict=True)])
    return made.getvalue().encode()


def several_jsonl(columns: dict[str, list[Any]]) -> bytes:
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def several_parquet(columns: dict[str, list[str]]) -> bytes:
    made = io.BytesIO()
    pq.write_table(pa.table(columns), made)
    return made.getvalue()


def several_arff(columns: dict[str, list[str]]) -> bytes:
    head = "".join(f"@attribute {name} string\n" for name in columns)
    rows = "".join(",".join(f"'{value}'" for value in row) + "\n" for row in zip(*columns.values(), strict=True))
    return f"@relation r\n{head}@data\n{rows}".encode()


def several_xlsx(columns: dict[str, list[Any]], percent: bool = True) -> bytes:
    """Numbers are shown as percent, except integers."""
    made = io.BytesIO()
    with xlsxwriter.Workbook(made, {"in_memory": True}) as book:
        shown = book.add_format({"num_format": "0.0 %" if percent else "General"})
        sheet = book.add_worksheet()
        for j, (name, values) in enumerate(columns.items()):
            sheet.write_string(0, j, name)
            for i, value in enumerate(values, start=1):
                if isinstance(value, str):
                    sheet.write_string(i, j, value)
                else:
                    sheet.write_number(i, j, value, shown if isinstance(value, float) else None)
    return made.getvalue()


SEVERAL = {
    "csv": several_csv,
    "jsonl": several_jsonl,
    "parquet": several_parquet,
    "arff": several_arff,
    "xlsx": several_xlsx,
}


@pytest.mark.parametrize("format", SEVERAL)
@pytest.mark.parametrize("prices", [["12,50", "3,20", "1.007,00"], ["12,50", "9,90", "12,50"]])
@pytest.mark.parametrize(
    "amounts",
    [["1.234", "567", "2.000"], ["1.234", "2.345", "3.456"], ["1.234", "2.000", "NA"], ["-1.234", " 7", "2.000 "]],
)
def test_a_column_with_decimal_commas_tells_what_points_are(format: str, prices: list[str], amounts: list[str]) -> None:
    read = Read(SEVERAL[format]({"menge": amounts, "preis": prices, "y": ["a", "b", "a"]}), format)
    expected = [None if text == "NA" else float(text.replace(".", "")) for text in amounts]
    assert read.table["menge"] == expected
    (said,) = [warning for warning in read.warnings if "'menge' is read as numbers" in warning]
    assert "'.' separates thousands, because of what column 'preis' holds" in said
    if "NA" in amounts:
        assert read.columns["menge"]["missing_words"] == {"NA": 1}
    # and so they are when predicting
    features = TableFeatures().fit(read.data)
    rows = [{"menge": text, "preis": prices[0], "y": "a"} for text in (amounts[0], expected[0])]
    first, second = features.transform_rows(rows)[0].tolist()
    assert first == second


@pytest.mark.parametrize("format", SEVERAL)
def test_a_column_with_decimal_points_tells_what_commas_are(format: str) -> None:
    read = Read(SEVERAL[format]({"n": ["1,234", "2,345", "3,456"], "price": ["12.50", "3.25", "0.5"]}), format)
    if format == "parquet" or format == "jsonl" or format == "arff":
        assert read.table["price"] == ["12.50", "3.25", "0.5"]  # texts of a format that has numbers
    assert read.table["n"] == [1234, 2345, 3456]
    assert any(
        "'n' is read as numbers: ',' separates thousands, because of what column 'price' holds" in each
        for each in read.warnings
    )


def test_points_are_decimal_if_that_is_said_and_a_column_that_contradicts_is_named() -> None:
    data = several_csv({"menge": ["1.234", "567", "2.000"], "preis": ["12,50", "3,20", "7,00"]})
    read = Read(data, "csv", {"columns": {"menge": "number"}})
    assert read.table["menge"] == [1.234, 567, 2]
    assert any(
        "'menge' is read as numbers with a decimal point, although column 'preis' has decimal commas" in each
        for each in read.warnings
    )
    both = {"menge": ["1.234", "567", "2.000"], "preis": ["12,50", "3,20", "7,00"], "z": ["0.5", "2.25", "7"]}
    read = Read(several_csv(both), "csv")
    assert read.table["menge"] == [1.234, 567, 2]
    assert any("column 'menge' is read as numbers with a decimal point" in each for each in read.warnings)
    # nothing tells: plain numbers are what they are
    read = Read(several_csv({"menge": ["1.234", "567", "2.000"], "y": ["a", "b", "a"]}), "csv")
    assert read.table["menge"] == [1.234, 567, 2]
    assert not any("menge" in each for each in read.warnings)


@pytest.mark.parametrize("decimal", [",", "."])
@pytest.mark.parametrize("format", ["jsonl", "xlsx"])
def test_a_number_among_texts_keeps_its_value(format: str, decimal: str) -> None:
    texts = ["2.345,6", "1.000,0", "7,5"] if decimal == "," else ["2,345.6", "1,000.0", "7.5"]
    values = [1.234, *texts, 12.5, 7000]
    data = several_jsonl({"x": values}) if format == "jsonl" else several_xlsx({"x": values}, percent=False)
    read = Read(data, format)
    assert read.table["x"] == [1.234, 2345.6, 1000, 7.5, 12.5, 7000]
    features = TableFeatures().fit(read.data)
    sent = features.transform_rows([{"x": value} for value in values])[0]
    assert sent.tolist() == features.transform(read.data)[0].tolist()
    # beside a text that is none they are all texts
    data = (
        several_jsonl({"x": [*values, "soon"]}) if format == "jsonl" else several_xlsx({"x": [*values, "soon"]}, False)
    )
    assert Read(data, format).table["x"] == ["1.234", *texts, "12.5", "7000", "soon"]
    # numbers without the unit of the texts are not the same thing
    data = several_jsonl({"x": [5, "12%", "7%"]}) if format == "jsonl" else several_xlsx({"x": [5, "12%", "7%"]})
    assert Read(data, format).table["x"] == ["5", "12%", "7%"]


def test_a_long_integer_in_a_cell_of_text_is_an_identifier() -> None:
    read = Read(several_xlsx({"id": ["9007199254740993", "9007199254740995", "9007199254740999"]}), "xlsx")
    assert read.table["id"] == ["9007199254740993", "9007199254740995", "9007199254740999"]
    read = Read(several_xlsx({"id": [12, "9007199254740993", 13]}), "xlsx")
    assert read.table["id"] == ["12", "9007199254740993", "13"]


def test_percent_of_a_workbook_is_what_it_is_in_a_csv_file() -> None:
    shares = [0.01, 0.07, 1 / 3, 1.0]
    read = Read(several_xlsx({"x": shares, "y": [1, 2, 3, 4]}), "xlsx")
    assert read.table == {"x": [1, 7, pytest.approx(100 / 3, rel=1e-15), 100], "y": [1, 2, 3, 4]}
    assert any("'x' is shown as percent, and read as it is shown: 1% is 1" in each for each in read.warnings)
    features = TableFeatures().fit(read.data)
    sent = features.transform_rows([{"x": value, "y": 1} for value in ("7%", 7, "7 %")])[0][:, 0]
    assert len(set(sent.tolist())) == 1
    # texts beside them mean the same
    read = Read(several_xlsx({"x": [0.01, "7%", "12.5 %", 0.5, "NA"]}), "xlsx")
    assert read.table["x"] == [1, 7, 12.5, 50, None]
    same = Read(several_csv({"x": ["1%", "7%", "12.5 %", "50%", "NA"], "y": ["a"] * 5}), "csv")
    assert same.table["x"] == read.table["x"]
    # two classes are called as they are shown
    assert Read(several_xlsx({"x": [0.1, 0.2, 0.1]}), "xlsx").columns["x"]["written"] == {"10": "10%", "20": "20%"}


def test_where_only_some_are_shown_as_percent_that_is_said() -> None:
    read = Read(several_xlsx({"x": [0.01, 0.5, 1]}), "xlsx")
    assert read.table["x"] == [0.01, 0.5, 1]
    (said,) = [each for each in read.warnings if "percent" in each]
    assert said == (
        "column 'x': 2 of its 3 numbers are shown as percent; all are read as the cells hold them: 1% is 0.01"
    )
    assert Read(several_xlsx({"x": [0.01, "7%", 1]}), "xlsx").table["x"] == ["1%", "7%", "1"]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        (["1%", "NA", "2%"], [1, None, 2]),
        (["NA", "1.234,5", "n/a", "12", "7.000"], [None, 1234.5, None, 12, 7000]),
        (["-", "$5", "unknown", "$7.50", "$9"], [None, 5, None, 7.5, 9]),
    ],
)
def test_words_for_missing_values_stand_beside_written_numbers(
    format: str, values: list[str], numbers: list[float | None]
) -> None:
    read = Read(FORMATS[format](values), format)
    assert read.table["x"] == numbers
    words = [value for value, number in zip(values, numbers, strict=True) if number is None]
    assert read.columns["x"]["missing_words"] == dict.fromkeys(words, 1)
    assert any("count as missing in a column of numbers" in warning for warning in read.warnings)
    features = TableFeatures().fit(read.data)
    sent = features.transform_rows([{"x": value, "z": 0} for value in [*values, None]])[0]
    assert sent[numbers.index(None)].tolist() == sent[-1].tolist()


@pytest.mark.parametrize("format", FORMATS)
def test_two_spellings_of_a_label_with_a_unit_are_said(format: str) -> None:
    read = Read(FORMATS[format](["10%", "20%", "10 %", "30%", "10%"]), format)
    assert read.labels("x") == ["10%", "20%", "10%", "30%", "10%"]
    assert any("'x' writes the same number in several ways, '10%' and '10 %'" in each for each in read.warnings)
    once = Read(FORMATS[format](["10%", "20%", "10%", "30%", "10%"]), format)
    assert not any("several ways" in each for each in once.warnings)

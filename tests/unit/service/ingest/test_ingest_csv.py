from __future__ import annotations

import bz2
import csv
import gzip
import io
import math
import re
import unicodedata

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from ingest_helpers import Read, refusal

from service.ingest import delimited, stream
from service.ingest.errors import IngestError
from service.ingest.quoting import QuoteScan
from service.ingest.records import ImproperQuoteError
from service.ingest.stream import CHUNK_BYTES
from solver.labels import is_missing_word


def test_numbers_and_texts_are_told_apart() -> None:
    read = Read(b"age,job,zip\n39,clerk,01234\n,,10115\n-4.5e1,x y,20095\n", "csv")
    assert read.kinds == {"age": "number", "job": "category", "zip": "category"}
    assert read.table == {
        "age": [39.0, None, -45.0],
        "job": ["clerk", None, "x y"],
        "zip": ["01234", "10115", "20095"],
    }
    assert read.columns["age"] == {
        "name": "age", "kind": "number", "missing": 1, "distinct": 2, "min": -45.0, "max": 39.0, "constant": False,
        "values": {"-45": 1, "39": 1},
    }  # fmt: skip
    assert read.columns["zip"]["leading_zeros"] is True
    assert read.columns["job"]["leading_zeros"] is False


@pytest.mark.parametrize(
    "value", ["0", "-0", "0.5", ".5", "5.", "-.5", "1e5", "1E-05", "-12.25e+3", " 7", "7 ", "9007199254740991", "1e300"]
)
def test_plain_number(value: str) -> None:
    read = Read(f"a,b\n{value},x\n1,y\n".encode(), "csv")
    assert read.table["a"] == [float(value), 1.0]


@pytest.mark.parametrize(
    "value",
    [
        *(
            "01",
            "-01",
            "00",
            "00.5",
            "+1",
            "1_000",
            '"1,000"',
            "inf",
            "-inf",
            "Infinity",
            "1e999",
            "0x10",
        ),
        *("1e", "e5", ".", "1-2", "--1", "1.2.3", "1 2", "١", "½", "1d", "1f", "true", "2024-01-01"),
        *("9007199254740993", "12345678901234567890"),
    ],
)
def test_not_a_plain_number(value: str) -> None:
    read = Read(f"a,b\n{value},x\n1,y\n".encode(), "csv")
    assert read.table["a"] == [value.strip('"'), "1"]


def test_missing_values() -> None:
    read = Read(b'a,b\n?,""\n1,NA\nNA,x\n', "csv", {"missing": ["?", "NA"]})
    assert read.table == {"a": [None, 1.0, None], "b": [None, None, "x"]}
    assert (read.columns["a"]["missing"], read.columns["b"]["missing"]) == (2, 2)
    assert read.columns["b"]["constant"] is False
    assert Read(b"a,b\n,1\n,1\n", "csv").columns["a"]["constant"] is True


def test_kinds_can_be_set() -> None:
    data = b"zip,n\n10115,007\n20095,+1\n"
    assert Read(data, "csv").kinds == {"zip": "number", "n": "category"}
    read = Read(data, "csv", {"columns": {"zip": "text", "n": "number"}})
    assert read.table == {"zip": ["10115", "20095"], "n": [7.0, 1.0]}
    error = refusal(b'n\n1\n\n"2"\n"3\nsecret"\n', "csv", {"columns": {"n": "number"}})
    assert (error.code, error.line, error.column) == ("bad_value", 5, "n")
    assert "secret" not in error.message
    assert refusal(data, "csv", {"columns": {"nosuch": "text"}}).code == "unknown_column"


def test_quotes_and_line_breaks() -> None:
    read = Read(b'a,b\r\n"x,1","line 1\nline 2"\r\n"say ""hi""",c"d\r\n\r\n', "csv")
    assert read.table == {"a": ["x,1", 'say "hi"'], "b": ["line 1\nline 2", 'c"d']}
    assert Read(b"a,b\r1,x\r2,y", "csv").table == {"a": [1.0, 2.0], "b": ["x", "y"]}


def test_header_false_names_columns_by_number() -> None:
    read = Read(b"1,x\n2,y\n", "csv", {"header": False})
    assert read.table == {"f0": [1.0, 2.0], "f1": ["x", "y"]}


def test_tsv_and_delimiters() -> None:
    assert Read(b"a\tb\n1,5\tx\n", "tsv").table == {"a": ["1,5"], "b": ["x"]}
    assert Read(b"a;b\n1;x\n", "csv", {"delimiter": ";"}).table == {"a": [1.0], "b": ["x"]}
    assert Read(b"a|b\n1|x\n", "tsv", {"delimiter": "|"}).table == {"a": [1.0], "b": ["x"]}


def test_trim() -> None:
    data = b"age, class\n39, <=50K\n 40, ?\n"
    read = Read(data, "csv")
    assert read.table == {"age": [39.0, 40.0], "class": [" <=50K", " ?"]}
    assert any("'class'" in warning and "blanks" in warning for warning in read.warnings)
    read = Read(data, "csv", {"trim": True, "missing": ["?"]})
    assert read.table == {"age": [39.0, 40.0], "class": ["<=50K", None]}
    assert read.warnings == []


def test_encodings() -> None:
    assert Read("\ufeffnäme,b\né,1\n".encode(), "csv").table == {"näme": ["é"], "b": [1.0]}
    for encoding in ("latin-1", "utf-16", "utf-16-le", "cp1252"):
        assert Read("näme,b\né,1\n".encode(encoding), "csv", {"encoding": encoding}).table == {
            "näme": ["é"],
            "b": [1.0],
        }
    error = refusal("a,b\n1,x\n2,é\n".encode("latin-1"), "csv")
    assert (error.code, error.line) == ("bad_encoding", 3)
    # a character that two chunks share
    read = Read(b"a\n" + b"x" * ((1 << 20) - 3) + "é\n".encode(), "csv", max_line_bytes=2 << 20)
    assert read.table["a"][0].endswith("é")


@pytest.mark.parametrize("position", [0, 1 << 20, (1 << 20) + 3])
def test_nul(position: int) -> None:
    data = b"a,b\n" + b"1,x\n" * (position // 4 + 1) + b"1,\0\n"
    error = refusal(data, "csv")
    assert (error.code, error.line) == ("bad_encoding", data.count(b"\n"))


def test_nothing_but_nul_bytes_is_damage_and_no_question_of_the_encoding() -> None:
    for data in (bytes(5000), gzip.compress(bytes(5000)), bz2.compress(bytes(5000))):
        for format in ("csv", "jsonl"):
            error = refusal(data, format)
            assert error.code == "malformed"
            assert "damaged" in error.message


def test_column_names() -> None:
    assert list(Read("e\u0301 ,b\n1,2\n".encode(), "csv").kinds) == ["é", "b"]
    read = Read(b",b\n1,2\n", "csv")
    assert list(read.kinds) == ["column1", "b"]
    assert len(read.warnings) == 1
    error = refusal("é,b,e\u0301\n1,2,3\n".encode(), "csv")
    assert (error.code, error.line, error.column) == ("bad_column_name", 1, "é")
    assert refusal(b"a," + b"x" * 257 + b"\n1,2\n", "csv").code == "bad_column_name"
    assert refusal(b'a,"x\ny"\n1,2\n', "csv").code == "bad_column_name"
    assert refusal(b"a,x\x1by\n1,2\n", "csv").code == "bad_column_name"
    assert list(Read(b"a,a.b,A\n1,x,2\n", "csv").data.columns) == ["a", "a.b", "A"]


def test_ragged_rows_name_their_line() -> None:
    error = refusal(b'a,b\n1,"x\ny"\n\n2,z\nsecret\n3,w\n', "csv")
    assert (error.code, error.line) == ("ragged", 6)
    assert "secret" not in error.message
    assert refusal(b"a,b\n1,2\n3,4,5\n", "csv").line == 3
    assert refusal(b"1,2\n3,4,5\n", "csv", {"header": False}).line == 2


def test_a_quote_that_is_never_closed() -> None:
    for data in (b'a,b\n1,"x\n2,y\n3,z\n', b'a,b\n1,"x', b'a,b\n1,x"y\n1,"x\n2,y\n', b'a,b\r\n1,"x\r\n'):
        error = refusal(data, "csv", {"quote": '"'})
        assert (error.code, error.line) == ("malformed", 2 + (b'x"y' in data)), data
        assert "never closed" in error.message
        read = Read(data, "csv")  # each line makes a row
        assert read.rows == data.rstrip().count(b"\n")
        assert "option quote null" in read.warnings[-1]
    assert Read(b'a,b\n1,"x\n"\n', "csv").table["b"] == ["x\n"]
    assert Read(b'a,b\n1,"x\n"', "csv").table["b"] == ["x\n"]


@pytest.mark.parametrize("data", [b"", b"\n\n", b"a,b\n", b"a,b", b"\xef\xbb\xbf"])
def test_empty(data: bytes) -> None:
    assert refusal(data, "csv").code == "empty"


def test_a_column_may_turn_out_to_be_text_late() -> None:
    n = 300_000
    rows = "".join(f"{i},{i * 0.5},k{i % 3}\n" for i in range(n))
    read = Read(f"a,b,c\n{rows}last,1,k0\n".encode(), "csv")
    assert read.kinds == {"a": "category", "b": "number", "c": "category"}
    assert read.rows == n + 1
    table = read.table
    assert table["a"] == [*map(str, range(n)), "last"]
    assert table["b"] == [*(i * 0.5 for i in range(n)), 1.0]
    assert (read.columns["a"]["distinct"], read.columns["a"]["distinct_capped"]) == (1001, True)
    assert read.columns["c"]["distinct"] == 3
    assert read.columns["c"]["values"] == {"k0": n // 3 + 1, "k1": n // 3, "k2": n // 3}
    warning = read.warnings[0]
    assert f"row {n + 1} " in warning
    assert "last" not in warning


def test_labels_are_what_was_written() -> None:
    read = Read(b"y,z,w\n1,spam,0.5\n-1,ham,1e3\n,,\n0,spam,-0\n", "csv")
    assert read.labels("y") == ["1", "-1", None, "0"]
    assert read.labels("z") == ["spam", "ham", None, "spam"]
    assert read.labels("w") == ["0.5", "1000", None, "0"]
    table = read.data
    assert [table.columns[name].kind for name in "yzw"] == ["number", "text", "number"]
    assert math.isnan(table.columns["y"].values[2])
    assert table.columns["z"].values.tolist() == ["spam", "ham", None, "spam"]


def test_labels_are_bounded() -> None:
    for value in ("x" * 257, '"x\ny"'):
        with pytest.raises(IngestError) as caught:
            Read(f"y\n{value}\n".encode(), "csv").labels("y")
        assert caught.value.code == "bad_label"
    with pytest.raises(IngestError) as caught:
        Read(b"y\n1\n", "csv").labels("z")
    assert caught.value.code == "unknown_column"


def test_gzip() -> None:
    data = b"a,b\n" + b"1,x\n" * 500_000
    assert Read(gzip.compress(data), "csv").rows == 500_000
    # several members in a row, and padding, are one file
    half = len(data) // 2
    assert (
        Read(gzip.compress(data[:half]) + b"\0" * 8 + gzip.compress(data[half:]) + b"\0" * 512, "csv").rows == 500_000
    )


def test_damaged_gzip() -> None:
    packed = gzip.compress(bytes(range(1, 256)).replace(b"\n", b"") * 4 + b"a,b\n1,2\n" * 1000)
    rows = gzip.compress(("a,b\n" + "".join(f"{i},{i * 7919 % 1000}\n" for i in range(20_000))).encode())
    assert refusal(rows[: len(rows) // 2], "csv").code == "truncated"
    assert refusal(rows[:-1], "csv").code == "truncated"
    assert refusal(rows[:5], "csv").code == "truncated"
    assert refusal(rows + b"garbage", "csv").code == "malformed"
    assert refusal(rows[:-8] + b"\0\0\0\0" + rows[-4:], "csv").code == "malformed"
    assert refusal(packed[:40] + b"\xff\xff\xff\xff" + packed[44:], "csv").code in ("malformed", "bad_encoding")


def test_limits() -> None:
    assert refusal(b"a,b\n" + b"1,2\n" * 11, "csv", max_rows=10).code == "too_many_rows"
    assert Read(b"a,b\n" + b"1,2\n" * 10, "csv", max_rows=10).rows == 10
    assert refusal(b"a,b\n" + b"1,2\n" * 11, "csv", max_cells=20).code == "too_many_cells"
    assert refusal(b"a,b,c\n1,2,3\n", "csv", max_columns=2).code == "too_many_columns"
    for length, code in ((100, None), (101, "too_long")):
        data = b"a\n" + b"1\n" * 600_000 + b"x" * length + b"\n1\n"
        if code is None:
            assert Read(data, "csv", max_line_bytes=100).rows == 600_002
        else:
            error = refusal(data, "csv", max_line_bytes=100)
            assert (error.code, error.line) == (code, 600_002)


def test_a_row_of_many_lines_is_bounded() -> None:
    data = b'a,b\n1,2\n1,"' + b"x\n" * 5_000_000 + b'"\n'
    error = refusal(data, "csv")
    assert error.code == "too_long"
    assert "quote" in error.message
    assert refusal(b'a,"' + b"x\n" * 400_000 + b'"\n', "csv").code == "too_long"


values = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12),
    st.sampled_from(
        ["01234", "1", "-1", "1e5", "0.1", "nan", "+5", " 3", '"', '""', ",", "\n", "\r\n", "a\rb", "1.10", "é"]
    ),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**20), 10**20).map(str),
)


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(1, 4).flatmap(lambda d: st.lists(st.lists(values, min_size=d, max_size=d), min_size=1, max_size=8)))
def test_round_trip(rows: list[list[str]]) -> None:
    """Every value comes back: exactly as text, or as the float64 that it spells; the empty one is missing.

    So are words for missing values among numbers.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow([f"c{i}" for i in range(len(rows[0]))])
    writer.writerows(rows)
    read = Read(text.getvalue().encode(), "csv")
    table = read.table
    assert read.rows == len(rows)
    for i, column in enumerate(zip(*rows, strict=True)):
        stored = table[f"c{i}"]
        if read.kinds[f"c{i}"] != "number":
            assert stored == [unicodedata.normalize("NFC", value) or None for value in column]
        else:
            known = ["" if is_missing_word(value) else value for value in column]
            assert stored == [float(value) if value else None for value in known]
            for value in filter(None, known):
                assert not re.match(r" *(\+|-?0[0-9])", value)


plain = st.from_regex(
    r"-?(?:(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{0,6})?|\.[0-9]{1,6})(?:[eE][+-]?[0-9]{1,2})?", fullmatch=True
)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(plain.filter(str.isascii), min_size=1, max_size=20))
def test_plain_numbers_are_numbers(column: list[str]) -> None:
    read = Read(("a\n" + "\n".join(column) + "\n").encode(), "csv")
    assert read.kinds == {"a": "number"}
    assert read.table["a"] == [float(value) for value in column]


@settings(max_examples=examples(300), deadline=None)
@given(st.text(st.sampled_from('",\n\r ab1'), max_size=30), st.sampled_from(["auto", '"', None]))
def test_rows_are_those_of_the_csv_module(body: str, quote: str | None) -> None:
    """Any arrangement of quotes, delimiters and line breaks is either refused or means what Python's csv reads."""
    data = f"first,second\n{body}"

    def records(text: str, quoting: int = csv.QUOTE_MINIMAL) -> list[list[str]]:
        return [record for record in csv.reader(io.StringIO(text, newline=""), quoting=quoting) if record][1:]

    options = {"quote": quote, "header": True, "columns": {"first": "text", "second": "text"}}
    try:
        read = Read(data.encode(), "csv", options)
    except IngestError as error:
        quoted = records(data) if quote else records(data, csv.QUOTE_NONE)
        if error.code == "ragged":
            assert any(len(record) != 2 for record in quoted)
        elif error.code == "empty":
            assert quoted == []
        elif "line breaks in it" in error.message:
            assert quote == "auto"
            assert all(len(record) == 2 for record in records(data, csv.QUOTE_NONE))
        elif "never closed" in error.message:
            # A further line would be swallowed by the last field.
            assert records(data + "\nz,z")[-1] != ["z", "z"]
        else:
            with pytest.raises(csv.Error):  # text behind a quote that closes
                list(csv.reader(io.StringIO(data, newline=""), strict=True))
        return
    unquoted = quote is None or any("option quote null" in warning for warning in read.warnings)
    expected = records(data, csv.QUOTE_NONE if unquoted else csv.QUOTE_MINIMAL)
    assert not any(value for record in expected for value in record[2:])  # delimiters at the ends of the lines
    stored = list(zip(*read.table.values(), strict=True))
    assert stored == [(record[0] or None, record[1] or None) for record in expected]
    lines = read.result["lines"]
    assert lines["total"] == len(list(io.StringIO(data, newline="")))
    assert lines["total"] == read.rows + lines["header"] + lines["blank"] + lines["continued"]


# --- quotes ----------------------------------------------------------------------------------------------------------


def lone_quotes(separator: str, *, last: bool, where: set[int]) -> bytes:
    """300 messages, of which some begin with a quote that closes nowhere."""
    lines = [f"label{separator}text" if last else f"text{separator}label"]
    for i in range(300):
        text = f'"free tickets {i}' if i in where else f'message number {i}: 5" screens'
        label = "spam" if i % 3 == 0 else "ham"
        lines.append(f"{label}{separator}{text}" if last else f"{text}{separator}{label}")
    return ("\n".join(lines) + "\n").encode()


@pytest.mark.parametrize("separator", [",", "\t"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("where", [{50, 250}, {50}, set(range(0, 300, 10))], ids=["two", "one", "many"])
def test_lone_quotes_swallow_no_rows(separator: str, last: bool, where: set[int]) -> None:
    data = lone_quotes(separator, last=last, where=where)
    read = Read(data, "csv")
    assert read.rows == 300
    assert read.table["text"][50] == '"free tickets 50'
    assert read.result["lines"] == {"total": 301, "header": 1, "blank": 0, "continued": 0}
    (warning,) = [each for each in read.warnings if "quote" in each]
    assert f"on line {min(where) + 2} does not close it" in warning
    assert Read(data, "csv", {"quote": None}).table == read.table
    error = refusal(data, "csv", {"quote": '"'})
    assert (error.code, error.line) == ("malformed", min(where) + 2)
    assert "null for option quote" in error.message


def scanned(text: bytes, pieces: int = 1) -> ImproperQuoteError:
    """How the scan of a whole file refuses it; of small files the reader of the head is the first to do so."""
    size = max(1, len(text) // pieces)
    with pytest.raises(ImproperQuoteError) as caught:
        for _ in QuoteScan(",", '"', 0).passing(text[at : at + size] for at in range(0, len(text), size)):
            pass
    return caught.value


@pytest.mark.parametrize("pieces", [1, 7, 1000])
def test_the_scan_of_a_whole_file_names_the_line_where_a_quote_opens(pieces: int) -> None:
    rows = [b"ham,message %d\n" % i for i in range(3000)]
    error = scanned(b"".join([*rows[:2500], b'ham,"free\n', *rows[2500:]]), pieces)
    assert (error.line, error.reason) == (2501, "open")
    error = scanned(b"".join([*rows[:2500], b'ham,"free\n', *rows[2500:2600], b'ham,"tickets\n', *rows[2600:]]), pieces)
    assert (error.line, error.reason) == (2501, "text")
    error = scanned(b"".join([*rows[:2500], b'"a \\" b",ham\n', *rows[2500:]]), pieces)
    assert (error.line, error.reason) == (2501, "backslash")


def test_a_lone_quote_far_down_swallows_no_rows() -> None:
    """Beyond the head of the file, which is read otherwise."""
    rows = [f"ham,message {i}" for i in range(5000)]
    rows[4000] = 'ham,"free tickets'
    read = Read(("label,text\n" + "\n".join(rows) + "\n").encode(), "csv")
    assert (read.rows, read.table["text"][4000]) == (5000, '"free tickets')
    assert any("on line 4002 does not close it" in said for said in read.warnings)
    rows = [f'ham,"a, b {i}"' for i in range(5000)]
    rows[4000] = 'ham,"free'
    error = refusal(("label,text\n" + "\n".join(rows) + "\n").encode(), "csv")
    assert (error.code, error.line) == ("malformed", 4002)


def test_a_swallowed_row_is_refused_where_lines_make_no_rows_by_themselves() -> None:
    """Other values need their quotes, so nobody can tell what the lone ones mean."""
    rows = [f'ham,"a, b {i}"' for i in range(300)]
    rows[50], rows[250] = 'ham,"free', 'spam,"tickets'
    error = refusal(("label,text\n" + "\n".join(rows)).encode(), "csv")
    assert (error.code, error.line) == ("malformed", 52)
    assert "closes it on line 252" not in error.message
    assert "on line 53" in error.message  # where the next quote closes it


def test_a_value_that_closes_by_chance_is_refused() -> None:
    """Line 52 opens one, and a screen of 12" at the end of line 252 would close it."""
    rows = [f"ham,message {i}" for i in range(300)]
    rows[50], rows[250] = 'ham,"free tickets', 'ham,a screen of 12"'
    data = ("label,text\n" + "\n".join(rows)).encode()
    error = refusal(data, "csv")
    assert (error.code, error.line) == ("malformed", 52)
    assert Read(data, "csv", {"quote": None}).rows == 300
    meant = Read(data, "csv", {"quote": '"'})
    assert (meant.rows, meant.result["lines"]["continued"]) == (100, 200)


def test_quotes_of_a_writer_stay_quotes() -> None:
    """All values are in quotes, and one has text behind: literal quotes everywhere would be worse."""
    rows = ['"label","text"', *(f'"ham","message {i}"' for i in range(300))]
    rows[60] = '"ham","message" 60'
    error = refusal("\n".join(rows).encode(), "csv")
    assert (error.code, error.line) == ("malformed", 61)


def test_values_of_several_lines_are_read_and_accounted_for() -> None:
    texts = [f"line one of {i}, and\nline two\n\nend x" if i % 7 == 0 else f"text {i}" for i in range(30_000)]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerows([["id", "text"], *enumerate(texts)])
    read = Read((text.getvalue() + "\r\n\r\n").encode(), "csv")
    assert read.table["text"] == texts
    continued = 3 * sum(i % 7 == 0 for i in range(30_000))
    assert read.result["lines"] == {"total": 30_003 + continued, "header": 1, "blank": 2, "continued": continued}
    assert not any("quote" in warning for warning in read.warnings)


def test_one_column_of_several_lines_is_said() -> None:
    read = Read(b'text\nfirst\n"second\nthird"\n', "csv")
    assert read.table == {"text": ["first", "second\nthird"]}
    assert "line 3" in read.warnings[-1]


def test_backslashes_before_quotes() -> None:
    data = b'text,n\nplain,1\n"a \\"nice\\" day, they said",2\nC:\\\\x,\\N\n\\N,4\n'
    error = refusal(data, "csv")
    assert (error.code, error.line) == ("malformed", 3)
    assert "option escape" in error.message
    read = Read(data, "csv", {"escape": "\\"})
    assert read.table == {"text": ["plain", 'a "nice" day, they said', "C:\\x", None], "n": [1.0, 2.0, None, 4.0]}
    assert any("\\N was read as missing" in warning for warning in read.warnings)


@pytest.mark.parametrize("line_end", ["\r", "\r\n", "\n"])
@pytest.mark.parametrize(
    ("value", "code"), [(b"\xff", "bad_encoding"), (b"\0", "bad_encoding"), (b"x" * 1001, "too_long")]
)
def test_lines_are_counted_whatever_ends_them(line_end: str, value: bytes, code: str) -> None:
    lines = [b"text,n"] + [b"some,1"] * (CHUNK_BYTES // 6)
    lines[-2] = value + b",1"
    error = refusal(line_end.encode().join(lines), "csv", {"encoding": "utf-8"}, max_line_bytes=1000)
    assert (error.code, error.line) == (code, len(lines) - 1)


def test_lines_of_utf_16_are_counted() -> None:
    """A line feed is two bytes there, and a byte of it may be one of another character."""
    text = "text,n\r\n" + "\u0a0a,1\r\n" * 100
    error = refusal(text.encode("utf-16") + b"\0\xdc" + "\r\n".encode("utf-16-le"), "csv", {"encoding": "utf-16"})
    assert (error.code, error.line) == ("bad_encoding", 102)


def test_what_mysql_writes() -> None:
    """SELECT … INTO OUTFILE as it is by default: tabs, backslashes before tabs, line breaks and backslashes."""
    data = b'id\ttext\ty\n1\ta\\\tb\\\nc\\\\\tp\n2\t\\N\tn\n3\t"x\tn\n4\tl\\nm \\N \\x\t\\N\n'
    read = Read(data, "tsv", {"escape": "\\", "quote": None})
    assert read.table["text"] == ["a\tb\nc\\", None, '"x', "l\nm N x"]
    assert read.table["y"] == ["p", "n", "n", None]
    assert read.result["lines"] == {"total": 6, "header": 1, "blank": 0, "continued": 1}


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.lists(st.text(st.sampled_from(",;\t\"\\\n\rNn a'"), max_size=8), min_size=2, max_size=2), min_size=1),
    st.sampled_from([csv.QUOTE_NONE, csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_escapes_come_back(rows: list[list[str]], quoting: int) -> None:
    text = io.StringIO(newline="")
    rows = [[value + "." for value in row] for row in rows]
    writer = csv.writer(text, quoting=quoting, escapechar="\\", doublequote=False, lineterminator="\r\n")
    writer.writerows([["first", "second"], *rows])
    options = {"escape": "\\", "header": True, "delimiter": ",", "quote": None if quoting == csv.QUOTE_NONE else '"'}
    read = Read(text.getvalue().encode(), "csv", options)
    assert list(zip(*read.table.values(), strict=True)) == [tuple(row) for row in rows]


def test_another_quote() -> None:
    read = Read(b"a,b\n'x, y',1\n'it''s \"so\"',2\n", "csv", {"quote": "'"})
    assert read.table["a"] == ["x, y", 'it\'s "so"']


@pytest.mark.parametrize(
    "options", [{"quote": "ab"}, {"quote": ""}, {"quote": "a"}, {"quote": ",", "delimiter": ","}, {"escape": "/"}]
)
def test_options_of_quotes_are_checked(options: dict[str, str]) -> None:
    assert refusal(b"a,b\n1,2\n", "csv", options).code == "bad_option"


def test_quotes_at_the_borders_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the scan sees piece by piece is what it sees at once, wherever a piece ends."""
    monkeypatch.setattr(stream, "CHUNK_BYTES", 1 << 12)
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 1 << 14)
    row = '"x ""y"" z","1,2\n3","",plain "p",\'\r\n'
    for shift in range(len(row)):
        data = "a,b,c,d,e\n" + "s" * shift + ",1,2,3,4\n" + row * 1200
        read = Read(data.encode(), "csv", {"header": True}, max_line_bytes=1 << 13)
        assert read.rows == 1201
        assert read.result["lines"]["continued"] == 1200


# --- files as people have them ---------------------------------------------------------------------------------------

ROWS = b"age,job,label\n39,clerk,yes\n40,pilot,no\n"
SAME = {"age": [39.0, 40.0], "job": ["clerk", "pilot"], "label": ["yes", "no"]}


@pytest.mark.parametrize(
    ("delimiter", "name"), [(b";", "';'"), (b"\t", "a tab"), (b"|", "'|'")], ids=["semicolon", "tab", "bar"]
)
def test_the_first_line_tells_the_delimiter(delimiter: bytes, name: str) -> None:
    read = Read(ROWS.replace(b",", delimiter), "csv")
    assert read.table == SAME
    assert f"read with {name} as delimiter" in read.warnings[0]
    assert Read(ROWS.replace(b",", delimiter), "csv", {"delimiter": delimiter.decode()}).warnings == []


def test_a_comma_in_the_first_line_is_the_delimiter() -> None:
    assert list(Read(b"a;b,c\n1;2,3\n", "csv").table) == ["a;b", "c"]
    assert Read(b'"a,b";c\n1;2\n', "csv").table == {"a,b": [1.0], "c": [2.0]}  # one in quotes is none
    error = refusal(b"a;b\n1\n", "csv")
    assert (error.code, error.line) == ("ragged", 2)
    assert "by the delimiter ';'; option delimiter" in error.message
    read = Read(b"a;b\n1;2\n", "csv", {"delimiter": ","})
    assert list(read.table) == ["a;b"]
    assert "holds ';'" in read.warnings[0]


def test_of_several_delimiters_in_the_first_line_the_rows_tell_which_it_is() -> None:
    """A name may have a comma, and every row a decimal one: read by commas such a file would make sense, too."""
    for numbers in ("1,50;7;x", "2;7;x"):
        read = Read(f"price (EUR, net);count;kind\n{numbers}\n3,25;8;y\n".encode(), "csv")
        assert list(read.table) == ["price (EUR, net)", "count", "kind"]
        assert "read with ';' as delimiter, because the first rows have more columns by it" in read.warnings[0]
    assert Read(b"id,x|y|z\n1,2\n", "csv").table == {"id": [1.0], "x|y|z": [2.0]}
    long = b'"a, b"\tc, d\te\n' + b'1\t"x\ty"\t"2\n3"\n' * 10_000
    assert list(Read(long, "csv").table) == ["a, b", "c, d", "e"]
    error = refusal(b"a, b;c\n1;2;3\n", "csv")
    assert "by the delimiter ','; option delimiter" in error.message


@pytest.mark.parametrize("begin", [b"sep=;\r\n", b"SEP=;\n", b'"sep=;"\r'])
def test_the_line_of_excel_that_says_the_delimiter(begin: bytes) -> None:
    rows = ROWS.replace(b",", b";")
    for options in ({}, {"delimiter": ";"}):
        read = Read(begin + rows, "csv", options)
        assert (read.table, read.warnings) == (SAME, [])
    assert refusal(begin + rows + b"1\n", "csv").line == 5
    assert refusal(begin + rows + b'"1\n', "csv").line == 5
    assert refusal(begin + rows, "csv", {"columns": {"job": "number"}}).line == 3


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_byte_order_mark_of_utf_16_tells_the_encoding(encoding: str) -> None:
    text = "größe;ort\n1;Köln\n"
    data = text.encode(encoding) if encoding == "utf-16" else ("\ufeff" + text).encode(encoding)
    assert Read(data, "csv").table == {"größe": [1.0], "ort": ["Köln"]}


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"PK\3\4\x14\0\6\0", "a workbook (.xlsx)"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "an old Excel"),
        (b"%PDF-1.7\n", "a PDF"),
        (b"PAR1\0", "a Parquet file"),
        (b"\xfd7zXZ\0", "packed by xz"),
        (b"\x28\xb5\x2f\xfd\0", "packed by zstd"),
        (b"\n <!DOCTYPE html>\n<html>a,b</html>", "a web page"),
    ],
)
def test_what_is_no_text_is_named(data: bytes, what: str) -> None:
    error = refusal(data, "csv")
    assert error.code == "malformed"
    assert what in error.message


@pytest.mark.parametrize(
    ("values", "advice"),
    [
        (["1,5", "-2,25"], 'decimal commas; if they are, upload again with option decimal ","'),
        (["1,234", "2,345"], "if these are decimal, upload again with option decimal"),
        (["1.234,50", "1.234.567,00"], "separators of thousands"),
        (["1 234", "12"], "separators of thousands"),
        (["$1.50", "$2"], "signs"),
        (["5 %", "6%"], "signs"),
        (["(1.50)", "2"], "signs"),
        (["\u22121", "2"], "signs"),
        (["\u00a01", "\u00a02"], "signs"),
        (["01234", "02345"], None),
        (["+1", "+2"], None),
        (["1.2.3", "1.2.4"], None),
        (["0221-123", "0221-456"], None),
        (["192.168.0.1", "10.0.0.1"], None),
        (["1,5", "x"], None),
    ],
)
def test_numbers_written_otherwise_are_remarked_on(values: list[str], advice: str | None) -> None:
    read = Read(b"x;y\n" + "".join(f"{value};1\n" for value in values).encode(), "csv", {"delimiter": ";"})
    assert read.table["x"] == values
    assert len(read.warnings) == (advice is not None)
    assert advice is None or (advice in read.warnings[0] and "column 'x'" in read.warnings[0])


def test_decimal_commas_in_quotes() -> None:
    assert Read(b'x,y\n"1,5",2\n"-0,25",3\n', "csv", {"decimal": ","}).table == {"x": [1.5, -0.25], "y": [2.0, 3.0]}


def test_booleans_are_the_same_however_they_are_spelt() -> None:
    flags = ["TRUE", "true", "False", "", "FALSE"] * 40_000  # several batches
    read = Read(("flag,word\n" + "".join(f"{flag},Yes{i % 2}\n" for i, flag in enumerate(flags))).encode(), "csv")
    assert read.columns["flag"]["values"] == {"false": 80_000, "true": 80_000}
    assert read.table["flag"] == [flag.lower() or None for flag in flags]
    assert read.labels("flag")[:4] == ["true", "true", "false", None]
    assert read.warnings == ["column 'flag' spells true and false in several ways; they are the same"]
    assert Read(b"flag\nTRUE\nFALSE\n", "csv").table["flag"] == ["TRUE", "FALSE"]  # one spelling stays
    other = Read(b"flag\nTRUE\ntrue\nmaybe\n", "csv")
    assert other.table["flag"] == ["TRUE", "true", "maybe"]
    assert "differ only in capitals" in other.warnings[0]


def test_a_first_line_of_values_is_remarked_on() -> None:
    assert "option header false" in Read(b"39,clerk\n40,pilot\n", "csv").warnings[0]
    assert Read(b"39,clerk\n40,pilot\n", "csv", {"header": False}).warnings == []
    error = refusal(b"0,1,0\n2,3,4\n", "csv")
    assert (error.code, error.line) == ("bad_column_name", 1)
    assert "option header false" in error.message


def test_columns_without_names_get_one_remark() -> None:
    assert Read(b"a,,,\n1,2,3,4\n", "csv").warnings == [
        "3 columns have no name and are called by their place, as 'column2'"
    ]


def test_bzip2() -> None:
    assert Read(bz2.compress(ROWS), "csv").table == SAME


def test_a_column_that_counts_the_rows_is_remarked_on() -> None:
    def read(values: list[int]) -> list[str]:
        return Read(("n,x\n" + "".join(f"{value},{value % 7}\n" for value in values)).encode(), "csv").warnings

    for first in (0, 1):
        (warning,) = read([*range(first, 300_000 + first)])  # several batches
        assert "column 'n' counts the rows" in warning
    for values in ([*range(2, 60)], [*range(40), 41], [*range(59, -1, -1)]):
        assert "column 'n' holds whole numbers that" in read(values)[0]
    for values in ([*range(19)], [*range(20), *range(20)]):
        assert read(values) == []


# --- the first line, and the ends of lines ---------------------------------------------------------------------------

NO_NAMES = {
    "a label that repeats": "".join(
        f"{('ham', 'spam')[i % 3 == 0]}\ta message, number {i}, about things\n" for i in range(50)
    ),
    "numbers of their size": "".join(f"{30 - i % 7}.{i % 10},{i % 9},{(i * 7) % 50}\n" for i in range(3, 60)),
    "negative numbers": "".join(f"-1.5,{i % 5}\n-2.5,7\n" for i in range(20)),
    "dates": "".join(f"2024-01-{i % 28 + 1:02},{i % 3}\n" for i in range(40)),
    "a word like others": "".join(f"w{chr(97 + i)}rd,{('spam', 'x')[i % 2]}\n" for i in range(12)),
    "a capital like others": "".join(f"{'wW'[i % 2]}{chr(97 + i)}rd,{('x', 'spam')[i % 2]}\n" for i in range(1, 14)),
    "letters": "".join(f"{'yn'[i % 2]},{'yn'[i // 2 % 2]},{'ab'[i % 2]}\n" for i in range(40)),
}
NAMES = {
    "text above numbers": "age,yes\n" + "1,yes\n2,no\n" * 20,
    "years": "2019,2020,2021\n" + "".join(f"{i},{i * 3},{i * 2}\n" for i in range(1000, 4000, 100)),
    "places": "0,1,2,3\n" + "1,0,2,3\n" * 9,
    "ids of any order": "1043,88,532\n" + "0,5,3\n1,0,2\n" * 9,
    "all texts": "text,label\n" + "".join(f"some words {i} of a text,{'ab'[i % 2]}\n" for i in range(40)),
    "the class as a name": "text,spam\n" + "".join(f"words of a text {i},{('spam', 'x')[i % 2]}\n" for i in range(9)),
    "the class over short texts": "question,yes\n" + "".join(f"foo{i},{('yes', 'no')[i % 2]}\n" for i in range(9)),
    **{
        f"spelt as {name}": f"{name},spam\n" + "".join(f"{chr(i)}rd,{('spam', 'x')[i % 2]}\n" for i in range(97, 109))
        for name in ("word_form", "wordForm", "LEMMA", "Lemma")
    },
    "repeated names": ("a,b\n" + "x,1\ny,2\n") * 1 + "z,3\n" * 20,
}  # fmt: skip


@pytest.mark.parametrize("data", NO_NAMES.values(), ids=NO_NAMES)
def test_a_first_line_of_values_is_a_row(data: str) -> None:
    read = Read(data.encode(), "csv")
    assert next(iter(read.kinds)) == "f0"
    assert read.rows == data.count("\n")
    assert any("first line was read as a row" in warning for warning in read.warnings)
    assert Read(data.encode(), "csv", {"header": False}).table == read.table


@pytest.mark.parametrize("data", NAMES.values(), ids=NAMES)
def test_names_stay_names(data: str) -> None:
    read = Read(data.encode(), "csv")
    assert list(read.table) == data.partition("\n")[0].split(",")
    assert read.rows == data.count("\n") - 1


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("a,b,\n1,x,\n2,y,\n", "was left out"),
        ("a,b\n1,x,\n2,y,\n", "was left out"),
        ("a,b,\n1,x\n2,y\n", "end the line of the column names"),
        ("a,b,,,\n1,x,,,\n2,y,,,\n", "the last 3 columns"),
    ],
)
def test_delimiters_that_end_lines_make_no_column(data: str, said: str) -> None:
    read = Read(data.encode(), "csv")
    assert read.table == {"a": [1, 2], "b": ["x", "y"]}
    assert any(said in warning for warning in read.warnings)


def test_a_value_behind_the_last_name_far_below_is_no_delimiter() -> None:
    rows = "1,x,\n" * 300_000
    assert Read(f"a,b,\n{rows}1,x,9\n".encode(), "csv").table["column3"][-1] == 9
    error = refusal(f"a,b\n{rows}1,x,9\n".encode(), "csv")
    assert (error.code, error.line) == ("ragged", 300_002)


def test_one_line_is_told_without_a_word_of_the_client() -> None:
    error = refusal(b"a,b,c1,2,34,5,6", "csv")
    assert error.code == "empty"
    assert "no rows below the column names" in error.message
    assert "curl" not in error.message


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("marks", [0, 1])
def test_only_the_byte_order_mark_of_the_file_is_dropped(encoding: str, marks: int) -> None:
    text = "\ufeff" * (marks and encoding != "utf-16") + "x,y\n\ufeffa,1\n\ufeffb,2\n"
    read = Read(text.encode(encoding), "csv", {"encoding": encoding})
    assert read.table == {"x": ["\ufeffa", "\ufeffb"], "y": [1, 2]}
    without_names = "\ufeff" * (encoding != "utf-16") + "\ufeffa,1\nb,2\n"
    read = Read(without_names.encode(encoding), "csv", {"encoding": encoding, "header": False})
    assert read.table == {"f0": ["\ufeffa", "b"], "f1": [1, 2]}

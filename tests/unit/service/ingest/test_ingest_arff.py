from __future__ import annotations

import io

import pytest
from ingest_helpers import Read, refusal
from scipy.io import arff

HEAD = b"""% a comment
@RELATION 'some thing'
@attribute sepal\tREAL
@Attribute 'petal length' numeric % trailing words are not read
@ATTRIBUTE class {setosa, 'v''x', "a b"}
@data
"""
DENSE = b"""@relation iris

@attribute a numeric
@attribute 'b c' real
@attribute when date "yyyy-MM-dd"
@attribute class {yes, no, 'may be'}

@data
1,2.5,'2026-01-02',yes
% between
-3e2, ?,2026-01-03,no
0,0,?,'may be'
"""


def test_dense_as_scipy_reads_it() -> None:
    read = Read(DENSE, "arff")
    assert read.kinds == {"a": "number", "b c": "number", "when": "date", "class": "category"}
    assert read.table == {
        "a": [1, -300, 0],
        "b c": [2.5, None, 0],
        "when": ["2026-01-02", "2026-01-03", None],
        "class": ["yes", "no", "may be"],
    }
    theirs, _ = arff.loadarff(io.StringIO(DENSE.decode().replace("@attribute when", "@attribute w")))
    assert theirs["a"].tolist() == read.table["a"]
    assert [value.decode() for value in theirs["class"]] == read.table["class"]


def test_sparse() -> None:
    data = b"@relation s\n@attribute a real\n@attribute t string\n@attribute c {x, y}\n@data\n"
    read = Read(data + b"{0 1.5, 1 'a, {b}', 2 y}\n{}\n{ 1 ?,2 x }\n{0 -2}\n", "arff")
    assert read.table == {
        "a": [1.5, 0, 0, -2],
        "t": ["a, {b}", None, None, None],
        "c": ["y", "x", "x", "x"],
    }
    for row in (b"{0 1, 0 2}", b"{3 1}", b"{0}", b"{x 1}", b"{0 1", b"{0 1}, {2}", b"{-1 1}", b"{99999999999 1}"):
        assert refusal(data + row, "arff").code == "malformed", row


def test_quotes_and_escapes() -> None:
    data = b"@relation q\n@attribute t string\n@attribute n numeric\n@data\n"
    rows = rb"""'it\'s', 1
"say \"hi\"",2 % a remark
'a\nb',3
'?',4
?,5
 plain text ,6
'\u0041',7
"""
    assert Read(data + rows, "arff").table["t"] == ["it's", 'say "hi"', "a\nb", "?", None, "plain text", "A"]


@pytest.mark.parametrize(
    ("data", "code", "line"),
    [
        (b"", "empty", None),
        (b"@relation x\n", "empty", None),
        (b"@relation x\n@attribute a real\n", "malformed", None),
        (b"@relation x\n@data\n1\n", "malformed", None),
        (b"@relation x\n@attribute a real\n@data\n", "empty", None),
        (b"a,b\n1,2\n", "malformed", 1),
        (b"@attribute a real\n@data\n1,2\n", "ragged", 3),
        (b"@attribute a real\n@data\nsecret\n", "bad_value", 3),
        (b"@attribute a real\n@data\n1e999\n", "bad_value", 3),
        (b"@attribute a real\n@data\ninf\n", "bad_value", 3),
        (b"@attribute a {x,y}\n@data\nsecret\n", "bad_value", 3),
        (b"@attribute a {x,y\n@data\nx\n", "malformed", 1),
        (b"@attribute a relational\n@data\nx\n", "unsupported", 1),
        (b"@attribute a nonsense\n@data\nx\n", "malformed", 1),
        (b"@attribute\n@data\nx\n", "malformed", 1),
        (b"@attribute a real\n@attribute a real\n@data\n1,1\n", "bad_column_name", None),
        (b"@attribute t string\n@data\n'x\n", "malformed", 3),
        (b"@attribute a real\n@data\n1, {5}\n", "malformed", 3),
        (b"@attribute a real\n@data\n1\n\0\n", "bad_encoding", 4),
    ],
)
def test_refusals(data: bytes, code: str, line: int | None) -> None:
    error = refusal(data, "arff")
    assert (error.code, error.line) == (code, line)
    assert "secret" not in error.message


def test_kinds_can_be_set() -> None:
    data = b"@attribute zip integer\n@attribute n {1,2}\n@data\n10115,2\n"
    read = Read(data, "arff", {"columns": {"zip": "category", "n": "number"}})
    assert read.table == {"zip": ["10115"], "n": [2]}
    assert read.kinds == {"zip": "category", "n": "number"}


@pytest.mark.parametrize("note", ["%{<=50K, >50K}", "% two classes", "  ", "%"])
def test_a_comment_behind_the_values_of_a_nominal(note: str) -> None:
    head = "@relation a\n@attribute x numeric % so much\n@attribute class {-1,'1}',\"a'b\", '5%'} " + note
    read = Read((head + "\n@data\n1,-1\n?,'1}'\n2\t,?\n3,'a\\'b'\n{0 4, 1 'a\\'b'}\n{}\n4,'5%' % x\n").encode(), "arff")
    assert read.table == {"x": [1, None, 2, 3, 4, 0, 4], "class": ["-1", "1}", None, "a'b", "a'b", "-1", "5%"]}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("{a,b} c", "nothing but a comment"),
        ("{a,b", "closing brace"),
        ("{a,'b}", "closing brace"),
        ("{5%,6%}", "quotes"),
    ],
)
def test_what_a_list_of_values_may_not_have(values: str, message: str) -> None:
    error = refusal(f"@relation a\n@attribute x {values}\n@data\na\n".encode(), "arff")
    assert (error.code, error.line) == ("malformed", 2)
    assert message in error.message

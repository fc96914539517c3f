from __future__ import annotations

import bz2
import gzip
from dataclasses import replace

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from ingest_helpers import LIMITS, Read, refusal

from service.ingest import svmlight
from service.ingest.errors import IngestError

SMALL = b"# made by hand\n+1 1:0.5 3:-2e-1 # comment 7:7\n-1 2:1\n\n0.5\t1:3   4:.5\r\n1 4:0\n"


def test_rows_labels_and_profile() -> None:
    read = Read(SMALL, "svmlight")
    data = read.data
    assert data.first_index == 1
    np.testing.assert_array_equal(data.X.toarray(), [[0.5, 0, -0.2, 0], [0, 1, 0, 0], [3, 0, 0, 0.5], [0, 0, 0, 0]])
    assert read.labels("label") == ["1", "-1", "0.5", "1"]
    assert read.columns["features"] == {
        "name": "features", "kind": "features", "missing": 0, "count": 4, "nonzeros": 6, "min": -0.2, "max": 3.0,
    }  # fmt: skip
    assert read.columns["label"]["distinct"] == 3
    with pytest.raises(IngestError):
        read.labels("y")


def test_zero_based() -> None:
    data = b"1 0:5 2:6\n-1 1:7\n"
    read = Read(data, "svmlight").data
    assert (read.first_index, read.X.toarray().tolist()) == (0, [[5, 0, 6], [0, 7, 0]])
    assert refusal(data, "svmlight", {"zero_based": False}).code == "bad_value"
    read = Read(b"1 1:5\n", "svmlight", {"zero_based": True}).data
    assert (read.first_index, read.X.toarray().tolist()) == (0, [[0, 5]])


def test_query_ids_are_ignored() -> None:
    read = Read(b"1 qid:3 1:2\n-1 qid:4 2:1 \n1 qid:5\n", "svmlight")
    assert read.data.X.toarray().tolist() == [[2, 0], [0, 1], [0, 0]]
    assert len(read.warnings) == 1


def test_packed() -> None:
    data = SMALL * 60_000
    for packed in (gzip.compress(data, 1), bz2.compress(data, 1)):
        read = Read(packed, "svmlight")
        assert (read.rows, read.columns["features"]["nonzeros"]) == (240_000, 360_000)
        assert refusal(packed[: len(packed) // 2], "svmlight").code == "truncated"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"1 2147483647:1", "index_too_large"),
        (b"1 1000001:1", "index_too_large"),
        (b"1 4294967296:1", "index_too_large"),
        (b"1 9223372036854775808:1", "index_too_large"),
        (b"1 " + b"9" * 100_000 + b":1", "index_too_large"),
        (b"1 -5:1", "malformed"),
        (b"1 +5:1", "malformed"),
        (b"1 1.5:1", "malformed"),
        (b"1 1:1 1:1", "malformed"),
        (b"1 2:1 1:1", "malformed"),
        (b"1 1 :1", "malformed"),
        (b"1 1: 1", "bad_value"),
        (b"1 1:1:1", "bad_value"),
        (b"1 :1", "malformed"),
        (b"1 a:1", "malformed"),
        (b"1:1 2:1", "bad_value"),
        (b"1 3:nan", "bad_value"),
        (b"1 3:inf", "bad_value"),
        (b"1 3:1e999", "bad_value"),
        (b"1 3:0x10", "bad_value"),
        (b"1 3:1_0", "bad_value"),
        (b"1 3:", "bad_value"),
        (b"nan 1:1", "bad_value"),
        (b"spam 1:1", "bad_value"),
        (b"1,2 1:1", "bad_value"),
        (b"1 1:1\x00", "bad_encoding"),
        (b"1 1:\xff", "bad_encoding"),
    ],
)
def test_refused_lines(line: bytes, code: str) -> None:
    error = refusal(b"1 1:1\n-1 2:1\n\n" + line + b"\n1 1:1\n", "svmlight")
    assert (error.code, error.line) == (code, 4)
    assert len(error.message) < 200


def test_the_line_is_right_in_a_later_block() -> None:
    error = refusal(b"1 1:1 # x\n" * 900_000 + b"1 2:1 1:1\n" + b"1 1:1\n" * 10, "svmlight")
    assert (error.code, error.line) == ("malformed", 900_001)


def test_the_largest_index_is_allowed() -> None:
    data = Read(b"1 1000000:1\n", "svmlight").data
    assert data.X.shape == (1, 1_000_000)


def test_limits() -> None:
    assert refusal(b"1 1:1\n" * 11, "svmlight", max_rows=10).code == "too_many_rows"
    assert refusal(b"1 1:1 2:1\n" * 11, "svmlight", max_cells=20).code == "too_many_cells"
    assert refusal(b"1 1:1 2:1\n", "svmlight", max_line_bytes=8).code == "too_long"
    for empty in (b"", b"# nothing\n", b"1\n-1\n"):
        assert refusal(empty, "svmlight").code == "empty"


ordinary = st.lists(
    st.tuples(
        st.sampled_from(["1", "-1", "+1", "0", "2.5", "1e3"]),
        st.lists(
            st.tuples(st.integers(0, 50), st.floats(allow_nan=False, allow_infinity=False)),
            max_size=5,
            unique_by=lambda pair: pair[0],
        ).map(sorted),
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=examples(150), deadline=None)
@given(ordinary)
def test_both_parsers_agree_on_ordinary_lines(rows: list[tuple[str, list[tuple[int, float]]]]) -> None:
    text = "".join(" ".join([label, *(f"{i}:{v!r}" for i, v in pairs)]) + "\n" for label, pairs in rows).encode()
    quick = svmlight._parse_quickly(text, LIMITS)
    assert quick is not None, "ordinary lines are parsed without a loop"
    slow = svmlight._parse_line_by_line(text, 1, LIMITS)
    for name in ("labels", "counts", "indices", "values"):
        np.testing.assert_array_equal(getattr(quick, name), getattr(slow, name))
    assert slow.values.tolist() == [value for _, pairs in rows for _, value in pairs]


@settings(max_examples=examples(600), deadline=None)
@given(st.text(st.sampled_from("0129:: \n.-+e"), max_size=25))
def test_the_quick_parser_takes_nothing_that_the_other_refuses(text: str) -> None:
    block = text.encode() + b"\n"
    limits = replace(LIMITS, max_feature_index=500)
    quick = svmlight._parse_quickly(block, limits)
    if quick is None:
        return
    slow = svmlight._parse_line_by_line(block, 1, limits)
    for name in ("labels", "counts", "indices", "values"):
        np.testing.assert_array_equal(getattr(quick, name), getattr(slow, name))

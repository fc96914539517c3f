"""CBOR as RFC 8949 has it: its own examples, and what strangers may send instead."""

from __future__ import annotations

import contextlib
import time
import tracemalloc
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from service.mailfilter.cbor import MAX_DEPTH, MAX_ITEMS, CborError, dumps, loads

# Of Appendix A, as far as JSON has the same.
EXAMPLES: list[tuple[str, Any]] = [
    ("00", 0),
    ("17", 23),
    ("1818", 24),
    ("1903e8", 1000),
    ("1a000f4240", 1_000_000),
    ("1bffffffffffffffff", (1 << 64) - 1),
    ("20", -1),
    ("3903e7", -1000),
    ("f4", False),
    ("f5", True),
    ("f6", None),
    ("40", b""),
    ("4401020304", b"\1\2\3\4"),
    ("60", ""),
    ("6449455446", "IETF"),
    ("63e6b0b4", "水"),
    ("80", []),
    ("8301820203820405", [1, [2, 3], [4, 5]]),
    ("a0", {}),
    ("a26161016162820203", {"a": 1, "b": [2, 3]}),
    ("826161a161626163", ["a", {"b": "c"}]),
]
ONLY_READ: list[tuple[str, Any]] = [
    ("f7", None),
    ("f93c00", 1.0),
    ("fa47c35000", 100_000.0),
    ("fb3ff199999999999a", 1.1),
    ("c074323031332d30332d32315432303a30343a30305a", "2013-03-21T20:04:00Z"),
    ("d74401020304", b"\1\2\3\4"),
    ("5f42010243030405ff", b"\1\2\3\4\5"),
    ("7f657374726561646d696e67ff", "streaming"),
    ("9fff", []),
    ("9f018202039f0405ffff", [1, [2, 3], [4, 5]]),
    ("bf61610161629f0203ffff", {"a": 1, "b": [2, 3]}),
]
WRONG = {
    "nothing": b"",
    "two values": b"\0\0",
    "an end": b"\xff",
    "an end inside": b"\x82\0\xff",
    "an end instead of a value": b"\xbf\x61a\xff",
    "half a number": b"\x19\1",
    "half a text": b"\x63ab",
    "more than there is": b"\x9b" + b"\xff" * 8,
    "a long text": b"\x7b" + b"\x7f" * 8,
    "no UTF-8": b"\x61\xff",
    "a number as a key": b"\xa1\0\0",
    "a list as a key": b"\xa1\x80\0",
    "a reserved length": b"\x1c",
    "a simple value": b"\xf0",
    "a text in pieces of bytes": b"\x7f\x41a\xff",
    "too deep": b"\x81" * (MAX_DEPTH + 2) + b"\0",
    "far too deep": b"\x9f" * 1_000_000,
    "tags all the way": b"\xc0" * 1_000_000 + b"\0",
    "too many": b"\x9f" + b"\0" * (MAX_ITEMS + 1) + b"\xff",
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 64), (1 << 64) - 1) | st.binary() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@pytest.mark.parametrize(("data", "value"), EXAMPLES + ONLY_READ)
def test_examples_of_the_standard(data: str, value: Any) -> None:
    assert loads(bytes.fromhex(data)) == value
    assert type(loads(bytes.fromhex(data))) is type(value)
    if (data, value) in EXAMPLES:
        assert dumps(value).hex() == data


@settings(max_examples=examples(200))
@given(VALUES)
def test_what_is_written_is_read(value: Any) -> None:
    assert loads(dumps(value)) == value


@settings(max_examples=examples(300))
@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_refused(data: bytes) -> None:
    with contextlib.suppress(CborError):
        loads(data)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_none_is_refused_soon_and_without_memory(name: str) -> None:
    tracemalloc.start()
    began = time.process_time()
    try:
        with pytest.raises(CborError):
            loads(WRONG[name])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.process_time() - began < 3
    assert most < 20_000_000


def test_what_is_no_value_of_json_is_not_written() -> None:
    for wrong in (1.5, object(), {"a": {1}}):
        with pytest.raises(TypeError):
            dumps(wrong)
    with pytest.raises(OverflowError):
        dumps(1 << 64)

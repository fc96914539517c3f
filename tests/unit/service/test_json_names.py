from __future__ import annotations

import json
import time

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.api.json_body import parse_json
from service.api.problem import InvalidJson
from service.json_names import has_repeated_names


@pytest.mark.parametrize(
    "raw",
    [
        '{"a": 1, "a": 2}',
        '{"a": 1, "b": {"c": 1, "c": 1}}',
        '[{"a": 1}, {"\\u0061": 1, "a": 1}]',
        '{"a": "x:y", "a": 1}',
        '{"a": 1, "a": "\\u003a"}',
        '{"a": 1, "a": "\\u003A"}',
        '{"a": {}, "a": {"b": 1}}',
        '{"rows": [{"a": 1, "b": 2}, {"a": 1, "a": 2}]}',
        '{"rows": [{"a": 1}], "rows": [{"a": 1, "b": 2}, {"a": 1, "b": 2}]}',
        '{"rows": [{"a": ":", "a": 2}]}',
    ],
)
def test_repeated_names_are_refused(raw: str) -> None:
    assert has_repeated_names(raw.encode(), orjson.loads(raw))
    with pytest.raises(InvalidJson, match="twice"):
        parse_json(raw.encode())


def test_levels() -> None:
    deep = b'{"a":' * 1000 + b'"\\u003a"' + b"}" * 1000
    with pytest.raises(InvalidJson, match="levels"):
        parse_json(deep)
    assert parse_json(b'{"a":' * 300 + b'":"' + b"}" * 300)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(st.sampled_from(':"\\,{}aé ')),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.sampled_from(':"ab'), max_size=3), inner),
    max_leaves=8,
)


@given(values, st.sampled_from([None, 2]), st.booleans())
def test_other_json_is_taken(value: object, indent: int | None, ascii: bool) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=ascii).encode()
    assert parse_json(raw) == value


def test_brackets_and_a_text_without_an_end_take_no_time() -> None:
    """Each quote in it was once tried as the beginning of a text."""
    raw = b"[" * 80_000 + b'"' + b'\\"' * 40_000
    began = time.process_time()
    with pytest.raises(InvalidJson):
        parse_json(raw)
    assert time.process_time() - began < 5

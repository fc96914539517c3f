from __future__ import annotations

import json
import tracemalloc

import pytest

from service.json_sizes import TooManyValuesError, count_of, has_more_values_than, is_mostly_brackets
from service.mailfilter.http_exchange import MAX_VALUES, json_in
from service.mailfilter.mta_hooks import asked_by


@pytest.mark.parametrize("piece", [b"[]", b"{}", b"0", b'""', b'{"a":[1]}'])
def test_json_of_small_values_takes_no_memory_at_the_doors_of_mail(piece: bytes) -> None:
    body = b'{"stage":"data","rawMessage":[' + b",".join([piece] * (MAX_VALUES + 1)) + b"]}"
    tracemalloc.start()
    try:
        assert asked_by(body, False).raw is None
        with pytest.raises(TooManyValuesError):
            json_in(body)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_what_stands_in_texts_is_not_counted() -> None:
    said = {"message": "[,{" * MAX_VALUES + '\\"', "headers": [["A", "b"]] * (MAX_VALUES // 4)}
    raw = json.dumps(said).encode()
    assert json_in(raw) == said


def test_values_are_counted() -> None:
    assert not has_more_values_than(4, b'[1, {"a,": 2}, "[[["]')
    assert has_more_values_than(3, b'[1, {"a,": 2}, "[[["]')


@pytest.mark.parametrize("length", [10, 20_000])
def test_characters_are_counted_alike_in_small_and_in_large_texts(length: int) -> None:
    raw = b'{"a":[1,"\xc3\xa4[,"]}' * length
    assert count_of(b":", raw) == length
    assert [count_of(each, raw) for each in (b",", b"[", b"{")] == [2 * length, 2 * length, length]


@pytest.mark.parametrize("piece", [b"[]", b"{}", b"[[]]"])
def test_lists_of_nothing_are_not_taken_apart(piece: bytes) -> None:
    assert is_mostly_brackets(b"[" + b",".join([piece] * 200_000) + b"]")
    assert not is_mostly_brackets(b"[" + b",".join([b"[1]"] * 200_000) + b"]")
    assert not is_mostly_brackets(b'["' + piece * 200_000 + b'"]')

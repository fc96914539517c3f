"""Columns that are looked at together come to the same as each by itself."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from ingest_helpers import Read

from service.ingest.numbers import PLAIN_NUMBER, plain_columns, plain_numbers
from service.ingest.side_by_side import VALUES_TOGETHER, SideBySide, grouped
from service.ingest.statistics import ColumnStatistics
from service.ingest.writings import PointsOfNumbers

ROWS = 4
PLAIN = st.sampled_from(["0", "-0", "1", "-2.5", ".5", "5.", "0.125", "1.234", "-12.345", "1e5", "0e1", None])
ODD = [
    "01",
    "-01",
    "+1",
    " 1",
    "1 ",
    "",
    "-",
    "nan",
    "-inf",
    "infinity",
    "1e999",
    "9007199254740993",
    "x",
    "0x1",
    "1_0",
]
TEXTS = st.lists(PLAIN, min_size=ROWS, max_size=ROWS) | st.lists(
    PLAIN | st.sampled_from(ODD), min_size=ROWS, max_size=ROWS
)


@given(st.lists(TEXTS, min_size=1, max_size=6))
@settings(max_examples=examples(300), deadline=None)
def test_texts_are_the_same_numbers(columns: list[list[str | None]]) -> None:
    arrays = [pa.array(texts, pa.string()) for texts in columns]
    for array, together in zip(arrays, plain_columns(arrays), strict=True):
        alone = plain_numbers(array)
        assert together is None or together.equals(alone)
        present = [text for text in array.to_pylist() if text is not None]
        if all(map(re.compile(PLAIN_NUMBER).match, present)) and not {"1e999", "9007199254740993"} & {*present}:
            assert alone is not None
            assert plain_columns([array])[0] is not None


@given(st.lists(st.lists(PLAIN, min_size=ROWS, max_size=ROWS), min_size=1, max_size=6))
@settings(max_examples=examples(200), deadline=None)
def test_points_mean_the_same(columns: list[list[str | None]]) -> None:
    arrays = [pa.array(texts * 20, pa.string()) for texts in columns]
    together = [PointsOfNumbers() for _ in arrays]
    for batch in ([array[1:] for array in arrays], [array[:1] for array in arrays]):
        PointsOfNumbers.add_together(together, batch)
    for array, points in zip(arrays, together, strict=True):
        alone = PointsOfNumbers()
        alone.add(array[1:])
        alone.add(array[:1])
        assert vars(points) == vars(alone)


def test_profiles_are_the_same() -> None:
    rng = np.random.default_rng(0)
    n = 3000
    measured = rng.normal(size=n)
    columns = [
        measured,
        np.where(np.arange(n) < 1990, 1.5, measured),
        np.abs(measured) * (np.arange(n) > 0),
        np.where(np.arange(n) == 7, -0.0, np.abs(measured)),
        np.sort(measured),
        np.arange(n) + 1.0,
        rng.integers(0, 10**6, n) + 0.0,
        rng.integers(1_500_000_000, 1_600_000_000, n) + 0.5 * (np.arange(n) == 0),
        rng.integers(1_500_000_000, 1_600_000_000, n) + 0.0,
        np.round(measured, 1),
        np.full(n, 3.0),
    ]
    arrays = [pa.array(each) for each in columns]
    arrays += [pa.array(measured, mask=measured > 1), pa.array([f"word {i % 30}" for i in range(n)])]
    names = [f"column {j}" for j in range(len(arrays))]
    together, alone = ([ColumnStatistics(name) for name in names] for _ in range(2))
    for batch in ([array[:2500] for array in arrays], [array[2500:] for array in arrays]):
        ColumnStatistics.add_together(together, batch)
        for column, array in zip(alone, batch, strict=True):
            column.add(array)
    for one, other in zip(together, alone, strict=True):
        assert repr(one.profile().to_json()) == repr(other.profile().to_json())
        assert one.seen_as_times() == other.seen_as_times()


def test_one_odd_value_among_many_columns_is_read_as_ever() -> None:
    rows = 1100
    cells = [[f"{row}.{column:03}5" for column in range(150)] for row in range(rows)]
    cells[-1][40], cells[3][70], cells[5][90], cells[0][110] = "NA", "007", " 1.5", "word"
    text = "\n".join([",".join(f"c{j}" for j in range(150)), *map(",".join, cells)]) + "\n"
    read = Read(text.encode(), "csv")
    assert {name for name, kind in read.kinds.items() if kind != "number"} == {"c70", "c110"}
    assert read.columns["c40"]["missing_words"] == {"NA": 1}
    assert read.table["c90"][5] == 1.5
    assert read.table["c41"] == [float(row[41]) for row in cells]


def test_groups_hold_all_columns_in_order() -> None:
    columns = list(range(100))
    groups = grouped(columns, VALUES_TOGETHER // 7)
    assert [each for group in groups for each in group] == columns
    assert {len(group) for group in groups} == {7, 2}
    assert grouped(columns, 10**9)[0] == [0]


def test_what_a_thread_raises_is_raised() -> None:
    with SideBySide() as threads:
        assert threads.of_each(abs, range(-3, 0)) == [3, 2, 1]
        with pytest.raises(ZeroDivisionError):
            threads.of_each(lambda each: 1 // each, [1, 0])

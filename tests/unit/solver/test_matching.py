"""Scores in the terms of another model, by ranks: exact where the models differ by a scale, and always in order."""

from __future__ import annotations

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.evaluation.matching import matched_scores


@given(seed=st.integers(0, 10_000), factor=st.floats(0.1, 10), offset=st.floats(-5, 5))
@settings(max_examples=examples(40), deadline=None)
def test_a_model_of_another_scale_is_brought_to_the_common_one(seed: int, factor: float, offset: float) -> None:
    rng = np.random.default_rng(seed)
    reference, scores = rng.normal(size=200), rng.normal(size=50)
    within = (scores > reference.min()) & (scores < reference.max())
    found = matched_scores(scores, reference, factor * reference + offset, 0.0)
    np.testing.assert_allclose(found[within], factor * scores[within] + offset, atol=1e-9)


@given(
    scores=st.lists(st.integers(-20, 20), min_size=2, max_size=30),
    reference=st.lists(st.integers(-15, 15), min_size=1, max_size=30),
    resolution=st.sampled_from([0.0, 0.3, 2.0]),
    seed=st.integers(0, 100),
)
@settings(max_examples=examples(200), deadline=None)
def test_the_order_is_kept(scores: list[int], reference: list[int], resolution: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ordered = np.sort(np.array(scores, dtype=float) / 2)
    common = rng.normal(size=len(reference)).round(1)
    found = matched_scores(ordered, np.array(reference, dtype=float) / 2, common, resolution)
    assert np.all(np.diff(found) >= -1e-12)


@pytest.mark.parametrize(
    ("score", "expected"),
    [(1.0, 20.0), (1.5, 25.0), (3.0, 45.0), (5.0, 51.0), (0.0, 9.0), (1.0004, 20.0)],
)
def test_ranks_ties_and_what_lies_beyond(score: float, expected: float) -> None:
    # 1 is the second of the rows; 3 is twice there, so it takes the middle of both ranks
    reference, common = np.array([0.5, 1.0, 2.0, 3.0, 3.0]), np.array([9.5, 20.0, 30.0, 40.0, 50.0])
    expected = {5.0: 52.0, 0.0: 9.0}.get(score, expected)
    assert matched_scores(np.array([score]), reference, common, 1e-3)[0] == pytest.approx(expected)

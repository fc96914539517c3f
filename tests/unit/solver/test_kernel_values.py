"""Kernel values with fixed samples: one row goes another way than many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from solver.kernels.values import KernelColumns

GENERATOR = np.random.default_rng(0)
Z = GENERATOR.normal(size=(40, 5))
X = GENERATOR.normal(size=(6, 5))


@pytest.mark.parametrize("kind", ["rbf", "linear", "poly", "sigmoid"])
@pytest.mark.parametrize("form", [np.array, np.float32, sparse.csr_array])
def test_one_row_has_the_values_that_it_has_among_others(kind: str, form: Any) -> None:
    columns = KernelColumns(Z, kind, gamma=0.3, degree=2, coef0=0.5)
    block = columns.block(form(X))
    for i, expected in enumerate(block):
        alone = columns.block(form(X[i : i + 1]))
        assert (alone.shape, alone.dtype) == ((1, 40), np.float64)
        np.testing.assert_allclose(alone[0], expected, rtol=1e-13)


def test_rbf_is_that_of_distances() -> None:
    distances = ((X[:1, None, :] - Z[None]) ** 2).sum(axis=2)
    columns = KernelColumns(Z, "rbf", gamma=0.3)
    np.testing.assert_allclose(columns.block(X[:1]), np.exp(-0.3 * distances), rtol=1e-13)
    np.testing.assert_array_equal(columns.block(np.full((1, 5), 1e150)), np.zeros((1, 40)))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_refused(value: float) -> None:
    row = X[:1].copy()
    row[0, 3] = value
    with pytest.raises(ValueError, match="holds NaN or infinity"):
        KernelColumns(Z, "rbf", gamma=0.3).block(row)


@pytest.mark.parametrize("shape", [(1, 4), (1, 6), (5,)])
def test_a_row_of_another_width_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"has \d columns|two-dimensional"):
        KernelColumns(Z, "rbf", gamma=0.3).block(np.zeros(shape))

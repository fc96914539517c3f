"""Tests of whether two classifiers have the same error rate, as the papers have them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, ndtr

from solver.evaluation.significance import joint_counts


def mcnemar(y_true: ArrayLike, first: ArrayLike, second: ArrayLike) -> float:
    """Exact McNemar test: two-sided p-value that two classifiers have the same error rate.

    Looks at the rows that exactly one of them gets right; under the hypothesis each is right on half of these
    (McNemar 1947, with the binomial distribution).

    Parameters
    ----------
    y_true : array of shape (n,)
        Positive where > 0.
    first, second : bool arrays of shape (n,)
        Which rows each classifier predicts positive.

    Returns
    -------
    float
        1 when they are right on the same rows.
    """
    cells = joint_counts(y_true, first, second)
    only_first = int(cells[1, 1, 0] + cells[0, 0, 1])
    only_second = int(cells[1, 0, 1] + cells[0, 1, 0])
    return float(min(1.0, 2 * bdtr(min(only_first, only_second), only_first + only_second, 0.5)))


def unpaired_z_test(first_error: float, second_error: float, n: int) -> tuple[float, float]:
    """z-test of two error rates on a test set, as equation 4.6 of the data-augmentation dissertation prints it.

    It takes the classifiers for independent although they share the test rows, and the one-sided p-value for the
    difference's absolute value: that is how the work's tables were made. `mcnemar` and `paired_bootstrap` of
    `solver.evaluation` do not assume it.

    Parameters
    ----------
    first_error, second_error : float in [0, 1]
    n : int
        Test rows.

    Returns
    -------
    (z, p) : tuple of float
        p = P[Z > z]; z is 0 when the rates are equal, infinite when they differ without any variance.
    """
    if n < 1 or not (0 <= first_error <= 1 and 0 <= second_error <= 1):
        raise ValueError(f"need error rates in [0, 1] and n >= 1, got {first_error}, {second_error} and {n}")
    difference = abs(first_error - second_error)
    variance = (first_error * (1 - first_error) + second_error * (1 - second_error)) / n
    if difference == 0:
        return 0.0, 0.5
    z = difference / np.sqrt(variance) if variance > 0 else np.inf
    return float(z), float(ndtr(-z))

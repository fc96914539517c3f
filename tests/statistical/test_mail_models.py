"""Complaints 21, 25 and 32 of `test_mail_complaints.py`: what uneven labels, a pool and chance do to a filter.

Mails are words drawn at random, the labels of each from its own distribution: what a filter of real mails reaches is
measured by `make bench-mail`, what must not happen to any is tested here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from solver.algorithms import ALGORITHMS

pytestmark = pytest.mark.slow

WORDS = 400
_OF_HAM, _OF_SPAM = np.random.default_rng(5).dirichlet(np.full(WORDS, 0.3), 2)


def mails(spam: int, ham: int, seed: int) -> tuple[Any, NDArray[np.int_]]:
    """Return texts as word counts of length 1, and which are spam; half of the words of a text are of both kinds."""
    rng = np.random.default_rng(seed)
    both = (_OF_HAM + _OF_SPAM) / 2
    y = np.repeat([1, 0], [spam, ham])
    counts = [rng.multinomial(15, _OF_SPAM if each else _OF_HAM) + rng.multinomial(15, both) for each in y]
    X = np.log1p(np.array(counts, dtype=np.float64))
    return sparse.csr_array(X / np.linalg.norm(X, axis=1, keepdims=True)), y


def fitted(algorithm: str, X: Any, y: NDArray[np.int_], **params: Any) -> Any:
    return ALGORITHMS[algorithm].load()(**({"kernel": "linear", "objective": {"kind": "f1"}} | params)).fit(X, y)


def ham_precision(model: Any, X: Any, y: NDArray[np.int_]) -> float:
    called_ham = np.asarray(model.predict(X)) == 0
    return float((y[called_ham] == 0).mean())


def with_pool(
    labelled: tuple[int, int], pool: tuple[int, int], seed: int
) -> tuple[Any, NDArray[np.int_], NDArray[np.bool_]]:
    """Return labelled mails and then those of a pool, labels with -1 for the latter, and which are of the pool."""
    X, y = mails(*labelled, seed)
    others, _ = mails(*pool, seed + 1000)
    given = np.concatenate([y, np.full(others.shape[0], -1)])
    return sparse.csr_array(sparse.vstack([X, others])), given, given == -1


def test_what_is_called_good_is_as_good_with_very_uneven_labels() -> None:
    X, y = mails(500, 500, 7)
    model = fitted("svm", *mails(2000, 40, 1))
    even = ham_precision(fitted("svm", *mails(300, 300, 2)), X, y)
    assert ham_precision(model, X, y) >= even - 0.02
    assert np.mean(np.asarray(model.predict(X[y == 0])) == 0) > 0.5  # and not by calling next to nothing good


def test_the_share_called_spam_of_a_pool_keeps_to_the_bounds_of_self_training() -> None:
    X, y, pool = with_pool((30, 30), (120, 280), 3)
    model = fitted("mean-s3vm", X, y, positive_share=0.3)
    assert 0.25 <= np.mean(np.asarray(model.predict(X[pool])) == 1) <= 0.35


def test_a_pool_of_spam_does_not_pull_the_threshold_where_its_share_is_given() -> None:
    judged = mails(0, 2000, 12)[0], mails(2000, 0, 13)[0]
    pools = [with_pool((30, 30), (450, 50), seed)[:2] for seed in (11, 21, 31, 41)]

    def lost_and_caught(share: float) -> tuple[float, float]:
        models = [fitted("mean-s3vm", X, y, positive_share=share) for X, y in pools]
        lost, caught = (np.mean([np.asarray(model.predict(each)) == 1 for model in models]) for each in judged)
        return float(lost), float(caught)

    lost, caught = lost_and_caught(0.9)
    assert lost <= 0.03
    assert caught >= 0.95
    # a share that is not the one that was given is told from it, also one that is near
    of_six_tenths, of_half = lost_and_caught(0.6)[0], lost_and_caught(0.5)[0]
    assert of_six_tenths >= lost + 0.02
    assert of_half >= of_six_tenths + 0.01


@pytest.mark.parametrize("algorithm", ["svm", "mean-s3vm"])
def test_chance_and_one_label_more_hardly_move_what_is_called_spam(algorithm: str) -> None:
    X, y, pool = with_pool((60, 60), (300, 500), 21)
    shares = [
        np.mean(np.asarray(fitted(algorithm, X, y, random_state=seed).predict(X[pool])) == 1) for seed in range(5)
    ]
    more = y.copy()
    more[np.flatnonzero(pool)[0]] = 1
    shares.append(np.mean(np.asarray(fitted(algorithm, X, more).predict(X[pool])) == 1))
    assert np.ptp(shares) < 0.03

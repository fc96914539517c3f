"""Proofs of audits are false no more often than they may be, and take no more labels than is said of them.

The truth of the pools is known: see `benchmarks/audits.py`.
"""

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.audits import (
    AUDITS,
    CONFIDENCE,
    MODELS,
    MOST,
    Model,
    audit,
    false_in_order,
    false_proofs,
    labels_needed,
    proven_share,
    recall_labels,
    truth,
)
from solver.audits import AuditTarget


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", MOST)
def test_proofs_are_false_no_more_often_than_they_may_be(kind):
    """At any moment: a proof that would have been there once counts. The statements are as nearly true as can be."""
    false = {name: false_proofs(model, kind) for name, model in MODELS.items()}
    # what 400 audits count is a chance of its own, of one model and of all together
    assert all(count <= binom.ppf(0.999, AUDITS, 1 - CONFIDENCE) for count in false.values()), false
    assert sum(false.values()) <= binom.ppf(0.95, len(MODELS) * AUDITS, 1 - CONFIDENCE), false


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", MOST)
def test_thresholds_that_are_tried_in_order_are_proven_falsely_no_more_often_than_one(kind):
    audits = 200
    false = false_in_order(MODELS["middling"], kind, audits)
    assert false <= binom.ppf(0.999, audits, 1 - CONFIDENCE), false


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_is_so_is_seldom_refuted():
    rng = np.random.default_rng(11)
    refuted = 0
    for number in range(200):
        pool = MODELS["middling"].pool(rng)
        target = AuditTarget("precision", truth(pool, "precision"))
        refuted += audit(pool, target, 1500, number)[0] == "refuted"
    assert refuted <= binom.ppf(0.999, 200, 1 - CONFIDENCE)


@pytest.mark.slow
def test_labels_that_a_precision_takes():
    assert labels_needed(0, 100) == 62
    assert proven_share(0.995, 120) >= 0.68
    assert proven_share(0.995, 200) >= 0.94
    assert proven_share(0.985, 300) >= 0.80


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("rows", "recall"), [(50_000, 0.93), (10_000, 0.93), (10_000, 0.95)])
def test_a_recall_takes_a_third_of_the_labels_of_a_random_sample(rows, recall):
    found = recall_labels(Model(rows, 0.05, 4.0, recall), audits=25)
    assert found.audit <= found.random / 3, found
    assert found.audit <= 1.25 * found.least_by_strata, found
    assert found.proven >= 0.9  # the contrary is proved of what is so in one of twenty, at most

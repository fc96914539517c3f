"""Whoever computes the parts of a training, its model has the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from solver.estimators import svm
from solver.evaluation import OperatingCurve
from solver.features import MatrixData
from solver.parts import OnePart, PartComputed, numerics
from solver.training import TrainingRequest, train


def problem(rows: int, labelled: int, features: int = 8, kind: str = "dense"):
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, features)).round(3)
    truth = X[:, 0] + X[:, 1] ** 2 + 0.5 * random.normal(size=rows) > 1
    labels = np.where(truth, "1", "0").astype(object)
    labels[labelled:] = None
    if kind == "sparse":
        X = sparse.csr_array(np.where(np.abs(X) > 1.2, X, 0.0))
    return MatrixData(X), labels


class Elsewhere:
    """Has all but the first part of each stage computed by repeating the training, last part first."""

    cache_bytes = None

    def __init__(self, data, labels, request):
        self._training = (data, labels, request)
        self._known = {}
        self.stages = {}

    def are_shared(self):
        return True

    def is_sought(self, stage):  # noqa: ARG002
        return False

    def is_sought_in(self, run):  # noqa: ARG002
        return False

    def compute(self, stage, count, compute, *, at_once=1):  # noqa: ARG002
        results = [compute([0])[0]]
        for number in reversed(range(1, count)):
            with pytest.raises(PartComputed) as caught:
                train(*self._training, parts=OnePart(stage, number, self._known, cache_bytes=1 << 30))
            results.insert(1, caught.value.result)
        self._known[stage] = results
        self.stages[stage] = count
        return results


def arrays(trained):
    decision = trained.model.decision
    return [
        decision.support_vectors.toarray() if sparse.issparse(decision.support_vectors) else decision.support_vectors,
        decision.dual_coef,
        np.array([decision.intercept, decision.threshold]),
    ]


slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("request_", "shape", "stages"),
    [
        # each fold, and each two of them, share rows of the kernel · its whole matrix, by gamma · no kernel rows
        ({"algorithm": "svm", "params": {"tune": "C", "tol": 0.01}}, (700, 700), {"tuning": 15}),
        ({"algorithm": "svm", "params": {"tune": "C-gamma", "tol": 0.01}}, (150, 150), {"tuning": 5}),
        pytest.param(
            {"algorithm": "svm", "params": {"tune": "C", "kernel": "linear"}}, (700, 700), {"tuning": 15}, marks=slow
        ),
        pytest.param(
            {"algorithm": "svm", "params": {"tune": "C"}}, (700, 700, 40, "sparse"), {"tuning": 15}, marks=slow
        ),
        ({"algorithm": "self-training", "params": {"tune": "C"}}, (700, 60), {"tuning": 15, "folds": 5}),
        ({"algorithm": "augment", "params": {"augmenter": "spy-em", "kernel": "linear"}}, (250, 60), {"folds": 5}),
        ({"algorithm": "gmm", "params": {"mode": "method"}}, (250, 40), {"folds": 5}),
        (
            {"algorithm": "gmm", "params": {"mode": "method"}, "test_fraction": 0.2},
            (250, 40),
            {"folds": 5, "refitting-folds": 5},
        ),
        pytest.param({"algorithm": "cluster", "params": {"tune": "C"}}, (250, 40), {"tuning": 15}, marks=slow),
        pytest.param({"algorithm": "ramp-tsvm"}, (700, 60), {"folds": 5}, marks=slow),
        pytest.param({"algorithm": "tsvm", "params": {"kernel": "linear"}}, (250, 40), {"folds": 5}, marks=slow),
        pytest.param({"algorithm": "cs4vm"}, (250, 40), {"folds": 5}, marks=slow),
        pytest.param({"algorithm": "mean-s3vm"}, (250, 40), {"folds": 5}, marks=slow),
        pytest.param({"algorithm": "lapsvm", "params": {"tune": "C"}}, (300, 60), {"tuning": 15}, marks=slow),
    ],
)
def test_a_training_of_which_others_computed_parts_has_the_same_bits(request_, shape, stages):
    data, labels = problem(*shape)
    request = TrainingRequest(**request_, seed=3)
    alone = train(data, labels, request)
    parts = Elsewhere(data, labels, request)
    together = train(data, labels, request, parts=parts)
    assert parts.stages == stages
    for mine, theirs in zip(arrays(alone), arrays(together), strict=True):
        assert mine.tobytes() == theirs.tobytes()
    for what in ("tuning", "curve", "calibration", "status", "comparison", "rounds"):
        assert getattr(alone.report, what) == getattr(together.report, what)
    assert alone.report.solver.iterations == together.report.solver.iterations


@pytest.mark.parametrize("shape", [(700, 700), (700, 700, 8, "sparse")])
def test_the_folds_of_a_large_svm_are_parts(monkeypatch, shape):
    data, labels = problem(*shape)
    request = TrainingRequest("svm", {"tune": "none", "tol": 1e-5}, seed=3)
    before = train(data, labels, request)
    monkeypatch.setattr(svm, "LEAST_ROWS_APART", 500)
    alone = train(data, labels, request)
    parts = Elsewhere(data, labels, request)
    together = train(data, labels, request, parts=parts)
    assert parts.stages == {"folds": 5}
    for mine, theirs in zip(arrays(alone), arrays(together), strict=True):
        assert mine.tobytes() == theirs.tobytes()
    for what in ("curve", "calibration", "probability", "status"):
        assert getattr(alone.report, what) == getattr(together.report, what)
    # whether they share kernel rows is a matter of time, not of the result
    curves = [OperatingCurve.from_dict(vars(result.report.curve)) for result in (before, alone)]
    admitted = [np.interp(-curves[0].thresholds, -each.thresholds, each.predicted_positives) for each in curves]
    np.testing.assert_allclose(*admitted, atol=2)


def test_a_training_that_was_stopped_goes_on_without_the_parts_that_are_missing():
    class Stopped:
        cache_bytes = None

        def are_shared(self):
            return True

        def is_sought(self, stage):  # noqa: ARG002
            return False

        def compute(self, stage, count, compute, *, at_once=1):  # noqa: ARG002
            return [None, compute([1])[0], *([None] * (count - 2))]

    data, labels = problem(200, 60)
    request = TrainingRequest("self-training", {"tune": "C-gamma", "kernel": "rbf", "mode": "method"})
    trained = train(data, labels, request, parts=Stopped())
    cells = trained.report.tuning.cells
    assert len(cells) == 6
    assert {cell.gamma for cell in cells} == {trained.report.tuning.gamma}
    assert trained.report.calibration.n == 12  # those of one fold


def test_the_digest_of_the_numerics_is_stable():
    assert len(numerics()) == 16
    assert numerics() == numerics()

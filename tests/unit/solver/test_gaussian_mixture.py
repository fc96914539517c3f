"""Expectation maximisation against densities written out, and decision functions against both."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from scipy import sparse
from scipy.stats import multivariate_normal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from threadpoolctl import threadpool_limits

from solver.estimators import GaussianMixtureClassifier, OneVsOne, OneVsRest
from solver.estimators._gaussians import DiagonalGaussians, FullGaussians, Rows, TiedGaussians, expectation_maximisation
from solver.export import libsvm_text
from solver.features import MatrixData
from solver.method_limits import MOST_GAUSSIAN_FEATURES
from solver.model_file import Model, read_model, write_model
from solver.onnx_export import onnx_model
from solver.training import TrainingRequest, train

ALONE = {"threshold_rule": "zero", "labeled_split": "full"}
COVARIANCES = ["tied", "full", "diag", "shrunk"]


def two_classes(seed=0, n=200, labelled=40, d=4, weighted=False):
    rng = np.random.default_rng(seed)
    truth = (rng.random(n) < 0.4).astype(int)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) * np.where(truth, 1.5, 0.7)[:, None] + truth[:, None]
    y = np.where(np.arange(n) < labelled, truth, -1)
    weights = rng.random(n) + 0.5 if weighted else np.ones(n)
    return X * [5, *np.ones(d - 1)] + 3, y, truth, weights


def model_of(covariance, d, ridge):
    prior = np.diag(np.arange(1.0, d + 1))
    return {
        "tied": lambda: TiedGaussians(ridge),
        "full": lambda: FullGaussians(ridge),
        "diag": lambda: DiagonalGaussians(ridge),
        "shrunk": lambda: FullGaussians(ridge, prior, 3.0),
    }[covariance]()


def covariances_of(model):
    if isinstance(model, TiedGaussians):
        return [model.covariance] * 2
    if isinstance(model, DiagonalGaussians):
        return [np.diag(variances) for variances in model.variances]
    return list(model.covariances)


def not_over(_):
    return False


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("ridge", [1e-6, 0.1])
@pytest.mark.parametrize("seed", range(3))
def test_the_log_likelihood_never_falls(covariance, ridge, seed):
    X, y, truth, weights = two_classes(seed, n=120, labelled=12 + 10 * seed, weighted=True)
    labelled = y >= 0
    rows = Rows(X, truth[labelled], weights)
    model = model_of(covariance, X.shape[1], ridge)
    history = np.array(expectation_maximisation(rows, model, 200, not_over))
    assert len(history) > 2
    assert (np.diff(history) >= -1e-10 * np.abs(history[1:])).all()
    assert history[-1] > history[0] + 1


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_it_agrees_with_densities_written_out(covariance):
    X, _, truth, weights = two_classes(1, n=90, labelled=20, weighted=True)
    l, ridge, d = 20, 0.05, X.shape[1]  # noqa: E741
    rows = Rows(X, truth[:l], weights)
    model = model_of(covariance, d, ridge)
    history = expectation_maximisation(rows, model, 1, not_over)
    # one round by hand, from the labelled rows
    R = np.zeros((90, 2))
    R[np.arange(l), truth[:l]] = weights[:l]
    values = []
    for step in range(2):
        n = R.sum(axis=0)
        shares, means = n / n.sum(), [R[:, k] @ X / n[k] for k in (0, 1)]
        spread = [((X - means[k]).T * R[:, k]) @ (X - means[k]) for k in (0, 1)]
        if covariance == "tied":
            S = [sum(spread) / n.sum() + ridge * np.eye(d)] * 2
            prior = -0.5 * weights.sum() * ridge * np.trace(np.linalg.inv(S[0]))
        else:
            rows_of_prior = 3.0 if covariance == "shrunk" else 0.0
            P, P_of_all = (
                ridge * total / 2 * np.eye(d) + rows_of_prior * np.diag(np.arange(1.0, d + 1))
                for total in (n.sum(), weights.sum())
            )
            S = [(spread[k] + P) / (n[k] + rows_of_prior) for k in (0, 1)]
            if covariance == "diag":
                S = [np.diag(np.diag(each)) for each in S]
            prior = -0.5 * sum(
                np.trace(P_of_all @ np.linalg.inv(each)) + rows_of_prior * np.linalg.slogdet(each)[1] for each in S
            )
        joint = np.column_stack([shares[k] * multivariate_normal(means[k], S[k]).pdf(X) for k in (0, 1)])
        values.append(
            weights[:l] @ np.log(joint[np.arange(l), truth[:l]]) + weights[l:] @ np.log(joint[l:].sum(axis=1)) + prior
        )
        if step == 0:
            R[l:] = weights[l:, None] * joint[l:] / joint[l:].sum(axis=1)[:, None]
    np.testing.assert_allclose(history, values, rtol=1e-9)
    np.testing.assert_allclose(model.means, means, rtol=1e-9)
    np.testing.assert_allclose(covariances_of(model), S, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.shares, shares)
    # and the discriminant is the log odds of these densities, also in other units
    f = model.discriminant().of_standardised(np.full(d, 2.0), np.arange(1.0, d + 1))
    moved = X * np.arange(1.0, d + 1) + 2.0
    np.testing.assert_allclose(f.scores(moved, np.arange(90)), np.log(joint[:, 1] / joint[:, 0]), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("covariance", "reference"),
    [
        ("tied", LinearDiscriminantAnalysis(solver="lsqr")),
        ("full", QuadraticDiscriminantAnalysis()),
    ],
)
def test_without_weight_of_unlabelled_rows_it_is_discriminant_analysis(covariance, reference):
    X, y, _, _ = two_classes(2, n=300, labelled=150)
    model = GaussianMixtureClassifier(covariance=covariance, ridge=1e-9, unlabeled_weight=1e-9, **ALONE).fit(X, y)
    known = y >= 0
    reference.fit(X[known], y[known])
    expected = reference.decision_function(X)
    # that divides by the rows of a class less one, this by all of them
    agree = (model.decision_function(X) > 0) == (expected > 0)
    assert agree.mean() > 0.985
    assert np.corrcoef(model.decision_function(X), expected)[0, 1] > 0.999


def simulated(seed, labelled):
    """A1 of the cluster SVM's paper: 20 columns with variance 4 and means ±0.7."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(1500) < 0.5).astype(int)
    X = rng.normal(size=(1500, 20)) * 2 + 0.7 * (2 * truth - 1)[:, None]
    return X[:500], np.where(np.arange(500) < labelled, truth[:500], -1), X[500:], truth[500:]


@pytest.mark.parametrize(("labelled", "least"), [(100, 0.905), (25, 0.85)])
def test_the_papers_simulation(labelled, least):
    reached = {}
    for seed in range(4):
        X, y, rows, truth = simulated(seed, labelled)
        for ridge in (1e-6, 0.1):
            fitted = GaussianMixtureClassifier(ridge=ridge, **ALONE).fit(X, y)
            reached.setdefault(ridge, []).append((fitted.predict(rows) == truth).mean())
    # the prototype, without a ridge worth the name, over 100 repeats: .930 and .865
    assert least < np.mean(reached[1e-6]) < 0.95
    assert np.mean(reached[0.1]) > 0.91


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_little_to_learn_from(covariance):
    rng = np.random.default_rng(0)
    truth = np.arange(30) % 2
    X = np.column_stack([rng.normal(size=(30, 60)) + 3 * truth[:, None], np.full(30, 1e9 / 3), np.zeros(30)])
    y = np.where(np.arange(30) < 4, truth, -1)
    model = GaussianMixtureClassifier(covariance=covariance, random_state=0).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()
    assert (model.predict(X) == truth).mean() > 0.9
    same = GaussianMixtureClassifier(covariance=covariance).fit(
        np.repeat([[1.0, 2.0]], 8, axis=0), [0, 1] * 2 + [-1] * 4
    )
    assert np.isfinite(same.decision_function(np.ones((1, 2)))).all()


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_units_do_not_matter(covariance):
    X, y, _, _ = two_classes(3)
    settings = {"covariance": covariance, **ALONE}
    scores = [
        GaussianMixtureClassifier(**settings).fit(rows, y).decision_function(rows)
        for rows in (X, X * np.array([1e6, 1e-6, 1, 2]) + np.array([0, 0, 1e4, -3]))
    ]
    np.testing.assert_allclose(*scores, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_the_same_bits_on_any_number_of_threads(covariance):
    X, y, _, _ = two_classes(4, n=600, d=30)
    states = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            states.append(GaussianMixtureClassifier(covariance=covariance).fit(X, y).decision_state())
    assert states[0].support_vectors.tobytes() == states[1].support_vectors.tobytes()
    assert states[0].dual_coef.tobytes() == states[1].dual_coef.tobytes()


def test_the_score_is_linear_or_quadratic():
    X, y, _, _ = two_classes()
    kinds = {c: GaussianMixtureClassifier(covariance=c).fit(X, y).decision_state() for c in COVARIANCES}
    assert {c: (state.kind, len(state.dual_coef)) for c, state in kinds.items()} == {
        "tied": ("linear", 1), "full": ("poly", 8), "diag": ("poly", 8), "shrunk": ("poly", 8)
    }  # fmt: skip


def test_the_report_has_the_rounds():
    X, y, _, _ = two_classes()
    report = GaussianMixtureClassifier().fit(X, y).report_
    rounds = [each["round"] for each in report.rounds]
    assert rounds == list(range(len(rounds)))
    assert len(rounds) > 1
    short = GaussianMixtureClassifier(max_rounds=1).fit(X, y).report_.rounds
    assert len(short) == 1
    assert report.controls["plain_svm"].calibration.n == 40


def test_it_can_be_stopped_and_has_a_limit_of_time():
    X, y, _, _ = two_classes()
    stopped = GaussianMixtureClassifier(callback=lambda _fraction, told: told.get("round") == 1).fit(X, y)
    assert stopped.status_ == "stopped"
    assert np.isfinite(stopped.decision_function(X)).all()
    limited = GaussianMixtureClassifier(max_seconds=1e-6).fit(X, y)
    assert limited.status_ == "solver_limit"


def test_what_it_does_not_take():
    _, y, _, _ = two_classes()
    with pytest.raises(ValueError, match="fewer than 512 features only, and these have 512, as those of texts do"):
        GaussianMixtureClassifier().fit(sparse.csr_array((len(y), 512)), y)
    with pytest.raises(ValueError, match="at most 2048 features; these are 2049"):
        GaussianMixtureClassifier().fit(np.zeros((len(y), MOST_GAUSSIAN_FEATURES + 1)), y)


@pytest.mark.parametrize("covariance", ["tied", "full"])
def test_exports_decide_as_the_model(covariance):
    X, y, _, _ = two_classes(5)
    state = GaussianMixtureClassifier(covariance=covariance).fit(X, y).decision_state()
    model = Model("gmm", {}, {"kind": "f1"}, ("no", "yes"), state)
    session = onnxruntime.InferenceSession(onnx_model(model), providers=["CPUExecutionProvider"])
    given = dict(
        zip([output.name for output in session.get_outputs()], session.run(None, {"features": X}), strict=True)
    )
    np.testing.assert_allclose(given["score"], state.decision_function(X), rtol=1e-9, atol=1e-9)
    head, _, body = "".join(libsvm_text(state)).partition("SV\n")
    fields = dict(line.split(" ", 1) for line in head.splitlines())
    values = np.full(len(X), -float(fields["rho"]))
    for line in body.splitlines():
        coefficient, *entries = line.split(" ")
        product = sum(X[:, int(place) - 1] * float(value) for place, value in (each.split(":") for each in entries))
        values += float(coefficient) * (product if fields["kernel_type"] == "linear" else (product + 1) ** 2)
    assert fields["kernel_type"] == ("linear" if covariance == "tied" else "polynomial")
    np.testing.assert_allclose(values, state.decision_function(X) - state.threshold, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("covariance", ["tied", "full"])
def test_few_sparse_columns_are_like_dense_ones(covariance):
    X, y, _, _ = two_classes(6)
    X[np.abs(X) < 1] = 0.0
    dense, thin = (GaussianMixtureClassifier(covariance=covariance).fit(rows, y) for rows in (X, sparse.csc_array(X)))
    np.testing.assert_allclose(thin.decision_function(sparse.csr_array(X)), dense.decision_function(X), rtol=1e-9)


def test_a_sparse_upload_of_few_columns_becomes_a_model_that_takes_sparse_rows(tmp_path):
    X, y, truth, _ = two_classes(7)
    X[np.abs(X) < 1] = 0.0
    data = MatrixData(sparse.csr_array(X))
    labels = np.array(["b" if t else "a" for t in truth], dtype=object)
    labels[y < 0] = None
    params = {"covariance": "shrunk", "mode": "method"}
    trained = train(data, labels, TrainingRequest(algorithm="gmm", params=params, positive="b"))
    write_model(tmp_path / "model", trained.model)
    again = read_model(tmp_path / "model").predict(data)
    np.testing.assert_array_equal(again.scores, trained.model.predict(data).scores)
    assert np.mean(np.array(again.labels) == np.where(truth, "b", "a")) > 0.6


def three_in_a_row(seed=0, n=600, labelled=30, by_chance=False):
    """Classes whose means lie on a line, so that the middle one is between the others; few rows have labels."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n)
    X = rng.normal(0.0, np.sqrt(2), (n, 20)) + truth[:, None]
    known = rng.permutation(truth) if by_chance else truth
    return X, np.where(np.arange(n) < labelled, known, -1), truth


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_pairs_are_not_drawn_away_by_unlabelled_rows_of_a_third_class(covariance, monkeypatch):
    X, y, truth = three_in_a_row()
    pairs = OneVsOne(GaussianMixtureClassifier(covariance=covariance, **ALONE))
    better = np.mean(pairs.fit(X, y).predict(X) == truth)
    monkeypatch.setattr(GaussianMixtureClassifier, "class_memberships", None)
    assert better > np.mean(pairs.fit(X, y).predict(X) == truth) + (0.1 if covariance == "tied" else 0.02)


def test_memberships_are_those_of_one_mixture_of_all_classes():
    X, y, truth = three_in_a_row(labelled=60)
    shares = GaussianMixtureClassifier().class_memberships(X, y)
    assert shares.sum(axis=1) == pytest.approx(np.ones(len(X)))
    assert np.array_equal(shares[:60], np.eye(3)[y[:60]])
    assert np.mean(shares.argmax(axis=1) == truth) > 0.88
    # what rows count: those of weight 0 have no part
    weight = np.where(np.arange(len(X)) < 300, 1.0, 0.0)
    fewer = GaussianMixtureClassifier().class_memberships(X[:300], y[:300])
    assert GaussianMixtureClassifier().class_memberships(X, y, weight)[:300] == pytest.approx(fewer, abs=1e-6)


def test_memberships_change_nothing_of_two_classes_or_without_unlabelled_rows(monkeypatch):
    X, y, truth = three_in_a_row(n=200, labelled=120)
    mixture = GaussianMixtureClassifier(**ALONE)
    cases = [(OneVsOne(mixture), np.minimum(y, 1)), (OneVsOne(mixture), truth), (OneVsRest(mixture), y)]
    before = [model.fit(X, labels).decision_function(X) for model, labels in cases]
    monkeypatch.setattr(GaussianMixtureClassifier, "class_memberships", None)
    for (model, labels), scores in zip(cases, before, strict=True):
        assert np.array_equal(model.fit(X, labels).decision_function(X), scores)


def test_left_out_figures_of_several_classes_are_those_of_chance_where_labels_are():
    right = []
    for seed in range(4):
        X, y, _ = three_in_a_row(seed, labelled=90, by_chance=True)
        report = OneVsOne(GaussianMixtureClassifier(random_state=seed)).fit(X, y).report_
        right.append(report.figures.accuracy.value)
    assert np.mean(right) < 0.42


def test_memberships_refuse_what_the_mixture_refuses_and_end_when_told():
    X, y, _ = three_in_a_row(n=60, labelled=30)
    with pytest.raises(ValueError, match=f"at most {MOST_GAUSSIAN_FEATURES} features"):
        OneVsOne(GaussianMixtureClassifier(**ALONE)).fit(np.ones((60, MOST_GAUSSIAN_FEATURES + 1)), y)
    heard = []
    GaussianMixtureClassifier(callback=lambda _, told: heard.append(told) or True).class_memberships(X, y)
    assert len(heard) == 1

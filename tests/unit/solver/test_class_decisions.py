"""Several classes: probabilities, objectives and figures beside scikit-learn's, invariants, labels at random."""

import json
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.stats import binom
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, log_loss, precision_score, recall_score
from sklearn.svm import SVC

from solver.algorithms import ALGORITHMS
from solver.estimators import SVM, AugmentedClassifier, OneVsOne, OneVsRest, SelfTraining, _left_out, _together
from solver.evaluation import fit_sigmoid
from solver.multiclass import (
    ClassObjective,
    ClassObjectiveError,
    ClassRule,
    calibrate,
    choose_rule,
    coupled,
    figures_of,
    pairs_of,
    two_class_problems,
)
from solver.multiclass.rule import _best_weight, dealt, macro_f1
from solver.repeated_rows import Cases

BOTH = pytest.mark.parametrize("method", [OneVsOne, OneVsRest])


def standardised(load):
    X, y = load(return_X_y=True)
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1), y


WINE, WINES = standardised(load_wine)
IRIS, IRISES = standardised(load_iris)


def halves(y, seed=0):
    fold = dealt(y, 2, np.random.default_rng(seed))
    return fold == 0, fold == 1


def overlapping(n=600, classes=4, seed=0, shares=None, noise=0.7):
    rng = np.random.default_rng(seed)
    y = rng.choice(classes, n, p=shares)
    angles = 2 * np.pi * y / classes
    return np.column_stack([np.cos(angles), np.sin(angles)]) + noise * rng.normal(size=(n, 2)), y


# -- probabilities -----------------------------------------------------------------------------------------------------


def test_coupling_finds_the_least_of_its_sum():
    rng = np.random.default_rng(3)
    pairwise = rng.uniform(0.05, 0.95, size=(6, 6))
    found = coupled(pairwise, 4)
    assert found.sum(axis=1) == pytest.approx(1)

    def misfit(p, of_second):
        return sum(
            ((1 - r) * p[j] - r * p[i]) ** 2 for (i, j), r in zip(pairs_of(4), of_second, strict=True)
        )  # counted once for each pair; the sum of the paper counts it twice

    for row, of_second in zip(found, pairwise, strict=True):
        independent = minimize(
            misfit, np.full(4, 0.25), args=(of_second,), bounds=[(0, 1)] * 4, tol=1e-14,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1}, method="SLSQP",
        )  # fmt: skip
        assert row == pytest.approx(independent.x, abs=2e-4)


def test_coupling_gives_back_probabilities_that_agree():
    p = np.random.default_rng(1).dirichlet(np.ones(5), size=50)
    pairwise = np.column_stack([p[:, j] / (p[:, i] + p[:, j]) for i, j in pairs_of(5)])
    assert coupled(pairwise, 5) == pytest.approx(p, abs=1e-5)


def test_sigmoids_of_all_problems_are_those_of_each():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 200)
    for scheme in ("one_vs_rest", "one_vs_one"):
        problems = np.column_stack(two_class_problems(codes, 3, scheme))
        scores = (problems == 1) + rng.normal(size=problems.shape)
        scores[:, 1] *= -100  # which ranks the wrong way round
        found = calibrate(scores, problems, scheme, 3)
        for k in range(problems.shape[1]):
            mine = problems[:, k] >= 0
            alone = fit_sigmoid(scores[mine, k], problems[mine, k])
            assert found.slopes[k] == pytest.approx(alone.slope, rel=1e-3, abs=1e-6)
            assert found.offsets[k] == pytest.approx(alone.offset, rel=1e-3, abs=1e-3)


@BOTH
def test_probabilities_are_worth_those_of_scikit_learn(method):
    X, y = overlapping(800)
    learns, judged = halves(y)
    mine = method(SVM(random_state=0)).fit(X[learns], y[learns]).predict_proba(X[judged])
    theirs = CalibratedClassifierCV(SVC(), ensemble=False).fit(X[learns], y[learns]).predict_proba(X[judged])
    assert mine.shape == (int(judged.sum()), 4)
    assert mine.sum(axis=1) == pytest.approx(1)
    assert log_loss(y[judged], mine) < log_loss(y[judged], theirs) + 0.03


# -- decisions beside scikit-learn's -----------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("objective", [None, "macro_f1", "accuracy"])
@pytest.mark.parametrize("load", [load_wine, load_iris], ids=["wine", "iris"])
def test_classes_are_told_apart_as_well_as_by_scikit_learn(method, objective, load):
    X, y = standardised(load)
    mine, theirs = [], []
    for seed in range(3):
        learns, judged = halves(y, seed)
        fitted = method(SVM(random_state=0), objective=objective).fit(X[learns], y[learns])
        mine.append(f1_score(y[judged], fitted.predict(X[judged]), average="macro"))
        theirs.append(f1_score(y[judged], SVC().fit(X[learns], y[learns]).predict(X[judged]), average="macro"))
    assert np.mean(mine) > np.mean(theirs) - 0.015


def test_pairs_trained_together_are_the_pairs_of_libsvm():
    X, y = overlapping(300)
    fitted = OneVsOne(SVM(gamma=0.5, labeled_split="full")).fit(X, y)
    theirs = SVC(gamma=0.5, decision_function_shape="ovo").fit(X, y)
    # scikit-learn's score of a pair is positive for the first class of it
    assert fitted.scores_(X) == pytest.approx(-theirs.decision_function(X), abs=5e-3)
    assert (fitted.predict(X) == theirs.predict(X)).mean() > 0.995


@pytest.mark.parametrize("largest", [_together.LARGEST, 10], ids=["on the matrix", "by the engines"])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_left_out_scores_are_those_of_models_without_the_row(kernel, largest, monkeypatch):
    monkeypatch.setattr(_together, "LARGEST", largest)
    X, y = overlapping(200, classes=3)
    trained = OneVsRest(SVM(kernel=kernel, gamma=0.5, random_state=0))
    left_out = trained._train(X, *_prepared(trained, y))
    fold = dealt(y, 5, np.random.default_rng(np.random.RandomState(0).randint(2**31)))
    for number in range(5):
        for k in range(3):
            alone = SVC(kernel=kernel, gamma=0.5).fit(X[fold != number], y[fold != number] == k)
            expected = alone.decision_function(X[fold == number])
            assert left_out.of_rows(np.flatnonzero(fold == number))[:, k] == pytest.approx(expected, abs=5e-3)
            part = left_out.own.of(k)
            rows = left_out.own.rows[part]
            mine = fold[rows] == number
            expected = alone.decision_function(X[rows[mine]])
            assert left_out.scores[part][mine] == pytest.approx(expected, abs=5e-3)


def _prepared(method, y):
    method.classes_, codes = np.unique(y, return_inverse=True)
    method._counts = np.bincount(codes)
    method._unmeasured = np.zeros(len(codes), dtype=bool)
    return codes, None, Cases(np.arange(len(codes)), np.arange(len(codes)))


@BOTH
def test_sparse_rows_weights_and_names(method):
    weight = np.where(np.arange(len(WINES)) % 4 == 0, 0.0, 2.0)
    names = np.array(["c", "a", "b"])[WINES]
    dense = method(SVM(random_state=0), objective="macro_f1").fit(WINE, names, sample_weight=weight)
    kept = method(SVM(random_state=0, C=2.0), objective="macro_f1").fit(WINE[weight > 0], names[weight > 0])
    compressed = method(SVM(random_state=0), objective="macro_f1").fit(
        sparse.csr_array(WINE), names, sample_weight=weight
    )
    assert dense.predict_proba(WINE) == pytest.approx(kept.predict_proba(WINE), abs=1e-6)
    assert compressed.predict_proba(sparse.csr_array(WINE)) == pytest.approx(dense.predict_proba(WINE), abs=0.02)
    assert set(dense.predict(WINE)) == {"a", "b", "c"}


# -- invariants --------------------------------------------------------------------------------------------------------


@BOTH
def test_names_and_their_order_do_not_matter(method):
    X, y = overlapping(300)
    other = np.array(["d", "b", "a", "c"])[y]
    mine = method(SVM(random_state=0, labeled_split="full")).fit(X, y)
    renamed = method(SVM(random_state=0, labeled_split="full")).fit(X, other)
    assert (np.array(["d", "b", "a", "c"])[mine.predict(X)] == renamed.predict(X)).mean() > 0.99


@BOTH
@pytest.mark.parametrize("learner", [SVM, SelfTraining])
def test_two_classes_are_the_binary_result_to_the_bit(method, learner):
    two = IRISES > 0
    y = np.where(np.arange(150) % 5 == 0, IRISES, -1)[two]
    fitted = method(learner(random_state=0)).fit(IRIS[two], y)
    alone = learner(random_state=0, positive=2, unlabeled=-1).fit(IRIS[two], y)
    assert np.array_equal(fitted.decision_function(IRIS), alone.decision_function(IRIS) - alone.threshold_)
    assert np.array_equal(fitted.predict_proba(IRIS), alone.predict_proba(IRIS))
    assert np.array_equal(fitted.predict(IRIS), alone.predict(IRIS))


@BOTH
def test_the_same_seed_gives_the_same_bits(method):
    X, y = overlapping(300)
    first, second = (method(SVM(random_state=5), objective="macro_f1").fit(X, y) for _ in range(2))
    assert np.array_equal(first.predict_proba(X), second.predict_proba(X))
    assert first.report_ == second.report_


@BOTH
def test_unlabelled_rows_reach_probabilities_and_objective(method):
    y = np.where(np.arange(150) % 5 == 0, IRISES, -1)
    fitted = method(AugmentedClassifier(random_state=0), objective="accuracy").fit(IRIS, y)
    assert fitted.report_.unlabelled == 120
    assert fitted.report_.rows == [10, 10, 10]
    assert fitted.report_.figures.n == 30
    assert (fitted.predict(IRIS) == IRISES).mean() > 0.85


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_serves_several_classes(method, name):
    X, y = overlapping(400, classes=3, noise=0.4)
    y = np.where(np.arange(400) % 4 == 0, y, -1)
    fitted = method(ALGORITHMS[name].load()(random_state=0), objective="accuracy").fit(X, y)
    report = fitted.report_
    assert (report.algorithm, report.unlabelled, report.figures.n) == (name, 300, 100)
    assert report.figures.accuracy.value > 0.5
    assert report.log_loss < report.share_log_loss


# -- labels at random --------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("confidence", [None, 0.9])
def test_labels_at_random_reach_chance_and_no_floor(method, confidence):
    rng = np.random.default_rng(11)
    X, y = rng.normal(size=(400, 5)), rng.integers(0, 4, 400)
    floors = {0: {"precision": 0.8}, 1: {"precision": 0.8}, 2: {"precision": 0.8}}
    objective = {"kind": "macro_f1", "floors": floors} | ({} if confidence is None else {"confidence": confidence})
    report = method(SVM(random_state=0), objective=objective).fit(X, y).report_
    assert report.status == "preference_unmet"
    assert not any(each.met for each in report.floors)
    plain = method(SVM(random_state=0), objective="macro_f1").fit(X, y).report_
    low, high = binom.ppf([0.001, 0.999], 400, 0.25) / 400
    assert low < plain.figures.accuracy.value < high
    assert 0.15 < plain.figures.macro_f1.value < high
    assert plain.log_loss > plain.share_log_loss - 0.02


@pytest.mark.slow
def test_a_floor_with_confidence_holds_on_new_rows():
    missed = said = 0
    for seed in range(60):
        X, y = overlapping(1400, seed=seed, noise=0.5)
        objective = {"kind": "accuracy", "floors": {0: {"precision": 0.85}}, "confidence": 0.9}
        fitted = OneVsRest(SVM(random_state=0), objective=objective).fit(X[:400], y[:400])
        if fitted.report_.status != "met":
            continue
        called = fitted.predict(X[400:]) == 0
        said += 1
        missed += int((y[400:][called] == 0).mean() < 0.85 - 0.02)
    assert said >= 10
    assert missed <= binom.ppf(0.99, said, 0.1)


@pytest.mark.slow
def test_intervals_hold_the_figures_of_new_rows():
    inside = 0
    for seed in range(60):
        X, y = overlapping(3200, seed=seed, shares=[0.4, 0.3, 0.2, 0.1])
        fitted = OneVsRest(SVM(random_state=0), objective="macro_f1").fit(X[:200], y[:200])
        figure = fitted.report_.figures.macro_f1
        inside += figure.low <= f1_score(y[200:], fitted.predict(X[200:]), average="macro") <= figure.high
    assert inside >= 54


# -- objectives --------------------------------------------------------------------------------------------------------


def test_weights_for_macro_f1_are_the_best_of_all():
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(3), size=80)
    y = np.array([rng.choice(3, p=row) for row in p])
    weights = np.ones(3)
    found = _best_weight(p, y, weights, 1)

    def worth(weight):
        return macro_f1(y, np.argmax(p * [1, weight, 1], axis=1), 3)

    assert worth(found) == pytest.approx(max(worth(weight) for weight in np.geomspace(0.1, 10, 5001)), abs=1e-9)


def test_rare_classes_gain_by_macro_f1():
    gains = []
    for seed in range(4):
        X, y = overlapping(3000, seed=seed, shares=[0.7, 0.15, 0.1, 0.05])
        of = {}
        for objective in ("accuracy", "macro_f1"):
            said = OneVsRest(SVM(random_state=0), objective=objective).fit(X[:600], y[:600]).predict(X[600:])
            of[objective] = f1_score(y[600:], said, average="macro")
        gains.append(of["macro_f1"] - of["accuracy"])
    assert np.mean(gains) > 0
    assert min(gains) > -0.03


def test_costs_are_lower_than_those_of_the_most_probable_class():
    X, y = overlapping(2000, classes=3)
    costs = {0: {1: 10, 2: 10}}
    matrix = ClassObjective.parse({"kind": "cost", "costs": costs}).cost_matrix([0, 1, 2])
    assert matrix.tolist() == [[0, 10, 10], [1, 0, 1], [1, 1, 0]]
    spent = [
        matrix[y[500:], OneVsRest(SVM(random_state=0), objective=objective).fit(X[:500], y[:500]).predict(X[500:])]
        for objective in ({"kind": "cost", "costs": costs}, "accuracy")
    ]
    assert spent[0].mean() < 0.8 * spent[1].mean()


@BOTH
def test_floors_of_precision_leave_rows_undecided_and_those_of_recall_none(method):
    X, y = overlapping(2400, seed=4)
    names = np.array(["a", "b", "c", "d"])[y]
    floors = {"a": {"precision": 0.9}, "b": {"recall": 0.9}}
    fitted = method(SVM(random_state=0), objective={"kind": "accuracy", "floors": floors}).fit(X[:800], names[:800])
    said = fitted.predict(X[800:])
    assert said.dtype == object
    assert None in said
    plain = method(SVM(random_state=0), objective="accuracy").fit(X[:800], names[:800]).predict(X[800:])
    reached = (names[800:][said == "a"] == "a").mean()
    assert reached > (names[800:][plain == "a"] == "a").mean()
    of_a = fitted.report_.figures.classes[0].precision
    assert of_a.low < reached < of_a.high
    assert (said[names[800:] == "b"] == "b").mean() > 0.85
    assert fitted.report_.figures.undecided > 0
    assert [(each.label, each.measure, each.target) for each in fitted.report_.floors] == [
        ("a", "precision", 0.9),
        ("b", "recall", 0.9),
    ]


def test_a_class_that_is_never_sure_is_never_said():
    p = np.full((50, 3), 1 / 3)
    y = np.repeat([0, 1, 2], [30, 10, 10])
    objective = ClassObjective.parse({"kind": "accuracy", "floors": {"a": {"precision": 0.9}}})
    rule = choose_rule(p, y, objective, ["a", "b", "c"], np.bincount(y))
    assert rule.least[0] == np.inf
    assert set(rule.says(p)) == {-1}
    assert set(ClassRule.plain(np.bincount(y)).says(p)) == {0}


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        ("f1", "must be macro_f1, accuracy or cost"),
        (3, "must be an object"),
        ({"kind": "macro_f1", "beta": 2}, "knows no 'beta'"),
        ({"kind": "cost"}, "which needs them"),
        ({"kind": "accuracy", "costs": {0: {1: 2}}}, "to no other"),
        ({"kind": "cost", "costs": {0: 3}}, "map each true class"),
        ({"kind": "cost", "costs": {0: {1: -1}}}, "number from 0"),
        ({"kind": "cost", "costs": {0: {1: float("nan")}}}, "number from 0"),
        ({"kind": "cost", "costs": {0: {7: 1}}}, "names 7"),
        ({"kind": "cost", "costs": {a: dict.fromkeys(range(3), 0) for a in range(3)}}, "same whatever is said"),
        ({"kind": "cost", "costs": {a: dict.fromkeys(range(3), 2 + a) for a in range(3)}}, "same whatever is said"),
        ({"floors": {0: {"f1": 0.5}}}, "precision or recall"),
        ({"floors": {0: {"precision": 1.0}}}, "between 0 and 1"),
        ({"floors": {0: {"precision": True}}}, "between 0 and 1"),
        ({"floors": {"x": {"precision": 0.5}}}, "names 'x'"),
        ({"confidence": 0.9}, "beside `floors`"),
        ({"kind": "cost", "costs": {0: {1: 2}}, "floors": {0: {"recall": 0.5}}}, "does not go with"),
    ],
)
def test_an_objective_that_cannot_be_served_is_named(objective, said):
    with pytest.raises(ClassObjectiveError, match=said):
        OneVsRest(SVM(), objective=objective).fit(IRIS, IRISES)


def test_an_objective_needs_left_out_scores():
    with pytest.raises(ValueError, match="labeled_split='xfit'"):
        OneVsRest(SVM(labeled_split="full"), objective="macro_f1").fit(IRIS, IRISES)
    fitted = OneVsRest(SVM(labeled_split="full")).fit(IRIS, IRISES)
    assert fitted.report_.status == "unmeasured"
    assert not hasattr(fitted, "predict_proba")


# -- figures -----------------------------------------------------------------------------------------------------------


def test_figures_are_those_of_scikit_learn():
    rng = np.random.default_rng(6)
    y = rng.integers(0, 4, 300)
    said = np.where(rng.random(300) < 0.6, y, rng.integers(0, 4, 300))
    figures = figures_of(y, said, ["a", "b", "c", "d"])
    assert np.array(figures.confusion)[:, :4].tolist() == confusion_matrix(y, said).tolist()
    assert figures.accuracy.value == accuracy_score(y, said)
    assert figures.macro_f1.value == pytest.approx(f1_score(y, said, average="macro"))
    for name, theirs in (("precision", precision_score), ("recall", recall_score), ("f1", f1_score)):
        mine = [getattr(each, name).value for each in figures.classes]
        assert mine == pytest.approx(theirs(y, said, average=None))
    undecided = figures_of(y, np.where(said == 1, -1, said), ["a", "b", "c", "d"])
    assert undecided.undecided == int((said == 1).sum())
    assert undecided.classes[1].precision is None
    assert undecided.accuracy.value < figures.accuracy.value
    assert figures_of(y[:0], y[:0], ["a", "b"]).accuracy is None


@BOTH
def test_the_report_is_of_rows_left_out_beside_its_controls(method):
    fitted = method(SVM(random_state=0), objective="macro_f1", controls=True).fit(WINE, WINES)
    report = fitted.report_
    assert report.status == "met"
    assert report.figures.n == len(WINES)
    assert report.figures.macro_f1.value > 0.95
    assert sorted(report.controls) == ["linear", "majority"]
    assert report.controls["majority"].accuracy.value == pytest.approx(71 / 178)
    assert report.controls["linear"].macro_f1.value > 0.9
    assert report.log_loss < 0.3 < report.share_log_loss
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["scheme"] == report.scheme


# -- degenerate input --------------------------------------------------------------------------------------------------


@BOTH
def test_a_class_of_two_rows_is_learned_and_missing_in_most_folds(method):
    X, y = overlapping(200, classes=3)
    y[y == 2] = np.arange((y == 2).sum()) % 2
    rows = np.flatnonzero(y == 1)[:2]
    y[rows], X[rows] = 2, [9.0, 9.0]
    fitted = method(SVM(random_state=0), objective="macro_f1").fit(X, y)
    assert fitted.report_.rows[2] == 2
    assert fitted.report_.figures.n == 200
    assert any("only 2 labelled rows of 2" in warning for warning in fitted.report_.warnings)
    y[rows[0]] = 0
    with pytest.raises(ValueError, match="got 1 of 2"):
        method(SVM()).fit(X, y)


@BOTH
def test_unlabelled_rows_of_one_class_only(method):
    y = np.where((IRISES == 0) & (np.arange(150) >= 10), -1, IRISES)
    fitted = method(SelfTraining(random_state=0), objective="macro_f1").fit(IRIS, y)
    assert fitted.report_.unlabelled == 40
    assert f1_score(IRISES, fitted.predict(IRIS), average="macro") > 0.8


@BOTH
def test_rows_that_are_all_alike_are_no_defect(method):
    fitted = method(SVM(random_state=0), objective="macro_f1").fit(np.ones((30, 2)), np.arange(30) % 3)
    assert fitted.predict_proba(np.ones((1, 2))) == pytest.approx(1 / 3, abs=0.05)


@BOTH
def test_a_training_that_is_stopped_says_so(method):
    fitted = method(SVM(random_state=0, callback=lambda *_: True)).fit(*overlapping(1500))
    assert fitted.report_.status == "stopped"
    with pytest.raises(ValueError, match="stopped"):
        method(SVM(random_state=0, callback=lambda *_: True), objective="accuracy").fit(*overlapping(1500))


@pytest.mark.slow
@BOTH
def test_digits_are_read_as_well_as_by_scikit_learn(method):
    X, y = standardised(load_digits)
    learns, judged = halves(y)
    said = method(SVM(random_state=0), objective="macro_f1").fit(X[learns], y[learns]).predict(X[judged])
    theirs = SVC().fit(X[learns], y[learns]).predict(X[judged])
    assert f1_score(y[judged], said, average="macro") > f1_score(y[judged], theirs, average="macro") - 0.005


@pytest.mark.parametrize(("rows", "classes"), [(600, 30), (600, 60), (1200, 30)])
def test_memory_of_a_fit_grows_with_rows_and_classes_not_with_rows_and_pairs(rows, classes, monkeypatch):
    for module in (_left_out, _together):
        monkeypatch.setattr(module, "_SCORES_AT_ONCE", 1 << 15)
    y = np.arange(rows) % classes
    random = np.random.default_rng(0)
    X = random.normal(size=(classes, 5))[y] + 0.2 * random.normal(size=(rows, 5))
    OneVsOne(SVM(random_state=0)).fit(X[y < 2], y[y < 2])  # what the first fit of a process loads is no memory of a fit
    tracemalloc.start()
    fitted = OneVsOne(SVM(random_state=0)).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # the kernel matrix; for each row and other class numbers of six models and what they are made of; scores of a part
    assert peak < 8 * (1.25 * rows**2 + 14 * rows * classes + 6 * (1 << 15)) + (1 << 20)
    assert fitted.report_.figures.accuracy.value > 0.8

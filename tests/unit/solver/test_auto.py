"""`auto`: the SVM, or another method that is shown to be better."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import spearmanr

from solver.algorithms import ALGORITHMS
from solver.estimators import SVM, AutoClassifier, MeanS3VM
from solver.estimators._judge import Candidate, _apart, judge, judge_favoured, rank_correlation
from solver.features import MatrixData
from solver.method_limits import FAVOURED_UNLABELLED, FEWEST_UNLABELLED, JUDGED_LABELLED, JUDGED_UNLABELLED
from solver.training import TrainingRequest, train

NO_MODEL: Any = None
Problem = tuple[NDArray[np.float64], NDArray[np.int64]]


def clumps(labelled: int = 20, unlabelled: int = 200, seed: int = 0) -> Problem:
    """Two classes of two clumps each, in ten dimensions."""
    rng = np.random.default_rng(seed)
    n = labelled + unlabelled
    clump = rng.integers(0, 4, n)
    clump[:8] = [0, 1, 2, 3] * 2
    X = rng.normal(size=(n, 10)) + 2.2 * np.random.default_rng(1).normal(size=(4, 10))[clump]
    y = (clump % 2).astype(np.int64)
    y[labelled:] = -1
    return X, y


def differ(auto: AutoClassifier, svm: Any, X: NDArray[np.float64]) -> float:
    """By how much the scores differ at most, and the thresholds."""
    scores = np.abs(auto.decision_function(X) - svm.decision_function(X)).max()
    return float(max(scores, abs(auto.threshold_ - svm.threshold_)))


@pytest.mark.parametrize(
    ("params", "rows", "said"),
    [
        ({}, clumps(unlabelled=FEWEST_UNLABELLED - 1), "fewer than"),
        ({}, clumps(JUDGED_LABELLED + 1, 100), "labelled rows"),
        ({"max_seconds": 20}, clumps(), "30 seconds"),
        ({"labeled_split": "full"}, clumps(), "left out"),
        ({"solver": "lowrank"}, clumps(), "approximated"),
        ({"objective": {"kind": "recall", "target": 0.8, "confidence": 0.8}}, clumps(), "certificate"),
    ],
    ids=["few unlabelled", "many labelled", "short time", "full", "lowrank", "certificate"],
)
def test_it_is_the_svm_where_nothing_can_be_shown_and_says_why(
    params: dict[str, Any], rows: Problem, said: str
) -> None:
    X, y = rows
    auto = AutoClassifier(random_state=3, **params).fit(X, y)
    assert differ(auto, SVM(random_state=3, **params).fit(X, y), X) == 0
    told = auto.report_.judge
    assert (told.returned, told.methods) == ("svm", [])
    assert said in told.sentence


def test_it_is_the_svm_where_all_rows_have_labels() -> None:
    X, y = clumps(unlabelled=0)
    auto = AutoClassifier(random_state=3).fit(X, y)
    assert differ(auto, SVM(random_state=3).fit(X, y), X) == 0
    assert auto.report_.judge is None


def test_a_method_that_is_taken_is_the_model() -> None:
    X, y = clumps()
    auto, svm = AutoClassifier(random_state=0).fit(X, y), SVM(random_state=0).fit(X, y)
    told = auto.report_.judge
    assert [each.method for each in told.methods] == ["svm with C = 10", "mean-s3vm", "lapsvm", "cluster"]
    (taken,) = [each for each in told.methods if each.method == told.returned]
    assert taken.passes
    assert taken.log_loss < told.log_loss
    assert f"The model is {told.returned}, not svm" in told.sentence
    assert auto.report_.controls["no_unlabelled"].threshold == pytest.approx(svm.threshold_, abs=3 * auto.tol)
    by_itself = SVM(random_state=0, C=10) if "C = 10" in told.returned else ALGORITHMS[told.returned].load()(
        random_state=0, kernel="rbf", gamma=svm.decision_state().gamma
    )  # fmt: skip
    assert differ(auto, by_itself.fit(X, y), X) < 3 * auto.tol


def test_it_keeps_the_svm_where_labels_are_drawn_at_random() -> None:
    X, y = np.random.default_rng(0).normal(size=(240, 5)), np.full(240, -1)
    y[:40] = np.random.default_rng(1).integers(0, 2, 40)
    auto = AutoClassifier(random_state=0).fit(X, y)
    assert differ(auto, SVM(random_state=0).fit(X, y), X) < 3 * auto.tol
    assert auto.report_.judge.returned == "svm"
    assert len(auto.report_.judge.methods) == 4
    assert "none was shown" in auto.report_.judge.sentence


def test_the_half_that_certifies_has_no_say_in_the_method() -> None:
    class Spying(AutoClassifier):
        def _learn(self, run: Any, plan: Any, *args: Any) -> Any:
            self.looked_at = np.union1d(plan.training_rows, plan.rows)
            return super()._learn(run, plan, *args)

    X, y = clumps(60)
    objective = {"kind": "recall", "target": 0.8, "confidence": 0.8, "certificate": "strict"}
    one = Spying(random_state=0, gamma=0.05, objective=objective).fit(X, y)
    assert len(one.looked_at) == one.report_.calibration.n == 30
    moved = X.copy()
    moved[np.setdiff1d(np.arange(60), one.looked_at)] += 5
    other = AutoClassifier(random_state=0, gamma=0.05, objective=objective).fit(moved, y)
    assert one.report_.judge.methods
    assert other.report_.judge.returned == one.report_.judge.returned
    assert np.allclose(other.decision_function(X), one.decision_function(X), atol=3 * one.tol)


def candidate(name: str, scores: Any, unlabelled: Any) -> Candidate:
    return Candidate(name, NO_MODEL, np.asarray(scores, float), np.asarray(unlabelled, float), 0.0)


def test_each_of_the_three_tests_refuses_a_method() -> None:
    rng = np.random.default_rng(0)
    truth = np.tile([1.0, -1.0], 50)
    noisy, better = truth + 1.5 * rng.normal(size=100), truth + 0.7 * rng.normal(size=100)
    blunt = np.linspace(-2, 2, 400)
    sharp = np.sign(blunt) * (1 + 0.1 * np.abs(blunt))
    svm = candidate("svm", noisy, blunt)
    told = judge(truth, svm, [
        candidate("good", better, sharp),
        candidate("no better", noisy, sharp),
        candidate("no sharper", better, blunt),
        candidate("of other ranks", better, rng.permutation(sharp)),
    ], "safe")  # fmt: skip
    assert [each.passes for each in told.methods] == [True, False, False, False]
    assert told.returned == "good"
    assert told.methods[0].gain == pytest.approx(told.log_loss - told.methods[0].log_loss)


def test_modes_ask_for_less_and_less() -> None:
    truth = np.tile([1.0, -1.0], 50)
    sharp = np.concatenate([np.linspace(-1.2, -1, 200), np.linspace(1, 1.2, 200)])
    taken = dict.fromkeys(("safe", "balanced", "bold"), 0)
    for seed in range(20):
        noise, more = np.random.default_rng(seed).normal(size=(2, 100))
        svm = candidate("svm", truth + 1.5 * noise, np.linspace(-2, 2, 400))
        other = candidate("other", truth + noise + more, sharp)
        for mode in taken:
            taken[mode] += judge(truth, svm, [other], mode).returned == "other"
    assert 0 < taken["safe"] < taken["balanced"] < taken["bold"] < 20


def texts(spam_of_pool: int, seed: int) -> Problem:
    """Counts of words of 30 + 30 labelled texts and a pool of 300, half of the words of both classes."""
    rng = np.random.default_rng(seed)
    of_class = np.random.default_rng(5).dirichlet(np.full(400, 0.3), 2)
    y = np.repeat([1, 0, 1, 0], [30, 30, spam_of_pool, 300 - spam_of_pool])
    counts = [rng.multinomial(15, of_class[each]) + rng.multinomial(15, of_class.mean(axis=0)) for each in y]
    X = np.log1p(np.array(counts, dtype=np.float64))
    return X / np.linalg.norm(X, axis=1, keepdims=True), np.where(np.arange(360) < 60, y, -1)


@pytest.mark.parametrize(("spam_of_pool", "taken"), [(150, "mean-s3vm"), (12, "svm")])
def test_a_method_that_is_favoured_is_tried_alone_and_taken_unless_the_rows_speak_against_it(
    spam_of_pool: int, taken: str
) -> None:
    X, y = texts(spam_of_pool, 11)
    objective = {"kind": "ham_loss", "at_most": 0.01}  # whose threshold lies where few rows are
    asked: dict[str, Any] = {"kernel": "linear", "random_state": 0, "objective": objective}
    auto = AutoClassifier(**asked).favour("mean-s3vm").fit(X, y)
    told = auto.report_.judge
    assert [each.method for each in told.methods] == ["mean-s3vm"]
    assert told.returned == taken
    assert told.sentence.startswith(f"The model is {taken}")
    by_itself = MeanS3VM(**asked) if taken == "mean-s3vm" else SVM(**asked)
    assert differ(auto, by_itself.fit(X, y), X) < 3 * auto.tol


@pytest.mark.parametrize(
    ("objective", "tries"),
    [
        ({"kind": "precision", "target": 0.95}, True),
        ({"kind": "precision", "target": 0.96}, False),
        ({"kind": "ham_loss", "at_most": 0.01}, True),
        ({"kind": "ham_loss", "at_most": 0.001}, False),
    ],
)
def test_a_strict_target_has_the_svm(objective: dict[str, Any], *, tries: bool) -> None:
    auto = AutoClassifier(objective=objective).favour("mean-s3vm")
    assert (auto._reason(100, 1000) == "") == tries
    assert AutoClassifier(objective=objective)._reason(100, 1000) == ""


def test_a_training_favours_what_it_is_told_to() -> None:
    X, y = texts(150, 11)
    labels = np.array([None, "ham", "spam"], dtype=object)[y + 1]
    request = TrainingRequest(positive="spam", params={"kernel": "linear"}, favoured="mean-s3vm")
    judged = train(MatrixData(X), labels, request).report.judge
    assert [each.method for each in judged.methods] == ["mean-s3vm"]


@pytest.mark.parametrize(("favoured", "most"), [("mean-s3vm", FAVOURED_UNLABELLED), (None, JUDGED_UNLABELLED)])
def test_of_very_many_unlabelled_rows_some_are_drawn(favoured: str | None, most: int) -> None:
    encoded = np.where(np.arange(5100) < 100, np.arange(5100) % 2 * 2.0 - 1, 0.0)
    taken = AutoClassifier().favour(favoured)._takes_part(encoded, np.ones(5100, dtype=bool))
    assert taken.sum() == 100 + most
    assert taken[:100].all()


def test_each_of_three_tests_speaks_against_a_method_that_is_favoured() -> None:
    rng = np.random.default_rng(0)
    truth = np.tile([1.0, -1.0], 50)
    noise = np.random.default_rng(1).normal(size=(2, 100))
    blunt = np.linspace(-2, 2, 400)
    sharp = np.sign(blunt) * (1 + 0.1 * np.abs(blunt))
    svm = candidate("svm", truth + 0.8 * noise[0], blunt)
    a_little_worse = truth + 0.8 * noise[0] + 0.1 * noise[1]
    for other, taken in (
        (candidate("a little worse", a_little_worse, sharp), True),
        (candidate("much worse", truth + 3 * noise[1], sharp), False),
        (candidate("no sharper", a_little_worse, blunt), False),
        (candidate("of other ranks", a_little_worse, rng.permutation(sharp)), False),
    ):
        told = judge_favoured(truth, svm, other, "safe")
        assert told.methods[0].passes == taken
        assert told.returned == (other.name if taken else "svm")
        assert f"{told.methods[0].gain:.3f}" in told.sentence
    assert judge_favoured(truth, svm, candidate("", a_little_worse, sharp), "safe").methods[0].gain < 0


def test_figures_that_decide_are_written_so_that_they_differ() -> None:
    assert _apart(0.9, 0.8) == "0.90, svm 0.80"
    assert _apart(0.94132, 0.94118) == "0.9413, svm 0.9412"


def test_ranks_are_correlated_as_scipy_does() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 9, 50).astype(float), rng.normal(size=50)
    assert rank_correlation(first, second) == pytest.approx(spearmanr(first, second).statistic)
    assert rank_correlation(np.ones(5), np.arange(5.0)) == 0


@pytest.mark.parametrize("number", [1, 3])
def test_a_training_that_is_stopped_while_others_are_tried_returns_the_svm(number: int) -> None:
    X, y = clumps()
    svm = SVM(random_state=0).fit(X, y)
    ended = 0

    def stop_later(_fraction: float, info: dict[str, Any]) -> bool:
        nonlocal ended
        ended += info.get("fold") == 5
        return ended >= number

    auto = AutoClassifier(random_state=0, callback=stop_later).fit(X, y)
    assert auto.status_ == "stopped"
    assert differ(auto, svm, X) < 3 * auto.tol
    assert "ended before" in auto.report_.judge.sentence


def test_progress_never_falls() -> None:
    seen: list[float] = []
    AutoClassifier(random_state=0, callback=lambda fraction, _info: seen.append(fraction)).fit(*clumps())
    assert seen == sorted(seen)

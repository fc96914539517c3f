"""Rows that are left undecided: which thresholds are chosen, against a search of all, and what is promised of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaincc

from solver.abstention import FEWEST_ROWS, abstained_on, abstention, fewest_rows
from solver.band import Band
from solver.chances import LIKELY, WORTH_FOR_CHANCES
from solver.estimators import SVM
from solver.evaluation import OperatingCurve, confusion
from solver.export import NoSuchFormError, libsvm_text, with_threshold
from solver.features import Column, Table
from solver.model_file import LoadedClassifier, ModelFileError, read_model, write_model
from solver.operating_point import Abstain, Objective, ObjectiveError, choose_threshold
from solver.report import Abstention, Report
from solver.retuning import abstention_of, chosen_point, stored_promise
from solver.succession import Standing, other_aim
from solver.training import TrainedModel, TrainingRequest, train
from solver.typing import BoolArray, FloatArray

CLASSES = ("ham", "spam")


def labelled(n: int, seed: int, apart: float = 3.0) -> tuple[FloatArray, BoolArray]:
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.4
    return apart * truth + rng.normal(size=n), truth


def chosen(scores: FloatArray, truth: BoolArray, precision: float, threshold: float) -> Abstention:
    curve = OperatingCurve.from_scores(scores, truth)
    return abstention(curve, threshold, confusion(truth, scores > threshold), Abstain(precision), CLASSES)


def likely(right: int, wrong: int, precision: float) -> bool:
    """What `solver.chances` calls likely, said in another way."""
    enough = betaincc(WORTH_FOR_CHANCES * right + 0.5, WORTH_FOR_CHANCES * wrong + 0.5, precision) >= LIKELY
    return right + wrong > 0 and right >= precision * (right + wrong) - 1e-9 and bool(enough)


def test_with_few_labels_the_rarer_class_is_not_said_and_the_reason_is() -> None:
    """With 40 labels what was said of it did not hold on new rows."""
    truth = np.arange(FEWEST_ROWS) % 5 < 2
    scores = np.where(truth, 3.0, -3.0) + np.linspace(0, 1, FEWEST_ROWS)
    assert chosen(scores, truth, 0.8, 0.0).positive.rows == truth.sum()
    few = chosen(scores[:-1], truth[:-1], 0.8, 0.0)
    assert (few.upper, few.positive.rows, few.negative.rows) == (None, 0, (~truth[:-1]).sum())
    assert few.positive.reason == (
        "only 59 rows have a label; with fewer than 60 what was said of the rarer class did not hold on new rows"
    )
    assert chosen(-scores[:-1], ~truth[:-1], 0.8, 0.0).negative.rows == 0  # whichever it is


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(20, 200),
    precision=st.sampled_from([0.6, 0.8, 0.9, 0.95]),
    apart=st.sampled_from([0.0, 1.0, 3.0]),
)
def test_no_row_more_could_get_a_label(seed: int, n: int, precision: float, apart: float) -> None:
    scores, truth = labelled(n, seed, apart)
    threshold = float(np.random.default_rng(seed).choice(scores)) + 1e-7
    made = chosen(scores, truth, precision, threshold)
    is_better = OperatingCurve.from_scores(scores, truth).is_better_than_chance
    for sign, side, at in ((1, made.positive, made.upper), (-1, made.negative, made.lower)):
        beyond = sign * scores > sign * threshold
        belongs = truth if sign > 0 else ~truth
        most = 0
        for cut in [threshold, *scores[beyond]]:
            called = beyond & (sign * scores >= sign * cut)
            if likely(int((called & belongs).sum()), int((called & ~belongs).sum()), precision):
                most = max(most, int(called.sum()))
        if not is_better or (~belongs).sum() < 5:
            most = 0
        if n < FEWEST_ROWS and belongs.sum() <= n / 2:
            most = 0
        assert side.rows == most
        assert (at is None) == (most == 0) == (side.reason is not None)
        if at is not None:
            assert sign * at >= sign * threshold
            assert side.rows == int((sign * scores > sign * at).sum())
            assert side.right == int(((sign * scores > sign * at) & belongs).sum())
    assert abstained_on(made, scores, truth).undecided == made.undecided


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), precision=st.sampled_from([0.6, 0.9, 0.95]))
def test_exchanging_the_classes_exchanges_the_sides(seed: int, precision: float) -> None:
    scores, truth = labelled(120, seed)
    made, mirrored = chosen(scores, truth, precision, 1.5), chosen(-scores, ~truth, precision, -1.5)
    assert (made.upper, made.lower) == tuple(None if at is None else -at for at in (mirrored.lower, mirrored.upper))
    assert (made.positive.right, made.negative.right) == (mirrored.negative.right, mirrored.positive.right)


def test_labels_are_taken_away_and_never_exchanged() -> None:
    scores, truth = labelled(400, 1, apart=1.5)
    point = choose_threshold(scores, truth, Objective("f1"))
    made = chosen(scores, truth, 0.9, point.threshold)
    assert made.lower is not None
    assert made.upper is not None
    assert made.lower < point.threshold < made.upper
    assert 0 < made.undecided < made.rows
    # where the threshold alone is precise enough on both sides, nothing is undecided
    easy, classes = labelled(400, 1, apart=9.0)
    at_ease = chosen(easy, classes, 0.9, 4.5)
    assert (at_ease.lower, at_ease.upper, at_ease.undecided) == (4.5, 4.5, 0)


def test_what_cannot_be_had_is_left_undecided_and_said_why() -> None:
    scores, truth = labelled(60, 3)
    made = chosen(scores, truth, 0.98, 1.5)
    assert made.band == Band(-math.inf, math.inf)
    assert made.undecided == 60
    assert f"it takes {fewest_rows(0.98)} labelled rows" in str(made.positive.reason)
    assert likely(fewest_rows(0.98), 0, 0.98)
    assert not likely(fewest_rows(0.98) - 1, 0, 0.98)
    assert fewest_rows(1 - 1e-12) > 10**12  # found without a look at each of them
    few = np.arange(60) < 57
    assert "only 3 of the labelled rows" in str(chosen(scores + 9 * few, few, 0.9, 4.0).positive.reason)


def data(n: int, seed: int, known: int) -> tuple[Table, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.5
    X = rng.normal(size=(n, 3)) + 1.6 * truth[:, None]
    labels = np.where(np.arange(n) < known, np.where(truth, "spam", "ham"), None)
    columns = {name: Column(name, "number", X[:, at]) for at, name in enumerate("abc")}
    return Table(columns), labels.astype(object)


def trained(objective: dict[str, Any], labels: np.ndarray[Any, Any] | None = None, **more: Any) -> TrainedModel:
    table, known = data(400, 0, 200)
    request = TrainingRequest(algorithm="svm", objective=objective, positive="spam", **more)
    return train(table, known if labels is None else labels, request)


def test_a_training_promises_both_labels_and_the_threshold_is_that_of_the_objective() -> None:
    wanted = {"kind": "f1", "abstain": {"precision": 0.9}}
    made, plain = trained(wanted, test_fraction=0.2), trained({"kind": "f1"}, test_fraction=0.2)
    report = made.report
    assert report.threshold == plain.report.threshold
    assert report.calibration == plain.report.calibration
    assert report.objective == made.model.objective == wanted
    assert report.abstain is not None
    assert made.model.decision.band == report.abstain.band
    assert report.promise is not None
    assert plain.report.promise is not None
    assert report.promise.sentence.startswith(plain.report.promise.sentence)
    promised = report.promise.abstain
    assert promised is not None
    assert {promised.positive.level, promised.negative.level} == {"likely"}
    assert "rows called 'spam' at least 90% are likely to be right" in report.promise.sentence
    assert promised.undecided.low < report.abstain.undecided / report.abstain.rows < promised.undecided.high
    said = made.model.predict(data(400, 0, 200)[0]).labels
    assert report.unlabelled is not None
    assert report.unlabelled.undecided == said[200:].count(None) > 0
    assert report.unlabelled.positive == said[200:].count("spam")
    spread = report.unlabelled.scores
    assert spread is not None
    assert sum(spread.counts) == report.unlabelled.measured
    assert spread.least < report.threshold < spread.greatest
    # of the model that the test rows measured
    assert report.test_abstain is not None
    assert report.test_abstain.rows == report.rows.test
    assert Report.from_dict(report.to_dict()) == report
    again = chosen_point(report, Objective.parse(wanted))
    assert again is not None
    assert (again.abstain, again.status, again.promise) == (report.abstain, report.status, report.promise)
    assert stored_promise(report, report) == report.promise


def test_what_test_rows_say_is_of_the_band_that_they_measured() -> None:
    report = trained({"kind": "f1", "abstain": {"precision": 0.8}}, test_fraction=0.3, refit=False).report
    assert report.test_abstain is not None
    again, other = (chosen_point(report, Objective("f1", abstain=Abstain(precision))) for precision in (0.8, 0.9))
    assert again is not None
    assert again.promise == report.promise
    assert other is not None
    assert other.threshold == report.threshold
    assert other.abstain is not None
    assert other.promise is not None
    assert other.promise.abstain is not None
    side, called = other.promise.abstain.negative, other.abstain.negative
    wrong = called.rows - called.right
    alone = betaincc(WORTH_FOR_CHANCES * called.right + 0.5, WORTH_FOR_CHANCES * wrong + 0.5, 0.9)
    assert side.chance == pytest.approx(float(alone))


def test_one_side_that_is_missing_is_no_success() -> None:
    report = trained({"kind": "f1", "abstain": {"precision": 0.995}}).report
    assert report.status == "cannot_certify"
    assert report.status_reason.startswith("No row is called 'spam': it takes")
    assert report.promise is not None
    assert "Left undecided: 100% of the rows" in report.promise.sentence


def test_with_a_confidence_a_label_is_said_where_it_is_proven() -> None:
    aim = {"kind": "recall", "target": 0.5, "confidence": 0.8}
    report = trained(aim | {"abstain": {"precision": 0.8}}).report
    assert report.promise is not None
    assert report.promise.abstain is not None
    assert report.promise.abstain.negative.level == "proven"
    assert report.promise.abstain.negative.bound >= 0.8
    assert "proven with confidence 80%" in report.promise.sentence
    chance = chosen_point(report, Objective.parse({"kind": "f1", "abstain": {"precision": 0.8}}))
    assert chance is not None
    assert chance.abstain is not None
    assert report.abstain is not None
    assert chance.abstain.undecided <= report.abstain.undecided
    # rows that have trained the model prove and promise nothing
    seen = abstention_of(
        Report.from_dict(report.to_dict() | {"labeled_split": "full"}), Objective("f1", abstain=Abstain(0.8)), 0.0
    )
    assert seen is not None
    assert seen.band == Band(-math.inf, math.inf)


def test_labels_at_random_promise_nothing() -> None:
    table, known = data(260, 1, 200)
    said = 0
    for seed in range(6):
        drawn = known.copy()
        drawn[:200] = np.random.default_rng(seed).permutation(known[:200])
        request = TrainingRequest(
            algorithm="svm", objective={"kind": "f1", "abstain": {"precision": 0.55}}, positive="spam", seed=seed
        )
        report = train(table, drawn, request).report
        assert report.abstain is not None
        said += report.abstain.positive.rows + report.abstain.negative.rows
    assert said == 0


def test_a_file_keeps_the_band_and_older_readers_refuse_it(tmp_path: Any) -> None:
    made = trained({"kind": "f1", "abstain": {"precision": 0.9}}).model
    write_model(tmp_path / "m", made)
    again = read_model(tmp_path / "m")
    assert again.decision.band == made.decision.band
    assert again.manifest["version"] == 2
    table, _ = data(400, 0, 200)
    assert again.predict(table).labels == made.predict(table).labels
    X, _ = again.feature_matrix(table)
    assert LoadedClassifier(again).predict(X).tolist() == made.predict(table).labels
    raw = (tmp_path / "m").read_bytes()
    plain = read_model(b"".join(with_threshold([raw], 0.5)))
    assert (plain.decision.band, plain.manifest["version"]) == (None, 1)
    half = read_model(b"".join(with_threshold([raw], 0.5, Band(-math.inf, 0.75))))
    assert half.decision.band == Band(-math.inf, 0.75)
    assert set(half.predict(table).labels) == {"spam", None}
    with pytest.raises(NoSuchFormError, match="apply an objective without abstain"):
        libsvm_text(made.decision)


@pytest.mark.parametrize(
    "band",
    [
        {"lower": 1.0, "upper": 0.0},
        {"lower": "0", "upper": 1.0},
        {"lower": float("nan"), "upper": 1.0},
        {"lower": 10**400, "upper": None},
        {"lower": True, "upper": None},
        [],
    ],
)
def test_a_band_that_is_none_is_refused(band: Any, tmp_path: Any) -> None:
    import json

    from solver.tensor_file import read_tensors, write_tensors

    write_model(tmp_path / "m", trained({"kind": "f1", "abstain": {"precision": 0.9}}).model)
    tensors, metadata = read_tensors(tmp_path / "m")
    manifest = json.loads(metadata["manifest"])
    manifest["decision"]["band"] = band
    write_tensors(tmp_path / "bad", tensors, {"manifest": json.dumps(manifest)})
    with pytest.raises(ModelFileError):
        read_model(tmp_path / "bad")


def test_objectives_that_abstain() -> None:
    wanted = Objective.parse({"kind": "cost", "false_negative": 2, "false_positive": 1, "abstain": {"precision": 0.9}})
    assert Objective.parse(wanted) == Objective.parse(wanted.to_dict()) == wanted
    for wrong in (0.9, {}, {"precision": 0.5}, {"precision": 1.0}, {"precision": 0.9, "x": 1}, {"precision": "0.9"}):
        with pytest.raises(ObjectiveError):
            Objective.parse({"kind": "f1", "abstain": wrong})
    with pytest.raises(ValueError, match="every row a label"):
        SVM(objective={"kind": "f1", "abstain": {"precision": 0.9}}).fit(np.eye(4), [0, 1, 0, 1])


def test_another_abstain_is_another_aim() -> None:
    report = trained({"kind": "f1", "abstain": {"precision": 0.9}}).report
    plain = Report.from_dict(report.to_dict() | {"objective": {"kind": "f1"}})
    ours, theirs = (Standing(classes=each.classes, point=each) for each in (report, plain))
    assert other_aim(ours, ours) is None
    said = other_aim(ours, theirs)
    assert said == "it was asked for f1 undecided below precision 90%, the older one for f1"

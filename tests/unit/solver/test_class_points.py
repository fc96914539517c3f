"""Another rule for a trained model of several classes: as of a training with its objective, and of no chance labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from solver.class_points import chosen_point_of_classes, promise_of_point, with_point
from solver.features import MatrixData
from solver.model_file import ClassesModel, model_bytes, read_any_model
from solver.multiclass import ClassObjective, LeftOutError, LeftOutProbabilities, choosing
from solver.multiclass.rule import dealt
from solver.training import TrainedClasses, TrainingRequest
from solver.training.several_classes import train

CLASSES = ["a", "b", "c"]
CENTRES = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])
OBJECTIVES: list[dict[str, Any]] = [
    {"kind": "macro_f1"},
    {"kind": "accuracy", "floors": {"a": {"recall": 0.9}, "b": {"precision": 0.8}}},
    {"kind": "accuracy", "floors": {"a": {"precision": 0.95}}, "confidence": 0.9},
    {"kind": "cost", "costs": {"a": {"b": 5, "c": 0.5}}},
]


def clouds(n: int = 150) -> tuple[MatrixData, NDArray[Any]]:
    rng = np.random.default_rng(0)
    codes = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    labels = np.array(CLASSES, dtype=object)[codes]
    return MatrixData(rng.normal(size=(n, 2)) + CENTRES[codes]), labels


def trained(objective: dict[str, Any]) -> TrainedClasses:
    made = train(*clouds(), TrainingRequest(algorithm="svm", objective=objective, scheme="one_vs_one", test_fraction=0))
    assert isinstance(made, TrainedClasses)
    return made


def at_random(seed: int, n: int = 300, classes: int = 3) -> LeftOutProbabilities:
    """Probabilities that know nothing of the classes."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % classes)
    probabilities = rng.dirichlet(np.ones(classes), n)
    fold = dealt(codes, 5, np.random.default_rng(1))
    return LeftOutProbabilities(codes, fold, probabilities, np.stack([probabilities] * 5), np.bincount(codes), n)


@pytest.fixture(scope="module")
def plain() -> TrainedClasses:
    return trained({"kind": "accuracy"})


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda each: "-".join(map(str, each)) + each["kind"])
def test_a_rule_is_that_of_a_training_with_its_objective(
    plain: TrainedClasses, objective: dict[str, Any], tmp_path: Path
) -> None:
    assert plain.left_out is not None
    plain.left_out.write(tmp_path / "kept")
    kept = LeftOutProbabilities.read((tmp_path / "kept").read_bytes())
    point = chosen_point_of_classes(kept, ClassObjective.parse(objective), CLASSES).to_dict()
    asked = trained(objective)
    now = with_point(plain.report, point)
    for name in ("objective", "status", "status_reason", "calibration", "floors", "promise"):
        assert getattr(now, name) == getattr(asked.report, name), name
    assert promise_of_point(point) == asked.report.promise
    # the model decides by it, also from its file
    retuned = read_any_model(model_bytes(plain.model.with_rule(point["rule"])))
    assert isinstance(retuned, ClassesModel)
    data, _ = clouds()
    assert retuned.predict(data).labels == asked.model.predict(data).labels
    assert plain.model.with_rule(None) is plain.model
    with pytest.raises(ValueError, match="not of 3 classes"):
        plain.model.with_rule({"weights": [1.0, 1.0], "least": [-1.0, -1.0], "never": []})


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda each: "-".join(map(str, each)) + each["kind"])
def test_labels_at_random_reach_chance_whatever_is_asked(objective: dict[str, Any]) -> None:
    # the figures count what choosing costs: over many draws their mean is chance, and no floor that is proven is so
    points = [
        chosen_point_of_classes(at_random(seed), ClassObjective.parse(objective), CLASSES).calibration
        for seed in range(20)
    ]
    right = sum(sum(each.right for each in point.classes) for point in points)
    decided = sum(point.n - point.undecided for point in points)
    assert abs(right - decided / 3) < 4 * np.sqrt(decided * 2 / 9)
    if "confidence" in objective:
        assert all(point.classes[0].said == 0 for point in points)


def test_of_very_many_rows_some_of_each_class_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made = at_random(0, 900)
    assert made.to_keep(0) is made
    monkeypatch.setattr(choosing, "MOST_VALUES", 18 * 300)
    few = replace(made, codes=np.where(np.arange(900) < 12, 2, made.codes % 2))
    kept = few.to_keep(0)
    counts = np.bincount(few.codes)
    assert kept.left_out == 900
    assert kept.own.shape == (len(kept.codes), 3)
    assert np.bincount(kept.codes).tolist() == [counts[0] // 3, counts[1] // 3, counts[2] // 3]
    assert np.array_equal(kept.codes, few.to_keep(0).codes)
    assert not np.array_equal(kept.of_all, few.to_keep(1).of_all)


def test_figures_of_the_rows_that_are_kept_are_those_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    # most rows are of one class, and of the others fewer than ten each are kept: they may not count for more
    rng = np.random.default_rng(0)
    classes = [f"c{number}" for number in range(40)]
    codes = np.where(rng.random(8000) < 0.9, 0, rng.integers(1, 40, 8000))
    probabilities = 0.3 * rng.dirichlet(np.ones(40), 8000)
    probabilities[np.arange(8000), np.where(rng.random(8000) < 0.7, codes, 0)] += 0.7
    fold = dealt(codes, 5, rng)
    made = LeftOutProbabilities(codes, fold, probabilities, np.stack([probabilities] * 5), np.bincount(codes), 8000)
    monkeypatch.setattr(choosing, "MOST_VALUES", 6 * 40 * 800)
    kept = made.to_keep(0)
    assert kept.of_all.size + kept.of_folds.size <= choosing.MOST_VALUES * 1.05  # one row of each class at least
    accuracy = [
        chosen_point_of_classes(each, ClassObjective.parse("accuracy"), classes).calibration.accuracy
        for each in (made, kept)
    ]
    assert accuracy[0] is not None
    assert accuracy[1] is not None
    assert accuracy[1].low <= accuracy[0].value <= accuracy[1].high


@pytest.mark.parametrize(
    "change",
    [
        {"codes": np.array([0, 3])},
        {"fold": np.array([0, -1])},
        {"left_out": 1},
        {"of_all": np.array([[np.nan] * 3] * 2)},
    ],
)
def test_what_contradicts_itself_is_not_read(change: dict[str, Any], tmp_path: Path) -> None:
    two = np.full((2, 3), 1 / 3)
    made = LeftOutProbabilities(np.array([0, 1]), np.array([0, 1]), two, np.stack([two] * 2), np.ones(3, np.int64), 2)
    made.write(tmp_path / "whole")
    stored = (tmp_path / "whole").read_bytes()
    assert LeftOutProbabilities.read(stored).codes.tolist() == [0, 1]
    replace(made, **change).write(tmp_path / "kept")
    with pytest.raises(LeftOutError):
        LeftOutProbabilities.read((tmp_path / "kept").read_bytes())
    with pytest.raises(LeftOutError):
        LeftOutProbabilities.read(stored[:-8])

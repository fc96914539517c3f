"""The report of a training: its JSON form and back, and reports that older versions stored."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solver.report
from service.models.curves import Costs, curve_of
from service.models.drift import drift_of
from service.models.schemas import OperatingPoint
from solver.features import MatrixData
from solver.operating_point import Objective
from solver.report import Estimate, JsonObject, Report
from solver.retuning import CalibrationRows
from solver.training import TrainingRequest, train

STORED = Path(__file__).parents[1] / "data" / "reports"
OLD = ("first", "with-feedback", "tuned-on-all-rows")
"""As they were written by versions of old: of a first model; of one with corrections; of one that was tuned."""


def stored(name: str) -> dict[str, Any]:
    return json.loads((STORED / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def written() -> Report:
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(90, 2)), np.array(["no", "yes", None] * 30, dtype=object)
    X[1::3] += 2
    request = TrainingRequest(algorithm="psvm", params={"tune": "C"}, positive="yes", test_fraction=0.2)
    return train(MatrixData(X), labels, request).report


def test_a_report_begins_with_its_promise(written: Report) -> None:
    assert next(iter(written.to_dict())) == "promise"
    assert written.promise is not None
    assert "F1" in written.promise.sentence


def same(told: Any, said: Any) -> None:
    """Check that what was stored is there, under its name."""
    if isinstance(said, dict):
        for name, value in said.items():
            same(told[name] if isinstance(told, dict) else getattr(told, name), value)
    elif isinstance(said, list):
        assert len(told) == len(said)
        for each, value in zip(told, said, strict=True):
            same(each, value)
    else:
        assert told == said


@pytest.mark.parametrize("name", OLD)
def test_a_report_of_old_is_read_whole_and_serves_what_reads_reports(name):
    said = stored(name)
    report = Report.from_dict(said)
    same(report, said)
    assert Report.from_dict(json.loads(json.dumps(report.to_dict(), allow_nan=False))) == report
    assert report.promise is None
    assert report.parts == {}
    assert report.excluded == []
    assert report.labels is None
    names = ("objective", "threshold", "status", "status_reason", "calibration")
    point = OperatingPoint(**{each: getattr(report, each) for each in names}, created_at=None)
    assert len(curve_of(report, report.curve, "pr", point, Costs()).points) == len(said["curve"]["thresholds"])
    assert 0 < drift_of("mdl_1", report, point, 7, []).prior.training < 1
    assert CalibrationRows.from_report(report).operating_point(Objective.parse("f1")).counts.total > 0
    assert point.model_dump(mode="json")["calibration"]["f1"] == said["calibration"]["f1"]


def test_what_versions_of_old_did_not_say_is_not_made_up():
    first, tuned = Report.from_dict(stored("first")), Report.from_dict(stored("tuned-on-all-rows"))
    assert (first.comparison, first.probability, first.feedback, first.rows.feedback, first.columns) == (
        None, None, None, None, [],
    )  # fmt: skip
    assert tuned.tuning is not None
    assert tuned.tuning.rows is None
    corrected = Report.from_dict(stored("with-feedback"))
    assert corrected.feedback is not None
    assert corrected.feedback.rows == corrected.rows.feedback == 1


def test_what_is_written_is_read_back(written):
    said = json.loads(json.dumps(written.to_dict(), allow_nan=False))
    assert Report.from_dict(said) == written
    assert Report.from_dict(said | {"of a newer version": 1}) == written
    assert [type(each) for each in (written.tuning, written.comparison, written.probability, written.unlabelled)] == [
        solver.report.TuningReport, solver.report.ComparisonReport, solver.report.ProbabilityReport,
        solver.report.DecidedUnlabelled,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ({"threshold": None}, "threshold: expected"),
        ({"threshold": []}, "threshold: expected"),
        ({"rows": {}}, "rows: total is missing"),
        ({"calibration": {"n": "many"}}, "calibration: n: expected"),
        ({"warnings": [1]}, "warnings: expected"),
        ({"controls": [1]}, "controls: expected"),
    ],
)
def test_a_damaged_report_is_refused_by_name(written, damage, said):
    with pytest.raises(ValueError, match=said):
        Report.from_dict(written.to_dict() | damage)
    with pytest.raises(ValueError, match="status is missing"):
        Report.from_dict({name: each for name, each in written.to_dict().items() if name != "status"})


def test_json_has_no_nan(written):
    assert Estimate(float("nan"), float("-inf"), 1.0).to_dict() == {"value": None, "low": None, "high": 1.0}
    odd = replace(written, rounds=[{"ratio": float("inf"), "values": [float("nan"), 1.0]}])
    assert odd.to_dict()["rounds"] == [{"ratio": None, "values": [None, 1.0]}]


def test_seconds_are_added(written):
    longer = written.with_seconds(training=1.0, storing=2.0).with_seconds(storing=0.5)
    assert longer.timings == written.timings | {"training": written.timings["training"] + 1.0, "storing": 2.5}


def test_every_class_of_the_report_says_what_it_is():
    mine = [each for each in vars(solver.report).values() if getattr(each, "__module__", "") == solver.report.__name__]
    known = [each for each in mine if is_dataclass(each)]
    assert all(issubclass(each, JsonObject) and each.__doc__ and fields(each) for each in known)

"""Drift figures on the real application: what was predicted is counted, written, and compared with the training."""

from __future__ import annotations

import dataclasses
import time
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from api_support import api_client, measures, report, store_model, tiny_model
from sqlalchemy import text

from service.db.session import Database
from service.models.drift import adjusted_count, drift_of
from service.models.repository import DayStatistics, ModelStatistics, UsageKey
from service.models.schemas import OperatingPoint
from service.predictions import usage
from service.predictions.usage import UsageRecorder
from service.settings import Settings
from solver.evaluation import OperatingCurve
from solver.report import Measures, Report

ROWS = [{"age": age, "job": job} for age in (10, 25, 35, 45, 80) for job in ("clerk", "cook", "pilot")]


def test_predictions_are_counted_and_compared_with_the_training(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    plain = tiny_model()
    near, _ = plain.predict_rows([{"age": age, "job": "clerk"} for age in (20, 50)])
    model = dataclasses.replace(plain, curve=OperatingCurve.from_scores(near.scores, [0, 1]))
    model_id = store_model(database, tmp_path, model)
    low, high = sorted(near.scores)
    scores = plain.predict_rows(ROWS)[0].scores
    outside = int(np.count_nonzero((scores < low) | (scores > high)))
    positive = int(np.count_nonzero(scores > 0.25))
    assert 0 < outside < len(ROWS)
    assert 0 < positive < len(ROWS)

    with api_client(settings) as client:
        empty = client.get(f"/models/{model_id}/drift").raise_for_status().json()
        assert (empty["rows"], empty["outside_range_share"], empty["positive_share"]) == (0, None, None)
        assert empty["prior"] == {"training": 0.4, "estimate": None, "low": None, "high": None}
        assert [reason.split(";")[0] for reason in empty["unknown"]] == ["no row was counted in these days"]
        client.post("/predict", json={"model": model_id, "rows": ROWS}).raise_for_status()
        for row in ROWS:  # one row is counted on its own way
            client.post("/predict", json={"model": model_id, "rows": [row]}).raise_for_status()
        inputs = [
            {"name": "age", "shape": [1], "datatype": "FP64", "data": [30]},
            {"name": "job", "shape": [1], "datatype": "BYTES", "data": ["clerk"]},
        ]
        client.post(f"/v2/models/{model_id}/infer", json={"inputs": inputs}).raise_for_status()
        assert client.post("/predict", json={"model": model_id, "rows": [{"age": 1}]}).status_code == 422
    # The end of the process wrote what was counted.
    with api_client(settings) as client:
        told = client.get(f"/models/{model_id}/drift", params={"days": 2}).raise_for_status().json()
        inferred = plain.predict_rows([{"age": 30, "job": "clerk"}])[0]
        rows, positives = 2 * len(ROWS) + 1, 2 * positive + inferred.labels.count("spam")
        assert told["rows"] == told["rows_at_threshold"] == rows
        assert told["outside_range_share"] == 2 * outside / rows
        assert told["positive_share"] == positives / rows
        assert told["unseen"] == [{"column": "job", "rows": 10, "share": 10 / rows}]
        estimate = (positives / rows - 1 / 6) / (1 - 1 / 6)
        assert told["prior"]["estimate"] == pytest.approx(estimate)
        assert told["prior"]["low"] < estimate < told["prior"]["high"]
        assert [(day["rows"], day["outside_range"], day["positive"]) for day in told["by_day"]] == [
            (rows, 2 * outside, positives)
        ]

        assert told["unknown"] == []

        # Another threshold: what was decided by the old one says nothing about the new one's share of positives.
        point = {"objective": {"kind": "cost", "false_negative": 1.0, "false_positive": 1000.0}, "apply": True}
        moved = client.post(f"/models/{model_id}/operating-points", json=point).raise_for_status().json()
        assert moved["threshold"] != 0.25
        told = client.get(f"/models/{model_id}/drift").json()
        assert (told["rows"], told["rows_at_threshold"], told["positive_share"]) == (rows, 0, None)
        (reason,) = told["unknown"]
        threshold = f"{moved['threshold']:.6g}"
        assert reason.startswith(f"none of the {rows} rows was decided by the threshold in use, {threshold}")
        assert f"applied at {moved['created_at'][:16]}Z" in reason

        with database.transaction() as session:
            session.execute(text("UPDATE model_statistics SET day = day - 7"))
        assert client.get(f"/models/{model_id}/drift").json()["rows"] == 0
        assert client.get(f"/models/{model_id}/drift", params={"days": 8}).json()["rows"] == rows
        for days in (0, 367):
            assert client.get(f"/models/{model_id}/drift", params={"days": days}).status_code == 422

        client.delete(f"/models/{model_id}").raise_for_status()
        assert client.get(f"/models/{model_id}/drift").status_code == 404


def test_figures_come_while_the_service_runs(
    settings: Settings, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "FLUSH_SECONDS", 0.05)
    model_id = store_model(database, tmp_path)
    with api_client(settings) as client:
        for expected in (len(ROWS), 2 * len(ROWS)):
            client.post("/predict", json={"model": model_id, "rows": ROWS}).raise_for_status()
            until = time.monotonic() + 40
            while client.get(f"/models/{model_id}/drift").json()["rows"] != expected:
                assert time.monotonic() < until
                time.sleep(0.02)


def test_counts_add_up_whoever_writes_them(database: Database, tmp_path: Path) -> None:
    model_id = store_model(database, tmp_path)
    project_id = _project_of(database, model_id)
    recorders = [UsageRecorder(database), UsageRecorder(database)]
    for recorder in recorders:
        for unseen in ({"job": 2}, {"job": 1, "town": 1}):
            recorder.add(UsageKey(project_id, model_id, 0.25), 3, 1, 2, unseen)
            recorder.add(UsageKey(project_id, "mdl_gone", 0.25), 3, 1, 2, unseen)  # deleted before it was written
            recorder.flush()
        recorder.flush()
    with database.transaction() as session:
        found = session.execute(text("SELECT model_id, rows, outside_range, positive, unseen FROM model_statistics"))
        assert [tuple(row) for row in found] == [(model_id, 12, 4, 8, {"job": 6, "town": 2})]


def test_counts_wait_for_postgres(database: Database, tmp_path: Path) -> None:
    away = Database("postgresql+psycopg://nobody@127.0.0.1:1/none")
    model_id = store_model(database, tmp_path)
    key = UsageKey(_project_of(database, model_id), model_id, 0.25)
    recorder = UsageRecorder(away)
    recorder.add(key, 3, 1, 2, {"job": 1})
    recorder.flush()
    recorder.add(key, 1, 0, 0, {"job": 1})
    recorder._database = database
    recorder.flush()
    with database.transaction() as session:
        assert session.execute(text("SELECT rows, unseen FROM model_statistics")).one() == (4, {"job": 2})


@pytest.mark.parametrize(
    ("positive", "changes", "expected"),
    [
        (500, {}, 0.4),
        (50, {}, 0.0),  # fewer than there would be without a single positive
        (990, {}, 1.0),
        (500, {"true_positives": 0, "false_negatives": 0}, None),  # no positive among the calibration rows
        (500, {"true_positives": 1, "false_negatives": 9}, None),  # finds no more than it takes for positive wrongly
    ],
)
def test_adjusted_count(positive: int, changes: dict[str, int], expected: float | None) -> None:
    counts = {"true_positives": 8, "false_negatives": 2, "false_positives": 3, "true_negatives": 7}
    measured = Measures.from_dict(measures() | counts | changes)
    found = adjusted_count(positive, 1000, measured)
    assert (found and found.value) == (None if expected is None else pytest.approx(expected))
    assert found is None or found.low <= found.value <= found.high
    assert adjusted_count(0, 0, measured) is adjusted_count(positive, 1000, None) is None


def test_the_interval_of_an_estimate_holds_the_share() -> None:
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(500):
        hits, alarms = rng.binomial(100, [0.8, 0.1])
        counts = {
            "true_positives": hits, "false_negatives": 100 - hits, "false_positives": alarms,
            "true_negatives": 100 - alarms,
        }  # fmt: skip
        measured = Measures.from_dict(measures() | {name: int(count) for name, count in counts.items()})
        found = adjusted_count(int(rng.binomial(200, 0.3 * 0.8 + 0.7 * 0.1)), 200, measured)
        assert found is not None
        held += found.low <= 0.3 <= found.high
    assert 0.93 <= held / 500 <= 0.98


def test_an_estimate_that_says_nothing_is_not_given() -> None:
    counts = {"true_positives": 2, "false_negatives": 38, "false_positives": 0, "true_negatives": 60}
    point = OperatingPoint(
        objective={"kind": "f1"}, threshold=0.5, status="met", status_reason="",
        calibration=Measures.from_dict(measures() | counts), created_at=None,
    )  # fmt: skip
    trained = Report.from_dict(report())
    told = drift_of("mdl_1", trained, point, 7, [DayStatistics(date(2026, 7, 1), 0.5, ModelStatistics(rows=21))])
    assert (told.positive_share, told.prior.estimate, told.prior.low, told.prior.high) == (0, None, None, None)
    (reason,) = told.unknown
    assert "from 21 rows it could be anything from 0% to 100%" in reason
    assert "finds 5% of the positives and takes 0% of the negatives" in reason


def test_reasons_name_times_in_utc() -> None:
    point = OperatingPoint(
        objective={"kind": "f1"},
        threshold=0.5,
        status="met",
        status_reason="",
        calibration=None,
        created_at=datetime(2026, 7, 1, 1, 30, tzinfo=timezone(timedelta(hours=2))),  # of a Postgres elsewhere
    )
    counted = [DayStatistics(date(2026, 7, 1), 0.1, ModelStatistics(rows=5))]
    assert (
        "applied at 2026-06-30T23:30Z:" in drift_of("mdl_1", Report.from_dict(report()), point, 30, counted).unknown[0]
    )


def _project_of(database: Database, model_id: str) -> str:
    with database.transaction() as session:
        return str(session.scalar(text("SELECT project_id FROM models WHERE id = :id"), {"id": model_id}))

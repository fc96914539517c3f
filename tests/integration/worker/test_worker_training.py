"""The real thing: real rows from the blob store, the real solver in a warm child, a model that predicts."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sqlalchemy import select
from worker_bench import Bench, store_table, wait_for

from service.db.session import Database
from service.db.tables import ModelChunkRow
from service.identifiers import new_id
from service.settings import Settings
from solver.model_file import read_model
from worker import fit
from worker.protocol import JobSpec, Reporter, UnrunnableJobError

REQUEST = {
    "target": "diagnosis", "positive": "malignant", "unlabeled": ["?"],
    "features": {"include": None, "exclude": ["id"]}, "objective": {"kind": "recall", "target": 0.95},
    "algorithm": "psvm", "params": {}, "test_fraction": 0.2, "seed": 0,
}  # fmt: skip


@pytest.fixture
def dataset(settings: Settings, database: Database) -> str:
    """The tumours, with 90 % of the labels removed."""
    data = load_breast_cancer()
    labels = data.target_names[data.target].astype(object)
    labels[np.random.default_rng(0).random(len(labels)) < 0.9] = "?"
    columns = {name: data.data[:, i] for i, name in enumerate(data.feature_names)}
    columns["id"] = np.array([f"patient {i}" for i in range(len(labels))], dtype=object)
    columns["diagnosis"] = labels
    return store_table(settings, database, "tumours", columns)


def test_tumours_are_learned(trainer: Bench, database: Database, dataset: str) -> None:
    job_id = trainer.enqueue("", dataset_id=dataset, **REQUEST, alias="tumours")
    assert trainer.supervisor.run(job_id) == "succeeded"
    (model,) = trainer.models(job_id)
    report, timings = model.report, model.report["timings"]
    assert model.algorithm == "psvm"
    assert report["rows"]["total"] == 569
    assert report["rows"]["unlabelled"] > 450
    assert report["peak_memory_bytes"] > 50 << 20
    assert {
        "queue_seconds", "child_start_seconds", "reading", "features", "training", "evaluating", "storing",
    } <= set(timings)  # fmt: skip
    kinds = [event.kind for event in trainer.events(job_id)]
    assert kinds[:2] == ["queued", "started"]
    assert kinds[-1] == "finished"
    told = trainer.events(job_id)[-1].data["promise"]
    assert told == {name: report["promise"][name] for name in ("level", "sentence")}
    assert {"reading", "features", "training", "evaluating"} <= {
        event.data.get("phase") for event in trainer.events(job_id)
    }
    with database.transaction() as session:
        chunks = session.scalars(
            select(ModelChunkRow.data).where(ModelChunkRow.model_id == model.id).order_by(ModelChunkRow.seq)
        )
        read = read_model(b"".join(chunks))
    assert read.classes == ("benign", "malignant")
    assert "id" not in {column["name"] for column in read.columns}


@pytest.mark.parametrize(
    ("change", "code"),
    [({"positive": "benigne"}, "unknown_positive"), ({"target": "diagnose"}, "unknown_column")],
)
def test_what_the_user_can_mend(
    settings: Settings, dataset: str, tmp_path: Path, change: dict[str, Any], code: str
) -> None:
    reading, writing = os.pipe()
    job = JobSpec(
        job_id=new_id("job"), attempt=1, request={**REQUEST, **change}, layout="table",
        columnar_key="columnar/tumours", blob_location=settings.blob_location, scratch=str(tmp_path),
    )  # fmt: skip
    try:
        with pytest.raises(UnrunnableJobError) as caught:
            fit.run(job, Reporter(writing))
        assert caught.value.code == code
        with pytest.raises(UnrunnableJobError) as caught:
            fit.run(replace(job, columnar_key="columnar/gone"), Reporter(writing))
        assert caught.value.code == "dataset_deleted"
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.slow
@pytest.mark.parametrize("labels", ["all", "few"])
def test_a_large_training_that_runs_out_of_time_has_a_model(
    settings: Settings, database: Database, labels: str
) -> None:
    """200,000 rows cannot be learned in five seconds; what is there then is kept within the grace."""
    random = np.random.default_rng(0)
    rows = 200_000
    X = random.normal(size=(rows, 20)).round(3)
    truth = np.where(X[:, 0] + X[:, 1] ** 2 + 0.7 * random.normal(size=rows) > 1, "yes", "no").astype(object)
    if labels == "few":
        truth[random.random(rows) < 0.5] = "?"
    dataset = store_table(settings, database, "large", {**{f"x{i}": X[:, i] for i in range(20)}, "label": truth})
    bench = Bench(settings, database, runner="worker.fit", stop_grace_seconds=settings.stop_grace_seconds)
    request = {
        **REQUEST, "target": "label", "positive": "yes", "features": {}, "objective": {"kind": "f1"},
        "algorithm": "svm" if labels == "all" else "psvm",
    }  # fmt: skip
    try:
        wait_for(lambda: bench.spares.is_warm, 120)
        job_id = bench.enqueue("", dataset_id=dataset, max_seconds=5.0, **request)
        assert bench.supervisor.run(job_id) == "succeeded", bench.row(job_id).error
        job = bench.row(job_id)
        assert job.started_at is not None
        assert job.finished_at is not None
        assert (job.finished_at - job.started_at).total_seconds() < 5 + settings.stop_grace_seconds
        report = bench.models(job_id)[0].report
        assert report["status"] == "stopped"
        assert "max_seconds = 5" in report["status_reason"]
        assert report["test"]["f1"]["value"] > 0.4  # 0.36 is what "all positive" reaches
    finally:
        bench.close()

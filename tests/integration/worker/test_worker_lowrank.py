"""More rows than the exact solver can hold: a real job in a real child, within its memory and its time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select
from worker_bench import Bench, store_table, wait_for

from service.db.session import Database
from service.db.tables import ModelChunkRow
from service.settings import Settings
from solver.model_file import Model, read_model

ROWS, FEATURES = 210_000, 8
MEMORY = 3 << 30
REQUEST: dict[str, Any] = {
    "target": "y", "positive": "1", "unlabeled": [], "features": {"include": None, "exclude": []},
    "objective": {"kind": "f1"}, "algorithm": "auto", "params": {"labeled_split": "full"}, "test_fraction": 0.05,
    "seed": 0,
}  # fmt: skip

pytestmark = pytest.mark.slow


@pytest.fixture
def bench(settings: Settings, database: Database) -> Iterator[Bench]:
    bench = Bench(settings, database, runner="worker.fit", job_memory_bytes=MEMORY, stop_grace_seconds=60.0)
    wait_for(lambda: bench.spares.is_warm, 120)
    yield bench
    bench.close()


@pytest.fixture
def dataset(settings: Settings, database: Database) -> str:
    """Two overlapping Gaussians; the best possible accuracy is 0.841."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, ROWS)
    X = rng.normal(size=(ROWS, FEATURES))
    X[:, 0] += 2.0 * y
    columns: dict[str, Any] = {f"x{i}": X[:, i] for i in range(FEATURES)}
    return store_table(settings, database, "many", {**columns, "y": np.array(["0", "1"], dtype=object)[y]})


def stored_model(database: Database, model_id: str) -> Model:
    with database.transaction() as session:
        chunks = select(ModelChunkRow.data).where(ModelChunkRow.model_id == model_id).order_by(ModelChunkRow.seq)
        return read_model(b"".join(session.scalars(chunks)))


def test_auto_takes_the_low_rank_engine_within_the_memory_of_a_job(
    bench: Bench, database: Database, dataset: str
) -> None:
    job_id = bench.enqueue("", dataset_id=dataset, max_seconds=900.0, **REQUEST)
    assert bench.supervisor.run(job_id) == "succeeded"
    (model,) = bench.models(job_id)
    report = model.report
    assert model.algorithm == "auto"
    assert report["solver"]["engine"] == "lowrank"
    assert "rows are more than" in report["solver"]["lowrank"]["reason"]
    assert report["solver"]["lowrank"]["difference"]["same_decision"] > 0.95
    assert report["peak_memory_bytes"] < MEMORY
    assert report["test"]["f1"]["value"] > 0.83
    print(report["timings"], report["peak_memory_bytes"] >> 20, "MB", report["solver"])
    assert len(stored_model(database, model.id).decision.dual_coef) <= 1024


def test_out_of_time_it_keeps_a_model(bench: Bench, database: Database, dataset: str) -> None:
    job_id = bench.enqueue("", dataset_id=dataset, max_seconds=6.0, **REQUEST)
    assert bench.supervisor.run(job_id) == "succeeded"
    (model,) = bench.models(job_id)
    assert model.report["status"] in ("stopped", "solver_limit")
    assert model.report["test"]["f1"]["value"] > 0.75
    print(model.report["timings"], model.report["solver"])
    assert stored_model(database, model.id).decision.support_vectors.shape[1] == FEATURES

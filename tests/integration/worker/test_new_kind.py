"""A kind of jobs is one file and a line in a list: here is one that nobody else knows."""

from __future__ import annotations

import sys

import pytest
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError
from worker_bench import STANDIN, Bench, store_table

from service.db.session import Database
from service.db.tables import JobRow
from service.settings import Settings
from worker.kinds.registry import KINDS


@pytest.fixture
def dataset(settings: Settings, database: Database) -> str:
    return store_table(settings, database, "numbers", {"x": [1.0, 2.0, 3.5]})


def of_kind(bench: Bench, kind: str, dataset: str, **request: str) -> str:
    job_id = bench.enqueue("nothing", dataset_id=dataset, **request)
    with bench.database.transaction() as session:
        session.execute(update(JobRow).where(JobRow.id == job_id).values(kind=kind))
    return job_id


def test_a_new_kind_runs(bench: Bench, dataset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(STANDIN))
    from throw_away_kind import Sum  # type: ignore[import-not-found]

    monkeypatch.setitem(KINDS, "sum", Sum())
    job_id = of_kind(bench, "sum", dataset, column="x")
    assert bench.supervisor.run(job_id) == "succeeded"
    assert bench.row(job_id).result == {"sum": 106.5}
    assert "summing" in [event.data.get("phase") for event in bench.events(job_id)]
    refused = of_kind(bench, "sum", dataset)
    assert bench.supervisor.run(refused) == "failed"
    assert bench.row(refused).error == {"code": "no_column", "message": "a sum is of a column"}
    sys.modules.pop("throw_away_kind")


def test_a_worker_leaves_jobs_of_a_kind_that_it_does_not_know(bench: Bench, dataset: str) -> None:
    job_id = of_kind(bench, "sum", dataset)
    assert bench.supervisor.run(job_id) == "crashed"
    assert bench.row(job_id).status == "queued"
    reason = bench.events(job_id)[-1].data["reason"]
    assert reason["message"] == "this worker knows no jobs of the kind sum: it is older than the service"


def test_what_names_no_kind_is_no_row(bench: Bench, dataset: str) -> None:
    for nonsense in ("", "Sum", "two words", "9", "a" * 33, "sum\n"):
        with pytest.raises(IntegrityError, match="ck_jobs_kind"):
            of_kind(bench, nonsense, dataset)

"""A cancel that meets the end or the beginning of a job: one of them wins, never both and never neither."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from standin.bare_report import bare_report
from worker_bench import JobTable

from service.db.session import Database
from service.db.tables import DEFAULT_PROJECT
from service.identifiers import new_id
from service.jobs.claims import Claim, JobClaims
from service.jobs.errors import JobFinished
from service.jobs.feed import EventFeed
from service.jobs.service import JobService
from service.models.storing import FinishedModel
from service.settings import Settings
from worker.kinds.training import finish_with_model

JOBS = JobClaims(30)
ROUNDS = int(os.environ.get("RACE_ROUNDS", "1000"))


def model_file(folder: Path) -> FinishedModel:
    content = b"model"
    path = folder / "model"
    path.write_bytes(content)
    return FinishedModel(
        new_id("mdl"), "svm", {}, bare_report(), path, len(content), hashlib.sha256(content).hexdigest()
    )


def at_once(*actions: Callable[[], Any]) -> list[Any]:
    """Run actions in threads that start together; returns their results."""
    barrier = threading.Barrier(len(actions))
    results: list[Any] = [None] * len(actions)

    def run(number: int, action: Callable[[], Any]) -> None:
        barrier.wait()
        results[number] = action()

    threads = [threading.Thread(target=run, args=item) for item in enumerate(actions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_cancel_races_with_the_end_and_with_the_claim(settings: Settings, database: Database, tmp_path: Path) -> None:
    service = JobService(database, settings, EventFeed(database))
    table = JobTable(database)
    outcomes: Counter[tuple[str, str]] = Counter()

    def cancel(job_id: str) -> str:
        try:
            return service.cancel(DEFAULT_PROJECT, job_id, keep_best=False).status.value
        except JobFinished:
            return "too late"

    def claim(job_id: str) -> Claim | None:
        with database.transaction() as session:
            return JOBS.claim(session, job_id)

    def finish(held: Claim) -> str:
        """As a supervisor does: it looks for a cancel, and then writes what it came to."""
        with database.transaction() as session:
            signals = JOBS.signals(session, held)
        with database.transaction() as session:
            if signals is None:
                return "lost"
            if signals.cancel:
                return "cancelled" if JOBS.finish_cancelled(session, held) else "lost"
            written = finish_with_model(JOBS, session, held, model_file(tmp_path))
            return written if isinstance(written, str) else "succeeded" if written else "lost"

    for number in range(ROUNDS):
        job_id = table.enqueue("nothing")
        if number % 4 == 0:
            said, held = at_once(lambda job_id=job_id: cancel(job_id), lambda job_id=job_id: claim(job_id))  # type: ignore[misc]
            status = table.row(job_id).status
            assert status == ("cancelled" if held is None else "running")
            assert said == status
            wrote = "nothing" if held is None else finish(held)
        else:
            held = claim(job_id)
            assert held is not None
            said, wrote = at_once(lambda job_id=job_id: cancel(job_id), lambda held=held: finish(held))  # type: ignore[misc]
        row = table.row(job_id)
        assert row.status in ("cancelled", "succeeded")
        assert len(table.models(job_id)) == (row.status == "succeeded")
        assert [event.kind for event in table.events(job_id)].count("finished") == 1
        # An accepted cancel is kept; one that came too late is told so.
        assert row.status == ("succeeded" if said == "too late" else "cancelled")
        outcomes[said, wrote] += 1
    print(dict(outcomes))
    assert {wrote for _, wrote in outcomes} >= {"succeeded", "cancelled"}, "the two never met"

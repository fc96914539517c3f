"""A kind of jobs in one file: its child sums up a column of the data set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from service.jobs.claims import JobClaims
from worker.attempt import Attempt, Ending
from worker.kinds.kind import Made
from worker.protocol import JobSpec, Reporter, Result, UnrunnableJobError


class Sum:
    name = "sum"
    computes = "throw_away_kind:add_up"
    makes = "sum.json"

    def lay_out(self, attempt: Attempt) -> dict[str, Any]:
        if "column" not in attempt.claim.request:
            raise UnrunnableJobError("no_column", "a sum is of a column")
        (attempt.folder / "start").write_text("100")
        return {"column": attempt.claim.request["column"]}

    def conclude(self, attempt: Attempt, made: Made) -> Ending:
        content = (attempt.folder / self.makes).read_bytes()
        assert len(content) == made.bytes
        jobs = JobClaims(attempt.settings.lease_seconds)
        result = json.loads(content)
        return Ending("succeeded", lambda session: jobs.finish_succeeded(session, attempt.claim, result=result))


def add_up(job: JobSpec, reporter: Reporter) -> Result:
    from service.ingest.columnar import read_column
    from worker.dataset_file import dataset_file

    reporter.progress("summing", 0.5)
    with dataset_file(job) as path:
        total = float(read_column(path, job.details["column"]).values.sum())
    total += float(Path("start").read_text())
    Path(job.scratch, Sum.makes).write_text(json.dumps({"sum": total}))
    return Result("", {}, {})

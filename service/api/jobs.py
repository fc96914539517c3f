"""``/train`` and ``/jobs``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from service.api.access import Reader, Writer
from service.api.json_body import JsonRoute
from service.api.parameters import CursorText, IdempotencyKey, Limit, problems
from service.jobs.schemas import Cancel, DryRun, Job, JobEvents, JobStatus, TrainRequest
from service.jobs.service import JobService
from service.schemas import Page

After = Annotated[int, Query(ge=0, lt=2**63, description="`next_after` of the page before.")]
EventLimit = Annotated[int, Query(ge=1, le=100)]
DryRunFlag = Annotated[bool, Query(description="Only check the request.")]


def jobs_router(jobs: JobService) -> APIRouter:
    """Return the routes of trainings."""
    router = APIRouter(tags=["jobs"], route_class=JsonRoute)

    @router.post(
        "/train",
        operation_id="train",
        status_code=202,
        response_model=Job,
        responses={
            200: {"description": "The request would be taken (`dry_run=true`)", "model": DryRun},
            **problems(409, 413, 415, 422),
        },
    )
    def train(
        body: TrainRequest, caller: Writer, response: Response, dry_run: DryRunFlag = False, key: IdempotencyKey = None
    ) -> Job | Response:
        """Train a model to an objective. The answer comes at once; the job is at `Location`."""
        if dry_run:
            return Response(jobs.dry_run(caller.project_id, body).model_dump_json(), media_type="application/json")
        job = jobs.train(caller.project_id, body, key)
        response.headers["Location"] = f"/jobs/{job.id}"
        return job

    @router.get("/jobs", operation_id="listJobs", responses=problems(422))
    def list_(
        caller: Reader, limit: Limit = 20, cursor: CursorText = None, status: JobStatus | None = None
    ) -> Page[Job]:
        """List jobs, newest first."""
        return jobs.list(caller.project_id, status, cursor, limit)

    @router.get("/jobs/{job_id}", operation_id="getJob", responses=problems(404, 422))
    def get(caller: Reader, job_id: str) -> Job:
        """Show a job."""
        return jobs.get(caller.project_id, job_id)

    @router.get("/jobs/{job_id}/events", operation_id="listJobEvents", responses=problems(404, 422))
    def events(caller: Reader, job_id: str, after: After = 0, limit: EventLimit = 100) -> JobEvents:
        """Show what happened to a job, oldest first."""
        return jobs.events(caller.project_id, job_id, after, limit)

    @router.post(
        "/jobs/{job_id}/cancel", operation_id="cancelJob", status_code=202, responses=problems(404, 409, 413, 415, 422)
    )
    def cancel(caller: Writer, job_id: str, body: Cancel | None = None) -> Job:
        """Stop a job. One in the queue ends at once; a running one within seconds, with its best model if so asked."""
        return jobs.cancel(caller.project_id, job_id, keep_best=body is not None and body.keep_best)

    @router.post("/jobs/{job_id}/retry", operation_id="retryJob", status_code=202, responses=problems(404, 409, 422))
    def retry(caller: Writer, response: Response, job_id: str, key: IdempotencyKey = None) -> Job:
        """Run the request of a job that has ended once more, as a new job with `retry_of`."""
        job = jobs.retry(caller.project_id, job_id, key)
        response.headers["Location"] = f"/jobs/{job.id}"
        return job

    return router

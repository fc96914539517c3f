"""``/train`` and ``/jobs``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Annotated

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from service.api.access import Reader, Writer
from service.api.json_body import JsonRoute
from service.api.negotiation import choose_form
from service.api.parameters import CursorText, IdempotencyKey, Limit, problems
from service.jobs.schemas import Cancel, DryRun, Job, JobEvent, JobEvents, JobStatus, Retrain, TrainRequest
from service.jobs.service import Following, JobService
from service.schemas import Page

After = Annotated[int, Query(ge=0, lt=2**63, description="`next_after` of the page before.")]
EventLimit = Annotated[int, Query(ge=1, le=100)]
LastEventId = Annotated[int | None, Header(ge=0, lt=2**63, description="Of an event stream that was cut off.")]
EVENT_STREAM = "text/event-stream"
RECONNECT_MILLISECONDS = 2000
Newest = Annotated[bool, Query(description="The last ones, where there are more than `limit`; oldest first, too.")]
DryRunFlag = Annotated[bool, Query(description="Only check the request.")]


async def event_stream(coming: AsyncIterator[Sequence[JobEvent]]) -> AsyncIterator[str]:
    """Write events in the form of server-sent events; a comment when it is quiet, so that nobody hangs up."""
    yield f"retry: {RECONNECT_MILLISECONDS}\n\n"
    async for events in coming:
        if not events:
            yield ": still here\n\n"
        for event in events:
            yield f"id: {event.id}\nevent: {event.kind}\ndata: {event.model_dump_json()}\n\n"


class EventStreamResponse(StreamingResponse):
    """Takes its place among the followers before it begins to answer, and gives it up however it ends."""

    media_type = EVENT_STREAM

    def __init__(self, following: Following) -> None:
        super().__init__((), headers={"X-Accel-Buffering": "no"})
        self._following = following

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; raises `TooManyFollowers` before it does."""
        with self._following as coming:
            self.body_iterator = event_stream(coming)
            await super().__call__(scope, receive, send)


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
            **problems(409),
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

    @router.get("/jobs", operation_id="listJobs")
    def list_(
        caller: Reader, limit: Limit = 20, cursor: CursorText = None, status: JobStatus | None = None
    ) -> Page[Job]:
        """List jobs, newest first."""
        return jobs.list(caller.project_id, status, cursor, limit)

    @router.get("/jobs/{job_id}", operation_id="getJob", responses=problems(404))
    def get(caller: Reader, job_id: str) -> Job:
        """Show a job."""
        return jobs.get(caller.project_id, job_id)

    @router.get(
        "/jobs/{job_id}/events",
        operation_id="listJobEvents",
        response_model=JobEvents,
        responses={
            200: {
                "description": "A page of events; or, for `Accept: text/event-stream`, events as they come",
                "content": {EVENT_STREAM: {"schema": {"type": "string"}}},
            },
            204: {"description": "To `Accept: text/event-stream` only: the job has ended and nothing more will come"},
            **problems(404, 406),
        },
    )
    def events(
        caller: Reader,
        job_id: str,
        after: After = 0,
        limit: EventLimit = 100,
        newest: Newest = False,
        last_event_id: LastEventId = None,
        accept: Annotated[str, Header(include_in_schema=False)] = "*/*",
    ) -> JobEvents | Response:
        """Show what happened to a job, oldest first.

        With `Accept: text/event-stream` the same events come live (`id`, `event`: the kind, `data`: the event as JSON)
        until the one of kind `finished`. Who was cut off, as everybody is after 15 minutes, sends the last id as
        `Last-Event-ID` and misses nothing.
        """
        if choose_form(accept, ("application/json", EVENT_STREAM)) == "application/json":
            return jobs.events(caller.project_id, job_id, after, limit, newest=newest)
        following = jobs.follow(caller.project_id, job_id, after if last_event_id is None else last_event_id)
        return Response(status_code=204) if following is None else EventStreamResponse(following)

    @router.post("/jobs/{job_id}/cancel", operation_id="cancelJob", status_code=202, responses=problems(404, 409))
    def cancel(caller: Writer, job_id: str, body: Cancel | None = None) -> Job:
        """Stop a job. One in the queue ends at once; a running one within seconds, with its best model if so asked."""
        return jobs.cancel(caller.project_id, job_id, keep_best=body is not None and body.keep_best)

    @router.post(
        "/aliases/{name}/retrain",
        operation_id="retrainAlias",
        status_code=202,
        tags=["aliases"],
        responses=problems(404, 409),
    )
    def retrain(
        caller: Writer, response: Response, name: str, body: Retrain | None = None, key: IdempotencyKey = None
    ) -> Job:
        """Train once more what an alias points at, with the feedback that was sent for it since.

        The request is that of the model's own training, with the `operating_point` that was applied to the model since.
        The alias moves to the new model when the job has succeeded, if `alias_policy` lets it.
        """
        job = jobs.retrain(caller.project_id, name, key, body or Retrain())
        response.headers["Location"] = f"/jobs/{job.id}"
        return job

    @router.post("/jobs/{job_id}/retry", operation_id="retryJob", status_code=202, responses=problems(404, 409))
    def retry(caller: Writer, response: Response, job_id: str, key: IdempotencyKey = None) -> Job:
        """Run the request of a job that has ended once more, as a new job with `retry_of`."""
        job = jobs.retry(caller.project_id, job_id, key)
        response.headers["Location"] = f"/jobs/{job.id}"
        return job

    return router

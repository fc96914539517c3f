"""``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

from typing import Literal

from anyio import to_thread
from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as METRICS_TYPE
from pydantic import BaseModel, Field

from service.api.access import Watcher
from service.metrics import Metrics
from service.readiness import Readiness


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class CheckAnswer(BaseModel):
    """One part."""

    ok: bool
    detail: str = Field(description="Empty if all is well.")


class Ready(BaseModel):
    """Whether requests can be served, and each part that was looked at."""

    ready: bool
    workers: int | None = Field(
        description="Workers that listen for jobs, busy ones among them; null if the broker did not say."
    )
    checks: dict[str, CheckAnswer]


def health_router(readiness: Readiness, metrics: Metrics) -> APIRouter:
    """Return the routes for those who watch the service."""
    router = APIRouter(tags=["health"])

    @router.get("/healthz", operation_id="getHealth")
    async def healthz() -> Health:
        """Answer. Touches nothing: a failure means that this process should be restarted."""
        return Health()

    @router.get(
        "/readyz",
        operation_id="getReadiness",
        responses={503: {"model": Ready, "description": "A part that requests need is away"}},
    )
    async def readyz(response: Response) -> Ready:
        """Look at Postgres, its migrations, the broker, the workers, and whether jobs wait although a worker is idle.

        A missing worker or a queue that stands alone does not unready: requests are served all the same, and jobs wait.
        Who needs them to begin at once looks at `workers`.
        """
        found = await readiness.report()
        response.status_code = 200 if found.ready else 503
        answers = {name: CheckAnswer(ok=check.ok, detail=check.detail) for name, check in found.checks.items()}
        return Ready(ready=found.ready, workers=found.workers, checks=answers)

    @router.get("/metrics", operation_id="getMetrics", response_class=PlainTextResponse)
    async def show_metrics(_: Watcher) -> Response:
        """Give the figures of this process, and of the jobs in Postgres, in the text format of Prometheus."""
        return Response(await to_thread.run_sync(metrics.render), media_type=METRICS_TYPE)

    return router

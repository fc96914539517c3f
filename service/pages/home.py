"""The first page: what there is, what runs, and what wants somebody's attention."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from service.api.access import Reader, Writer
from service.api.json_body import until_gone
from service.audits.schemas import Audit
from service.datasets.example import ExampleUpload
from service.jobs.schemas import Job, JobStatus
from service.models.schemas import ModelSummary
from service.pages.forms import BUTTON
from service.pages.room import Room
from service.pages.services import Services

FEW = 5
DRIFT_DAYS = 7
MANY, MANY_MODELS, MANY_AUDITS = 50, 20, 20
"""Jobs, models and audits that are looked through for those that are to be shown; of a model its report is read."""


@dataclass(frozen=True)
class NamedModel:
    """An alias with the model that it points at."""

    alias: str
    model_id: str
    model: ModelSummary | None
    """None where it is not among the newest."""


def add_home(router: APIRouter, room: Room, services: Services) -> None:
    """Add the first page, and the button of an installation that is empty."""

    @router.get("/ui")
    def home(request: Request, caller: Reader) -> Response:
        project = caller.project_id
        datasets = services.datasets.list(project, None, FEW).items
        models = services.models.list(project, None, MANY_MODELS).items
        jobs = services.jobs.list(project, None, None, MANY).items
        return room.page(
            request.scope,
            "home.html",
            title="Home",
            datasets=datasets,
            named=_named(services, project, models),
            models=models[:FEW],
            running=[job for job in jobs if job.finished_at is None],
            failed=_newest_failed(jobs),
            audits=_open_audits(services, project),
            drifting=services.aliases.drifting(project, DRIFT_DAYS)[:FEW],
            days=DRIFT_DAYS,
            is_empty=not (datasets or models or jobs),
        )

    @router.post("/ui/example", dependencies=[BUTTON])
    async def load_example(request: Request, caller: Writer) -> Response:
        dataset = await services.datasets.create(caller.project_id, ExampleUpload(), None, until_gone(request))
        return room.redirect(request.scope, f"/ui/datasets/{dataset.id}")


def _named(services: Services, project: str, models: list[ModelSummary]) -> list[NamedModel]:
    known = {model.id: model for model in models}
    aliases = services.aliases.list(project, None, MANY).items
    return [NamedModel(alias.name, alias.model_id, known.get(alias.model_id)) for alias in aliases]


def _newest_failed(jobs: list[Job]) -> list[Job]:
    """Failed jobs that nobody has run again with success: those after the last one that succeeded."""
    failed: list[Job] = []
    for job in jobs:
        if job.status is JobStatus.SUCCEEDED:
            break
        if job.status is JobStatus.FAILED:
            failed.append(job)
    return failed[:FEW]


def _open_audits(services: Services, project: str) -> list[Audit]:
    """Audits that wait for answers: a sealed one takes none."""
    newest = services.audits.list(project, None, MANY_AUDITS).items
    return [each for each in newest if each.status in ("preparing", "open") and each.sealed_at is None][:FEW]

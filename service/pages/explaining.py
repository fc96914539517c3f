"""What explains a model: beside its weights, which its own page shows, the labelled rows that contradict it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service.api.access import Reader
from service.errors import Problem
from service.labelling.errors import NoQueue
from service.pages.room import Room
from service.pages.services import Services

MOST_MISTAKES = 10


def add_explaining(router: APIRouter, room: Room, services: Services) -> None:
    """Add the page of labelled rows that the model would get wrong if it had not learned them."""

    @router.get("/ui/models/{name}/mistakes")
    def show(request: Request, caller: Reader, name: str) -> Response:
        model = services.models.get(caller.project_id, name)
        queue = None
        problem: Problem | None = None
        try:
            queue = services.queue.next(caller.project_id, model.id, "mistakes", MOST_MISTAKES, None)
        except NoQueue as error:
            problem = error
        return room.page(
            request.scope,
            "mistakes.html",
            title=f"Mistakes of {name if name in model.aliases else 'a model'}",
            model=model,
            name=name,
            queue=queue,
            problem=problem,
            in_use=model.operating_point or model.report,
        )

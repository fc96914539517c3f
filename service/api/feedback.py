"""``/feedback``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from service.api.access import Reader, Writer
from service.api.json_body import JsonRoute
from service.api.parameters import CursorText, IdempotencyKey, Limit, problems
from service.feedback.schemas import Feedback, FeedbackRequest
from service.feedback.service import FeedbackService
from service.schemas import AliasName, Page

OfAlias = Annotated[AliasName | None, Query(description="Only what was sent for this alias.")]


def feedback_router(feedback: FeedbackService) -> APIRouter:
    """Return the routes of feedback."""
    router = APIRouter(prefix="/feedback", tags=["feedback"], route_class=JsonRoute)

    @router.post("", operation_id="addFeedback", status_code=201, responses=problems(403, 409))
    def add(caller: Writer, body: FeedbackRequest, key: IdempotencyKey = None) -> Feedback:
        """Say what would have been right of rows, texts or mails, for the next training of an alias.

        Rows of a data set can be named by their keys in place of their values.

        Every later training with that `alias` uses them, until they are deleted: `POST /aliases/{name}/retrain`, or
        `POST /train`. A row that the data set has gets the label sent last; others are added, for training only.
        """
        return feedback.add(caller.project_id, body, key)

    @router.get("", operation_id="listFeedback")
    def list_(caller: Reader, alias: OfAlias = None, limit: Limit = 20, cursor: CursorText = None) -> Page[Feedback]:
        """List feedback, newest first."""
        return feedback.list(caller.project_id, alias, cursor, limit)

    @router.get("/{feedback_id}", operation_id="getFeedback", responses=problems(404))
    def get(caller: Reader, feedback_id: str) -> Feedback:
        """Show what was sent at once, without the rows themselves."""
        return feedback.get(caller.project_id, feedback_id)

    @router.delete("/{feedback_id}", operation_id="deleteFeedback", status_code=204, responses=problems(404, 409))
    def delete(caller: Writer, feedback_id: str) -> None:
        """Delete feedback that no job that waits or runs uses: later trainings do without it."""
        feedback.delete(caller.project_id, feedback_id)

    return router

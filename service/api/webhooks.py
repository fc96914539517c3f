"""``/webhooks``."""

from __future__ import annotations

from fastapi import APIRouter, Response

from service.api.access import Reader, Writer
from service.api.json_body import JsonRoute
from service.api.parameters import CursorText, IdempotencyKey, Limit, problems
from service.schemas import Page
from service.webhooks.schemas import CreateWebhook, NewWebhook, Webhook, WebhookDelivery
from service.webhooks.service import WebhookService


def webhooks_router(webhooks: WebhookService) -> APIRouter:
    """Return the routes of webhooks."""
    router = APIRouter(prefix="/webhooks", tags=["webhooks"], route_class=JsonRoute)

    @router.post("", operation_id="createWebhook", status_code=201, responses=problems(409))
    def create(caller: Writer, body: CreateWebhook, key: IdempotencyKey = None) -> NewWebhook:
        """Have an address told whenever a job of the project ends.

        It gets `{"type": "job.succeeded", "data": {"id", "status"}}` as a POST, signed after the Standard Webhooks
        specification with the secret of this answer, which only the same `Idempotency-Key` shows again. It should
        answer 2xx within 5 seconds; else the message comes again, eight times in about 30 hours, with the same
        `webhook-id`. A message may come twice.
        """
        return webhooks.create(caller.project_id, body, key)

    @router.get("", operation_id="listWebhooks")
    def list_(caller: Reader, limit: Limit = 20, cursor: CursorText = None) -> Page[Webhook]:
        """List the webhooks of the project, newest first."""
        return webhooks.list(caller.project_id, cursor, limit)

    @router.delete("/{webhook_id}", operation_id="deleteWebhook", status_code=204, responses=problems(404))
    def delete(caller: Writer, webhook_id: str) -> Response:
        """Delete a webhook, with all its messages."""
        webhooks.delete(caller.project_id, webhook_id)
        return Response(status_code=204)

    @router.get("/{webhook_id}/deliveries", operation_id="listWebhookDeliveries", responses=problems(404))
    def deliveries(
        caller: Reader, webhook_id: str, limit: Limit = 20, cursor: CursorText = None
    ) -> Page[WebhookDelivery]:
        """List the messages to a webhook, newest first, and what became of them."""
        return webhooks.deliveries(caller.project_id, webhook_id, cursor, limit)

    return router

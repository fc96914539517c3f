"""What can be done with webhooks. Messages are sent elsewhere, by ``sender.py``."""

from __future__ import annotations

import base64
import secrets

from service.db import idempotency
from service.db.session import Database
from service.db.tables import WebhookRow
from service.errors import InvalidRequest
from service.identifiers import new_id
from service.paging import as_page
from service.schemas import Page
from service.settings import Settings
from service.webhooks.addresses import parse_destination
from service.webhooks.errors import AddressRefusedError, TooManyWebhooks, WebhookNotFound
from service.webhooks.repository import WebhookRepository
from service.webhooks.schemas import CreateWebhook, NewWebhook, Webhook, WebhookDelivery

OPERATION = "createWebhook"
SECRET_BYTES = 32
SECRET_PREFIX = "whsec_"  # noqa: S105 (not a secret but what one begins with)
MOST_WEBHOOKS = 20
"""Of a project."""


class WebhookService:
    """Keeps the webhooks of projects."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._allow_private = settings.webhook_private

    def create(self, project_id: str, body: CreateWebhook, idempotency_key: str | None) -> NewWebhook:
        """Make a webhook with a secret of its own.

        Raises
        ------
        InvalidRequest
        TooManyWebhooks
        IdempotencyConflict
            If the key came before with another body, or the webhook that it made was deleted.
        """
        try:
            parse_destination(body.url, allow_private=self._allow_private)
        except AddressRefusedError as error:
            raise InvalidRequest.of("body.url", str(error)) from None
        webhook_id = new_id("wh")
        with self._database.transaction() as session:
            webhooks = WebhookRepository(session, project_id)
            made = idempotency.claim(session, project_id, OPERATION, idempotency_key, body.model_dump(), webhook_id)
            if made is not None:
                return _with_secret(idempotency.existing(webhooks.get(made), "webhook"))
            if webhooks.lock_and_count() >= MOST_WEBHOOKS:
                raise TooManyWebhooks(f"a project may have {MOST_WEBHOOKS} webhooks; delete one first")
            secret = secrets.token_bytes(SECRET_BYTES)
            row = WebhookRow(id=webhook_id, project_id=project_id, url=body.url, secret=secret)
            return _with_secret(webhooks.add(row))

    def list(self, project_id: str, cursor: str | None, limit: int) -> Page[Webhook]:
        """Return a page of webhooks, newest first."""
        with self._database.transaction() as session:
            rows = WebhookRepository(session, project_id).list(cursor, limit)
        return as_page(rows, limit, lambda row: Webhook.model_validate(row, extra="ignore"))

    def delete(self, project_id: str, webhook_id: str) -> None:
        """Delete a webhook and what was still to be sent to it; raises `WebhookNotFound`."""
        with self._database.transaction() as session:
            if not WebhookRepository(session, project_id).delete(webhook_id):
                raise WebhookNotFound

    def deliveries(self, project_id: str, webhook_id: str, cursor: str | None, limit: int) -> Page[WebhookDelivery]:
        """Return a page of the messages to a webhook, newest first; raises `WebhookNotFound`."""
        with self._database.transaction() as session:
            webhooks = WebhookRepository(session, project_id)
            webhooks.require(webhook_id)
            rows = webhooks.deliveries(webhook_id, cursor, limit)
        return as_page(rows, limit, lambda row: WebhookDelivery.model_validate(row, extra="ignore"))


def _with_secret(row: WebhookRow) -> NewWebhook:
    shown = SECRET_PREFIX + base64.b64encode(row.secret).decode()
    return NewWebhook(id=row.id, url=row.url, created_at=row.created_at, secret=shown)

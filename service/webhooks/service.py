"""What can be done with webhooks. Messages are sent elsewhere, by ``sender.py``."""

from __future__ import annotations

import base64
import secrets

from service.db import idempotency
from service.db.session import Database
from service.db.tables import WebhookRow
from service.errors import IdempotencyConflict, InvalidRequest
from service.identifiers import is_id, new_id
from service.paging import Cursor, next_cursor
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
            if idempotency_key is not None:
                digest = idempotency.digest(body.model_dump())
                made = idempotency.claim(session, project_id, OPERATION, idempotency_key, digest, webhook_id)
                if made != webhook_id:
                    return _with_secret(webhooks.get(made))
            if webhooks.lock_and_count() >= MOST_WEBHOOKS:
                raise TooManyWebhooks(f"a project may have {MOST_WEBHOOKS} webhooks; delete one first")
            return _with_secret(webhooks.add(webhook_id, body.url, secrets.token_bytes(SECRET_BYTES)))

    def list(self, project_id: str, cursor: str | None, limit: int) -> Page[Webhook]:
        """Return a page of webhooks, newest first."""
        position = Cursor.decode(cursor) if cursor is not None else None
        with self._database.transaction() as session:
            rows = WebhookRepository(session, project_id).list(position, limit)
        items = [Webhook(id=row.id, url=row.url, created_at=row.created_at) for row in rows[:limit]]
        return Page(items=items, next_cursor=next_cursor(rows, limit, key=lambda row: row))

    def delete(self, project_id: str, webhook_id: str) -> None:
        """Delete a webhook and what was still to be sent to it; raises `WebhookNotFound`."""
        with self._database.transaction() as session:
            if not is_id(webhook_id, "wh") or not WebhookRepository(session, project_id).delete(webhook_id):
                raise WebhookNotFound("no webhook has this id")

    def deliveries(self, project_id: str, webhook_id: str, cursor: str | None, limit: int) -> Page[WebhookDelivery]:
        """Return a page of the messages to a webhook, newest first; raises `WebhookNotFound`."""
        position = Cursor.decode(cursor) if cursor is not None else None
        with self._database.transaction() as session:
            webhooks = WebhookRepository(session, project_id)
            if not is_id(webhook_id, "wh") or not webhooks.exists(webhook_id):
                raise WebhookNotFound("no webhook has this id")
            rows = webhooks.deliveries(webhook_id, position, limit)
        items = [
            WebhookDelivery(**{name: getattr(row, name) for name in WebhookDelivery.model_fields})
            for row in rows[:limit]
        ]
        return Page(items=items, next_cursor=next_cursor(rows, limit, key=lambda row: row))


def _with_secret(row: WebhookRow | None) -> NewWebhook:
    if row is None:
        raise IdempotencyConflict("the webhook that this Idempotency-Key made was deleted; use a new key")
    shown = SECRET_PREFIX + base64.b64encode(row.secret).decode()
    return NewWebhook(id=row.id, url=row.url, created_at=row.created_at, secret=shown)

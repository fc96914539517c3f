"""All SQL about webhooks that the API runs. The sender's half is in ``outbox.py``."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select

from service.db.repository import ResourceRepository
from service.db.tables import ProjectRow, WebhookDeliveryRow, WebhookRow
from service.paging import page_of
from service.webhooks.errors import WebhookNotFound


class WebhookRepository(ResourceRepository[WebhookRow]):
    """Webhooks of one project, in the transaction of `session`. With a webhook go the messages to it."""

    table = WebhookRow
    prefix = "wh"
    not_found = WebhookNotFound

    def lock_and_count(self) -> int:
        """Count the webhooks; nobody else who does can add one before this transaction ends."""
        project = select(ProjectRow.id).where(ProjectRow.id == self._project_id)
        self._session.execute(project.with_for_update(key_share=True))
        statement = select(func.count()).select_from(WebhookRow).where(self._mine())
        return self._session.execute(statement).scalar_one()

    def deliveries(self, webhook_id: str, cursor: str | None, limit: int) -> Sequence[WebhookDeliveryRow]:
        """Return up to ``limit + 1`` messages of a webhook, newest first."""
        statement = (
            select(WebhookDeliveryRow)
            .join(WebhookRow, WebhookRow.id == WebhookDeliveryRow.webhook_id)
            .where(self._mine(webhook_id))
        )
        return self._session.scalars(page_of(statement, WebhookDeliveryRow, cursor, limit)).all()

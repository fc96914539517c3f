"""All SQL about webhooks that the API runs. The sender's half is in ``outbox.py``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from sqlalchemy import CursorResult, delete, func, select
from sqlalchemy.orm import Session

from service.db.tables import ProjectRow, WebhookDeliveryRow, WebhookRow
from service.paging import Cursor, page_of


class WebhookRepository:
    """Webhooks of one project, in the transaction of `session`."""

    def __init__(self, session: Session, project_id: str) -> None:
        self._session = session
        self._project_id = project_id

    def add(self, webhook_id: str, url: str, secret: bytes) -> WebhookRow:
        """Insert a webhook."""
        row = WebhookRow(id=webhook_id, project_id=self._project_id, url=url, secret=secret)
        self._session.add(row)
        self._session.flush()
        self._session.refresh(row)
        return row

    def lock_and_count(self) -> int:
        """Count the webhooks; nobody else who does can add one before this transaction ends."""
        project = select(ProjectRow.id).where(ProjectRow.id == self._project_id)
        self._session.execute(project.with_for_update(key_share=True))
        statement = select(func.count()).select_from(WebhookRow).where(WebhookRow.project_id == self._project_id)
        return self._session.execute(statement).scalar_one()

    def get(self, webhook_id: str) -> WebhookRow | None:
        """Return a webhook."""
        statement = select(WebhookRow).where(WebhookRow.project_id == self._project_id, WebhookRow.id == webhook_id)
        return self._session.scalar(statement)

    def exists(self, webhook_id: str) -> bool:
        """Tell whether there is such a webhook."""
        statement = select(WebhookRow.id).where(WebhookRow.project_id == self._project_id, WebhookRow.id == webhook_id)
        return self._session.scalar(statement) is not None

    def list(self, cursor: Cursor | None, limit: int) -> Sequence[WebhookRow]:
        """Return up to ``limit + 1`` webhooks, newest first."""
        statement = select(WebhookRow).where(WebhookRow.project_id == self._project_id)
        return self._session.scalars(page_of(statement, WebhookRow.created_at, WebhookRow.id, cursor, limit)).all()

    def delete(self, webhook_id: str) -> bool:
        """Delete a webhook with its messages; False if there is none."""
        statement = delete(WebhookRow).where(WebhookRow.project_id == self._project_id, WebhookRow.id == webhook_id)
        return cast("CursorResult[Any]", self._session.execute(statement)).rowcount == 1

    def deliveries(self, webhook_id: str, cursor: Cursor | None, limit: int) -> Sequence[WebhookDeliveryRow]:
        """Return up to ``limit + 1`` messages of a webhook, newest first."""
        statement = (
            select(WebhookDeliveryRow)
            .join(WebhookRow, WebhookRow.id == WebhookDeliveryRow.webhook_id)
            .where(WebhookRow.project_id == self._project_id, WebhookRow.id == webhook_id)
        )
        page = page_of(statement, WebhookDeliveryRow.created_at, WebhookDeliveryRow.id, cursor, limit)
        return self._session.scalars(page).all()

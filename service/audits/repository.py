"""All SQL about audits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row, func, select, update
from sqlalchemy.orm import undefer

from service.audits.errors import AuditNotFound
from service.db.repository import ResourceRepository
from service.db.tables import AuditItemRow, AuditRow, JobRow
from service.paging import page_of

KIND = "audit"


class AuditRepository(ResourceRepository[AuditRow]):
    """Audits of one project, in the transaction of `session`."""

    table = AuditRow
    prefix = "aud"
    not_found = AuditNotFound

    def with_job(self, audit_id: str) -> tuple[AuditRow, JobRow | None]:
        """Return an audit and the job that prepares it, None for one that was deleted; raises `AuditNotFound`."""
        statement = self._with_job().where(self._mine(audit_id))
        found = self._session.execute(statement).one_or_none() if self._may_be(audit_id) else None
        if found is None:
            raise AuditNotFound
        return found[0], found[1]

    def page(self, cursor: str | None, limit: int) -> Sequence[tuple[AuditRow, JobRow | None]]:
        """Return up to ``limit + 1`` audits with their jobs, newest first."""
        rows = self._session.execute(page_of(self._with_job().where(self._mine()), AuditRow, cursor, limit))
        return [(row[0], row[1]) for row in rows]

    def lock(self, audit_id: str) -> AuditRow:
        """Return an audit that nobody else can change before this transaction ends; raises `AuditNotFound`."""
        return self.found(self._find(audit_id, {}))

    def open_items(self, audit_id: str, after: int, limit: int) -> Sequence[AuditItemRow]:
        """Return up to `limit` rows without an answer, behind a position, in the order of the draw."""
        statement = (
            select(AuditItemRow)
            .options(undefer(AuditItemRow.content))
            .where(AuditItemRow.audit_id == audit_id, AuditItemRow.label.is_(None), AuditItemRow.position > after)
        )
        return self._session.scalars(statement.order_by(AuditItemRow.position).limit(limit)).all()

    def labels_of(self, audit_id: str, rows: Sequence[int]) -> dict[int, str | None]:
        """Return what was said of rows of the data set; those that were not drawn are left out."""
        statement = select(AuditItemRow.row, AuditItemRow.label)
        mine = statement.where(AuditItemRow.audit_id == audit_id, AuditItemRow.row.in_(rows))
        return dict(self._session.execute(mine).all())

    def answer(self, audit_id: str, labels: Mapping[int, str]) -> None:
        """Write down what rows of the data set are."""
        for label in set(labels.values()):
            rows = [row for row, given in labels.items() if given == label]
            these = (AuditItemRow.audit_id == audit_id, AuditItemRow.row.in_(rows))
            self._session.execute(update(AuditItemRow).where(*these).values(label=label, answered_at=func.now()))

    def draws(self, audit_id: str) -> Sequence[Row[int, int, str | None]]:
        """Return stratum, row and answer of each draw, in order."""
        statement = select(AuditItemRow.stratum, AuditItemRow.row, AuditItemRow.label)
        mine = statement.where(AuditItemRow.audit_id == audit_id).order_by(AuditItemRow.position)
        return self._session.execute(mine).all()

    def answered(self, audit_id: str) -> Sequence[Row[bytes, str | None]]:
        """Return content and answer of the rows that have one, in the order of the draw."""
        statement = select(AuditItemRow.content, AuditItemRow.label)
        mine = statement.where(AuditItemRow.audit_id == audit_id, AuditItemRow.label.is_not(None))
        return self._session.execute(mine.order_by(AuditItemRow.position)).all()

    def change(self, audit_id: str, **values: Any) -> AuditRow:
        """Change an audit that is locked, and return it as it is then."""
        changed = update(AuditRow).where(self._mine(audit_id)).values(**values).returning(AuditRow)
        row: AuditRow = self._session.scalars(changed, execution_options={"populate_existing": True}).one()
        return row

    def seal(self, audit_id: str, feedback_id: str | None) -> AuditRow:
        """Write down that nothing of an audit changes any more, and return it."""
        return self.change(audit_id, sealed_at=func.now(), feedback_id=feedback_id)

    @staticmethod
    def _with_job() -> Any:
        return select(AuditRow, JobRow).outerjoin(JobRow, JobRow.id == AuditRow.job_id)

"""All SQL about feedback."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import and_, func, or_, select, union_all

from service.db.repository import ResourceRepository
from service.db.tables import AliasRow, FeedbackRow, JobRow, ModelRow
from service.feedback.errors import FeedbackNotFound

MOST_SINCE = 20_000


class FeedbackRepository(ResourceRepository[FeedbackRow]):
    """Feedback of one project, in the transaction of `session`. Rows are without their content.

    The alias of what is added must be locked: `seq` then grows in the order in which it can be seen.
    """

    table = FeedbackRow
    prefix = "fb"
    not_found = FeedbackNotFound

    def keep(self, alias: str) -> None:
        """See to it that nobody adds or deletes feedback for an alias before this transaction ends.

        Who makes a job that uses feedback calls this before looking at it; who deletes some locks the alias before
        looking for such jobs. So one of the two sees the other. The alias may move meanwhile.
        """
        mine = select(AliasRow.name).where(AliasRow.project_id == self._project_id, AliasRow.name == alias)
        self._session.scalar(mine.with_for_update(read=True, key_share=True))

    def count_rows(self, alias: str, until: int | None = None) -> int:
        """Add up the rows that were sent for an alias, up to a `seq` if one is given."""
        total = select(func.coalesce(func.sum(FeedbackRow.rows), 0))
        mine = total.where(FeedbackRow.project_id == self._project_id, FeedbackRow.alias == alias)
        if until is not None:
            mine = mine.where(FeedbackRow.seq <= until)
        return int(self._session.scalar(mine) or 0)

    def labels_of(self, ids: Sequence[str]) -> dict[str, tuple[int, str, str]]:
        """Return `seq`, label and source of feedback of one row each, by its id; oldest first."""
        mine = FeedbackRow.project_id == self._project_id, FeedbackRow.id.in_(ids)
        columns = FeedbackRow.id, FeedbackRow.seq, FeedbackRow.labels, FeedbackRow.source
        found = sorted(self._session.execute(select(*columns).where(*mine)), key=lambda row: row.seq)
        return {row.id: (row.seq, next(iter(row.labels)), row.source) for row in found}

    def last_seq(self, alias: str) -> int | None:
        """Return the `seq` of the newest feedback for an alias, or None if there is none."""
        last = select(func.max(FeedbackRow.seq))
        return self._session.scalar(last.where(FeedbackRow.project_id == self._project_id, FeedbackRow.alias == alias))

    def contents(self, alias: str, until: int) -> Iterator[bytes]:
        """Yield what was sent for an alias up to a `seq`, oldest first, one after the other."""
        mine = (FeedbackRow.project_id == self._project_id, FeedbackRow.alias == alias, FeedbackRow.seq <= until)
        for feedback_id in self._session.scalars(select(FeedbackRow.id).where(*mine).order_by(FeedbackRow.seq)).all():
            content = self._session.scalar(select(FeedbackRow.content).where(*mine, FeedbackRow.id == feedback_id))
            if content is not None:
                yield content

    def of_model(self, model_id: str) -> Iterator[bytes]:
        """Yield what was sent for a model, for the alias of its training, or for one that points at it."""
        trained_for = select(JobRow.request["alias"].astext).join(ModelRow, ModelRow.job_id == JobRow.id)
        names = union_all(
            trained_for.where(ModelRow.project_id == self._project_id, ModelRow.id == model_id),
            select(AliasRow.name).where(AliasRow.project_id == self._project_id, AliasRow.model_id == model_id),
        )
        sent = select(FeedbackRow.content).where(
            FeedbackRow.project_id == self._project_id,
            or_(FeedbackRow.model_id == model_id, FeedbackRow.alias.in_(names)),
        )
        yield from self._session.scalars(sent.order_by(FeedbackRow.seq.desc())).yield_per(20)

    def since_training(self, model_id: str) -> Iterator[bytes]:
        """Yield what was sent for a model, or for the alias of its training after that was asked for; newest first.

        Of the last `MOST_SINCE` rows: who asks wants to know what somebody has just labelled.
        """
        trained = select(JobRow.request["alias"].astext, JobRow.feedback_until).join(
            ModelRow, ModelRow.job_id == JobRow.id
        )
        mine = ModelRow.project_id == self._project_id, ModelRow.id == model_id
        alias, until = self._session.execute(trained.where(*mine)).one_or_none() or (None, None)
        of_alias = and_(FeedbackRow.alias == alias, FeedbackRow.seq > (until or 0))
        sent = select(FeedbackRow.content, FeedbackRow.rows).where(
            FeedbackRow.project_id == self._project_id, or_(FeedbackRow.model_id == model_id, of_alias)
        )
        left = MOST_SINCE
        for content, rows in self._session.execute(sent.order_by(FeedbackRow.seq.desc())).yield_per(20):
            left -= rows
            if left < 0:
                return
            yield content

"""The outbox: messages for webhooks, written in the transaction that ends a job, and what the sender does with them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, LiteralString

from sqlalchemy import and_, exists, func, insert, or_, select, update
from sqlalchemy.orm import Session

from service.db.tables import JobRow, WebhookDeliveryRow, WebhookRow
from service.identifiers import new_id

DUE_MESSAGES: LiteralString = (
    "SELECT EXISTS (SELECT FROM webhook_deliveries WHERE status = 'pending' AND next_attempt_at <= now())"
)
"""Whether there may be messages to take, but for a clock that has gone back; much cheaper than to take none."""
LEASE_SECONDS = 60.0
AGAIN_SECONDS = (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 36_000.0)
"""Pauses after the failures; after one more the message is given up. As the specification proposes: about 30 hours."""
SPREAD = 0.1
"""Part of a pause that is left to chance, so that not all come back at once."""

_AHEAD = WebhookDeliveryRow.next_attempt_at - func.now()
_IS_DUE = and_(
    WebhookDeliveryRow.status == "pending",
    or_(
        WebhookDeliveryRow.next_attempt_at <= func.now(),
        # What waits for longer than one can after so many failures waits for a clock that has gone back.
        WebhookDeliveryRow.attempts == 0,
        *(
            and_(
                WebhookDeliveryRow.attempts == failures,
                timedelta(seconds=max(LEASE_SECONDS, pause * (1 + SPREAD))) < _AHEAD,
            )
            for failures, pause in enumerate((*AGAIN_SECONDS, 0.0), start=1)
        ),
    ),
)


def announce_end(session: Session, job_id: str, job_status: str, project_id: str | None = None) -> None:
    """Write a message for each webhook of the job's project, in the transaction that ends the job.

    Parameters
    ----------
    session : Session
    job_id, job_status : str
    project_id : str, optional
        Of the job, where the caller knows it; workers only know jobs.
    """
    of_job = select(WebhookRow.id).join(JobRow, JobRow.project_id == WebhookRow.project_id).where(JobRow.id == job_id)
    of_project = select(WebhookRow.id).where(WebhookRow.project_id == project_id)
    webhooks = session.scalars(of_job if project_id is None else of_project).all()
    if webhooks:
        messages = [
            {"id": new_id("msg"), "webhook_id": webhook_id, "job_id": job_id, "job_status": job_status}
            for webhook_id in webhooks
        ]
        session.execute(insert(WebhookDeliveryRow), messages)


@dataclass(frozen=True)
class Message:
    """A message that this sender sends now, for the `attempt`-th time."""

    id: str
    webhook_id: str
    job_id: str
    job_status: str
    attempt: int
    url: str
    secret: bytes
    project_id: str


class Outbox:
    """The messages that are to be sent, in the transaction of `session`; for any number of senders.

    Parameters
    ----------
    session : Session
    lease_seconds : float
        A sender that has taken a message and said nothing for so long is lost, and the message is sent again.
    """

    def __init__(self, session: Session, lease_seconds: float) -> None:
        self._session = session
        self._lease = timedelta(seconds=lease_seconds)

    def has_due(self) -> bool:
        """Tell whether there may be something to take."""
        return bool(self._session.scalar(select(exists().where(_IS_DUE))))

    def take(
        self, busy: Collection[str], limit: int, *, crowded: Collection[str] = (), most_of_project: int | None = None
    ) -> list[Message]:
        """Take messages that are due: the oldest one of each webhook, the webhooks that have waited longest first.

        Parameters
        ----------
        busy : collection of str
            Webhooks that are left out.
        limit : int
            Messages at most.
        crowded : collection of str, optional
            Projects that are left out.
        most_of_project : int, optional
            Messages of one project at most, so that those of others do not wait behind addresses that never answer.
        """
        delivery = WebhookDeliveryRow
        place = func.row_number().over(
            partition_by=delivery.webhook_id, order_by=(delivery.next_attempt_at, delivery.id)
        )
        first = (
            select(delivery.id, delivery.next_attempt_at, WebhookRow.project_id, place.label("place"))
            .join(WebhookRow, WebhookRow.id == delivery.webhook_id)
            .where(
                _IS_DUE,
                delivery.webhook_id.not_in(busy),
                WebhookRow.project_id.not_in(crowded),
            )
            .subquery()
        )
        share = func.row_number().over(partition_by=first.c.project_id, order_by=(first.c.next_attempt_at, first.c.id))
        due = select(first.c.id, share.label("share")).where(first.c.place == 1).subquery()
        chosen = select(due.c.id).where(due.c.share <= (limit if most_of_project is None else most_of_project))
        locked = (
            select(delivery.id)
            .where(delivery.id.in_(chosen), _IS_DUE)
            .order_by(delivery.next_attempt_at, delivery.id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        taken = (
            update(delivery)
            .where(delivery.id.in_(locked), WebhookRow.id == delivery.webhook_id)
            .values(attempts=delivery.attempts + 1, next_attempt_at=func.now() + self._lease)
            .returning(
                delivery.id,
                delivery.webhook_id,
                delivery.job_id,
                delivery.job_status,
                delivery.attempts,
                WebhookRow.url,
                WebhookRow.secret,
                WebhookRow.project_id,
            )
            .execution_options(synchronize_session=False)
        )
        rows: Sequence[Any] = self._session.execute(taken).all()
        return [Message(*row) for row in rows]

    def delivered(self, message: Message) -> None:
        """Note that a message has arrived."""
        self._end(message, status="delivered", delivered_at=func.now(), last_error=None)

    def failed(self, message: Message, error: str, again_in_seconds: float | None) -> None:
        """Note that a message has not arrived, and when it is sent again (None: never)."""
        if again_in_seconds is None:
            self._end(message, status="dead", last_error=error)
            return
        again = func.now() + timedelta(seconds=again_in_seconds)
        self._session.execute(self._mine(message).values(next_attempt_at=again, last_error=error))

    def _end(self, message: Message, **values: Any) -> None:
        self._session.execute(self._mine(message).values(next_attempt_at=None, **values))

    @staticmethod
    def _mine(message: Message) -> Any:
        """Return the UPDATE that changes nothing if another sender has taken the message meanwhile."""
        return update(WebhookDeliveryRow).where(
            WebhookDeliveryRow.id == message.id,
            WebhookDeliveryRow.status == "pending",
            WebhookDeliveryRow.attempts == message.attempt,
        )

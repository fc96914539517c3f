"""Parts of a job as its own worker deals with them; the rules are in ``part_claims.py``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Session
from sqlalchemy.sql.elements import ColumnElement

from service.db.tables import JobPartRow
from service.identifiers import new_id
from service.jobs.claims import Claim
from service.jobs.doorbell import CHANNEL
from service.jobs.part_claims import held, is_free, lease_end, runs_in
from service.jobs.workers import Worker


@dataclass(frozen=True)
class OwnClaim:
    """A part that the job's own worker computes."""

    id: str
    number: int
    attempt: int


@dataclass(frozen=True)
class StageState:
    """What has become of the parts of a stage.

    Attributes
    ----------
    parts, unfinished : int
        Parts, and those of them that wait or run.
    elsewhere : dict of int to bytes
        Results of other workers, by number of the part.
    """

    parts: int
    unfinished: int
    elsewhere: dict[int, bytes] = field(repr=False)


@dataclass(frozen=True)
class PartSharing:
    """What the worker of a job does with its parts."""

    lease_seconds: float

    def share(
        self,
        session: Session,
        claim: Claim,
        worker: Worker,
        stage: str,
        count: int,
        cache_bytes: int,
        done: Mapping[int, bytes],
    ) -> bool:
        """Insert the parts of a stage, some of them done, and wake the dispatcher.

        Returns False if the job is not held any more. The call may be repeated if its answer was lost.
        """
        if not session.scalar(select(runs_in(claim.job_id, claim.attempt))):
            return False
        common = {
            "job_id": claim.job_id,
            "job_attempt": claim.attempt,
            "stage": stage,
            "owner_id": worker.id,
            "numerics": worker.numerics,
            "cache_bytes": cache_bytes,
        }
        rows = [
            {
                "id": new_id("part"),
                "number": number,
                "status": "done" if number in done else "waiting",
                "worker_id": worker.id if number in done else None,
                "result": done.get(number),
                **common,
            }
            for number in range(count)
        ]
        session.execute(upsert(JobPartRow).values(rows).on_conflict_do_nothing())
        session.execute(text(f"NOTIFY {CHANNEL}"))
        return True

    def claim(self, session: Session, claim: Claim, worker: Worker, stage: str, most: int) -> list[OwnClaim]:
        """Take up to `most` parts of a stage that nobody computes."""
        free = (
            select(JobPartRow.id)
            .where(*self._of(claim, stage), is_free())
            .order_by(JobPartRow.number)
            .limit(most)
            .with_for_update(skip_locked=True)
        )
        rows = session.execute(
            update(JobPartRow)
            .where(JobPartRow.id.in_(free))
            .values(
                status="running",
                attempt=JobPartRow.attempt + 1,
                worker_id=worker.id,
                lease_until=lease_end(self.lease_seconds),
            )
            .returning(JobPartRow.id, JobPartRow.number, JobPartRow.attempt)
            .execution_options(synchronize_session=False)
        )
        return sorted((OwnClaim(*row) for row in rows), key=lambda part: part.number)

    def renew(self, session: Session, parts: Sequence[OwnClaim]) -> None:
        """Hold parts that the job's own worker computes for another lease."""
        for part in parts:
            session.execute(held(part.id, part.attempt).values(lease_until=lease_end(self.lease_seconds)))

    def finish(self, session: Session, parts: Sequence[OwnClaim], results: Mapping[int, bytes]) -> None:
        """Store what the job's own worker has computed: whoever helps with a later stage asks for it."""
        for part in parts:
            done = {"status": "done", "lease_until": None, "result": results[part.number]}
            session.execute(held(part.id, part.attempt).values(**done))

    def state(self, session: Session, claim: Claim, stage: str, worker: Worker, known: Sequence[int]) -> StageState:
        """Return what is left of a stage, and the results of others besides those that are known."""
        mine = self._of(claim, stage)
        done = func.count().filter(JobPartRow.status == "done")
        count, finished = session.execute(select(func.count(), done).where(*mine)).one()
        rows = session.execute(
            select(JobPartRow.number, JobPartRow.result).where(
                *mine,
                JobPartRow.status == "done",
                JobPartRow.worker_id != worker.id,
                JobPartRow.result.is_not(None),
                JobPartRow.number.not_in(list(known)),
            )
        )
        return StageState(count, count - finished, {row.number: row.result for row in rows})

    def withdraw(self, session: Session, claim: Claim) -> None:
        """Delete all parts of an attempt: nobody needs to compute any of them any more."""
        session.execute(
            delete(JobPartRow).where(JobPartRow.job_id == claim.job_id, JobPartRow.job_attempt == claim.attempt)
        )

    @staticmethod
    def _of(claim: Claim, stage: str) -> tuple[ColumnElement[bool], ...]:
        return (
            JobPartRow.job_id == claim.job_id,
            JobPartRow.job_attempt == claim.attempt,
            JobPartRow.stage == stage,
        )

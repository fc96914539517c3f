"""What becomes of the row of a job, or of a part of one, while a child works on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sqlalchemy.orm import Session

from service.jobs.claims import Event, Failure, Signals


class Transitions(Protocol):
    """`service.jobs.claims.JobClaims` and `service.jobs.part_claims.PartClaims`, for claims of their own kind."""

    @property
    def lease_seconds(self) -> float:
        """How long a claim or a heartbeat holds the row."""

    def heartbeat(self, session: Session, claim: Any) -> Signals | None:
        """Renew the lease; None if it is lost."""

    def signals(self, session: Session, claim: Any) -> Signals | None:
        """Read what others want; None if the lease is lost."""

    def record_progress(
        self, session: Session, claim: Any, phase: str, progress: float, events: Sequence[Event] = ()
    ) -> Signals | None:
        """Write how far the work is; answers as `heartbeat` does."""

    def finish_failed(self, session: Session, claim: Any, error: Failure) -> bool:
        """End the work for a reason that another attempt would not change."""

    def finish_cancelled(self, session: Session, claim: Any) -> bool:
        """End the work because that was asked for."""

    def attempt_crashed(self, session: Session, claim: Any, error: Failure) -> bool:
        """Record that this attempt died."""

    def postpone(self, session: Session, claim: Any, error: Failure) -> bool:
        """Hand the work back because a disk is full, to be tried again in a while."""

    def release(self, session: Session, claim: Any, reason: str) -> bool:
        """Hand the work back."""

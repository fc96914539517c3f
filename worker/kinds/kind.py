"""What a kind of jobs is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from worker.attempt import Attempt, Ending


@dataclass(frozen=True)
class Made:
    """What a child has made: the file that its kind names, as the child says and nobody has checked yet."""

    bytes: int
    sha256: str
    stopped_by: str
    """``cancel`` or ``time_limit`` if the child was asked to keep its best and come to an end, else empty."""
    child_start_seconds: float
    """How long the job waited for its child."""


class JobKind(Protocol):
    """A kind of jobs: what its child is handed, what that computes, and how a job ends whose child has succeeded.

    `lay_out` and `conclude` run in the supervisor, which computes nothing; the child has no address of the database.
    """

    name: str
    """As the row of a job says it (`service.db.tables.JobRow.kind`)."""
    computes: str
    """``module:function``, which the child calls with a `worker.protocol.JobSpec` and a `worker.protocol.Reporter`. It
    returns a `worker.protocol.Result`, which the child writes to ``RESULT_FILE``, or None."""
    makes: str
    """The file in the job's folder that this function writes."""

    def lay_out(self, attempt: Attempt) -> dict[str, Any]:
        """Put what the child needs into the folder of the job; return what else it is told (`JobSpec.details`).

        Raises
        ------
        worker.protocol.UnrunnableJobError, service.errors.Problem
            The job cannot be run: it fails.
        """

    def conclude(self, attempt: Attempt, made: Made) -> Ending:
        """Return how the job ends."""

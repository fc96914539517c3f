"""All kinds of jobs that a worker runs."""

from __future__ import annotations

from typing import Final

from worker.kinds.audit import AuditKind
from worker.kinds.batch import BatchKind
from worker.kinds.kind import JobKind
from worker.kinds.part import PartKind
from worker.kinds.training import TrainingKind

_ALL: Final[tuple[JobKind, ...]] = (
    TrainingKind(),
    BatchKind(),
    AuditKind(),
    PartKind(),
)
KINDS: Final[dict[str, JobKind]] = {kind.name: kind for kind in _ALL}

"""All kinds of jobs that a worker runs."""

from __future__ import annotations

from typing import Final

from worker.kinds.batch import Batch
from worker.kinds.kind import JobKind
from worker.kinds.part import Part
from worker.kinds.training import Training

_ALL: Final[tuple[JobKind, ...]] = (
    Training(),
    Batch(),
    Part(),
)
KINDS: Final[dict[str, JobKind]] = {kind.name: kind for kind in _ALL}

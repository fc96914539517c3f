"""A part of a training that another worker runs."""

from __future__ import annotations

import hashlib
from typing import Any, cast

from service.jobs.part_claims import PartClaim, PartClaims
from worker.attempt import Attempt, Ending
from worker.kinds.kind import Made
from worker.kinds.training import lay_out_training
from worker.protocol import PART_FILE, part_file


class PartKind:
    """What parts are: `solver.parts`."""

    name = "part"
    computes = "worker.fit:run_part"
    makes = PART_FILE

    def lay_out(self, attempt: Attempt) -> dict[str, Any]:
        """Put what others have computed before beside what a training needs; tell which part is wanted.

        Returns
        -------
        dict
            ``stage``, ``number``, ``cache_bytes``, and under ``known`` how many parts of the stages before lie in the
            folder.
        """
        lay_out_training(attempt)
        claim = cast("PartClaim", attempt.claim)
        for stage, results in claim.known.items():
            for number, result in enumerate(results):
                (attempt.folder / part_file(stage, number)).write_bytes(result)
        known = {stage: len(results) for stage, results in claim.known.items()}
        return {"stage": claim.stage, "number": claim.number, "cache_bytes": claim.cache_bytes, "known": known}

    def conclude(self, attempt: Attempt, made: Made) -> Ending:
        """Store the result for the worker that runs the job."""
        claim = cast("PartClaim", attempt.claim)
        result = (attempt.folder / PART_FILE).read_bytes()
        if len(result) != made.bytes or hashlib.sha256(result).hexdigest() != made.sha256:
            return attempt.crashed("internal_error", "the result is not what the child wrote")
        parts = PartClaims(attempt.settings.lease_seconds)
        return Ending("succeeded", lambda session: parts.finish_part(session, claim, result))

"""An audit: the model goes to the child as a file, and the rows that it draws into the database."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, cast

import orjson
from sqlalchemy import CursorResult, insert, update
from sqlalchemy.orm import Session

from service.db.tables import AuditItemRow, AuditRow
from service.feedback.repository import FeedbackRepository
from service.jobs.claims import Claim, JobClaims
from worker.attempt import Attempt, Ending
from worker.kinds.batch import fetch
from worker.kinds.kind import Made
from worker.protocol import AUDIT_FILE, FEEDBACK_FILE, MODEL_FILE, RESULT_FILE

AT_ONCE = 500
"""Rows of one statement."""


class AuditKind:
    """A model and a data set → rows for somebody to look at (`service.audits`)."""

    name = "audit"
    computes = "worker.audit:run"
    makes = AUDIT_FILE

    def lay_out(self, attempt: Attempt) -> dict[str, Any]:
        """Write the model to a file, and the feedback by which rows are known to it or to its successors to another.

        Raises
        ------
        ModelNotFound, DamagedModel
            If the model was deleted, or is not what was written.
        """
        claim = attempt.claim
        fetch(attempt, claim.request, attempt.folder / MODEL_FILE)
        with (attempt.folder / FEEDBACK_FILE).open("wb") as file, attempt.database.transaction() as session:
            for content in FeedbackRepository(session, claim.project_id).of_model(claim.request["model"]):
                file.write(content + b"\n")
        return {}

    def conclude(self, attempt: Attempt, made: Made) -> Ending:
        """Store the rows that were drawn."""
        claim, path = attempt.claim, attempt.folder / AUDIT_FILE
        pool = json.loads((attempt.folder / RESULT_FILE).read_text())["report"]
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != made.sha256:
            return attempt.crashed("internal_error", "the rows are not what the child wrote")
        jobs = JobClaims(attempt.settings.lease_seconds)

        def store(session: Session) -> dict[str, Any]:
            store_rows(session, claim, pool, path, made.bytes)
            return {}

        return Ending(
            "succeeded", lambda session: jobs.finish_succeeded(session, claim, store=lambda _: store(session))
        )


def store_rows(session: Session, claim: Claim, pool: dict[str, Any], path: Path, size: int) -> None:
    """Write what an audit has drawn, unless it was deleted meanwhile."""
    audit_id = claim.request["audit"]
    mine = update(AuditRow).where(AuditRow.id == audit_id, AuditRow.project_id == claim.project_id)
    changed = cast("CursorResult[Any]", session.execute(mine.values(pool=pool, bytes=size)))
    if changed.rowcount == 0:
        return
    rows = _rows(audit_id, path)
    while some := list(islice(rows, AT_ONCE)):
        session.execute(insert(AuditItemRow), some)


def _rows(audit_id: str, path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for position, line in enumerate(file, 1):
            row, stratum, score, probability, key, content = orjson.loads(line)
            yield {
                "audit_id": audit_id,
                "position": position,
                "row": row,
                "stratum": stratum,
                "score": score,
                "probability": probability,
                "key": key,
                "content": content.encode(),
            }

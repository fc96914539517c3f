"""Feedback on its way into a training: from the database to a file beside the job, which its child reads.

The child has no address of the database.
"""

from __future__ import annotations

from pathlib import Path

from service.db.session import Database
from service.feedback.repository import FeedbackRepository
from service.jobs.lease import Claim


def fetch_feedback(database: Database, claim: Claim, path: Path) -> None:
    """Write what was sent for the alias of a training before that was asked for: one JSON object a line."""
    if claim.feedback_until is None:
        return
    with path.open("wb") as file, database.transaction() as session:
        feedback = FeedbackRepository(session, claim.project_id)
        for content in feedback.contents(claim.request["alias"], claim.feedback_until):
            file.write(content + b"\n")

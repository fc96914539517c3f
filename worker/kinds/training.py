"""Training: the child is handed the feedback, and a job ends with a model.

The child has no address of the database, so that feedback comes to it as a file.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from sqlalchemy.orm import Session

from service.db.session import Database
from service.faults import fault
from service.feedback.repository import FeedbackRepository
from service.identifiers import new_id
from service.jobs.claims import Claim, JobClaims
from service.jobs.events import add_event
from service.models.repository import AliasRepository
from service.models.storing import FinishedModel, store_model, store_operating_point, store_report
from solver.report import Report, json_ready
from worker.attempt import Attempt, Ending
from worker.kinds.kind import Made
from worker.protocol import FEEDBACK_FILE, MODEL_FILE, RESULT_FILE, UnrunnableJobError


class TrainingKind:
    """Rows → a model (`service.api.jobs`)."""

    name = "train"
    computes = "worker.fit:run"
    makes = MODEL_FILE

    def lay_out(self, attempt: Attempt) -> dict[str, Any]:
        """Write what users have corrected to a file."""
        lay_out_training(attempt)
        return {}

    def conclude(self, attempt: Attempt, made: Made) -> Ending:
        """Store the model."""
        claim = attempt.claim
        result = json.loads((attempt.folder / RESULT_FILE).read_text())
        report = Report.from_dict(result["report"]).with_seconds(
            queue_seconds=claim.queue_seconds, child_start_seconds=made.child_start_seconds
        )
        if report.status == "stopped":
            reason = {
                "cancel": "The job was cancelled, and the best model so far was kept.",
                "time_limit": f"max_seconds = {claim.max_seconds:g} was reached; the best model so far was kept.",
            }.get(made.stopped_by, report.status_reason)
            report = replace(report, status_reason=reason)
        model = FinishedModel(
            id=new_id("mdl"),
            algorithm=result["algorithm"],
            manifest=result["manifest"],
            report=report,
            path=attempt.folder / MODEL_FILE,
            bytes=made.bytes,
            sha256=made.sha256,
            operating_point=result["operating_point"],
        )
        jobs = JobClaims(attempt.settings.lease_seconds)
        return Ending("succeeded", lambda session: finish_with_model(jobs, session, claim, model))


def lay_out_training(attempt: Attempt) -> None:
    """Put beside the data set what else a training learns from.

    Raises
    ------
    UnrunnableJobError
        ``dataset_deleted``: that of the labels.
    """
    claim = attempt.claim
    if claim.labels is None and (claim.request.get("labels") or {}).get("dataset") is not None:
        raise UnrunnableJobError("dataset_deleted", "the data set of the labels was deleted before the job ran")
    fetch_feedback(attempt.database, claim, attempt.folder / FEEDBACK_FILE)


def fetch_feedback(database: Database, claim: Claim, path: Path) -> None:
    """Write what was sent for the alias of a training before that was asked for: one JSON object a line."""
    if claim.feedback_until is None:
        return
    with path.open("wb") as file, database.transaction() as session:
        feedback = FeedbackRepository(session, claim.project_id)
        for content in feedback.contents(claim.request["alias"], claim.feedback_until):
            file.write(content + b"\n")


def finish_with_model(
    jobs: JobClaims, session: Session, claim: Claim, model: FinishedModel
) -> Literal["cancelled"] | bool:
    """End a training with its model: row, chunks, alias and event in this one transaction.

    `storing` of the report's timings grows by the seconds that the upload took. An alias that was moved by a later
    request than this job's stays where it is; an event and the report say so.

    Returns
    -------
    bool or str
        As `JobClaims.finish_succeeded` answers.

    Raises
    ------
    CorruptModelFileError
        If size or SHA-256 of the file are not those announced.
    """
    started = time.monotonic()

    def store(dataset_id: str | None) -> dict[str, Any]:
        store_model(session, claim.project_id, claim.job_id, dataset_id, model)
        fault("finish_after_chunks")
        report = model.report.with_seconds(storing=time.monotonic() - started)
        refused = _move_alias(session, claim, model)
        if refused is not None:
            report = replace(report, warnings=[*report.warnings, refused])
        store_report(session, model.id, report)
        if model.operating_point is not None:
            store_operating_point(session, model.id, model.operating_point)
        return {"model_id": model.id, **_told(model)}

    return jobs.finish_succeeded(session, claim, store=store)


def _told(model: FinishedModel) -> dict[str, Any]:
    """What the last event says besides of what the model promises, if that is known."""
    promise = (model.operating_point or {}).get("promise") or json_ready(model.report.promise)
    return {} if promise is None else {"promise": {name: promise[name] for name in ("level", "sentence")}}


def _move_alias(session: Session, claim: Claim, model: FinishedModel) -> str | None:
    """Point the alias of a training, if it has one, at its model; return what to say if a later request did so."""
    alias = claim.request.get("alias")
    aliases = AliasRepository(session, claim.project_id)
    if alias is None or aliases.follow(alias, model.id, claim.alias_request):
        return None
    there = aliases.get(alias)
    message = (
        f"alias not moved: {alias} was pointed at {'another model' if there is None else there.model_id} by a "
        f"later request than this job's; to use this model: PUT /aliases/{alias} with "
        f"{json.dumps({'model': model.id})}"
    )
    warning = {"code": "alias_not_moved", "alias": alias, "message": message}
    add_event(session, claim.job_id, claim.attempt, "warning", warning)
    return message

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
from service.errors import Problem
from service.faults import fault
from service.feedback.repository import FeedbackRepository
from service.identifiers import new_id
from service.jobs.claims import Claim, JobClaims
from service.jobs.events import add_event
from service.models.repository import AliasRepository, ModelRepository, Predecessor
from service.models.storing import FinishedModel, store_model, store_operating_point, store_report
from service.models.verdicts import proving_audit
from solver.band import Band
from solver.class_succession import decide_of_classes
from solver.classes_report import AnyReport, MulticlassReport, any_report, is_of_several
from solver.report import Classes, Report, ReportedPoint, Succession, json_ready
from solver.succession import Standing, decide, kept, moved
from worker.attempt import Attempt, Ending
from worker.kinds.batch import fetch
from worker.kinds.kind import Made
from worker.protocol import (
    FEEDBACK_FILE,
    KEPT_ROWS_FILE,
    LABELS_FILE,
    LEFT_OUT_FILE,
    MODEL_FILE,
    PREDECESSOR_FILE,
    PREDECESSOR_LABELS_FILE,
    RESULT_FILE,
    UnrunnableJobError,
)

LARGEST_PREDECESSOR = 64 << 20
"""Bytes of a model that a training is compared with: one that is larger might take the memory that the job may use."""


class TrainingKind:
    """Rows → a model (`service.api.jobs`)."""

    name = "train"
    computes = "worker.fit:run"
    makes = MODEL_FILE

    def lay_out(self, attempt: Attempt) -> dict[str, Any]:
        """Write what users have corrected to a file, and the model that the alias points at to others."""
        lay_out_training(attempt)
        return lay_out_predecessor(attempt)

    def conclude(self, attempt: Attempt, made: Made) -> Ending:
        """Store the model."""
        claim = attempt.claim
        result = json.loads((attempt.folder / RESULT_FILE).read_text())
        report = any_report(result["report"]).with_seconds(
            queue_seconds=claim.queue_seconds, child_start_seconds=made.child_start_seconds
        )
        if isinstance(report, Report) and report.status == "stopped":
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
            labelled_rows=_left_behind(attempt.folder / LABELS_FILE),
            kept_rows=_left_behind(attempt.folder / KEPT_ROWS_FILE),
            left_out=_left_behind(attempt.folder / LEFT_OUT_FILE),
        )
        jobs = JobClaims(attempt.settings.lease_seconds)
        return Ending("succeeded", lambda session: finish_with_model(jobs, session, claim, model))


def _left_behind(path: Path) -> bytes | None:
    """What the child has written there; None where it has written nothing."""
    return path.read_bytes() if path.exists() else None


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


def lay_out_predecessor(attempt: Attempt) -> dict[str, Any]:
    """Put the model that the alias of a training points at into its folder, and what it had learned from.

    Returns
    -------
    dict
        Under ``predecessor``, if there is one: ``model``, ``classes``, ``point``, ``threshold`` (that was applied, if
        any), ``is_retuned``, and ``why_not``: why it is not there to be compared with, else empty.
    """
    claim = attempt.claim
    alias = claim.request.get("alias")
    if alias is None:
        return {}
    with attempt.database.transaction() as session:
        models = ModelRepository(session, claim.project_id)
        found = models.predecessor(alias)
        if found is None:
            return {}
        learned = models.labelled_rows(found.model_id)
    why_not = ""
    if learned is None:
        why_not = "which rows the older model had learned was not kept"
    elif found.bytes > LARGEST_PREDECESSOR or claim.attempt > 1:
        why_not = "the older model is too large" if claim.attempt == 1 else "this is not the first attempt of the job"
    else:
        try:
            fetch(attempt, {"model": found.model_id, "sha256": found.sha256}, attempt.folder / PREDECESSOR_FILE)
            (attempt.folder / PREDECESSOR_LABELS_FILE).write_bytes(learned)
        except Problem as error:
            why_not = f"the older model cannot be read: {error.detail}"
    if is_of_several(found.report):
        return {}  # where the job ends, the figures of the two are compared
    point = {name: found.point.get(name) for name in ("objective", "status", "status_reason", "threshold")}
    told = {
        "model": found.model_id,
        "classes": found.report.get("classes"),
        "point": {**point, "calibration": None},
        "threshold": None if found.applied is None else found.applied["threshold"],
        "is_retuned": found.is_retuned,
        "why_not": why_not,
    }
    return {"predecessor": told}


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

    `storing` of the report's timings grows by the seconds that the upload took. Where the alias stays where it is, an
    event and the report say why.

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
        succession = _move_alias(jobs, session, claim, model)
        if succession is not None and not succession.moved:
            report = replace(report, warnings=[*report.warnings, succession.sentence])
        store_report(session, model.id, replace(report, succession=succession))
        if model.operating_point is not None:
            store_operating_point(session, model.id, model.operating_point)
        return {"model_id": model.id, **_told(model, succession)}

    return jobs.finish_succeeded(session, claim, store=store)


def _told(model: FinishedModel, succession: Succession | None) -> dict[str, Any]:
    """What the last event says besides: of the alias, and of what the model promises, if that is known."""
    report = _in_use(model.report, model.operating_point)
    promise = (model.operating_point or {}).get("promise") or json_ready(report.promise)
    told = {} if promise is None else {"promise": {name: promise[name] for name in ("level", "sentence")}}
    if succession is not None:
        told["alias"] = {"name": succession.alias, "moved": succession.moved, "sentence": succession.sentence}
    return told


def _move_alias(jobs: JobClaims, session: Session, claim: Claim, model: FinishedModel) -> Succession | None:
    """Point the alias of a training, if it has one, at its model, unless a later request or its policy forbids that."""
    alias = claim.request.get("alias")
    if alias is None:
        return None
    aliases = AliasRepository(session, claim.project_id)
    there = aliases.lock(alias)
    if there is None and jobs.wish_is_withdrawn(session, claim):
        draft = replace(_draft(claim, model), model=None)
        return _said(session, claim, kept(draft, model.id, "it was deleted after this job was asked for"))
    if there is None or there.request <= claim.alias_request:
        succession = _decided(session, claim, model)
        if not succession.moved or aliases.follow(alias, model.id, claim.alias_request):
            return _said(session, claim, succession)
        there = aliases.get(alias)
    draft = replace(_draft(claim, model), model=None if there is None else there.model_id)
    return _said(session, claim, kept(draft, model.id, "a later request than this job's put it there"))


def _draft(claim: Claim, model: FinishedModel) -> Succession:
    """What the child found out; of a job that is older than that, nothing."""
    policy = claim.request.get("alias_policy", "always")
    return model.report.succession or Succession(
        alias=claim.request["alias"], policy=policy, moved=False, model=None, sentence=""
    )


def _decided(session: Session, claim: Claim, model: FinishedModel) -> Succession:
    """Decide by the policy of the request, beside the model that the alias points at now."""
    models = ModelRepository(session, claim.project_id)
    found = models.predecessor(claim.request["alias"])
    draft, point = _draft(claim, model), model.report
    if isinstance(point, MulticlassReport) or (found is not None and is_of_several(found.report)):
        return _decided_of_several(draft, model, found)
    now = Standing(
        classes=point.classes,
        point=point if model.operating_point is None else ReportedPoint.from_dict(model.operating_point),
        columns=[column.name for column in point.columns],
    )
    if found is None:
        return decide(replace(draft, model=None, rows=None), model.id, now, None)
    why_no_rows = draft.sentence
    if draft.model != found.model_id:
        why_no_rows = f"the alias was moved to {found.model_id} meanwhile"
        draft = replace(draft, model=found.model_id, rows=None)
    try:
        before = Standing(
            classes=Classes.from_dict(found.report["classes"]),
            point=ReportedPoint.from_dict(found.point),
            columns=[str(column["name"]) for column in found.report["columns"]],
            proven_by=proving_audit(
                models.verdicts([found.model_id])[found.model_id],
                found.point["objective"],
                found.point["threshold"],
                Band.from_json(found.point.get("abstain")),
            ),
            applied_meanwhile=models.applied_after(found.model_id, claim.job_id),
        )
    except (KeyError, TypeError, ValueError):
        return moved(draft, "the stored report of the older one is not whole, so that the two are not compared")
    return decide(draft, model.id, now, before, why_no_rows)


def _decided_of_several(draft: Succession, model: FinishedModel, older: Predecessor | None) -> Succession:
    """Decide by the figures of the two, where one of them tells several classes apart."""
    now = _in_use(model.report, model.operating_point)
    if older is None:
        return decide_of_classes(replace(draft, model=None, rows=None), model.id, now, None)
    draft = replace(draft, model=older.model_id, rows=None)
    try:
        before = _in_use(any_report(older.report), older.applied)
    except (KeyError, TypeError, ValueError):
        return moved(draft, "the stored report of the older one is not whole, so that the two are not compared")
    return decide_of_classes(draft, model.id, now, before)


def _in_use(report: AnyReport, applied: dict[str, Any] | None) -> AnyReport:
    """The report of several classes as of a point that was applied; any other as it is."""
    if applied is None or not isinstance(report, MulticlassReport):
        return report
    from solver.class_points import with_point  # which loads NumPy: a supervisor does without it as a rule

    return with_point(report, applied)


def _said(session: Session, claim: Claim, succession: Succession) -> Succession:
    """Tell in an event that an alias was not moved."""
    if not succession.moved:
        warning = {"code": "alias_not_moved", "alias": succession.alias, "message": succession.sentence}
        add_event(session, claim.job_id, claim.attempt, "warning", warning)
    return succession

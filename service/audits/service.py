"""What can be done with audits: a target of a model is proved by looking at few rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy.orm import Session

from service.audits.errors import AnswersDoNotFit, AuditNotReady, AuditSealed
from service.audits.repository import KIND, AuditRepository
from service.audits.schemas import (
    Audit,
    AuditAnswers,
    AuditItem,
    AuditItems,
    AuditPool,
    AuditRequest,
    AuditSeal,
)
from service.batches.service import check_columns
from service.datasets.repository import DatasetRepository
from service.db import idempotency
from service.db.session import Database
from service.db.tables import AuditItemRow, AuditRow, DatasetRow, FeedbackRow, JobRow
from service.errors import FieldError, InvalidRequest
from service.feedback.errors import FeedbackDoesNotFit
from service.feedback.keeping import feedback_row, keep_feedback
from service.feedback.stored_rows import shown
from service.identifiers import new_id
from service.ingest.labels import composed, contradiction, number_label
from service.jobs.queueing import put_in_queue
from service.jobs.repository import JobRepository
from service.jobs.schemas import JobError
from service.models.repository import ModelFile, ModelFileRepository, ModelRepository
from service.models.verdicts import statement_of, verdict_words
from service.paging import as_page
from service.schemas import Page
from service.settings import Settings
from solver.band import Band

OPERATION = "createAudit"
MOST_BYTES = 4 << 20
"""Of the rows in one answer; there is always one row, if any is left."""


class AuditService:
    """Makes audits, gives out their rows, and says what the answers prove."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def create(self, project_id: str, body: AuditRequest, idempotency_key: str | None) -> Audit:
        """Begin an audit: a worker draws its rows.

        Raises
        ------
        InvalidRequest
            If there is no such model or data set, or each row of that has a label.
        RowsDoNotFit
            If the data set lacks columns that the model needs.
        IdempotencyConflict
            If the key came before with another body.
        QueueFull, StorageQuotaExceeded
            If the project has used up its limits.
        """
        with self._database.transaction() as session:
            audits, models = AuditRepository(session, project_id), ModelRepository(session, project_id)
            audit_id = new_id("aud")
            made = idempotency.claim(session, project_id, OPERATION, idempotency_key, body.model_dump(), audit_id)
            if made is not None:
                return _as_accepted(idempotency.existing(audits.get(made), "audit"))
            model, dataset = _found(session, project_id, body)
            labels = _labels_of(models.origin(model.model_id).request)
            _refuse_labelled(dataset, labels)
            objective = body.objective.model_dump()
            job = put_in_queue(
                session,
                JobRow(
                    id=new_id("job"),
                    project_id=project_id,
                    kind=KIND,
                    max_attempts=self._settings.max_attempts,
                    request={
                        "audit": audit_id,
                        "model": model.model_id,
                        "sha256": model.sha256,
                        **model.decides_by,
                        "dataset": dataset.id,
                        "objective": objective,
                        "confidence": body.confidence,
                        "rows": body.rows,
                        **({} if body.thresholds is None else {"thresholds": body.thresholds}),
                        "seed": _seed(model, dataset.sha256, objective["kind"], body.thresholds),
                        **labels,
                    },
                    dataset_id=dataset.id,
                    max_seconds=self._settings.job_max_seconds,
                ),
            )
            row = audits.add(
                AuditRow(
                    id=audit_id,
                    project_id=project_id,
                    model_id=model.model_id,
                    dataset_id=dataset.id,
                    job_id=job.id,
                    objective=objective,
                    confidence=body.confidence,
                )
            )
            return _audit(row, job)

    def get(self, project_id: str, audit_id: str) -> Audit:
        """Return an audit; raises `AuditNotFound`."""
        with self._database.transaction() as session:
            return _audit(*AuditRepository(session, project_id).with_job(audit_id))

    def list(self, project_id: str, cursor: str | None, limit: int) -> Page[Audit]:
        """Return a page of audits, newest first."""
        with self._database.transaction() as session:
            found = AuditRepository(session, project_id).page(cursor, limit)
        audits = {row.id: _audit(row, job) for row, job in found}
        return as_page([row for row, _ in found], limit, lambda row: audits[row.id])

    def delete(self, project_id: str, audit_id: str) -> None:
        """Delete an audit with its rows and answers; one that is being prepared is cancelled.

        Raises `AuditNotFound`.
        """
        with self._database.transaction() as session:
            audits = AuditRepository(session, project_id)
            row, _ = audits.with_job(audit_id)
            # locked in the order in which a worker does that ends the job: first the job, then the audit
            if row.pool is None and row.job_id is not None:
                JobRepository(session, project_id).cancel(row.job_id, keep_best=False)
            audits.lock(audit_id)
            audits.delete(audit_id)

    def next(self, project_id: str, audit_id: str, after: int, n: int) -> AuditItems:
        """Return the next rows to look at, in the order in which they were drawn.

        Raises
        ------
        AuditNotFound
        AuditNotReady
            If none are drawn.
        """
        with self._database.transaction() as session:
            audits = AuditRepository(session, project_id)
            row, job = audits.with_job(audit_id)
            pool = _pool_of(row, job)
            items = audits.open_items(audit_id, after, n)
        return AuditItems(
            left=pool["drawn"] - row.answered,
            items=[
                AuditItem(
                    position=item.position,
                    row=item.row,
                    key=item.key,
                    label=_said_of(item.score, pool),
                    score=item.score,
                    probability=item.probability,
                    content=shown(orjson.loads(item.content)),
                )
                for item in _first_of(items)
            ],
        )

    def answer(self, project_id: str, audit_id: str, body: AuditAnswers) -> Audit:
        """Take answers, and say what all of them prove.

        The same answer again changes nothing; another one takes the place of the first, and is counted.

        Raises
        ------
        AuditNotFound
        AuditNotReady, AuditSealed
        InvalidRequest, AnswersDoNotFit
            If there is not one label a row, a row was not drawn, or a label is none of the model's.
        """
        if len(body.rows) != len(body.labels):
            message = f"needs one label for each of the {len(body.rows)} rows and has {len(body.labels)}"
            raise InvalidRequest.of("body.labels", message)
        with self._database.transaction() as session:
            audits = AuditRepository(session, project_id)
            row, job = audits.lock(audit_id), audits.with_job(audit_id)[1]
            pool = _pool_of(row, job)
            if row.sealed_at is not None:
                raise AuditSealed("the audit is sealed; what it proves stays as it is")
            given = _given(body, pool)
            before = audits.labels_of(audit_id, list(given))
            _refuse_strangers(body.rows, before)
            changed = {number: label for number, label in given.items() if before[number] != label}
            if changed:
                audits.answer(audit_id, changed)
                new = sum(before[number] is None for number in changed)
                row = audits.change(
                    audit_id,
                    answered=row.answered + new,
                    corrected=row.corrected + len(changed) - new,
                    verdict=_verdict(audits, row, pool),
                )
            return _audit(row, job)

    def seal(self, project_id: str, audit_id: str, body: AuditSeal) -> Audit:
        """End an audit: nothing of it changes any more, and an alias may learn its answers.

        Raises
        ------
        AuditNotFound
        AuditNotReady, AuditSealed
            If it was sealed before in another way.
        InvalidRequest, FeedbackDoesNotFit
            If there is no such alias, or its model decides between other labels.
        TooMuchFeedback, StorageQuotaExceeded
            If there is no room for the answers.
        """
        with self._database.transaction() as session:
            audits = AuditRepository(session, project_id)
            row, job = audits.lock(audit_id), audits.with_job(audit_id)[1]
            pool = _pool_of(row, job)
            if row.sealed_at is None:
                feedback = None if body.alias is None else self._feedback(session, row, pool, body.alias)
                row = audits.seal(audit_id, None if feedback is None else feedback.id)
            elif body.alias is not None:
                raise AuditSealed("the audit is sealed, and nothing more becomes of its answers")
            return _audit(row, job)

    def _feedback(self, session: Session, row: AuditRow, pool: Mapping[str, Any], alias: str) -> FeedbackRow | None:
        """Keep the answers as feedback for an alias; None if there are none."""
        model = ModelRepository(session, row.project_id).shape_behind(alias)
        if model is None:
            raise InvalidRequest.of("body.alias", "no alias has this name")
        if {*model.labels} != {pool["negative"], pool["positive"]}:
            raise FeedbackDoesNotFit.of("body.alias", "points at a model that decides between other labels")
        audits = AuditRepository(session, row.project_id)
        answered = audits.answered(row.id)
        if not answered:
            return None
        rows = [orjson.loads(content) for content, _ in answered]
        labels = [str(label) for _, label in answered]
        alike = _alike(audits.draws(row.id), pool)
        made = feedback_row(row.project_id, alias, row.model_id, rows, labels, pool["meant"], audited=alike)
        return keep_feedback(session, made, self._settings.max_feedback_rows)


def _found(session: Session, project_id: str, body: AuditRequest) -> tuple[ModelFile, DatasetRow]:
    """Return the model and the data set of an audit, which nobody can delete before this transaction ends.

    Raises
    ------
    InvalidRequest
        If there is no such model or data set.
    RowsDoNotFit
        If the data set lacks columns that the model needs.
    SeveralClasses
        If the model tells several classes apart.
    """
    models = ModelRepository(session, project_id)
    model = ModelFileRepository(session, project_id).find(body.model)
    dataset = DatasetRepository(session, project_id).lock_for_use(body.dataset)
    errors = []
    if model is None or not models.lock(model.model_id):
        errors.append(FieldError("body.model", "no model has this id, and no alias this name"))
    if dataset is None:
        errors.append(FieldError("body.dataset", "there is no such data set"))
    if model is None or dataset is None or errors:
        raise InvalidRequest(f"{errors[0].field}: {errors[0].message}", errors=errors)
    models.require_two_classes(model.model_id, "audits")
    check_columns(dataset, models.columns(model.model_id))
    return model, dataset


def _said_of(score: float, pool: Mapping[str, Any]) -> str | None:
    """Return what the model says of a row; None where it says nothing."""
    label: str | None
    band = Band.from_json(pool.get("abstain"))
    if band is None:
        label = pool["positive"] if score > pool["threshold"] else pool["negative"]
    else:
        label = pool["positive"] if score > band.upper else pool["negative"] if score <= band.lower else None
    return label


def _first_of(items: Sequence[AuditItemRow]) -> Iterator[AuditItemRow]:
    """Yield the first rows, as many as one answer holds."""
    size = 0
    for item in items:
        size += len(item.content)
        if size > MOST_BYTES and item is not items[0]:
            return
        yield item


def _seed(model: ModelFile, dataset_sha256: str, kind: str, thresholds: Sequence[float] | str | None) -> int:
    """Return what the draw begins with: the same for the same question, so that nobody tries until the rows please."""
    band = "" if model.band is None else f" {model.band}"
    several = "" if thresholds is None else f" {thresholds}"
    asked = f"{model.sha256} {model.threshold}{band}{several} {dataset_sha256} {kind}"
    return int.from_bytes(hashlib.sha256(asked.encode()).digest()[:6])


def _labels_of(request: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return where the labels of the training stand, by which rows count as known."""
    asked = request or {}
    return {"target": asked.get("target"), "unlabeled": asked.get("unlabeled", [])}


def _refuse_labelled(dataset: DatasetRow, labels: Mapping[str, Any]) -> None:
    """Refuse a data set whose profile says that each row has a label; where it does not tell, the worker finds out."""
    target = next((column for column in dataset.columns if column["name"] == labels["target"]), None)
    if target is None or target.get("values") is None:
        return
    known = {*labels["unlabeled"]}
    called = target.get("written") or {}
    labelled = sum(
        count
        for value, count in target["values"].items()
        if value.strip() and not known & {value, composed(value), called.get(value)}
    )
    if labelled == dataset.rows:
        raise InvalidRequest.of(
            "body.dataset",
            f"each of its {dataset.rows:,} rows has a label in column {target['name']!r}: an audit needs rows that "
            "nobody has labelled yet; upload a data set that has some",
        )


def _pool_of(row: AuditRow, job: JobRow | None) -> dict[str, Any]:
    """Return what rows were drawn from; raises `AuditNotReady`."""
    if row.pool is not None:
        return row.pool
    if _has_failed(job):
        raise AuditNotReady("no rows could be drawn; the audit says why")
    raise AuditNotReady("its rows are being drawn; wait until its status is `open`")


def _has_failed(job: JobRow | None) -> bool:
    return job is None or job.status in ("failed", "cancelled")


def _given(body: AuditAnswers, pool: Mapping[str, Any]) -> dict[int, str]:
    """Return the label of each row, in the spelling of the model."""
    allowed = (pool["negative"], pool["positive"])
    labels = [label if label in allowed else number_label(label) for label in body.labels]
    for position, label in enumerate(labels):
        if label not in allowed:
            message = f"should be one of the model's labels, {' or '.join(map(repr, allowed))}"
            raise AnswersDoNotFit.of(f"body.labels.{position}", message)
    places = contradiction([str(number) for number in body.rows], labels)
    if places is not None:
        first, second = places
        raise AnswersDoNotFit.of(
            f"body.rows.{second}",
            f"row {body.rows[second]} has label {labels[second]!r} here and {labels[first]!r} in body.rows.{first}; "
            "send one label for each row",
        )
    return dict(zip(body.rows, labels, strict=True))


def _refuse_strangers(rows: Sequence[int], drawn: Mapping[int, str | None]) -> None:
    """Refuse rows that somebody has chosen: only those that chance chose say something of the others."""
    for position, number in enumerate(rows):
        if number not in drawn:
            raise AnswersDoNotFit.of(f"body.rows.{position}", f"row {number} is none of those that the audit has drawn")


def _alike(found: Sequence[Any], pool: Mapping[str, Any]) -> list[bool]:
    """Return of each draw that has an answer whether it is one of a sample of the whole pool at one rate."""
    from solver.audits import NOT_ANSWERED, Draws, alike_drawn

    draws = Draws.of_plan(pool, [stratum for stratum, _, _ in found], [number for _, number, _ in found])
    answers = [NOT_ANSWERED if label is None else 1 for _, _, label in found]
    alike = alike_drawn(draws, answers, pool["rows"]).tolist()
    return [is_alike for is_alike, (_, _, label) in zip(alike, found, strict=True) if label is not None]


def _verdict(audits: AuditRepository, row: AuditRow, pool: Mapping[str, Any]) -> dict[str, Any]:
    """Judge all answers so far."""
    # Loaded where it is used: NumPy alone takes a tenth of a second.
    from solver.audits import NOT_ANSWERED, Draws, judge_in_order, target_of

    found = audits.draws(row.id)
    draws = Draws.of_plan(pool, [stratum for stratum, _, _ in found], [number for _, number, _ in found])
    answers = [NOT_ANSWERED if label is None else int(label == pool["positive"]) for _, _, label in found]
    in_order = [each["threshold"] for each in pool.get("thresholds") or [{"threshold": pool["threshold"]}]]
    places = [sorted(in_order).index(threshold) for threshold in in_order]
    verdicts = judge_in_order(draws, answers, target_of(row.objective), row.confidence, places)
    tried = [
        {
            "threshold": threshold,
            "standing": verdict.standing,
            "bound": verdict.bound,
            "estimate": verdict.estimate,
            "decided_after": verdict.decided_at,
        }
        for threshold, verdict in zip(in_order, verdicts, strict=False)
    ]
    # of the proven thresholds the last one is the best; if none is proven, the first one is spoken of
    best = max(0, sum(verdict.standing == "proven" for verdict in verdicts) - 1)
    return tried[best] | ({"tried": tried} if len(in_order) > 1 else {})


def _audit(row: AuditRow, job: JobRow | None) -> Audit:
    pool, verdict = row.pool, row.verdict
    failed = pool is None and _has_failed(job)
    standing = "open" if verdict is None else verdict["standing"]
    error = None if job is None or job.error is None or not failed else JobError.model_validate(job.error)
    return Audit.model_validate(
        {
            "id": row.id,
            "status": "failed" if failed else "preparing" if pool is None else standing,
            "progress": 1.0 if pool is not None else 0.0 if job is None else job.progress,
            "model": row.model_id,
            "dataset": row.dataset_id,
            "objective": row.objective,
            "confidence": row.confidence,
            "pool": None if pool is None else {name: pool[name] for name in AuditPool.model_fields if name in pool},
            "statement": None if pool is None else statement_of(row.objective, pool),
            "answered": row.answered,
            "corrected": row.corrected,
            "verdict": None if verdict is None else _said(verdict) | {"sentence": verdict_words(row)},
            "job": row.job_id,
            "error": error,
            "created_at": row.created_at,
            "sealed_at": row.sealed_at,
            "feedback": row.feedback_id,
        },
        from_attributes=False,
    )


def _said(verdict: Mapping[str, Any]) -> dict[str, Any]:
    said = {name: verdict.get(name) for name in ("bound", "estimate", "decided_after", "threshold")}
    last = (verdict.get("tried") or [verdict])[-1]
    goes_on = last.get("threshold") if last["standing"] == "open" else None
    return said | {"thresholds": verdict.get("tried"), "next_threshold": goes_on}


def _as_accepted(row: AuditRow) -> Audit:
    """Return the answer that the first of several equal requests got, whatever became of the audit since."""
    never = dict.fromkeys(("pool", "statement", "verdict", "error", "sealed_at", "feedback"))
    accepted = {"status": "preparing", "progress": 0.0, "answered": 0, "corrected": 0}
    return _audit(row, None).model_copy(update=accepted | never)

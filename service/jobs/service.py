"""What can be done with jobs."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from service.access.repository import QuotaRepository
from service.datasets.repository import DatasetRepository
from service.db import idempotency
from service.db.session import Database
from service.db.tables import DatasetRow, JobRow
from service.errors import FieldError, IdempotencyConflict, InvalidRequest
from service.identifiers import is_id, new_id
from service.ingest.limits import MAX_EXACT_INTEGER
from service.jobs.errors import JobFinished, JobNotFound
from service.jobs.repository import JobRepository
from service.jobs.schemas import DryRun, Job, JobEvent, JobEvents, JobStatus, TrainRequest
from service.paging import Cursor, next_cursor
from service.schemas import Page
from service.settings import Settings
from solver.operating_point import Objective, ObjectiveError, check_rule
from solver.training import ALGORITHMS, ParamError, validate_params

AUTO = "auto"
OPERATION = "train"
"""Operation id under which idempotency keys of trainings are kept."""


class JobService:
    """Accepts trainings and tells how they go. It never trains and never talks to the broker."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def train(self, project_id: str, body: TrainRequest, idempotency_key: str | None) -> Job:
        """Put a training into the queue.

        Raises
        ------
        InvalidRequest
            If the training could not succeed: unknown data set, column, algorithm or parameter.
        IdempotencyConflict
            If the key came before with another body.
        QueueFull, StorageQuotaExceeded
            If the project has used up its limits.
        """
        digest = hashlib.sha256(orjson.dumps(body.model_dump(), option=orjson.OPT_SORT_KEYS)).hexdigest()
        with self._database.transaction() as session:
            jobs = JobRepository(session, project_id)
            job_id = new_id("job")
            if idempotency_key is not None:
                made = idempotency.claim(session, project_id, OPERATION, idempotency_key, digest, job_id)
                if made != job_id:
                    return _as_accepted(jobs.get(made))
            # Locked, so that nobody deletes the data set between this check and the insert.
            dataset = (
                DatasetRepository(session, project_id).lock_for_use(body.dataset) if is_id(body.dataset, "ds") else None
            )
            request = self._checked(body, dataset)
            quota = QuotaRepository(session, project_id)
            quota.make_room_in_queue()
            quota.make_room_for_bytes(0)
            job = jobs.enqueue(
                JobRow(
                    id=job_id,
                    project_id=project_id,
                    max_attempts=self._settings.max_attempts,
                    request=request,
                    dataset_id=body.dataset,
                    max_seconds=request["max_seconds"],
                )
            )
            return _job(job, None)

    def dry_run(self, project_id: str, body: TrainRequest) -> DryRun:
        """Check a training without starting it. Raises what `train` raises."""
        with self._database.transaction() as session:
            dataset = DatasetRepository(session, project_id).get(body.dataset) if is_id(body.dataset, "ds") else None
            return DryRun(request=self._checked(body, dataset))

    def get(self, project_id: str, job_id: str) -> Job:
        """Return a job; raises `JobNotFound`."""
        with self._database.transaction() as session:
            found = JobRepository(session, project_id).get(job_id) if is_id(job_id, "job") else None
        if found is None:
            raise JobNotFound("no job has this id")
        return _job(*found)

    def list(self, project_id: str, status: JobStatus | None, cursor: str | None, limit: int) -> Page[Job]:
        """Return a page of jobs, newest first."""
        position = Cursor.decode(cursor) if cursor is not None else None
        with self._database.transaction() as session:
            rows = JobRepository(session, project_id).list(status, position, limit)
        return Page(
            items=[_job(*row) for row in rows[:limit]], next_cursor=next_cursor(rows, limit, key=lambda row: row[0])
        )

    def events(self, project_id: str, job_id: str, after: int, limit: int) -> JobEvents:
        """Return the events of a job that came after one of them; raises `JobNotFound`."""
        with self._database.transaction() as session:
            jobs = JobRepository(session, project_id)
            if not is_id(job_id, "job") or not jobs.exists(job_id):
                raise JobNotFound("no job has this id")
            rows = jobs.events(job_id, after, limit)
        return JobEvents(
            items=[JobEvent.model_validate(row, extra="ignore") for row in rows],
            next_after=rows[-1].id if rows else after,
        )

    def cancel(self, project_id: str, job_id: str, keep_best: bool) -> Job:
        """End a queued job at once, or ask the worker of a running one to stop.

        Asking twice is fine. Raises `JobNotFound`, or `JobFinished` if it ended in another way.
        """
        with self._database.transaction() as session:
            jobs = JobRepository(session, project_id)
            if not is_id(job_id, "job") or not jobs.exists(job_id):
                raise JobNotFound("no job has this id")
            # Queued is asked twice: between the two looks a lost job may have come back into the queue.
            done = jobs.cancel_queued(job_id) or jobs.ask_running_to_cancel(job_id, keep_best)
            done = done or jobs.cancel_queued(job_id)
        job = self.get(project_id, job_id)
        if not done and job.status is not JobStatus.CANCELLED:
            raise JobFinished(f"the job has ended as {job.status}")
        return job

    def _checked(self, body: TrainRequest, dataset: DatasetRow | None) -> dict[str, Any]:
        """Return the request with every default filled in, or raise `InvalidRequest` naming all fields at fault."""
        if dataset is None:
            raise InvalidRequest.of("body.dataset", "there is no such data set")
        errors: list[FieldError] = []
        request = body.model_dump()
        targets = {column["name"]: column for column in dataset.columns if column["kind"] != "features"}
        if body.target not in targets:
            errors.append(FieldError("body.target", "the data set has no such column"))
        elif body.positive is None and not _may_be_plain_labels(targets[body.target], body.unlabeled):
            errors.append(FieldError("body.positive", "is required unless the labels are 0 and 1 or -1 and +1"))
        elif targets[body.target]["kind"] == "number":
            # Labels that are numbers are known by their shortest spelling, whatever stands in the file: 1 for 1.0.
            request["unlabeled"] = [_number_label(label) for label in body.unlabeled]
            request["positive"] = None if body.positive is None else _number_label(body.positive)
        if request["positive"] is not None and request["positive"] in request["unlabeled"]:
            errors.append(FieldError("body.positive", "is also listed in `unlabeled`"))
        errors += _column_errors(body, dataset)
        errors += _algorithm_errors(body, request)
        limit = self._settings.job_max_seconds
        if body.max_seconds is not None and body.max_seconds > limit:
            errors.append(FieldError("body.max_seconds", f"this installation allows at most {limit:g}"))
        request["max_seconds"] = body.max_seconds if body.max_seconds is not None else limit
        if errors:
            raise InvalidRequest(f"{errors[0].field}: {errors[0].message}", errors=errors)
        return request


def _column_errors(body: TrainRequest, dataset: DatasetRow) -> list[FieldError]:
    errors = []
    names = {column["name"] for column in dataset.columns}
    numbered = dataset.layout == "matrix"  # its columns have numbers, which are not listed
    for part, chosen in (("include", body.features.include or []), ("exclude", body.features.exclude)):
        for position, name in enumerate(chosen):
            if not (name.isascii() and name.isdigit() if numbered else name in names):
                errors.append(FieldError(f"body.features.{part}.{position}", "the data set has no such column"))
    if body.target in (body.features.include or []):
        errors.append(FieldError("body.features.include", "the target cannot be a feature"))
    if not numbered and not errors and not set(body.features.include or names) - {*body.features.exclude, body.target}:
        errors.append(FieldError("body.features", "leave no column to learn from"))
    return errors


def _algorithm_errors(body: TrainRequest, request: dict[str, Any]) -> list[FieldError]:
    if body.algorithm != AUTO and body.algorithm not in ALGORITHMS:
        return [FieldError("body.algorithm", f"should be one of {', '.join([AUTO, *ALGORITHMS])}")]
    try:
        request["params"] = validate_params(body.algorithm, body.params)
    except ParamError as error:
        return [FieldError(f"body.params.{error.name}", str(error))]
    try:
        check_rule(request["params"]["threshold_rule"], Objective.parse(request["objective"]))
    except ObjectiveError as error:
        return [FieldError("body.objective", str(error))]
    except ValueError as error:
        return [FieldError("body.params.threshold_rule", str(error))]
    return []


def _may_be_plain_labels(target: Mapping[str, Any], unlabeled: Sequence[str]) -> bool:
    """Tell whether the labels may be 0/1 or -1/+1, which need no word on what is positive. Training knows for sure."""
    if target["kind"] == "number":
        return target.get("min") in (-1, 0) and target.get("max") == 1
    # Digits beside a mark for "not known", such as "?", make a column of text.
    return bool(unlabeled) or target.get("plus_minus_one", False)


def _number_label(label: str) -> str:
    """Spell a number as the labels of a column of numbers are spelt; leave anything else as it is."""
    try:
        value = float(label)
    except ValueError:
        return label
    if not math.isfinite(value):
        return label
    return str(int(value)) if value.is_integer() and abs(value) <= MAX_EXACT_INTEGER else repr(value)


def _job(row: JobRow, model_id: str | None) -> Job:
    fields = {name: getattr(row, name) for name in Job.model_fields if name != "model_id"}
    return Job(**fields, model_id=model_id)


def _as_accepted(found: tuple[JobRow, str | None] | None) -> Job:
    """Return the answer that the first of several equal requests got, whatever became of the job since."""
    if found is None:
        raise IdempotencyConflict("the job that this Idempotency-Key made was deleted; use a new key")
    job = _job(found[0], None)
    return job.model_copy(
        update={
            "status": JobStatus.QUEUED,
            "phase": None,
            "progress": 0.0,
            "attempt": 0,
            "started_at": None,
            "finished_at": None,
            "cancel_requested_at": None,
            "error": None,
        }
    )

"""What can be done with jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from sqlalchemy.orm import Session

from service.datasets.repository import DatasetRepository
from service.db import idempotency
from service.db.session import Database
from service.db.tables import ALIAS_REQUESTS, DatasetRow, JobRow
from service.errors import InvalidRequest
from service.feedback.repository import FeedbackRepository
from service.identifiers import is_id, new_id
from service.jobs.checking import CheckedTraining, check_training
from service.jobs.errors import JobFinished, JobNotFinished, JobNotFound, NothingToRepeat
from service.jobs.feed import LAST_KIND, EventFeed
from service.jobs.queueing import put_in_queue
from service.jobs.repository import JobRepository
from service.jobs.schemas import DryRun, Job, JobEvent, JobEvents, JobStatus, Retrain, TrainingEstimate, TrainRequest
from service.models.errors import AliasNotFound
from service.models.repository import ModelRepository
from service.paging import as_page
from service.schemas import Page
from service.settings import Settings

Following = AbstractContextManager[AsyncIterator[Sequence[JobEvent]]]

OPERATION = "train"
RETRY_OPERATION = "retryJob"
RETRAIN_OPERATION = "retrainAlias"
"""Operation ids under which idempotency keys of trainings are kept."""
AGAIN = "upload it and train again"
KEEP_ALIVE_SECONDS = 15.0
"""Proxies cut connections on which nothing is sent for a minute or so."""


class JobService:
    """Accepts trainings and tells how they go. It never trains and never talks to the broker."""

    def __init__(self, database: Database, settings: Settings, feed: EventFeed) -> None:
        self._database = database
        self._settings = settings
        self._feed = feed

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
        with self._database.transaction() as session:
            jobs = JobRepository(session, project_id)
            job_id = new_id("job")
            made = idempotency.claim(session, project_id, OPERATION, idempotency_key, body.model_dump(), job_id)
            if made is not None:
                return _as_accepted(jobs.get(made))
            # Locked, so that nobody deletes the data set between this check and the insert.
            datasets = DatasetRepository(session, project_id)
            dataset, labels = (_found(datasets.lock_for_use, each) for each in (body.dataset, body.labels.dataset))
            until, rows = _feedback(session, project_id, body)
            training = check_training(body, dataset, self._settings, rows, labels)
            return self._enqueue(session, project_id, job_id, training, until)

    def _enqueue(
        self,
        session: Session,
        project_id: str,
        job_id: str,
        training: CheckedTraining,
        feedback_until: int | None,
        repeats: JobRow | None = None,
    ) -> Job:
        wants_alias = training.request.get("alias") is not None
        # To repeat a job is not to ask for the alias anew: somebody may have moved it on since.
        alias_request = ALIAS_REQUESTS.next_value() if repeats is None else repeats.alias_request
        job = put_in_queue(
            session,
            JobRow(
                id=job_id,
                project_id=project_id,
                max_attempts=self._settings.max_attempts,
                request=training.request,
                dataset_id=training.request["dataset"],
                labels_dataset_id=training.request["labels"]["dataset"],
                max_seconds=training.request["max_seconds"],
                estimate=training.estimate,
                warnings=training.warnings,
                feedback_until=feedback_until,
                alias_request=alias_request if wants_alias else None,
                retry_of=None if repeats is None else repeats.id,
            ),
        )
        return _job(job, None)

    def retry(self, project_id: str, job_id: str, idempotency_key: str | None) -> Job:
        """Make a new job of the request of one that has ended, however it ended.

        It does not take an alias from whoever has moved that since the job was asked for.

        Raises
        ------
        JobNotFound
        JobNotFinished
            If it still waits or runs.
        InvalidRequest
            If it could not succeed any more, as when its data set was deleted.
        QueueFull, StorageQuotaExceeded, IdempotencyConflict
            As `train`.
        """
        with self._database.transaction() as session:
            jobs = JobRepository(session, project_id)
            new = new_id("job")
            found = jobs.get(job_id) if is_id(job_id, "job") else None
            if found is None:
                raise JobNotFound
            made = idempotency.claim(session, project_id, RETRY_OPERATION, idempotency_key, job_id, new)
            if made is not None:
                return _as_accepted(jobs.get(made))
            if found[0].finished_at is None:
                raise JobNotFinished(f"the job is {found[0].status}; only one that has ended can be run again")
            body = TrainRequest.model_validate(found[0].request)
            dataset, labels = _still_there(session, project_id, body)
            # The same rows: what was sent meanwhile is not for this one.
            until = found[0].feedback_until
            rows = _feedback_rows(session, project_id, body, until)
            training = check_training(body, dataset, self._settings, rows, labels)
            return self._enqueue(session, project_id, new, training, until, found[0])

    def retrain(self, project_id: str, alias: str, idempotency_key: str | None, wanted: Retrain) -> Job:
        """Make a new job of the request that made the model of an alias, with all feedback until now.

        An operating point that was applied to that model is chosen anew for the next one.

        Raises
        ------
        AliasNotFound
        NothingToRepeat
            If that request was deleted.
        InvalidRequest, QueueFull, StorageQuotaExceeded, IdempotencyConflict
            As `train`.
        """
        with self._database.transaction() as session:
            jobs = JobRepository(session, project_id)
            new = new_id("job")
            found = jobs.behind_alias(alias)
            if found is None:
                raise AliasNotFound
            asked = alias if wanted.alias_policy is None else [alias, wanted.alias_policy]
            made = idempotency.claim(session, project_id, RETRAIN_OPERATION, idempotency_key, asked, new)
            if made is not None:
                return _as_accepted(jobs.get(made))
            model_id, made_by = found
            if made_by is None:
                raise NothingToRepeat("the job that made the model of this alias was deleted; train with POST /train")
            report, applied = ModelRepository(session, project_id).report(model_id)
            # Of an objective that the training had, too, its own threshold is the one.
            point = None if applied is None or applied["objective"] == report["objective"] else applied["objective"]
            body = TrainRequest.model_validate(
                made_by.request
                | {"alias": alias, "feedback": True, "operating_point": point}
                | wanted.model_dump(exclude_none=True)
            )
            dataset, labels = _still_there(session, project_id, body)
            until, rows = _feedback(session, project_id, body)
            training = check_training(body, dataset, self._settings, rows, labels)
            if applied is not None and applied["picked"]:
                training = replace(training, warnings=[*training.warnings, _not_taken_over(model_id)])
            return self._enqueue(session, project_id, new, training, until)

    def dry_run(self, project_id: str, body: TrainRequest) -> DryRun:
        """Check a training without starting it. Raises what `train` raises."""
        with self._database.transaction() as session:
            datasets = DatasetRepository(session, project_id)
            dataset, labels = (_found(datasets.get, each) for each in (body.dataset, body.labels.dataset))
            training = check_training(body, dataset, self._settings, _feedback(session, project_id, body)[1], labels)
            estimate = TrainingEstimate(**training.estimate)
            return DryRun(request=training.request, estimate=estimate, warnings=training.warnings)

    def get(self, project_id: str, job_id: str) -> Job:
        """Return a job; raises `JobNotFound`."""
        with self._database.transaction() as session:
            jobs = JobRepository(session, project_id)
            found = jobs.get(job_id) if is_id(job_id, "job") else None
            if found is None:
                raise _unknown(jobs, job_id)
        return _job(*found)

    def list(self, project_id: str, status: JobStatus | None, cursor: str | None, limit: int) -> Page[Job]:
        """Return a page of jobs, newest first."""
        with self._database.transaction() as session:
            rows = JobRepository(session, project_id).list(status, cursor, limit)
        return as_page(rows, limit, lambda row: _job(*row), key=lambda row: row[0])

    def events(self, project_id: str, job_id: str, after: int, limit: int, *, newest: bool = False) -> JobEvents:
        """Return the events of a job that came after one of them, the first or the last ones; raises `JobNotFound`."""
        with self._database.transaction() as session:
            jobs = JobRepository(session, project_id)
            if not is_id(job_id, "job") or not jobs.exists(job_id):
                raise _unknown(jobs, job_id)
            rows = jobs.events(job_id, after, limit, newest=newest)
        return JobEvents(
            items=[JobEvent.model_validate(row, extra="ignore") for row in rows],
            next_after=rows[-1].id if rows else after,
        )

    def follow(self, project_id: str, job_id: str, after: int) -> Following | None:
        """Return what gives the events after one of them as they come; None if the job has ended and there are none.

        An empty sequence comes whenever it is quiet for `KEEP_ALIVE_SECONDS`. Raises `JobNotFound`; what is returned
        raises `TooManyFollowers` when it is entered.
        """
        with self._database.transaction() as session:
            jobs = JobRepository(session, project_id)
            if not is_id(job_id, "job") or not jobs.exists(job_id):
                raise _unknown(jobs, job_id)
            last = jobs.last_event(job_id)
        # Old events are deleted some day, those of jobs that have ended.
        if last is None or (last.kind == LAST_KIND and after >= last.id):
            return None
        # Whoever names an event that is not there yet would never hear of the end.
        return self._feed.follow(job_id, min(after, last.id), KEEP_ALIVE_SECONDS)

    def cancel(self, project_id: str, job_id: str, keep_best: bool) -> Job:
        """End a queued job at once, or ask the worker of a running one to stop.

        Asking twice is fine. Raises `JobNotFound`, or `JobFinished` if it ended in another way.
        """
        with self._database.transaction() as session:
            jobs = JobRepository(session, project_id)
            if not is_id(job_id, "job") or not jobs.exists(job_id):
                raise _unknown(jobs, job_id)
            done = jobs.cancel(job_id, keep_best=keep_best)
        job = self.get(project_id, job_id)
        if not done and job.status is not JobStatus.CANCELLED:
            raise JobFinished(f"the job has ended as {job.status}")
        return job


def _not_taken_over(model_id: str) -> str:
    return (
        f"the threshold of {model_id} was picked by hand, which is not taken over: that of the new model is chosen for "
        "what is asked of it"
    )


def _unknown(jobs: JobRepository, job_id: str) -> JobNotFound:
    """Say that there is no such training; of a job of another kind, where that is shown."""
    match jobs.of_another_kind(job_id) if is_id(job_id, "job") else None:
        case ("batch", _):
            return JobNotFound(f"{job_id} is a batch: GET /batches/{job_id}")
        case ("audit", str(audit)):
            return JobNotFound(f"{job_id} draws the rows of an audit: GET /audits/{audit}")
    return JobNotFound()


def _found(look: Callable[[str], DatasetRow | None], dataset_id: str | None) -> DatasetRow | None:
    return None if dataset_id is None else look(dataset_id)


def _still_there(session: Session, project_id: str, body: TrainRequest) -> tuple[DatasetRow, DatasetRow | None]:
    """Return the data set of an earlier training, and that of its labels, if any, locked as for a new one."""
    datasets = DatasetRepository(session, project_id)
    dataset, labels = (_found(datasets.lock_for_use, each) for each in (body.dataset, body.labels.dataset))
    if dataset is None:
        raise InvalidRequest.of("body.dataset", f"{body.dataset}, the data set of that training, was deleted; {AGAIN}")
    if labels is None and body.labels.dataset is not None:
        said = f"{body.labels.dataset}, the data set of the labels of that training, was deleted; {AGAIN}"
        raise InvalidRequest.of("body.labels.dataset", said)
    return dataset, labels


def _feedback(session: Session, project_id: str, body: TrainRequest) -> tuple[int | None, int]:
    """Return up to where the feedback of a training goes, None if it has none, and how many rows that are."""
    if body.alias is None or not body.feedback:
        return None, 0
    feedback = FeedbackRepository(session, project_id)
    if feedback.last_seq(body.alias) is None:  # most have none, and need not wait for anybody
        return None, 0
    feedback.keep(body.alias)
    until = feedback.last_seq(body.alias)
    return until, 0 if until is None else feedback.count_rows(body.alias, until)


def _feedback_rows(session: Session, project_id: str, body: TrainRequest, until: int | None) -> int:
    """Return how many rows of feedback an earlier training would get now."""
    if body.alias is None or until is None:
        return 0
    feedback = FeedbackRepository(session, project_id)
    feedback.keep(body.alias)
    return feedback.count_rows(body.alias, until)


def _job(row: JobRow, model_id: str | None, request: dict[str, Any] | None = None) -> Job:
    """Return a job, with `request` in the place of its own where that was not loaded."""
    fields = {name: getattr(row, name) for name in Job.model_fields if name not in ("model_id", "request")}
    return Job(**fields, model_id=model_id, request=row.request if request is None else request)


def _as_accepted(found: tuple[JobRow, str | None] | None) -> Job:
    """Return the answer that the first of several equal requests got, whatever became of the job since."""
    job = _job(idempotency.existing(found, "job")[0], None)
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

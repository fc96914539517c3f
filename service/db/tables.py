"""The tables. The test database is built by the migrations, and a test compares the two."""

from __future__ import annotations

import builtins
from datetime import date, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    LargeBinary,
    MetaData,
    Sequence,
    Text,
    UniqueConstraint,
    false,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """Common base: names of constraints follow one convention, so that migrations can name them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 (SQLAlchemy reads it as it is)
        datetime: TIMESTAMP(timezone=True),
        str: Text,
        dict[str, Any]: JSONB,
        list[Any]: JSONB,
    }


ALIAS_REQUESTS = Sequence("alias_requests", metadata=Base.metadata)
WISH_WITHDRAWN = -1
"""Less than each number of a request for an alias, and than none (0)."""
"""Numbers the requests that want an alias moved, as they come: trainings that name it, and those made by hand."""
DEFAULT_PROJECT = "prj_" + 32 * "0"
"""The project that is there from the start. Without keys everything is in it; its admins run the installation."""


Content = bytes
"""For rows that tell their size as ``bytes``, which hides the type."""


class _Dated:
    """A row that says when it was made."""

    created_at: Mapped[datetime] = mapped_column(server_default=func.now(), sort_order=1)


class _Resource(_Dated):
    """A row that callers know by its id."""

    id: Mapped[str] = mapped_column(primary_key=True, sort_order=-2)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id", ondelete="RESTRICT"), sort_order=-1)
    """Whose row this is. It has no default, so that nobody forgets it."""


class ProjectRow(_Dated, Base):
    """Who owns data sets, jobs, models and aliases: nobody sees another project's."""

    __tablename__ = "projects"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    limits: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))
    """``requests_per_second``, ``queued_jobs``, ``running_jobs``, ``stored_bytes``; what is absent is not limited."""


class ApiKeyRow(_Resource, Base):
    """A key that lets somebody act for a project; its id is the public part. Of the secret only the SHA-256 is kept."""

    __tablename__ = "api_keys"

    name: Mapped[str]
    secret_sha256: Mapped[bytes] = mapped_column(LargeBinary)
    """Of 256 random bits, which no slow hash needs to protect."""
    scopes: Mapped[list[Any]]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    """To the minute."""

    __table_args__ = (
        Index(None, "project_id", "created_at", "id"),
        CheckConstraint("octet_length(secret_sha256) = 32", name="secret"),
    )


class SessionRow(_Resource, Base):
    """Somebody who has signed in to the pages. The id is the SHA-256 of what his browser holds, in hex."""

    __tablename__ = "sessions"

    key_id: Mapped[str]
    """The key that he signed in with: the session ends with it. The bootstrap key has no row that could be named."""
    expires_at: Mapped[datetime]

    __table_args__ = (Index(None, "key_id"), Index(None, "expires_at"))


class DatasetRow(_Resource, Base):
    """An upload that was read without an error. Its bytes are in the blob store under the two keys."""

    __tablename__ = "datasets"

    name: Mapped[str]
    format: Mapped[str]
    """Format of the upload: ``csv``, ``parquet``, …"""
    layout: Mapped[str]
    """Columnar form: ``table`` (Parquet, one column a feature) or ``matrix`` (sparse rows)."""
    bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str]
    rows: Mapped[int] = mapped_column(BigInteger)
    columns: Mapped[list[Any]]
    warnings: Mapped[list[Any]]
    options: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))
    """How the upload was read, with the kinds of columns that were corrected since."""
    duplicate_rows: Mapped[int | None] = mapped_column(BigInteger)
    dropped_rows: Mapped[int] = mapped_column(BigInteger, server_default="0")
    lines: Mapped[dict[str, Any] | None]
    """Of a csv or tsv file: how many it has, and which of them are no rows."""
    blob_key: Mapped[str]
    """The upload, byte by byte."""
    columnar_key: Mapped[str]
    """What the reader made of it; workers read this."""
    left_out: Mapped[dict[str, str]] = mapped_column(JSONB, server_default="{}")
    """Columns of the file that cannot be used, each with the reason."""
    columnar_sha256: Mapped[str | None]
    """Of that, for workers to look at; None for data sets from before there were checksums."""

    __table_args__ = (
        Index(None, "project_id", "created_at", "id"),
        CheckConstraint("layout IN ('table', 'matrix')", name="layout"),
    )


class UploadRow(_Resource, Base):
    """A file that arrives in parts. When the last byte is there, it is made into a data set."""

    __tablename__ = "uploads"

    bytes: Mapped[int] = mapped_column(BigInteger)
    """Of the whole file."""
    received: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Where the next part begins. A part is added together with its change of this, or not at all."""
    details: Mapped[dict[str, Any]]
    """``name``, ``filename``, ``format``, ``media_type``, ``options`` as the client said."""
    status: Mapped[str] = mapped_column(server_default="receiving")
    """``receiving``, ``received`` (waits to be read, or is being read), ``ready``, ``failed``."""
    claimed_until: Mapped[datetime | None]
    """Until when a process has said that it reads the file."""
    dataset_id: Mapped[str | None] = mapped_column(ForeignKey("datasets.id", ondelete="SET NULL"))
    error: Mapped[dict[str, Any] | None]
    """Why no data set could be made of it: ``type``, ``title``, ``status``, ``detail``, …"""
    expires_at: Mapped[datetime]

    __table_args__ = (
        CheckConstraint("status IN ('receiving', 'received', 'ready', 'failed')", name="status"),
        CheckConstraint("received >= 0 AND received <= bytes", name="received"),
        Index(None, "project_id"),
        Index(None, "dataset_id"),
        Index("ix_uploads_received", "created_at", postgresql_where=text("status = 'received'")),
        Index(None, "expires_at"),
    )


class UploadPartRow(Base):
    """Some bytes of an upload, in a blob of their own."""

    __tablename__ = "upload_parts"

    upload_id: Mapped[str] = mapped_column(ForeignKey("uploads.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    bytes: Mapped[int] = mapped_column(BigInteger)
    blob_key: Mapped[str]


class JobRow(_Resource, Base):
    """A job. This row is the only truth about it; a Celery message is a doorbell and nothing else.

    Status: ``queued`` (waits for a worker, first time or again), ``running`` (a worker holds the lease),
    ``succeeded``, ``failed``, ``cancelled`` (the three ends; a row never leaves them).
    """

    __tablename__ = "jobs"

    kind: Mapped[str] = mapped_column(server_default="train")
    """``train`` makes a model, ``batch`` predicts a data set, ``audit`` draws rows for somebody to look at."""
    status: Mapped[str] = mapped_column(server_default="queued")
    phase: Mapped[str | None]
    """What the running attempt does now: ``preparing``, ``reading``, ``features``, ``training``, ``evaluating``,
    ``refitting``, ``storing``, or ``predicting``."""
    progress: Mapped[float] = mapped_column(server_default="0")
    """Share of the running attempt that is done, 0 to 1."""
    attempt: Mapped[int] = mapped_column(server_default="0")
    """Claims so far. It is the fencing token: every write of a worker names the attempt that it claimed."""
    max_attempts: Mapped[int]
    request: Mapped[dict[str, Any]]
    dataset_id: Mapped[str | None] = mapped_column(ForeignKey("datasets.id", ondelete="SET NULL"))
    labels_dataset_id: Mapped[str | None] = mapped_column(ForeignKey("datasets.id", ondelete="SET NULL"))
    """The data set that has the labels of a training, where that is another one."""
    max_seconds: Mapped[float]
    started_at: Mapped[datetime | None]
    """Claim of the running or last attempt."""
    finished_at: Mapped[datetime | None]
    dispatched_at: Mapped[datetime | None]
    """When the dispatcher last rang for the row."""
    lease_until: Mapped[datetime | None]
    cancel_requested_at: Mapped[datetime | None]
    cancel_keep_best: Mapped[bool] = mapped_column(server_default=text("false"))
    """On cancel, keep the best model so far (the job then succeeds)."""
    error: Mapped[dict[str, Any] | None]
    """``{"code", "message", …}`` of a failed job."""
    retry_of: Mapped[str | None] = mapped_column(ForeignKey("jobs.id", ondelete="SET NULL"))
    """The job whose request this one repeats."""
    estimate: Mapped[dict[str, Any] | None]
    """What the job was thought to need when it was accepted."""
    warnings: Mapped[list[Any]] = mapped_column(server_default=text("'[]'"))
    """Texts for people: what they should know of the request before it has run."""
    alias_request: Mapped[int | None] = mapped_column(BigInteger)
    """Number of the request for its alias; a job that repeats another has the number of that one. `WISH_WITHDRAWN` once
    the alias was deleted."""
    wait_until: Mapped[datetime | None]
    """Not to be run again before: a disk was full."""
    feedback_until: Mapped[int | None] = mapped_column(BigInteger)
    """Feedback of its alias up to this ``seq`` is used, in each attempt; None: none is."""
    result: Mapped[dict[str, Any] | None]
    """Of a batch that succeeded: ``blob_key``, ``bytes``, ``sha256``, ``rows``, ``labels``, ``warnings``."""

    __table_args__ = (
        # Which kinds there are is said by `worker.kinds.registry`: a new one needs no migration.
        CheckConstraint("kind ~ '^[a-z][a-z0-9_-]{0,31}$'", name="kind"),
        CheckConstraint("status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')", name="status"),
        CheckConstraint("(status = 'running') = (lease_until IS NOT NULL)", name="lease"),
        CheckConstraint(
            "(status IN ('succeeded', 'failed', 'cancelled')) = (finished_at IS NOT NULL)", name="finished"
        ),
        CheckConstraint("attempt >= 0 AND progress >= 0 AND progress <= 1", name="ranges"),
        Index(None, "retry_of"),
        Index(None, "dataset_id"),
        Index(
            "ix_jobs_labels_dataset_id",
            "labels_dataset_id",
            postgresql_where=text("labels_dataset_id IS NOT NULL"),
        ),
        Index(None, "project_id", "created_at", "id"),
        Index("ix_jobs_open", "status", "created_at", postgresql_where=text("status IN ('queued', 'running')")),
        Index(
            "ix_jobs_open_of_project",
            *("project_id", "status", "created_at", "id"),
            postgresql_where=text("status IN ('queued', 'running')"),
        ),
        Index(None, "project_id", "started_at"),
    )


class WebhookRow(_Resource, Base):
    """An address of the user's that is told when a job of the project has ended."""

    __tablename__ = "webhooks"

    url: Mapped[str]
    secret: Mapped[bytes] = mapped_column(LargeBinary)
    """Key of the signatures. It cannot be kept as a hash, because each message is signed with it."""

    __table_args__ = (Index(None, "project_id", "created_at", "id"),)


class WebhookDeliveryRow(_Dated, Base):
    """A message for a webhook, written in the transaction that ended its job: an outbox.

    Status: ``pending`` (to be sent at ``next_attempt_at``), ``delivered``, ``dead`` (given up).
    """

    __tablename__ = "webhook_deliveries"

    id: Mapped[str] = mapped_column(primary_key=True)
    """Sent as ``webhook-id``: the same however often the message is sent."""
    webhook_id: Mapped[str] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"))
    job_id: Mapped[str]
    job_status: Mapped[str]
    status: Mapped[str] = mapped_column(server_default="pending")
    attempts: Mapped[int] = mapped_column(server_default="0")
    next_attempt_at: Mapped[datetime | None] = mapped_column(server_default=func.now())
    last_error: Mapped[str | None]
    delivered_at: Mapped[datetime | None]

    __table_args__ = (
        UniqueConstraint("webhook_id", "job_id"),
        CheckConstraint("status IN ('pending', 'delivered', 'dead')", name="status"),
        CheckConstraint("(status = 'pending') = (next_attempt_at IS NOT NULL)", name="due"),
        Index(None, "webhook_id", "created_at", "id"),
        Index("ix_webhook_deliveries_due", "next_attempt_at", postgresql_where=text("status = 'pending'")),
    )


class JobEventRow(_Dated, Base):
    """Something that happened to a job, in order; ``id`` is what ``Last-Event-ID`` names."""

    __tablename__ = "job_events"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    attempt: Mapped[int]
    kind: Mapped[str]
    """``queued``, ``started``, ``progress``, ``round``, ``parts``, ``warning``, ``requeued``, ``cancelling``,
    ``finished``."""
    data: Mapped[dict[str, Any]]

    __table_args__ = (Index(None, "job_id", "id"),)


class WorkerRow(_Dated, Base):
    """A worker process that lives, or lived a moment ago: whom the work of one job could be shared with."""

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(primary_key=True)
    slots: Mapped[int]
    """Jobs or parts that it runs side by side."""
    numerics: Mapped[str]
    """Where this is the same, the same computation gives the same bits: libraries, processor, device."""
    seen_at: Mapped[datetime] = mapped_column(server_default=func.now())
    """When it last said that it lives."""


class JobPartRow(_Dated, Base):
    """A piece of one attempt at a job that any worker may compute: a cell of a grid, a fold.

    Status: ``waiting``, ``running`` (a worker holds the lease), ``done``. A part means something only as long as the
    job runs in the attempt that made it.
    """

    __tablename__ = "job_parts"

    id: Mapped[str] = mapped_column(primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    job_attempt: Mapped[int]
    """The attempt at the job that this is a part of."""
    stage: Mapped[str]
    """What of the training it belongs to, as the solver calls it."""
    number: Mapped[int]
    """Which part of the stage, from 0."""
    owner_id: Mapped[str]
    """The worker that runs the job."""
    numerics: Mapped[str]
    """Of that worker: only its equals may take the part."""
    cache_bytes: Mapped[int] = mapped_column(BigInteger)
    """What that one has for kernel rows: the order of sums depends on what is kept."""
    status: Mapped[str] = mapped_column(server_default="waiting")
    attempt: Mapped[int] = mapped_column(server_default="0")
    """Claims of the part so far; it fences as that of a job does."""
    worker_id: Mapped[str | None]
    """Who holds or has computed it."""
    lease_until: Mapped[datetime | None]
    dispatched_at: Mapped[datetime | None]
    """When the dispatcher last rang for it."""
    result: Mapped[bytes | None] = mapped_column(LargeBinary)
    """Named arrays, of a part that another worker than the job's own has computed."""

    __table_args__ = (
        UniqueConstraint("job_id", "job_attempt", "stage", "number"),
        CheckConstraint("status IN ('waiting', 'running', 'done')", name="status"),
        CheckConstraint("(status = 'running') = (lease_until IS NOT NULL)", name="lease"),
    )


class ModelRow(_Resource, Base):
    """A trained model: what people look at. Its arrays are in ``model_chunks``."""

    __tablename__ = "models"

    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id", ondelete="SET NULL"), unique=True)
    """At most one model a job, whatever happens."""
    dataset_id: Mapped[str | None] = mapped_column(ForeignKey("datasets.id", ondelete="SET NULL"))
    algorithm: Mapped[str]
    manifest: Mapped[dict[str, Any]]
    """The JSON manifest of the model file, for looking at without the arrays."""
    report: Mapped[dict[str, Any]]
    bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str]
    """Over the bytes of all chunks in order."""
    labelled_rows: Mapped[builtins.bytes | None] = mapped_column(LargeBinary, deferred=True)
    """Fingerprints of the rows that had a label (`solver.labelled_rows`); None for models of before."""
    kept_rows: Mapped[builtins.bytes | None] = mapped_column(LargeBinary, deferred=True)
    """Labelled rows as the model saw them (`solver.nearest`), 4 MiB at most; None for models of before."""
    left_out: Mapped[builtins.bytes | None] = mapped_column(LargeBinary, deferred=True)
    """Of several classes: what another rule is chosen by (`solver.multiclass.choosing`), some 4 MiB at most; None for
    models of before."""

    __table_args__ = (
        Index(None, "project_id", "created_at", "id"),
        Index(None, "dataset_id"),
        # For the foreign keys that hold an alias and its model together in one project.
        UniqueConstraint("project_id", "id"),
    )


class ModelChunkRow(Base):
    """One MiB of a model file. Chunks keep the memory of writer and reader flat; a ``bytea`` also ends at 1 GB."""

    __tablename__ = "model_chunks"

    model_id: Mapped[str] = mapped_column(ForeignKey("models.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    data: Mapped[bytes] = mapped_column(LargeBinary)


class TextEncoderRow(_Resource, Base):
    """An encoder of texts that a project has vectors of."""

    __tablename__ = "text_encoders"

    model: Mapped[str]
    """What it is called where it runs."""
    probe_texts_sha256: Mapped[bytes] = mapped_column(LargeBinary)
    probes: Mapped[bytes] = mapped_column(LargeBinary)
    """What it made of these texts, as float32: by this it is known again."""

    __table_args__ = (Index(None, "project_id", "model"),)


class TextVectorRow(Base):
    """What an encoder made of a text, of which the SHA-256 is kept alone."""

    __tablename__ = "text_vectors"

    encoder_id: Mapped[str] = mapped_column(ForeignKey("text_encoders.id", ondelete="CASCADE"), primary_key=True)
    sha256: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id", ondelete="RESTRICT"))
    vector: Mapped[bytes] = mapped_column(LargeBinary)
    """As float32, little-endian."""
    used_at: Mapped[datetime] = mapped_column(server_default=func.now())
    """To the day."""

    __table_args__ = (Index(None, "project_id", "used_at"),)


class ModelStatisticsRow(Base):
    """What a model met and said in ``POST /predict`` and the Open Inference Protocol, on one day of UTC."""

    __tablename__ = "model_statistics"

    project_id: Mapped[str] = mapped_column(primary_key=True)
    model_id: Mapped[str] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    threshold: Mapped[float] = mapped_column(Double, primary_key=True)
    """Above which it said the positive class (inf: of no row): shares of different thresholds must not be mixed. Of
    several classes a number that stands for the rule, see `service.models.class_drift`."""
    rows: Mapped[int] = mapped_column(BigInteger)
    outside_range: Mapped[int] = mapped_column(BigInteger)
    """Rows with a score beyond those of the calibration rows."""
    positive: Mapped[int] = mapped_column(BigInteger)
    undecided: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Rows without a label."""
    unseen: Mapped[dict[str, Any]]
    """Column to the number of rows with a category that training never saw."""
    said: Mapped[dict[str, Any]] = mapped_column(server_default="{}")
    """Of several classes, class to the number of rows that were said to be of it."""

    __table_args__ = (
        ForeignKeyConstraint(["project_id", "model_id"], ["models.project_id", "models.id"], ondelete="CASCADE"),
    )


class OperatingPointRow(Base):
    """A threshold, or of several classes a rule, that was given to a model after its training.

    The newest one decides; rows are never changed.
    """

    __tablename__ = "operating_points"

    id: Mapped[str] = mapped_column(primary_key=True)
    model_id: Mapped[str] = mapped_column(ForeignKey("models.id", ondelete="CASCADE"))
    objective: Mapped[dict[str, Any]]
    threshold: Mapped[float | None]
    """None of several classes."""
    rule: Mapped[dict[str, Any] | None]
    """Of several classes, see `solver.multiclass.ClassRule`; None: that of the training."""
    picked: Mapped[bool] = mapped_column(server_default=false())
    """Whether somebody took this very threshold, which is not the one that is chosen for the objective."""
    status: Mapped[str]
    status_reason: Mapped[str]
    calibration: Mapped[dict[str, Any] | None]
    """Measures on the calibration rows; of several classes `solver.classes_report.ClassesFigures`."""
    abstain: Mapped[dict[str, Any] | None]
    """Which scores around the threshold get no label, see `solver.report.Abstention`; None: each row gets one."""
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    """Not the start of the transaction: writers wait for the lock of the model, and the last one must be the newest."""

    __table_args__ = (Index(None, "model_id", "created_at", "id"),)


class AliasRow(Base):
    """A name, such as ``spam-filter``, that points at one model now."""

    __tablename__ = "aliases"

    project_id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    model_id: Mapped[str]
    shadow_id: Mapped[str | None]
    """A model that scores the same rows without a say in the answers."""
    request: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Number of the request that moved it last: a job that was asked for before that does not move it."""
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())

    __table_args__ = (
        Index(None, "model_id"),
        Index(None, "shadow_id"),
        CheckConstraint("shadow_id <> model_id", name="shadow"),
        ForeignKeyConstraint(["project_id", "model_id"], ["models.project_id", "models.id"], ondelete="RESTRICT"),
        ForeignKeyConstraint(["project_id", "shadow_id"], ["models.project_id", "models.id"], ondelete="RESTRICT"),
    )


class AliasChangeRow(_Dated, Base):
    """Every move of an alias, oldest first."""

    __tablename__ = "alias_changes"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id", ondelete="RESTRICT"))
    name: Mapped[str]
    model_id: Mapped[str]
    restores: Mapped[int | None] = mapped_column(BigInteger)
    """Set on a rollback: the earlier change that it went back to. The next rollback starts from there."""

    __table_args__ = (Index(None, "project_id", "name", "id"),)


class FeedbackRow(_Resource, Base):
    """Rows with their right labels, sent for an alias: its next training learns them."""

    __tablename__ = "feedback"

    seq: Mapped[int] = mapped_column(BigInteger, Identity())
    """Order of arrival. That of one alias has no gaps that could still be filled: writers follow each other."""
    alias: Mapped[str]
    model_id: Mapped[str]
    """What the alias pointed at then: the rows were checked against it."""
    rows: Mapped[int]
    labels: Mapped[dict[str, Any]]
    """Label to number of rows."""
    source: Mapped[str] = mapped_column(server_default="person")
    """Who gave the labels, or what concluded them: see `solver.corrections.Corrections`."""
    bytes: Mapped[int] = mapped_column(BigInteger)
    content: Mapped[Content] = mapped_column(LargeBinary, deferred=True)
    """``{"rows": […], "labels": […], "meant": {…}}`` as JSON in one line, and ``"drawn": "random"`` if chance chose
    them, see `solver.corrections.Corrections`; of the rows of an audit ``"audited": [true, …]``, true where it did so
    at one rate."""

    __table_args__ = (
        Index(None, "project_id", "alias", "seq"),
        Index(None, "project_id", "created_at", "id"),
        ForeignKeyConstraint(["project_id", "alias"], ["aliases.project_id", "aliases.name"], ondelete="CASCADE"),
    )


class AuditRow(_Resource, Base):
    """A target of a model that is to be proved on the unlabelled rows of a data set, by looking at few of them."""

    __tablename__ = "audits"

    model_id: Mapped[str]
    dataset_id: Mapped[str | None] = mapped_column(ForeignKey("datasets.id", ondelete="SET NULL"))
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id", ondelete="SET NULL"))
    """The job that draws the rows."""
    objective: Mapped[dict[str, Any]]
    confidence: Mapped[float] = mapped_column(Double)
    pool: Mapped[dict[str, Any] | None]
    """What the rows were drawn from, and how; None until they are."""
    bytes: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Of the rows."""
    answered: Mapped[int] = mapped_column(server_default="0")
    corrected: Mapped[int] = mapped_column(server_default="0")
    verdict: Mapped[dict[str, Any] | None]
    """Of all answers so far: ``standing``, ``bound``, ``estimate``, ``decided_after``, ``threshold``; of several
    thresholds these of the last that is proven, or the first, and of each one under ``tried``."""
    sealed_at: Mapped[datetime | None]
    """Since when nothing changes any more."""
    feedback_id: Mapped[str | None]
    """What the answers became."""

    __table_args__ = (
        Index(None, "project_id", "created_at", "id"),
        Index(None, "project_id", "model_id"),
        Index(None, "dataset_id"),
        Index(None, "job_id"),
        ForeignKeyConstraint(["project_id", "model_id"], ["models.project_id", "models.id"], ondelete="CASCADE"),
    )


class AuditItemRow(Base):
    """A row that an audit has drawn, and what somebody has said of it."""

    __tablename__ = "audit_rows"

    audit_id: Mapped[str] = mapped_column(ForeignKey("audits.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    """In the order of the draw, from 1."""
    row: Mapped[int] = mapped_column(BigInteger)
    """Number in the data set, from 0."""
    stratum: Mapped[int]
    """Which part of the pool it was drawn from, see `solver.audits`."""
    score: Mapped[float] = mapped_column(Double)
    probability: Mapped[float | None] = mapped_column(Double)
    key: Mapped[str | None]
    content: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    """What the model sees of it, as JSON."""
    label: Mapped[str | None]
    answered_at: Mapped[datetime | None]

    __table_args__ = (UniqueConstraint("audit_id", "row"),)


class ShadowStatisticsRow(_Dated, Base):
    """How the shadow of an alias and the model that answers decided on the same rows."""

    __tablename__ = "shadow_statistics"

    project_id: Mapped[str] = mapped_column(primary_key=True)
    alias: Mapped[str] = mapped_column(primary_key=True)
    model_id: Mapped[str] = mapped_column(primary_key=True)
    shadow_id: Mapped[str] = mapped_column(primary_key=True)
    pairs: Mapped[dict[str, Any]]
    """The two labels, with a tab between them, to the number of rows."""
    dropped: Mapped[int] = mapped_column(BigInteger)
    """Rows that the shadow did not see because it was behind."""
    failed: Mapped[int] = mapped_column(BigInteger)
    """Rows that do not fit the shadow."""
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())

    __table_args__ = (
        ForeignKeyConstraint(["project_id", "alias"], ["aliases.project_id", "aliases.name"], ondelete="CASCADE"),
        ForeignKeyConstraint(["project_id", "model_id"], ["models.project_id", "models.id"], ondelete="CASCADE"),
        ForeignKeyConstraint(["project_id", "shadow_id"], ["models.project_id", "models.id"], ondelete="CASCADE"),
    )


class ShadowDisagreementRow(_Dated, Base):
    """A row on which the shadow of an alias decided otherwise, without the row itself; only the last ones are kept."""

    __tablename__ = "shadow_disagreements"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    project_id: Mapped[str]
    alias: Mapped[str]
    model_id: Mapped[str]
    shadow_id: Mapped[str]
    row_sha256: Mapped[bytes] = mapped_column(LargeBinary)
    label: Mapped[str]
    shadow_label: Mapped[str]
    score: Mapped[float] = mapped_column(Double)
    shadow_score: Mapped[float] = mapped_column(Double)

    __table_args__ = (
        Index(None, "project_id", "alias", "id"),
        ForeignKeyConstraint(
            ["project_id", "alias", "model_id", "shadow_id"],
            [f"shadow_statistics.{name}" for name in ("project_id", "alias", "model_id", "shadow_id")],
            name="fk_shadow_disagreements_shadow_statistics",
            ondelete="CASCADE",
        ),
    )


class IdempotencyKeyRow(_Dated, Base):
    """A create that carried an ``Idempotency-Key``: the same key and body answer with the same resource."""

    __tablename__ = "idempotency_keys"

    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True)
    operation: Mapped[str] = mapped_column(primary_key=True)
    """Operation id of the create, so that one key can be used with each."""
    key: Mapped[str] = mapped_column(primary_key=True)
    request_sha256: Mapped[str]
    resource_id: Mapped[str]

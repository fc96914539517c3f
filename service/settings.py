"""Everything that can be configured, read once from ``PREFSVM_…`` variables and passed down."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from solver.choices import MAX_ENCODED_DIMENSIONS

MIB = 1 << 20
GIB = 1 << 30
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Grace = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Seconds; 0 is none."""
Count = Annotated[int, Field(ge=1)]
Days = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Settings(BaseSettings):
    """Settings of every process of the product.

    Each field is read from the environment variable ``PREFSVM_`` + its upper-cased name. Sizes are bytes, times are
    seconds. There is no global instance: ``create_app``, the dispatcher and the worker are each handed one.
    """

    model_config = SettingsConfigDict(env_prefix="PREFSVM_", extra="ignore", frozen=True)

    database_url: str | None = None
    """Postgres, as ``postgresql://…``. Unset: ``prefsvm serve`` starts one of its own."""
    system_database_url: str | None = None
    """The same Postgres as a role that sees all projects, for what the API does for no single caller. Unset:
    `database_url`, whose role then sees them all."""
    broker_url: str | None = None
    """Redis protocol server, ``redis://…`` or ``redis+socket://…``. Unset: ``prefsvm serve`` starts one of its own."""
    data_dir: Path = Path("prefsvm-data")
    """Folder of the local stack; uploads live in ``blobs/`` below it unless ``blob_url`` says otherwise."""
    blob_url: str | None = None
    """Folder or fsspec address (``s3://bucket/prefix``) of the blob store. Unset: ``data_dir/blobs``."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    allowed_hosts: str = ""
    """Names, separated by commas, that the Host header may have besides those of the loopback address. Unset: any where
    keys are required, none where they are not."""
    trusted_proxies: str = "127.0.0.1"
    """Addresses, separated by commas, or ``*``, that are believed when they say where a request came from."""
    keys_required: bool | None = None
    """Whether every call needs an API key. Unset: yes, unless `host` is a loopback address."""
    bootstrap_key: SecretStr | None = None
    """An API key that needs no database: an admin of the default project, for making the first keys."""
    bootstrap_key_file: Path | None = None
    """File that holds `bootstrap_key`."""
    docs: bool = True
    """Whether ``/docs`` and ``/openapi.json`` are there."""
    ui: bool = True
    """Whether the pages below ``/ui`` are there."""
    ui_session_seconds: Seconds = 12 * 3600.0
    """How long somebody who has signed in to the pages need not do so again."""

    max_body_bytes: Count = MIB * 32
    """Largest JSON body of a request other than an upload."""
    max_upload_bytes: Count = GIB * 10
    upload_expire_seconds: Seconds = 24 * 3600.0
    """What has arrived of a resumable upload is thrown away when no more has arrived for this long."""
    max_rows: Count = 50_000_000
    max_feature_index: Count = 1_000_000
    """Largest feature index that a svmlight file may name."""
    max_cells: Count = 4_000_000_000
    """Largest rows × columns after decoding."""
    max_line_bytes: Count = MIB
    """Longest line of a text format."""
    ingest_memory_bytes: Count = GIB * 4
    """Address space of the child that reads an upload. It also says how many columns there may be."""
    ingest_seconds: Seconds = 900.0
    """Longest time the child that reads an upload may take."""
    ingest_slots: Count = 2
    """Uploads that are read at the same time; further ones wait."""

    lease_seconds: Seconds = 30.0
    """A worker that has not renewed its claim for this long has lost the job."""
    max_attempts: Count = 3
    """A job whose worker was lost this often has failed."""
    job_memory_bytes: Count = GIB * 8
    """Memory of the child that runs one job."""
    job_max_seconds: Seconds = 24 * 3600.0
    """Longest ``max_seconds`` that a request may ask for, and the default."""
    job_hung_seconds: Seconds = 300.0
    """A job whose process says nothing and uses no processor time for so long is ended and tried again."""
    worker_slots: Count = 1
    """Jobs that one worker runs side by side."""
    stop_grace_seconds: Grace = 15.0
    """A training that was asked to stop and keep its best model is killed after this long."""
    shutdown_grace_seconds: Grace = 1.0
    """A job that ends within this time of the worker's SIGTERM is not handed to another worker."""
    dispatch_seconds: Seconds = 0.5
    """How often the dispatcher looks for quiet jobs when nobody wakes it."""
    redispatch_seconds: Seconds = 15.0
    """A queued job that was rung for this long ago without being claimed is rung for again."""

    retain_events_days: Days | None = None
    """Events of jobs that ended longer ago are deleted. Unset: they stay, as with all of these."""
    retain_jobs_days: Days | None = None
    """Jobs that ended longer ago are deleted with their events; their models stay."""
    retain_models_days: Days | None = None
    """Models that are older are deleted, unless an alias points at them."""
    retain_datasets_days: Days | None = None
    """Data sets are deleted when they are older and no job has used them for as long; so are vectors of texts."""
    retain_feedback_days: Days | None = None
    """Feedback that is older is deleted, and later trainings do without it."""
    retain_idempotency_keys_days: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = 30
    """How long a repeated create with the same Idempotency-Key is recognised."""
    retention_seconds: Seconds = 3600.0
    """How often the API looks for what is too old."""

    webhook_private: bool = False
    """Send webhooks to private addresses, other ports and over plain HTTP too: for tests and one's own machine only."""

    encoder_url: str | None = None
    """Base address of an encoder of texts that speaks as OpenAI's does: ``http://localhost:11434/v1``. Unset: texts are
    their words."""
    encoder_model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """What the encoder is called where it runs."""
    encoder_folder: Path | None = None
    """Folder with an encoder that ``prefsvm encoder install`` has checked: ``prefsvm serve`` runs it, and needs no
    `encoder_url`."""
    encoder_key: SecretStr | None = None
    """Sent to the encoder as a bearer token."""
    encoder_key_file: Path | None = None
    """File that holds `encoder_key`."""
    encoder_prefix: Annotated[str, Field(max_length=200)] = ""
    """Set before each text that is sent to the encoder: some were trained so, as those called e5 with ``query: ``."""
    encoder_dimensions: Annotated[int, Field(ge=1, le=MAX_ENCODED_DIMENSIONS)] | None = None
    """Numbers of a vector that the encoder is asked for. Unset: as many as it makes."""
    encoder_batch: Annotated[int, Field(ge=1, le=256)] = 32
    """Texts of one request to the encoder."""
    encoder_at_once: Annotated[int, Field(ge=1, le=32)] = 2
    """Requests of one job, or prediction, that are under way to the encoder at a time."""
    encoder_seconds: Seconds = 30.0
    """Longest time of one request to the encoder."""
    encoder_probe_seconds: Seconds = 60.0
    """How often an encoder that is in use is asked whether it still makes the vectors that models were trained with."""
    encoder_cache_bytes: Annotated[int, Field(ge=0)] = MIB * 256
    """Vectors of texts that are kept for the next training, for each project. 0: none."""

    otlp_endpoint: str | None = None
    """Base address of an OpenTelemetry collector (OTLP over HTTP). Unset: no traces."""

    model_cache_bytes: Annotated[int, Field(ge=0)] = MIB * 512
    """Decision functions kept ready for ``POST /predict``, in one API process."""
    max_predict_rows: Count = 10_000
    """Rows of one ``POST /predict`` or ``POST /feedback``."""
    max_feedback_rows: Annotated[int, Field(ge=0)] = 100_000
    """Corrected rows that are kept for one alias."""
    predict_memory_bytes: Count = MIB * 256
    """Memory for the bodies of all ``POST /predict`` that one API process serves at a time, and as much again for the
    JSON of all other calls; beyond it they get 503."""

    mail_listen: str = ""
    """Where mail software is answered: ``host:port`` or the path of a Unix socket, several separated by commas. Empty:
    nowhere."""
    mail_listen_anywhere: bool = False
    """Whether `mail_listen` may name addresses that other machines reach. Its protocols know no password."""
    mail_model: str = "spam-filter"
    """Alias of the model that decides on mails. Who has one of his own, is decided by that: ``…``, a point and the user
    (``-at-`` for ``@``)."""
    mail_key: SecretStr | None = None
    """API key that the mail filter acts with: with the scope ``read``, and ``write`` if it learns."""
    mail_key_file: Path | None = None
    """File that holds `mail_key`."""
    mail_learn: bool = False
    """Whether mail software may say what is spam and what is not."""
    mail_learn_correspondents: bool = False
    """Whether mails of people that a user writes to may be learned as good ones without anybody having said so."""
    mail_correspondent_weight: Annotated[float, Field(gt=0, le=1)] = 1.0
    """How much such a mail counts in a training, where one has 1 of which somebody has said what it is."""
    mail_learn_traps: bool = False
    """Whether what comes to addresses that nobody uses may be learned as spam."""
    mail_trap_weight: Annotated[float, Field(gt=0, le=1)] = 1.0
    """How much such a mail counts in a training."""
    mail_chat: bool = False
    """Whether the mail filter also answers ``POST /v1/chat/completions``, for add-ons that ask a language model."""
    mail_seconds: Seconds = 2.0
    """A mail that is not decided on within this time is passed on as it came."""
    mail_tempfail: bool = False
    """Answer with an error where nothing can be said of a mail, so that it is tried again, rather than pass it on."""
    mail_min_labels: Annotated[int, Field(ge=0)] = 10
    """Labelled mails of each class that a model must have learned from before it marks any."""
    mail_processes: Annotated[int, Field(ge=0, le=64)] = 0
    """Processes that decide on mails; 0: as many as there are processors, up to 4. 1: the one that listens decides."""
    mail_connections: Count = 100
    """Connections of mail software at a time."""
    mail_memory_bytes: Count = MIB * 128
    """Memory for all mails that are being looked at (5 bytes a byte); a mail for which there is none is passed on."""

    @field_validator("database_url", "system_database_url")
    @classmethod
    def _name_the_driver(cls, value: str | None, info: ValidationInfo) -> str | None:
        """Say psycopg to SQLAlchemy, which would otherwise look for psycopg2."""
        if value is None:
            return None
        for prefix in ("postgresql://", "postgres://"):
            if value.startswith(prefix):
                return "postgresql+psycopg://" + value.removeprefix(prefix)
        if not value.startswith("postgresql+psycopg://"):
            raise ValueError(f"PREFSVM_{str(info.field_name).upper()} must begin with postgresql://")
        return value

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the API."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def keys_are_required(self) -> bool:
        """Whether every call needs an API key."""
        return not self.on_loopback if self.keys_required is None else self.keys_required

    @property
    def host_names(self) -> list[str] | None:
        """The names that the Host header may have; None: any."""
        given = [name.strip().lower() for name in self.allowed_hosts.split(",") if name.strip()]
        return [*LOOPBACK_NAMES, *given] if given or not self.keys_are_required else None

    @property
    def blob_location(self) -> str:
        """Where uploads are kept: a folder or an fsspec address."""
        return self.blob_url if self.blob_url is not None else str(self.data_dir.absolute() / "blobs")


class ConfigurationError(Exception):
    """Raised at start when settings contradict each other, or would let everybody in, or nobody."""


def secret_of(name: str, given: SecretStr | None, file: Path | None) -> tuple[str, str] | None:
    """Return where a secret stands, in words, and the secret, of a setting or of the file that ``…_FILE`` names.

    Raises
    ------
    ConfigurationError
        If both are set, or the file cannot be read.
    """
    if given is not None and file is not None:
        raise ConfigurationError(f"{name} and {name}_FILE are both set; set one of them")
    if given is not None:
        return name, given.get_secret_value().strip()
    if file is None:
        return None
    where = f"the file {file} of {name}_FILE"
    try:
        return where, file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{where} cannot be read: {type(error).__name__}") from None

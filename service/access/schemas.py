"""What ``/keys``, ``/projects`` and ``/limits`` take and give."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field

from service.access.caller import Scope
from service.schemas import Answer, Body

EXAMPLE_KEY = "pfs_3kTq9ZbX"
EXAMPLE_PROJECT = "prj_0192f0c1d5a67b3e8f0a1b2c3d4e5f64"


def _printable(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise ValueError("should have no control characters and no space around it")
    return text


Name = Annotated[str, Field(min_length=1, max_length=100, examples=["mail server"]), AfterValidator(_printable)]


class CreateKey(Body):
    """A key to make."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "mail server", "scopes": ["read"], "expires_in_days": 90}]}
    )

    name: Name
    scopes: list[Scope] = Field(
        min_length=1,
        max_length=3,
        description="`read`: look and predict; `write`: make, change and delete; `admin`: keys and projects. "
        "None includes another.",
    )
    expires_in_days: float | None = Field(default=None, gt=0, le=3660, description="Null: it does not expire.")
    project: str | None = Field(
        default=None,
        max_length=100,
        description="Whose key it is; null: your own project. Others only for admins of the default project.",
    )


class Key(Answer):
    """A key without its secret, which is nowhere kept."""

    id: str = Field(description="How the key begins.", examples=[EXAMPLE_KEY])
    project_id: str = Field(examples=[EXAMPLE_PROJECT])
    name: str
    scopes: list[Scope]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None = Field(description="To the minute.")


class NewKey(Key):
    """A key with its secret: shown this once."""

    key: str = Field(description="Send it as `Authorization: Bearer …`. It cannot be shown again.")


class CreateProject(Body):
    """A project to make."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "newsletters", "limits": {"queued_jobs": 20, "running_jobs": 1}}]}
    )

    name: Name
    limits: LimitsBody | None = Field(default=None, description="Null: the usual ones.")


class ChangeProject(Body):
    """New limits of a project, in place of all the old ones."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"limits": {"queued_jobs": 50, "running_jobs": 4}}]})

    limits: LimitsBody


class LimitsBody(Body):
    """What a project may use; null is without limit, and what is left out is as usual for a new project."""

    requests_per_second: float | None = Field(
        default=50.0, gt=0, le=1e6, description="On average, in each process of the API."
    )
    queued_jobs: int | None = Field(default=100, ge=0, le=10**9, description="Jobs that wait for a worker.")
    running_jobs: int | None = Field(default=2, ge=1, le=10**9, description="Jobs that run at the same time.")
    stored_bytes: int | None = Field(
        default=10 << 30, ge=0, lt=2**53, description="Uploads, models and results of batches together."
    )


class Limits(Answer):
    """What a project may use; null is without limit."""

    requests_per_second: float | None = None
    queued_jobs: int | None = None
    running_jobs: int | None = None
    stored_bytes: int | None = None


class Usage(Answer):
    """What a project uses now."""

    queued_jobs: int
    running_jobs: int
    stored_bytes: int


class Retention(Answer):
    """After how many days things are deleted by themselves, as the settings of the service say; null: never."""

    jobs_days: float | None = Field(default=None, description="Since a job ended; its model stays.")
    events_days: float | None = Field(default=None, description="Events of jobs, since these ended.")
    models_days: float | None = Field(default=None, description="Since a model was made, unless an alias points at it.")
    datasets_days: float | None = Field(default=None, description="Since an upload, or the last job that used it.")
    feedback_days: float | None = Field(default=None, description="Since it was sent.")


class LimitsAnswer(Answer):
    """The limits of the caller's project beside what it uses."""

    project_id: str = Field(examples=[EXAMPLE_PROJECT])
    limits: Limits
    usage: Usage
    retention: Retention


class Project(Answer):
    """Who owns data sets, jobs, models and aliases. Nobody sees another project's."""

    id: str = Field(examples=[EXAMPLE_PROJECT])
    name: str
    limits: Limits
    created_at: datetime


CreateProject.model_rebuild()
ChangeProject.model_rebuild()

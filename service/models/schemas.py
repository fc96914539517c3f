"""What ``/models`` and ``/aliases`` take and give."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from service.schemas import AliasName, Answer, Body


class Estimate(Answer):
    """A measure with its confidence interval; null where it is undefined, such as precision with nothing positive."""

    value: float | None
    low: float | None
    high: float | None


class Measures(Answer):
    """Counts and measures on one set of rows."""

    n: int
    true_positives: int
    false_positives: int
    true_negatives: int
    false_negatives: int
    precision: Estimate
    recall: Estimate
    f1: Estimate
    confidence: float = Field(description="Level of the intervals.")


class Control(Answer):
    """What a simpler method reached on the same rows."""

    threshold: float | None = None
    calibration: Measures | None = None
    test: Measures | None = None


class Classes(Answer):
    """Names of the two classes."""

    negative: str
    positive: str


class Report(Answer):
    """What was asked, what was reached, how, and what it cost."""

    # A newer worker may say more than this version of the API knows.
    model_config = ConfigDict(extra="allow")

    algorithm: str
    params: dict[str, Any]
    objective: dict[str, Any]
    status: str = Field(
        description="`met`, `preference_unmet`, `cannot_certify`, `solver_limit` or `stopped`.", examples=["met"]
    )
    status_reason: str = Field(description="One sentence; empty if the objective was met.")
    threshold: float = Field(description="The decision is score > threshold.")
    classes: Classes
    rows: dict[str, int]
    calibration: Measures | None = Field(description="On the rows that the threshold was chosen on.")
    test: Measures | None = Field(description="On rows that nothing was fitted to; null without a test fraction.")
    controls: dict[str, Control] = Field(
        default={},
        description="`no_unlabelled`: the same method without the unlabelled rows. `plain_svm`: at threshold 0.",
    )
    rounds: list[dict[str, Any]] = Field(default_factory=list)
    solver: dict[str, Any] = Field(default_factory=dict)
    timings: dict[str, float] = Field(default={}, description="Seconds of each phase.")
    peak_memory_bytes: int | None = None
    warnings: list[str] = Field(default_factory=list)


class ModelSummary(Answer):
    """A model in a list."""

    id: str
    job_id: str | None
    dataset_id: str | None
    algorithm: str
    objective: dict[str, Any]
    status: str
    threshold: float
    aliases: list[str]
    bytes: int
    sha256: str
    created_at: datetime


class Model(ModelSummary):
    """A model with its report."""

    report: Report


class CurvePoint(Answer):
    """One threshold of a curve."""

    threshold: float


class PrecisionRecallPoint(CurvePoint):
    """One threshold of the precision-recall curve; precision is null where nothing is predicted positive."""

    precision: float | None
    recall: float | None


class RocPoint(CurvePoint):
    """One threshold of the receiver operating characteristic."""

    false_positive_rate: float | None
    true_positive_rate: float | None


class PrecisionRecallCurve(Answer):
    """Precision against recall on the calibration rows, for thresholds from high to low."""

    kind: Literal["pr"] = "pr"
    threshold: float = Field(description="The one that the model uses.")
    points: list[PrecisionRecallPoint]


class RocCurve(Answer):
    """True against false positive rate on the calibration rows, for thresholds from high to low."""

    kind: Literal["roc"] = "roc"
    threshold: float = Field(description="The one that the model uses.")
    points: list[RocPoint]


Curve = Annotated[PrecisionRecallCurve | RocCurve, Field(discriminator="kind")]


class PutAlias(Body):
    """Where an alias shall point."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"model": "mdl_0192f0c1d5a67b3e8f0a1b2c3d4e5f62"}]})

    model: str = Field(description="Id of a model.", max_length=100)


class Alias(Answer):
    """A name and the model that it points at."""

    name: AliasName
    model_id: str
    updated_at: datetime


class AliasPage(Answer):
    """One page of aliases, by name."""

    items: list[Alias]
    next_cursor: str | None = Field(description="Send it as `cursor` for the next page; null on the last one.")

"""What ``/models`` and ``/aliases`` take and give."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from service.models.objectives import ObjectiveBody
from service.schemas import AliasName, Answer, Body
from solver.classes_report import ClassesFigures as ClassesFigures  # for the pages, too
from solver.classes_report import FloorOutcome
from solver.classes_report import MulticlassReport as MulticlassReport
from solver.report import Abstention, Estimate, Measures, ModelColumn, Promise, Report


class ModelSummary(Answer):
    """A model in a list."""

    id: str
    job_id: str | None
    dataset_id: str | None
    algorithm: str
    objective: dict[str, Any] = Field(
        description="This, `status`, `threshold` and `promise` are of the point in use: of `operating_point`, the one "
        "applied last, or while that is null of the training, which `report` tells. Empty for a damaged model."
    )
    status: str = Field(
        description="Of the point in use; `damaged` where the stored report is not whole: every other call that needs "
        "it says so with `damaged-model`."
    )
    threshold: float | None = Field(
        description="The one in use. Null for a damaged model, and for one of several classes, which has none."
    )
    abstain: Abstention | None = Field(
        default=None, description="Of the point in use: which scores get no label. Null: each row gets one."
    )
    promise: Promise | None = Field(default=None, description="What can be relied on of the threshold in use.")
    proven_by: str | None = Field(
        default=None,
        description="Audit that has proven the target of the threshold in use, whatever the labelled rows promise.",
    )
    refuted_by: str | None = Field(
        default=None,
        description="Newest audit that has refuted a target of the threshold in use, but for one that is stricter "
        "than what was asked.",
    )
    aliases: list[str]
    bytes: int
    sha256: str
    created_at: datetime


EXAMPLE_MEASURES: JsonDict = {
    "n": 200,
    "true_positives": 57,
    "false_positives": 3,
    "true_negatives": 135,
    "false_negatives": 5,
    "precision": {"value": 0.95, "low": 0.863, "high": 0.983},
    "recall": {"value": 0.919, "low": 0.825, "high": 0.965},
    "f1": {"value": 0.934, "low": 0.883, "high": 0.976},
    "cost": None,
    "confidence": 0.95,
}


EXAMPLE_PROMISE: JsonDict = {
    "level": "likely",
    "chance": 0.808,
    "confidence": 0.95,
    "bounds": {"precision": 0.916},
    "needs": {"random_labels": 154, "checked_rows": 370},
    "sentence": "Precision 95% is likely to hold on new rows (chance 80%), not proven; what you can count on is a "
    "precision of 91.6%. Label some 160 more rows, drawn at random, to prove precision 95%.",
}


class OperatingPoint(Answer):
    """A threshold, the objective that it was chosen for, and what is to be expected of it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "objective": {"kind": "precision", "target": 0.95},
                    "threshold": 0.31,
                    "status": "met",
                    "status_reason": "",
                    "promise": EXAMPLE_PROMISE,
                    "calibration": EXAMPLE_MEASURES,
                    "created_at": "2026-11-01T12:30:00Z",
                }
            ]
        }
    )

    promise: Promise | None = Field(default=None, description="What can be relied on, as in the report.")
    objective: dict[str, Any]
    threshold: float = Field(description="The decision is score > threshold, but see `abstain`.")
    abstain: Abstention | None = Field(
        default=None, description="Which scores around the threshold get no label. Null: each row gets one."
    )
    status: str = Field(
        description="`met`: the promise is `likely`, or `proven` where a confidence was asked for; `preference_unmet`: "
        "the calibration rows do not reach the target; `cannot_certify`: they do, but that does not prove it with the "
        "asked confidence, or does not make it likely. The trained point may also be `solver_limit` or `stopped`."
    )
    status_reason: str = Field(description="One sentence; empty if the objective is met.")
    calibration: Measures | None = Field(
        description="Expected measures, on the rows that the threshold was chosen on. The intervals are the wider for "
        "that: each row counts for 0.7 of an untouched one."
    )
    picked: bool = Field(
        default=False,
        description="Whether somebody took this very threshold, which is not the one that is chosen for the objective. "
        "A retraining does not take it over: it chooses its own for the objective.",
    )
    created_at: datetime | None = Field(description="When it was applied; null if it was only looked at.")


class ClassesOperatingPoint(Answer):
    """A rule of a model of several classes: what it was chosen for, and what is to be expected of it."""

    promise: Promise | None = Field(default=None, description="What can be relied on, as in the report.")
    objective: dict[str, Any]
    status: str = Field(
        description="`met`; `preference_unmet` where a floor is not reached on left-out rows. The trained point may "
        "also be `solver_limit`, `stopped` or `unmeasured`."
    )
    status_reason: str = Field(description="One sentence; empty if the objective is met.")
    calibration: ClassesFigures | None = Field(
        description="On left-out rows, each decided by a rule that it had no say in (cross-fitting): what choosing "
        "costs is in the figures, as in those of a training with this objective."
    )
    floors: list[FloorOutcome] = Field(description="Whether each class reaches what is asked of it, on these rows.")
    created_at: datetime | None = Field(description="When it was applied; null if it was only looked at.")


class ChooseOperatingPoint(Body):
    """A new objective for a trained model."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"objective": {"kind": "precision", "target": 0.95}, "apply": True},
                {"objective": None, "apply": True},
                {"threshold": 0.25, "apply": True},
                {"objective": {"kind": "macro_f1", "floors": {"urgent": {"precision": 0.9}}}, "apply": True},
            ]
        }
    )

    objective: ObjectiveBody | None = Field(
        default=None,
        description="Null: what the model was trained for; with a `threshold`, what is asked of it now, so that to "
        "move the threshold changes nothing else. Of several classes `macro_f1`, `accuracy`, or `cost` with `costs`.",
    )
    threshold: float | None = Field(
        default=None,
        description="One of `GET /models/{id}/thresholds`, to decide by as it is. The promise then says what can be "
        "relied on of the objective; what was picked by looking proves nothing, whatever `confidence` that asks for. A "
        "retraining goes by the objective. Null: the threshold that is likely to reach the objective on other rows, "
        "too. Not of several classes.",
    )
    apply: bool = Field(default=False, description="Let the model decide by it from now on, and keep a record of that.")


class AbstainProbabilities(Answer):
    """Between these probabilities a row gets no label."""

    lower: float | None
    upper: float | None


class ModelAudit(Answer):
    """What an audit has proved of a model."""

    id: str
    status: Literal["open", "proven", "refuted"]
    objective: dict[str, Any]
    confidence: float
    threshold: float = Field(
        description="By which the model decides in this audit; of several the one in use if it was tried, else the "
        "last that is proven, or the first. `status` and `sentence` are about it."
    )
    in_use: bool = Field(description="Whether that is the threshold in use; if not, the audit tells nothing of that.")
    contradicted: bool = Field(description="Whether it is proven, and the answers since speak against it.")
    sentence: str = Field(description="The verdict in words.")
    created_at: datetime


class Model(ModelSummary):
    """A model with its report. Where another operating point was applied, `report` still shows the trained one."""

    threshold: float
    threshold_probability: float | None = Field(
        description="The threshold as a probability, as in POST /predict; null where the model gives none."
    )
    abstain_probabilities: AbstainProbabilities | None = Field(
        description="The bounds of `abstain` as probabilities, likewise. Null: each row gets a label."
    )
    operating_point: OperatingPoint | None = Field(
        description="The one that was applied last; null while that of the training decides."
    )
    audits: list[ModelAudit] = Field(
        description="The newest that have an answer: what they prove of the rows of a data set, beside the promise."
    )
    columns: list[ModelColumn] = Field(
        description="What a row for POST /predict must have; empty for models of matrices, whose gaps are zeros."
    )
    report: Report


class MulticlassModel(ModelSummary):
    """A model of three classes or more with its report: a rule decides, and no threshold.

    Where another operating point was applied, `report` still shows the trained one.
    """

    operating_point: ClassesOperatingPoint | None = Field(
        default=None, description="The one that was applied last; null while that of the training decides."
    )
    columns: list[ModelColumn] = Field(
        description="What a row for POST /predict must have; empty for models of matrices, whose gaps are zeros."
    )
    report: MulticlassReport


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


class CostPoint(CurvePoint):
    """One threshold of the cost curve."""

    positive_share: float = Field(description="Share of the rows that are predicted positive.")
    cost: float = Field(description="Mean cost of a row.")


class BaseCurve(Answer):
    """What every threshold would have given on the calibration rows, for thresholds from high to low."""

    positive: str = Field(description="Name of the positive class; of several the one that was asked for.")
    objective: dict[str, Any] = Field(description="What the threshold was chosen for.")
    threshold: float | None = Field(
        description="The one that the model uses. Null of several classes: thresholds of points are probabilities of "
        "the class, and what is said of a row follows from those of all classes."
    )
    abstain: Abstention | None = Field(default=None, description="Which scores around it get no label; null: none.")
    calibration: Measures | None = Field(
        description="What the threshold in use gave; of several classes what the model's decision between all of them "
        "gave of this one, against the rest."
    )
    promise: Promise | None = Field(default=None, description="What can be relied on of the threshold in use.")


class PrecisionRecallCurve(BaseCurve):
    """Precision against recall."""

    kind: Literal["pr"] = "pr"
    points: list[PrecisionRecallPoint]


class RocCurve(BaseCurve):
    """True against false positive rate."""

    kind: Literal["roc"] = "roc"
    points: list[RocPoint]


class CostCurve(BaseCurve):
    """Mean cost of a row against the share of rows that are predicted positive."""

    kind: Literal["cost"] = "cost"
    false_negative: float = Field(description="Cost of a positive that is missed.")
    false_positive: float = Field(description="Cost of a negative that is taken for a positive.")
    assumed: bool = Field(description="Whether nobody has said what errors cost, so that each costs 1.")
    points: list[CostPoint]


Curve = Annotated[PrecisionRecallCurve | RocCurve | CostCurve, Field(discriminator="kind")]


class ThresholdPoint(CurvePoint):
    """What one threshold gives on the calibration rows, with intervals."""

    true_positives: int
    false_positives: int
    precision: Estimate | None = Field(description="Null where nothing is predicted positive.")
    recall: Estimate | None
    false_positive_rate: Estimate | None = Field(description="Of the negative rows, those predicted positive.")
    cost: Estimate | None = Field(description="Mean cost of a row; null where nobody has said what errors cost.")


class ScoreSpread(Answer):
    """Calibration rows by their scores, in equal parts from `least` to `greatest`, each class by itself."""

    least: float
    greatest: float
    positive: list[int]
    negative: list[int]


class ProvenThresholds(Answer):
    """Thresholds of which something is proven, each decided by alone."""

    model_config = ConfigDict(frozen=True)

    measure: Literal["precision", "recall", "false_positive_rate", "cost"]
    bound: float = Field(description="At least; of a false positive rate and a cost: at most.")
    confidence: float
    lowest: float | None = Field(description="The lowest of them; null: each below `highest`, too.")
    highest: float | None = Field(description="The highest of them; null: each above `lowest`, too.")
    audit: str | None = Field(description="Id of the audit that proved it; null: the labels did, by the objective.")


class Thresholds(Answer):
    """What each threshold would give: the same as the curves, with counts and intervals, for thresholds high to low.

    Of very many, 200 are shown. The intervals are those of one threshold that was chosen on these rows, each row
    counting for 0.7 of an untouched one; they do not hold for all thresholds at once.
    """

    model_id: str
    positive: str = Field(description="Name of the positive class.")
    positives: int = Field(description="Calibration rows of that class.")
    negatives: int
    confidence: float = Field(description="Level of the intervals.")
    threshold: float = Field(description="The one in use.")
    false_negative: float | None = Field(description="Cost of a miss, which `cost` is of; null where nobody says any.")
    false_positive: float | None = Field(description="Cost of a false alarm, likewise.")
    points: list[ThresholdPoint]
    scores: ScoreSpread
    proven: list[ProvenThresholds] = Field(
        description="Of which thresholds something is proven, by audits or labels: intervals of points prove nothing."
    )


class UnseenColumn(Answer):
    """A column with categories that training never saw."""

    column: str
    rows: int
    share: float = Field(description="Of all rows.")


class Prior(Answer):
    """Share of the positive class: in training, and estimated for the rows that were predicted."""

    training: float | None = Field(description="Among the labelled rows.")
    estimate: float | None = Field(
        description="Adjusted count (Forman 2008): (share predicted positive − false positive rate) / (true positive "
        "rate − false positive rate), cut to 0 … 1, with the rates of the calibration rows at the threshold in use. "
        "Null where that is undefined or its interval says nothing; `unknown` tells why. It supposes that rows of a "
        "class are still like those of training."
    )
    low: float | None = Field(description="Interval of 95 % of the estimate, by the counts that it rests on.")
    high: float | None


class DriftDay(Answer):
    """One day of UTC."""

    day: date
    rows: int
    outside_range: int
    positive: int
    undecided: int = Field(description="Rows without a label.")


class Drift(Answer):
    """How the rows that a model decided on differ from those that it was trained on.

    Rows of `POST /predict` and of the Open Inference Protocol are counted. Those of batches are not: a data set may be
    of any time, or that of the training, and the day on which it is predicted says nothing of it. Figures are a few
    seconds old.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model_id": "mdl_0192f0c1d5a67b3e8f0a1b2c3d4e5f62",
                    "days": 7,
                    "rows": 1200,
                    "outside_range_share": 0.004,
                    "threshold": 0.31,
                    "abstain": None,
                    "rows_at_threshold": 1000,
                    "positive_share": 0.35,
                    "undecided_share": 0.0,
                    "prior": {"training": 0.3, "estimate": 0.338, "low": 0.247, "high": 0.429},
                    "unseen": [{"column": "job", "rows": 24, "share": 0.02}],
                    "by_day": [
                        {"day": "2026-11-01", "rows": 1200, "outside_range": 5, "positive": 420, "undecided": 0}
                    ],
                    "unknown": [],
                }
            ]
        }
    )

    model_id: str
    days: int
    rows: int
    outside_range_share: float | None = Field(
        description="Share of rows whose score is beyond those of the calibration rows, or that hold a number far "
        "outside those of the training; null without scores or rows."
    )
    threshold: float = Field(description="The one in use.")
    abstain: Abstention | None = Field(default=None, description="Which scores around it get no label; null: none.")
    rows_at_threshold: int = Field(
        description="Rows that were decided by it (by the same upper bound, where there is one): those of the next "
        "three figures."
    )
    positive_share: float | None = Field(description="Share of rows that are predicted positive.")
    undecided_share: float | None = Field(description="Share of rows that got no label.")
    prior: Prior
    unseen: list[UnseenColumn] = Field(description="Most frequent first.")
    by_day: list[DriftDay] = Field(description="Oldest first, at whatever threshold; days without rows are left out.")
    unknown: list[str] = Field(description="Why figures that are null are not known.")


class ClassShare(Answer):
    """How often a class is said."""

    label: str
    rows: int = Field(description="Rows that the rule in use said to be of it.")
    share: float | None = Field(description="Of `rows_by_rule`; null without rows.")
    low: float | None = Field(description="Interval of 95 % of the share.")
    high: float | None
    calibration: float | None = Field(
        description="Share of the left-out rows of the training that are said to be of it by the rule in use: what "
        "`share` is to be compared with. Null where none were left out."
    )
    training: float | None = Field(description="Share of the labelled rows that are of it.")


class ClassesDriftDay(Answer):
    """One day of UTC, of a model of several classes."""

    day: date
    rows: int
    outside_range: int
    rows_by_rule: int = Field(description="Of these, rows that were decided by the rule in use.")
    undecided: int = Field(description="Of these, rows without a label.")
    said: dict[str, int] = Field(description="Of these, rows by the class that was said.")


class ClassesDrift(Answer):
    """How the rows that a model of several classes decided on differ from those that it was trained on.

    Which rows are counted, and how soon, is as of two classes.
    """

    model_id: str
    days: int
    rows: int
    outside_range_share: float | None = Field(
        description="Share of rows that hold a number far outside those of the training; null without rows."
    )
    rows_by_rule: int = Field(
        description="Rows that were decided by the rule in use: those of `undecided_share` and of `classes`. Rows that "
        "another rule decided, or a version that did not count classes, are not among them."
    )
    undecided_share: float | None = Field(description="Share of rows that got no label.")
    undecided_calibration: float | None = Field(description="The same of the left-out rows of the training.")
    classes: list[ClassShare] = Field(description="In the order of the report.")
    unseen: list[UnseenColumn] = Field(description="Most frequent first.")
    by_day: list[ClassesDriftDay] = Field(description="Oldest first; days without rows are left out.")
    unknown: list[str] = Field(description="Why figures that are null are not known.")


class PutAlias(Body):
    """Where an alias shall point."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"model": "mdl_0192f0c1d5a67b3e8f0a1b2c3d4e5f62"},
                {
                    "model": "mdl_0192f0c1d5a67b3e8f0a1b2c3d4e5f62",
                    "shadow": "mdl_0192f0c1d5a67b3e8f0a1b2c3d4e5f70",
                },
            ]
        }
    )

    model: str = Field(description="Id of a model.", max_length=100)
    shadow: str | None = Field(
        default=None,
        max_length=100,
        description="Id of a model that decides on the same rows without a say in the answers; null: none. Left out: "
        "it stays as it is.",
    )


class Alias(Answer):
    """A name and the model that it points at."""

    name: AliasName
    model_id: str
    shadow_id: str | None
    updated_at: datetime


class AliasChange(Answer):
    """A move of an alias to a model."""

    model_id: str = Field(description="It may have been deleted since.")
    rollback: bool = Field(description="Whether it was a move back, to what had been before.")
    created_at: datetime


class AliasWithHistory(Alias):
    """A name, the model that it points at, and those that it pointed at before."""

    history: list[AliasChange] = Field(description="Newest first: the first one led to where the alias points now.")
    before: str | None = Field(description="The model that a rollback leads to; null where there is none.")


class ShadowPair(Answer):
    """Rows of which the two models said this."""

    label: str | None = Field(description="Null: undecided.")
    shadow_label: str | None
    rows: int


class ShadowDisagreement(Answer):
    """A row on which the shadow decided otherwise, without the row."""

    created_at: datetime
    row_sha256: str = Field(
        description="Of the text or mail as it came, or of the row as JSON with its names in order and no blanks."
    )
    label: str | None
    score: float
    shadow_label: str | None
    shadow_score: float


class Shadow(Answer):
    """How the shadow of an alias would have answered. Figures are a few seconds old."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "alias": "spam-filter",
                    "model_id": "mdl_0192f0c1d5a67b3e8f0a1b2c3d4e5f62",
                    "shadow_id": "mdl_0192f0c1d5a67b3e8f0a1b2c3d4e5f70",
                    "since": "2026-11-01T12:30:00Z",
                    "rows": 1200,
                    "disagreements": 12,
                    "disagreement_share": 0.01,
                    "pairs": [
                        {"label": "ham", "shadow_label": "ham", "rows": 1188},
                        {"label": "ham", "shadow_label": "spam", "rows": 12},
                    ],
                    "dropped": 0,
                    "failed": 0,
                    "latest": [
                        {
                            "created_at": "2026-11-01T12:40:00Z",
                            "row_sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
                            "label": "ham",
                            "score": -0.1,
                            "shadow_label": "spam",
                            "shadow_score": 0.4,
                        }
                    ],
                }
            ]
        }
    )

    alias: AliasName
    model_id: str
    shadow_id: str
    since: datetime | None = Field(description="First row that these two were compared on; null if there was none.")
    rows: int = Field(description="Rows that both decided on.")
    disagreements: int
    disagreement_share: float | None
    pairs: list[ShadowPair]
    dropped: int = Field(description="Rows that the shadow did not look at, because it was behind.")
    failed: int = Field(description="Rows that do not fit the shadow.")
    latest: list[ShadowDisagreement] = Field(description="Newest first; the last 1,000 of an alias are kept.")


class AliasPage(Answer):
    """One page of aliases, by name."""

    items: list[Alias]
    next_cursor: str | None = Field(description="Send it as `cursor` for the next page; null on the last one.")

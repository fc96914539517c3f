"""What ``/audits`` takes and gives."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field
from pydantic.config import JsonDict

from service.jobs.schemas import JobError
from service.models.objectives import ErrorCost, LostShare, Share
from service.schemas import AliasName, Answer, Body, Label

MOST_ROWS = 10_000
"""That an audit draws: more than anybody looks at."""


class AuditPrecision(Body):
    """Of the rows that the model calls positive, at least this share is."""

    kind: Literal["precision"]
    target: Share


class AuditRecall(Body):
    """Of the rows that are positive, the model calls at least this share so."""

    kind: Literal["recall"]
    target: Share


class AuditFalsePositiveRate(Body):
    """Of the rows that are not positive, the model calls at most this share so.

    `ham_loss` is the same in the words of mail filters: the share of good mail that is lost.
    """

    kind: Literal["false_positive_rate", "ham_loss"]
    at_most: LostShare


class AuditCost(Body):
    """Wrong decisions cost at most so much a row, on average over all rows."""

    kind: Literal["cost"]
    at_most: ErrorCost
    false_negative: ErrorCost
    false_positive: ErrorCost


def _different(thresholds: list[float]) -> list[float]:
    if len(set(thresholds)) < len(thresholds):
        raise ValueError("should be different thresholds, each named once")
    return thresholds


Thresholds = Annotated[
    list[Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=1, max_length=20), AfterValidator(_different)
]

AuditObjective = Annotated[
    AuditPrecision | AuditRecall | AuditFalsePositiveRate | AuditCost, Field(discriminator="kind")
]


class AuditRequest(Body):
    """What is to be proved of a model, on the unlabelled rows of which data set."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "spam-filter",
                    "dataset": "ds_0192f0c1d5a67b3e8f0a1b2c3d4e5f60",
                    "objective": {"kind": "precision", "target": 0.95},
                    "confidence": 0.95,
                },
            ]
        }
    )

    model: str = Field(
        description="Id of a model, or an alias: of what it points at now, with the threshold that decides now.",
        min_length=1,
        max_length=100,
    )
    dataset: str = Field(description="Id of the data set.", max_length=100)
    objective: AuditObjective
    confidence: Annotated[float, Field(ge=0.5, le=0.9999)] = Field(
        default=0.95, description="A proof is false with a probability of at most 1 - confidence, whenever one looks."
    )
    rows: Annotated[int, Field(ge=1, le=MOST_ROWS)] = Field(
        default=2000, description="Rows that are drawn, at most. Nobody has to look at all of them."
    )
    thresholds: Thresholds | Literal["curve"] | None = Field(
        default=None,
        description="Thresholds that are tried in this order: the next one once the one before is proven, and none "
        "behind one that is not. Any false proof has a probability of at most 1 - confidence. Begin with the one that "
        "is likeliest to hold: for a recall the lowest, for a precision the highest. `curve`: some around the "
        "model's own, in such an order. Null: the threshold that decides now.",
        examples=["curve", [1.2, 0.8, 0.5]],
    )


class AuditAnswers(Body):
    """What rows are that the audit has drawn."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"rows": [17, 4], "labels": ["spam", "ham"]}]})

    rows: list[Annotated[int, Field(ge=0, lt=2**53)]] = Field(
        min_length=1, max_length=MOST_ROWS, description="Numbers of rows of the data set, from 0, as `next` gives them."
    )
    labels: list[Label] = Field(
        min_length=1,
        max_length=MOST_ROWS,
        description="Of each of them: one of the two that the model decides between.",
    )


class AuditSeal(Body):
    """What becomes of the answers once the audit is over."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"alias": "spam-filter"}]})

    alias: AliasName | None = Field(
        default=None, description="The answers become feedback for this alias: its next training learns them."
    )


class AuditBand(Answer):
    """Scores above `lower` and up to `upper` get no label."""

    lower: float | None = Field(description="Null: no row is called negative.")
    upper: float | None = Field(description="Null: no row is called positive.")


class AuditThreshold(Answer):
    """A threshold that is tried."""

    threshold: float
    called_positive: int = Field(description="Rows of the pool that it calls positive.")


class AuditPool(Answer):
    """The rows that the statement is about, counted when they were drawn."""

    rows: int = Field(description="Rows of the data set without a label and without feedback.")
    called_positive: int = Field(description="Those of them that the model calls positive.")
    labelled: int = Field(description="Rows that are left out because the data set has their label.")
    with_feedback: int = Field(
        default=0,
        description="Rows without a label that are left out, too: they got feedback for the model or its aliases, or "
        "are to the model the same as one that did. A training of the alias learns them.",
    )
    drawn: int = Field(description="Rows that can be looked at, in an order that is fixed.")
    expected_answers: int | None = Field(
        default=None,
        description="After about so many answers there is a verdict, if the probabilities of the model are right: the "
        "middle one of some audits with such answers, told before anybody answers. It may take fewer or more. Null: "
        "there may be no verdict even once all rows that are drawn have an answer, several thresholds are tried, or "
        "the model has no probabilities.",
    )
    threshold: float = Field(
        description="By which the model decides in this audit, whatever is applied to it later; of several the first."
    )
    thresholds: list[AuditThreshold] | None = Field(
        default=None, description="In the order in which they are tried. Null: one threshold."
    )
    abstain: AuditBand | None = Field(
        default=None, description="Likewise: the scores around it that get no label. Null: each row gets one."
    )
    undecided: int = Field(
        default=0,
        description="Rows without a label by the model. For a precision they are not called positive; for the "
        "others they are what the threshold alone says.",
    )
    positive: str
    negative: str
    warnings: list[str]


class TriedThreshold(Answer):
    """What the answers prove of one of several thresholds."""

    threshold: float
    standing: Literal["open", "proven", "refuted"]
    bound: float
    estimate: float | None
    decided_after: int | None


class AuditVerdict(Answer):
    """What the answers prove: of several thresholds of the last one that is proven, or else of the first."""

    bound: float = Field(
        description="Proved at the confidence, whatever the target: precision or recall is at least this, a false "
        "positive rate or a cost at most. What was proved once stays, also where later answers speak against it; the "
        "sentence then says so."
    )
    estimate: float | None = Field(description="The value itself, as far as the answers tell; no more than a guess.")
    decided_after: int | None = Field(description="Rows after which it was proven or refuted.")
    threshold: float | None = Field(
        default=None, description="Which this is about: it can be applied (POST /models/{id}/operating-points)."
    )
    thresholds: list[TriedThreshold] | None = Field(
        default=None,
        description="Those that were tried, in order, up to the first that is not proven; none behind it is, whatever "
        "the answers say. Null: one threshold.",
    )
    next_threshold: float | None = Field(
        default=None, description="Of which further answers may prove something; null if nothing more is to be proved."
    )
    sentence: str = Field(description="The verdict in words.")


EXAMPLE_AUDIT: JsonDict = {
    "id": "aud_0192f0c1d5a67b3e8f0a1b2c3d4e5f66",
    "status": "proven",
    "progress": 1.0,
    "model": "mdl_0192f0c1d5a67b3e8f0a1b2c3d4e5f62",
    "dataset": "ds_0192f0c1d5a67b3e8f0a1b2c3d4e5f60",
    "objective": {"kind": "precision", "target": 0.95},
    "confidence": 0.95,
    "pool": {
        "rows": 5000,
        "called_positive": 420,
        "labelled": 100,
        "with_feedback": 0,
        "drawn": 420,
        "expected_answers": 62,
        "threshold": 0.31,
        "thresholds": None,
        "abstain": None,
        "undecided": 0,
        "positive": "spam",
        "negative": "ham",
        "warnings": [],
    },
    "statement": "of the 420 unlabelled rows that the model calls 'spam', at least 95% are 'spam'",
    "answered": 58,
    "corrected": 0,
    "verdict": {
        "bound": 0.9506,
        "estimate": 1.0,
        "decided_after": 58,
        "threshold": 0.31,
        "thresholds": None,
        "next_threshold": None,
        "sentence": "proven after 58 rows: of the 420 unlabelled rows that the model calls 'spam', at least 95% are "
        "'spam' (confidence 95%)",
    },
    "job": "job_0192f0c1d5a67b3e8f0a1b2c3d4e5f63",
    "error": None,
    "created_at": "2026-11-01T12:00:00Z",
    "sealed_at": None,
    "feedback": None,
}


class Audit(Answer):
    """An audit and how far it is."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_AUDIT]})

    id: str
    status: Literal["preparing", "failed", "open", "proven", "refuted"] = Field(
        description="`preparing`: a worker scores the data set and draws the rows. `open`: neither proven nor refuted."
    )
    progress: float = Field(ge=0, le=1, description="Of the preparation.")
    model: str
    dataset: str | None = Field(description="Null once it was deleted; the rows of the audit stay.")
    objective: AuditObjective
    confidence: float
    pool: AuditPool | None = Field(description="Null until the rows are drawn.")
    statement: str | None = Field(description="What is to be proved, in words.")
    answered: int = Field(description="Rows that have an answer.")
    corrected: int = Field(description="How often an answer took the place of another one.")
    verdict: AuditVerdict | None = Field(description="Null until there is an answer.")
    job: str | None = Field(description="The job that draws the rows, as webhooks name it; null once it was deleted.")
    error: JobError | None = Field(description="Why no rows could be drawn.")
    created_at: datetime
    sealed_at: datetime | None
    feedback: str | None = Field(description="Id of the feedback that the answers became.")


class AuditItem(Answer):
    """A row that somebody is to look at."""

    position: int = Field(description="In the order in which rows were drawn, from 1.")
    row: int = Field(description="Number in the data set, from 0.")
    key: str | None = Field(description="What names it, where the training had a `key`.")
    label: str | None = Field(description="What the model calls it; null: undecided.")
    score: float
    probability: float | None
    content: dict[str, Any] = Field(
        description="What the model sees of it: values, text, or the fields of a mail; of a vector the first numbers, "
        "as text."
    )


class AuditItems(Answer):
    """The rows to look at next."""

    items: list[AuditItem]
    left: int = Field(description="Rows of the draw that have no answer.")

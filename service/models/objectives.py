"""What a model must reach, as requests say it and reports repeat it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError

from service.schemas import Body
from solver.choices import FALSE_POSITIVE_KINDS as FALSE_POSITIVE_KINDS  # for the pages, too
from solver.choices import Certificate

Confidence = Annotated[float, Field(ge=0.5, lt=1)]


def _share(value: Any, check: ValidatorFunctionWrapHandler) -> float:
    """Say how a share is written, where a percentage or a text was given."""
    try:
        made: float = check(value)
    except ValidationError:
        raise PydanticCustomError("share", "should be a number above 0 and up to 1: 0.9 for 90 %") from None
    return made


def _lost(value: Any, check: ValidatorFunctionWrapHandler) -> float:
    """Say how a share that may be lost is written, where a percentage or a text was given."""
    try:
        made: float = check(value)
    except ValidationError:
        raise PydanticCustomError("share", "should be a number above 0 and below 1: 0.001 for 0.1 %") from None
    return made


def _no_text(value: Any) -> Any:
    """Say how an objective is written, where it was given as the command line takes it."""
    if isinstance(value, str):
        said = 'should be an object such as {"kind": "precision", "target": 0.9}, not a text'
        raise PydanticCustomError("objective", "{said}", {"said": said})
    return value


Share = Annotated[float, Field(gt=0, le=1), WrapValidator(_share)]
LostShare = Annotated[float, Field(gt=0, lt=1), WrapValidator(_lost)]
ErrorCost = Annotated[float, Field(gt=0, le=1e12)]


class Abstain(Body):
    """When a row gets a label at all."""

    precision: float = Field(
        gt=0.5,
        lt=1,
        description="Of the rows called positive at least this share shall be so, and likewise of those called "
        "negative.",
    )


class Decided(Body):
    """What any objective may ask for besides."""

    abstain: Abstain | None = Field(
        default=None,
        description="Leave rows undecided (`label` null) on both sides of the threshold, up to where those with a "
        "label are likely to be as precise as this; with a `confidence`, up to where that is proven. No row gets "
        "another label than without it.",
    )


class Target(Decided):
    """What an objective with a target may ask for besides."""

    confidence: Confidence | None = Field(
        default=None, description="Ask for a target that holds with this probability, not only on the calibration rows."
    )
    certificate: Certificate | None = Field(
        default=None,
        description="With a confidence, by which rows the target is tested. `cross_fitted`, the default: by all "
        "labelled rows, each scored by a model that left it out, ranked among the unlabelled rows; needs 100 of those. "
        "`strict`: by a half of the labelled rows that nothing in training looks at. Only the second is a theorem.",
    )


class PrecisionObjective(Target):
    """At least this precision, and the highest recall that allows it."""

    kind: Literal["precision"]
    target: Share


class RecallObjective(Target):
    """At least this recall, and the highest precision that allows it."""

    kind: Literal["recall"]
    target: Share


class PrecisionRecallObjective(Target):
    """At least this precision and at least this recall."""

    kind: Literal["precision_recall"]
    precision: Share
    recall: Share


class FalsePositiveRateObjective(Target):
    """Of the negative rows at most this share is called positive; below it the highest F1.

    It does not move with the share of positive rows, as a precision does. `ham_loss` is the same in the words of mail
    filters, where the positive class is spam: the share of good mail that is lost. Answers keep the word that was said.
    """

    kind: Literal["false_positive_rate", "ham_loss"]
    at_most: LostShare


class F1Objective(Decided):
    """The highest F1."""

    kind: Literal["f1"]


class FBetaObjective(Decided):
    """The highest F-beta: recall counts `beta` times as much as precision."""

    kind: Literal["f_beta"]
    beta: Annotated[float, Field(gt=0, le=100)]


class CostObjective(Decided):
    """The lowest cost of wrong decisions."""

    kind: Literal["cost"]
    false_negative: ErrorCost
    false_positive: ErrorCost


ObjectiveBody = Annotated[
    PrecisionObjective
    | RecallObjective
    | PrecisionRecallObjective
    | FalsePositiveRateObjective
    | F1Objective
    | FBetaObjective
    | CostObjective,
    Field(discriminator="kind"),
    BeforeValidator(_no_text),
]

"""What a model must reach, as requests say it and reports repeat it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from service.schemas import Body, Label
from solver.choices import FALSE_POSITIVE_KINDS as FALSE_POSITIVE_KINDS  # for the pages, too
from solver.choices import MOST_CLASSES, Certificate

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


def _is_none(value: Any) -> bool:
    return value is None


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


class WithTarget(Decided):
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


class PrecisionObjective(WithTarget):
    """At least this precision, and the highest recall that allows it."""

    kind: Literal["precision"]
    target: Share


class RecallObjective(WithTarget):
    """At least this recall, and the highest precision that allows it."""

    kind: Literal["recall"]
    target: Share


class PrecisionRecallObjective(WithTarget):
    """At least this precision and at least this recall."""

    kind: Literal["precision_recall"]
    precision: Share
    recall: Share


class FalsePositiveRateObjective(WithTarget):
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


class ClassFloor(Body):
    """What a class must reach: one of the two."""

    precision: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="Of the rows that are said to be of the class.", exclude_if=_is_none
    )
    recall: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="Of the rows that are of the class.", exclude_if=_is_none
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.precision is None) == (self.recall is None):
            raise PydanticCustomError("floor", "should have either precision or recall")
        return self


Floors = Annotated[dict[Label, ClassFloor], Field(max_length=MOST_CLASSES)]
FLOORS = (
    "By class, a precision or recall that it must reach. A row of which no class is sure enough is left undecided "
    "(`label` null)."
)
FLOORS_CONFIDENCE = (
    "Floors are to hold together with this probability, by exact bounds on left-out rows; null: on these rows."
)


class ClassesObjective(Body):
    """What objectives of three classes and more may ask for besides."""

    floors: Floors = Field(default={}, description=FLOORS)
    confidence: Confidence | None = Field(default=None, description=FLOORS_CONFIDENCE)


class MacroF1Objective(ClassesObjective):
    """Of three classes and more: the highest mean of the classes' F1."""

    kind: Literal["macro_f1"]


class AccuracyObjective(ClassesObjective):
    """Of three classes and more: the highest share of rows that are given their class."""

    kind: Literal["accuracy"]


ClassCosts = Annotated[
    dict[Label, Annotated[dict[Label, Annotated[float, Field(ge=0, le=1e9)]], Field(max_length=MOST_CLASSES)]],
    Field(min_length=1, max_length=MOST_CLASSES),
]


class CostObjective(Decided):
    """The lowest cost of wrong decisions: of two classes `false_negative` and `false_positive`, of more `costs`."""

    kind: Literal["cost"]
    costs: ClassCosts | None = Field(
        default=None,
        description="Of three classes and more: for a true class and the one that is said the cost of a row. What is "
        "not named costs 1 where the two differ, and 0 where they do not.",
        exclude_if=_is_none,
    )
    false_negative: ErrorCost | None = Field(default=None, validate_default=True, exclude_if=_is_none)
    false_positive: ErrorCost | None = Field(default=None, validate_default=True, exclude_if=_is_none)
    floors: Floors | None = Field(default=None, description=f"Beside `costs`. {FLOORS}", exclude_if=_is_none)
    confidence: Confidence | None = Field(
        default=None, description=f"Beside `floors`. {FLOORS_CONFIDENCE}", exclude_if=_is_none
    )

    @field_validator("false_negative", "false_positive")
    @classmethod
    def _of_two(cls, value: float | None, info: ValidationInfo) -> float | None:
        has_costs = info.data.get("costs") is not None
        if value is None and not has_costs and "costs" in info.data:
            raise PydanticCustomError("missing", "Field required")
        if value is not None and has_costs:
            raise PydanticCustomError("cost", "is of two classes; `costs` are of three and more: give one of them")
        return value

    @model_validator(mode="after")
    def _of_several(self) -> Self:
        if self.costs is None and (self.floors is not None or self.confidence is not None):
            raise PydanticCustomError("cost", "floors and confidence are of three classes and more, beside `costs`")
        if self.costs is not None and self.abstain is not None:
            raise PydanticCustomError("cost", "abstain is of two classes; of more, say `floors`")
        return self

    @model_serializer(mode="wrap")
    def _without_abstain(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        made: dict[str, Any] = serialize(self)
        if self.costs is not None:
            made.pop("abstain", None)
        return made


ObjectiveBody = Annotated[
    PrecisionObjective
    | RecallObjective
    | PrecisionRecallObjective
    | FalsePositiveRateObjective
    | F1Objective
    | FBetaObjective
    | MacroF1Objective
    | AccuracyObjective
    | CostObjective,
    Field(discriminator="kind"),
    BeforeValidator(_no_text),
]

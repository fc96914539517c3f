"""What ``POST /predict`` takes and gives."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from service.schemas import Answer, Body

MAX_NAME = 100


class PredictRequest(Body):
    """What to decide on (rows, texts or mails: one of them), and by which model."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"model": "spam-filter", "rows": [{"age": 39, "job": "clerk"}]},
                {"model": "spam-filter", "texts": ["win a prize"]},
            ]
        }
    )

    model: str = Field(description="Id of a model, or an alias.", min_length=1, max_length=MAX_NAME)
    rows: list[dict[str, Any]] | None = Field(
        default=None,
        min_length=1,
        description="Objects with a value for each column: number, text, true, false or null; a list of numbers for a "
        "vector.",
    )
    texts: list[str] | None = Field(
        default=None, min_length=1, description="For a model that was trained on one column of text."
    )
    messages: list[str] | None = Field(
        default=None, min_length=1, description="Whole mail messages, for a model that was trained on mails."
    )


def model_and_rows(value: Any) -> tuple[str, list[dict[str, Any]]] | None:
    """Return what a `PredictRequest` of rows holds, without pydantic's look at every value of every row.

    Parameters
    ----------
    value : object
        From JSON.

    Returns
    -------
    tuple of str and list of dict, or None
        None for everything else, so also for all that is wrong.
    """
    if type(value) is not dict or len(value) != 2:
        return None
    model, rows = value.get("model"), value.get("rows")
    if type(model) is not str or not 0 < len(model) <= MAX_NAME or type(rows) is not list:
        return None
    return (model, rows) if set(map(type, rows)) == {dict} else None


class Prediction(Answer):
    """The decision on one row."""

    key: str | int | float | None = Field(
        default=None,
        description="What names the row, as it was sent: there if the row has the column that the training called its "
        "`key`.",
    )
    label: str | None = Field(
        description="Null: undecided, as the score lies above `abstain.lower` and not above `abstain.upper`."
    )
    score: float = Field(description="The decision is score > threshold, and nothing else, but see `abstain`.")
    probability: float | None = Field(
        description="Estimated probability of the positive class, for looking at; null where the model has none."
    )
    truncated: bool | None = Field(
        default=None,
        description="True, and there, if not all of a mail was looked at: it has more text, parts or header fields "
        "than are read.",
    )


class AbstainBand(Answer):
    """The scores that get no label, and the same as probabilities."""

    lower: float | None = Field(description="Up to it the negative class is said. Null: of no row.")
    upper: float | None = Field(description="Above it the positive class is said. Null: of no row.")
    lower_probability: float | None = Field(description="As `threshold_probability`.")
    upper_probability: float | None


class PredictAnswer(Answer):
    """Decisions in the order of the rows."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "mdl_0192f0c1d5a67b3e8f0a1b2c3d4e5f62",
                    "threshold": 0.31,
                    "threshold_probability": 0.12,
                    "abstain": None,
                    "predictions": [{"label": "spam", "score": 0.45, "probability": 0.19}],
                    "warnings": [],
                }
            ]
        }
    )

    model: str = Field(description="Id of the model that decided, also when it was named by an alias.")
    threshold: float
    threshold_probability: float | None = Field(
        description="The threshold as a probability, by the same calibration: the positive class is said above it, "
        "which with 0.12 is the case at 0.19, too. Where the objective puts it, and seldom at 0.5; null where the "
        "model gives no probability, or all rows the same, which then decides nothing."
    )
    abstain: AbstainBand | None = Field(
        default=None, description="Where the objective says `abstain`; null: each row gets a label."
    )
    predictions: list[Prediction]
    warnings: list[str]

"""What ``POST /predict`` takes and gives."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from service.schemas import Answer, Body

MAX_NAME = 100
MOST_EXPLAINED = 50
"""Parts and labelled rows that are told of a row."""
Explain = Annotated[int, Field(ge=1, le=MOST_EXPLAINED)]


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
    explain: Explain | None = Field(
        default=None,
        description="How many parts of a row, and labelled rows like it, are told with each decision: `explanation`. "
        "At most 100 rows have one in a request, fewer of a model with very many support vectors.",
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


class Weight(Answer):
    """What one part of a row does to its score."""

    kind: Literal["column", "term", "encoding"] = Field(
        description="`term`: a word of a text. `encoding`: the vector that an encoder made of a text."
    )
    column: str
    term: str | None = Field(description="The word, at most 100 characters of it; null of other kinds.")
    change: float = Field(
        description="The score less what it would be without the part: a number at its mean, a category that is not "
        "known, a text or date that is not there, a vector at its mean; a word with all that it does to the features."
    )


class LikeRow(Answer):
    """A labelled row of the training that a row is like."""

    row: int | None = Field(description="Number in the data set, from 0; null of a row that only feedback had.")
    key: str | None = Field(description="What names it, where the training had a `key`.")
    label: str
    similarity: float = Field(
        description="From 0 to 1, by the features: the value of the RBF kernel, else the cosine, at least 0."
    )


class Explanation(Answer):
    """Why a row has its score; of several classes why it is one and not the next."""

    said: str | None = Field(
        default=None,
        description="There if the model tells several classes apart: the one that is said, or that is nearest to being "
        "said where none is. The changes are those of its lead.",
    )
    against: str | None = Field(default=None, description="There, likewise: the class that comes next.")
    margin: float | None = Field(
        default=None,
        description="There, likewise: the lead, as the SVM of these two has it, or the score of the one less that of "
        "the other (`one_vs_rest`). Probabilities, costs and floors decide, so that it may be below 0.",
    )
    weights: list[Weight] = Field(
        description="Those that change the score most, whichever their sign; none that changes nothing. Words are not "
        "told of a model with `features.keep_words: false`."
    )
    rest: float | None = Field(
        description="Linear kernel: the changes of all other parts together, so that with `weights` and `intercept` "
        "they are the score. Null for other kernels, where they do not add up."
    )
    intercept: float | None
    nearest: list[LikeRow] | None = Field(
        description="Labelled rows most like it. Null for models that kept none: those of older versions."
    )
    compared: int = Field(
        description="Labelled rows that it was compared with: all, or of many columns as many as 4 MiB hold, drawn at "
        "random."
    )


class Prediction(Answer):
    """The decision on one row."""

    key: str | int | float | None = Field(
        default=None,
        description="What names the row, as it was sent: there if the row has the column that the training called its "
        "`key`.",
    )
    label: str | None = Field(
        description="Null: undecided, as the score lies above `abstain.lower` and not above `abstain.upper`, or as no "
        "one of several classes is sure enough."
    )
    score: float = Field(
        description="The decision is score > threshold, and nothing else, but see `abstain`. Of several classes the "
        "score of the class that is said, or of the one nearest to being said where none is."
    )
    probability: float | None = Field(
        description="Estimated probability of the positive class, for looking at; null where the model has none. Of "
        "several classes the probability of the same class as `score`, and what decides."
    )
    scores: dict[str, float] | None = Field(
        default=None,
        description="There if the model tells several classes apart: of each, votes or a score.",
    )
    probabilities: dict[str, float] | None = Field(
        default=None, description="There, likewise: of each class, summing to 1; null where the model has none."
    )
    truncated: bool | None = Field(
        default=None,
        description="True, and there, if not all of a mail was looked at: it has more text, parts or header fields "
        "than are read.",
    )
    explanation: Explanation | None = Field(default=None, description="There if the request had `explain`.")


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
    threshold: float | None = Field(description="Null of a model of several classes, which has none.")
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

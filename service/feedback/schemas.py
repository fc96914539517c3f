"""What ``/feedback`` takes and gives."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from service.ingest.limits import MAX_EXACT_INTEGER
from service.schemas import AliasName, Answer, Body, Expected, Label

Value = Annotated[
    str | int | float | bool | list[float] | None,
    Expected("a text, a number, true, false, null or a list of numbers"),
]
Key = Annotated[
    Annotated[str, Field(max_length=10_000)] | Annotated[int, Field(ge=-MAX_EXACT_INTEGER, le=MAX_EXACT_INTEGER)],
    Expected("a text of at most 10,000 characters, or a whole number from -2**53 to 2**53"),
]
MOST_LABELS = 100_000
"""Far more than rows can be decided on at once; each that is no text is spelt before anybody counts them."""


class FeedbackRequest(Body):
    """What was decided on (rows, texts, mails, keys or numbers: one of them), and what would have been right."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"alias": "spam-filter", "rows": [{"age": 39, "job": "clerk"}], "labels": ["ham"]},
                {"alias": "spam-filter", "texts": ["win a prize"], "labels": ["spam"]},
                {
                    "alias": "spam-filter",
                    "dataset": "ds_0192f0c1d5a67b3e8f0a1b2c3d4e5f60",
                    "keys": ["007"],
                    "labels": ["spam"],
                },
                {
                    "alias": "spam-filter",
                    "dataset": "ds_0192f0c1d5a67b3e8f0a1b2c3d4e5f60",
                    "numbers": [17, 4],
                    "labels": ["spam", "ham"],
                    "drawn": "random",
                },
            ]
        }
    )

    alias: AliasName
    rows: list[dict[str, Value]] | None = Field(
        default=None,
        min_length=1,
        description="As for `POST /predict`. Columns that the model does not use are kept for the next training.",
    )
    texts: list[str] | None = Field(default=None, min_length=1, description="For a model of one column of text.")
    messages: list[str] | None = Field(default=None, min_length=1, description="Whole mails, for a model of mails.")
    keys: list[Key] | None = Field(
        default=None,
        min_length=1,
        description="Rows of `dataset` by what stands in the column that the training called its `key`, as predictions "
        "and batches give it back. Of their values those count that the model uses.",
    )
    numbers: list[Annotated[int, Field(ge=0, lt=2**53)]] | None = Field(
        default=None,
        min_length=1,
        description="Rows of `dataset` by their number, from 0, as the queue of a model gives them.",
    )
    dataset: str | None = Field(default=None, description="The data set that has the rows of `keys` or `numbers`.")
    labels: list[Label] = Field(
        max_length=MOST_LABELS,
        min_length=1,
        description="The right label of each of them: one of the two that the model decides between.",
    )
    drawn: Literal["random", "chosen"] = Field(
        default="chosen",
        description="`random` if chance alone chose these rows: then thresholds, intervals and tests may rest on them. "
        "Rows that were looked at because a model was unsure, or wrong, are `chosen`, and only learned from.",
    )


class Feedback(Answer):
    """Corrected rows that were sent at once. What they held is not shown again."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "fb_0192f0c1d5a67b3e8f0a1b2c3d4e5f65",
                    "alias": "spam-filter",
                    "model_id": "mdl_0192f0c1d5a67b3e8f0a1b2c3d4e5f62",
                    "rows": 3,
                    "labels": {"ham": 1, "spam": 2},
                    "source": "person",
                    "bytes": 214,
                    "created_at": "2026-11-01T12:40:00Z",
                }
            ]
        }
    )

    id: str
    alias: AliasName
    model_id: str = Field(description="What the alias pointed at then: the rows were checked against it.")
    rows: int
    labels: dict[str, int] = Field(description="Rows of each label.")
    source: str = Field(description="Who gave the labels: `person`; or what concluded them, at the mail filter.")
    bytes: int = Field(description="What it counts among the stored bytes of the project.")
    created_at: datetime

"""What the queue of a model gives."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from service.schemas import Answer

QueuePurpose = Literal["improve", "suspicious", "mistakes"]


class QueuedRow(Answer):
    """A row that somebody is to look at."""

    row: int = Field(description="Number in the data set, from 0; feedback takes it among its `numbers`.")
    key: str | None = Field(description="What names it, where the training had a `key`.")
    label: str | None = Field(
        description="What the model calls it (null: undecided), of several classes by the rule of its training; for "
        "`suspicious` and `mistakes` the label that it has."
    )
    score: float = Field(
        description="For `suspicious` and `mistakes` that of models which have not seen its label. Of several classes "
        "by how much the most probable one is ahead of the next; for `suspicious` the label of the most probable one, "
        "so below 0."
    )
    probability: float | None = Field(
        description="Of the positive class, by this score; of several of the most probable one, for `suspicious` of "
        "the label that it has."
    )
    drawn: Literal["random", "chosen"] = Field(
        description="Feedback of it is to say the same: only `random` rows may move thresholds and figures."
    )
    reason: str = Field(description="Why it is on the list, in words.")
    content: dict[str, Any] = Field(
        description="What the model sees of it: values, text, or the fields of a mail; of a vector the first numbers, "
        "as text."
    )


class LabellingQueue(Answer):
    """Rows to label next, or labels to look at again; those that got feedback since the training are left out."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "mdl_0192f0c1d5a67b3e8f0a1b2c3d4e5f62",
                    "dataset": "ds_0192f0c1d5a67b3e8f0a1b2c3d4e5f60",
                    "purpose": "improve",
                    "items": [
                        {
                            "row": 17,
                            "key": "<7@example.org>",
                            "label": "spam",
                            "score": 0.34,
                            "probability": 0.52,
                            "drawn": "chosen",
                            "reason": "the model is least sure of rows like it: score 0.34, threshold 0.31",
                            "content": {"text": "who won the prize?"},
                        }
                    ],
                    "warnings": [],
                }
            ]
        }
    )

    model: str
    dataset: str
    purpose: QueuePurpose
    items: list[QueuedRow] = Field(description="What tells most comes first. They may be fewer than were asked for.")
    warnings: list[str] = Field(description="Why the list does not say much, if so.")

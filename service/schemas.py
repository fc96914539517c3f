"""Bases of what the API takes and gives."""

from __future__ import annotations

import re
from typing import Annotated, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from service.ingest.labels import composed


class Body(BaseModel):
    """A JSON body: unknown fields, wrong types (``"1"`` for 1), NaN and infinity are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Answer(BaseModel):
    """A JSON answer, read off a row or another object."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, from_attributes=True)


Item = TypeVar("Item")


class Page(Answer, Generic[Item]):
    """One page of a list, newest first."""

    items: list[Item]
    next_cursor: str | None = Field(description="Send it as `cursor` for the next page; null on the last one.")


ALIAS_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}$"


def is_alias(name: str) -> bool:
    """Tell whether a text has the form of an alias. Anything else is unknown without asking the database."""
    return re.fullmatch(ALIAS_PATTERN.rstrip("$"), name) is not None


def _not_an_id(name: str) -> str:
    if name.startswith("mdl_"):
        raise ValueError("a name must not begin with mdl_, which is how ids of models begin")
    return name


AliasName = Annotated[
    str,
    StringConstraints(pattern=ALIAS_PATTERN),
    AfterValidator(_not_an_id),
    Field(description="A name that moves between models, such as `spam-filter`.", examples=["spam-filter"]),
]

Label = Annotated[str, StringConstraints(max_length=256), AfterValidator(composed)]
"""One that a data set may have: in the form of those that are read from files."""

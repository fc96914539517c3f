"""Bases of what the API takes and gives."""

from __future__ import annotations

import re
import unicodedata
from itertools import islice
from typing import Annotated, Any, Generic, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    StringConstraints,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from service.ingest.labels import composed, spelt

MOST_UNKNOWN = 20
"""Unknown fields of an object that are named in an error."""


def _fail_fast(schema: Any) -> None:
    """Mark every list and mapping of a core schema as one that ends at its first error."""
    if isinstance(schema, list | tuple):
        for part in schema:
            _fail_fast(part)
    elif isinstance(schema, dict):
        if schema.get("type") in ("list", "set", "frozenset", "tuple", "dict"):
            schema["fail_fast"] = True
        for name, part in schema.items():
            if name not in ("default", "metadata", "serialization"):
                _fail_fast(part)


class Received(BaseModel):
    """What comes from outside. However much of it is wrong, saying so takes next to nothing.

    Pydantic makes an error of some 400 bytes for every wrong item, and the answer names twenty: a list or mapping is
    left at its first wrong item, wherever it is in a field, and of unknown fields only a few are looked at.
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return pydantic's schema, with lists and mappings that end at their first error."""
        schema = handler(source)
        _fail_fast(schema)
        return schema

    @model_validator(mode="before")
    @classmethod
    def _few_unknown(cls, value: Any) -> Any:
        known = cls.model_fields
        if not isinstance(value, dict) or len(value) <= len(known) + MOST_UNKNOWN:
            return value
        unknown = islice((name for name in value if name not in known), MOST_UNKNOWN)
        return {name: value[name] for name in (*(name for name in known if name in value), *unknown)}


class Body(Received):
    """A JSON body: unknown fields, wrong types (``"1"`` for 1), NaN and infinity are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Expected:
    """Annotates a value of several types: where it is none of them, that is one error, at its place, with these words.

    Pydantic makes one for each type, at places that it calls ``keys.0.constrained-str``.
    """

    def __init__(self, words: str) -> None:
        self._words = words

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return pydantic's schema, with this error."""
        message = f"expected {self._words}"
        return core_schema.custom_error_schema(
            handler(source), custom_error_type="unexpected_value", custom_error_message=message
        )


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


def alias_like(text: str) -> str:
    """Return the name that comes closest to what somebody wrote: `my-model` for `My Model`."""
    plain = unicodedata.normalize("NFKD", text[:1000].casefold())
    letters = "".join(each for each in plain if not unicodedata.combining(each))
    name = re.sub(r"[^a-z0-9._]+", "-", letters).strip("-._")[:63].rstrip("-._")
    return name if is_alias(name) and not name.startswith("mdl_") else "spam-filter"


def _alias(value: Any, check: ValidatorFunctionWrapHandler) -> str:
    """Say how a name is written, and not which pattern it fails."""
    if isinstance(value, str) and not is_alias(value):
        # Nothing that was sent stands in an answer to it, not even in other letters.
        said = "should be small letters, digits and . _ - only, at most 63, such as my-model"
        raise PydanticCustomError("alias", said)
    name: str = check(value)
    if name.startswith("mdl_"):
        raise ValueError("a name must not begin with mdl_, which is how ids of models begin")
    return name


AliasName = Annotated[
    str,
    StringConstraints(pattern=ALIAS_PATTERN),
    WrapValidator(_alias),
    Field(description="A name that moves between models, such as `spam-filter`.", examples=["spam-filter"]),
]

Label = Annotated[str, StringConstraints(max_length=256), AfterValidator(composed), BeforeValidator(spelt)]
"""One that a data set may have: in the form of those that are read from files. Numbers are taken, too."""

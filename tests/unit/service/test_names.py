"""Names of models: which there may be, and what is said of others."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from service.schemas import AliasName, alias_like, is_alias

NAMES: TypeAdapter[str] = TypeAdapter(AliasName)


@pytest.mark.parametrize(
    ("written", "like"),
    [
        ("My Model", "my-model"),
        ("Größe 7!", "grosse-7"),
        ("Édition.2", "edition.2"),
        ("-x-", "x"),
        ("日本", "spam-filter"),
        ("MDL_a", "spam-filter"),
        ("é" * 200, "e" * 63),
        ("x" * 62 + " y", "x" * 62),
        ("", "spam-filter"),
    ],
)
def test_what_is_no_name_is_said_with_one_like_it(written: str, like: str) -> None:
    assert alias_like(written) == like
    assert is_alias(like)
    if not is_alias(written):
        with pytest.raises(
            ValidationError, match=r"small letters, digits and \. _ - only, at most 63, such as my-model"
        ):
            NAMES.validate_python(written)


def test_names() -> None:
    assert NAMES.validate_python("spam-filter_2.b") == "spam-filter_2.b"
    for wrong in ("mdl_a", 3, None, "a\n"):
        with pytest.raises(ValidationError):
            NAMES.validate_python(wrong)
    assert NAMES.json_schema()["pattern"] == "^[a-z0-9][a-z0-9._-]{0,62}$"

"""What a label is, wherever it stands: in a file, in the name of a folder of mails, in a request."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from typing import Any

from service.ingest.limits import MAX_EXACT_INTEGER, MAX_NAME_CHARACTERS
from service.ingest.profile import has_control_characters

LONGEST_NAMED = 40
"""Characters of a key in a message."""
BOOLEANS = (("false", "true"), ("no", "yes"))
"""Words of which an upload makes one spelling where a column has nothing else."""


def composed(label: str) -> str:
    """Return a label in the form in which labels are compared (NFC): é is one character, however it was written."""
    return unicodedata.normalize("NFC", label)


def spelt(label: Any) -> Any:
    """Return a number, true or false as the label that it is; anything else as it is."""
    if isinstance(label, bool):
        return "true" if label else "false"
    return number_label(str(label)) if isinstance(label, int | float) else label


def number_label(label: str) -> str:
    """Spell a number, true or false as labels of a column of numbers are; leave anything else as it is.

    They are known by their shortest spelling, whatever stands in the file: 1 for 1.0.
    """
    try:
        value = float({"true": 1, "false": 0}.get(label, label))
    except ValueError:
        return label
    if not math.isfinite(value):
        return label
    return str(int(value)) if value.is_integer() and abs(value) <= MAX_EXACT_INTEGER else repr(value)


def contradiction(keys: Sequence[str], labels: Sequence[str]) -> tuple[int, int] | None:
    """Return the places of the first two equal keys that have different labels; None if each key has one label."""
    first: dict[str, int] = {}
    for place, key in enumerate(keys):
        if labels[first.setdefault(key, place)] != labels[place]:
            return first[key], place
    return None


def shortened(key: str) -> str:
    """Quote a key for a message, long ones not whole."""
    return repr(key if len(key) <= LONGEST_NAMED else key[:LONGEST_NAMED] + "…")


def fault(label: str) -> str | None:
    """Say why a text cannot be a label, if it cannot."""
    if len(label) > MAX_NAME_CHARACTERS:
        return f"has over {MAX_NAME_CHARACTERS} characters"
    return "has control characters" if has_control_characters(label) else None

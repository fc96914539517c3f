"""What a label is, wherever it stands: in a file, in the name of a folder of mails, in a request."""

from __future__ import annotations

import math
import unicodedata
from typing import Any

from service.ingest.limits import MAX_EXACT_INTEGER, MAX_NAME_CHARACTERS
from service.ingest.profile import has_control_characters

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


def fault(label: str) -> str | None:
    """Say why a text cannot be a label, if it cannot."""
    if len(label) > MAX_NAME_CHARACTERS:
        return f"has over {MAX_NAME_CHARACTERS} characters"
    return "has control characters" if has_control_characters(label) else None

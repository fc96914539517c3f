"""What a label is, wherever it stands: in a file, in the name of a folder of mails, in a request."""

from __future__ import annotations

import unicodedata

from service.ingest.limits import MAX_NAME_CHARACTERS
from service.ingest.profile import has_control_characters


def composed(label: str) -> str:
    """Return a label in the form in which labels are compared (NFC): é is one character, however it was written."""
    return unicodedata.normalize("NFC", label)


def fault(label: str) -> str | None:
    """Say why a text cannot be a label, if it cannot."""
    if len(label) > MAX_NAME_CHARACTERS:
        return f"has over {MAX_NAME_CHARACTERS} characters"
    return "has control characters" if has_control_characters(label) else None

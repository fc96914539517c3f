"""Headers of a request, without an object for all of them: that costs as much as reading the body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def header(scope: Mapping[str, Any], name: bytes) -> str:
    """Return the first header of an ASGI scope that has this name, in lower case; empty if there is none."""
    for each, value in scope["headers"]:
        if each == name:
            text: str = value.decode("latin-1")
            return text
    return ""

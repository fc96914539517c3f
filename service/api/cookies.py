"""The two cookies that the service knows: those of somebody who looks at the pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.access.sessions import is_token


def cookie(scope: Mapping[str, Any], name: str) -> str | None:
    """Return a cookie of an ASGI scope; None if there is none, or it is nothing that we have made."""
    for each, value in scope["headers"]:
        if each == b"cookie":
            for part in value.decode("latin-1").split(";"):
                key, _, text = part.strip().partition("=")
                if key == name and is_token(text):
                    return str(text)
    return None

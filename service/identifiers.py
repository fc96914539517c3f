"""Ids: a type prefix and a UUIDv7, so that they sort by time of creation."""

from __future__ import annotations

import re
from typing import Literal

from uuid6 import uuid7

Prefix = Literal["ds", "job", "mdl", "blob", "op", "prj", "wh", "msg", "up", "part", "wrk", "fb", "aud", "enc"]
ID_PATTERN = re.compile(r"^(ds|job|mdl|blob|op|prj|wh|msg|up|part|wrk|fb|aud)_[0-9a-f]{32}$")


def new_id(prefix: Prefix) -> str:
    """Return a new id such as ``job_0192f0c1d5a67b3e8f0a1b2c3d4e5f60``."""
    return f"{prefix}_{uuid7().hex}"


def is_id(value: str, prefix: Prefix) -> bool:
    """Tell whether a text has the form of an id of this type. Anything else is unknown without asking the database."""
    return ID_PATTERN.fullmatch(value) is not None and value.startswith(f"{prefix}_")

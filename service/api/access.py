"""Which scope a call needs. A handler takes a `Reader`, `Writer` or `Admin`, and has the caller's project from it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from service.access.caller import LOCAL, Caller


async def _reader() -> Caller:
    return LOCAL


async def _writer() -> Caller:
    return LOCAL


Reader = Annotated[Caller, Depends(_reader)]
Writer = Annotated[Caller, Depends(_writer)]

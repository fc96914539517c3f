"""Work for a caller who may hang up meanwhile: it ends when he does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Gone = Callable[[], Coroutine[Any, Any, None]]
"""Returns when the caller has hung up."""
Result = TypeVar("Result")


class ClientGone(Exception):  # noqa: N818 (it is no error of ours)
    """The caller hung up before the answer was ready."""


async def unless_gone(work: Coroutine[Any, Any, Result], gone: Gone) -> Result:
    """Await `work`, or cancel it and raise `ClientGone` when `gone` ends first."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGone
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)

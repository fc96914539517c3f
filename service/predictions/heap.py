"""Memory that was freed goes back to the system: glibc keeps it, for each thread that ever asked for some."""

from __future__ import annotations

import ctypes


def give_back_free_memory() -> None:
    """Give the system the pages that hold nothing any more; some milliseconds, so call it in a thread.

    Does nothing where the C library is not glibc.
    """
    if _malloc_trim is not None:
        _malloc_trim(0)


_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)

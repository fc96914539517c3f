"""Memory of processes that live for weeks and do the same over and over."""

from __future__ import annotations

import ctypes

M_ARENA_MAX = -8


def keep_one_heap() -> None:
    """Call it before there is a second thread: all threads then take memory from one heap.

    glibc gives each new thread one of up to eight heaps a processor. A worker has a thread a job: what lives on lay
    scattered over all of them, and each grew a little, some 0.1 to 0.3 kB a job, while what was in use stayed the same
    (``mallinfo2``). These processes wait for others nearly all the time, and for each other's heap never.
    """
    if _mallopt is not None:  # another C library has no such heaps
        _mallopt(M_ARENA_MAX, 1)


_mallopt = getattr(ctypes.CDLL(None), "mallopt", None)

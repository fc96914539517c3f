"""Memory of processes that live for weeks and do the same over and over."""

from __future__ import annotations

import ctypes
import gc

M_ARENA_MAX = -8


def keep_one_heap() -> None:
    """Call it before there is a second thread: all threads then take memory from one heap.

    glibc gives each new thread one of up to eight heaps a processor. A worker has a thread a job: what lives on lay
    scattered over all of them, and each grew a little, some 0.1 to 0.3 kB a job, while what was in use stayed the same
    (``mallinfo2``). These processes wait for others nearly all the time, and for each other's heap never.
    """
    if _mallopt is not None:  # another C library has no such heaps
        _mallopt(M_ARENA_MAX, 1)


def settle() -> None:
    """Call it once all is loaded: what there is stays for good, and what loading it needed goes back to the system.

    Python searches everything for cycles only when a quarter as much has been made since. In a process that has loaded
    100,000 objects that is after hundreds of jobs, whose cycles lie about until then: a dispatcher grew by 4 MiB in its
    first 1,500 jobs. What is frozen does not count.
    """
    gc.collect()
    gc.freeze()
    gc.collect()  # a quarter of what: that is only counted anew here, without what is frozen
    give_back_free_memory()


def give_back_free_memory() -> None:
    """Give the system the pages that hold nothing any more; some milliseconds, so call it in a thread.

    glibc keeps what was freed, for each thread that ever asked for some. Does nothing where the C library is another.
    """
    if _malloc_trim is not None:
        _malloc_trim(0)


_mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)

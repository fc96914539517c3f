"""Threads of the CPU engine: a small pool for compiled code that releases the GIL, and BLAS held to one thread.

The engine splits work by columns over its own threads and lets every one of them call single-threaded BLAS. Two
layers of threads would fight for the cores (measured: 10 to 20 times slower). A column is always computed by the same
operations in the same order, so results do not depend on the number of threads.
"""

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  # the BLAS that Numba's dot calls: loaded before threads are counted
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from solver.typing import FloatArray

__all__ = ["for_ranges", "run_all", "scratch", "single_threaded_blas", "thread_count"]

_local = threading.local()
_lock = threading.Lock()
_limiter: contextlib.AbstractContextManager[object] | None = None
_users = 0


@functools.cache
def thread_count() -> int:
    """Give the number of threads the engine uses.

    The processors this process may run on, but no more than ``OMP_NUM_THREADS`` when that is set; found out once.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(wanted)) if wanted.isdigit() and int(wanted) > 0 else cores


@functools.cache
def _executor(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=threads, thread_name_prefix="solver")


@functools.cache
def _controller() -> Any:
    return ThreadpoolController().select(user_api="blas")


@contextlib.contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS to one thread while the body runs; bodies may overlap in several threads."""
    global _limiter, _users
    with _lock:
        if _users == 0:
            _limiter = _controller().limit(limits=1)
            _limiter.__enter__()
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0 and _limiter is not None:
                _limiter.__exit__(None, None, None)
                _limiter = None


def for_ranges(body: Callable[[int, int], None], n: int, step: int, *, work: float) -> None:
    """Call ``body(start, stop)`` for ranges that together cover ``0 … n``, in parallel when it pays.

    BLAS is held to one thread meanwhile.

    Parameters
    ----------
    body : callable
        Must release the GIL for most of its time and write only to its own range.
    n : int
        End of the whole range.
    step : int
        Ranges begin at multiples of this, whatever the number of threads.
    work : float
        Estimated seconds of the whole on one thread; below 0.2 ms it is not split.
    """
    threads = thread_count()
    steps = -(-n // step)
    with single_threaded_blas():
        if threads == 1 or steps == 1 or work < 2e-4 or getattr(_local, "busy", False):
            if n:
                body(0, n)
            return
        # more parts than threads even out a neighbour's load on one of the cores
        parts = min(steps, threads if work < 1e-3 else 4 * threads)
        bounds = [min(n, step * (steps * i // parts)) for i in range(parts + 1)]
        futures = [_executor(threads).submit(body, bounds[i], bounds[i + 1]) for i in range(1, parts)]
        body(bounds[0], bounds[1])
        for future in futures:
            future.result()


def run_all(tasks: Sequence[Callable[[], None]]) -> None:
    """Run tasks side by side, each of them on one thread: what it splits by ``for_ranges`` stays with it.

    Raises
    ------
    Exception
        The first one of the tasks, in their order, once all of them have ended.
    """

    def run(task: Callable[[], None]) -> None:
        _local.busy = True
        try:
            task()
        finally:
            _local.busy = False

    with single_threaded_blas(), ThreadPoolExecutor(thread_count(), thread_name_prefix="problem") as executor:
        futures = [executor.submit(run, task) for task in tasks]
    for future in futures:
        future.result()


def scratch(size: int) -> FloatArray:
    """Return this thread's float32 work space of at least ``size`` elements (kept: fresh pages are dear)."""
    buffer: FloatArray | None = getattr(_local, "buffer", None)
    if buffer is None or buffer.size < size:
        buffer = np.empty(size, np.float32)
        _local.buffer = buffer
    return buffer

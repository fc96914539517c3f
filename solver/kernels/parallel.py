"""Threads of the CPU engine: a small pool for compiled code that releases the GIL, and BLAS held to one thread.

The engine splits work by columns over its own threads and lets every one of them call single-threaded BLAS. Two
layers of threads would fight for the cores (measured: 10 to 20 times slower). A column is always computed by the same
operations in the same order, so results do not depend on the number of threads.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from solver.kernels.aligned import aligned_empty
from solver.typing import FloatArray

_local = threading.local()
_lock = threading.Lock()
_limiter: contextlib.AbstractContextManager[object] | None = None
_users = 0


@functools.cache
def thread_count() -> int:
    """Give the number of threads the engine uses.

    The processors this process may run on, but no more than `OMP_NUM_THREADS` when that is set; found out once.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(wanted)) if wanted.isdigit() and int(wanted) > 0 else cores


def start_threads() -> None:
    """Use as many threads as the environment says by now.

    For a process that was forked from one which loaded everything on a single thread, and so had none to lose.
    """
    thread_count.cache_clear()
    for_blas = os.environ.get("OPENBLAS_NUM_THREADS", "")
    _controller("scipy.linalg" in sys.modules).limit(limits=int(for_blas) if for_blas.isdigit() else thread_count())
    if thread_count() > 1:
        _helpers(thread_count() - 1)


class _Ranges:
    """Ranges that the threads take one at a time, as each becomes free."""

    def __init__(self, body: Callable[[int, int], None], bounds: Sequence[int]) -> None:
        self._body, self._bounds = body, bounds
        self._left = iter(range(len(bounds) - 1))  # a number goes to one thread only
        self._lock = threading.Lock()
        self._helpers = 0
        self._is_over = self._is_waiting = False
        self._helpers_gone = threading.Lock()
        self._helpers_gone.acquire()
        self._error: BaseException | None = None

    def work(self) -> None:
        """Take on ranges until none is left."""
        try:
            for k in self._left:
                self._body(self._bounds[k], self._bounds[k + 1])
        except BaseException as error:  # raised where the ranges come from
            self._error = error
            self._left = iter(range(0))

    def help(self) -> None:
        """Work in another thread, unless that comes too late."""
        with self._lock:
            if self._is_over:
                return
            self._helpers += 1
        self.work()
        with self._lock:
            self._helpers -= 1
            if self._is_waiting and not self._helpers:
                self._helpers_gone.release()

    def finish(self) -> None:
        """Wait for those who help, but not for those who never came."""
        with self._lock:
            self._is_over = True
            self._is_waiting = self._helpers > 0
        if self._is_waiting:
            self._helpers_gone.acquire()
        if self._error is not None:
            raise self._error


class _Helpers:
    """Threads that help with the ranges of one caller at a time."""

    def __init__(self, count: int) -> None:
        self._in_use = threading.Lock()
        self._ranges: _Ranges | None = None
        self._asleep = [threading.Lock() for _ in range(count)]
        for lock in self._asleep:
            lock.acquire()
            threading.Thread(target=self._help, args=(lock,), name="solver", daemon=True).start()

    def _help(self, asleep: threading.Lock) -> None:
        _local.busy = True
        while True:
            asleep.acquire()
            ranges = self._ranges
            if ranges is not None:
                ranges.help()
            ranges = None  # what its body refers to may go

    def run(self, ranges: _Ranges) -> None:
        """Have all ranges worked on; by this thread alone where another one has the helpers."""
        if not self._in_use.acquire(blocking=False):
            ranges.work()
            ranges.finish()
            return
        try:
            self._ranges = ranges
            for lock in self._asleep:
                if lock.locked():
                    lock.release()
            ranges.work()
            ranges.finish()
        finally:
            self._ranges = None
            self._in_use.release()


@functools.cache
def _helpers(count: int) -> _Helpers:
    return _Helpers(count)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)  # threads stay behind


@functools.cache
def _controller(_scipy_is_loaded: bool) -> Any:
    """What holds the BLAS libraries that are loaded: NumPy's, and SciPy's own once there is one."""
    return ThreadpoolController().select(user_api="blas")


@contextlib.contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS to one thread while the body runs; bodies may overlap in several threads."""
    global _limiter, _users
    with _lock:
        if _users == 0:
            _limiter = _controller("scipy.linalg" in sys.modules).limit(limits=1)
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
    """Call `body(start, stop)` for ranges that together cover `0 … n`, in parallel when it pays.

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
        if threads == 1 or steps <= 1 or work < 2e-4 or getattr(_local, "busy", False):
            if n:
                body(0, n)
            return
        # more parts than threads even out a neighbour's load on one of the cores; taking one costs 20 µs
        parts = min(steps, max(threads, min(4 * threads, int(work / 1e-4))))
        bounds = [min(n, step * (steps * i // parts)) for i in range(parts + 1)]
        _helpers(threads - 1).run(_Ranges(body, bounds))


def run_all(tasks: Sequence[Callable[[], None]]) -> None:
    """Run tasks side by side, each of them on one thread: what it splits by `for_ranges` stays with it.

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
    """Return this thread's float32 work space of at least `size` elements (kept: fresh pages are dear)."""
    buffer: FloatArray | None = getattr(_local, "buffer", None)
    if buffer is None or buffer.size < size:
        buffer = aligned_empty(size, np.float32)
        _local.buffer = buffer
    return buffer

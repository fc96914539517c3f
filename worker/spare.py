"""Child processes for jobs, one of which is always kept warm.

Starting Python, importing the numerical libraries and loading compiled code takes seconds; a spare child has done so
before the job comes. Each child runs one job and ends, which gives back all its memory whatever the job did.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from worker.protocol import LONGEST_LINE, Job

log = logging.getLogger("prefsvm.worker")

WARM_UP_SECONDS = 300.0
"""A child that is not ready by then is given up. The first one on a machine compiles the solver."""
MOST_SPARES = 2
BUSY_SECONDS = 10.0
"""For so long after somebody waited for a child, two are kept warm instead of one: short jobs come thick and fast."""
UNDISTURBED_SECONDS = 3.0
"""For so long a job has the processors to itself, unless somebody waits for a child: making one ready takes seconds of
processor time, as much as many a job."""
RETRY_SECONDS = 2.0
"""Pause after a child that could not be made ready."""
MOST_FAILED_STARTS = 3
"""After so many children that could not be made ready, one after the other, who waits for one is told so."""
RUNNER_VARIABLE = "PREFSVM_JOB_RUNNER"
"""Module that does the work in the child. Only tests set it, and more that begins so for that module."""
KEPT_VARIABLES = ("PATH", "HOME", "TMPDIR", "TZ", "LANG", "XDG_CACHE_HOME", "LD_LIBRARY_PATH")
KEPT_PREFIXES = (
    "LC_", "PYTHON", "NUMBA_", "OMP_", "OPENBLAS_", "MKL_", "CUDA_", "CUPY_", "NVIDIA_", "COVERAGE_", RUNNER_VARIABLE,
)  # fmt: skip
"""What the process that reads uploaded data is handed of the environment: nothing that could be a secret."""
BLOB_STORE_PREFIXES = ("AWS_", "FSSPEC_", "GOOGLE_", "AZURE_", "SSL_CERT_", "REQUESTS_CA_", "HTTPS_PROXY", "NO_PROXY")
"""And this where it reads from an object store."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
NVIDIA_CONTROL = Path("/dev/nvidiactl")


class ChildGoneError(Exception):
    """Raised when the child closed its end of the line: it has ended, or broke the protocol."""


class NoChildError(Exception):
    """Raised when children end, again and again, before they are ready for a job."""


def child_environment(environment: Mapping[str, str], slots: int, online: bool) -> dict[str, str]:
    """Return the environment of a child: what it needs and no more, and a fair share of the processors for each slot.

    Parameters
    ----------
    environment : mapping of str to str
        Of the worker.
    slots : int
    online : bool
        Whether the child reads data sets from an object store, whose keys are in the environment.
    """
    threads = str(max(1, len(os.sched_getaffinity(0)) // slots))
    prefixes = KEPT_PREFIXES + (BLOB_STORE_PREFIXES if online else ())
    kept = {name: value for name, value in environment.items() if name in KEPT_VARIABLES or name.startswith(prefixes)}
    return {**dict.fromkeys(THREAD_VARIABLES, threads), **kept, "PYTHONFAULTHANDLER": "1"}


class Child:
    """One child process, in a session and process group of its own.

    Start it from a thread that lives as long as the worker: the kernel kills the child when that *thread* ends.

    Parameters
    ----------
    runner : str
        Name of the module that does the work.
    slots : int
        Jobs that run side by side in this worker.
    online : bool
        Whether the child keeps its way to the network.
    """

    def __init__(self, runner: str, slots: int, online: bool) -> None:
        reading, writing = os.pipe()
        try:
            arguments = [str(writing), str(os.getpid()), runner, "online" if online else "offline"]
            self.process = subprocess.Popen(
                [sys.executable, "-m", "worker.child", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=child_environment(os.environ, slots, online),
                pass_fds=(writing,),
                start_new_session=True,
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._reading = reading
        self._writing = threading.Lock()
        self._buffer = b""
        self._ended = False

    @property
    def pid(self) -> int:
        """Process id, which is also that of the group."""
        return self.process.pid

    def read(self, seconds: float) -> dict[str, Any] | None:
        """Return the next line of the child, or None after `seconds`.

        Raises
        ------
        ChildGoneError
            If there will be no further line.
        """
        deadline = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            waiting = max(0.0, deadline - time.monotonic())
            if not select.select([self._reading], [], [], waiting)[0]:
                return None
            received = os.read(self._reading, 1 << 16)
            if not received or len(self._buffer) > LONGEST_LINE:
                raise ChildGoneError
            self._buffer += received
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            message = json.loads(line)
        except ValueError as error:
            raise ChildGoneError from error
        if not isinstance(message, dict) or not isinstance(message.get("type"), str):
            raise ChildGoneError
        return message

    def give(self, job: Job, memory_bytes: int) -> None:
        """Limit the memory of the child from outside and hand it the job.

        Raises
        ------
        ChildGoneError
            If the child has died in its sleep.
        """
        try:
            # CUDA reserves address space far beyond what it uses. There, only `resident_bytes` is watched.
            if not NVIDIA_CONTROL.exists():
                # The kernel limits address space, of which a warm child has reserved more than it uses: let it grow by
                # as much as the memory in use may grow.
                reserved, resident = self._memory()
                limit = reserved - resident + memory_bytes
                resource.prlimit(self.pid, resource.RLIMIT_AS, (limit, limit))
            self._write(job.to_line())
        except (BrokenPipeError, ProcessLookupError) as error:
            raise ChildGoneError from error

    def ask_to_stop(self) -> None:
        """Ask the child to come to an end and keep the best model so far."""
        try:
            self._write(b"stop\n")
        except BrokenPipeError:
            return  # It ended by itself; the reading side finds out how.

    def answer(self, answer: Mapping[str, Any]) -> None:
        """Answer a question of the child; may be called from any thread."""
        with contextlib.suppress(BrokenPipeError, ValueError):  # It has ended, or was ended: who watches it finds out.
            self._write(json.dumps(answer).encode() + b"\n")

    def _write(self, line: bytes) -> None:
        assert self.process.stdin is not None  # noqa: S101 (for the type checker)
        with self._writing:
            self.process.stdin.write(line)
            self.process.stdin.flush()

    def resident_bytes(self) -> int:
        """Return the physical memory that the child has now; 0 if it has ended."""
        return self._memory()[1]

    def _memory(self) -> tuple[int, int]:
        """Return reserved address space and physical memory in bytes."""
        try:
            reserved, resident = Path(f"/proc/{self.pid}/statm").read_text().split()[:2]
        except (OSError, ValueError):
            return 0, 0
        return int(reserved) * resource.getpagesize(), int(resident) * resource.getpagesize()

    def exit_status(self, seconds: float) -> int | None:
        """Wait for the end of the child and leave it unreaped; negative for a signal, None if it still runs."""
        deadline = time.monotonic() + seconds
        while True:
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            if found is not None:
                return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.01)

    def end(self) -> None:
        """Kill the whole group and clean up. Can be called again."""
        if self._ended:
            return
        self._ended = True
        # Before the child is reaped: afterwards its number may be somebody else's.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            log.error("child %d does not die: it is stuck in the kernel", self.pid)
        assert self.process.stdin is not None  # noqa: S101 (for the type checker)
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        os.close(self._reading)


class SparePool:
    """Keeps one child warm, and for a while two of them after somebody had to wait for one.

    The next one is made ready when the job of the last one has ended or has run for `UNDISTURBED_SECONDS`, or as soon
    as somebody waits for it.

    Parameters
    ----------
    runner : str
        Name of the module that does the work in the child.
    slots : int
        Jobs that run side by side in this worker.
    online : bool, default=False
        Whether the children need the network to read their rows. On a machine with an NVIDIA GPU they keep it anyway.
    """

    def __init__(self, runner: str, slots: int, online: bool = False) -> None:
        self._runner = runner
        self._slots = slots
        # CUDA in namespaces of a process's own was not tried.
        self._online = online or NVIDIA_CONTROL.exists()
        self._changed = threading.Condition()
        self._spares: list[Child] = []
        self._starting = 0
        self._two_until = 0.0
        self._undisturbed_until = 0.0
        self._failed_starts = 0
        """Since the worker began; who waits for a child compares it with what it was when the wait began."""
        self.numerics = ""
        """Where this is the same, the same computation gives the same bits; empty until a child was warm."""
        self._closed = False
        # Threads that live as long as the worker, because processes die with the thread that started them.
        self._threads = [
            threading.Thread(target=self._keep_warm, name=f"spare-{number}", daemon=True)
            for number in range(MOST_SPARES)
        ]
        for thread in self._threads:
            thread.start()

    def take(self, give_up: Callable[[], bool]) -> Child | None:
        """Return a warm child, waiting for one if need be; None once `give_up` returns True.

        Raises
        ------
        NoChildError
            If `MOST_FAILED_STARTS` children could not be made ready while this waited.
        """
        failed_before = self._failed_starts
        while not give_up():
            with self._changed:
                if not self._spares:
                    if self._failed_starts - failed_before >= MOST_FAILED_STARTS:
                        raise NoChildError
                    self._two_until = time.monotonic() + BUSY_SECONDS
                    self._changed.notify_all()
                    self._changed.wait(0.2)
                    continue
                child = self._spares.pop(0)
                self._undisturbed_until = time.monotonic() + UNDISTURBED_SECONDS
                self._changed.notify_all()
            if child.exit_status(0.0) is None:
                return child
            child.end()
        return None

    def job_ended(self) -> None:
        """Tell that the processors are free to make the next child ready."""
        with self._changed:
            self._undisturbed_until = 0.0
            self._changed.notify_all()

    def close(self) -> None:
        """Kill the spare children and start no other."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(15)
        for child in self._spares:
            child.end()

    @property
    def is_warm(self) -> bool:
        """Whether a child waits for a job."""
        return bool(self._spares)

    def _is_wanted(self) -> bool:
        now = time.monotonic()
        if now < self._two_until:
            return len(self._spares) + self._starting < MOST_SPARES
        return now >= self._undisturbed_until and not self._spares and not self._starting

    def _keep_warm(self) -> None:
        while True:
            with self._changed:
                while not self._closed and not self._is_wanted():
                    undisturbed = self._undisturbed_until - time.monotonic()
                    self._changed.wait(undisturbed if undisturbed > 0 else None)
                if self._closed:
                    return
                self._starting += 1
            child = self._start()
            with self._changed:
                if child is None:
                    self._failed_starts += 1
                    self._changed.wait_for(lambda: self._closed, RETRY_SECONDS)
                else:
                    self._spares.append(child)
                self._starting -= 1
                self._changed.notify_all()

    def _start(self) -> Child | None:
        """Start a child and wait until it is warm; None if that failed."""
        try:
            child = Child(self._runner, self._slots, self._online)
        except OSError as error:
            log.error("no child process can be started: %s", error)
            return None
        deadline = time.monotonic() + WARM_UP_SECONDS
        try:
            while not self._closed and time.monotonic() < deadline:
                message = child.read(0.2)
                if message is not None and message["type"] == "ready":
                    self.numerics = str(message.get("numerics", ""))
                    return child
        except ChildGoneError:
            log.error("a child process ended before it was ready (status %s)", child.exit_status(5.0))
        child.end()
        return None

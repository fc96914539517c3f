"""Children that run jobs, as the worker sees them: asked for, limited, spoken to, killed."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from service.processes import BLOB_STORE_PREFIXES, HANDED_TO_JOBS, PREFIXES_HANDED_TO_JOBS, adopt_orphans, handed
from worker.forkserver import THREAD_VARIABLES
from worker.protocol import LONGEST_LINE, JobSpec

log = logging.getLogger("prefsvm.worker")

NVIDIA_CONTROL = Path("/dev/nvidiactl")
REAP_SECONDS = 10.0
"""So long a killed child may take to be gone."""


class ChildGoneError(Exception):
    """Raised when the child closed its end of the line: it has ended, or broke the protocol."""


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
    kept = handed(environment, HANDED_TO_JOBS, PREFIXES_HANDED_TO_JOBS + (BLOB_STORE_PREFIXES if online else ()))
    return {**dict.fromkeys(THREAD_VARIABLES, threads), **kept, "PYTHONFAULTHANDLER": "1"}


class Child:
    """One child process, in a session and process group of its own.

    Parameters
    ----------
    control : socket.socket
        Where the fork server is asked for it.
    of_warm_server : bool
        Whether that fork server has nothing more to load.
    """

    def __init__(self, control: socket.socket, *, of_warm_server: bool) -> None:
        self.control = control
        self.of_warm_server = of_warm_server
        child_end, own_end = os.pipe()
        try:
            reading, reporting = os.pipe()
        except OSError:
            os.close(child_end)
            os.close(own_end)
            raise
        try:
            socket.send_fds(control, [b"+"], [child_end, reporting])
        except BaseException:
            os.close(own_end)
            os.close(reading)
            raise
        finally:
            os.close(child_end)
            os.close(reporting)
        self._pid: int | None = None
        """None until the child has said it."""
        self._input = os.fdopen(own_end, "wb")
        self._reading = reading
        self._writing = threading.Lock()
        self._buffer = b""
        self._ended = False

    @property
    def pid(self) -> int:
        """Process id, which is also that of the group. Raises `ChildGoneError` before the child has said it."""
        if self._pid is None:
            raise ChildGoneError
        return self._pid

    @property
    def has_started(self) -> bool:
        """Whether it has said its process id."""
        return self._pid is not None

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
        if (
            message["type"] == "started" and self._pid is None
        ):  # Only the first is believed: a later one could name another process to kill.
            self._pid = int(message["pid"])
        return message

    def give(self, job: JobSpec, memory_bytes: int) -> None:
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
            return  # It has ended by itself, and whoever reads what it says finds out how.

    def answer(self, answer: Mapping[str, Any]) -> None:
        """Answer a question of the child; may be called from any thread."""
        with contextlib.suppress(BrokenPipeError, ValueError):  # It has ended, and whoever watches it finds out.
            self._write(json.dumps(answer).encode() + b"\n")

    def _write(self, line: bytes) -> None:
        with self._writing:
            self._input.write(line)
            self._input.flush()

    def resident_bytes(self) -> int:
        """Return the physical memory that the child has now; 0 if it has ended."""
        return self._memory()[1]

    def processor_seconds(self) -> float:
        """Return the processor time that the child has used with all its threads; 0 if it has ended."""
        try:
            # The fields stand behind the name, which is in brackets and may hold any character.
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _memory(self) -> tuple[int, int]:
        """Return reserved address space and physical memory in bytes."""
        try:
            reserved, resident = Path(f"/proc/{self.pid}/statm").read_text().split()[:2]
        except (OSError, ValueError):
            return 0, 0
        return int(reserved) * resource.getpagesize(), int(resident) * resource.getpagesize()

    def exit_status(self, seconds: float) -> int | None:
        """Wait for the end of the child and leave it unreaped; negative for a signal, None if it still runs.

        None, too, if it never said that it runs.
        """
        if self._pid is None:
            return None
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
        if self._pid is not None:
            # Before the child is reaped: afterwards its number may be somebody else's.
            _kill_group(self._pid)
        with contextlib.suppress(BrokenPipeError):
            self._input.close()
        os.close(self._reading)


def _kill_group(group: int) -> None:
    """Kill and collect the leader of a process group, and what it has started: that is ours now, too."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    deadline = time.monotonic() + REAP_SECONDS
    pause = 0.0005
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            ended, _ = os.waitpid(-group, os.WNOHANG)
            if not ended:
                time.sleep(pause)
                pause = min(0.05, 2 * pause)
        log.error("process %d does not die: it is stuck in the kernel", group)


class ChildFactory:
    """Makes children. They are forked from a process in which their work is loaded, see `worker.forkserver`.

    That one is started when the first child is asked for, and again if it has ended. Use it from threads that live as
    long as the worker: the kernel kills the fork server when the *thread* ends that started it, and children when the
    main thread does.

    Parameters
    ----------
    runner : str
        Name of the module that does the work.
    slots : int
        Jobs that run side by side in this worker.
    online : bool
        Whether the children keep their way to the network. On a machine with an NVIDIA GPU they do anyway, and make
        themselves ready one by one.
    writable : Path, optional
        Folder below which the children may write, if the kernel can see to that; without it, and with a GPU, they may
        write wherever the user may.
    """

    def __init__(self, runner: str, slots: int, online: bool, writable: Path | None = None) -> None:
        self._runner = runner
        self._writable = writable
        self._slots = slots
        self._online = online
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._asked_for: list[Child] = []
        """Of this fork server, as long as none of them is known to have started."""
        self._is_warm = False
        self._compiled = 0.0

    def make(self) -> Child:
        """Ask for a child. It says when it has started and when it is ready.

        Raises
        ------
        OSError
            If no process can be started.
        """
        with self._lock:
            if self._server is None or self._has_ended(self._server):
                self._end()
                self._start()
            assert self._control is not None  # noqa: S101 (for the type checker)
            # Whoever has forked one is done with loading.
            self._is_warm = self._is_warm or any(child.has_started for child in self._asked_for)
            child = Child(self._control, of_warm_server=self._is_warm)
            self._asked_for = [] if self._is_warm else [*self._asked_for, child]
            return child

    def replace_server_of(self, child: Child) -> None:
        """Kill the fork server that was asked for a child, unless another has taken its place already."""
        with self._lock:
            if self._control is child.control:
                self._end()

    def compiled(self) -> float:
        """Return how much of what has to be compiled is, from 0 to 1; 0 also where nothing has to be."""
        with self._lock:
            if self._control is not None:
                with contextlib.suppress(OSError):  # there is no news, or the fork server is gone
                    if news := self._control.recv(4096, socket.MSG_DONTWAIT):
                        self._compiled = news[-1] / 100
            return self._compiled

    def end(self) -> None:
        """Kill the fork server. Children that it has made live on."""
        with self._lock:
            self._end()

    def _start(self) -> None:
        adopt_orphans()
        # CUDA in namespaces of a process's own was not tried, and it does not outlive a fork.
        has_gpu = NVIDIA_CONTROL.exists()
        network = "online" if self._online or has_gpu else "offline"
        ours, theirs = socket.socketpair()
        with theirs:
            # CuPy keeps what it compiles, too, and each child does so by itself.
            writable = "" if has_gpu or self._writable is None else str(self._writable)
            warmth = "cold" if has_gpu else "warm"
            arguments = [str(theirs.fileno()), str(os.getpid()), self._runner, network, writable, warmth]
            try:
                self._server = subprocess.Popen(
                    [sys.executable, "-m", "worker.forkserver", *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    env=child_environment(os.environ, self._slots, self._online or has_gpu),
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        self._control = ours

    @staticmethod
    def _has_ended(server: subprocess.Popen[bytes]) -> bool:
        """Tell whether the fork server has ended, and leave it unreaped, so that its number stays that of its group."""
        return os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def _end(self) -> None:
        self._asked_for, self._is_warm, self._compiled = [], False, 0.0
        if self._server is not None:
            # Its whole group, as a child that it has just forked may not be known here yet.
            _kill_group(self._server.pid)
            self._server.poll()  # collects the exit status
            self._server = None
        if self._control is not None:
            self._control.close()
            self._control = None

"""The process that children are forked from: ``python -m worker.forkserver``, started by `worker.children`.

To start Python, import the numerical libraries and load compiled code takes seconds of processor time. It is done
here, once; after that a fork makes a child that is ready for a job. What is not compiled yet is compiled by processes
of their own (`worker.compiling`): the compiler's memory, 130 MB, would count as that of each child. There is no
connection in this process, no GPU, nothing that a user sent, and no thread that a child would miss: libraries are held
to one, and each child starts its own.

A child becomes one of the worker: who forks it ends at once, and the worker has such orphans come to it
(``PR_SET_CHILD_SUBREAPER``). So the worker waits for it, learns how it ended and kills it as if it had started it.
"""

from __future__ import annotations

import gc
import importlib
import os
import resource
import signal
import socket
import sys
import time
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from service.isolation import leave_network, write_only_below
from service.processes import die_with_parent
from worker import child_main

NICENESS = 10
"""Training must not take the processor from requests that wait for an answer."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
ORPHAN_SECONDS = 0.0005
"""How often a child looks whether it is the worker's by now."""


class ForkServer:
    """Forks a child whenever the worker asks for one.

    Parameters
    ----------
    control : socket.socket
        The worker sends a byte for each child it wants, and with it the standard input of the child and the descriptor
        that this one reports to. It closes its end when it needs no more.
    worker : int
        Process id of the worker.
    runner : str
        Module with ``warm_up(tell)``, ``start_threads()``, ``numerics()``, ``run(job, reporter)`` and
        ``run_part(job, reporter)``.
    """

    def __init__(self, control: socket.socket, worker: int, runner: str) -> None:
        self._control = control
        self._worker = worker
        self._runner = runner
        self._threads = {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ}
        self._is_warm = False

    def warm_up(self) -> None:
        """Load what children need, on one thread."""
        os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
        runner = importlib.import_module(self._runner)
        runner.warm_up(self._tell)
        runner.numerics()  # It is kept, and takes as long as all that a child has left to do.
        self._is_warm = True

    def _tell(self, compiled: float) -> None:
        """Tell the worker, if it still listens, how much of what has to be compiled is: as a byte from 0 to 100."""
        with suppress(OSError):
            self._control.send(bytes([int(100 * compiled)]), socket.MSG_DONTWAIT)

    def serve(self) -> None:
        """Fork children until the worker needs no more."""
        # Memory that nobody writes to is shared, and the collector would write to all of it.
        gc.collect()
        gc.freeze()
        while True:
            asked, descriptors, _, _ = socket.recv_fds(self._control, 1, 2)
            if not asked:
                return
            try:
                between = os.fork()
                if between == 0:
                    self._fork_and_end(*descriptors)
                os.waitpid(between, 0)
                with suppress(ChildProcessError):
                    while os.waitpid(-1, os.WNOHANG) != (0, 0):
                        """One that has compiled in the background has ended."""
            except OSError:  # The worker is told by the end of the line.
                traceback.print_exc()
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)

    def _fork_and_end(self, given: int, report: int) -> NoReturn:
        try:
            between = os.getpid()
            if os.fork() == 0:
                self._become_child(between, given, report)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)

    def _become_child(self, between: int, given: int, report: int) -> None:
        os.setsid()
        self._control.close()
        os.dup2(given, sys.stdin.fileno())
        os.close(given)
        os.set_inheritable(report, False)
        while os.getppid() == between:
            time.sleep(ORPHAN_SECONDS)
        die_with_parent(self._worker)
        child_main.main(report, self._runner, self._make_ready)

    def _make_ready(self) -> None:
        if not self._is_warm:
            self.warm_up()
        os.environ.update(self._threads)


def main(control: int, worker: int, runner: str, network: str, writable: str, warmth: str) -> None:
    """Serve one worker.

    Parameters
    ----------
    control : int
        File descriptor, see `ForkServer`.
    worker : int
        Process id of the worker.
    runner : str
        See `ForkServer`.
    network : str
        ``offline``: leave it, if the kernel allows that; ``online``: the rows are read from there, or it is not known
        whether the devices bear it.
    writable : str
        Folder below which children may write, which includes their own; empty: wherever the user may.
    warmth : str
        ``warm``; ``cold``: load nothing, because a GPU that was touched cannot be handed to a child.
    """
    os.nice(NICENESS)
    if network == "offline":
        leave_network()
    die_with_parent(worker)  # Afterwards: the kernel forgets it when a process gets rights, if only in a namespace.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Ctrl-C in a terminal is for the supervisor, which decides what becomes of the job.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Python 3.12 warns of any thread beside the fork. The only one here is the allocator's of Arrow, which knows forks.
    warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)
    os.set_inheritable(control, False)
    server = ForkServer(socket.socket(fileno=control), worker, runner)
    if warmth != "cold":
        server.warm_up()
    if writable:
        # Compiled code is kept as pickles: a job that was taken over must not leave some for the next process.
        write_only_below([Path(writable)])
    server.serve()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:7])

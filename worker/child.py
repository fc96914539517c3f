"""The process that runs one job: ``python -m worker.child``, started and limited by `worker.spare`.

It makes itself ready (imports, compiled solver), says so, and blocks until it is given a job. It runs that job and
ends. One is started for each job, so that it imports little of its own: of 20 jobs a second each has 100 ms.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import json
import os
import resource
import signal
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

from service.isolation import leave_network
from worker.protocol import (
    MODEL_FILE,
    PART_FILE,
    PREDICTIONS_FILE,
    RESULT_FILE,
    Job,
    JobError,
    Reporter,
    Result,
    storable,
)

NICENESS = 10
"""Training must not take the processor from requests that wait for an answer."""
PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread that started it ends, however it ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    # The parent may have ended before the setting was made.
    if os.getppid() != parent:
        os._exit(1)


def _listen(reporter: Reporter) -> None:
    """Wait for the word to stop, and end at once if the supervisor is gone."""
    for line in sys.stdin.buffer:
        if line.strip() == b"stop":
            reporter.ask_to_stop()
        else:
            reporter.hear(json.loads(line))
    os._exit(1)


def _sha256(path: Path) -> tuple[int, str]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return file.tell(), digest


def _run(runner: ModuleType, job: Job, reporter: Reporter) -> dict[str, Any]:
    """Run a job and return the fields of the last line."""
    scratch = Path(job.scratch)
    if job.kind == "part":
        runner.run_part(job, reporter)
        size, digest = _sha256(scratch / PART_FILE)
        return {"bytes": size, "sha256": digest}
    if job.kind == "batch":
        from worker import batch  # computes, as the runner does, and is wanted seldom

        result: Result = batch.run(job, reporter)
        made = PREDICTIONS_FILE
    else:
        result, made = runner.run(job, reporter), MODEL_FILE
    reporter.progress("storing", 1.0)
    size, digest = _sha256(scratch / made)
    (scratch / RESULT_FILE).write_text(json.dumps(storable(asdict(result)), allow_nan=False))
    return {"bytes": size, "sha256": digest}


def _place(error: BaseException) -> str:
    """Name the line that raised, and never what it raised with: that may quote the user's data."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = "" if last is None else f" in {Path(last.tb_frame.f_code.co_filename).name}, line {last.tb_lineno}"
    return type(error).__name__ + where


def _move_to(folder: str) -> None:
    """Make the folder of the job the current one, and that of temporary files too."""
    os.chdir(folder)
    os.environ["TMPDIR"] = folder
    if (loaded := sys.modules.get("tempfile")) is not None:
        setattr(loaded, "tempdir", folder)  # noqa: B010 (it is not loaded for this)


def main(report: int, parent: int, runner_name: str, network: str) -> None:
    """Serve one job.

    Parameters
    ----------
    report : int
        File descriptor for the lines to the supervisor.
    parent : int
        Process id of the supervisor.
    runner_name : str
        Module with ``warm_up()``, ``numerics()``, ``run(job, reporter)`` and ``run_part(job, reporter)``.
    network : str
        ``offline``: leave it, if the kernel allows that; ``online``: the rows are read from there, or it is not known
        whether the devices bear it.
    """
    if network == "offline":
        leave_network()
    die_with_parent(parent)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(NICENESS)
    os.set_inheritable(report, False)
    # Ctrl-C in a terminal is for the supervisor, which decides what becomes of the job.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reporter = Reporter(report)
    runner = importlib.import_module(runner_name)
    runner.warm_up()
    reporter.send("ready", numerics=runner.numerics())

    line = sys.stdin.buffer.readline()
    if not line:
        return
    job = Job.from_line(line)
    _move_to(job.scratch)
    threading.Thread(target=_listen, args=(reporter,), daemon=True).start()
    try:
        last = _run(runner, job, reporter)
    except JobError as error:
        reporter.send("failed", code=error.code, message=error.message, again=False)
    except MemoryError:
        reporter.send("failed", code="out_of_memory", message="out of memory", again=True)
    except Exception as error:  # whatever it was, the supervisor must hear of it
        message = f"the training process failed with a {_place(error)}"
        reporter.send("failed", code="internal_error", message=message, again=True)
    else:
        reporter.send("succeeded", **last)
    # No interpreter shutdown: threads of numerical libraries may hang in it, and there is nothing left to save.
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])

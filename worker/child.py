"""The process that runs one job: ``python -m worker.child``, started and limited by `worker.spare`.

It makes itself ready (imports, compiled solver), says so, and blocks until it is given a job. It runs that job and
ends.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import traceback
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

from worker.protocol import MODEL_FILE, PREDICTIONS_FILE, RESULT_FILE, Job, JobError, Reporter, Result, storable

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
    os._exit(1)


def _sha256(path: Path) -> tuple[int, str]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return file.tell(), digest


def _run(runner: ModuleType, job: Job, reporter: Reporter) -> dict[str, Any]:
    """Run a job and return the fields of the last line."""
    if job.kind == "batch":
        from worker import batch  # computes, as the runner does, and is wanted seldom

        result: Result = batch.run(job, reporter)
        made = PREDICTIONS_FILE
    else:
        result, made = runner.run(job, reporter), MODEL_FILE
    reporter.progress("storing", 1.0)
    scratch = Path(job.scratch)
    size, digest = _sha256(scratch / made)
    (scratch / RESULT_FILE).write_text(json.dumps(storable(asdict(result)), allow_nan=False))
    return {"bytes": size, "sha256": digest}


def _place(error: BaseException) -> str:
    """Name the line that raised, and never what it raised with: that may quote the user's data."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    return f"{type(error).__name__} in {Path(last.filename).name}, line {last.lineno}"


def main() -> None:
    """Serve one job."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--report", type=int, required=True, help="file descriptor for the lines to the supervisor")
    parser.add_argument("--parent", type=int, required=True, help="process id of the supervisor")
    parser.add_argument("--runner", required=True, help="module with warm_up() and run(job, reporter)")
    arguments = parser.parse_args()
    die_with_parent(arguments.parent)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(NICENESS)
    os.set_inheritable(arguments.report, False)
    # Ctrl-C in a terminal is for the supervisor, which decides what becomes of the job.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reporter = Reporter(arguments.report)
    runner = importlib.import_module(arguments.runner)
    runner.warm_up()
    reporter.send("ready")

    line = sys.stdin.buffer.readline()
    if not line:
        return
    job = Job.from_line(line)
    os.chdir(job.scratch)
    tempfile.tempdir = job.scratch
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
    main()

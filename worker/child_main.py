"""The process that runs one job: forked ready by `worker.forkserver`, limited by `worker.children`.

It says that it is ready and blocks until it is given a job. It runs that job and ends: its memory is given back
whatever the job did.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from service.blobs.store import is_disk_full
from worker.protocol import DEFAULT_RUNNER, RESULT_FILE, JobSpec, Reporter, Result, UnrunnableJobError, storable


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


def _run(runner: ModuleType, job: JobSpec, reporter: Reporter) -> dict[str, Any]:
    """Run a job and return the fields of the last line."""
    folder = Path(job.scratch)
    module, _, function = job.computes.partition(":")
    compute = getattr(runner if module == DEFAULT_RUNNER else importlib.import_module(module), function)
    result: Result | None = compute(job, reporter)
    if result is not None:
        reporter.progress("storing", 1.0)
        (folder / RESULT_FILE).write_text(json.dumps(storable(asdict(result)), allow_nan=False))
    size, digest = _sha256(folder / job.makes)
    return {"bytes": size, "sha256": digest}


def _is_out_of_memory(error: Exception) -> bool:
    """Whether memory ended, also for the stack of a thread, of which Python says only that it cannot start."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and str(error) == "can't start new thread"
    )


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


def main(report: int, runner_name: str, make_ready: Callable[[], None]) -> NoReturn:
    """Serve one job.

    Parameters
    ----------
    report : int
        File descriptor for the lines to the supervisor.
    runner_name : str
        See `worker.forkserver.ForkServer`.
    make_ready : callable
        Loads what the process that this one was forked from has not, and sets the variables for threads.
    """
    reporter = Reporter(report)
    reporter.send("started", pid=os.getpid())
    make_ready()
    runner = importlib.import_module(runner_name)
    runner.start_threads()
    reporter.send("ready", numerics=runner.numerics())

    line = sys.stdin.buffer.readline()
    if not line:
        os._exit(0)
    job = JobSpec.from_line(line)
    _move_to(job.scratch)
    threading.Thread(target=_listen, args=(reporter,), daemon=True).start()
    try:
        last = _run(runner, job, reporter)
    except UnrunnableJobError as error:
        reporter.send("failed", code=error.code, message=error.message, again=False)
    except Exception as error:  # whatever it was, the supervisor must hear of it
        if _is_out_of_memory(error):
            code, message = "out_of_memory", "out of memory"
        elif is_disk_full(error):
            code, message = "disk_full", "a disk is full"
        else:
            code, message = "internal_error", f"the process of the job failed with a {_place(error)}"
        reporter.send("failed", code=code, message=message, again=True)
    else:
        reporter.send("succeeded", **last)
    # No interpreter shutdown: threads of numerical libraries may hang in it, and there is nothing left to save.
    os._exit(0)

"""Jobs for tests of the worker: tiny, and bad in chosen ways. What to do is in ``request["do"]``.

Children find this module because a test names it (``PREFSVM_JOB_RUNNER``) and puts its folder on ``PYTHONPATH``.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bare_report import bare_report

from solver.report import SharedStage
from worker.protocol import MODEL_FILE, PART_FILE, JobSpec, Reporter, Result, UnrunnableJobError, part_file


def warm_up(tell: Callable[[float], None]) -> None:
    if ready := os.environ.get("PREFSVM_JOB_RUNNER_READY_WHEN"):  # this file is there
        tell(0.5)
        while not Path(ready).exists():
            time.sleep(0.02)
    if "PREFSVM_JOB_RUNNER_NEVER_READY" in os.environ:
        raise SystemExit(7)
    for module in os.environ.get("PREFSVM_JOB_RUNNER_LOADS", "").split():
        importlib.import_module(module)


def start_threads() -> None:
    """There are none."""


def numerics() -> str:
    return os.environ.get("PREFSVM_JOB_RUNNER_NUMERICS", "standin")


def run_part(job: JobSpec, reporter: Reporter) -> None:
    from solver.parts import OnePart, PartComputed
    from solver.tensor_file import read_tensors, write_tensors

    wanted = job.details
    known = {
        stage: [read_tensors(Path(job.scratch, part_file(stage, number)))[0] for number in range(count)]
        for stage, count in wanted["known"].items()
    }
    try:
        _parts(job, reporter, OnePart(wanted["stage"], wanted["number"], known, wanted["cache_bytes"]), "part")
    except PartComputed as computed:
        if reporter.should_stop:
            raise UnrunnableJobError("stopped", "the part was not finished") from None
        write_tensors(Path(job.scratch, PART_FILE), computed.result, {})


def _parts(job: JobSpec, reporter: Reporter, parts, who: str) -> list[float | None]:
    """Two stages of parts that take their time; the second one's results depend on the first one's."""
    import numpy as np

    def stage(name: str, before: float) -> list[float | None]:
        def compute(numbers):
            results = []
            for number in numbers:
                note(job, f"{who} {name} {number} {os.getpid()}")
                until = time.monotonic() + job.request["seconds"]
                if who == "part" and job.request.get("die_elsewhere"):
                    os.kill(os.getpid(), signal.SIGKILL)
                while time.monotonic() < until and not reporter.progress("training", 0.5):
                    time.sleep(0.01)
                stopped = reporter.should_stop
                results.append(None if stopped else {"value": np.array([before + number / 3])})
            return results

        found = parts.compute(name, job.request["parts"], compute)
        return [None if result is None else float(result["value"][0]) for result in found]

    first = stage("first", 1.0)
    return stage("second", sum(value or 0.0 for value in first)) if job.request.get("stages", 1) == 2 else first


def note(job: JobSpec, line: str) -> None:
    if job.request.get("parts_note"):
        with Path(job.request["parts_note"]).open("a") as file:
            file.write(line + "\n")


def _finish(job: JobSpec, status: str, parts: dict[str, SharedStage] | None = None, **told: object) -> Result:
    """What is told lies in the report's ``params``, which take anything."""
    Path(job.scratch, MODEL_FILE).write_bytes(b"model of " + job.job_id.encode())
    report = bare_report(params=told, status=status, parts=parts or {}, timings={"training": 0.0})
    return Result("svm", {"format": 1}, report.to_dict())


def run(job: JobSpec, reporter: Reporter) -> Result:
    do = job.request.get("do", "nothing")
    note = job.request.get("note")
    if note:  # tell the test which process this is
        with Path(note).open("a") as file:
            file.write(f"{os.getpid()} {job.attempt}\n")
    if do == "sleep":
        seconds = job.request["seconds"] if job.attempt == 1 else job.request.get("later", job.request["seconds"])
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if reporter.progress("training", 0.5):
                return _finish(job, "stopped")
            time.sleep(0.02)
    elif do == "deaf":  # never looks whether it should stop
        time.sleep(job.request["seconds"])
    elif do == "work in silence":
        until = time.monotonic() + job.request["seconds"]
        while time.monotonic() < until:
            sum(range(1_000_000))
            time.sleep(0.02)
    elif do == "loop in C":  # holds the interpreter lock, so that no other thread of the child can run
        ctypes.PyDLL(None).sleep(int(job.request["seconds"]))
    elif do == "die":
        if job.attempt <= job.request.get("times", 99):
            os.kill(os.getpid(), signal.SIGKILL)
    elif do == "parts":
        from worker.shared_parts import SharedParts

        parts = SharedParts(reporter, Path(job.scratch), worth_seconds=0.2)
        values = _parts(job, reporter, parts, "own")
        return _finish(job, "stopped" if reporter.should_stop else "met", values=values, parts=parts.report)
    elif do == "exit":
        os._exit(7)
    elif do == "eat":
        eaten = []
        while True:
            eaten.append(bytearray(b"x") * (16 << 20))
            time.sleep(job.request.get("pause", 0))
    elif do == "user error":
        raise UnrunnableJobError("too_few_labels", "3 labelled rows of class 'spam' are needed, 1 was found")
    elif do == "start a thread":
        threading.stack_size(1 << 30)  # more than the job may use
        threading.Thread(target=time.sleep, args=(0,)).start()
    elif do == "bug":
        raise ValueError("secret payload 4711")
    elif do == "babble":
        for _ in range(100_000):
            reporter.progress("training", 0.5)
        for number in range(1200):
            reporter.progress("training", 0.6, {"round": number})
    elif do == "grandchild":
        started = subprocess.Popen(["sleep", "60"])
        Path(job.request["pid_file"]).write_text(str(started.pid))
        time.sleep(60)
    elif do == "says that it is another":
        reporter.send("started", pid=job.request["pid"])
        time.sleep(60)
    elif do == "environment":
        return _finish(job, "met", environment=sorted(os.environ), folder=os.getcwd(), nice=os.nice(0))
    elif do == "odd report":
        return _finish(job, "met", odd={"nan": float("nan"), "nul\0": "a\0b\ud800", "path": [1, 2.5, None, True]})
    elif do == "fill the disk":
        Path(job.scratch, MODEL_FILE).write_bytes(bytes(job.request["bytes"]))
    elif do == "unwritable report":
        return _finish(job, "met", odd=object())
    return _finish(job, "met")

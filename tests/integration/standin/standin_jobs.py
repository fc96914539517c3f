"""Jobs for tests of the worker: tiny, and bad in chosen ways. What to do is in ``request["do"]``.

Children find this module because a test names it (``PREFSVM_JOB_RUNNER``) and puts its folder on ``PYTHONPATH``.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path

from worker.protocol import MODEL_FILE, Job, JobError, Reporter, Result


def warm_up() -> None:
    time.sleep(float(os.environ.get("STANDIN_WARM_UP_SECONDS", "0")))


def _finish(job: Job, status: str, **report: object) -> Result:
    Path(job.scratch, MODEL_FILE).write_bytes(b"model of " + job.job_id.encode())
    return Result("svm", {"format": 1}, {"status": status, "status_reason": "", "timings": {"training": 0.0}, **report})


def run(job: Job, reporter: Reporter) -> Result:
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
    elif do == "loop in C":  # holds the interpreter lock, so that no other thread of the child can run
        ctypes.PyDLL(None).sleep(int(job.request["seconds"]))
    elif do == "die":
        if job.attempt <= job.request.get("times", 99):
            os.kill(os.getpid(), signal.SIGKILL)
    elif do == "exit":
        os._exit(7)
    elif do == "eat":
        eaten = []
        while True:
            eaten.append(bytearray(b"x") * (16 << 20))
            time.sleep(job.request.get("pause", 0))
    elif do == "user error":
        raise JobError("too_few_labels", "3 labelled rows of class 'spam' are needed, 1 was found")
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
    elif do == "environment":
        return _finish(job, "met", environment=sorted(os.environ), folder=os.getcwd(), nice=os.nice(0))
    elif do == "odd report":
        return _finish(job, "met", odd={"nan": float("nan"), "nul\0": "a\0b\ud800", "path": [1, 2.5, None, True]})
    elif do == "unwritable report":
        return _finish(job, "met", odd=object())
    return _finish(job, "met")

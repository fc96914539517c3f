"""Jobs of the chaos tests: most take 50 ms, some three seconds, and each leaves a model that names job and attempt.

What a job does depends on its ``seed`` alone. Children find this module because the test names it
(``PREFSVM_JOB_RUNNER``) and puts its folder on ``PYTHONPATH``.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path

from worker.protocol import MODEL_FILE, Job, JobError, Reporter, Result

SHORT_SECONDS = 0.05
LONG_SECONDS = float(os.environ.get("CHAOS_LONG_SECONDS", "3"))
LONG_EVERY = int(os.environ.get("CHAOS_LONG_EVERY", "50"))
KILLS_ITSELF, EATS_MEMORY, LOOPS_IN_C = range(2**31, 2**31 + 3)


def warm_up() -> None:
    """Nothing is to be loaded."""


def run(job: Job, reporter: Reporter) -> Result:
    """Wait as long as the seed says, or misbehave."""
    if not Path(job.blob_location, job.columnar_key).is_file():
        raise JobError("dataset_lost", "the columnar file of an accepted data set is not there")
    seed = job.request["seed"]
    if seed == KILLS_ITSELF:
        os.kill(os.getpid(), signal.SIGKILL)
    elif seed == EATS_MEMORY:
        eaten = []
        while True:
            eaten.append(bytearray(b"x") * (16 << 20))
    elif seed == LOOPS_IN_C:
        # With the interpreter lock held, so that no other thread of the child can run.
        ctypes.PyDLL(None).sleep(3600)
    seconds = LONG_SECONDS if seed % LONG_EVERY == LONG_EVERY // 2 else SHORT_SECONDS
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if reporter.progress("training", 0.5):
            raise JobError("stopped", "nobody asked for that")
        time.sleep(0.02)
    Path(job.scratch, MODEL_FILE).write_bytes(f"{job.job_id} {job.attempt}".encode())
    report = {"status": "met", "status_reason": "", "timings": {"training": seconds}}
    return Result("svm", {"format": 1}, report)

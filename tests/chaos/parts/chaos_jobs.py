"""Jobs of the chaos tests: most take 50 ms, some three seconds, and each leaves a model that names job and attempt.

What a job does depends on its ``seed`` alone. Children find this module because the test names it
(``PREFSVM_JOB_RUNNER``) and puts its folder on ``PYTHONPATH``.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from solver.report import Classes, Report, RowCounts
from worker.protocol import MODEL_FILE, PART_FILE, JobSpec, Reporter, Result, UnrunnableJobError

if TYPE_CHECKING:  # most children have no use for it, and are to be there soon
    from solver.parts import PartExecutor, PartResult

SHORT_SECONDS = 0.05
LONG_SECONDS = float(os.environ.get("PREFSVM_JOB_RUNNER_LONG_SECONDS", "3"))
LONG_EVERY = int(os.environ.get("PREFSVM_JOB_RUNNER_LONG_EVERY", "50"))
PARTS = 10
KILLS_ITSELF, EATS_MEMORY, LOOPS_IN_C, TRAINS_A_MODEL = range(2**31, 2**31 + 4)


def warm_up(tell: Callable[[float], None]) -> None:
    """Nothing is to be loaded."""


def start_threads() -> None:
    """There are none."""


def numerics() -> str:
    """All workers of the run compute alike."""
    return "chaos"


def run_part(job: JobSpec, reporter: Reporter) -> None:
    """Compute a part of a long job that another worker runs."""
    from solver.parts import OnePart, PartComputed
    from solver.tensor_file import write_tensors

    try:
        wait_in_parts(OnePart(job.details["stage"], job.details["number"], {}, job.details["cache_bytes"]), reporter)
    except PartComputed as computed:
        write_tensors(Path(job.scratch, PART_FILE), computed.result or {}, {})


def wait_in_parts(parts: PartExecutor, reporter: Reporter) -> None:
    """Wait as long as a long job does, in parts that anybody may wait for, and see that each is what it should be."""
    import numpy as np

    def compute(numbers: Sequence[int]) -> list[PartResult]:
        for _ in numbers:
            wait(LONG_SECONDS / PARTS, reporter)
        return [{"square": np.array([float(number**2)])} for number in numbers]

    results = parts.compute("waiting", PARTS, compute)
    found = [None if result is None else float(result["square"][0]) for result in results]
    if found != [float(number**2) for number in range(PARTS)]:
        raise UnrunnableJobError("wrong_parts", f"the parts of the job are {found}")


def wait(seconds: float, reporter: Reporter) -> None:
    """Do nothing for a while."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if reporter.progress("training", 0.5):
            raise UnrunnableJobError("stopped", "nobody asked for that")
        time.sleep(0.02)


def run(job: JobSpec, reporter: Reporter) -> Result:
    """Wait as long as the seed says, or misbehave."""
    if not Path(job.blob_location, job.columnar_key).is_file():
        raise UnrunnableJobError("dataset_lost", "the columnar file of an accepted data set is not there")
    seed = job.request["seed"]
    if seed == TRAINS_A_MODEL:
        from worker import fit

        return fit.run(job, reporter)
    if seed == KILLS_ITSELF:
        os.kill(os.getpid(), signal.SIGKILL)
    elif seed == EATS_MEMORY:
        eaten = []
        while True:
            eaten.append(bytearray(b"x") * (16 << 20))
    elif seed == LOOPS_IN_C:
        # With the interpreter lock held, so that no other thread of the child can run.
        ctypes.PyDLL(None).sleep(3600)
    if seed % LONG_EVERY == LONG_EVERY // 2:
        from worker.shared_parts import SharedParts

        wait_in_parts(SharedParts(reporter, Path(job.scratch), worth_seconds=0.1), reporter)
    else:
        wait(SHORT_SECONDS, reporter)
    Path(job.scratch, MODEL_FILE).write_bytes(f"{job.job_id} {job.attempt}".encode())
    report = Report(
        algorithm="svm", params={}, objective={"kind": "f1"}, status="met", status_reason="", threshold=0.0,
        classes=Classes("no", "yes"), rows=RowCounts(total=0, labelled=0, positive=0, negative=0, unlabelled=0),
        calibration=None, test=None,
    )  # fmt: skip
    return Result("svm", {"format": 1}, report.to_dict())

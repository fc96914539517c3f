"""``python -m service.ingest.child``: reads one upload within hard limits.

The request is one JSON line on standard input, the answer one JSON line on standard output: ``{"result": {…}}`` or
``{"error": {"code", "message", "line", "column"}}``. Limits are set, and the network is left
where the kernel allows it, before anything that reads the file is loaded.
"""

from __future__ import annotations

import gc
import json
import math
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from service.ingest.errors import IngestError
from service.ingest.limits import MAX_THREADS
from service.isolation import hide_secrets, leave_network, write_only_below
from service.processes import die_with_parent
from solver.peak_memory import peak_memory_bytes

CPU_SECONDS_TO_END = 5
OBJECTS_BETWEEN_SWEEPS = 100_000
"""That are made before Python looks for cycles among them: modules and the rows of a file have next to none."""


def main() -> None:
    """Read the request, answer, and end."""
    request: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    # Whatever else writes to standard output must not be taken for the answer.
    answer_descriptor = os.dup(1)
    os.dup2(2, 1)
    leave_network()
    # Whoever takes this process over must not reach others by way of what they load or start.
    write_only_below([Path(request["output"]).parent])
    hide_secrets()
    die_with_parent(request["parent"])
    _limit(request)
    gc.set_threshold(OBJECTS_BETWEEN_SWEEPS)
    answer = _answer(request)
    with os.fdopen(answer_descriptor, "wb") as out:
        out.write(json.dumps(answer, allow_nan=False).encode() + b"\n")
    # No tidying: libraries that have read a broken file have nothing to say any more.
    os._exit(0)


def _limit(request: dict[str, Any]) -> None:
    threads = min(MAX_THREADS, len(os.sched_getaffinity(0)))
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"
    os.environ["ARROW_IO_THREADS"] = "2"
    os.environ["OMP_THREAD_LIMIT"] = str(threads)
    # The wall clock is the parent's business; this ends a child whose parent is stopped.
    cpu = math.ceil(request["seconds"]) * threads + 1
    # Behind the limit proper, for at an equal one the kernel sends no SIGXCPU but what looks like a kill from outside.
    resource.setrlimit(resource.RLIMIT_CPU, _bounds(resource.RLIMIT_CPU, cpu, cpu + CPU_SECONDS_TO_END))
    for kind, value in (
        (resource.RLIMIT_AS, request["memory_bytes"]),
        (resource.RLIMIT_FSIZE, 2 * request["limits"]["max_bytes"] + (1 << 30)),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 256),
    ):
        resource.setrlimit(kind, _bounds(kind, value, value))


def _bounds(kind: int, soft: int, hard: int) -> tuple[int, int]:
    """Return both limits, as far as those that there are allow them."""
    allowed = resource.getrlimit(kind)[1]
    return (soft, hard) if allowed == resource.RLIM_INFINITY else (min(soft, allowed), min(hard, allowed))


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    started = time.monotonic()
    try:
        from service.ingest.limits import ReadingLimits
        from service.ingest.reader import read_upload

        result = read_upload(
            Path(request["path"]),
            request["format"],
            request["options"],
            ReadingLimits(**request["limits"]),
            Path(request["output"]),
        )
    except IngestError as error:
        return _error(error.code, error.message, error.line, error.column)
    except MemoryError:
        # Arrow and NumPy raise subclasses of it.
        mib = request["memory_bytes"] >> 20
        return _error("out_of_memory", f"the file needs more than the {mib} MiB that reading it may take")
    except OSError as error:
        from service.blobs.store import is_disk_full  # only here: to load it takes a while

        if is_disk_full(error):
            return _error("storage_full", "there is no room for the columns of this upload")
        raise
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "result": {
            **result,
            "seconds": time.monotonic() - started,
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "peak_memory_bytes": peak_memory_bytes(),
        }
    }


def _error(code: str, message: str, line: int | None = None, column: str | None = None) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "line": line, "column": column}}


if __name__ == "__main__":
    main()

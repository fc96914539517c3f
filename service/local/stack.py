"""Run the whole local stack from Python, for as long as a ``with`` block lasts."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from service.local.folder import read_holder
from service.local.processes import descendants, kill_group, process_table, spawn
from service.local.servers import ServerError


@dataclass(frozen=True)
class Stack:
    """A running local stack."""

    url: str
    """Address of the API, without a slash at the end."""
    pid: int
    """The process that runs the stack; everything else descends from it."""
    data_dir: Path


@contextmanager
def local_stack(
    data_dir: Path, *, environment: Mapping[str, str] | None = None, seconds: float = 90.0
) -> Iterator[Stack]:
    """Run ``prefsvm serve`` on a data folder and a free port, and stop it at the end.

    Parameters
    ----------
    data_dir : Path
        Data folder; made if missing, kept afterwards.
    environment : mapping of str to str, optional
        Set in addition to the environment of this process.
    seconds : float, default=90
        Longest time to wait until it is ready, and until it has ended.

    Raises
    ------
    ServerError
        It did not start (the message has what it said), did not end with status 0, or left a process behind.
    """
    with tempfile.TemporaryFile() as said:
        process = spawn(
            [sys.executable, "-P", "-m", "service.cli.main", "serve", "--data-dir", data_dir, "--port", "0"],
            cwd=Path.cwd(),
            env={**os.environ, **(environment or {})},
            log=said,
        )

        def words() -> str:
            said.seek(0)
            return said.read().decode(errors="replace").strip()

        try:
            deadline = time.monotonic() + seconds
            while True:
                holder = read_holder(data_dir)
                if holder and holder.pid == process.pid and holder.ready:
                    break
                if process.poll() is not None:
                    raise ServerError(f"the local stack did not start:\n{words()}")
                if time.monotonic() > deadline:
                    raise ServerError(f"the local stack was not ready after {seconds:.0f} s:\n{words()}")
                time.sleep(0.02)
            yield Stack(url=holder.url, pid=process.pid, data_dir=data_dir)
        finally:
            table = process_table()
            family = [pid for pid in (process.pid, *descendants(process.pid, table)) if pid in table]
            with suppress(subprocess.TimeoutExpired):
                process.terminate()
                process.wait(seconds)
            kill_group(process)
            status = process.wait()
        after = process_table()
        left = [pid for pid in family if pid in after and after[pid].begun == table[pid].begun]
        if left:
            raise ServerError(f"the local stack left processes running: {left}\n{words()}")
        if status != 0:
            raise ServerError(f"the local stack ended with status {status}:\n{words()}")

"""Start and stop child processes that cannot outlive this one."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from service.processes import die_with_parent


def spawn(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: IO[bytes],
    stdin: IO[bytes] | None = None,
    account: pwd.struct_passwd | None = None,
    death_signal: signal.Signals = signal.SIGKILL,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own that the kernel ends when this process ends, even by SIGKILL.

    Call it from the main thread: Linux sends the death signal when the *thread* that forked ends.

    Parameters
    ----------
    command : sequence of str or Path
        Program and arguments.
    cwd : Path
        Working folder.
    env : mapping of str to str
        The whole environment of the process.
    log : binary file
        Where standard output and error go.
    stdin : binary file, optional
        Standard input; empty by default.
    account : pwd.struct_passwd, optional
        Account to become, with its own group and no others. This process must be root then.
    death_signal : signal.Signals, default=SIGKILL
        What the process gets when this one ends.
    pass_fds : sequence of int, optional
        File descriptors that stay open in the process, under the same numbers.
    """
    return subprocess.Popen(
        [str(part) for part in command],
        cwd=cwd,
        env=dict(env),
        stdin=stdin or subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        user=account.pw_uid if account else None,
        group=account.pw_gid if account else None,
        extra_groups=[] if account else None,
        pass_fds=pass_fds,
        preexec_fn=partial(die_with_parent, os.getpid(), death_signal),  # after the change of the user,
    )


def stop(
    process: subprocess.Popen[bytes], signals: Sequence[tuple[signal.Signals, float]] = ((signal.SIGTERM, 10.0),)
) -> int:
    """End a process: each signal in turn with its patience in seconds, SIGKILL for the whole group at last.

    Returns
    -------
    int
        Exit status, negative for a signal.
    """
    for number, patience in signals:
        if process.poll() is not None:
            break
        process.send_signal(number)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
    kill_group(process)
    return process.wait()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Send SIGKILL to a process started by `spawn` and to whatever is left of its group."""
    # An error means that nothing is left, or that the number belongs to somebody else by now.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


@dataclass(frozen=True)
class ProcessEntry:
    """A line of the process table."""

    state: str
    """One letter: ``Z`` has ended, but its parent has not asked for its exit status."""
    parent: int
    begun: int
    """Start, in clock ticks since boot: with the number it names one process for good."""


def look_up(pid: int) -> ProcessEntry | None:
    """Return the entry of one process, None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name in parentheses may hold anything; fields are counted after it.
    fields = text.rpartition(")")[2].split()
    return ProcessEntry(state=fields[0], parent=int(fields[1]), begun=int(fields[19]))


def process_table() -> dict[int, ProcessEntry]:
    """Return all processes of the machine by their number, ended but uncollected ones included."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return {pid: entry for pid in pids if (entry := look_up(pid)) is not None}


def wait_until_ended(pid: int, seconds: float) -> bool:
    """Wait until no process of this number runs (it need not be a child); False after `seconds`."""
    deadline = time.monotonic() + seconds
    while (entry := look_up(pid)) is not None and entry.state != "Z":
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def descendants(pid: int, table: Mapping[int, ProcessEntry]) -> list[int]:
    """Return the children of `pid`, their children and so on."""
    found = [pid]
    for parent in found:
        found.extend(child for child, entry in table.items() if entry.parent == parent)
    return found[1:]

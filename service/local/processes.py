"""Start and stop child processes that cannot outlive this one."""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def spawn(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: IO[bytes],
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
    account : pwd.struct_passwd, optional
        Account to become, with its own group and no others. This process must be root then.
    death_signal : signal.Signals, default=SIGKILL
        What the process gets when this one ends.
    pass_fds : sequence of int, optional
        File descriptors that stay open in the process, under the same numbers.

    Returns
    -------
    subprocess.Popen
    """
    parent = os.getpid()

    def die_with_parent() -> None:
        # subprocess calls this after it has changed the user; the kernel forgets the setting on such a change.
        if _libc.prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0) != 0:
            os._exit(127)
        # The parent may have ended before the setting was made.
        if os.getppid() != parent:
            os._exit(127)

    return subprocess.Popen(
        [str(part) for part in command],
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        user=account.pw_uid if account else None,
        group=account.pw_gid if account else None,
        extra_groups=[] if account else None,
        pass_fds=pass_fds,
        preexec_fn=die_with_parent,
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
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        # Nothing is left, or the number belongs to somebody else by now.
        return


def wait_until_gone(pid: int, seconds: float) -> bool:
    """Wait until no process has this number (it need not be a child); False after `seconds`."""
    deadline = time.monotonic() + seconds
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True

"""What holds for the processes that the service starts: whose end is theirs, who collects them, what they get."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Mapping

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

_HANDED_TO_ALL = ("PATH", "LD_LIBRARY_PATH", "LANG", "TZ")
HANDED_TO_READERS = (*_HANDED_TO_ALL, "PYTHONPATH", "PYTHONSAFEPATH", "LC_ALL", "VIRTUAL_ENV")
HANDED_TO_JOBS = (*_HANDED_TO_ALL, "HOME", "TMPDIR", "XDG_CACHE_HOME")
RUNNER_VARIABLE = "PREFSVM_JOB_RUNNER"
"""Module that does the work of a job. Only tests set it, and more that begins so for that module."""
PREFIXES_HANDED_TO_JOBS = (
    "LC_", "PYTHON", "NUMBA_", "OMP_", "OPENBLAS_", "MKL_", "CUDA_", "CUPY_", "NVIDIA_", "COVERAGE_", RUNNER_VARIABLE,
)  # fmt: skip
"""What processes that read uploaded data are handed of the environment: nothing that could be a secret."""
BLOB_STORE_PREFIXES = ("AWS_", "FSSPEC_", "GOOGLE_", "AZURE_", "SSL_CERT_", "REQUESTS_CA_", "HTTPS_PROXY", "NO_PROXY")
"""And this where a job reads from an object store."""

_libc = ctypes.CDLL(None, use_errno=True)  # here: to load it between fork and exec could wait for ever


def die_with_parent(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel signal this process when the thread that started it ends, however it ends.

    The kernel forgets that when the process changes its user or its rights: call it afterwards.

    Parameters
    ----------
    parent : int
        Process id of the parent. Where it has ended already, so does this process, here.
    number : signal.Signals, default=SIGKILL

    Raises
    ------
    OSError
        If the kernel refuses.
    """
    _set(PR_SET_PDEATHSIG, int(number))
    if os.getppid() != parent:  # it ended before the line above
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of those below this process whose own parent ends. Raises `OSError` if the kernel refuses."""
    _set(PR_SET_CHILD_SUBREAPER, 1)


def _set(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}, {value}): {os.strerror(number)}")


def handed(environment: Mapping[str, str], names: tuple[str, ...], prefixes: tuple[str, ...] = ()) -> dict[str, str]:
    """Return what a process is handed of an environment: variables of these names, and those that begin so."""
    return {name: value for name, value in environment.items() if name in names or name.startswith(prefixes)}

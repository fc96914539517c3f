"""The one door to array backends: which devices there are, and how much memory may be used.

This is the only module that may import CuPy, and it does so only when somebody asks for the GPU.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any


class BackendUnavailableError(RuntimeError):
    """Raised when a computation was asked to run on a device that this machine or version cannot offer."""


@functools.cache
def cuda_available() -> bool:
    """Tell whether CuPy is installed and finds a usable CUDA device."""
    try:
        return bool(cupy().cuda.is_available())
    except Exception:  # not installed, or one of the CUDA runtime's many words for a driver in a bad state
        return False


def cupy() -> Any:
    """Import and return CuPy.

    Raises
    ------
    BackendUnavailableError
        If CuPy is not installed or cannot be loaded.
    """
    try:
        import cupy as module
    except ModuleNotFoundError as error:
        raise BackendUnavailableError(
            "CuPy is not installed: install the extra gpu-cuda12 or gpu-cuda13 to use a GPU"
        ) from error
    except ImportError as error:
        raise BackendUnavailableError(f"CuPy cannot be loaded: {error}") from error
    return module


def resolve_backend(backend: str, *, large: bool = False) -> str:
    """The backend that is used where the caller asked for this one.

    Parameters
    ----------
    backend : {"auto", "cpu", "cuda"}
        `auto` takes the GPU for large problems where there is one.
    large : bool, default False
        Whether the problem is large enough for the GPU to pay.

    Returns
    -------
    {"cpu", "cuda"}

    Raises
    ------
    BackendUnavailableError
        If `cuda` was asked for and cannot be had; tells why.
    ValueError
        If the name is unknown.
    """
    if backend == "cpu":
        return "cpu"
    if backend == "auto":
        return "cuda" if large and cuda_available() else "cpu"
    if backend != "cuda":
        raise ValueError(f"unknown backend {backend!r}: expected 'auto', 'cpu' or 'cuda'")
    if not cuda_available():
        try:
            cupy()
            reason = "CuPy finds no CUDA device that can be used"
        except BackendUnavailableError as error:
            reason = str(error)
        raise BackendUnavailableError(f"backend 'cuda' was asked for, but {reason}")
    return "cuda"


def available_memory() -> int:
    """Estimate how many bytes of main memory this process may still take.

    The smallest of what the system calls available, what the control group leaves and what is left under
    `RLIMIT_AS`; so a training child with a memory limit sizes its caches by that limit.

    Returns
    -------
    int
        Bytes, at least 0.
    """
    candidates: list[int] = []
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        lines = meminfo.read_text().splitlines()
        candidates.extend(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    limit_file, usage_file = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit_file.exists() and usage_file.exists():
        limit = limit_file.read_text().strip()
        if limit != "max":
            candidates.append(int(limit) - int(usage_file.read_text()))
    try:
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        statm = Path("/proc/self/statm")
        if soft != resource.RLIM_INFINITY and statm.exists():
            candidates.append(soft - int(statm.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE"))
    except ImportError:  # not a Unix system
        pass
    return max(0, min(candidates, default=2 << 30))


def require_memory(needed: int, method: str, what: str, remedy: str) -> None:
    """Refuse to start on arrays that would take more than half of the memory that is available.

    Parameters
    ----------
    needed : int
        Bytes.
    method, what, remedy : str
        Who keeps what, and what would need less, as in `RampTSVM`, `a kernel matrix of all 90000 rows` and
        `fewer unlabelled rows`.

    Raises
    ------
    ValueError
    """
    if needed > available_memory() // 2:
        raise ValueError(f"{method} keeps {what}, {needed >> 20} MB, which does not fit into memory; use {remedy}")

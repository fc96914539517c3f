"""Which device solves a program: the GPU where there is one and it pays, else the CPU."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Final

import numpy as np
import scipy.sparse as sp

from solver.arrays import BackendUnavailableError, resolve_backend
from solver.kernels.kernel import FeatureKernel
from solver.smo.gpu_device import Device, cuda_device
from solver.smo.program import Program

# multiplications of a kernel matrix, n² (features + 30), from which on `auto` takes the GPU: about a second of the CPU
# engine, which is what starting CUDA costs a new process (an estimate: no GPU was at hand to measure it)
GPU_LEAST_WORK: Final = 5e10


def device_for(programs: Sequence[Program]) -> Device | None:
    """The GPU for programs of one kernel and one backend that are solved together, or None for the CPU.

    Raises
    ------
    BackendUnavailableError
        If `cuda` was asked for and there is no GPU to use.
    """
    backend = programs[0].backend
    if resolve_backend(backend, large=sum(map(_work, programs)) >= GPU_LEAST_WORK) == "cpu":
        return None
    try:
        return cuda_device()
    except BackendUnavailableError as error:
        use_cpu_instead(backend, error)
        return None


def use_cpu_instead(backend: str, error: BackendUnavailableError) -> None:
    """Say that `auto` falls back to the CPU; whoever asked for the GPU by name is told that it failed."""
    if backend == "cuda":
        raise error
    warnings.warn(f"solving on the CPU: {error}", RuntimeWarning, stacklevel=3)


def _work(program: Program) -> float:
    """What the kernel matrix of a program costs, in multiplications; 0 where the CPU needs no matrix or holds it."""
    kernel = program.kernel
    if not isinstance(kernel, FeatureKernel) or kernel.kind == "linear":
        return 0.0
    features = kernel.X.nnz / max(1, kernel.n_samples) if sp.issparse(kernel.X) else kernel.X.shape[1]
    return float(np.size(program.idx)) ** 2 * (float(features) + 30)

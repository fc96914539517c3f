"""The device under the GPU engine: arrays, kernel launches and memory.

The engine says `device.xp` where it means NumPy's functions on the device's arrays, and nothing else reaches CuPy.
The tests run the whole engine on the CPU with a device made of NumPy and of the same kernels compiled as C++.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from solver.arrays import BackendUnavailableError, cupy
from solver.smo.inner import BIG

SOURCE: Final = Path(__file__).with_name("smo_kernels.cu")

# threads of a block: in the kernel that selects variables, and in all others
SELECT_THREADS: Final = 1024
THREADS: Final = 256

# the inner solver keeps so many variables in the registers of a block
LARGEST_SET: Final = 1024

# kernel functions by the numbers that they have on the device
KINDS: Final = {"rbf": 0, "poly": 1, "sigmoid": 2, "linear": 3}

# what SOURCE is compiled with, by NVRTC, nvcc and, for tests, g++
OPTIONS: Final = (
    "-std=c++17",
    f"-DTHREADS={THREADS}",
    f"-DSELECT_THREADS={SELECT_THREADS}",
    f"-DPER_THREAD={LARGEST_SET // THREADS}",
    f"-DBIG={BIG}",
    *(f"-D{name.upper()}={number}" for name, number in KINDS.items()),
)

# every kernel of SOURCE that the engine launches
KERNELS: Final = (
    "solve_block_float32",
    "solve_block_float64",
    "survey",
    "rate_violations",
    "select_variables",
    "finish_block_float32",
    "finish_block_float64",
    "finish_rows_float32",
    "finish_rows_float64",
    "update_v",
)


class DeviceMemoryError(BackendUnavailableError):
    """Raised when a problem does not fit into the device's memory, however small the blocks."""


class Device(Protocol):
    """What the engine asks of a device.

    Attributes
    ----------
    xp : module
        NumPy's functions on the device's arrays.
    name : str
    out_of_memory : type
        Raised by an allocation that fails.
    """

    xp: Any
    name: str
    out_of_memory: type[Exception]

    def launch(self, kernel: str, blocks: int, threads: int, *arguments: Any) -> None:
        """Run a kernel of `SOURCE`; arguments are arrays of the device and NumPy scalars of the exact type."""
        ...

    def put(self, array: Any, dtype: DTypeLike) -> Any:
        """Copy an array to the device."""
        ...

    def get(self, array: Any) -> NDArray[Any]:
        """Copy an array from the device."""
        ...

    def put_csr(self, X: Any, dtype: DTypeLike) -> Any:
        """Copy a canonical CSR matrix to the device."""
        ...

    def free_bytes(self) -> int:
        """Memory that can still be allocated."""
        ...

    def release(self) -> None:
        """Give memory that is not in use back to the system."""
        ...


class CudaDevice:
    """The current CUDA device through CuPy; `CUDA_VISIBLE_DEVICES` chooses which one that is."""

    def __init__(self) -> None:
        self.xp = cupy()
        properties = self.xp.cuda.runtime.getDeviceProperties(self.xp.cuda.Device().id)
        self.name: str = properties["name"].decode()
        self.out_of_memory: type[Exception] = self.xp.cuda.memory.OutOfMemoryError
        module = self.xp.RawModule(code=SOURCE.read_text(), options=OPTIONS)
        self._kernels = {name: module.get_function(name) for name in KERNELS}

    def launch(self, kernel: str, blocks: int, threads: int, *arguments: Any) -> None:
        """Run a kernel of `SOURCE`; arguments are arrays of the device and NumPy scalars of the exact type."""
        if blocks:
            self._kernels[kernel]((blocks,), (threads,), arguments)

    def put(self, array: Any, dtype: DTypeLike) -> Any:
        """Copy an array to the device."""
        return self.xp.asarray(np.ascontiguousarray(array, dtype))

    def get(self, array: Any) -> NDArray[Any]:
        """Copy an array from the device."""
        copy: NDArray[Any] = self.xp.asnumpy(array)
        return copy

    def put_csr(self, X: Any, dtype: DTypeLike) -> Any:
        """Copy a canonical CSR matrix to the device."""
        from cupyx.scipy import sparse

        parts = (self.put(X.data, dtype), self.put(X.indices, np.int32), self.put(X.indptr, np.int32))
        matrix = sparse.csr_matrix(parts, shape=X.shape)
        matrix.has_canonical_format = True
        return matrix

    def free_bytes(self) -> int:
        """Memory that can still be allocated."""
        pool = self.xp.get_default_memory_pool()
        free: int = self.xp.cuda.runtime.memGetInfo()[0] + pool.free_bytes()
        limit: int = pool.get_limit()
        return min(free, limit - pool.used_bytes()) if limit else free

    def release(self) -> None:
        """Give memory that is not in use back to the system."""
        self.xp.get_default_memory_pool().free_all_blocks()


@functools.cache
def cuda_device() -> CudaDevice:
    """Make the CUDA device ready: its kernels are compiled, or loaded from CuPy's cache on disk.

    Raises
    ------
    BackendUnavailableError
        If CuPy, the driver or the compiler fails; tells how.
    """
    try:
        return CudaDevice()
    except BackendUnavailableError:
        raise
    except Exception as error:  # CuPy, the CUDA runtime, the driver and the compiler each have errors of their own
        raise BackendUnavailableError(f"the CUDA device cannot be used: {error}") from error


def canonical_csr(X: Any) -> Any:
    """The matrix in CSR form with sorted indices and no duplicates, as the sparse products on the device need it."""
    matrix = sp.csr_matrix(X)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix

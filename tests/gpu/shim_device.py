"""A device for the GPU engine that needs no GPU: NumPy for arrays, the CUDA source compiled as C++ for kernels.

It is as strict as CuPy where that matters: arrays of the device and of the host do not mix, neither in operators nor as
indices; arrays become host arrays only when asked to; kernels take arguments of exactly their types.
"""

import ctypes
import functools
import operator
import platform
import shutil
import subprocess
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.lib.mixins import NDArrayOperatorsMixin

from solver.smo.gpu_device import KERNELS, OPTIONS, SOURCE

HERE = Path(__file__).parent


def reason_to_skip() -> str | None:
    """Why kernels cannot run on this CPU; None if they can."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return f"the shim switches fibers in x86-64 assembly; this is {platform.machine()}"
    if shutil.which("g++") is None:
        return "g++ is not installed: the CUDA source cannot be compiled for the CPU"
    return None


@functools.cache
def library() -> ctypes.CDLL:
    """The kernels as a shared library, compiled once a process."""
    code = f'#include "{HERE / "cuda_shim.h"}"\n#include "{SOURCE}"\n'
    code += "".join(f"EXPORT({name})\n" for name in KERNELS)
    options = [*OPTIONS, "-O2", "-shared", "-fPIC", "-Wall", "-Werror", "-Wno-unknown-pragmas"]
    # What is loaded stays loaded when its file goes. A folder that others can foresee must not be loaded from.
    with tempfile.TemporaryDirectory(prefix="prefsvm-") as folder:
        target = Path(folder) / "kernels.so"
        subprocess.run(["g++", *options, "-o", target, "-x", "c++", "-"], input=code.encode(), check=True)
        return ctypes.CDLL(str(target))


class ShimOutOfMemoryError(Exception):
    """As CuPy's OutOfMemoryError."""


class DeviceArray(NDArrayOperatorsMixin):
    """An array that mixes with arrays of the same device and with numbers, and with nothing else."""

    def __init__(self, device: "ShimDevice", values: np.ndarray) -> None:
        self._device, self._values = device, values
        if values.base is None:
            device.allocate(values.nbytes)
            weakref.finalize(self, device.free, values.nbytes)

    def _unwrap(self, value: Any) -> Any:
        if isinstance(value, DeviceArray):
            if value._device is not self._device:
                raise TypeError("arrays of two devices")
            return value._values
        if isinstance(value, tuple):
            return tuple(self._unwrap(part) for part in value)
        if value is None or value is Ellipsis or isinstance(value, (int, float, np.generic, slice)):
            return value
        raise TypeError(f"unsupported type {type(value)} beside an array of the device")

    def _wrap(self, values: Any) -> Any:
        return DeviceArray(self._device, np.asarray(values))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("implicit conversion to a NumPy array is not allowed; use device.get")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **arguments: Any) -> Any:
        values = getattr(ufunc, method)(*(self._unwrap(x) for x in inputs), **arguments)
        if out is None:
            return self._wrap(values)
        out[0]._values[...] = values
        return out[0]

    def __getitem__(self, key: Any) -> Any:
        return self._wrap(self._values[self._unwrap(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._values[self._unwrap(key)] = self._unwrap(value)

    def __len__(self) -> int:
        return len(self._values)

    shape = property(lambda self: self._values.shape)
    dtype = property(lambda self: self._values.dtype)
    T = property(lambda self: self._wrap(self._values.T))

    def reshape(self, *shape: int) -> Any:
        return self._wrap(self._values.reshape(*shape))

    def transpose(self, *axes: int) -> Any:
        return self._wrap(self._values.transpose(*axes))

    def astype(self, dtype: Any) -> Any:
        return self._wrap(self._values.astype(dtype))

    def sum(self, axis: int) -> Any:
        return self._wrap(self._values.sum(axis=axis))


class DeviceCsr:
    """A CSR (or, transposed, CSC) matrix of the device; products with dense arrays are Fortran-ordered as CuPy's."""

    def __init__(self, device: "ShimDevice", matrix: Any) -> None:
        self._device, self._matrix = device, matrix

    def __matmul__(self, other: Any) -> DeviceArray:
        if not isinstance(other, DeviceArray) or other.dtype != self._matrix.dtype:
            raise TypeError(f"expected an array of the device of {self._matrix.dtype}, got {other!r}")
        return DeviceArray(self._device, np.asfortranarray(self._matrix @ other._values))

    def __getitem__(self, key: Any) -> "DeviceCsr":
        if not isinstance(key, (DeviceArray, slice)):
            raise TypeError(f"unsupported index {type(key)}")
        return DeviceCsr(self._device, self._matrix[key._values if isinstance(key, DeviceArray) else key])

    @property
    def T(self) -> "DeviceCsr":  # noqa: N802
        return DeviceCsr(self._device, self._matrix.T)

    def toarray(self) -> DeviceArray:
        return DeviceArray(self._device, self._matrix.toarray())


class _Functions:
    """NumPy's functions as the engine uses them, on the device's arrays."""

    def __init__(self, device: "ShimDevice") -> None:
        self._device = device

    def _new(self, shape: Any, dtype: Any, fill: Any) -> DeviceArray:
        sizes = (shape,) if isinstance(shape, int) else tuple(operator.index(part) for part in shape)
        n_bytes = int(np.prod(sizes, dtype=np.int64)) * np.dtype(dtype).itemsize
        self._device.check_room(n_bytes)
        return DeviceArray(self._device, np.full(sizes, fill, dtype))

    def zeros(self, shape: Any, dtype: Any) -> DeviceArray:
        return self._new(shape, dtype, 0)

    def empty(self, shape: Any, dtype: Any) -> DeviceArray:
        # whoever reads what was never written shall notice
        return self._new(shape, dtype, np.nan if np.dtype(dtype).kind == "f" else 77_777_777)

    def arange(self, stop: int) -> DeviceArray:
        return DeviceArray(self._device, np.arange(stop))

    def ascontiguousarray(self, array: DeviceArray) -> DeviceArray:
        return DeviceArray(self._device, np.ascontiguousarray(array._values))

    matmul, exp, tanh, minimum = np.matmul, np.exp, np.tanh, np.minimum


class ShimDevice:
    """See `solver.smo.gpu_device.Device`.

    Parameters
    ----------
    memory : int
        Bytes that may be allocated at a time.
    seed : int
        Of the order in which the threads run; another one for every launch.
    """

    out_of_memory = ShimOutOfMemoryError

    def __init__(self, memory: int = 1 << 40, seed: int = 1) -> None:
        self.name = "CPU shim"
        self.xp = _Functions(self)
        self.memory, self.used, self.most_used, self.releases = memory, 0, 0, 0
        self.launches: dict[str, int] = {}
        self._seed = seed
        self._library = library()

    def check_room(self, n_bytes: int) -> None:
        if self.used + n_bytes > self.memory:
            raise ShimOutOfMemoryError(f"{n_bytes} bytes wanted, {self.used} of {self.memory} in use")

    def allocate(self, n_bytes: int) -> None:
        self.check_room(n_bytes)
        self.used += n_bytes
        self.most_used = max(self.most_used, self.used)

    def free(self, n_bytes: int) -> None:
        self.used -= n_bytes

    def launch(self, kernel: str, blocks: int, threads: int, *arguments: Any) -> None:
        signature = getattr(self._library, f"signature_of_{kernel}")
        signature.restype = ctypes.c_char_p
        types = signature().decode().split()
        if len(types) != len(arguments):
            raise TypeError(f"{kernel} takes {len(types)} arguments, got {len(arguments)}")
        holders = []
        for place, (kind, argument) in enumerate(zip(types, arguments, strict=True)):
            if kind.endswith("*"):
                if not isinstance(argument, DeviceArray) or argument.dtype.str[1:] != kind[:-1]:
                    raise TypeError(f"{kernel}, argument {place}: expected an array of {kind[:-1]}, got {argument!r}")
                if not argument._values.flags.c_contiguous:
                    raise TypeError(f"{kernel}, argument {place}: not C-contiguous")
                holders.append(np.array([argument._values.ctypes.data], np.uint64))
            else:
                if not isinstance(argument, np.generic) or argument.dtype.str[1:] != kind:
                    raise TypeError(f"{kernel}, argument {place}: expected {kind}, got {type(argument)}")
                holders.append(np.array([argument]))
        pointers = (ctypes.c_void_p * len(holders))(*(holder.ctypes.data for holder in holders))
        self._seed += 1
        self.launches[kernel] = self.launches.get(kernel, 0) + 1
        getattr(self._library, f"launch_{kernel}")(
            ctypes.c_uint(int(blocks)), ctypes.c_uint(threads), ctypes.c_uint(self._seed), pointers
        )

    def put(self, array: Any, dtype: Any) -> DeviceArray:
        values = np.array(array, dtype, order="C")
        self.check_room(values.nbytes)
        return DeviceArray(self, values)

    def get(self, array: Any) -> np.ndarray:
        if not isinstance(array, DeviceArray):
            raise TypeError(f"not an array of the device: {type(array)}")
        return array._values.copy()

    def put_csr(self, X: Any, dtype: Any) -> DeviceCsr:
        if not X.has_canonical_format:
            raise TypeError("not canonical")
        return DeviceCsr(self, sp.csr_matrix(X, dtype=dtype))

    def free_bytes(self) -> int:
        return max(0, self.memory - self.used)

    def release(self) -> None:
        self.releases += 1

"""What stands between the engine and CuPy, with stand-ins for CuPy: which backend runs, and how the device is used."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from smo_support import solve

from solver import arrays
from solver.arrays import BackendUnavailableError, cuda_available, resolve_backend
from solver.kernels.kernel import FeatureKernel
from solver.smo import backend, gpu_device
from solver.smo.gpu_device import KERNELS, CudaDevice, cuda_device


@pytest.fixture(autouse=True)
def _nothing_remembered():
    cuda_available.cache_clear()
    cuda_device.cache_clear()
    yield
    cuda_available.cache_clear()
    cuda_device.cache_clear()


def fails(message):
    def body(*_args, **_arguments):
        raise RuntimeError(message)

    return body


def stand_in(**changes):
    """As much of CuPy as the adapter touches."""
    launched = []

    def get_function(name):
        return lambda grid, block, arguments: launched.append((name, grid, block, arguments))

    pool = SimpleNamespace(
        free_bytes=lambda: 10,
        used_bytes=lambda: 300,
        get_limit=lambda: 0,
        free_all_blocks=lambda: launched.append("freed"),
    )
    module = SimpleNamespace(
        launched=launched,
        pool=pool,
        cuda=SimpleNamespace(
            is_available=lambda: True,
            Device=lambda: SimpleNamespace(id=0),
            memory=SimpleNamespace(OutOfMemoryError=MemoryError),
            runtime=SimpleNamespace(
                getDeviceProperties=lambda _: {"name": b"Stand-in 1"}, memGetInfo=lambda: (1000, 2000)
            ),
        ),
        RawModule=lambda **_: SimpleNamespace(get_function=get_function),
        get_default_memory_pool=lambda: pool,
        asarray=np.asarray,
        asnumpy=np.asarray,
    )
    for name, value in changes.items():
        setattr(module.cuda, name, value)
    return module


def test_the_backend_is_resolved(monkeypatch):
    monkeypatch.setattr(arrays, "cupy", stand_in)
    assert [resolve_backend(backend, large=True) for backend in ("cpu", "auto", "cuda")] == ["cpu", "cuda", "cuda"]
    assert [resolve_backend(backend) for backend in ("cpu", "auto", "cuda")] == ["cpu", "cpu", "cuda"]
    with pytest.raises(ValueError, match="unknown backend 'tpu'"):
        resolve_backend("tpu")


@pytest.mark.parametrize("is_available", [lambda: False, fails("cudaErrorSystemNotReady")])
def test_cupy_without_a_device(monkeypatch, is_available):
    monkeypatch.setattr(arrays, "cupy", lambda: stand_in(is_available=is_available))
    assert resolve_backend("auto", large=True) == "cpu"
    with pytest.raises(BackendUnavailableError, match="'cuda' was asked for, but CuPy finds no CUDA device"):
        resolve_backend("cuda")


def test_no_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert resolve_backend("auto", large=True) == "cpu"
    with pytest.raises(BackendUnavailableError, match="CuPy"):
        resolve_backend("cuda")


def test_a_device_that_fails_to_start_leaves_auto_to_the_cpu(monkeypatch):
    broken = stand_in(Device=fails("cudaErrorInsufficientDriver"))
    monkeypatch.setattr(arrays, "cupy", lambda: broken)
    monkeypatch.setattr(gpu_device, "cupy", lambda: broken)
    monkeypatch.setattr(backend, "GPU_LEAST_WORK", 0.0)
    arguments = (FeatureKernel(np.eye(3), gamma=1.0), [0, 1], [1, -1], -1.0, 0.0, 1.0)
    with pytest.raises(BackendUnavailableError, match="cannot be used: cudaErrorInsufficientDriver"):
        solve(*arguments, backend="cuda")
    with pytest.warns(RuntimeWarning, match="on the CPU: the CUDA device cannot be used: cudaErrorInsufficientDriver"):
        assert solve(*arguments).engine == "direct"


def test_the_adapter(monkeypatch):
    module = stand_in()
    monkeypatch.setattr(gpu_device, "cupy", lambda: module)
    device = CudaDevice()
    assert device.name == "Stand-in 1"
    device.launch(KERNELS[0], 3, 256, np.int32(1), np.float64(2.0))
    device.launch(KERNELS[0], 0, 256)  # CUDA refuses empty grids
    assert module.launched == [(KERNELS[0], (3,), (256,), (np.int32(1), np.float64(2.0)))]
    put = device.put([[1, 2]], np.float32)
    assert (put.dtype, put.shape) == (np.float32, (1, 2))
    assert device.free_bytes() == 1010
    module.pool.get_limit = lambda: 700
    assert device.free_bytes() == 400
    device.release()
    assert module.launched[-1] == "freed"

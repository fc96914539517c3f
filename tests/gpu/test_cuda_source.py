"""The GPU engine's kernels without a GPU: they compile, and run on the CPU they do what the CPU engine's code does."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import shim_device

from solver.smo.gpu_device import KERNELS, OPTIONS, SELECT_THREADS, SOURCE, THREADS
from solver.smo.inner import BIG, solve_block

needs_shim = pytest.mark.skipif(shim_device.reason_to_skip() is not None, reason=str(shim_device.reason_to_skip()))


def test_all_kernels_are_named():
    found = re.findall(r'extern "C" __global__ void [^\n]*\n(\w+)\(', SOURCE.read_text())
    assert sorted(found) == sorted(KERNELS)


def compile_for(architectures: list[int]) -> str:
    """Compile the source with nvcc, or else NVRTC; returns the compiler's report."""
    if shutil.which("nvcc"):
        targets = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in architectures]
        done = subprocess.run(
            [
                "nvcc",
                *OPTIONS,
                "-fatbin",
                "-Werror=all-warnings",
                "-Xptxas=-v",
                *targets,
                "-o",
                "/dev/null",
                SOURCE,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stderr
    if importlib.util.find_spec("cupy") is None:
        pytest.skip("neither nvcc nor CuPy (for NVRTC) is installed: the CUDA source cannot be compiled")
    from cupy.cuda import nvrtc

    for architecture in architectures:
        program = nvrtc.createProgram(SOURCE.read_text(), SOURCE.name, [], [])
        try:
            nvrtc.compileProgram(program, [*OPTIONS, f"-arch=sm_{architecture}"])
        except nvrtc.NVRTCError:
            pytest.fail(nvrtc.getProgramLog(program))
    return ""


def test_source_compiles_for_the_oldest_and_the_newest_cards():
    report = compile_for([75, 90])
    # the inner solver's state has to stay in registers
    parts = re.split(r"Function properties for ", report)[1:]
    inner = [part for part in parts if part.startswith("solve_block")]
    assert not parts or len(inner) == 4
    assert all("0 bytes spill stores, 0 bytes spill loads" in part for part in inner)


@pytest.mark.slow
def test_source_compiles_for_the_cards_between():
    compile_for([80, 86, 89])


def random_problems(rng, sizes, q, dtype):
    """Small general problems in the layout of a batch, and each for itself."""
    batch = {name: [] for name in ("y", "v", "lo", "hi", "a")}
    K = np.full((len(sizes), q, q), np.nan, dtype)
    chosen = np.zeros((len(sizes), q), np.int32)
    start = 0
    for b, n in enumerate(sizes):
        X = np.round(rng.normal(size=(n, 3)), 1)  # some samples coincide
        y = rng.choice([-1.0, 1.0], size=n)
        K[b, :n, :n] = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1))
        lo = -rng.random(n) * rng.integers(0, 2)
        hi = lo + rng.random(n) * rng.choice([1.0, 100.0])
        if n > 3:
            hi[rng.integers(0, n)] = BIG
        a = np.clip(np.zeros(n), lo, hi)
        p = rng.normal(size=n) - 1.0
        # the variables' order on the device is not that of the block
        place = rng.permutation(n)
        chosen[b, :n] = start + np.argsort(place)
        start += n
        v = -y * p - K[b, :n, :n] @ (y * a)
        for name, value in {"y": y, "v": v, "lo": lo, "hi": hi, "a": a}.items():
            batch[name].append((value, place))
    flat = {name: np.concatenate([value[place] for value, place in parts]) for name, parts in batch.items()}
    alone = [{name: parts[b][0] for name, parts in batch.items()} for b in range(len(sizes))]
    return K, chosen, flat, alone


def decrease(K, v, a, change):
    """By how much a step changes the objective; v at the start, change of y·a."""
    return 0.5 * change @ K @ change - v @ change


@needs_shim
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sizes", [(1, 2, 5, 31), (70, 33), (130,), (1024,)])
def test_inner_solver_does_what_the_cpu_engine_does(dtype, sizes):
    q = max(sizes)
    K, chosen, flat, alone = random_problems(np.random.default_rng(q), sizes, q, dtype)
    most = 60 if q == 1024 else 100_000
    results = []
    for seed in (0, 1, 2):
        device = shim_device.ShimDevice(seed=seed)
        put = {name: device.put(value, np.float64) for name, value in flat.items()}
        after = device.xp.zeros((len(sizes), q), np.float64)
        report = device.xp.zeros((len(sizes), 2), np.float64)
        device.launch(
            f"solve_block_{np.dtype(dtype).name}", len(sizes), THREADS, device.put(K, dtype),
            device.put(chosen, np.int32), device.put(sizes, np.int32), np.int32(q), put["y"], put["v"],
            put["lo"], put["hi"], device.put(np.full(len(sizes), 1e-6), np.float64),
            device.put(np.full(len(sizes), most), np.int32), np.float64(1e-12), put["a"], after, report,
        )  # fmt: skip
        results.append((device.get(after), device.get(report), device.get(put["a"])))
    for other in results[1:]:  # whatever the order of the threads
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)
    after, report, a_flat = results[0]
    for b, n in enumerate(sizes):
        part, block = alone[b], np.ascontiguousarray(K[b, :n, :n])
        a, v = part["a"].copy(), part["v"].copy()
        steps, gap = solve_block(block, part["y"], v, a, part["lo"], part["hi"], 1e-6, most, 1e-12)
        np.testing.assert_array_equal(a_flat[chosen[b, :n]], after[b, :n])
        assert np.all((after[b, :n] >= part["lo"]) & (after[b, :n] <= part["hi"]))
        expected = decrease(block.astype(float), part["v"], part["a"], part["y"] * (a - part["a"]))
        reached = decrease(block.astype(float), part["v"], part["a"], part["y"] * (after[b, :n] - part["a"]))
        if most > 1000:
            assert gap <= 1e-6
            assert report[b, 1] <= 1e-6
            assert reached == pytest.approx(expected, rel=1e-6, abs=1e-9)
        else:
            # ended by the limit of steps: the paths part by rounding at most
            assert report[b, 0] == steps == most
            assert reached == pytest.approx(expected, rel=1e-2)


def select(rng, q, sizes, v, free, last, seed):
    """Run the three launches of a selection; returns extremes, chosen and counts."""
    device = shim_device.ShimDevice(seed=seed)
    n = sum(sizes)
    start = device.put(np.concatenate([[0], np.cumsum(sizes)]), np.int32)
    y = rng.choice([-1.0, 1.0], size=n)
    a = np.where(free, 0.5, rng.choice([0.0, 1.0], size=n))
    arrays = [device.put(x, np.float64) for x in (y, rng.normal(size=n), np.zeros(n), np.ones(n), a, v)]
    y_, p_, lo_, hi_, a_, v_ = arrays
    active = device.put(np.arange(len(sizes)), np.int32)
    up, down = device.xp.empty(n, np.uint32), device.xp.empty(n, np.uint32)
    partial = device.xp.empty((len(sizes), 3, 3), np.float64)
    extremes = device.xp.empty((len(sizes), 3), np.float64)
    chosen, count = np.zeros((len(sizes), q)), np.array([part.size for part in last])
    for b, part in enumerate(last):
        chosen[b, : part.size] = part
    chosen, count = device.put(chosen, np.int32), device.put(count, np.int32)
    three = np.int32(3)
    device.launch("survey", 3 * len(sizes), THREADS, active, start, three, y_, p_, lo_, hi_, a_, v_, partial)
    device.launch(
        "rate_violations",
        3 * len(sizes),
        THREADS,
        active,
        start,
        three,
        y_,
        lo_,
        hi_,
        a_,
        v_,
        partial,
        up,
        down,
        extremes,
    )
    device.launch(
        "select_variables",
        len(sizes),
        SELECT_THREADS,
        active,
        start,
        np.int32(q),
        lo_,
        hi_,
        a_,
        up,
        down,
        chosen,
        count,
    )
    return y, a, device.get(extremes), device.get(chosen), device.get(count)


@needs_shim
@pytest.mark.parametrize(("q", "decimals"), [(8, 9), (64, 1), (1024, 9)])
def test_selection_takes_the_strongest_violators(q, decimals):
    rng = np.random.default_rng(q)
    sizes = (5, 700, 2100)
    n = sum(sizes)
    v = np.round(rng.normal(size=n), decimals)  # one decimal: many ties
    free = rng.random(n) < 0.3
    starts = np.concatenate([[0], np.cumsum(sizes)])
    last = [starts[b] + rng.permutation(size)[: min(size, q)] for b, size in enumerate(sizes)]
    y, a, extremes, chosen, count = select(np.random.default_rng(1), q, sizes, v, free, last, seed=3)
    for b in range(len(sizes)):
        own = np.arange(starts[b], starts[b + 1])
        may_grow = np.where(y > 0, a < 1, a > 0)[own]
        may_shrink = np.where(y > 0, a > 0, a < 1)[own]
        high, low = v[own][may_grow].max(), v[own][may_shrink].min()
        assert extremes[b, :2].tolist() == [high, low]
        kept = [t for t in last[b] if free[t]]
        kept = kept[max(0, len(kept) - q // 2) :]
        taken = set(kept)

        def strongest(candidates, strength, wanted, taken=taken):
            order = sorted((t for t in candidates if t not in taken), key=lambda t: (-np.float32(strength[t]), t))
            taken.update(order[:wanted])
            return sorted(order[:wanted])

        up = strongest(own[may_grow & (v[own] > low)], v - low, (q - len(kept)) // 2)
        down = strongest(own[may_shrink & (v[own] < high)], high - v, q - len(kept) - len(up))
        assert chosen[b, : count[b]].tolist() == [*kept, *up, *down]


@needs_shim
@pytest.mark.slow
def test_a_barrier_in_a_branch_is_found_out(tmp_path: Path):
    code = f"""
    #include "{shim_device.HERE / "cuda_shim.h"}"
    __global__ void broken(int* x) {{ if (threadIdx.x < 40) __syncthreads(); x[0] = 1; }}
    EXPORT(broken)
    """
    library = tmp_path / "broken.so"
    subprocess.run(
        ["g++", "-std=c++17", "-shared", "-fPIC", "-o", library, "-x", "c++", "-"], input=code.encode(), check=True
    )
    run = (
        "import ctypes, sys; x = (ctypes.c_int * 1)(); p = ctypes.c_void_p(ctypes.addressof(x));"
        "a = (ctypes.c_void_p * 1)(ctypes.addressof(p)); ctypes.CDLL(sys.argv[1]).launch_broken(1, 64, 1, a)"
    )
    done = subprocess.run([sys.executable, "-c", run, library], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "a barrier that not all threads of the block reach" in done.stderr

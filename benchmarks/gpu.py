"""The GPU engine beside its roofline, the CPU engine and scikit-learn.

    python -P benchmarks/gpu.py --out benchmarks/results
    python -P benchmarks/gpu.py --cpu-shim      # a rehearsal without a GPU: tiny sizes, times mean nothing

Needs NumPy, SciPy, scikit-learn, Numba and CuPy. All data are generated. Every solution is for tolerance 1e-3. Prints a
table last and writes gpu.json.
"""

import argparse
import datetime
import json
import os
import platform
import sys
import time
from pathlib import Path

import numpy as np

from solver.kernels.kernel import FeatureKernel
from solver.smo import Program, StoppingLimits, backend, solve, solve_many
from solver.warm_up import warm_up

ROOT = Path(__file__).resolve().parents[1]
PROFILE_LIMIT_S = 30


class Meter:
    """A device that counts what the engine does on it and, when told to, times every launch."""

    def __init__(self, device, synchronize):
        self._device, self._synchronize = device, synchronize
        self.timed = False
        self.reset()

    def __getattr__(self, name):
        return getattr(self._device, name)

    def reset(self):
        self.launches, self.seconds, self.folded_bytes = {}, {}, 0

    def launch(self, kernel, blocks, threads, *arguments):
        self.launches[kernel] = self.launches.get(kernel, 0) + 1
        if kernel == "update_v":
            # the kernel rows folded into v, read once for each: entries of all problems times their variables
            problems, entries, variables = arguments[0].shape[0], arguments[5].shape[0], arguments[3].shape[0]
            self.folded_bytes += 4 * entries * variables // problems
        if not self.timed:
            self._device.launch(kernel, blocks, threads, *arguments)
            return
        self._synchronize()
        started = time.perf_counter()
        self._device.launch(kernel, blocks, threads, *arguments)
        self._synchronize()
        self.seconds[kernel] = self.seconds.get(kernel, 0.0) + time.perf_counter() - started


def gpu_device():
    """The GPU, what is measured of it, and how to wait for it."""
    import cupy

    from solver.smo.gpu_device import cuda_device

    def synchronize():
        cupy.cuda.Device().synchronize()

    def best_seconds(body, repeats=5):
        body()
        times = []
        for _ in range(repeats):
            synchronize()
            started = time.perf_counter()
            body()
            synchronize()
            times.append(time.perf_counter() - started)
        return min(times)

    def gemm(size, dtype):
        a = cupy.random.standard_normal((size, size), dtype=dtype)
        return 2.0 * size**3 / best_seconds(lambda: a @ a.T)

    def copy():
        source = cupy.zeros(1 << 28, cupy.float32)
        target = cupy.empty_like(source)
        return 2.0 * source.nbytes / best_seconds(lambda: cupy.copyto(target, source))

    one = cupy.zeros(1, cupy.float32)
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    ceilings = {
        "gemm_float32_flops": gemm(8192, cupy.float32),
        "gemm_float64_flops": gemm(4096, cupy.float64),
        "copy_bytes_per_s": copy(),
        "launch_s": best_seconds(lambda: [cupy.add(one, 1, out=one) for _ in range(1000)]) / 1000,
    }
    cupy.get_default_memory_pool().free_all_blocks()
    card = {
        "name": properties["name"].decode(),
        "multiprocessors": properties["multiProcessorCount"],
        "memory_bytes": properties["totalGlobalMem"],
        "cuda_runtime": cupy.cuda.runtime.runtimeGetVersion(),
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "cupy": cupy.__version__,
    }
    return cuda_device(), card, ceilings, synchronize


def shim_device():
    """The engine's kernels on the CPU, for a rehearsal."""
    sys.path.insert(0, str(ROOT / "tests" / "gpu"))
    from shim_device import ShimDevice

    return ShimDevice(), {"name": "CPU shim (a rehearsal: times mean nothing)"}, None, lambda: None


def images(n, d, classes=10, seed=0):
    """Data in the shape of MNIST: ten classes of smooth random pictures, deformed and noisy, values in [0, 1]."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(30, d)).astype(np.float32) / np.sqrt(30)
    centre = 1.0 * rng.normal(size=(classes, 30))
    label = rng.integers(0, classes, size=n)
    hidden = (centre[label] + 1.3 * rng.normal(size=(n, 30))).astype(np.float32)
    X = np.tanh(hidden @ factors) * 0.5 + 0.5
    X += 0.05 * rng.standard_normal(X.shape, dtype=np.float32)
    return np.clip(X, 0.0, 1.0), label


def gaussians(n, d, seed=0):
    """Two overlapping Gaussians: a Bayes error of 16 %, four in ten samples become support vectors."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], size=n)
    return (rng.normal(size=(n, d)) + 0.213 * y[:, None]).astype(np.float32), y


def c_svc(kernel, y, C, device, seconds):
    limits = StoppingLimits(max_seconds=seconds)
    return Program(kernel, np.arange(len(y)), y, -1.0, 0.0, C, limits=limits, backend=device)


def facts(solution):
    keys = ("seconds", "status", "engine", "objective", "gap", "iterations", "n_support", "n_bounded", "n_kernel_rows")
    return {key: getattr(solution, key) for key in keys}


class Benchmark:
    """All measurements, within a time."""

    def __init__(self, meter, ceilings, seconds):
        self.meter, self.ceilings = meter, ceilings
        self.deadline = time.monotonic() + seconds
        self.results = []

    def left(self):
        return self.deadline - time.monotonic()

    def one(self, name, X, y, C, gamma, sample):
        """One C-SVC: on the GPU twice (fresh kernel each), with every launch timed, and by the others."""
        n, d = X.shape
        print(f"{name}: {n} x {d} ...", flush=True)
        result = {"name": name, "n": n, "d": d, "C": C, "gamma": gamma}
        limit = max(5.0, min(60.0, self.left() / 3))

        def run(X, y, backend, limit=limit):
            started = time.perf_counter()
            solution = solve(c_svc(FeatureKernel(X, gamma=gamma), y, C, backend, limit))
            return solution, facts(solution) | {"wall": time.perf_counter() - started}

        _, result["gpu_first"] = run(X, y, "cuda")
        self.meter.reset()
        solution, result["gpu"] = run(X, y, "cuda")
        result["launches"] = dict(self.meter.launches)
        result["roofline"] = self.roofline(n, d, solution.n_kernel_rows)
        kernel = FeatureKernel(X, gamma=gamma)
        solve(c_svc(kernel, y, C / 2, "cuda", limit))
        started = time.perf_counter()
        rows_known = solve(c_svc(kernel, y, C, "cuda", limit))
        result["gpu_rows_known"] = facts(rows_known) | {"wall": time.perf_counter() - started}
        del kernel
        self.meter.timed = True
        self.meter.reset()
        run(X, y, "cuda", PROFILE_LIMIT_S)
        result["seconds_by_kernel"] = {k: round(v, 5) for k, v in sorted(self.meter.seconds.items())}
        self.meter.timed = False
        if self.left() > 10:
            _, result["cpu"] = run(X, y, "cpu", min(limit, self.left() / 2))
        part = np.sort(np.random.default_rng(1).permutation(n)[:sample])
        result["sample"] = {"n": len(part)}
        for device in ("cuda", "cpu"):
            _, result["sample"][device] = run(X[part], y[part], device)
        if self.left() > 15:
            result["sample"]["scikit-learn"] = sklearn_fit(X[part], y[part], C, gamma)
        self.results.append(result)

    def one_vs_one(self, X, label, C, gamma):
        """All pairs of ten classes: together on the GPU, one after the other, on the CPU, scikit-learn."""
        classes = np.unique(label)
        print(f"one-vs-one: {len(X)} x {X.shape[1]}, {len(classes)} classes ...", flush=True)

        def programs(device):
            kernel = FeatureKernel(X, gamma=gamma)
            return [
                Program(kernel, idx, np.where(label[idx] == i, 1.0, -1.0), -1.0, 0.0, C, backend=device)
                for a, i in enumerate(classes)
                for j in classes[a + 1 :]
                for idx in [np.flatnonzero((label == i) | (label == j))]
            ]

        def together(these):
            return [solution for [solution] in solve_many([[program] for program in these])]

        def timed(device, run):
            these = programs(device)
            started = time.perf_counter()
            solutions = run(these)
            return {
                "wall": time.perf_counter() - started,
                "status": sorted({s.status for s in solutions}),
                "engines": sorted({s.engine for s in solutions}),
                "objective": sum(s.objective for s in solutions),
                "gap": max(s.gap for s in solutions),
                "iterations": sum(s.iterations for s in solutions),
                "most_iterations": max(s.iterations for s in solutions),
                "n_kernel_rows": sum(s.n_kernel_rows for s in solutions),
            }

        result = {"name": "one-vs-one", "n": len(X), "d": X.shape[1], "C": C, "gamma": gamma}
        result["gpu_first"] = timed("cuda", together)
        self.meter.reset()
        result["gpu"] = timed("cuda", together)
        result["launches"] = dict(self.meter.launches)
        result["roofline"] = self.roofline(len(X), X.shape[1], result["gpu"]["n_kernel_rows"])
        result["gpu_in_turn"] = timed("cuda", lambda these: [solve(program) for program in these])
        result["cpu"] = timed("cpu", together)
        if self.left() > 15:
            result["scikit-learn"] = sklearn_fit(X, label, C, gamma)
        self.results.append(result)

    def roofline(self, n, d, rows):
        """Least seconds that what was computed takes at the measured ceilings."""
        flops, stored = 2.0 * rows * n * d, 4.0 * rows * n
        figures = {"gemm_flops": flops, "row_bytes": 3 * stored, "folded_bytes": float(self.meter.folded_bytes)}
        if self.ceilings:
            gemm = flops / self.ceilings["gemm_float32_flops"]
            # products are written, read and written as kernel values; rows are read each time they are folded in
            memory = (3 * stored + self.meter.folded_bytes) / self.ceilings["copy_bytes_per_s"]
            figures |= {"gemm_s": gemm, "memory_s": memory, "floor_s": gemm + memory}
        return figures


def sklearn_fit(X, y, C, gamma):
    from sklearn.svm import SVC

    started = time.perf_counter()
    peer = SVC(C=C, gamma=gamma, cache_size=2000).fit(X, y)
    figures = {"wall": time.perf_counter() - started, "n_support": int(peer.n_support_.sum())}
    if len(peer.classes_) == 2:
        v = peer.decision_function(X) - peer.intercept_[0]
        dual = np.zeros(len(y))
        dual[peer.support_] = peer.dual_coef_[0]
        figures["objective"] = float(0.5 * dual @ v - np.abs(dual).sum())
    return figures


def table(results):
    """Rows of the report: seconds of each, and how far the GPU is from the floor."""
    lines = [
        f"{'problem':<30}{'GPU first':>10}{'GPU':>9}{'rows known':>11}{'floor':>9}{'CPU':>9}{'sklearn':>9}"
        f"{'steps':>9}{'rows':>8}{'gap':>10}"
    ]

    def seconds(entry):
        return "-" if entry is None else f"{entry['wall']:.3f}"

    for result in results:
        gpu = result["gpu"]
        floor = result["roofline"].get("floor_s")
        title = f"{result['name']} {result['n']} x {result['d']}"
        lines.append(
            f"{title:<30}{seconds(result['gpu_first']):>10}"
            f"{seconds(gpu):>9}{seconds(result.get('gpu_rows_known')):>11}{'-' if floor is None else f'{floor:.4f}':>9}"
            f"{seconds(result.get('cpu')):>9}{seconds(result.get('scikit-learn')):>9}{gpu['iterations']:>9}"
            f"{gpu['n_kernel_rows']:>8}{gpu['gap']:>10.2e}"
        )
        if "gpu_in_turn" in result:
            lines.append(f"  the same in turn{'':<14}{'':>10}{seconds(result['gpu_in_turn']):>9}")
        if "sample" in result:
            part = result["sample"]
            lines.append(
                f"  {'of which ' + str(part['n']):<28}{'':>10}{seconds(part['cuda']):>9}{'':>11}{'':>9}"
                f"{seconds(part['cpu']):>9}{seconds(part.get('scikit-learn')):>9}{part['cuda']['iterations']:>9}"
                f"{part['cuda']['n_kernel_rows']:>8}{part['cuda']['gap']:>10.2e}"
            )
    return lines


def disagreements(results):
    """Where the GPU's result is not what it has to be."""
    found = []
    for result in results:
        pairs = [(result["name"], result["gpu"], result.get("cpu"))]
        if "sample" in result:
            part = result["sample"]
            pairs += [(f"{result['name']}, sample", part["cuda"], part["cpu"])]
            pairs += [(f"{result['name']}, sample, scikit-learn", part["cuda"], part.get("scikit-learn"))]
        for name, gpu, other in pairs:
            if gpu["status"] not in ("optimal", ["optimal"]) or gpu["gap"] > 1e-3:
                found.append(f"{name}: the GPU ended with {gpu['status']}, gap {gpu['gap']:.2e}")
            elif other and "objective" in other and other.get("status", "optimal") in ("optimal", ["optimal"]):
                difference = (gpu["objective"] - other["objective"]) / abs(other["objective"])
                if difference > 1e-5:
                    found.append(f"{name}: the GPU's objective is higher by {difference:.1e}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder for gpu.json")
    parser.add_argument("--cpu-shim", action="store_true", help="rehearse without a GPU")
    parser.add_argument("--seconds", type=float, default=170.0, help="measurements with the others stop near this")
    arguments = parser.parse_args()

    device, card, ceilings, synchronize = shim_device() if arguments.cpu_shim else gpu_device()
    meter = Meter(device, synchronize)
    backend.cuda_device = lambda: meter
    if arguments.cpu_shim:
        backend.resolve_backend = lambda wish, large: wish  # noqa: ARG005
    warm_up(64 << 20)
    benchmark = Benchmark(meter, ceilings, arguments.seconds)

    def size(n, tiny):
        return tiny if arguments.cpu_shim else n

    X, label = images(size(60_000, 700), size(784, 40))
    gamma = 1.0 / (X.shape[1] * float(X.var()))
    some = size(10_000, 400)
    benchmark.one_vs_one(X[:some], label[:some], 10.0, gamma)
    benchmark.one("images", X, np.where(label % 2 == 0, 1.0, -1.0), 10.0, gamma, size(10_000, 300))
    X, y = gaussians(size(50_000, 800), 22)
    benchmark.one("gaussians", X, y, 1.0, 1.0 / 22, size(10_000, 300))

    wrong = disagreements(benchmark.results)
    report = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "card": card,
        "ceilings": ceilings,
        "host": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "python": platform.python_version(),
        "numpy": np.__version__,
        "tolerance": 1e-3,
        "results": benchmark.results,
        "disagreements": wrong,
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    target = arguments.out / ("gpu-rehearsal.json" if arguments.cpu_shim else "gpu.json")
    target.write_text(json.dumps(report, indent=1) + "\n")

    for result in benchmark.results:
        if "seconds_by_kernel" in result:
            print(f"{result['name']}, seconds in our kernels, one launch at a time: {result['seconds_by_kernel']}")
    print(f"\n{card['name']}, {report['date']}; ceilings: {ceilings}; figures in {target}")
    print(
        "Wall seconds. Floor: GEMM FLOPs and bytes over the measured ceilings. First: memory and libraries are cold.\n"
    )
    print("\n".join(table(benchmark.results)))
    for line in wrong:
        print(f"WRONG: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""The low-rank engine: time and memory against rows, and accuracy beside the exact solver on a sample.

Each run is a process of its own that generates its rows, so its peak memory is that of one training. Run it as
`python -P benchmarks/lowrank.py`; it writes lowrank.json and lowrank.md into benchmarks/results.
"""

import argparse
import datetime
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# last, or solver.py here would stand for the package solver
sys.path.append(str(Path(__file__).resolve().parent))

import numpy as np
import solver_workloads

from solver.decision import DecisionState
from solver.kernels.kernel import FeatureKernel
from solver.lowrank import Factor, solve_lowrank, warm_up
from solver.smo import Program, solve

RESULTS = Path(__file__).resolve().parent / "results"
ROWS = (125_000, 250_000, 500_000, 1_000_000)
SAMPLE = 50_000
TEST = 100_000


def blobs(n, d=22, seed=0):
    """Forty Gaussian clusters of two classes, overlapping: a curved boundary, most rows are no support vectors."""
    rng = np.random.default_rng(seed)
    centres = 2.0 * np.random.default_rng(12345).normal(size=(40, d))
    cluster = rng.integers(0, 40, n)
    X = centres[cluster] + 1.6 * rng.normal(size=(n, d))
    return solver_workloads.Workload(X, np.where(cluster % 2 == 0, 1.0, -1.0), 1.0, 1.0 / (d * X.var()))


def _real(name, scale, n_test, C, gamma, seed=0):
    """Rows of a real data set in random order: training rows, and the last ones for the test."""
    X, y = solver_workloads._load(name)
    order = np.random.default_rng(seed).permutation(X.shape[0])
    X = (X[order].toarray() if hasattr(X, "toarray") else X[order]) / scale
    y = np.where(y[order] % 2 == 0, 1.0, -1.0) if name.startswith("mnist") else y[order].astype(np.float64)
    return solver_workloads.Workload(X[:-n_test], y[:-n_test], C, gamma), (X[-n_test:], y[-n_test:])


def load(name, n):
    """Training rows, and test rows that are the same for every n."""
    if name == "ijcnn1":
        return _real("ijcnn1", 1.0, 9990, 10.0, 1.0)
    if name == "mnist":
        return _real("mnist_train", 255.0, 4000, 10.0, 0.02)
    make = {"gaussians": solver_workloads.gaussians, "blobs": blobs}[name]
    test = make(TEST, seed=1)
    return make(n), (test.X, test.y)


class Clock:
    def __init__(self):
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def __call__(self):
        return {"wall": time.perf_counter() - self.wall, "cpu": time.process_time() - self.cpu}


def run(name, n, engine="lowrank", sample=None, mapped=False, polish=True):
    """One training in this process."""
    work, (X_test, y_test) = load(name, n)
    X, y = work.X[:sample], work.y[:sample]
    n = len(y)
    if mapped:
        with tempfile.NamedTemporaryFile(suffix=".npy") as file:
            np.save(file, X)
            file.flush()
            X = np.load(file.name, mmap_mode="r")
    warm_up()
    everything = np.arange(n)
    whole = Clock()
    if engine == "exact":
        solution = solve(Program(FeatureKernel(X, gamma=work.gamma), everything, y, -1.0, 0.0, work.C))
        parts = {}
        rows = np.flatnonzero(solution.alpha)
        coefficients = (y * solution.alpha)[rows]
    else:
        kernel = FeatureKernel(X, gamma=work.gamma)
        clock = Clock()
        factor = Factor.build(kernel, max_bytes=(64 << 20) if mapped else None)
        parts = {"factor": clock()}
        clock = Clock()
        program = Program(kernel, everything, y, -1.0, 0.0, work.C)
        solution = solve_lowrank(factor, program, polish_up_to=100_000 if polish else 0)
        parts["ascent"] = clock()
        rows, coefficients = factor.landmarks, solution.coefficients
        if solution.polish is not None:
            rows = np.flatnonzero(solution.alpha)
            coefficients = (y * solution.alpha)[rows]
    total = whole()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    state = DecisionState("rbf", work.gamma, 3, 0.0, np.asarray(X[rows]), coefficients, solution.b, 0.0)
    accuracy = float(np.mean((state.decision_function(X_test) > 0) == (y_test > 0)))
    return {
        "workload": name, "rows": n, "features": X.shape[1], "engine": solution.engine, "status": solution.status,
        "gap": solution.gap, "rank": factor.rank if engine == "lowrank" else None, "support_vectors": len(rows),
        "in_file": engine == "lowrank" and factor.in_file, "features_mapped": mapped,
        "passes": solution.iterations / n, "total": total, "parts": parts, "peak_mb": peak, "accuracy": accuracy,
        "missed": None if engine != "lowrank" or solution.polish is None else solution.polish.missed,
    }  # fmt: skip


def in_a_process(**arguments):
    command = [sys.executable, "-P", __file__, "--one", json.dumps(arguments)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(result.stdout)
    print(
        f"{found['workload']} {found['rows']:,} {found['engine']}: {found['total']['wall']:.1f} s wall, "
        f"{found['total']['cpu']:.1f} s CPU, {found['peak_mb']} MB, accuracy {found['accuracy']:.4f}",
        flush=True,
    )
    return found


def exponent(runs):
    """Exponent of the CPU time in the rows, by least squares on logarithms."""
    rows, seconds = np.log([r["rows"] for r in runs]), np.log([r["total"]["cpu"] for r in runs])
    return float(np.polyfit(rows, seconds, 1)[0])


def generated(name):
    """Growing rows, the largest twice; both engines on a sample of the largest; features and factor in files."""
    common = {"name": name, "n": ROWS[-1]}
    runs = [in_a_process(name=name, n=n) for n in (*ROWS, ROWS[-1])]
    runs.append(in_a_process(**common, sample=SAMPLE))
    runs.append(in_a_process(**common, sample=SAMPLE, engine="exact"))
    runs.append(in_a_process(name=name, n=ROWS[1], mapped=True))
    return runs


def real(name):
    """All rows: the factor's solution, the polished one, the exact one."""
    common = {"name": name, "n": 0}
    return [
        in_a_process(**common, polish=False),
        in_a_process(**common),
        in_a_process(**common, engine="exact"),
    ]


def report(results):
    lines = [
        "# The low-rank engine",
        "",
        f"`python -P benchmarks/lowrank.py`, {results['date']}, {results['cores']} cores shared with other work, so",
        "processor seconds say more than wall seconds. Training only (landmarks, factor, ascent, polishing); rows are",
        "generated or read before. Accuracy on test rows that are the same within a workload.",
        "",
        "| workload | rows × features | engine | landmarks | wall s | CPU s | factor · ascent, polish: CPU s "
        "| passes | peak MB | support vectors | accuracy |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in itertools.chain.from_iterable(results["workloads"].values()):
        parts = " · ".join(f"{part['cpu']:.1f}" for part in r["parts"].values())
        where = (", features mapped" if r["features_mapped"] else "") + (", factor in a file" if r["in_file"] else "")
        lines.append(
            f"| {r['workload']} | {r['rows']:,} × {r['features']} | {r['engine']}{where} | {r['rank'] or ''} "
            f"| {r['total']['wall']:.1f} | {r['total']['cpu']:.1f} | {parts} "
            f"| {r['passes']:.0f} | {r['peak_mb']:,} | {r['support_vectors']:,} | {r['accuracy']:.4f} |"
        )
    for name, runs in results["workloads"].items():
        growing = [r for r in runs if r["rows"] in ROWS and not r["features_mapped"]]
        if len({r["rows"] for r in growing}) > 1:
            lines += ["", f"{name}: processor time grows with the rows to the power of {exponent(growing):.2f}."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--only", default="gaussians,blobs,ijcnn1,mnist", help="workloads; others keep their results")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(run(**json.loads(arguments.one))))
        return
    path = arguments.out / "lowrank.json"
    results = json.loads(path.read_text()) if path.exists() else {"workloads": {}}
    for name in arguments.only.split(","):
        results["workloads"][name] = generated(name) if name in ("gaussians", "blobs") else real(name)
        results |= {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "cores": os.cpu_count()}
        path.write_text(json.dumps(results, indent=1) + "\n")
        path.with_suffix(".md").write_text(report(results))
    print(report(results))


if __name__ == "__main__":
    main()

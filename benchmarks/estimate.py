"""What trainings need beside what `solver.estimate` says that they will: the figures that its constants are fitted to.

Each training is a process of its own, warmed up as a worker's child is, on generated rows. Run it as
`python -P benchmarks/estimate.py`; it writes estimate.md into benchmarks/results.
"""

import argparse
import datetime
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from solver.algorithms import validate_params
from solver.estimate import BASE_BYTES, estimate_training
from solver.features.matrix import MatrixData
from solver.training import TrainingRequest, train
from solver.warm_up import warm_up

RESULTS = Path(__file__).resolve().parent / "results"
MEMORY, SECONDS = 8 << 30, 3600.0

# algorithm, rows, features, share of labelled rows, entries of a sparse row (0: dense), parameters
CASES = [
    ("svm", 10_000, 22, 1.0, 0, {}),
    ("svm", 30_000, 22, 1.0, 0, {}),
    ("svm", 5_000, 500, 1.0, 0, {}),
    ("svm", 10_000, 22, 1.0, 0, {"tune": "C"}),
    ("svm", 100_000, 22, 1.0, 0, {"solver": "lowrank"}),
    ("svm", 20_000, 20_000, 1.0, 80, {"kernel": "linear"}),
    ("psvm", 20_000, 22, 0.1, 0, {}),
    ("psvm", 50_000, 22, 0.1, 0, {"solver": "lowrank"}),
    ("psvm", 20_000, 20_000, 0.1, 80, {"kernel": "linear"}),
    ("tsvm", 5_000, 22, 0.1, 0, {}),
    ("tsvm", 10_000, 20_000, 0.1, 80, {"kernel": "linear"}),
    ("ramp-tsvm", 3_000, 22, 0.1, 0, {}),
    ("self-training", 10_000, 22, 0.1, 0, {}),
    ("lapsvm", 4_000, 22, 0.1, 0, {}),
]


def rows_of(n, features, share, entries):
    """Two overlapping classes; labels that are hidden are None."""
    rng = np.random.default_rng(0)
    y = rng.random(n) < 0.5
    if entries:
        # words of a class are a fifth more frequent in its rows
        columns = rng.integers(0, features, (n, entries))
        own = rng.random((n, entries)) < 0.2
        columns[own] = 2 * (columns[own] // 2) + np.broadcast_to(y[:, None], own.shape)[own]
        X = sp.csr_array((np.ones(n * entries), columns.ravel(), np.arange(0, n * entries + 1, entries)), (n, features))
        X.sum_duplicates()
    else:
        X = rng.normal(size=(n, features))
        X[:, 0] += np.where(y, 1.0, -1.0)
    labels = np.where(y, "1", "0").astype(object)
    labels[rng.random(n) >= share] = None
    return X, labels


def run(algorithm, n, features, share, entries, params):
    """One training in this process, and its estimate."""
    warm_up(arena_bytes=0)
    X, labels = rows_of(n, features, share, entries)
    full = {"kernel": "rbf", **params}
    size = 12 * X.nnz if entries else X.nbytes
    estimate = estimate_training(
        rows=n, labelled=int(sum(label is not None for label in labels)), features=features, matrix_bytes=size,
        algorithm=algorithm, params=validate_params(algorithm, full), memory_bytes=MEMORY, max_seconds=SECONDS,
    )  # fmt: skip
    cpu, wall = time.process_time(), time.perf_counter()
    trained = train(MatrixData(X), labels, TrainingRequest(algorithm=algorithm, params=full, max_seconds=SECONDS))
    return {
        "case": f"{algorithm}, {n:,} × {features:,}" + (f" ({entries} entries)" if entries else "")
        + (f", {share:.0%} labelled" if share < 1 else "") + "".join(f", {k} {v}" for k, v in params.items()),
        "cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall, "seconds": estimate.seconds,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10, "bytes": estimate.bytes,
        "least": estimate.least_bytes, "engine": trained.report.solver.engine,
    }  # fmt: skip


def report(results):
    lines = [
        "# Estimates of trainings",
        "",
        f"`python -P benchmarks/estimate.py`, {datetime.datetime.now(datetime.UTC).date().isoformat()}. Seconds are of",
        f"the processor. Memory is that of a process of {BASE_BYTES >> 20} MB before it sees rows; the most that a",
        "training is thought to take is mostly the cache of kernel rows, which is touched as far as it is used.",
        "",
        "| training | engine | seconds | estimated | peak MB | estimated, least to most |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['case']} | {r['engine']} | {r['cpu']:.1f} | {r['seconds']:.1f} | {r['peak'] >> 20:,} "
        f"| {r['least'] >> 20:,} to {r['bytes'] >> 20:,} |"
        for r in results
    ]
    ratios = np.array([r["seconds"] / r["cpu"] for r in results])
    lines += ["", f"Estimated over measured seconds: {ratios.min():.1f} to {ratios.max():.1f}."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(run(*json.loads(arguments.one))))
        return
    results = []
    for case in CASES:
        command = [sys.executable, "-P", __file__, "--one", json.dumps(case)]
        results.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        print(results[-1], flush=True)
        (arguments.out / "estimate.md").write_text(report(results))


if __name__ == "__main__":
    main()

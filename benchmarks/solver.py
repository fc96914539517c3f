"""Time the solver beside scikit-learn, LIBSVM, scikit-learn-intelex, ThunderSVM and LIBLINEAR.

    python benchmarks/solver.py --peers-python /path/to/peers/bin/python --out benchmarks/results/solver.json
    python benchmarks/solver.py --tables benchmarks/results/solver.json --docs docs/solver.md \
        --picture benchmarks/results/solver-growth.svg

Every training is a process of its own; the solvers take turns, so that a busy machine hits all of them; medians and
ranges of wall and CPU seconds are reported, and the ratio of each pair. Objective and gap of every solution are
recomputed here in float64 by code that no solver shares. "cold": the first training of a process (code loaded, memory
fresh); "warm": the same once more, as in a long-lived process. Trainings of more than three seconds are done once.
Peak memory is that of the whole process, interpreter included. A solver slower than ``--slow`` seconds is not repeated.
Results are added to the file that ``--out`` names, so parts can be run one by one.
The peers live in an environment made from benchmarks/requirements-peers.txt.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).resolve().parent))
import solver_report
from solver_fits import TOL
from solver_workloads import WORKLOADS

CHILD = Path(__file__).resolve().with_name("solver_fits.py")
EVERYBODY = ["ours", "intelex32", "intelex64", "sklearn", "libsvm", "thunder"]
GRIDS = ["adult-grid", "ijcnn1-grid", "mnist-grid"]
ROUNDS = ["adult-easy-rounds", "adult-hard-rounds", "ijcnn1-rounds", "mnist-rounds"]
# where the tables stand in a page
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
# which solvers a workload is given to, where not to all; the slow ones on what they can do in minutes
SOLVERS = (
    {
        "gaussians": ["ours", "intelex32", "intelex64", "sklearn", "libsvm"],
        "news": ["ours", "intelex32", "libsvm"],
        "mnist-precomputed": ["ours", "sklearn"],
        "ijcnn1-precomputed": ["ours", "sklearn"],
        "news-one-vs-rest": ["ours", "liblinear"],
    }
    | {name: ["ours", "intelex32", "sklearn"] for name in GRIDS}
    | {name: ["ours"] for name in ROUNDS}
    | {f"gaussians-{n}": ["ours", "intelex32", "sklearn", "libsvm"] for n in (2000, 4000, 8000)}
    | {f"gaussians-{n}": ["ours", "intelex32"] for n in (16000, 32000, 64000)}
)
CURVE = [f"gaussians-{n}" for n in solver_report.GROWTH]
# those with bars first
ALL = [
    *solver_report.RBF, *GRIDS, *ROUNDS, *CURVE, "mnist-precomputed", "ijcnn1-precomputed", "news", "news-one-vs-rest",
    "digits", "wdbc",
]  # fmt: skip
# unless asked for by name, these run with the first number of threads only: LIBLINEAR has no more, nor the picture room
ONCE = {*CURVE, "news", "news-one-vs-rest"}


def prepare(folder, name):
    """Write a workload's arrays where the timed processes find them."""
    work = WORKLOADS[name]()
    arrays = {
        "y": work.y, "scalars": np.array([work.C, work.gamma]), "kernel": np.array(work.kernel),
        "task": np.array(work.task),
    }  # fmt: skip
    if sp.issparse(work.X):
        arrays |= {
            "data": work.X.data, "indices": work.X.indices, "indptr": work.X.indptr, "shape": np.array(work.X.shape)
        }  # fmt: skip
    else:
        arrays["X"] = np.asarray(work.X)
    path = Path(folder) / f"{name}.npz"
    np.savez(path, **arrays)
    return path, work


def evaluate(work, dual):
    """Objective and gap in float64, from the definition; dual is y·alpha, its sign as the solver gives it."""
    alpha = np.abs(dual)
    y, support = work.y, np.flatnonzero(dual)
    if np.sign(dual[support]) @ y[support] < 0:
        dual = -dual
    f = np.zeros(len(y))
    if work.kernel == "linear":
        f = work.X @ (work.X.T @ dual)
    elif work.kernel == "precomputed":
        f = work.X @ dual
    else:
        X = np.ascontiguousarray(work.X - work.X.mean(0))
        squares = np.einsum("ij,ij->i", X, X)

        def block(s):
            K = X[support] @ X[s : s + 256].T
            K *= 2
            K -= squares[support, None]
            K -= squares[None, s : s + 256]
            K *= work.gamma
            np.exp(K, out=K)
            f[s : s + 256] = dual[support] @ K

        with ThreadPoolExecutor(os.cpu_count()) as executor:
            list(executor.map(block, range(0, len(y), 256)))
    v = y - f
    near = 1e-6 * work.C
    grow, shrink = alpha < work.C - near, alpha > near
    up, down = np.where(y > 0, grow, shrink), np.where(y > 0, shrink, grow)
    return {
        "objective": float(0.5 * dual @ f - alpha.sum()),
        "gap": float(v[up].max() - v[down].min()),
        "support": int(support.size),
        "equality": float(dual.sum()),
    }


def run_once(solver, path, threads, options, out):
    """One training in a process of its own, or what went wrong."""
    python = sys.executable if solver == "ours" else options.peers_python
    environment = dict(os.environ)
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        environment[variable] = str(threads)
    command = [python, str(CHILD), solver, str(path), str(threads), str(out)]
    try:
        answer = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=options.limit, check=True
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"given up after {options.limit:.0f} s"}
    except subprocess.CalledProcessError as error:
        print(error.stderr[-400:], file=sys.stderr)
        return {"failed": error.stderr.strip().splitlines()[-1][:200] if error.stderr.strip() else "died"}
    return json.loads(answer.stdout.strip().splitlines()[-1])


def measure(name, threads, options):
    """All solvers of a workload, in turn."""
    solvers = [
        solver
        for solver in SOLVERS.get(name, EVERYBODY)
        if solver == "ours" or (options.peers_python and (options.solvers is None or solver in options.solvers))
    ]
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        path, work = prepare(folder, name)
        for repeat in range(options.repeats):
            for solver in solvers:
                row = rows.setdefault(solver, {})
                # ours is repeated for the sake of the pairs
                slow = solver != "ours" and row.get("wall", [0.0])[0] > options.slow
                if "failed" in row or (repeat and slow):
                    continue
                out = Path(folder) / "out.npz"
                result = run_once(solver, path, threads, options, out)
                if "failed" in result:
                    row |= result
                    continue
                for key in ("wall", "cpu", "cold_wall", "cold_cpu"):
                    row.setdefault(key, []).append(result[key])
                row["peak"] = max(row.get("peak", 0), result["peak"])
                found = np.load(out)
                if "rounds" in found:
                    row.setdefault("rounds", []).append(found["rounds"].tolist())
                if "accuracy" in found:
                    row["accuracy"] = found["accuracy"].tolist()
                if not repeat and "dual" in found and len(work.y) <= options.check_up_to:
                    row |= evaluate(work, found["dual"])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers-python", help="interpreter with the peers installed")
    parser.add_argument("--workloads", type=lambda text: text.split(","), help="default: all, those with bars first")
    parser.add_argument("--solvers", type=lambda text: text.split(","), help="peers to run, default: all")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--slow", type=float, default=8.0, help="a solver slower than this is run once")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds after which a process is given up")
    parser.add_argument("--minutes", type=float, help="start nothing after so many; what is left out is printed")
    parser.add_argument("--check-up-to", type=int, default=50_000, help="most rows for which a gap is recomputed")
    parser.add_argument("--out", type=Path, help="JSON file for the figures; results are added to it")
    parser.add_argument("--tables", type=Path, help="print the tables of such a file and stop")
    parser.add_argument("--docs", type=Path, help="with --tables: put the tables into this page")
    parser.add_argument("--picture", type=Path, help="with --tables: draw time and memory against n (SVG or PNG)")
    options = parser.parse_args()
    if options.tables:
        figures = json.loads(options.tables.read_text())
        tables = solver_report.markdown(figures)
        if options.picture:
            solver_report.draw(figures, options.picture)
            place = os.path.relpath(options.picture, options.docs.parent if options.docs else ".")
            tables += f"\n\n![Seconds and memory against the number of rows]({place})"
        print(tables)
        if options.docs:
            before, rest = options.docs.read_text().split(BEGIN)
            options.docs.write_text(f"{before}{BEGIN}\n{tables}\n{END}{rest.split(END)[1]}")
        return
    figures = {"results": {}}
    if options.out and options.out.exists():
        figures = json.loads(options.out.read_text())
    figures |= {
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "tol": TOL,
    }
    began = time.monotonic()
    for name in options.workloads or ALL:
        counts = [int(count) for count in options.threads.split(",")]
        for threads in counts[:1] if name in ONCE and not options.workloads else counts:
            if options.minutes and time.monotonic() - began > 60 * options.minutes:
                print(f"left out: {name}, {threads} threads", file=sys.stderr)
                continue
            load = os.getloadavg()[0]
            rows = measure(name, threads, options)
            figures["results"][f"{name}/{threads}"] = {
                "solvers": rows, "date": time.strftime("%Y-%m-%d %H:%M"), "load": load
            }  # fmt: skip
            print(solver_report.lines(name, threads, rows), flush=True)
            if options.out:
                options.out.write_text(json.dumps(figures, indent=1))
    print(solver_report.bars(figures))


if __name__ == "__main__":
    main()

"""Time the solver beside scikit-learn, LIBSVM, scikit-learn-intelex and ThunderSVM.

    python benchmarks/solver.py --peers-python /path/to/peers/bin/python --out benchmarks/results/solver.json

Every fit is a process of its own; the solvers take turns, so that a busy machine hits all of them; medians and ranges
of wall and CPU seconds of the fit are reported, and the ratio of each pair. Objective and gap of every solution are
recomputed here in float64 by code that no solver shares. "warm": compiled and the memory for kernel rows touched, as
in a long-lived process; "cold": fresh memory. Peak memory is that of the whole process, interpreter included.
The peers live in an environment made from benchmarks/requirements-peers.txt.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).resolve().parent))
from solver_workloads import WORKLOADS, Workload

TOL = 1e-3
ROOT = Path(__file__).resolve().parents[1]
RBF = ["adult-hard", "adult-easy", "ijcnn1", "mnist", "gaussians"]
SOLVERS = ["ours", "ours-cold", "intelex32", "intelex64", "sklearn", "libsvm", "thunder"]


def prepare(folder, name):
    """Write a workload's arrays where the timed processes find them."""
    work = WORKLOADS[name]()
    arrays = {"y": work.y, "scalars": np.array([work.C, work.gamma]), "kernel": np.array(work.kernel)}
    if sp.issparse(work.X):
        arrays |= {
            "data": work.X.data, "indices": work.X.indices, "indptr": work.X.indptr, "shape": np.array(work.X.shape)
        }  # fmt: skip
    else:
        arrays["X"] = np.asarray(work.X)
    path = Path(folder) / f"{name}.npz"
    np.savez(path, **arrays)
    return path, work


def read(path):
    z = np.load(path, allow_pickle=False)
    X = z["X"] if "X" in z else sp.csr_matrix((z["data"], z["indices"], z["indptr"]), shape=tuple(z["shape"]))
    return Workload(X, z["y"], float(z["scalars"][0]), float(z["scalars"][1]), str(z["kernel"]))


def fit(solver, path, threads):
    """Fit once and return (seconds, CPU seconds, alpha·y); runs in a process of its own."""
    work = read(path)
    n = len(work.y)
    small = np.random.default_rng(0).normal(size=(200, 4))
    labels = np.where(small[:, 0] > 0, 1.0, -1.0)
    dual = np.zeros(n)
    if solver.startswith("ours"):
        sys.path.insert(0, str(ROOT))
        from solver.kernels import FeatureKernel
        from solver.smo import solve, warm_up

        warm_up(0 if solver == "ours-cold" else 1 << 30)

        def run():
            kernel = FeatureKernel(work.X, work.kernel, gamma=work.gamma)
            solution = solve(kernel, np.arange(n), work.y, -1.0, 0.0, work.C, tol=TOL, cache_bytes=1 << 30)
            return lambda: solution.alpha * work.y
    elif solver == "libsvm":
        from libsvm import svmutil

        problem = svmutil.svm_problem(work.y, work.X if sp.issparse(work.X) else sp.csr_matrix(work.X))
        kernel = {"rbf": 2, "linear": 0}[work.kernel]
        options = svmutil.svm_parameter(f"-q -t {kernel} -c {work.C} -g {work.gamma} -e {TOL} -m 2000")

        def run():
            model = svmutil.svm_train(problem, options)

            def result():
                dual[np.array(model.get_sv_indices()) - 1] = [c[0] for c in model.get_sv_coef()]
                return dual

            return result
    else:
        X = work.X
        if solver == "thunder":
            from thundersvm import SVC

            options = {"n_jobs": threads, "max_mem_size": 2000}
        else:
            options = {"cache_size": 2000}
            if solver.startswith("intelex"):
                import daal4py

                daal4py.daalinit(nthreads=threads)
                from sklearnex.svm import SVC

                X = X.astype(np.float32 if solver == "intelex32" else np.float64)
            else:
                from sklearn.svm import SVC
        SVC(kernel=work.kernel, gamma=0.5).fit(small.astype(X.dtype), labels)

        def run():
            model = SVC(C=work.C, kernel=work.kernel, gamma=work.gamma, tol=TOL, **options).fit(X, work.y)

            def result():
                coefficients = model.dual_coef_
                dual[np.asarray(model.support_)] = np.asarray(
                    coefficients.toarray() if sp.issparse(coefficients) else coefficients
                )[0]
                return dual

            return result

    processor, wall = time.process_time(), time.perf_counter()
    result = run()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return wall, processor, peak, result()


def evaluate(work, dual):
    """Objective and gap in float64, from the definition; dual is y·alpha, its sign as the solver gives it."""
    alpha = np.abs(dual)
    y, support = work.y, np.flatnonzero(dual)
    if np.sign(dual[support]) @ y[support] < 0:
        dual = -dual
    f = np.zeros(len(y))
    if work.kernel == "linear":
        f = work.X @ (work.X.T @ dual)
    else:
        X = np.ascontiguousarray(work.X - work.X.mean(0))
        squares = np.einsum("ij,ij->i", X, X)
        for s in range(0, len(y), 512):
            K = X[support] @ X[s : s + 512].T
            K *= 2
            K -= squares[support, None]
            K -= squares[None, s : s + 512]
            K *= work.gamma
            np.exp(K, out=K)
            f[s : s + 512] = dual[support] @ K
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


def child(arguments):
    solver, path, threads, out = arguments
    wall, processor, peak, dual = fit(solver, path, int(threads))
    np.save(out, dual)
    print(json.dumps({"wall": wall, "cpu": processor, "peak": peak}))


def measure(name, solvers, threads, repeats, peers_python, limit):
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        path, work = prepare(folder, name)
        runs = {solver: [] for solver in solvers}
        for _ in range(repeats):
            for solver in solvers:
                python = sys.executable if solver.startswith("ours") else peers_python
                if python is None or runs[solver] is None:
                    continue
                out = Path(folder) / "dual.npy"
                environment = dict(os.environ)
                for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
                    environment[variable] = str(threads)
                command = [python, __file__, "--child", solver, str(path), str(threads), str(out)]
                try:
                    answer = subprocess.run(
                        command, env=environment, capture_output=True, text=True, timeout=limit, check=True
                    )
                except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                    detail = (getattr(error, "stderr", "") or "")[-200:]
                    print(f"  {solver}: {type(error).__name__} {detail}", file=sys.stderr)
                    runs[solver] = None
                    continue
                result = json.loads(answer.stdout.strip().splitlines()[-1])
                if not runs[solver]:
                    result |= evaluate(work, np.load(out))
                runs[solver].append(result)
        for solver, results in runs.items():
            if results:
                rows[solver] = {
                    "wall": [r["wall"] for r in results],
                    "cpu": [r["cpu"] for r in results],
                    "peak": max(r["peak"] for r in results),
                } | {key: results[0][key] for key in ("objective", "gap", "support", "equality")}
    return rows


def report(name, threads, rows):
    print(f"\n{name}, {threads} thread{'s' * (threads > 1)}")
    base = rows.get("ours")
    for solver, row in rows.items():
        wall, cpu = row["wall"], row["cpu"]
        pairs = ""
        if base and solver != "ours":
            ratios = [a / b for a, b in zip(wall, base["wall"], strict=False)]
            busy = [a / b for a, b in zip(cpu, base["cpu"], strict=False)]
            pairs = f"  {statistics.median(ratios):6.2f}x wall {statistics.median(busy):6.2f}x cpu"
        print(
            f"  {solver:10s} wall {statistics.median(wall):8.3f} ({min(wall):.3f}–{max(wall):.3f})"
            f" cpu {statistics.median(cpu):8.3f}  {row['peak'] / 2**20:6.0f} MB  objective {row['objective']:.6f}"
            f" gap {row['gap']:.2e} support {row['support']}{pairs}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers-python", help="interpreter with the peers installed")
    parser.add_argument("--workloads", default=",".join(RBF))
    parser.add_argument("--solvers", default=",".join(SOLVERS[:-1]))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a run is given up")
    parser.add_argument("--out", help="JSON file for the figures")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return
    everything = {
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "date": time.strftime("%Y-%m-%d"),
        "load": os.getloadavg(),
        "tol": TOL,
        "results": [],
    }
    for threads in map(int, options.threads.split(",")):
        for name in options.workloads.split(","):
            rows = measure(
                name, options.solvers.split(","), threads, options.repeats, options.peers_python, options.limit
            )
            report(name, threads, rows)
            everything["results"].append({"workload": name, "threads": threads, "solvers": rows})
    if options.out:
        Path(options.out).write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()

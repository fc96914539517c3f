"""How each solver is called: one training in a process of its own, timed; run by benchmarks/solver.py.

    python benchmarks/solver_fits.py SOLVER WORKLOAD.npz THREADS OUT.npz

Prints seconds, processor seconds and peak memory as JSON. A training of less than three seconds is done twice: the
first one is "cold" (code is loaded, memory fresh), the second "warm" (as in a long-lived process).
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

FOLDER = Path(__file__).resolve().parent
TOL = 1e-3
CACHE_MB = 2000
WARM_BELOW = 3.0


def read(path):
    from solver_workloads import Workload

    z = np.load(path, allow_pickle=False)
    X = z["X"] if "X" in z else sp.csr_matrix((z["data"], z["indices"], z["indptr"]), shape=tuple(z["shape"]))
    return Workload(X, z["y"], float(z["scalars"][0]), float(z["scalars"][1]), str(z["kernel"]), str(z["task"]))


def folds(n):
    return np.arange(n) % 5


def ours(work, _threads):
    # a folder of this name beside us would be found first
    sys.path[:] = [str(FOLDER.parent), *(p for p in sys.path if Path(p or ".").resolve() != FOLDER)]
    from solver.kernels.kernel import FeatureKernel, PrecomputedKernel
    from solver.smo import Program, solve, solve_many
    from solver.warm_up import warm_up

    warm_up(0)
    n, y = len(work.y), work.y

    def kernel():
        if work.kernel == "precomputed":
            return PrecomputedKernel(work.X)
        return FeatureKernel(work.X, work.kernel, gamma=work.gamma)

    def program(kernel, y, hi):
        return Program(kernel, np.arange(n), y, -1.0, 0.0, hi, tol=TOL, cache_bytes=1 << 30)

    def fit():
        return {"dual": solve(program(kernel(), y, work.C)).alpha * y}

    def grid():
        shared, fold = kernel(), folds(n)
        paths = solve_many([[program(shared, y, np.where(fold == k, 0.0, C)) for C in work.grid] for k in range(5)])
        right = [
            [np.mean((y * (s.gradient + 1) + s.b > 0)[fold == k] == (y > 0)[fold == k]) for s in path]
            for k, path in enumerate(paths)
        ]
        return {"accuracy": np.mean(right, axis=0)}

    def one_vs_rest():
        shared = kernel()
        labels = [np.where(y == c, 1.0, -1.0) for c in np.unique(y)]
        found = solve_many([[program(shared, own, work.C)] for own in labels])
        scores = [own * (s.gradient + 1) + s.b for own, [s] in zip(labels, found, strict=True)]
        return {"accuracy": np.array([np.mean(np.unique(y)[np.argmax(scores, axis=0)] == y)])}

    def rounds():
        return psvm_rounds(work, kernel)

    return {"fit": fit, "grid": grid, "one-vs-rest": one_vs_rest, "rounds": rounds}[work.task]


def psvm_rounds(work, kernel):
    """Seconds of a PSVM run, of its trainings, and of the largest of these by itself."""
    from solver.estimators import PSVM
    from solver.estimators._run import TrainingRun
    from solver.smo import Program, solve

    calls = []
    plain = TrainingRun.solve

    def recorded(run, rows, y, hi, **options):
        wall = time.perf_counter()
        solution = plain(run, rows, y, hi, **options)
        calls.append((time.perf_counter() - wall, rows, y, np.broadcast_to(hi, len(rows))))
        return solution

    labelled = np.random.default_rng(0).random(len(work.y)) < 0.1
    psvm = PSVM(
        objective={"kind": "recall", "target": 0.8}, labeled_split="part", C=work.C, gamma=work.gamma, random_state=0,
        unlabeled=0,
    )  # fmt: skip
    TrainingRun.solve = recorded
    try:
        wall = time.perf_counter()
        psvm.fit(work.X, np.where(labelled, work.y, 0))
        whole = time.perf_counter() - wall
    finally:
        TrainingRun.solve = plain
    alone = []
    for _, rows, y, hi in calls:
        wall = time.perf_counter()
        solve(Program(kernel(), rows, y, -1.0, 0.0, hi, tol=TOL))
        alone.append(time.perf_counter() - wall)
    return {"rounds": np.array([len(psvm.report_.rounds), whole, sum(c[0] for c in calls), max(alone)])}


def libsvm(work, _threads):
    from libsvm import svmutil

    problem = svmutil.svm_problem(work.y, work.X if sp.issparse(work.X) else sp.csr_matrix(work.X))
    kernel = {"rbf": 2, "linear": 0}[work.kernel]
    options = svmutil.svm_parameter(f"-q -t {kernel} -c {work.C} -g {work.gamma} -e {TOL} -m {CACHE_MB}")

    def fit():
        model = svmutil.svm_train(problem, options)
        dual = np.zeros(len(work.y))
        dual[np.array(model.get_sv_indices()) - 1] = [c[0] for c in model.get_sv_coef()]
        return {"dual": dual}

    return fit


def liblinear(work, _threads):
    from sklearn.svm import LinearSVC

    model = LinearSVC(C=work.C, loss="hinge", tol=TOL, max_iter=100_000)

    def fit():
        model.fit(work.X, work.y)
        return {"accuracy": np.array([model.score(work.X, work.y)])}

    return fit


def classifier(solver, threads):
    """The class of a peer with scikit-learn's interface, what it is called with, and the type of its input."""
    if solver == "thunder":
        from thundersvm import SVC

        return SVC, {"n_jobs": threads, "max_mem_size": CACHE_MB}, np.float64
    if solver.startswith("intelex"):
        import daal4py

        daal4py.daalinit(nthreads=threads)
        from sklearnex.svm import SVC

        return SVC, {"cache_size": CACHE_MB}, np.float32 if solver == "intelex32" else np.float64
    from sklearn.svm import SVC

    return SVC, {"cache_size": CACHE_MB}, np.float64


def peer(solver):
    def prepare(work, threads):
        SVC, options, dtype = classifier(solver, threads)
        X = work.X.astype(dtype)
        small = np.random.default_rng(0).normal(size=(200, 4)).astype(dtype)
        SVC(kernel="rbf", gamma=0.5).fit(small, np.where(small[:, 0] > 0, 1.0, -1.0))

        def fit():
            model = SVC(C=work.C, kernel=work.kernel, gamma=work.gamma, tol=TOL, **options).fit(X, work.y)
            dual, found = np.zeros(len(work.y)), model.dual_coef_
            dual[np.asarray(model.support_)] = np.asarray(found.toarray() if sp.issparse(found) else found)[0]
            return {"dual": dual}

        def grid():
            from sklearn.model_selection import GridSearchCV, PredefinedSplit

            search = GridSearchCV(
                SVC(kernel=work.kernel, gamma=work.gamma, tol=TOL, **options), {"C": work.grid}, refit=False,
                cv=PredefinedSplit(folds(len(work.y))), n_jobs=threads if solver == "sklearn" else 1,
            )  # fmt: skip
            return {"accuracy": search.fit(X, work.y).cv_results_["mean_test_score"]}

        return {"fit": fit, "grid": grid}[work.task]

    return prepare


SOLVERS = {
    "ours": ours,
    "intelex32": peer("intelex32"),
    "intelex64": peer("intelex64"),
    "sklearn": peer("sklearn"),
    "libsvm": libsvm,
    "thunder": peer("thunder"),
    "liblinear": liblinear,
}


def peak_memory():
    """Most memory this program had, in bytes; ``getrusage`` would count what its parent had when it was started."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmHWM")


def seconds_of_children(process="self"):
    """Processor seconds of all that a process started: scikit-learn spreads a grid over processes."""
    folder, total = Path("/proc") / process, 0.0
    try:
        # after the name in parentheses: user and system time of the process, and of its children that ended
        *own, user, system = map(int, (folder / "stat").read_text().rpartition(")")[2].split()[11:15])
        total += (user + system + (0 if process == "self" else sum(own))) / os.sysconf("SC_CLK_TCK")
        for task in (folder / "task").iterdir():
            total += sum(map(seconds_of_children, (task / "children").read_text().split()))
    except FileNotFoundError:  # ended meanwhile
        pass
    return total


def timed(run):
    children, processor, wall = seconds_of_children(), time.process_time(), time.perf_counter()
    result = run()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return result, wall, processor + seconds_of_children() - children


def main():
    solver, path, threads, out = sys.argv[1:]
    run = SOLVERS[solver](read(path), int(threads))
    result, wall, processor = timed(run)
    cold, cold_processor = wall, processor
    if wall < WARM_BELOW or solver == "ours":
        result, wall, processor = timed(run)
    peak = peak_memory()
    np.savez(out, **result)
    print(json.dumps({"wall": wall, "cpu": processor, "cold_wall": cold, "cold_cpu": cold_processor, "peak": peak}))


if __name__ == "__main__":
    main()

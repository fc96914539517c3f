"""Several classes beside scikit-learn: macro-F1, log loss, time of a fit and of predicting, on the same rows; memory.

Digits, wine and iris (which scikit-learn ships) in halves, standardised by the half that learns; with `--newsgroups` 20
Newsgroups by date, as counts of words in an NPZ file (`data`, `indices`, `indptr`, `shape`, `y`, and `split`: 0 learns,
1 is judged), weighed by TF-IDF; with `--matrix` an NPZ file with `X` and `y`, of which `--rows` learn. `OneVsRest` and
`OneVsOne` train six times, five of them without a fold, as `CalibratedClassifierCV` does; "alone" is without these, as
SVC is. Methods take turns, `--turns` times on each draw. Times are medians of all; how many times as fast as SVC
(alone) or as the calibrated one (else) is the median of what each turn says. CPU seconds are of all threads.

With `--memory` what a fit of pairs and predicting take at most beyond what was there, by classes and rows.

`python -P benchmarks/classes.py --draws 10` from the root of the repository.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import f1_score, log_loss
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.svm import SVC, LinearSVC

from solver.estimators import SVM, OneVsOne, OneVsRest

METHODS: dict[str, Callable[[str], Any]] = {
    "SVC": lambda kernel: SVC(kernel=kernel),
    "SVC, calibrated": lambda kernel: CalibratedClassifierCV(SVC(kernel=kernel), ensemble=False),
    "LinearSVC, calibrated": lambda _: CalibratedClassifierCV(LinearSVC()),
    "OneVsOne, alone": lambda kernel: OneVsOne(SVM(kernel=kernel, labeled_split="full")),
    "OneVsRest, alone": lambda kernel: OneVsRest(SVM(kernel=kernel, labeled_split="full")),
    "OneVsOne": lambda kernel: OneVsOne(SVM(kernel=kernel, random_state=0)),
    "OneVsRest": lambda kernel: OneVsRest(SVM(kernel=kernel, random_state=0)),
    "OneVsOne, macro-F1": lambda kernel: OneVsOne(SVM(kernel=kernel, random_state=0), objective="macro_f1"),
    "OneVsRest, macro-F1": lambda kernel: OneVsRest(SVM(kernel=kernel, random_state=0), objective="macro_f1"),
}
Draw = tuple[Any, np.ndarray, Any, np.ndarray]


def small_sets(draws: int) -> Iterator[tuple[str, str, list[Draw]]]:
    """Name, kernel, and rows and labels of both halves."""
    for name, load in (("digits", load_digits), ("wine", load_wine), ("iris", load_iris)):
        X, y = load(return_X_y=True)
        split = StratifiedShuffleSplit(draws, test_size=0.5, random_state=0).split(X, y)
        made = [_standardised(X, y, *each) for each in split]
        yield name, "rbf", made


def newsgroups(path: str, groups: int) -> tuple[str, str, list[Draw]]:
    """The same of 20 Newsgroups, by date."""
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in ("data", "indices", "indptr", "shape", "y", "split")}
    counts = sparse.csr_array(
        (arrays["data"].astype(np.float64), arrays["indices"], arrays["indptr"]), shape=tuple(arrays["shape"])
    )
    learns, judged = ((arrays["split"] == half) & (arrays["y"] < groups) for half in (0, 1))
    weigher = TfidfTransformer(sublinear_tf=True).fit(counts[learns])
    X = [sparse.csr_array(weigher.transform(counts[rows])) for rows in (learns, judged)]
    return f"{groups} of 20 Newsgroups", "linear", [(X[0], arrays["y"][learns], X[1], arrays["y"][judged])]


def matrix(path: str, rows: list[int], draws: int) -> Iterator[tuple[str, str, list[Draw]]]:
    """The same of so many rows of a matrix in a file; at most 2,000 others are judged."""
    with np.load(path, allow_pickle=False) as stored:
        X, y = stored["X"].astype(np.float64), stored["y"]
    for n in rows:
        judged = min(2000, len(y) - n)
        split = StratifiedShuffleSplit(draws, train_size=n, test_size=judged, random_state=0).split(X, y)
        yield Path(path).stem, "rbf", [_standardised(X, y, *each) for each in split]


def _standardised(X: np.ndarray, y: np.ndarray, learns: np.ndarray, judged: np.ndarray) -> Draw:
    centre, spread = X[learns].mean(axis=0), X[learns].std(axis=0)
    Z = (X - centre) / np.where(spread > 0, spread, 1)
    return Z[learns], y[learns], Z[judged], y[judged]


def measure(kernel: str, draws: list[Draw], methods: list[str], turns: int) -> dict[str, np.ndarray]:
    """Of each method, by draw and turn: macro-F1, log loss, CPU and wall seconds of a fit, microseconds of a row."""
    found: dict[str, list[tuple[float, ...]]] = {method: [] for method in methods}
    for method in methods:  # which compiles and imports
        METHODS[method](kernel).fit(*small_part(draws[0]))
    for X, y, X_new, y_new in draws:
        for _ in range(turns):
            for method in methods:
                cpu, wall = time.process_time(), time.perf_counter()
                fitted = METHODS[method](kernel).fit(X, y)
                cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
                began = time.process_time()
                said = fitted.predict(X_new)
                predicting = 1e6 * (time.process_time() - began) / len(y_new)
                loss = log_loss(y_new, fitted.predict_proba(X_new)) if hasattr(fitted, "predict_proba") else np.nan
                found[method].append((f1_score(y_new, said, average="macro"), loss, cpu, wall, predicting))
    return {method: np.array(values) for method, values in found.items()}


def small_part(draw: Draw) -> tuple[Any, np.ndarray]:
    """At most twenty rows of each class."""
    X, y, *_ = draw
    rows = np.sort(np.concatenate([np.flatnonzero(y == label)[:20] for label in np.unique(y)]))
    return X[rows], y[rows]


def report(kernel: str, draws: list[Draw], methods: list[str], turns: int) -> None:
    """Print the lines of a table."""
    print("| | macro-F1 | log loss | fit, CPU ms | fit, wall ms | times as fast, CPU | wall | predict, µs a row |")
    print("|---|---|---|---|---|---|---|---|")
    found = measure(kernel, draws, methods, turns)
    for method, values in found.items():
        base = "SVC" if method == "SVC" or "alone" in method else "SVC, calibrated"
        ratio = ["", ""]
        if base in found and method != base:
            ratio = [f"{np.median(found[base][:, k] / values[:, k]):.1f}" for k in (2, 3)]
        f1, loss = values[:, :2].mean(axis=0)
        cpu, wall, row = np.median(values[:, 2:], axis=0)
        told = "" if np.isnan(loss) else f"{loss:.3f}"
        times = f"{1e3 * cpu:.1f} | {1e3 * wall:.1f} | {ratio[0]} | {ratio[1]}"
        print(f"| {method} | {f1:.4f} | {told} | {times} | {row:.0f} |", flush=True)


def memory(sizes: list[tuple[int, int]]) -> None:
    """Print the most that a fit of pairs, and predicting as many rows, takes beyond what was there, in MB."""
    print("\n| classes | rows | fit | predict | numbers of all rows, pairs and six models |\n|---|---|---|---|---|")
    for classes, n in sizes:
        random = np.random.default_rng(0)
        y = np.arange(n) % classes
        X = random.normal(size=(classes, 8))[y] + 0.3 * random.normal(size=(n, 8))
        tracemalloc.start()
        fitted = OneVsOne(SVM(random_state=0)).fit(X, y)
        took = [tracemalloc.get_traced_memory()[1]]
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        fitted.predict(X)
        took += [tracemalloc.get_traced_memory()[1] - before, 6 * 8 * n * classes * (classes - 1) // 2]
        tracemalloc.stop()
        print(f"| {classes} | {n} | " + " | ".join(f"{each / 2**20:.0f}" for each in took) + " |", flush=True)


def main() -> None:
    """Print a table for each set."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--draws", type=int, default=10)
    arguments.add_argument("--turns", type=int, default=3)
    arguments.add_argument("--newsgroups", help="an NPZ file; then nothing else is measured")
    arguments.add_argument("--groups", type=int, default=20, help="only the first so many of the newsgroups")
    arguments.add_argument("--matrix", help="an NPZ file with X and y; then nothing else is measured")
    arguments.add_argument("--rows", type=int, nargs="+", default=[1000], help="how many of its rows learn")
    arguments.add_argument(
        "--memory",
        nargs=2,
        type=int,
        action="append",
        metavar=("CLASSES", "ROWS"),
        help="measure that, and nothing else",
    )
    arguments.add_argument("--without", nargs="*", default=[], choices=list(METHODS), metavar="METHOD")
    asked = arguments.parse_args()
    if asked.memory:
        memory(asked.memory)
        return
    sets = small_sets(asked.draws)
    if asked.newsgroups:
        sets = iter([newsgroups(asked.newsgroups, asked.groups)])
    elif asked.matrix:
        sets = matrix(asked.matrix, asked.rows, asked.draws)
    methods = [method for method in METHODS if method not in asked.without]
    for name, kernel, draws in sets:
        print(f"\n{name}: {draws[0][0].shape[0]} rows learn, {len(draws[0][3])} are judged, {kernel} kernel\n")
        report(kernel, draws, methods, asked.turns)


if __name__ == "__main__":
    main()

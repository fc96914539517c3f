"""Several classes beside scikit-learn: macro-F1, log loss, and the time of a fit and of predicting, on the same rows.

Digits, wine and iris (which scikit-learn ships) in halves, standardised by the half that learns; with `--newsgroups` 20
Newsgroups by date, as counts of words in an NPZ file (`data`, `indices`, `indptr`, `shape`, `y`, and `split`: 0 learns,
1 is judged), weighed by TF-IDF. `OneVsRest` and `OneVsOne` train six times, five of them without a fold, as
`CalibratedClassifierCV` does; "alone" is without these, as SVC is. CPU seconds are of all threads, the least of all
draws: a machine that others use shows them, too.

`python -P benchmarks/classes.py --draws 10` from the root of the repository.
"""

from __future__ import annotations

import argparse
import sys
import time
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
        made = []
        for learns, judged in StratifiedShuffleSplit(draws, test_size=0.5, random_state=0).split(X, y):
            centre, spread = X[learns].mean(axis=0), X[learns].std(axis=0)
            Z = (X - centre) / np.where(spread > 0, spread, 1)
            made.append((Z[learns], y[learns], Z[judged], y[judged]))
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


def measure(make: Callable[[str], Any], kernel: str, draws: list[Draw]) -> list[float]:
    """Mean macro-F1 and log loss, least CPU and wall seconds of a fit, least microseconds of a row predicted."""
    found = []
    for X, y, X_new, y_new in draws:
        cpu, wall = time.process_time(), time.perf_counter()
        fitted = make(kernel).fit(X, y)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        began = time.process_time()
        said = fitted.predict(X_new)
        predicting = (time.process_time() - began) / len(y_new)
        loss = log_loss(y_new, fitted.predict_proba(X_new)) if hasattr(fitted, "predict_proba") else np.nan
        found.append((f1_score(y_new, said, average="macro"), loss, cpu, wall, 1e6 * predicting))
    of = np.array(found)
    return [*of[:, :2].mean(axis=0), *of[:, 2:].min(axis=0)]


def main() -> None:
    """Print a table for each set."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--draws", type=int, default=10)
    arguments.add_argument("--newsgroups", help="an NPZ file; then nothing else is measured")
    arguments.add_argument("--groups", type=int, default=20, help="only the first so many of the newsgroups")
    arguments.add_argument("--without", nargs="*", default=[], choices=list(METHODS), metavar="METHOD")
    asked = arguments.parse_args()
    sets = [newsgroups(asked.newsgroups, asked.groups)] if asked.newsgroups else small_sets(asked.draws)
    for name, kernel, draws in sets:
        print(f"\n{name}: {draws[0][0].shape[0]} rows learn, {len(draws[0][3])} are judged, {kernel} kernel\n")
        print("| | macro-F1 | log loss | fit, CPU s | fit, wall s | predict, µs a row |\n|---|---|---|---|---|---|")
        for method, make in METHODS.items():
            if method in asked.without:
                continue
            f1, loss, cpu, wall, row = measure(make, kernel, draws)
            told = "" if np.isnan(loss) else f"{loss:.3f}"
            print(f"| {method} | {f1:.4f} | {told} | {cpu:.3f} | {wall:.3f} | {row:.0f} |", flush=True)


if __name__ == "__main__":
    main()

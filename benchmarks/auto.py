"""What `auto` gains over `svm` on new rows, and how often it harms: F1 on draws of 20, 40 and 100 labelled rows.

The sets are those of scikit-learn, synthetic ones, and each `*.npz` of a folder, read as `benchmarks/promises.py` reads
them. Of each draw 600 rows have no label and up to 1,000 others say what is true. Sets named as unconfirmed chose the
methods that are tried and how they are judged; the others confirm it. Writes `benchmarks/results/auto.md`.

`python -P benchmarks/auto.py [--data FOLDER] [--draws 8] [--unconfirmed NAME,NAME] [--runs FILE]` from the root of the
repository. What the file of runs has is not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_digits, make_blobs, make_circles, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from benchmarks.promises import kernel_of, sets
from solver.estimators import SVM, AutoClassifier
from solver.evaluation import confusion

RESULTS = Path(__file__).parent / "results" / "auto.md"
LABELLED = (20, 40, 100)
UNLABELLED, TEST, FEWEST_ROWS, FEWEST_OF_A_CLASS = 600, 1000, 300, 4
MODES = ("safe", "balanced", "bold")
HARM = 0.03


def problems(folder: Path | None) -> Iterator[tuple[str, Any, NDArray[np.bool_]]]:
    """Name, rows and whether each is positive."""
    X, y = load_digits(return_X_y=True)
    yield "digits odd", X, y % 2 == 1
    X, y = make_circles(3000, noise=0.15, factor=0.5, random_state=3)
    yield "circles", X, y == 1
    for seed in (1, 7):
        X, y = make_blobs(3000, 10, centers=8, cluster_std=3.0, random_state=seed, center_box=(-6, 6))
        yield f"blobs {seed}", X, y < 3
    for share in (0.15, 0.3):
        X, y = make_classification(
            4000, 20, n_informative=6, n_redundant=4, weights=[1 - share], class_sep=0.9, flip_y=0.05, random_state=5
        )
        yield f"made {share:.0%} positive", X, y == 1
    yield from sets(folder)


def draw(X: Any, y: NDArray[np.bool_], n: int, seed: int) -> tuple[Any, NDArray[np.int64], Any, NDArray[np.bool_]]:
    """Labelled rows, then unlabelled ones (-1); and rows that say what is true."""
    rng = np.random.default_rng(seed)
    unlabelled = min(UNLABELLED, (len(y) - n) // 2)
    while True:
        order = rng.permutation(len(y))
        if min(y[order[:n]].sum(), (~y[order[:n]]).sum()) >= FEWEST_OF_A_CLASS:
            break
    rows, new = order[: n + unlabelled], order[n + unlabelled : n + unlabelled + TEST]
    marked = np.where(np.arange(len(rows)) < n, y[rows].astype(np.int64), -1)
    if sparse.issparse(X):
        return X[rows], marked, X[new], y[new]
    scale = StandardScaler().fit(X[rows])
    return scale.transform(X[rows]), marked, scale.transform(X[new]), y[new]


class Remembering(AutoClassifier):
    """Trains the methods once for all modes."""

    trained: list[Any]

    def _others(self, run: Any, plan: Any) -> Iterator[Any]:
        if not self.trained:
            self.trained += super()._others(run, plan)
        return iter(self.trained)


def run(X: Any, y: NDArray[np.bool_], n: int, seed: int) -> list[float]:
    """F1 of `svm` and of `auto` in each mode, whether the mode took another method, and seconds of `svm` and `auto`."""
    rows, marked, new, truth = draw(X, y, n, seed)
    trained: list[Any] = []

    def measure(model: Any) -> tuple[float, bool, float]:
        began = time.process_time()
        model.fit(rows, marked)
        seconds = time.process_time() - began
        judged = model.report_.judge
        f1 = confusion(np.where(truth, 1, -1), model.decision_function(new) > model.threshold_).f1
        return f1, judged is not None and judged.returned != "svm", seconds

    models = [SVM(kernel=kernel_of(X), random_state=seed)]
    models += [Remembering(mode=mode, kernel=kernel_of(X), random_state=seed) for mode in MODES]
    for model in models[1:]:
        model.trained = trained
    f1, taken, seconds = zip(*map(measure, models), strict=True)
    return [*f1, *taken[1:], *seconds[:2]]


def table(found: dict[tuple[str, int], NDArray[np.float64]], names: list[str]) -> Iterator[str]:
    """Gains by number of labels and mode, over these sets."""
    yield "| labels | mode | gain in F1 | another method taken | harm > .03 | lowest mean of a set | seconds (svm) |"
    yield "|---" * 7 + "|"
    for n in LABELLED:
        lines = {name: found[name, n] for name in names if (name, n) in found}
        for k, mode in enumerate(MODES, start=1):
            gains = {name: each[:, k] - each[:, 0] for name, each in lines.items()}
            every = np.concatenate(list(gains.values()))
            means = {name: float(gain.mean()) for name, gain in gains.items()}
            worst = min(means, key=lambda name: means[name])
            together = np.concatenate(list(lines.values()))
            yield (
                f"| {n} | {mode} | {np.mean(list(means.values())):+.4f} | {together[:, 3 + k].mean():.0%} | "
                f"{np.mean(every < -HARM):.1%} of {len(every)} | {means[worst]:+.3f} ({worst}) | "
                f"{together[:, 8].mean():.2f} ({together[:, 7].mean():.2f}) |"
            )


def main() -> None:
    """Measure, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--unconfirmed", default="")
    parser.add_argument("--runs", type=Path, default=Path(os.devnull))
    given = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    known = {}
    for line in given.runs.read_text().splitlines() if given.runs.is_file() else ():
        *key, values = json.loads(line)
        known[tuple(key)] = values
    with given.runs.open("a") as runs:
        for seed in range(given.draws):
            for name, X, y in problems(given.data):
                for n in LABELLED:
                    if len(y) >= n + FEWEST_ROWS and (name, n, seed) not in known:
                        known[name, n, seed] = run(X, y, n, seed)
                        runs.write(json.dumps([name, n, seed, known[name, n, seed]]) + "\n")
                        runs.flush()
    found = {
        (name, n): np.array([values for key, values in known.items() if key[:2] == (name, n)]) for name, n, _ in known
    }
    names = list(dict.fromkeys(name for name, _ in found))
    unconfirmed = [name for name in names if name in given.unconfirmed.split(",")]
    lines = ["# The judge of `auto`", "", f"`{' '.join(['python -P benchmarks/auto.py', *sys.argv[1:]])}`", ""]
    for title, some in (
        ("Sets that confirm", [n for n in names if n not in unconfirmed]),
        ("Sets that chose", unconfirmed),
    ):
        if some:
            lines += [f"## {title}", "", ", ".join(some), "", *table(found, some), ""]
    RESULTS.write_text("\n".join(lines))


if __name__ == "__main__":
    main()

"""What the threshold rules reach on new rows: `auto` beside the best threshold of the calibration rows (`f1max`).

Left-out scores of a C-SVC (five folds, RBF kernel) on draws of 40, 100 and 300 labelled rows of scikit-learn's sets and
of synthetic ones, thresholds by both rules, measured on the rows that are left. The constant of the rule was chosen on
other sets (docs/algorithms.md gives the figures for 22).

`python -P benchmarks/thresholds.py --draws 20` from the root of the repository; with `--tried` other rules for F1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_wine,
    make_classification,
    make_moons,
)
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from solver.evaluation import OperatingCurve, confusion, fit_sigmoid
from solver.operating_point import Objective, choose_threshold
from solver.steady_threshold import best_of_samples, steady_position

LABELLED = (40, 100, 300)
COSTS = ((1.0, 10.0), (1.0, 1.0), (5.0, 1.0), (20.0, 1.0))
FEWEST_OF_A_CLASS = 4


def problems() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, rows and whether each is positive."""
    X, y = load_breast_cancer(return_X_y=True)
    yield "breast cancer", X, y == 0
    X, y = load_digits(return_X_y=True)
    yield "digits 8", X, y == 8
    yield "digits odd", X, y % 2 == 1
    X, y = load_wine(return_X_y=True)
    yield "wine", X, y == 1
    X, y = make_moons(3000, noise=0.35, random_state=0)
    yield "moons", X, y == 1
    for share in (0.1, 0.3):
        X, y = make_classification(
            4000, 20, n_informative=6, n_redundant=4, weights=[1 - share], class_sep=0.8, flip_y=0.05, random_state=1
        )
        yield f"made, {share:.0%} positive", X, y == 1


def scores_of(X: np.ndarray, y: np.ndarray, rows: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Left-out scores of the labelled rows, and the scores of all rows by the model of all labelled ones."""
    model = make_pipeline(StandardScaler(), SVC(C=1.0))
    folds = StratifiedKFold(min(5, int(y[rows].sum()), int((~y[rows]).sum())), shuffle=True, random_state=seed)
    left_out = cross_val_predict(model, X[rows], y[rows], cv=folds, method="decision_function")
    return left_out, model.fit(X[rows], y[rows]).decision_function(X)


def draw(y: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows at random, with at least a few of each class."""
    while True:
        rows = rng.permutation(len(y))[:n]
        if min(y[rows].sum(), (~y[rows]).sum()) >= FEWEST_OF_A_CLASS:
            return rows


def compare(X: np.ndarray, y: np.ndarray, n: int, draws: int) -> np.ndarray:
    """For each draw: F1 by either rule, then for each pair of costs the cost by either rule and of no model."""
    found = []
    for seed in range(draws):
        rows = draw(y, n, np.random.default_rng(seed))
        left_out, scores = scores_of(X, y, rows, seed)
        rest = np.setdiff1d(np.arange(len(y)), rows)
        truth, labels = np.where(y[rest], 1, -1), np.where(y[rows], 1, -1)
        line = []
        for rule in ("auto", "f1max"):
            threshold = choose_threshold(left_out, labels, Objective(), rule).threshold
            line.append(confusion(truth, scores[rest] > threshold).f1)
        for false_negative, false_positive in COSTS:
            objective = Objective(kind="cost", false_negative=false_negative, false_positive=false_positive)
            for rule in ("auto", "f1max"):
                threshold = choose_threshold(left_out, labels, objective, rule).threshold
                counts = confusion(truth, scores[rest] > threshold)
                line.append(counts.cost(false_negative, false_positive) / len(rest))
            line.append(min(false_negative * np.mean(y[rest]), false_positive * np.mean(~y[rest])))
        found.append(line)
    return np.array(found)


def tried(left_out: np.ndarray, truth: np.ndarray, scores: np.ndarray, share: float) -> dict[str, float]:
    """Return thresholds for F1 by other rules, from the scores of all other rows and their true share of positives.

    `as many`: the best thresholds of samples, drawn towards a quantile of the scores of other rows, as `auto` draws
    them towards one of the labelled rows. `estimated`: that of the mean probability of these rows, by the sigmoid.
    `plug-in`: above half of the best expected F1, by the sigmoid, which is right if the sigmoid is.
    """
    curve = OperatingCurve.from_scores(left_out, truth)
    auto = float(curve.thresholds[steady_position(curve)])
    best = float(np.mean(best_of_samples(curve, 1.0, len(truth))))
    sigmoid = fit_sigmoid(left_out, truth)
    of_labelled, of_others = sigmoid(left_out), sigmoid(scores)
    expected = np.sort(of_labelled)[::-1]
    half = float(np.max(np.cumsum(expected) / (np.arange(1, len(expected) + 1) + expected.sum())))
    plug_in = (np.log(half / (1 - half)) - sigmoid.offset) / max(sigmoid.slope, 1e-9)
    found = {"auto": auto, "plug-in": plug_in, "mean of auto and plug-in": (auto + plug_in) / 2}
    for strength in (3, 6, 12):
        weight = strength / (strength + truth.sum())
        for name, part in (("estimated", float(of_others.mean())), ("true", share)):
            found[f"as many as {name}, {strength}"] = (1 - weight) * best + weight * np.quantile(scores, 1 - part)
    return found


def compare_tried(X: np.ndarray, y: np.ndarray, n: int, draws: int) -> dict[str, float]:
    """Return by how much F1 is above that of `f1max` on average, by each rule; `best`: the best threshold there is."""
    gains: dict[str, list[float]] = {}
    for seed in range(1000, 1000 + draws):
        rows = draw(y, n, np.random.default_rng(seed))
        left_out, scores = scores_of(X, y, rows, seed)
        rest = np.setdiff1d(np.arange(len(y)), rows)
        thresholds = tried(left_out, y[rows], scores[rest], float(y[rest].mean()))
        base = choose_threshold(left_out, np.where(y[rows], 1, -1), Objective(), "f1max").threshold
        curve = OperatingCurve.from_scores(scores[rest], y[rest])
        before = confusion(y[rest], scores[rest] > base).f1
        for name, threshold in thresholds.items():
            gains.setdefault(name, []).append(confusion(y[rest], scores[rest] > threshold).f1 - before)
        gains.setdefault("best", []).append(float(curve.f_beta(1.0).max()) - before)
    return {name: float(np.mean(values)) for name, values in gains.items()}


def print_tried(draws: int) -> None:
    """Print the mean gain over sets of each rule, and the gain of the set where it is least."""
    found: dict[str, dict[int, list[float]]] = {}
    numbers = (20, 40, 100)
    for n in numbers:
        for _, X, y in problems():
            if 3 * n > len(y):
                continue
            for name, gain in compare_tried(X, y, n, draws).items():
                found.setdefault(name, {}).setdefault(n, []).append(gain)
    print("| rule | " + " | ".join(f"{n} labels" for n in numbers) + " |")
    print("|---" * (1 + len(numbers)) + "|")
    for name, gains in found.items():
        print(f"| {name} | " + " | ".join(f"{np.mean(gains[n]):+.4f} ({min(gains[n]):+.3f})" for n in numbers) + " |")


def main() -> None:
    """Print a table for each number of labels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--tried", action="store_true", help="other rules for F1, and no costs")
    arguments = parser.parse_args()
    draws = arguments.draws
    if arguments.tried:
        print_tried(draws)
        return
    heads = " | ".join(f"cost {a:g}:{b:g}, of f1max (of no model)" for a, b in COSTS)
    print(f"| labels | set | F1 auto | f1max | {heads} |")
    print("|---" * (4 + len(COSTS)) + "|")
    for n in LABELLED:
        gains, ratios = [], []
        for name, X, y in problems():
            if 2 * n > len(y):
                continue
            found = compare(X, y, n, draws).mean(axis=0)
            costs = found[2:].reshape(len(COSTS), 3)
            gains.append(found[0] - found[1])
            ratios.append(costs[:, 0] / costs[:, 1])
            cells = " | ".join(f"{auto / best:.2f} ({auto / none:.2f})" for auto, best, none in costs)
            print(f"| {n} | {name} | {found[0]:.3f} | {found[1]:.3f} | {cells} |", flush=True)
        mean = " | ".join(f"{ratio:.2f}" for ratio in np.exp(np.log(ratios).mean(axis=0)))
        print(f"| {n} | mean gain, ratio | {np.mean(gains):+.4f} | | {mean} |")


if __name__ == "__main__":
    main()

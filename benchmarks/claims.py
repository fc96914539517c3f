"""Do reports hold on new rows, and do unlabelled rows help? Claimed figures beside those of test rows, by algorithm.

    python -P benchmarks/claims.py --data DIR [--draws 8] [--labels 100,300] [--algorithms svm,psvm] [--modes safe]
        [--sets a9a,spambase] [--runs FILE]

DIR holds `.npz` files: dense `X` and `y`, or CSR `data`, `indices`, `indptr`, `shape` and `y`. Of each set that is
large enough, labelled, unlabelled and test rows are drawn anew each time, at least four labelled ones of a class, and
each algorithm is trained as a job would train it. A line of FILE is a run; what stands there is not run again.

*Inside* is the share of runs whose test figure lies in the interval of the calibration rows, *width* how many times as
long that interval is as one from as many untouched rows. Gain and harm (more than .01) are of F1 on test rows, against
`svm` on the same labels. *Refit* is what a model that has learned from the test fraction too gains over the one before.
Prints the tables of `benchmarks/results/claims.md`.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from solver.algorithms import ALGORITHMS
from solver.evaluation import confusion, measures
from solver.features import Column, MatrixData, Table
from solver.report import Estimate, Measures
from solver.training import TrainingError, TrainingRequest, train

UNLABELLED, TEST = 600, 3000
HARM = 0.01
MEASURES = ("f1", "precision", "recall")
TEST_FRACTION = 0.2
REFIT = "refit"
"""Stands for an algorithm: `svm` on all labels against `svm` on those that the test fraction leaves."""


def load(path: Path) -> tuple[Any, NDArray[np.bool_]] | None:
    """Rows of a file and which are positive: the rarer class, or of several the one nearest to a quarter."""
    with np.load(path, allow_pickle=False) as file:
        if "y" not in file or ("X" not in file and "data" not in file):
            return None
        if "X" in file:
            X = file["X"].astype(np.float64)
        else:
            parts = (file["data"].astype(np.float64), file["indices"], file["indptr"])
            X = sparse.csr_array(parts, shape=tuple(file["shape"]))
        classes, code, counts = np.unique(file["y"], return_inverse=True, return_counts=True)
    if len(code) < 2 * UNLABELLED or (not sparse.issparse(X) and not np.isfinite(X).all()):
        return None
    share = counts / len(code)
    return X, code == (np.argmin(share) if len(classes) == 2 else np.argmin(np.abs(share - 0.25)))


def data_of(X: Any) -> MatrixData | Table:
    if sparse.issparse(X):
        return MatrixData(X)
    return Table({name: Column(name, "number", X[:, at]) for at, name in enumerate(map(str, range(X.shape[1])))})


def draw(positive: NDArray[np.bool_], labels: int, seed: int) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Rows to train on, the labelled ones first, and rows that say what is true."""
    rng = np.random.default_rng([seed, labels])
    while True:
        order = rng.permutation(len(positive))
        known = positive[order[:labels]]
        if min(known.sum(), (~known).sum()) >= 4:
            break
    end = labels + min(UNLABELLED, (len(order) - labels) // 3)
    return order[:end], order[end : end + TEST]


def run(X: Any, positive: NDArray[np.bool_], labels: int, seed: int, algorithm: str, mode: str) -> dict[str, Any]:
    """What a training claims, and what it reaches."""
    rows, new = draw(positive, labels, seed)
    y = np.where(positive[rows], "1", "0").astype(object)
    y[labels:] = None
    params: dict[str, Any] = {"kernel": "linear" if sparse.issparse(X) else "rbf"}
    if algorithm in ALGORITHMS and "mode" in {each.name for each in ALGORITHMS[algorithm].parameters}:
        params["mode"] = mode
    name, fraction = ("svm", TEST_FRACTION) if algorithm == REFIT else (algorithm, 0.0)
    request = TrainingRequest(
        algorithm=name, params=params, seed=seed, test_fraction=fraction, refit=False, target="label"
    )
    trained = train(data_of(X[rows]), y, request)
    model, report = trained.model, trained.report
    scores = model.decision.decision_function(model.feature_matrix(data_of(X[new]))[0])
    called = scores > model.decision.threshold
    claimed = report.calibration
    if claimed is None:
        raise RuntimeError("a cross-fitted model was measured")
    found: dict[str, Any] = {
        "returned": None if report.comparison is None else report.comparison.returned,
        "seconds": report.timings["training"],
    }
    reached = measures(confusion(positive[new], called))
    untouched = measures(confusion(positive[new][: claimed.n], called[: claimed.n]))
    for each in MEASURES:
        found[each] = [*_ends(claimed, each), *_ends(reached, each)[:1], *_ends(untouched, each)[1:]]
    return found


def _ends(measured: Measures, name: str) -> tuple[float, float, float]:
    """Value and interval; where nothing is known, 0 and all there is."""
    estimate: Estimate | None = getattr(measured, name)
    return (0.0, 0.0, 1.0) if estimate is None else (estimate.value, estimate.low, estimate.high)


def runs(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Runs that the file has, and those that it has not, which it is given."""
    done: dict[str, dict[str, Any]] = {}
    if given.runs is not None and given.runs.exists():
        done = {line.pop("key"): line for line in map(json.loads, given.runs.read_text().splitlines())}
    for path in sorted(given.data.glob("*.npz")):
        if given.sets and path.stem not in given.sets.split(","):
            continue
        found = None
        for algorithm in given.algorithms.split(","):
            for mode in given.modes.split(",") if algorithm not in ("svm", REFIT) else [""]:
                for labels in map(int, given.labels.split(",")):
                    for seed in range(given.draws):
                        key = f"{path.stem} {algorithm} {mode} {labels} {seed}"
                        if key not in done:
                            found = found or load(path)
                            if found is None:
                                continue
                            try:
                                done[key] = run(*found, labels, seed, algorithm, mode)
                            except TrainingError as error:  # an algorithm that is not for these features
                                print(f"{key}: {error}", file=sys.stderr)
                                continue
                            if given.runs is not None:
                                with given.runs.open("a") as file:
                                    file.write(json.dumps({"key": key, **done[key]}) + "\n")
                        name = f"{algorithm} {mode}".strip()
                        yield {"set": path.stem, "of": name, "labels": labels, "seed": seed, **done[key]}


def table(of_runs: list[dict[str, Any]]) -> Iterator[str]:
    heads = "F1: claimed, test | below, above | inside | width | precision: inside, width | recall: inside, width"
    yield f"| labels | algorithm | runs | {heads} | gain over svm | harm | s |"
    yield "|" + "---|" * 12
    svm = {(each["set"], each["labels"], each["seed"]): each["f1"][3] for each in of_runs if each["of"] == "svm"}
    for labels, name in sorted({(each["labels"], each["of"]) for each in of_runs}):
        some = [each for each in of_runs if (each["labels"], each["of"]) == (labels, name)]
        if name == REFIT:
            continue
        cells = []
        for measure in MEASURES:
            value, low, high, test, untouched_low, untouched_high = np.array([each[measure] for each in some]).T
            below, above = test < low - 1e-9, test > high + 1e-9
            width = np.mean(high - low) / np.mean(untouched_high - untouched_low)
            if measure == "f1":
                cells += [f"{value.mean():.3f}, {test.mean():.3f}", f"{below.mean():.2f}, {above.mean():.2f}"]
                cells += [f"**{1 - np.mean(below | above):.2f}**", f"{width:.2f}"]
            else:
                cells.append(f"{1 - np.mean(below | above):.2f}, {width:.2f}")
        gains = np.array(
            [each["f1"][3] - svm.get((each["set"], each["labels"], each["seed"]), np.nan) for each in some]
        )
        seconds = np.mean([each["seconds"] for each in some])
        cells += [f"{np.nanmean(gains):+.4f}", f"{np.mean(gains < -HARM):.2f}", f"{seconds:.1f}"]
        yield f"| {labels} | {name} | {len(some)} | {' | '.join(cells)} |"


def refit(of_runs: list[dict[str, Any]]) -> Iterator[str]:
    """The gain of the labels that a test fraction holds out."""
    at = {(each["set"], each["labels"], each["seed"], each["of"]): each["f1"][3] for each in of_runs}
    for labels in sorted({each["labels"] for each in of_runs}):
        gains = [
            at[key[0], labels, key[2], "svm"] - f1 for key, f1 in at.items() if key[1] == labels and key[3] == REFIT
        ]
        if gains:
            error = np.std(gains) / np.sqrt(len(gains))
            yield f"* Refit, {labels} labels: {np.mean(gains):+.4f} ± {error:.4f} F1 on test rows, {len(gains)} runs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--labels", default="100,300")
    parser.add_argument("--algorithms", default="svm,psvm")
    parser.add_argument("--modes", default="safe")
    parser.add_argument("--sets", default="")
    parser.add_argument("--runs", type=Path)
    warnings.simplefilter("ignore")
    found = list(runs(parser.parse_args()))
    names = sorted({each["set"] for each in found})
    print(f"{len(names)} sets: {', '.join(names)}\n")
    print("\n".join([*table(found), "", *refit(found)]))


if __name__ == "__main__":
    main()

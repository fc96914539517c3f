"""Do reports hold on new rows, and do unlabelled rows help? Claimed F1 beside that of test rows, by data set.

    python -P benchmarks/claims.py --data DIR [--draws 8] [--labels 100] [--algorithms psvm,ramp-tsvm]

DIR holds `.npz` files: dense `X` and `y`, or CSR `data`, `indices`, `indptr`, `shape` and `y`. Of each set that is
large enough, labelled, unlabelled and test rows are drawn anew each time, at least four labelled ones of a class. The
figures of a method are to be held against those of the SVM on the same labels: that one has no unlabelled rows, and
what it claims above the test comes from choosing the threshold alone. Gain and harm (more than .01) are against the
method's own control, the SVM on the same labels with the same kernel.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.metrics import f1_score
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from solver.estimators import PSVM, SVM, AugmentedClassifier, ClusterSVM, LaplacianSVM, MeanS3VM, RampTSVM

METHODS = {
    "psvm": PSVM,
    "mean-s3vm": MeanS3VM,
    "ramp-tsvm": RampTSVM,
    "lapsvm": LaplacianSVM,
    "cluster": ClusterSVM,
    "augment": AugmentedClassifier,
}
UNLABELLED, TEST = 600, 1500
HARM = 0.01


def load(path: Path) -> tuple[Any, NDArray[np.bool_]] | None:
    """Rows of a file and which are positive: those of the rarer class, of ten and more classes those of odd number."""
    with np.load(path, allow_pickle=False) as file:
        if "y" not in file or ("X" not in file and "data" not in file):
            return None
        if "X" in file:
            X = file["X"].astype(np.float64)
        else:
            parts = (file["data"].astype(np.float64), file["indices"], file["indptr"])
            X = sparse.csr_matrix(parts, shape=tuple(file["shape"]))
        classes, code = np.unique(file["y"], return_inverse=True)
    if len(code) < UNLABELLED + 500 or (not sparse.issparse(X) and not np.isfinite(X).all()):
        return None
    positive = code == np.argmin(np.bincount(code)) if len(classes) < 10 else code % 2 == 1
    return X, positive


def draw(
    X: Any, positive: NDArray[np.bool_], labels: int, seed: int
) -> tuple[Any, NDArray[np.int_], Any, NDArray[np.int_]]:
    """Rows to train on with their labels (-1: none), and test rows with theirs."""
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(len(positive))[: labels + UNLABELLED + TEST]
        known = positive[order[:labels]]
        if min(known.sum(), (~known).sum()) >= 4:
            break
    train, test = order[: labels + UNLABELLED], order[labels + UNLABELLED :]
    y = np.where(np.arange(len(train)) < labels, positive[train], -1).astype(int)
    scaler = MaxAbsScaler() if sparse.issparse(X) else StandardScaler()
    return scaler.fit_transform(X[train]), y, scaler.transform(X[test]), positive[test].astype(int)


def figures(model: Any, Z: Any, truth: NDArray[np.int_]) -> tuple[float, float, float]:
    """F1 claimed, lower end of its interval, and F1 of the test rows."""
    claimed = model.report_.calibration.f1
    return claimed.value, claimed.low, float(f1_score(truth, model.predict(Z), zero_division=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--algorithms", default="psvm")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    names = given.algorithms.split(",")
    rows: dict[str, list[tuple[float, ...]]] = {"svm": [], **{name: [] for name in names}}
    for path in sorted(given.data.glob("*.npz")):
        found = load(path)
        if found is None:
            continue
        start = {name: len(each) for name, each in rows.items()}
        for seed in range(given.draws):
            X, y, Z, truth = draw(*found, given.labels, seed)
            svm = figures(SVM(random_state=seed).fit(X[y >= 0], y[y >= 0]), Z, truth)
            rows["svm"].append((*svm, svm[2], svm[2], 0.0))
            for name in names:
                safe = METHODS[name](random_state=seed, mode="safe").fit(X, y)
                method = METHODS[name](random_state=seed, mode="method").fit(X, y)
                taken = safe.report_.comparison.returned == "method"
                control = method.control_states_["no_unlabelled"]
                without = f1_score(truth, control.decision_function(Z) > control.threshold, zero_division=0)
                rows[name].append(
                    (*figures(method, Z, truth), figures(safe, Z, truth)[2], float(without), float(taken))
                )
        means = {name: np.mean(np.array(each)[start[name] :], axis=0) for name, each in rows.items()}
        shown = [f"{name} {mean[0]:.3f}/{mean[2]:.3f}" for name, mean in means.items()]
        print(f"{path.stem:28}", "  ".join(shown), flush=True)
    print(f"\n{len(rows['svm'])} runs a method, {given.labels} labels")
    print("method      claimed  test  gap    below its interval  gain   harm | safe: taken  gain   harm")
    for name, each in rows.items():
        claimed, low, test, safe, without, taken = np.array(each).T
        print(
            f"{name:10}  {claimed.mean():.3f}   {test.mean():.3f}  {(claimed - test).mean():+.3f}  "
            f"{np.mean(test < low):.2f}                {(test - without).mean():+.4f}  "
            f"{np.mean(test < without - HARM):.2f}  |      {taken.mean():.2f}  {(safe - without).mean():+.4f}  "
            f"{np.mean(safe < without - HARM):.2f}"
        )


if __name__ == "__main__":
    main()

"""The problems that benchmarks/solver.py times: real data from the shared folder, the rest generated."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

SHARED = Path(os.environ.get("PREFSVM_SHARED_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


@dataclass(frozen=True)
class Workload:
    """A C-SVC problem: features (dense or CSR), labels -1/+1, penalty, kernel."""

    X: object
    y: np.ndarray
    C: float
    gamma: float
    kernel: str = "rbf"


def _load(name):
    z = np.load(SHARED / f"{name}.npz", allow_pickle=False)
    X = z["X"] if "X" in z else sp.csr_matrix((z["data"], z["indices"], z["indptr"]), shape=tuple(z["shape"]))
    return X, z["y"]


def _adult(C, gamma):
    X, y = _load("adult_a9a")
    return Workload(X[:10_000].toarray().astype(np.float64), y[:10_000].astype(np.float64), C, gamma)


def _ijcnn():
    X, y = _load("ijcnn1")
    rows = np.sort(np.random.default_rng(0).permutation(X.shape[0])[:20_000])
    return Workload(X[rows].toarray().astype(np.float64), y[rows].astype(np.float64), 10.0, 1.0)


def _mnist():
    X, y = _load("mnist_train")
    return Workload(X[:6000].astype(np.float64) / 255.0, np.where(y[:6000] % 2 == 0, 1.0, -1.0), 10.0, 0.02)


def gaussians(n, d=22, seed=0):
    """Two overlapping Gaussians, Bayes error 15.9 %."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    X = rng.normal(size=(n, d))
    X[:, 0] += y
    return Workload(X, y, 1.0, 1.0 / (d * X.var()))


def _digits():
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return Workload(X / 16.0, np.where(y % 2 == 0, 1.0, -1.0), 10.0, 1.0 / (64 * (X / 16.0).var()))


def _wdbc():
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    return Workload(X, np.where(y == 1, 1.0, -1.0), 1.0, 1.0 / 30)


def _news():
    X, y = _load("newsgroups20_counts")
    X = sp.csr_matrix(X, dtype=np.float64)
    # term frequency, inverse document frequency, unit length
    frequency = np.bincount(X.indices, minlength=X.shape[1])
    X.data = (1 + np.log(X.data)) * np.log(X.shape[0] / np.maximum(1, frequency))[X.indices]
    X = sp.diags(1 / np.sqrt(np.maximum(1e-12, np.asarray(X.multiply(X).sum(1)).ravel()))) @ X
    return Workload(sp.csr_matrix(X), np.where(y == np.unique(y)[0], 1.0, -1.0), 1.0, 1.0, "linear")


WORKLOADS = {
    "adult-hard": lambda: _adult(100.0, 0.5),
    "adult-easy": lambda: _adult(1.0, 0.05),
    "ijcnn1": _ijcnn,
    "mnist": _mnist,
    "gaussians": lambda: gaussians(50_000),
    "digits": _digits,
    "wdbc": _wdbc,
    "news": _news,
} | {f"gaussians-{n}": (lambda n=n: gaussians(n)) for n in (2000, 4000, 8000, 16000, 32000, 64000)}

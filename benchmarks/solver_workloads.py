"""The problems that benchmarks/solver.py times: real data from the shared folder, the rest generated."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

SHARED = Path(os.environ.get("PREFSVM_SHARED_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


@dataclass(frozen=True)
class Workload:
    """What is to be trained.

    Attributes
    ----------
    X : dense, CSR, or a kernel matrix
    y : labels -1/+1; class numbers for ``one-vs-rest``
    C, gamma : float
    kernel : "rbf", "linear" or "precomputed"
    task : "fit" a C-SVC once; "grid": 5 folds of 5 values of C up to ``C``; "one-vs-rest": a C-SVC for each class;
        "rounds": a PSVM run in which 9 of 10 labels are hidden
    """

    X: object
    y: np.ndarray
    C: float
    gamma: float
    kernel: str = "rbf"
    task: str = "fit"

    @property
    def grid(self):
        """The values of C of a grid."""
        return [self.C / 100, self.C / 30, self.C / 10, self.C / 3, self.C]


def _load(name):
    z = np.load(SHARED / f"{name}.npz", allow_pickle=False)
    X = z["X"] if "X" in z else sp.csr_matrix((z["data"], z["indices"], z["indptr"]), shape=tuple(z["shape"]))
    return X, z["y"]


def _adult(C, gamma, task="fit", n=10_000):
    X, y = _load("adult_a9a")
    return Workload(X[:n].toarray().astype(np.float64), y[:n].astype(np.float64), C, gamma, task=task)


def _ijcnn(task="fit", n=20_000):
    X, y = _load("ijcnn1")
    rows = np.sort(np.random.default_rng(0).permutation(X.shape[0])[:20_000])[:n]
    return Workload(X[rows].toarray().astype(np.float64), y[rows].astype(np.float64), 10.0, 1.0, task=task)


def _mnist(task="fit", n=6000):
    X, y = _load("mnist_train")
    return Workload(X[:n].astype(np.float64) / 255.0, np.where(y[:n] % 2 == 0, 1.0, -1.0), 10.0, 0.02, task=task)


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


def _news(task="fit"):
    X, y = _load("newsgroups20_counts")
    X = sp.csr_matrix(X, dtype=np.float64)
    # term frequency, inverse document frequency, unit length
    frequency = np.bincount(X.indices, minlength=X.shape[1])
    X.data = (1 + np.log(X.data)) * np.log(X.shape[0] / np.maximum(1, frequency))[X.indices]
    X = sp.diags(1 / np.sqrt(np.maximum(1e-12, np.asarray(X.multiply(X).sum(1)).ravel()))) @ X
    if task == "fit":
        y = np.where(y == np.unique(y)[0], 1.0, -1.0)
    return Workload(sp.csr_matrix(X), y, 1.0, 1.0, "linear", task)


def _precomputed(work):
    squares = np.einsum("ij,ij->i", work.X, work.X)
    distances = np.maximum(squares[:, None] + squares[None, :] - 2 * work.X @ work.X.T, 0.0)
    return Workload(np.exp(-work.gamma * distances), work.y, work.C, work.gamma, "precomputed")


WORKLOADS = {
    "adult-easy": lambda: _adult(1.0, 0.05),
    "adult-hard": lambda: _adult(100.0, 0.5),
    "ijcnn1": _ijcnn,
    "mnist": _mnist,
    "gaussians": lambda: gaussians(50_000),
    "digits": _digits,
    "wdbc": _wdbc,
    "news": _news,
    "mnist-precomputed": lambda: _precomputed(_mnist(n=3000)),
    "ijcnn1-precomputed": lambda: _precomputed(_ijcnn(n=4000)),
    "news-one-vs-rest": lambda: _news("one-vs-rest"),
    "adult-grid": lambda: _adult(100.0, 0.5, "grid", 6000),
    "ijcnn1-grid": lambda: _ijcnn("grid", 6000),
    "mnist-grid": lambda: _mnist("grid", 4000),
    "adult-easy-rounds": lambda: _adult(1.0, 0.05, "rounds"),
    "adult-hard-rounds": lambda: _adult(100.0, 0.5, "rounds"),
    "ijcnn1-rounds": lambda: _ijcnn("rounds"),
    "mnist-rounds": lambda: _mnist("rounds"),
} | {f"gaussians-{n}": (lambda n=n: gaussians(n)) for n in (2000, 4000, 8000, 16000, 32000, 64000)}

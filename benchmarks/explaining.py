"""What an explanation costs beside the decision, in turns within one run: processor time of the part behind the route.

Run `python -P benchmarks/explaining.py`. Each case is decided on plainly and with `explain`, in turn; the medians are
printed, and how many rows of the model one request may have explained.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest.mock import MagicMock

import numpy as np

from service.predictions.deciding import ReadyModel, decide, decide_by_features
from service.predictions.explaining import add_explanations, explained_at_once
from service.predictions.usage import ModelUsage
from solver.decision import DecisionState
from solver.features import Column, MatrixData, MatrixFeatures, Table, TableFeatures, TextOptions
from solver.model_file import Model
from solver.nearest import KeptRows, Neighbours
from solver.typing import Matrix

TURNS = 7
EXPLAIN = 5


def case(
    name: str, features: TableFeatures | MatrixFeatures, X: Matrix, kind: str, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Measure one model on rows and print a line."""
    rng = np.random.default_rng(0)
    n = X.shape[0]
    state = DecisionState(kind, 1 / max(1, X.shape[1]), 3, 0.0, X, rng.normal(size=n), 0.1, 0.0)
    model = Model("svm", {}, {"kind": "f1"}, ("no", "yes"), state, features)
    ready = ReadyModel("mdl", model, ModelUsage(MagicMock(), "project", "mdl", model))
    every = np.arange(n)
    neighbours = Neighbours(KeptRows.of(X, every, rng.random(n) < 0.5, every, n, 0), state)

    def explained() -> None:
        made, of_rows = decide_by_features(ready, rows, "body.rows", None)
        add_explanations(ready, rows, of_rows, made, EXPLAIN, neighbours)

    plain, whole = in_turns(lambda: decide(ready, rows), explained)
    at_once = explained_at_once(ready, EXPLAIN)
    print(
        f"{name}: {len(rows)} row(s), decided {1e3 * plain:.2f} ms, with explain {EXPLAIN} {1e3 * whole:.2f} ms "
        f"({whole / plain:.1f} times; {1e3 * (whole - plain) / len(rows):.2f} ms a row); at most {at_once} rows",
        flush=True,
    )


def in_turns(*calls: Callable[[], object]) -> list[float]:
    """Return the median processor time of each call."""
    taken: list[list[float]] = [[] for _ in calls]
    for turn in range(TURNS + 1):
        for call, own in zip(calls, taken, strict=True):
            began = time.process_time()
            call()
            if turn:
                own.append(time.process_time() - began)
    return [statistics.median(own) for own in taken]


def matrix(name: str, kind: str, vectors: int, width: int, n_rows: int) -> None:
    """Measure a model of numbers."""
    rng = np.random.default_rng(1)
    data = MatrixData(rng.normal(size=(vectors, width)), 0)
    features = MatrixFeatures().fit(data)
    row = {str(j): float(value) for j, value in enumerate(rng.normal(size=width))}
    case(name, features, features.transform(data)[0], kind, [row] * n_rows)


def texts(name: str, kind: str, words: int, n_rows: int) -> None:
    """Measure a model of 2,000 texts of 60 words, on texts of so many words."""
    rng = np.random.default_rng(2)
    known = ["".join(rng.choice([*"abcdefghijklmnop"], rng.integers(2, 10))) for _ in range(20_000)]
    values = np.array([" ".join(rng.choice(known, 60)) for _ in range(2_000)], dtype=object)
    table = Table({"note": Column("note", "text", values)})
    features = TableFeatures(kinds={"note": "text"}, text=TextOptions()).fit(table)
    case(name, features, features.transform(table)[0], kind, [{"note": " ".join(rng.choice(known, words))}] * n_rows)


def main() -> None:
    """Measure all cases."""
    matrix("30 columns, linear", "linear", 500, 30, 1)
    matrix("30 columns, RBF, 500 support vectors", "rbf", 500, 30, 1)
    matrix("30 columns, RBF, 500 support vectors", "rbf", 500, 30, 100)
    matrix("9,000 columns, linear, 500 support vectors", "linear", 500, 9_000, 1)
    matrix("9,000 columns, RBF, 500 support vectors", "rbf", 500, 9_000, 1)
    matrix("50 columns, RBF, 20,000 support vectors", "rbf", 20_000, 50, 1)
    texts("a text of 20 words, linear", "linear", 20, 1)
    texts("a text of 2,000 words, linear", "linear", 2_000, 1)
    texts("a text of 100,000 words, linear", "linear", 100_000, 1)
    texts("texts of 200 words, linear", "linear", 200, 100)
    texts("a text of 2,000 words, RBF", "rbf", 2_000, 1)


if __name__ == "__main__":
    main()

"""What a change of how columns become features does to `svm`: two commits on the same draws.

    python -P benchmarks/feature_defaults.py --data FOLDER --out before.jsonl      # at one commit
    python -P benchmarks/feature_defaults.py --data FOLDER --out after.jsonl --against before.jsonl   # at the other one

Of each `.npz` (read as `benchmarks/claims.py` reads them) and each `.jsonl` (`text` and `label`; the rarer label,
or the one nearest to a quarter, is positive) labelled, unlabelled and new rows are drawn as there, and `svm` is trained
as a job would train it. A dense file is trained on twice: as a table of numbers, and as a matrix. A `.parquet` is a
table of numbers and texts, which are what an upload takes them for, and has a column `label`, "1" or "0".
What `--out` has is not measured again. With `--against` the differences on the same draws are printed: of each set the
mean and its standard error, and over sets the mean of their means, with the standard error of that.
With `--peer` three lines of scikit-learn stand in for the product (of texts: TF-IDF of the labelled rows, `LinearSVC`).
With `--wild 1e6` one of the rows to train on has that number in each column of its own, as a slip of the hand would.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.claims import UNLABELLED, data_of, draw, load
from service.ingest.statistics import ColumnStatistics
from solver.evaluation import confusion
from solver.features import Column, MatrixData, Table
from solver.training import TrainingRequest, train

MEASURES = ("F1", "average precision", "AUC")


def texts_of(path: Path) -> tuple[Any, NDArray[np.bool_]] | None:
    """Texts of a file and which are positive."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    classes, code, counts = np.unique([row["label"] for row in rows], return_inverse=True, return_counts=True)
    if len(code) < 2 * UNLABELLED:
        return None
    share = counts / len(code)
    positive = np.argmin(share) if len(classes) == 2 else np.argmin(np.abs(share - 0.25))
    return np.array([row["text"] for row in rows], dtype=object), code == positive


def table_of(path: Path) -> tuple[Any, Any, NDArray[np.bool_]]:
    """What makes a table of rows of a file, the rows, which are positive."""
    stored = pq.read_table(path)
    positive = np.array(stored.column("label").to_pylist()) == "1"
    stored = stored.drop_columns(["label"])
    kinds = {field.name: "text" if pa.types.is_string(field.type) else "number" for field in stored.schema}
    X = np.array([stored.column(name).to_pylist() for name in kinds], dtype=object).T

    def make(rows: NDArray[Any]) -> Table:
        columns = zip(kinds.items(), rows.T, strict=True)
        return Table(
            {
                name: Column(name, kind, values if kind == "text" else values.astype(np.float64))
                for (name, kind), values in columns
            }
        )

    return make, X, positive


def guesses(data: Any) -> dict[str, str]:
    """What an upload of these rows takes their columns of text for."""
    found = {}
    for name, column in data.columns.items() if isinstance(data, Table) else ():
        if column.kind == "text":
            statistics = ColumnStatistics(name)
            statistics.add(pa.array(column.values.tolist(), pa.string()))
            found[name] = statistics.profile().kind
    return found


def forms(folder: Path) -> Iterator[tuple[str, Any, Any, NDArray[np.bool_]]]:
    """Name, what makes a data set of rows, the rows, which are positive."""
    for path in sorted(folder.glob("*.npz")):
        found = load(path)
        if found is not None and not sparse.issparse(found[0]):
            yield f"{path.stem} (table)", data_of, *found
        if found is not None:
            yield f"{path.stem} (matrix)", MatrixData, *found
    for path in sorted(folder.glob("*.jsonl")):
        found = texts_of(path)
        if found is not None:
            yield path.stem, lambda texts: Table({"text": Column("text", "text", texts)}), *found
    for path in sorted(folder.glob("*.parquet")):
        yield path.stem, *table_of(path)


def run(
    make: Any,
    X: Any,
    positive: NDArray[np.bool_],
    labels: int,
    seed: int,
    wild: float | None = None,
) -> list[float]:
    """F1, average precision and AUC on new rows, and seconds of processor time for the training."""
    rows, new = draw(positive, labels, seed)
    if wild is not None:
        X = X.copy()
        X[np.random.default_rng(seed).choice(rows, X.shape[1]), np.arange(X.shape[1])] = wild
    y = np.where(positive[rows], "1", "0").astype(object)
    y[labels:] = None
    kinds = {"text": "text"} if X.ndim == 1 else {}
    data = make(X[rows])
    request = TrainingRequest(
        algorithm="svm",
        seed=seed,
        test_fraction=0.0,
        refit=False,
        target="label",
        kinds=kinds,
        guessed={} if kinds else guesses(data),
    )
    began = time.process_time()
    model = train(data, y, request).model
    seconds = time.process_time() - began
    scores = model.decision.decision_function(model.feature_matrix(make(X[new]))[0])
    f1 = confusion(positive[new], scores > model.decision.threshold).f1
    return [f1, *areas(positive[new], scores), seconds]


def areas(positive: NDArray[np.bool_], scores: NDArray[np.float64]) -> tuple[float, float]:
    return float(average_precision_score(positive, scores)), float(roc_auc_score(positive, scores))


def run_peer(texts: Any, positive: NDArray[np.bool_], labels: int, seed: int) -> list[float]:
    """What `run` returns, of scikit-learn."""
    rows, new = draw(positive, labels, seed)
    known = rows[:labels]
    began = time.process_time()
    peer = make_pipeline(TfidfVectorizer(), LinearSVC()).fit(texts[known], positive[known])
    seconds = time.process_time() - began
    scores = peer.decision_function(texts[new])
    f1 = confusion(positive[new], scores > 0).f1
    return [f1, *areas(positive[new], scores), seconds]


def read(path: Path) -> dict[str, list[float]]:
    found = dict(map(json.loads, path.read_text().splitlines())) if path.exists() else {}
    if any(len(each) != len(MEASURES) + 1 for each in found.values()):
        sys.exit(f"{path} has other figures than {', '.join(MEASURES)} and seconds: it is of a version before this one")
    return found


def compare(before: dict[str, list[float]], after: dict[str, list[float]]) -> Iterator[str]:
    """Tables of differences, by number of labels."""
    keys = [key for key in after if key in before]
    for labels in sorted({key.split("\t")[1] for key in keys}, key=int):
        head = " | ".join(f"{measure} before | difference" for measure in MEASURES)
        yield f"\n| {labels} labels | draws | {head} | s |"
        yield "|---" * (3 + 2 * len(MEASURES)) + "|"
        means = []
        for name in dict.fromkeys(key.split("\t")[0] for key in keys):
            own = [key for key in keys if key.split("\t")[:2] == [name, labels]]
            if not own:
                continue
            old, new = np.array([before[key] for key in own]), np.array([after[key] for key in own])
            gain, error = (new - old).mean(axis=0), (new - old).std(axis=0, ddof=1) / len(own) ** 0.5
            means.append(gain)
            cells = [f"{old[:, j].mean():.3f} | {gain[j]:+.3f} ± {error[j]:.3f}" for j in range(len(MEASURES))]
            yield f"| {name} | {len(own)} | {' | '.join(cells)} | {old[:, -1].mean():.2f} → {new[:, -1].mean():.2f} |"
        overall, error = np.mean(means, axis=0), np.std(means, axis=0, ddof=1) / len(means) ** 0.5
        cells = [f"| {overall[j]:+.4f} ± {error[j]:.4f}" for j in range(len(MEASURES))]
        yield f"| **{len(means)} sets** | | {' | '.join(cells)} | |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--labels", default="100,300")
    parser.add_argument("--wild", type=float, help="A number that one row to train on has in each column.")
    parser.add_argument("--peer", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    done = read(given.out)
    with given.out.open("a") as file:
        for name, make, X, positive in forms(given.data):
            for labels in map(int, given.labels.split(",")):
                for seed in range(given.draws):
                    key = f"{name}\t{labels}\t{seed}"
                    if key not in done:
                        if given.peer:
                            done[key] = run_peer(X, positive, labels, seed)
                        else:
                            done[key] = run(make, X, positive, labels, seed, given.wild)
                        file.write(json.dumps([key, done[key]]) + "\n")
                        file.flush()
    if given.against is not None:
        print("\n".join(compare(read(given.against), done)))


if __name__ == "__main__":
    main()

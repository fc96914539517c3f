"""Does the queue of rows to label next pay, and does it find wrong labels?

    python -P benchmarks/labelling.py [--data FOLDER] [--runs FILE] [--seeds 10] [--seconds 600]

From 20 labels to 100, in batches of 20: by the queue (`solver.labelling_queue`; what it drew at random is measured on,
what it chose is only learned from) and all drawn at random, from the same 20 labels. F1 on up to 2,000 rows that no
model has seen, by the threshold that the model itself has chosen. Then 5 % of 300 labels are flipped: how many of these
stand in the first tenth of the suspicious ones, and what the list says where all labels are drawn at random.

The sets are those of scikit-learn, and with a folder those of `SETS` that it has: each `NAME.npz` with `y` and `X`, or
the parts of a CSR matrix. Texts are counts of words, weighted as TF-IDF. The mixture was chosen on the sets that say
so; the others confirm it. Runs are kept in the file: who calls again goes on. Writes `benchmarks/results/labelling.md`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import f1_score

from solver.estimators import SVM
from solver.labelling_queue import QueueInput, queue_of
from solver.report import LabellingQueue

RESULTS = Path(__file__).parent / "results" / "labelling.md"
FIRST, LAST, BATCH = 20, 100, 20
POOL, TEST = 1000, 2000
FLIPPED_OF, FLIPPED = 300, 0.05
TEXT, TABLE = True, False
SETS: dict[str, tuple[str, tuple[int, ...], bool, bool]] = {
    # name: file, positive classes, whether it is text, whether the mixture was chosen on it
    "newsgroups comp.*": ("newsgroups20_counts", (1, 2, 3, 4, 5), TEXT, True),
    "newsgroups sci.space": ("newsgroups20_counts", (14,), TEXT, True),
    "reuters acq": ("reuters_earn_acq", (1,), TEXT, True),
    "newsgroups rec.*": ("newsgroups20_counts", (7, 8, 9, 10), TEXT, False),
    "newsgroups talk.*": ("newsgroups20_counts", (16, 17, 18, 19), TEXT, False),
    "newsgroups sci.med": ("newsgroups20_counts", (13,), TEXT, False),
    "reuters 3 to 5": ("reuters21578_modapte65", (3, 4, 5), TEXT, False),
    "newsgroups, 100 words": ("newsgroups_w100_comp", (1,), TEXT, False),
    "optdigits 3, 8, 9": ("optdigits", (3, 8, 9), TABLE, True),
    "a9a": ("adult_a9a", (1,), TABLE, True),
    "australian": ("australian", (1,), TABLE, True),
    "sat 3, 4": ("sat", (3, 4), TABLE, False),
    "ijcnn1": ("ijcnn1", (1,), TABLE, False),
    "krvskp": ("krvskp", (1,), TABLE, False),
    "isolet e set": ("isolet3119", (2, 3, 4, 5, 7), TABLE, False),
}


@dataclass(frozen=True)
class Draw:
    """A pool, whose first rows are labelled, and rows to test on."""

    X: Any
    y: NDArray[np.bool_]
    new_rows: Any
    truth: NDArray[np.bool_]
    kernel: str


@dataclass(frozen=True)
class Set:
    name: str
    load: Callable[[], tuple[Any, NDArray[np.bool_]]]
    is_text: bool
    has_chosen: bool


def sets(folder: Path | None) -> Iterator[Set]:
    yield Set("breast cancer", lambda: _of_sklearn(load_breast_cancer, (0,)), TABLE, False)
    yield Set("digits 3, 8, 9", lambda: _of_sklearn(load_digits, (3, 8, 9)), TABLE, False)
    for name, (file, positive, is_text, has_chosen) in SETS.items() if folder else ():
        path = folder / f"{file}.npz"
        if path.exists():
            yield Set(name, lambda path=path, positive=positive: _stored(path, positive), is_text, has_chosen)


def _of_sklearn(load: Callable[..., Any], positive: tuple[int, ...]) -> tuple[Any, NDArray[np.bool_]]:
    X, y = load(return_X_y=True)
    return X, np.isin(y, positive)


def _stored(path: Path, positive: tuple[int, ...]) -> tuple[Any, NDArray[np.bool_]]:
    with np.load(path, allow_pickle=False) as stored:
        if "X" in stored:
            X = stored["X"].astype(np.float64)
        else:
            parts = (stored["data"].astype(np.float64), stored["indices"], stored["indptr"])
            X = sparse.csr_matrix(parts, shape=tuple(stored["shape"]))
        return X, np.isin(stored["y"], positive)


def draw(of: Set, labelled: int, seed: int) -> Draw:
    X, y = of.load()
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(len(y))
        if min(y[order[:labelled]].sum(), (~y[order[:labelled]]).sum()) >= 3:
            break
    pool, test = np.split(order[: POOL + TEST], [min(POOL, max(labelled + 50, len(y) // 2))])
    rows, new_rows = X[pool], X[test]
    if of.is_text:
        weights = TfidfTransformer(sublinear_tf=True).fit(rows)
        rows, new_rows = weights.transform(rows).tocsr(), weights.transform(new_rows).tocsr()
    else:
        if sparse.issparse(rows):
            rows, new_rows = rows.toarray(), new_rows.toarray()
        scale = np.maximum(np.abs(rows).max(axis=0), 1e-12)
        rows, new_rows = rows / scale, new_rows / scale
    return Draw(rows, y[pool], new_rows, y[test], "linear" if of.is_text else "rbf")


def fit(case: Draw, known: NDArray[np.bool_], chosen: NDArray[np.bool_], y: NDArray[np.bool_]) -> SVM:
    codes = np.where(known, y.astype(np.int64), -1)
    return SVM(kernel=case.kernel, random_state=0).fit(case.X, codes, unmeasured=chosen)


def queue(case: Draw, model: SVM, known: NDArray[np.bool_], y: NDArray[np.bool_]) -> LabellingQueue:
    codes = np.where(known, y, -1).astype(np.int8)
    some = np.flatnonzero(~known)
    numbers = np.arange(len(codes))
    state, left_out = model.decision_state(), model.left_out_scores_
    scores = state.decision_function(case.X[some])
    return queue_of(QueueInput(state, case.X, codes, numbers, some, scores, left_out, np.ones(len(codes), dtype=bool)))


def learned(case: Draw, seed: int, by_queue: bool) -> list[float]:
    """F1 with 20, 40, 60, 80 and 100 labels."""
    known = np.arange(len(case.y)) < FIRST
    chosen = np.zeros(len(case.y), dtype=bool)
    order = np.random.default_rng(1000 + seed).permutation(np.arange(FIRST, len(case.y)))
    reached = []
    for labels in range(FIRST, LAST + 1, BATCH):
        model = fit(case, known, chosen, case.y)
        reached.append(float(f1_score(case.truth, model.predict(case.new_rows) == 1, zero_division=0)))
        if by_queue:
            improve = queue(case, model, known, case.y).improve
            rows = np.array(improve.rows[:BATCH])
            chosen[rows[np.array(improve.reasons[:BATCH]) != "random"]] = True
        else:
            rows = order[labels - FIRST : labels - FIRST + BATCH]
        known[rows] = True
    return reached


def doubted(of: Set, seed: int) -> dict[str, float]:
    """Share of flipped labels in the first tenth; what is said where all labels are drawn at random."""
    case = draw(of, FIRST, seed)
    n = min(FLIPPED_OF, len(case.y))
    known = np.arange(len(case.y)) < n
    rng = np.random.default_rng(seed)
    flipped = rng.permutation(n)[: round(FLIPPED * n)]
    y = case.y.copy()
    y[flipped] = ~y[flipped]
    nothing = np.zeros(len(y), dtype=bool)
    found = queue(case, fit(case, known, nothing, y), known, y).suspicious
    at_random = rng.permutation(case.y)
    model = fit(case, known, nothing, at_random)
    said = queue(case, model, known, at_random).suspicious
    probabilities = model.decision_state().probabilities(np.array(said.scores))
    sure = np.where(said.positive, 1 - probabilities, probabilities)
    return {
        "found": float(np.isin(flipped, found.rows[: -(-n // 10)]).mean()),
        "trusted": float(found.better_than_chance),
        "random trusted": float(said.better_than_chance),
        "random sure": float(np.count_nonzero(sure > 0.95)) / n,
    }


def collect(of: list[Set], seeds: int, path: Path, seconds: float) -> dict[str, Any]:
    """Compute what the file lacks, as long as there is time."""
    runs = dict(map(json.loads, path.read_text().splitlines())) if path.exists() else {}
    give_up = time.monotonic() + seconds
    with path.open("a") as file:
        for seed in range(seeds):
            for each in of:
                for kind in ("random", "queue", "doubted"):
                    name = f"{each.name}/{seed}/{kind}"
                    if name in runs or time.monotonic() > give_up:
                        continue
                    if kind == "doubted":
                        runs[name] = doubted(each, seed)
                    else:
                        runs[name] = learned(draw(each, FIRST, seed), seed, kind == "queue")
                    file.write(json.dumps([name, runs[name]]) + "\n")
                    file.flush()
    return runs


def table(of: list[Set], runs: dict[str, Any]) -> Iterator[str]:
    yield "| set | F1, 20 labels | 100, random | 100, queue | gain ± SE (draws) | flipped found | trusted |"
    yield "|---|---|---|---|---|---|---|"
    means: dict[tuple[str, bool], list[float]] = {}
    for each in of:
        pairs = [
            (runs[f"{each.name}/{seed}/random"], runs[f"{each.name}/{seed}/queue"])
            for seed in range(1000)
            if f"{each.name}/{seed}/random" in runs and f"{each.name}/{seed}/queue" in runs
        ]
        judged = [result for name, result in runs.items() if name.startswith(f"{each.name}/") and "doubted" in name]
        if not pairs or not judged:
            continue
        random, by_queue = (np.array(side) for side in zip(*pairs, strict=True))
        gains = by_queue[:, -1] - random[:, -1]
        error = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else float("nan")
        found, trusted = (np.mean([result[name] for result in judged]) for name in ("found", "trusted"))
        means.setdefault(("text" if each.is_text else "table", each.has_chosen), []).append(float(gains.mean()))
        yield (
            f"| {each.name}{' (chose)' if each.has_chosen else ''} | {random[:, 0].mean():.3f} "
            f"| {random[:, -1].mean():.3f} | {by_queue[:, -1].mean():.3f} "
            f"| {gains.mean():+.3f} ± {error:.3f} ({len(gains)}) | {found:.0%} | {trusted:.0%} |"
        )
    yield ""
    for (kind, has_chosen), gains in sorted(means.items()):
        which = "that chose" if has_chosen else "that confirm"
        yield f"* {len(gains)} {kind} sets {which}: mean gain {np.mean(gains):+.3f}, worst {min(gains):+.3f}"
    judged = [result for name, result in runs.items() if "doubted" in name]
    if judged:
        mean = {name: float(np.mean([result[name] for result in judged])) for name in judged[0]}
        yield (
            f"* flipped labels in the first tenth: {mean['found']:.0%}; labels drawn at random are trusted in "
            f"{mean['random trusted']:.0%} of {len(judged)} draws, and {mean['random sure']:.1%} of them doubted with "
            "more than 0.95"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("labelling-runs.jsonl"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=600.0)
    arguments = parser.parse_args()
    of = list(sets(arguments.data))
    lines = list(table(of, collect(of, arguments.seeds, arguments.runs, arguments.seconds)))
    text = ["# Which rows to label next", "", *(__doc__ or "").strip().splitlines()[4:12], "", *lines, ""]
    RESULTS.write_text("\n".join(text))
    print("\n".join(lines))


if __name__ == "__main__":
    main()

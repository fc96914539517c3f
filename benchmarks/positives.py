"""Positive and unlabelled rows alone: how well rows are told apart, and is what is said of that true?

    python -P benchmarks/positives.py --data FOLDER [--rows FILE] [--draws 3] [--only SETS] [--part share]

The sets are those of `benchmarks/promises.py`; counts of terms become TF-IDF weights. For each draw 20, 50 or 100
positive rows keep their label, up to 1,000 others have none, and up to 2,000 more say what is true. Each method asks
for the best F1. Beside those of the product stand an SVM that is given all labels of the same rows, scikit-learn's SVM
that takes unlabelled rows for negative (three lines), and Elkan and Noto's. The sets named in `CHOSE` chose what `auto`
takes and how the share of positives is estimated; the others confirm it. Results are kept as lines in `--rows` and
taken up from there.

Methods for the share: Elkan and Noto (KDD 2008), best bin estimation (Garg et al., NeurIPS 2021), PEN-L1 on scores (du
Plessis, Niu and Sugiyama, Machine Learning 2017), and the careful ratio of `solver.positive_unlabelled.share`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score
from sklearn.svm import SVC

from benchmarks.promises import kernel_of, sets
from solver.estimators import BiasedSVM, RocSVM, SpyBayesianSets, SpyEM
from solver.operating_point import Objective
from solver.positive_unlabelled.left_out import FoundCurve, LeftOutScores, left_out_scores
from solver.positive_unlabelled.share import ShareEstimate, estimate_share
from solver.positives_only import OnlyPositives, choose_place, point_of

LABELS = (20, 50, 100)
UNLABELLED, MOST_TEST = 1000, 2000
CHOSE = ("breast cancer", "digits", "german_credit", "reuters_earn_acq", "sat", "krvskp")
CONFIRM = (
    "australian",
    "ionosphere",
    "adult_a9a",
    "newsgroups20_counts",
    "reuters21578_modapte65",
    "texture",
    "isolet3119",
)
METHODS = {
    "biased-svm": BiasedSVM,
    "bayesian-sets": SpyBayesianSets,
    "spy-em": SpyEM,
    "roc-svm": RocSVM,
}
TARGETS: list[dict[str, Any]] = [
    {"kind": "precision", "target": 0.7},
    {"kind": "precision", "target": 0.9},
    {"kind": "recall", "target": 0.8},
]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Draw:
    """Positive rows first, then unlabelled ones; and rows that say what is true."""

    X: Any
    truth: NDArray[np.bool_]
    positives: int
    new_rows: Any
    new_truth: NDArray[np.bool_]

    @property
    def marked(self) -> NDArray[np.int64]:
        """1 for the positive rows that have a label, -1 for all others."""
        return np.where(np.arange(len(self.truth)) < self.positives, 1, -1)

    @property
    def share(self) -> float:
        """Of positives among the unlabelled rows."""
        return float(self.truth[self.positives :].mean())


def draw(X: Any, y: NDArray[np.bool_], positives: int, seed: int, *, at_random: bool = False) -> Draw | None:
    """None where the set is too small; the labelled rows are drawn from all rows if `at_random`."""
    rng = np.random.default_rng(seed)
    labelled = rng.permutation(len(y) if at_random else np.flatnonzero(y))[:positives]
    rest = rng.permutation(np.setdiff1d(np.arange(len(y)), labelled))
    unlabelled = min(UNLABELLED, 2 * len(rest) // 3)
    others, test = np.split(rest[: unlabelled + MOST_TEST], [unlabelled])
    if len(labelled) < positives or y[others].sum() < positives / 2:
        return None
    rows = np.concatenate([labelled, others])
    own, new = X[rows], X[test]
    if sparse.issparse(X):
        weights = TfidfTransformer(sublinear_tf=True).fit(own)
        own, new = weights.transform(own), weights.transform(new)
    else:
        mean, deviation = own.mean(axis=0), np.maximum(own.std(axis=0), 1e-12)
        own, new = (np.clip((each - mean) / deviation, -3, 3) for each in (own, new))
    return Draw(own, y[rows], positives, new, y[test])


# -- methods -----------------------------------------------------------------------------------------------------------


def svm(case: Draw, y: NDArray[Any]) -> tuple[Floats, NDArray[np.bool_]]:
    """The three lines: unlabelled rows are negative ones."""
    model = SVC(kernel=kernel_of(case.X), class_weight="balanced").fit(case.X, y)
    scores = model.decision_function(case.new_rows)
    return scores, scores > 0


def elkan_noto(case: Draw) -> tuple[Floats, NDArray[np.bool_]]:
    """Elkan and Noto's first estimator: probabilities of a label, over their mean on held out positive rows."""
    held = max(2, case.positives // 5)
    learned = np.arange(held, len(case.truth))
    y = case.marked[learned] == 1
    base: Any = LogisticRegression(C=10, max_iter=2000)
    if not sparse.issparse(case.X):
        base = CalibratedClassifierCV(SVC(), cv=3)
    model = base.fit(case.X[learned], y)
    c = float(model.predict_proba(case.X[:held])[:, 1].mean())
    scores = model.predict_proba(case.new_rows)[:, 1]
    return scores, scores > c / 2


def outcomes(case: Draw) -> Iterator[dict[str, Any]]:
    """What each method reaches, and what the product says of it."""
    others: dict[str, Callable[[], tuple[Floats, NDArray[np.bool_]]]] = {
        "SVM, all labels": lambda: svm(case, case.truth),
        "SVM, unlabelled as negative": lambda: svm(case, case.marked),
        "Elkan-Noto": lambda: elkan_noto(case),
    }
    for name, method in others.items():
        scores, called = method()
        yield {"method": name} | reached(case, scores, called)
    for name, estimator in METHODS.items():
        model = estimator(kernel=kernel_of(case.X), random_state=0).fit(case.X, case.marked)
        scores = model.decision_function(case.new_rows)
        told = model.report_.positives_only
        yield {
            "method": name,
            **reached(case, scores, scores > model.threshold_),
            "share": [told.share.low, told.share.value, told.share.high, case.share],
            "said": list(said(case, OnlyPositives.from_report(told), scores)),
        }


def reached(case: Draw, scores: Floats, called: NDArray[np.bool_]) -> dict[str, float]:
    return {
        "ap": float(average_precision_score(case.new_truth, scores)),
        "f1": float(f1_score(case.new_truth, called, zero_division=0.0)),
    }


def said(case: Draw, known: OnlyPositives, scores: Floats) -> Iterator[dict[str, Any]]:
    """What is claimed of precision and recall, with the share given and estimated, and what is true."""
    for is_given in (True, False):
        share = ShareEstimate.given(case.share) if is_given else known.share
        with_share = replace(known, share=share)
        for asked in ({"kind": "f1"}, *TARGETS):
            objective = Objective.parse(asked)
            place = choose_place(with_share, objective, "auto")
            point, promise = point_of(with_share, place, objective, "positive")
            called = scores > with_share.curve.thresholds[place]
            true = {
                "precision": float(case.new_truth[called].mean()) if called.any() else None,
                "recall": float(called[case.new_truth].mean()),
            }
            yield {
                "given": is_given,
                "asked": asked,
                "level": promise.level,
                "precision": None if point.precision is None else [point.precision.low, point.precision.high],
                "recall": [point.recall.low, point.recall.high],
                "called": float(called.mean()),
                "true": true,
                "held": None
                if not objective.targets
                else all(true[name] is not None and true[name] >= target for name, target in objective.targets.items()),
            }


# -- share -------------------------------------------------------------------------------------------------------------


def scores_of(case: Draw) -> LeftOutScores | None:
    """Left-out scores of a biased SVM of scikit-learn."""

    def train(positive: NDArray[np.intp], unlabelled: NDArray[np.intp]) -> Callable[[NDArray[np.intp]], Floats]:
        y = np.repeat([1, -1], [len(positive), len(unlabelled)])
        rows = case.X[np.concatenate([positive, unlabelled])]
        model = SVC(kernel=kernel_of(case.X), class_weight={-1: len(positive) / len(unlabelled)}).fit(rows, y)
        return lambda these: np.asarray(model.decision_function(case.X[these]))

    every = np.arange(len(case.truth))
    return left_out_scores(case.X, every[: case.positives], every[case.positives :], train, 0)


def by_elkan_noto(scores: LeftOutScores) -> float:
    n, m = len(scores.positive), len(scores.unlabelled)
    column = np.concatenate([scores.positive, scores.unlabelled])[:, None]
    model = LogisticRegression().fit(column, np.repeat([1, 0], [n, m]))
    c = float(model.predict_proba(column[:n])[:, 1].mean())
    return min(1.0, n / m * (1 - c) / c)


def by_best_bin(scores: LeftOutScores, delta: float = 0.1, gamma: float = 0.01) -> float:
    curve = FoundCurve.of(scores)
    found, called = curve.found / curve.positives, curve.called / curve.unlabelled
    width = sum(np.sqrt(np.log(4 / delta) / (2 * n)) for n in (curve.positives, curve.unlabelled))
    best = int(np.argmin(called / found + (1 + gamma) * width / found))
    return min(1.0, float(called[best] / found[best]))


def by_penalised_l1(scores: LeftOutScores, regularised: float = 1e-2) -> float:
    """PEN-L1: the least penalised distance of share · positives to the unlabelled rows, in Gaussians of the scores."""
    both = np.concatenate([scores.positive, scores.unlabelled])
    p, u = ((each - both.mean()) / max(float(both.std()), 1e-12) for each in (scores.positive, scores.unlabelled))
    centres = np.quantile(np.concatenate([p, u]), np.linspace(0, 1, 50))
    of_p, of_u = (np.exp(-((each[:, None] - centres) ** 2) / 0.18).mean(axis=0) for each in (p, u))
    shares = np.linspace(0.01, 1, 100)
    gains = np.maximum(0.0, shares[:, None] * of_p - of_u)
    return float(shares[np.argmin((gains * (gains)).sum(axis=1) / regularised - shares)])


def shares(case: Draw) -> dict[str, Any]:
    scores = scores_of(case)
    if scores is None:
        return {}
    ours = estimate_share(scores)
    return {
        "method": "share",
        "truth": case.share,
        "interval": [ours.low, ours.high],
        "estimates": {
            "careful ratio": ours.value,
            "Elkan-Noto": by_elkan_noto(scores),
            "best bin": by_best_bin(scores),
            "PEN-L1 on scores": by_penalised_l1(scores),
        },
        "scores": [scores.positive.tolist(), scores.unlabelled.tolist()],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=Path, default=Path("positives.jsonl"))
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--only", type=lambda text: text.split(","), default=[*CHOSE, *CONFIRM])
    parser.add_argument("--part", choices=("methods", "share"), default="methods")
    parser.add_argument("--at-random", action="store_true", help="labels are drawn from all rows: they say nothing")
    asked = parser.parse_args()
    kept = asked.rows.read_text().splitlines() if asked.rows.exists() else []
    done = {(each["set"], each["positives"], each["seed"]) for each in map(json.loads, kept)}
    with asked.rows.open("a") as file:
        for name, X, y in sets(asked.data, asked.only):
            if name not in asked.only:
                continue
            for positives in LABELS:
                for seed in range(asked.draws):
                    if (name, positives, seed) in done:
                        continue
                    case = draw(X, y, positives, seed, at_random=asked.at_random)
                    if case is None:
                        continue
                    found = [shares(case)] if asked.part == "share" else list(outcomes(case))
                    for row in found:
                        file.write(json.dumps({"set": name, "positives": positives, "seed": seed} | row) + "\n")
                    file.flush()


if __name__ == "__main__":
    main()

"""Is what the product promises true? Certificates and promises on many draws, beside what others do.

    python -P benchmarks/promises.py [--data FOLDER] [--draws 8] [--unconfirmed NAME,NAME] [--only chances|abstaining]

The sets are those of scikit-learn, and each `*.npz` of the folder with `y` (-1/+1, or classes, of which the one nearest
to a quarter of the rows is positive) and `X`, or the parts of a CSR matrix. For each draw some rows keep their label,
600 have none, and up to 4,000 others say what is true. Sets named as unconfirmed chose how the chance is calculated,
and that a threshold is taken by which a target is likely to hold (`auto`) and not the best that reaches it on the
calibration rows (`f1max`); the others confirm it. Writes `benchmarks/results/promises.md`.

Beside the certificates stand scikit-learn's `TunedThresholdClassifierCV` (a target counts as claimed where the
cross-validated score says that it is reached) and, where it is installed (`requirements-peers.txt`), MAPIE's
`BinaryClassificationController` on one half of the labels.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV, train_test_split
from sklearn.svm import SVC

from solver.abstention import abstained_on, abstention
from solver.chances import LIKELY
from solver.choices import ThresholdRule
from solver.estimators import SVM
from solver.evaluation.curves import OperatingCurve
from solver.operating_point import Abstain, Objective, choose_from_curve
from solver.promise import promise_of
from solver.retuning import counts_of

RESULTS = Path(__file__).parent / "results" / "promises.md"
UNLABELLED, MOST_TEST = 600, 4000
CONFIDENCE = 0.9
CERTIFIED = [("precision", 0.9), ("precision", 0.95), ("recall", 0.9), ("recall", 0.95)]
PROMISED: list[dict[str, Any]] = [
    *({"kind": kind, "target": target} for kind in ("precision", "recall") for target in (0.8, 0.9, 0.95)),
    *({"kind": "precision_recall", "precision": both, "recall": both} for both in (0.7, 0.8, 0.9)),
]
LABELS = (40, 100, 300)
ABSTAINED = (0.9, 0.95, 0.98)
RULES: tuple[ThresholdRule, ...] = ("f1max", "auto")


@dataclass(frozen=True)
class Draw:
    """Labelled rows first, then unlabelled ones (-1); and rows that say what is true."""

    X: Any
    y: NDArray[np.int64]
    labelled: int
    new_rows: Any
    truth: NDArray[np.bool_]

    def reached(self, predicted: NDArray[np.bool_]) -> dict[str, float]:
        """What a decision on the new rows reaches."""
        hits = np.count_nonzero(predicted & self.truth)
        return {
            "precision": hits / max(np.count_nonzero(predicted), 1),
            "recall": hits / max(np.count_nonzero(self.truth), 1),
        }


def sets(folder: Path | None, only: Collection[str] | None = None) -> Iterator[tuple[str, Any, NDArray[np.bool_]]]:
    """Those of scikit-learn and of the folder; of the folder `only` some, if that is said."""
    X, y = load_breast_cancer(return_X_y=True)
    yield "breast cancer", X, y == 0
    X, y = load_digits(return_X_y=True)
    yield "digits", X, np.isin(y, (3, 8, 9))
    for path in sorted(folder.glob("*.npz")) if folder else ():
        if only is not None and path.stem not in only:
            continue
        with np.load(path, allow_pickle=False) as stored:
            if "X" in stored:
                X = stored["X"].astype(np.float64)
            else:
                parts = (stored["data"].astype(np.float64), stored["indices"], stored["indptr"])
                X = sparse.csr_matrix(parts, shape=tuple(stored["shape"]))
            classes, counts = np.unique(stored["y"], return_counts=True)
            positive = 1 if len(classes) == 2 else classes[np.argmin(np.abs(counts / counts.sum() - 0.25))]
            yield path.stem, X, stored["y"] == positive


def draw(X: Any, y: NDArray[np.bool_], labelled: int, seed: int) -> Draw | None:
    """None where the set is too small."""
    rng = np.random.default_rng(seed)
    if X.shape[0] < labelled + UNLABELLED // 2 + 150:
        return None
    unlabelled = min(UNLABELLED, (X.shape[0] - labelled) // 2)
    while True:
        order = rng.permutation(X.shape[0])
        if min(y[order[:labelled]].sum(), (~y[order[:labelled]]).sum()) >= 4:
            break
    train, test = np.split(order[: labelled + unlabelled + MOST_TEST], [labelled + unlabelled])
    rows, new_rows = X[train], X[test]
    if not sparse.issparse(X):
        scale = np.maximum(np.abs(rows).max(axis=0), 1e-12)
        rows, new_rows = rows / scale, new_rows / scale
    marked = np.where(np.arange(len(train)) < labelled, y[train].astype(np.int64), -1)
    return Draw(rows, marked, labelled, new_rows, y[test])


def kernel_of(X: Any) -> str:
    return "linear" if sparse.issparse(X) else "rbf"


# -- certificates ------------------------------------------------------------------------------------------------------


def product(case: Draw, kind: str, target: float, certificate: str) -> NDArray[np.bool_] | None:
    objective = {"kind": kind, "target": target, "confidence": CONFIDENCE, "certificate": certificate}
    model = SVM(objective=objective, kernel=kernel_of(case.X), random_state=0).fit(case.X, case.y)
    return model.predict(case.new_rows) == 1 if model.status_ == "met" else None


def tuned_threshold(case: Draw, kind: str, target: float) -> NDArray[np.bool_] | None:
    def worth(truth: NDArray[Any], predicted: NDArray[Any]) -> float:
        hits = np.count_nonzero((truth == 1) & (predicted == 1))
        precision = hits / max(np.count_nonzero(predicted == 1), 1)
        recall = hits / max(np.count_nonzero(truth == 1), 1)
        measure, other = (precision, recall) if kind == "precision" else (recall, precision)
        return float(other if measure >= target else measure - 1)

    svc = SVC(kernel=kernel_of(case.X))
    tuned = TunedThresholdClassifierCV(svc, scoring=make_scorer(worth), cv=5, random_state=0)
    tuned.fit(case.X[: case.labelled], case.y[: case.labelled])
    return tuned.predict(case.new_rows) == 1 if tuned.best_score_ >= 0 else None


def mapie(case: Draw, kind: str, target: float) -> NDArray[np.bool_] | None:
    from mapie.risk_control import BinaryClassificationController

    half, other = train_test_split(
        np.arange(case.labelled), test_size=0.5, stratify=case.y[: case.labelled], random_state=0
    )
    model = CalibratedClassifierCV(SVC(kernel=kernel_of(case.X)), cv=3, ensemble=False).fit(case.X[half], case.y[half])
    control = BinaryClassificationController(
        predict_function=model.predict_proba, risk=kind, target_level=target, confidence_level=CONFIDENCE
    )
    control.calibrate(case.X[other], case.y[other])
    if control.best_predict_param is None:
        return None
    return np.asarray(control.predict(case.new_rows)) == 1


METHODS: dict[str, Any] = {
    "cross_fitted": lambda case, kind, target: product(case, kind, target, "cross_fitted"),
    "strict": lambda case, kind, target: product(case, kind, target, "strict"),
    "TunedThresholdClassifierCV": tuned_threshold,
}


def certificates(cases: list[Draw]) -> list[str]:
    methods = METHODS | ({"MAPIE, half of the labels": mapie} if importlib.util.find_spec("mapie") else {})
    lines = ["| target | by | claimed | of these false | the other measure, mean |", "|---|---|---|---|---|"]
    for kind, target in CERTIFIED:
        for name, decide in methods.items():
            claims = [case.reached(found) for case in cases if (found := decide(case, kind, target)) is not None]
            false = sum(reached[kind] < target for reached in claims)
            others = [reached["recall" if kind == "precision" else "precision"] for reached in claims]
            other = f"{np.mean(others):.2f}" if others else "–"
            share = f"{len(claims) / len(cases):.0%} of {len(cases)}"
            lines.append(f"| {kind} {target} | {name} | {share} | {false} of {len(claims)} | {other} |")
    return lines


# -- promises ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """A promise, and whether the target held on the new rows."""

    labelled: int
    rule: str
    kind: str
    target: str
    level: str
    chance: float
    bounds_held: bool
    held: bool
    reached: dict[str, float]


def promises(case: Draw) -> Iterator[Outcome]:
    model = SVM(kernel=kernel_of(case.X), random_state=0).fit(case.X, case.y)
    scores = model.decision_function(case.new_rows)
    curve = OperatingCurve.from_dict(vars(model.report_.curve))
    for asked, rule in itertools.product(PROMISED, RULES):
        objective = Objective.parse(asked)
        point = choose_from_curve(curve, objective, rule)
        promise = promise_of(objective, point.counts, "1")
        if promise.chance is None:
            raise RuntimeError("of cross-fitted scores targets have a chance")
        reached = case.reached(scores > point.threshold)
        yield Outcome(
            case.labelled,
            rule,
            objective.kind,
            ", ".join(f"{name} {target:g}" for name, target in objective.targets.items()),
            str(promise.level),
            promise.chance,
            all(reached[name] >= low for name, low in promise.bounds.items()),
            all(reached[name] >= target for name, target in objective.targets.items()),
            reached,
        )


# -- rows left undecided -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Abstained:
    """What was said of new rows by a decision that may leave them undecided: of each class whether it was precise."""

    name: str
    labelled: int
    precision: float
    held: tuple[bool | None, bool | None]
    undecided: float
    claimed: float
    inside: bool


def abstained(name: str, case: Draw) -> Iterator[Abstained]:
    model = SVM(kernel=kernel_of(case.X), random_state=0).fit(case.X, case.y)
    scores, report = model.decision_function(case.new_rows), model.report_
    curve = OperatingCurve.from_dict(vars(report.curve))
    for precision in ABSTAINED:
        chosen = abstention(curve, report.threshold, counts_of(report.calibration), Abstain(precision), ("0", "1"))
        found = abstained_on(chosen, scores, case.truth)
        promised = promise_of(Objective(abstain=Abstain(precision)), report.calibration, "1", abstained=chosen).abstain
        sides = [
            None if said.rows == 0 or each.rows == 0 else each.right >= precision * each.rows
            for said, each in ((chosen.positive, found.positive), (chosen.negative, found.negative))
        ]
        left = found.undecided / found.rows
        stated = promised.undecided
        yield Abstained(
            name, case.labelled, precision, (sides[0], sides[1]), left, stated.value, stated.low <= left <= stated.high
        )


def abstaining(outcomes: list[Abstained]) -> list[str]:
    """A line a precision, a number of labels and a set, and one of all sets."""
    lines = [
        "| precision | labels | set | positive said | of these precise | negative said | of these precise | undecided, "
        "mean | stated, mean | inside the interval |",
        "|---|" + "---|" * 9,
    ]
    names = dict.fromkeys(each.name for each in outcomes)
    for precision, labelled, name in itertools.product(ABSTAINED, LABELS, ("all", *names)):
        some = [
            each
            for each in outcomes
            if (each.precision, each.labelled) == (precision, labelled) and name in ("all", each.name)
        ]
        if not some:
            continue
        cells = [f"{precision:g}", str(labelled), name]
        for side in (0, 1):
            said = [each.held[side] for each in some if each.held[side] is not None]
            cells += [f"{len(said)} of {len(some)}", f"{np.mean(said):.2f}" if said else "–"]
        cells += [f"{np.mean([getattr(each, what) for each in some]):.2f}" for what in ("undecided", "claimed")]
        cells.append(f"{np.mean([each.inside for each in some]):.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def share(outcomes: list[Outcome]) -> str:
    return f"{np.mean([each.held for each in outcomes]):.2f} of {len(outcomes)}" if outcomes else "none"


def calibration(outcomes: dict[str, list[Outcome]]) -> list[str]:
    edges = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.01]
    heads = [f"chance {low:.0%}-{min(high, 1):.0%}" for low, high in itertools.pairwise(edges)]
    lines = [
        f"| runs | {' | '.join(heads)} | likely (≥ {LIKELY:.0%}) | bounds held |",
        "|---|" + "---|" * (len(heads) + 2),
    ]
    for name, some in outcomes.items():
        cells = [share([each for each in some if low <= each.chance < high]) for low, high in itertools.pairwise(edges)]
        likely = share([each for each in some if each.level == "likely"])
        lines.append(f"| {name} | {' | '.join(cells)} | {likely} | {np.mean([e.bounds_held for e in some]):.2f} |")
    return lines


def thresholds(outcomes: list[Outcome]) -> list[str]:
    """How often targets hold, and what that takes of the other measure."""
    lines = ["| target | labels | rule | held | met | of these held | the other measure, mean |", "|---|" + "---|" * 6]
    others = {"precision": "recall", "recall": "precision"}
    targets = dict.fromkeys((each.target, each.kind) for each in outcomes if each.kind in others)
    for (target, kind), labelled, rule in itertools.product(targets, LABELS, RULES):
        some = [each for each in outcomes if (each.target, each.labelled, each.rule) == (target, labelled, rule)]
        if some:
            met = [each for each in some if each.level == "likely"]
            other = np.mean([each.reached[others[kind]] for each in some])
            held = np.mean([each.held for each in some])
            cells = (target, labelled, rule, f"{held:.2f}", f"{len(met) / len(some):.2f}", share(met), f"{other:.3f}")
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def written(sections: dict[str, list[str]]) -> str:
    """The page, with what stands there already of the sections that are not made anew."""
    parts = RESULTS.read_text().split("\n## ") if RESULTS.exists() else []
    kept = {part.partition("\n")[0]: part.rstrip() for part in parts[1:]}
    made = {title: "\n".join((title, "", *lines)) for title, lines in sections.items()}
    return "\n\n## ".join(("# Certificates and promises", *(kept | made).values())) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--unconfirmed", default="")
    parser.add_argument("--only", choices=("certificates", "chances", "abstaining"))
    given = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    warnings.simplefilter("ignore", ConvergenceWarning)
    chose = set(given.unconfirmed.split(","))
    certifying: list[Draw] = []
    outcomes: dict[str, list[Outcome]] = {}
    left: list[Abstained] = []
    names = []
    for name, X, y in sets(given.data):
        names.append(name)
        which = "sets that chose" if name in chose else "other sets"
        for labelled, seed in itertools.product(LABELS, range(given.draws)):
            case = draw(X, y, labelled, 1000 * seed + labelled)
            if case is None:
                continue
            if labelled == LABELS[-1] and given.only in (None, "certificates"):
                certifying.append(case)
            if given.only in (None, "abstaining"):
                left.extend(abstained(name, case))
            if given.only in (None, "chances"):
                outcomes.setdefault(which, []).extend(promises(case))
        print(name, flush=True)
    drawn = f"`python -P benchmarks/promises.py`, {given.draws} draws each of {', '.join(names)}."
    sections = {}
    if certifying:
        title = f"Certificates, confidence {CONFIDENCE:g}, {LABELS[-1]} labels, {UNLABELLED} unlabelled rows"
        sections[title] = [drawn, "", *certificates(certifying)]
    if left:
        sections["Rows left undecided, F1 with abstain"] = [drawn, "", *abstaining(left)]
    if outcomes:
        asked = f"Without a confidence; {len(PROMISED)} objectives, {', '.join(map(str, LABELS))} labels. Chosen on: "
        asked += (", ".join(sorted(chose & {*names})) or "other sets") + "."
        groups: dict[str, list[Outcome]] = {}
        for which, each in ((which, each) for which, some in outcomes.items() for each in some if each.rule == "auto"):
            for group in (which, f"{which}, {each.labelled} labels", f"{which}, {each.kind}"):
                groups.setdefault(group, []).append(each)
        sections["Chance, and how often the target held"] = [
            drawn,
            asked,
            "",
            *calibration(dict(sorted(groups.items()))),
        ]
        for which, some in outcomes.items():
            sections[f"Thresholds by which a target is likely to hold: {which}"] = thresholds(some)
    text = written(sections)
    RESULTS.write_text(text)
    print(text)


if __name__ == "__main__":
    main()

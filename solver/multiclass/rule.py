"""From probabilities of several classes to one of them, or to none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from solver.evaluation.intervals import clopper_pearson_lower
from solver.evaluation.splits import grouped_folds, is_grouped
from solver.multiclass.objective import ClassObjective
from solver.multiclass.problems import highest
from solver.repeated_rows import Cases
from solver.typing import BoolArray, FloatArray, IndexArray

UNDECIDED: Final = -1
_ROUNDS: Final = 3
_FOLDS: Final = 3
_LARGEST_WEIGHT: Final = 10.0
_MOST_ELEMENTS: Final = 2e7
"""Rows times squared classes that weights are chosen on."""
_FEWEST_ROWS: Final = 500


@dataclass(frozen=True)
class ClassRule:
    """Which class is said: the one of the highest weighed probability, or of the least expected cost, if it is sure.

    Attributes
    ----------
    weights : float64 array of shape (classes,)
        Factors on the probabilities.
    least : float64 array of shape (classes,)
        A class is said only where its probability is above this; infinite for one that is never said.
    counts : int array of shape (classes,)
        Labelled rows: among equals the larger class is said, then the first one.
    costs : float64 array of shape (classes, classes) or None
        By true class and class that is said.
    """

    weights: FloatArray
    least: FloatArray
    counts: IndexArray
    costs: FloatArray | None = None

    @classmethod
    def plain(cls, counts: IndexArray, costs: FloatArray | None = None) -> ClassRule:
        """The most probable class, or the cheapest."""
        return cls(np.ones(len(counts)), np.full(len(counts), -math.inf), counts, costs)

    def worth(self, probabilities: FloatArray) -> FloatArray:
        """What each class is worth, (n, classes): the weighed probability, or less the expected cost."""
        return probabilities * self.weights if self.costs is None else -(probabilities @ self.costs)

    def best(self, probabilities: FloatArray) -> IndexArray:
        """The class of each row, however sure it is."""
        return highest(self.worth(probabilities), self.counts)

    def says(self, probabilities: FloatArray) -> IndexArray:
        """The class of each row; -1 for those that are left undecided."""
        best = self.best(probabilities)
        sure = probabilities[np.arange(len(best)), best] > self.least[best]
        return np.where(sure, best, UNDECIDED)

    def to_json(self) -> dict[str, Any]:
        """All but the counts, which a model has besides."""
        never, bounded = self.least == math.inf, self.least > -math.inf
        told = {
            "weights": self.weights.tolist(),
            "least": np.where(bounded & ~never, self.least, -1.0).tolist(),
            "never": np.flatnonzero(never).tolist(),
        }
        return told if self.costs is None else told | {"costs": self.costs.tolist()}

    @classmethod
    def from_json(cls, told: Mapping[str, Any], counts: IndexArray) -> ClassRule:
        """Read what `to_json` gave; raises ValueError where it is not of so many classes."""
        weights, least = np.array(told["weights"], dtype=np.float64), np.array(told["least"], dtype=np.float64)
        costs = None if told.get("costs") is None else np.array(told["costs"], dtype=np.float64)
        k = len(counts)
        if not (weights.shape == least.shape == (k,) and (costs is None or costs.shape == (k, k))):
            raise ValueError(f"the rule is not of {k} classes")
        least[least < 0] = -math.inf
        least[np.array(told["never"], dtype=np.intp)] = math.inf
        return cls(weights, least, counts, costs)

    @property
    def may_leave_undecided(self) -> bool:
        """Whether there are rows that it gives no class."""
        return bool(np.any(self.least > 0))


def choose_rule(
    probabilities: FloatArray, codes: IndexArray, objective: ClassObjective, classes: list[Any], counts: IndexArray
) -> ClassRule:
    """Choose the rule that serves an objective on rows whose class is known.

    Parameters
    ----------
    probabilities : float64 array of shape (n, classes)
        By models that the rows did not train.
    codes : int array of shape (n,)
        Their classes.
    objective : ClassObjective
    classes : list
        Labels in the order of the codes.
    counts : int array of shape (classes,)
    """
    costs = objective.cost_matrix(classes) if objective.kind == "cost" else None
    rule = ClassRule.plain(counts, costs)
    if objective.kind == "macro_f1":
        rule = replace(rule, weights=_steady_weights(probabilities, codes, rule))
    rule = _with_recalls(rule, probabilities, codes, objective, classes)
    return _with_precisions(rule, probabilities, codes, objective, classes)


def macro_f1(codes: IndexArray, said: IndexArray, classes: int) -> float:
    """Mean of the F1 of each class that is there or is said; of one that never is right it is 0."""
    right = np.bincount(codes[said == codes], minlength=classes)
    relevant = np.bincount(codes, minlength=classes) + np.bincount(said[said >= 0], minlength=classes)
    there = relevant > 0
    return float(np.mean(2 * right[there] / relevant[there])) if there.any() else 0.0


def _steady_weights(probabilities: FloatArray, codes: IndexArray, rule: ClassRule) -> FloatArray:
    """Weights for macro-F1: the mean of those that parts of the rows choose, if the other rows show that they help."""
    n, classes = probabilities.shape
    most = max(_FEWEST_ROWS, int(_MOST_ELEMENTS / classes**2))
    if n > most:
        some = np.sort(np.random.default_rng(0).choice(n, most, replace=False))
        probabilities, codes, n = probabilities[some], codes[some], most
    fold = dealt(codes, _FOLDS, np.random.default_rng(0))
    found, gains = [], []
    for number in range(_FOLDS):
        learns, judges = fold != number, fold == number
        weights = _weights(probabilities[learns], codes[learns], rule)
        found.append(np.log(weights))
        plain, weighed = (
            macro_f1(codes[judges], each.best(probabilities[judges]), classes)
            for each in (rule, replace(rule, weights=weights))
        )
        gains.append(weighed - plain)
    error = float(np.std(gains, ddof=1)) / math.sqrt(_FOLDS)
    if float(np.mean(gains)) <= error:
        return rule.weights
    return np.asarray(np.exp(np.mean(found, axis=0)))


def dealt(codes: IndexArray, folds: int, seed: np.random.Generator) -> IndexArray:
    """Fold of each row, with the rows of each class dealt evenly; a class of fewer rows is not in every fold."""
    order = seed.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    fold = np.empty(len(codes), dtype=np.intp)
    fold[order] = np.arange(len(codes)) % folds
    return fold


def dealt_by_case(codes: IndexArray, folds: int, seed: np.random.Generator, cases: Cases) -> IndexArray:
    """Fold of each row as `dealt`, where all rows of a case are in one fold, by the row that stands for it."""
    own = None if cases.groups is None else cases.groups[cases.stands_for]
    return dealt_in_groups(codes[cases.stands_for], folds, seed, own)[cases.case]


def dealt_in_groups(codes: IndexArray, folds: int, seed: np.random.Generator, groups: IndexArray | None) -> IndexArray:
    """Fold of each row as `dealt`, with rows of one group in one fold, unless a class would be in one fold only."""
    if groups is not None and is_grouped(groups):
        fold = grouped_folds(codes, groups, folds, seed)
        pairs = np.unique(codes * folds + fold) // folds
        if np.bincount(pairs)[np.unique(codes)].min() > 1:
            return fold
    return dealt(codes, folds, seed)


def _weights(probabilities: FloatArray, codes: IndexArray, rule: ClassRule) -> FloatArray:
    """Weights by which macro-F1 is highest, one class after the other."""
    weights = rule.weights.copy()
    classes = len(weights)
    for _ in range(_ROUNDS):
        before = weights.copy()
        for k in range(classes):
            weights[k] = _best_weight(probabilities, codes, weights, k)
        weights /= np.exp(np.mean(np.log(weights)))
        if np.allclose(before, weights):
            break
    return weights


def _best_weight(probabilities: FloatArray, codes: IndexArray, weights: FloatArray, k: int) -> float:
    """The weight of one class by which macro-F1 is highest, the others being what they are."""
    n, classes = probabilities.shape
    worth = probabilities * weights
    worth[:, k] = -1.0
    other = np.argmax(worth, axis=1)
    with np.errstate(divide="ignore"):
        turns = worth[np.arange(n), other] / np.maximum(probabilities[:, k], 1e-300)
    order = np.argsort(turns, kind="stable")
    own, rival = codes[order], other[order]
    there = np.bincount(codes, minlength=classes).astype(np.float64)
    # the first so many rows of the order go to k, the others to their rivals
    to_k = np.arange(n + 1, dtype=np.float64)
    right_k = np.concatenate([[0.0], np.cumsum(own == k)])
    total = 2 * right_k / np.maximum(there[k] + to_k, 1.0) + _of_rivals(own, rival, there)
    # between two rows, as far from both as can be, and near 1 among equals
    edges = np.concatenate([[1 / _LARGEST_WEIGHT], np.clip(turns[order], 1 / _LARGEST_WEIGHT, _LARGEST_WEIGHT)])
    upper = np.append(edges[1:], _LARGEST_WEIGHT)
    middles = np.sqrt(edges * upper)
    possible = upper > edges
    if not possible.any():
        return float(weights[k])
    total = np.where(possible, total, -np.inf)
    best = np.flatnonzero(total >= total.max() - 1e-12)
    return float(middles[best[np.argmin(np.abs(np.log(middles[best])))]])


def _of_rivals(own: IndexArray, rival: IndexArray, there: FloatArray) -> FloatArray:
    """Sum of the F1 of all rivals where the first 0, 1, … rows are taken from them, (n + 1,).

    A row that is taken changes the F1 of its own rival alone.
    """
    n, classes = len(own), len(there)
    said = np.bincount(rival, minlength=classes).astype(np.float64)
    right = np.bincount(rival[rival == own], minlength=classes).astype(np.float64)
    by_rival = np.argsort(rival, kind="stable")
    first = np.concatenate([[0], np.cumsum(said)[:-1]]).astype(np.intp)
    mine = rival[by_rival]
    # of each row: how many of its rival's have been taken, with it, and how many of them were right
    taken = np.arange(1, n + 1) - first[mine]
    hits = np.concatenate([[0.0], np.cumsum(own[by_rival] == mine)])
    lost = hits[1:] - hits[first[mine]]
    after = 2 * (right[mine] - lost) / np.maximum(there[mine] + said[mine] - taken, 1.0)
    of_none = 2 * right / np.maximum(there + said, 1.0)
    before = np.concatenate([[0.0], after[:-1]])
    starts = taken == 1
    before[starts] = of_none[mine[starts]]
    change = np.empty(n)
    change[by_rival] = after - before
    return np.asarray(of_none[said > 0].sum() + np.concatenate([[0.0], np.cumsum(change)]))


def _with_recalls(
    rule: ClassRule, probabilities: FloatArray, codes: IndexArray, objective: ClassObjective, classes: list[Any]
) -> ClassRule:
    """Raise the weights of classes that find too few of their rows."""
    wanted = _floors(objective, "recall", classes)
    weights = rule.weights.copy()
    for _ in range(_ROUNDS if wanted else 0):
        for k, target in wanted.items():
            mine = codes == k
            n = int(np.count_nonzero(mine))
            if not n:
                continue
            worth = probabilities[mine] * weights
            worth[:, k] = -1.0
            turns = np.sort(worth.max(axis=1) / np.maximum(probabilities[mine, k], 1e-300))
            needed = _fewest_found(n, target, _level(objective))
            if needed > n:
                needed = n
            # just above the row that has to be found, halfway to the next one
            upper = turns[needed] if needed < n else 2 * turns[needed - 1]
            weights[k] = max(
                weights[k], math.sqrt(turns[needed - 1] * upper), math.nextafter(turns[needed - 1], math.inf)
            )
    return replace(rule, weights=weights)


def _with_precisions(
    rule: ClassRule, probabilities: FloatArray, codes: IndexArray, objective: ClassObjective, classes: list[Any]
) -> ClassRule:
    """Say a class only of rows that are sure enough of it."""
    wanted = _floors(objective, "precision", classes)
    least = rule.least.copy()
    best = rule.best(probabilities)
    for k, target in wanted.items():
        mine = best == k
        least[k] = _least_probability(probabilities[mine, k], codes[mine] == k, target, _level(objective))
    return replace(rule, least=least)


def _floors(objective: ClassObjective, measure: str, classes: list[Any]) -> dict[int, float]:
    """The floors of a measure, by the code of the class."""
    return {classes.index(label): each[measure] for label, each in objective.floors.items() if measure in each}


def _level(objective: ClassObjective) -> float | None:
    """Confidence in each floor by which all of them hold together (Bonferroni)."""
    return None if objective.confidence is None else 1 - (1 - objective.confidence) / len(objective.floors)


def holds(right: int, rows: int, target: float, objective: ClassObjective) -> bool:
    """Whether a floor is reached: by the share itself, or with the asked confidence by its exact lower bound."""
    if rows == 0:
        return False
    level = _level(objective)
    return right / rows >= target if level is None else float(clopper_pearson_lower(right, rows, level)) >= target


def _least_probability(probability: FloatArray, right: BoolArray, target: float, level: float | None) -> float:
    """The probability above which most rows are called and the share of right ones is high enough; inf if none is."""
    if not len(probability):
        return math.inf
    order = np.argsort(-probability, kind="stable")
    rows = np.arange(1, len(order) + 1)
    hits = np.cumsum(right[order])
    reached = hits / rows if level is None else clopper_pearson_lower(hits, rows, level)
    falling = probability[order]
    ends = np.append(falling[:-1] > falling[1:], True)
    good = np.flatnonzero((reached >= target) & ends)
    if not len(good):
        return math.inf
    last = int(good[-1])
    return -math.inf if last == len(order) - 1 else float((falling[last] + falling[last + 1]) / 2)


def _fewest_found(n: int, target: float, level: float | None) -> int:
    """Of so many rows, how many have to be found for a recall; one more than there are if none suffice."""
    if level is None:
        return min(n, math.ceil(target * n - 1e-9)) or 1
    found = np.flatnonzero(clopper_pearson_lower(np.arange(n + 1), np.full(n + 1, n), level) >= target)
    return int(found[0]) if len(found) else n + 1

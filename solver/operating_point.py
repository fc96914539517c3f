"""From an objective (a precision, recall, F or cost goal) to the threshold of a decision `score > threshold`.

The rules work on calibration scores of any classifier: scores of rows that the scored model was not trained on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solver import percents
from solver.cautious_threshold import cautious_position, is_beyond
from solver.chances import LIKELY, WORTH_FOR_CHANCES, Share
from solver.choices import TARGET_KINDS, Certificate, ThresholdRule, rate_name
from solver.evaluation.counts import ConfusionCounts, ConfusionTables, confusion
from solver.evaluation.curves import OperatingCurve
from solver.evaluation.intervals import clopper_pearson_lower
from solver.evaluation.probability import Sigmoid, fit_sigmoid
from solver.steady_threshold import cheapest, steady_position
from solver.typing import BoolArray, FloatArray, IndexArray

ObjectiveKind = Literal[
    "precision", "recall", "precision_recall", "false_positive_rate", "ham_loss", "f1", "f_beta", "cost"
]
PointStatus = Literal["met", "preference_unmet", "cannot_certify"]

OBJECTIVE_KINDS: Final[tuple[ObjectiveKind, ...]] = get_args(ObjectiveKind)
THRESHOLD_RULES: Final[tuple[ThresholdRule, ...]] = get_args(ThresholdRule)
CERTIFICATES: Final[tuple[Certificate, ...]] = get_args(Certificate)

# kinds that the threshold rule of the PSVM paper knows
_OF_THE_PAPER: Final = ("precision", "recall", "precision_recall", "f1")

# level of the lower bounds when a bounding rule is asked for and the objective names no confidence
RULE_CONFIDENCE: Final = 0.9

_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "precision": ("target",),
    "recall": ("target",),
    "precision_recall": ("precision", "recall"),
    "false_positive_rate": ("at_most",),
    "ham_loss": ("at_most",),
    "f1": (),
    "f_beta": ("beta",),
    "cost": ("false_negative", "false_positive"),
}
# With fewer negative calibration rows no precision is said to be reached: with a false positive rate of 44 %, chance
# still calls none of four positive one time in ten.
FEWEST_NEGATIVES: Final = 5

# comparing k/n with a target that was typed as a decimal: 0.9 must be met by 9 of 10
_SLACK: Final = 1e-12
# the fixed-sequence grid steps through the share of rows predicted positive in this ratio
_GRID_RATIO: Final = 1.1


class ObjectiveError(ValueError):
    """An objective that cannot be used; `field` names the part that is wrong (None: the whole)."""

    def __init__(self, field: str | None, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class Abstain:
    """When a row is called neither positive nor negative, see `solver.abstention`.

    Attributes
    ----------
    precision : float
        Of the rows called positive such a share shall be so, and of those called negative, too; in (0.5, 1).
    """

    precision: float

    @classmethod
    def parse(cls, value: Any) -> Abstain:
        """Check what came from outside; raises `ObjectiveError`."""
        if isinstance(value, Abstain):
            return value
        if not isinstance(value, Mapping) or value.keys() != {"precision"}:
            raise ObjectiveError("abstain", 'abstain must be a mapping such as {"precision": 0.98}')
        precision = _number("precision", value["precision"])
        if not 0.5 < precision < 1:
            raise ObjectiveError("abstain", f"the precision of abstain must lie in (0.5, 1), got {precision:g}")
        return cls(precision)


@dataclass(frozen=True)
class Objective:
    """What the threshold is chosen for.

    Attributes
    ----------
    kind : str
        `precision` or `recall` (reach `target` with the best F1), `precision_recall` (reach both `precision` and
        `recall`, also where the two are equal; the PSVM paper's "specify both to be 1" is `f1` here),
        `false_positive_rate` (of the negative rows at most the share `at_most` is called positive, with the best F1;
        `ham_loss` is the word of mail filters for it), `f1`, `f_beta` (with `beta`), `cost` (lowest mean cost with
        `false_negative`, `false_positive`).
    confidence : float or None
        With a target: it shall hold on new rows with this probability.
    certificate : str or None
        With a confidence, by which rows: `cross_fitted` (what None means) tests on all labelled rows, each scored by a
        model that left it out; `strict` on a half of them that nothing in training has looked at.
    abstain : Abstain or None
        Whether rows are left undecided on both sides of the threshold. The threshold is the same without it.
    """

    kind: ObjectiveKind = "f1"
    target: float | None = None
    precision: float | None = None
    recall: float | None = None
    at_most: float | None = None
    beta: float | None = None
    false_negative: float | None = None
    false_positive: float | None = None
    confidence: float | None = None
    certificate: Certificate | None = None
    abstain: Abstain | None = None

    @classmethod
    def parse(cls, value: Objective | str | Mapping[str, Any]) -> Objective:
        """Check an objective from outside.

        Parameters
        ----------
        value : Objective, str or mapping
            `"f1"`, or a mapping as in the HTTP contract, such as `{"kind": "recall", "target": 0.95}`.

        Raises
        ------
        ObjectiveError
            Names the field that is wrong and what was expected.
        """
        if isinstance(value, Objective):
            value = value.to_dict()
        if isinstance(value, str):
            value = {"kind": value}
        if not isinstance(value, Mapping):
            raise ObjectiveError(None, f"the objective must be a name or a mapping, got {type(value).__name__}")
        kind = value.get("kind")
        if kind not in OBJECTIVE_KINDS:
            raise ObjectiveError("kind", f"objective kind must be one of {', '.join(OBJECTIVE_KINDS)}, got {kind!r}")
        fields = _FIELDS[kind]
        given = {name: part for name, part in value.items() if name != "kind" and part is not None}
        for name in given:
            if name not in (*fields, "confidence", "certificate", "abstain"):
                raise ObjectiveError(str(name), f"objective {kind!r} takes no {name!r}")
        for name in fields:
            if name not in given:
                raise ObjectiveError(name, f"objective {kind!r} needs {name!r}")
        certificate, abstain = given.pop("certificate", None), given.pop("abstain", None)
        numbers = {name: _number(name, part) for name, part in given.items()}
        for name in {"target", "precision", "recall"} & numbers.keys():
            if not 0 < numbers[name] <= 1:
                raise ObjectiveError(name, f"{name} must lie in (0, 1], got {numbers[name]:g}")
        if not 0 < numbers.get("at_most", 0.5) < 1:
            raise ObjectiveError("at_most", f"at_most must lie in (0, 1), got {numbers['at_most']:g}")
        for name in {"beta", "false_negative", "false_positive"} & numbers.keys():
            if not numbers[name] > 0:
                raise ObjectiveError(name, f"{name} must be greater than 0, got {numbers[name]:g}")
        if "confidence" in numbers:
            if kind not in TARGET_KINDS:
                raise ObjectiveError("confidence", f"a confidence needs a target, which {kind!r} has not")
            if not 0 < numbers["confidence"] < 1:
                raise ObjectiveError("confidence", f"confidence must lie in (0, 1), got {numbers['confidence']:g}")
        if certificate is not None:
            if certificate not in CERTIFICATES:
                expected = ", ".join(CERTIFICATES)
                raise ObjectiveError("certificate", f"certificate must be one of {expected}, got {certificate!r}")
            if "confidence" not in numbers:
                raise ObjectiveError("certificate", "a certificate needs a confidence")
        abstaining = None if abstain is None else Abstain.parse(abstain)
        return cls(kind=kind, **numbers, certificate=certificate, abstain=abstaining)

    def to_dict(self) -> dict[str, Any]:
        """The mapping form, without the parts that are not set."""
        made = {name: value for name, value in vars(self).items() if value is not None}
        return made if self.abstain is None else made | {"abstain": {"precision": self.abstain.precision}}

    @property
    def precision_target(self) -> float:
        """Wanted precision p_g; 0 when none is wanted."""
        if self.kind == "precision":
            return self.target or 0.0
        return self.precision or 0.0

    @property
    def recall_target(self) -> float:
        """Wanted recall r_g; 0 when none is wanted."""
        if self.kind == "recall":
            return self.target or 0.0
        return self.recall or 0.0

    @property
    def specificity_target(self) -> float:
        """Wanted share of the negative rows that are not called positive; 0 when none is wanted."""
        return 0.0 if self.at_most is None else 1.0 - self.at_most

    @property
    def targets(self) -> dict[str, float]:
        """What measures have to be at least, by name: `precision`, `recall`, both, `specificity` or none.

        A false positive rate of at most r is a specificity of at least 1 - r.
        """
        wanted = {
            "precision": self.precision_target,
            "recall": self.recall_target,
            "specificity": self.specificity_target,
        }
        return {name: target for name, target in wanted.items() if target > 0}

    @property
    def targets_in_words(self) -> str:
        """The targets as people say them."""
        return " and ".join(
            f"a {rate_name(self.kind)} of at most {percents.asked(self.at_most or 0.0)}"
            if name == "specificity"
            else target_words(name, target)
            for name, target in self.targets.items()
        )

    @property
    def costs(self) -> tuple[float, float] | None:
        """(false negative, false positive), when the objective is a cost."""
        if self.false_negative is None or self.false_positive is None:
            return None
        return self.false_negative, self.false_positive

    def value(self, counts: ConfusionCounts) -> float:
        """What is maximised once the targets are met: F1, F_β or minus the mean cost."""
        if self.costs is not None:
            return -counts.cost(*self.costs) / max(counts.total, 1)
        return counts.f_beta(self.beta or 1.0)

    def utility(self, counts: ConfusionCounts) -> float:
        """One number to compare decisions by: the value, less what is missing to the targets."""
        missing: float = sum(max(0.0, target - getattr(counts, name)) for name, target in self.targets.items())
        return self.value(counts) - missing

    def utilities(self, tables: ConfusionTables) -> FloatArray:
        """The `utility` of many decisions."""
        missing = np.zeros(np.shape(tables.total))
        for name, target in self.targets.items():
            missing += np.maximum(0.0, target - getattr(tables, name))
        values: FloatArray
        if self.costs is not None:
            values = -tables.cost(*self.costs) / np.maximum(tables.total, 1) - missing
        else:
            values = tables.f_beta(self.beta or 1.0) - missing
        return values

    def is_met(self, counts: ConfusionCounts) -> bool:
        """Whether the targets (if any) hold on these counts."""
        return all(getattr(counts, name) >= target - _SLACK for name, target in self.targets.items())

    def rank(self, counts: ConfusionCounts) -> tuple[float, ...]:
        """Sort key of a decision: the greater tuple serves the objective better.

        Targets met come first, then (all met) the value; while a single target is missed, its measure, then the value.
        """
        targets = [(getattr(counts, name), target) for name, target in self.targets.items()]
        met = sum(measure >= target - _SLACK for measure, target in targets)
        if len(targets) == 1 and met == 0:
            return (0.0, targets[0][0], self.value(counts))
        return (float(met), self.value(counts))


def target_words(name: str, target: float, kind: str = "false_positive_rate") -> str:
    """Say what was asked of a measure: of a specificity what is missing to one, by the name that was asked for it."""
    return (
        f"{rate_name(kind)} {percents.asked(_complement(target))}"
        if name == "specificity"
        else f"{name} {percents.asked(target)}"
    )


def measure_words(name: str, value: float, target: float, kind: str = "false_positive_rate") -> str:
    """Say a measure beside its target, as `target_words` does: where it is short of that, the two read unlike."""
    word, reached, wanted = name, value, target
    if name == "specificity":
        word, reached, wanted = rate_name(kind), _complement(value), _complement(target)
    return f"{word} {percents.measured(reached, wanted if value < target - _SLACK else None)}"


def _bound_words(name: str, bound: float, kind: str) -> str:
    """Say what a measure can be counted on to be, rounded to the safe side."""
    return (
        f"{rate_name(kind)} {percents.at_most(_complement(bound))}"
        if name == "specificity"
        else f"{name} {percents.at_least(bound)}"
    )


def _complement(share: float) -> float:
    """One minus a share, without the digits that rounding leaves behind."""
    return round(1.0 - share, 12)


@dataclass(frozen=True)
class ChosenThreshold:
    """A chosen threshold.

    Attributes
    ----------
    threshold : float
        A row is positive when its score is strictly above it.
    counts : ConfusionCounts
        What the threshold decides on the calibration rows.
    status : str
        `met`, `preference_unmet` (the target is not reached on the calibration rows) or `cannot_certify` (reached
        there, but not with the asked confidence, or a precision on too few negative rows to mean anything).
    reason : str
        One sentence when the status is not `met`, otherwise empty.
    """

    threshold: float
    counts: ConfusionCounts
    status: PointStatus
    reason: str


def choose_threshold(
    scores: ArrayLike,
    y: ArrayLike,
    objective: Objective,
    rule: ThresholdRule = "auto",
    *,
    reference_scores: ArrayLike | None = None,
    positive_share: float | None = None,
    resolution: float = 0.0,
) -> ChosenThreshold:
    """Choose the threshold that serves an objective on calibration rows.

    Parameters
    ----------
    scores : float array of shape (n,), n >= 1, finite
        Scores of rows that the scored model was not trained on.
    y : array of shape (n,)
        Positive where > 0.
    objective : Objective
    rule : str, default "auto"
        `auto`: for F1, F_β and costs a threshold that evens out the chance in few rows, see `solver.steady_threshold`;
        for targets the best value among the thresholds by which they are likely to hold on new rows, see
        `solver.chances`, and where there is none, or a precision is asked for by scores no better than chance, as
        `f1max`; a false positive rate that the rows are too few to show: see `solver.cautious_threshold`.
        `f1max`: the best value (F1, F_β, lowest cost) among the thresholds that meet the targets. `paper`: the
        adjusting rule of PSVM, which raises the lower of precision and recall to the other one's value. `lcb`: as
        `f1max` with the measure of the target replaced by its Clopper–Pearson lower bound. `fixed-sequence`: tests a
        grid that does not depend on the labels in a fixed order and stops at the first failure, so the target holds
        with the objective's confidence on rows from the same distribution. `zero`: threshold 0.
    reference_scores : float array, optional
        For `fixed-sequence`: scores without labels that define its grid. Default: `scores`.
    positive_share : float, optional
        For `fixed-sequence`: share of positives, known from rows other than the calibration rows; sets the start of
        the grid. Required there.
    resolution : float, default 0
        How accurate the scores are: those that lie together within so much are never parted. See
        `OperatingCurve.from_scores`.

    Raises
    ------
    ValueError
        If the rule does not go with the objective, or the scores are empty or not finite.

    Notes
    -----
    The measures of the returned point were maximised on these rows and are optimistic, except that the statement of
    `fixed-sequence` is valid as it stands.
    """
    check_rule(rule, objective)
    curve = OperatingCurve.from_scores(scores, y, resolution)
    values = np.asarray(scores, dtype=np.float64)
    if rule == "zero":
        return _point(0.0, confusion(y, values > 0), objective)
    if rule == "paper":
        return _from_position(*_paper(curve.with_threshold(0.0, values), objective), objective)
    if rule == "fixed-sequence":
        if positive_share is None:
            raise ValueError("fixed-sequence needs positive_share, the share of positives known from other rows")
        reference = values if reference_scores is None else np.asarray(reference_scores, dtype=np.float64)
        return _fixed_sequence(
            values, np.asarray(y), curve, objective, _grid(reference, positive_share, objective, resolution)
        )
    sigmoid = None
    if objective.costs is not None and min(curve.positives, curve.negatives) > 0:
        sigmoid = fit_sigmoid(values, y)
    return choose_from_curve(curve, objective, rule, sigmoid)


def choose_from_curve(
    curve: OperatingCurve, objective: Objective, rule: ThresholdRule = "auto", probability: Sigmoid | None = None
) -> ChosenThreshold:
    """As `choose_threshold`, from a stored operating curve, for the rules that need nothing else.

    Parameters
    ----------
    curve : OperatingCurve
    objective : Objective
    rule : {"auto", "f1max", "lcb"}
    probability : Sigmoid, optional
        Fitted on the rows of the curve. Without it `auto` chooses for a cost as `f1max` does.
    """
    check_rule(rule, objective)
    if rule == "lcb":
        return _lower_bound(curve, objective)
    if rule == "auto" and objective.costs is not None and probability is not None:
        threshold, position = cheapest(curve, *objective.costs, probability)
        return _point(threshold, curve.counts(position), objective)
    if rule == "auto" and objective.kind in ("f1", "f_beta") and curve.positives > 0:
        return _from_position(curve, steady_position(curve, objective.beta or 1.0), objective)
    if rule == "auto" and objective.targets:
        return _from_position(curve, _likely_position(curve, objective), objective)
    if rule in ("auto", "f1max"):
        return _from_position(curve, _best_position(curve, objective), objective)
    raise ValueError(f"rule {rule!r} needs the scores; a curve serves auto, f1max and lcb")


def point_at(curve: OperatingCurve, threshold: float, objective: Objective) -> ChosenThreshold | None:
    """Return the outcome of a threshold of the curve for an objective; None if the curve does not have it.

    Somebody has picked it, so that it certifies nothing.
    """
    found = np.flatnonzero(curve.thresholds == threshold)
    return _from_position(curve, int(found[0]), objective) if found.size else None


def certify_from_curve(curve: OperatingCurve, objective: Objective, positive_share: float) -> ChosenThreshold:
    """As `choose_threshold` with `fixed-sequence`, from a stored operating curve; its own rows define the grid.

    The certificate holds for an objective that was not chosen by looking at the curve.

    Parameters
    ----------
    curve : OperatingCurve
        Of rows that nothing has looked at in training.
    objective : Objective
        With a target.
    positive_share : float
        Share of positives, known from other rows.
    """
    check_rule("fixed-sequence", objective)
    return _test_in_order(curve.at(_positions_to_test(curve, positive_share, objective)), curve, objective)


def passed_in_order(curve: OperatingCurve, objective: Objective, positive_share: float) -> IndexArray:
    """Positions on a curve that pass the test of `certify_from_curve`, which certifies them all at once."""
    check_rule("fixed-sequence", objective)
    positions = _positions_to_test(curve, positive_share, objective)
    return positions[_passed(curve.at(positions), objective)]


def check_rule(rule: str, objective: Objective) -> None:
    """Raise ValueError when a threshold rule is unknown or does not go with the objective."""
    if rule not in THRESHOLD_RULES:
        raise ValueError(f"threshold_rule must be one of {', '.join(THRESHOLD_RULES)}, got {rule!r}")
    if rule == "paper" and objective.kind not in _OF_THE_PAPER:
        raise ValueError(f"threshold_rule 'paper' knows precision, recall and F1, not objective {objective.kind!r}")
    if rule in ("lcb", "fixed-sequence") and objective.kind not in TARGET_KINDS:
        raise ValueError(f"threshold_rule {rule!r} needs a target, which objective {objective.kind!r} has not")


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ObjectiveError(name, f"{name} must be a number, got {type(value).__name__}")
    number = float(value)
    if not math.isfinite(number):
        raise ObjectiveError(name, f"{name} must be finite")
    return number


def _point(threshold: float, counts: ConfusionCounts, objective: Objective) -> ChosenThreshold:
    if objective.is_met(counts):
        if objective.precision_target > 0 and counts.negatives < FEWEST_NEGATIVES:
            reason = (
                f"Only {counts.negatives} of the {counts.total} calibration rows are negative, too few to speak of a "
                f"precision: label more of them, at least {FEWEST_NEGATIVES}."
            )
            return ChosenThreshold(threshold, counts, "cannot_certify", reason)
        return ChosenThreshold(threshold, counts, "met", "")
    missed = [
        _missed_words(name, getattr(counts, name), target, objective.kind)
        for name, target in objective.targets.items()
        if getattr(counts, name) < target - _SLACK
    ]
    # too high a rate is nothing that was reached "only"
    verb = "have" if objective.specificity_target > 0 else "reach only"
    return ChosenThreshold(
        threshold, counts, "preference_unmet", f"The calibration rows {verb} {' and '.join(missed)}."
    )


def _missed_words(name: str, reached: float, target: float, kind: str) -> str:
    if name == "specificity":
        wanted = _complement(target)
        rate = percents.measured(_complement(reached), wanted)
        return f"a {rate_name(kind)} of {rate} where at most {percents.asked(wanted)} was asked"
    return f"{name} {percents.measured(reached, target)} where {percents.asked(target)} was asked"


def _from_position(curve: OperatingCurve, position: int, objective: Objective) -> ChosenThreshold:
    return _point(float(curve.thresholds[position]), curve.counts(position), objective)


def _value(curve: OperatingCurve, objective: Objective) -> FloatArray:
    if objective.costs is not None:
        return -curve.cost(*objective.costs)
    return curve.f_beta(objective.beta or 1.0)


def _best_position(curve: OperatingCurve, objective: Objective) -> int:
    """The candidate of the best value among those that meet the targets; if none does, the nearest miss."""
    targets, value = objective.targets, _value(curve, objective)
    if not targets:
        return int(np.argmax(value))
    useful = curve.true_positives > 0
    measured: dict[str, FloatArray] = {name: getattr(curve, name) for name in targets}
    feasible = useful & (_reached(objective, measured) >= -_SLACK)
    if feasible.any():
        return _argmax_where(value, feasible)
    if not useful.any():
        return len(curve) - 1
    if len(targets) > 1:
        miss = np.max([(target - measured[name]) / target for name, target in targets.items()], axis=0)
        return _argmax_where(-miss, useful)
    if "recall" in targets:
        return _argmax_where(measured["recall"], useful)
    return _lowest_of_best(measured.popitem()[1], useful)


def _likely_position(curve: OperatingCurve, objective: Objective) -> int:
    """The best value among the candidates by which the targets are likely to hold; none does: the best of all.

    One that just reaches a target on the calibration rows misses it on new rows about as often as not. Of scores that
    tell the labels apart no better than chance, some candidate among many always looks likely to reach a precision that
    is a little above the share of positives.
    """
    if objective.precision_target > 0 and not curve.is_better_than_chance:
        return _best_position(curve, objective)
    chance = np.ones(len(curve))
    for name, target in objective.targets.items():
        hits, trials = curve.proportion(name)
        chance *= Share(WORTH_FOR_CHANCES * hits, WORTH_FOR_CHANCES * (trials - hits)).above(target)
    reached = _reached(objective, {name: getattr(curve, name) for name in objective.targets}) >= -_SLACK
    likely = (chance >= LIKELY) & reached & (curve.true_positives > 0)
    return _argmax_where(_value(curve, objective), likely) if likely.any() else _unshown_position(curve, objective)


def _unshown_position(curve: OperatingCurve, objective: Objective) -> int:
    """The candidate that is taken where the rows do not show that the targets hold on new ones."""
    at_most = objective.at_most
    if at_most is not None and min(curve.positives, curve.negatives) > 0 and is_beyond(curve, at_most):
        return cautious_position(curve, at_most)
    return _best_position(curve, objective)


def _argmax_where(value: FloatArray, allowed: BoolArray) -> int:
    """Position of the largest allowed value, the highest threshold among equals."""
    return int(np.argmax(np.where(allowed, value, -np.inf)))


def _lowest_of_best(measure: FloatArray, allowed: BoolArray) -> int:
    """Position where a measure is greatest; among equals the lowest threshold, which has the highest recall."""
    restricted = np.where(allowed, measure, -np.inf)
    return int(np.flatnonzero(restricted >= restricted.max() - _SLACK)[-1])


def _paper(curve: OperatingCurve, objective: Objective) -> tuple[OperatingCurve, int]:
    """θ₊ of the PSVM paper. `curve` holds 0 as a candidate."""
    zero = int(np.flatnonzero(curve.thresholds == 0.0)[0])
    p_goal, r_goal = objective.precision_target, objective.recall_target
    if p_goal > 0 and r_goal > 0:
        # not in the paper: with two different targets there is no single measure to adjust
        return curve, _best_position(curve, objective)
    precision, recall = curve.precision, curve.recall
    useful = curve.true_positives > 0

    def raise_precision(goal: float) -> int:
        """Smallest θ >= 0 with this precision, otherwise the most precise one."""
        allowed = useful & (curve.thresholds >= 0)
        if not allowed.any():
            allowed = useful
        if not allowed.any():
            return zero
        enough = np.flatnonzero(allowed & (precision >= goal - _SLACK))
        return int(enough[-1]) if len(enough) else _lowest_of_best(precision, allowed)

    def raise_recall(goal: float) -> int:
        """Largest θ <= 0 with this recall."""
        enough = np.flatnonzero((curve.thresholds <= 0) & (recall >= goal - _SLACK))
        return int(enough[0]) if len(enough) else len(curve) - 1

    def improve_f1() -> int:
        p0, r0 = precision[zero], recall[zero]
        if p0 == r0 == 0:
            return _best_position(curve, Objective())
        if p0 < r0:
            return raise_precision(r0)
        return raise_recall(p0) if r0 < p0 else zero

    if p_goal > 0:
        if precision[zero] < p_goal - _SLACK:
            return curve, raise_precision(p_goal)
        # Larger positions are lower thresholds. Recall is raised only as long as the precision keeps its target.
        lowest = int(np.flatnonzero(useful & (precision >= p_goal - _SLACK))[-1])
        return curve, min(improve_f1(), lowest)
    if r_goal > 0:
        if recall[zero] < r_goal - _SLACK:
            return curve, raise_recall(r_goal)
        highest = int(np.flatnonzero(recall >= r_goal - _SLACK)[0])
        return curve, max(improve_f1(), highest)
    return curve, improve_f1()


def _lower_bounds(objective: Objective, curve: OperatingCurve) -> dict[str, FloatArray]:
    """Clopper–Pearson lower bounds of each measure that the objective has a target for."""
    confidence = objective.confidence or RULE_CONFIDENCE
    return {name: clopper_pearson_lower(*curve.proportion(name), confidence) for name in objective.targets}


def _reached(objective: Objective, measures: Mapping[str, FloatArray]) -> FloatArray:
    """By how much each candidate exceeds the target that it is closest to; negative where it misses one."""
    return np.asarray(np.min([measures[name] - target for name, target in objective.targets.items()], axis=0))


def _lower_bound(curve: OperatingCurve, objective: Objective) -> ChosenThreshold:
    bounds = _lower_bounds(objective, curve)
    feasible = _reached(objective, bounds) >= -_SLACK
    if feasible.any():
        return _from_position(curve, _argmax_where(curve.f_beta(), feasible), objective)
    return _uncertified(curve, objective)


def _fixed_sequence(
    scores: FloatArray,
    y: NDArray[Any],
    curve: OperatingCurve,
    objective: Objective,
    grid: FloatArray,
) -> ChosenThreshold:
    """Fixed-sequence testing: the family-wise error is at most 1 - confidence without any correction.

    The tests are `true measure < target`, one for each threshold of a grid; grid, order and start use no label of these
    rows, and the first test that fails ends the sequence (Angelopoulos et al. 2021, "Learn then test", section 2.3).
    """
    truth = y > 0
    admits = scores[None, :] > grid[:, None]
    hits = (admits & truth[None, :]).sum(axis=1, dtype=np.int64)
    alarms = admits.sum(axis=1, dtype=np.int64) - hits
    return _test_in_order(OperatingCurve(grid, hits, alarms, curve.positives, curve.negatives), curve, objective)


def _test_in_order(tested: OperatingCurve, curve: OperatingCurve, objective: Objective) -> ChosenThreshold:
    """Test thresholds in their order until one fails; return the best of those that passed."""
    passed = _passed(tested, objective)
    if len(passed) == 0:
        return _uncertified(curve, objective)
    # every threshold that passed is certified at once: take the one with the best F1
    counts = [tested.counts(int(position)) for position in passed]
    chosen = max(range(len(passed)), key=lambda position: counts[position].f1)
    return ChosenThreshold(float(tested.thresholds[passed[chosen]]), counts[chosen], "met", "")


def _passed(tested: OperatingCurve, objective: Objective) -> IndexArray:
    """Which of the thresholds in the order of testing come before the first one that fails."""
    target = objective.precision_target
    order = np.arange(len(tested))
    if target > 0:
        confidence = objective.confidence or RULE_CONFIDENCE
        # a threshold that admits fewer rows cannot pass even without an error; counting them needs no label
        needed = 1 if target == 1 else math.ceil(math.log(1 - confidence) / math.log(target))
        order = np.flatnonzero(tested.predicted_positives >= needed)
    # with two targets both tests have to pass, each at the whole level: the two are missed at once or one of them is
    failures = np.flatnonzero(_reached(objective, _lower_bounds(objective, tested.at(order))) < -_SLACK)
    return order[: failures[0]] if len(failures) else order


def _grid(reference: FloatArray, positive_share: float, objective: Objective, resolution: float) -> FloatArray:
    """Thresholds in the order of testing, from scores without labels."""
    curve = OperatingCurve.from_scores(reference, np.zeros(len(reference)), resolution)
    return curve.thresholds[_positions_to_test(curve, positive_share, objective)]


def _positions_to_test(curve: OperatingCurve, positive_share: float, objective: Objective) -> IndexArray:
    """Candidates in the order of testing.

    Precision: from a quarter of the positives' share predicted positive up to all rows. False positive rate: from the
    first row up, as it only rises. Recall: from all rows down. Precision and recall: from where they are likeliest to
    hold together, to both sides in turn.
    """
    if not 0 < positive_share < 1:
        raise ValueError(f"positive_share must lie in (0, 1), got {positive_share}")
    admitted = curve.predicted_positives
    shares = _shares(0.0 if objective.specificity_target > 0 else positive_share / 4, int(admitted[-1]))
    if objective.kind == "precision_recall":
        # a share of s called positive needs recall_target · positive_share <= s <= positive_share / precision_target
        middle = positive_share * math.sqrt(objective.recall_target / objective.precision_target)
        shares = shares[np.argsort(np.abs(np.log(shares / middle)), kind="stable")]
    wanted = np.ceil(shares * admitted[-1])
    # the last candidate that admits no more rows than that: tied scores stay out
    positions = np.searchsorted(admitted, wanted, side="right") - 1
    _, first = np.unique(positions, return_index=True)
    in_order: IndexArray = positions[np.sort(first)]
    return in_order[::-1] if objective.kind == "recall" else in_order


def _shares(first: float, n: int) -> FloatArray:
    """Shares of `n` rows predicted positive, rising from the first, or that of one row, to all."""
    first = max(first, 1 / n)
    steps = math.ceil(math.log(1 / first) / math.log(_GRID_RATIO))
    return np.append(first * _GRID_RATIO ** np.arange(steps), 1.0)


def _uncertified(curve: OperatingCurve, objective: Objective) -> ChosenThreshold:
    """The point with the best lower bounds, with the truth about it."""
    confidence = objective.confidence or RULE_CONFIDENCE
    bounds = _lower_bounds(objective, curve)
    reached = _reached(objective, {name: getattr(curve, name) for name in objective.targets})
    reaches = (curve.true_positives > 0) & (reached >= -_SLACK)
    if objective.specificity_target > 0:  # its bound is best where nothing is called positive
        position = _unshown_position(curve, objective)
    else:
        position = int(np.argmax(_reached(objective, bounds)))
    supported = " and ".join(
        _bound_words(name, float(bounds[name][position]), objective.kind) for name in objective.targets
    )
    wanted = " and ".join(
        f"at most {percents.asked(_complement(target))}" if name == "specificity" else percents.asked(target)
        for name, target in objective.targets.items()
    )
    sure = percents.asked(confidence)
    return ChosenThreshold(
        float(curve.thresholds[position]),
        curve.counts(position),
        "cannot_certify" if reaches.any() else "preference_unmet",
        f"The calibration rows support {supported} at confidence {sure}, where {wanted} was asked.",
    )

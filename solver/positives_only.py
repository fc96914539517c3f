"""A threshold, figures and a promise where positive and unlabelled rows are all there is.

Left-out positive rows tell the recall. With the share of positives among the unlabelled rows, the share of these that
is called positive tells the rest: of all unlabelled rows, share · recall are found, and what else is called is wrong.
No negative row is seen, so no confusion matrix is made up: figures are estimates with intervals, and nothing is proven.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from solver import percents
from solver.audits import rows_to_prove
from solver.chances import LIKELY, WORTH_FOR_CHANCES
from solver.choices import PROMISE_CONFIDENCE, PromiseLevel, ThresholdRule
from solver.operating_point import Objective, PointStatus
from solver.positive_unlabelled.left_out import FoundCurve
from solver.positive_unlabelled.share import FEWEST_POSITIVES, ShareEstimate
from solver.promise import as_asked, audit_advice, counted_on
from solver.report import Estimate, FoundPoints, Needs, PositivesOnly, Promise
from solver.typing import FloatArray

_DRAWS: Final = 1000
_PRIOR: Final = 0.5
_FEWEST_FOUND: Final = 15
_LEAST_FOUND: Final = 0.3
"""Thresholds above which both fewer left-out positive rows and a smaller part of them lie are not chosen: of the many
ratios of found to called that few rows give, the best one is luck."""
_LUCKY: Final = 8
"""Nor are those with fewer, whatever part they are, unless all are found: with 3 of 10 rows labelled at random and a
given share of .5, a precision of .7 was called likely in 27 of 100 data sets, with 8 of 10 in 5."""
_MOST: Final = 0.8
_MUCH: Final = 0.5
_MORE: Final = 0.1
"""A model is warned of that calls the first share of the unlabelled rows positive, or the second one and that much more
than can be."""
_MOST_ROWS: Final = 10_000
_AT_RANDOM: Final = "drawn at random from all positive ones"


@dataclass(frozen=True)
class OnlyPositives:
    """What can be known: the curve of found and called rows, and the share of positives among the unlabelled rows.

    Attributes
    ----------
    curve : FoundCurve
    share : ShareEstimate
    rows : int
        Unlabelled rows, of which the curve may have counted some.
    """

    curve: FoundCurve
    share: ShareEstimate
    rows: int

    @classmethod
    def from_report(cls, told: PositivesOnly) -> OnlyPositives:
        """What the report of a training keeps; raises ValueError for one as the API shows it, without the curve."""
        points = told.curve
        if points is None:
            raise ValueError("the report is without its curve; expected that of a training, as it is stored")
        curve = FoundCurve(
            np.array(points.thresholds, dtype=np.float64),
            np.array(points.found, dtype=np.intp),
            np.array(points.called, dtype=np.intp),
            points.positives,
            points.unlabelled,
        )
        share = told.share
        return cls(curve, ShareEstimate(share.value, share.low, share.high, told.share_given), told.unlabelled_rows)

    def at(self, place: int) -> Rates:
        """The rates at one threshold of the curve, as they were counted."""
        curve, share = self.curve, self.share.value
        return Rates(
            np.array(curve.found[place] / curve.positives), np.array(curve.called[place] / curve.unlabelled), share
        )

    def draws(self, places: slice | int) -> Rates:
        """Rates as they may be, drawn from what the counts leave open; the last axis has the draws.

        Counts that have chosen a threshold say less than untouched ones: each is taken for `WORTH_FOR_CHANCES` of one
        in a Beta posterior with Jeffreys' prior, as in `solver.promise.promise_of`. So it is for the intervals, too:
        with labels drawn at random those of `WORTH_FOR_INTERVALS` were too short for the ratio of two proportions.
        """
        rng = np.random.default_rng(0)
        of_found, of_called, of_share, of_right = rng.random((4, _DRAWS))
        curve = self.curve
        found = _drawn(curve.found[places], curve.positives, of_found)
        called = _drawn(curve.called[places], curve.unlabelled, of_called)
        low, value, high = self.share.low, self.share.value, self.share.high
        middle = value if self.share.is_useful else (low + high) / 2  # of what is not known no value is the likeliest
        share = np.interp(of_share, [0.0, 0.5, 1.0], [low, middle, high])
        return Rates(found, called, share, _drawn(curve.called[places], curve.called[places], of_right))


def _drawn(hits: ArrayLike, of: ArrayLike, levels: FloatArray) -> FloatArray:
    worth = WORTH_FOR_CHANCES
    k, n = np.asarray(hits, dtype=np.float64)[..., None], np.asarray(of, dtype=np.float64)[..., None]
    return np.asarray(betaincinv(worth * k + _PRIOR, worth * (n - k) + _PRIOR, levels))


@dataclass(frozen=True)
class Rates:
    """Found share of the positive rows, called share of the unlabelled ones, share of positives among these.

    Of the called ones `right` at most are positive. A share that is given too high would else make all of them so, and
    a precision of 1 certain; if each of so many rows had been seen to be positive, it would not be.
    """

    found: FloatArray
    called: FloatArray
    share: FloatArray | float
    right: FloatArray | float = 1.0

    def measure(self, name: str, beta: float = 1.0) -> FloatArray:
        """Precision, recall, specificity or F_β of the unlabelled rows that these rates tell."""
        right = np.minimum(self.share * self.found, self.right * self.called)
        if name == "recall":
            return np.broadcast_to(self.found, right.shape)
        if name == "precision":
            return right / np.maximum(self.called, 1e-12)
        if name == "specificity":
            wrong = (self.called - right) / np.maximum(1 - np.asarray(self.share), 1e-12)
            return np.asarray(1 - np.clip(wrong, 0.0, 1.0))
        weight = beta * beta
        return np.asarray(np.minimum(1.0, (1 + weight) * right / np.maximum(weight * self.share + self.called, 1e-12)))

    def cost(self, false_negative: float, false_positive: float) -> FloatArray:
        """Mean cost of an unlabelled row."""
        right = np.minimum(self.share * self.found, self.right * self.called)
        return false_negative * (self.share - right) + false_positive * (self.called - right)


def choose_place(known: OnlyPositives, objective: Objective, rule: ThresholdRule) -> int:
    """Choose the threshold of the curve that serves an objective; `zero` takes the one next to 0.

    Of a target the one with the best F1 among those that are likely to reach it, or the likeliest; else the one that is
    best in the mean over what the counts leave open.
    """
    if rule == "zero":
        return int(np.argmin(np.abs(known.curve.thresholds)))
    positives = known.curve.positives
    least = min(positives, max(_LUCKY, min(_FEWEST_FOUND, _LEAST_FOUND * positives)))
    usable = known.curve.found >= least
    rates = known.draws(slice(None))
    if objective.costs is not None:
        return int(np.argmin(np.where(usable, rates.cost(*objective.costs).mean(axis=-1), np.inf)))
    value = np.where(usable, rates.measure("f", objective.beta or 1.0).mean(axis=-1), -1.0)
    if not objective.targets:
        return int(np.argmax(value))
    chances = np.where(usable, _chances(rates, objective), -1.0)
    wanted = max(LIKELY, objective.confidence or 0.0)
    likely = chances >= wanted
    return int(np.argmax(np.where(likely, value, -1.0))) if likely.any() else int(np.lexsort((value, chances))[-1])


def _chances(rates: Rates, objective: Objective) -> FloatArray:
    """The chance of each threshold that all targets hold."""
    reached = [rates.measure(name) >= target - 1e-12 for name, target in objective.targets.items()]
    return np.asarray(np.logical_and.reduce(reached).mean(axis=-1))


def point_of(known: OnlyPositives, place: int, objective: Objective, positive: str) -> tuple[PositivesOnly, Promise]:
    """What is known of one threshold of the curve, in figures and in words.

    Parameters
    ----------
    known : OnlyPositives
    place : int
        Of the threshold.
    objective : Objective
    positive : str
        Name of the positive class.
    """
    counted, rates = known.at(place), known.draws(place)
    curve, share = known.curve, known.share
    tells = share.is_useful
    told = PositivesOnly(
        share=Estimate(share.value, share.low, share.high),
        share_given=share.is_given,
        share_useful=share.is_useful,
        found=int(curve.found[place]),
        positives=curve.positives,
        called=int(curve.called[place]),
        unlabelled=curve.unlabelled,
        unlabelled_rows=known.rows,
        recall=_estimate(counted.found, rates.found),
        called_share=_estimate(counted.called, rates.called),
        precision=_estimated(counted, rates, "precision") if tells and curve.called[place] > 0 else None,
        f1=_estimated(counted, rates, "f") if tells else None,
        false_positive_rate=_complement(_estimated(counted, rates, "specificity")) if tells else None,
        cost=None
        if objective.costs is None or not tells
        else _estimate(counted.cost(*objective.costs), rates.cost(*objective.costs)),
        curve=FoundPoints(
            thresholds=curve.thresholds.tolist(),
            found=curve.found.tolist(),
            called=curve.called.tolist(),
            positives=curve.positives,
            unlabelled=curve.unlabelled,
        ),
        sentence=_known(known, place),
    )
    return told, _promise(known, place, objective, positive)


def told_at(
    told: PositivesOnly, threshold: float, objective: Objective, positive: str
) -> tuple[PositivesOnly, Promise]:
    """What a report says of a threshold of its curve, in figures and in words; of another one, of the next to it."""
    known = OnlyPositives.from_report(told)
    place = int(np.argmin(np.abs(known.curve.thresholds - threshold)))
    return point_of(known, place, objective, positive)


def _estimated(counted: Rates, rates: Rates, name: str) -> Estimate:
    return _estimate(counted.measure(name), rates.measure(name))


def _estimate(counted: FloatArray, draws: FloatArray) -> Estimate:
    low, high = map(float, np.quantile(draws, [0.025, 0.975]))
    value = float(counted)
    return Estimate(value, min(low, value), max(high, value))


def _complement(of: Estimate) -> Estimate:
    return Estimate(1 - of.value, 1 - of.high, 1 - of.low)


# -- promise -----------------------------------------------------------------------------------------------------------


def _promise(known: OnlyPositives, place: int, objective: Objective, positive: str) -> Promise:
    """What can be relied on; never more than `likely`, as no negative row was seen."""
    confidence = objective.confidence or PROMISE_CONFIDENCE
    rates, counted = known.draws(place), known.at(place)
    beta = objective.beta or 1.0
    bounds = {
        name: float(np.quantile(rates.measure(name, beta), 1 - confidence))
        for name in objective.targets or (() if objective.costs is not None else (objective.kind,))
    }
    chance, level = None, None
    if objective.targets:
        chance = float(_chances(rates, objective))
        missed = any(counted.measure(name) < target - 1e-12 for name, target in objective.targets.items())
        rests_on_share = objective.targets.keys() != {"recall"}
        level = _level(chance, missed=missed, unknown=rests_on_share and not known.share.is_useful)
        if level == "likely" and rests_on_share and known.curve.positives < FEWEST_POSITIVES:
            level = "open"  # their part above any line is anybody's guess
    bounds = as_asked(bounds)
    if objective.costs is not None:
        bounds = {"cost": float(np.quantile(rates.cost(*objective.costs), confidence))}
    needs = None
    if level in ("likely", "open") and known.share.is_useful and list(objective.targets) == ["precision"]:
        needs = _needs(known, place, objective, float(counted.measure("precision")), confidence)
    said, advice = _promised(known, objective, level, chance, bounds, needs, positive)
    return Promise(
        level=level,
        chance=chance,
        confidence=confidence,
        bounds=bounds,
        needs=needs,
        sentence=said + advice,
        advice=advice.lstrip(),
    )


def _level(chance: float, *, missed: bool, unknown: bool) -> PromiseLevel:
    """The level of a target; where it rests on a share that is `unknown`, it is neither likely nor missed."""
    if missed and not unknown:
        return "missed"
    return "likely" if chance >= LIKELY and not unknown else "open"


def _needs(known: OnlyPositives, place: int, objective: Objective, rate: float, confidence: float) -> Needs | None:
    """Rows to check, of those that are called positive, or to label, drawn at random, that prove a precision."""
    counted = int(known.curve.called[place])
    called = round(counted * known.rows / known.curve.unlabelled)
    checks = rows_to_prove(objective.precision_target, min(rate, 1.0), confidence, _MOST_ROWS)
    if checks is None or called == 0:
        return None
    labels = math.ceil(checks * known.curve.unlabelled / counted)
    return Needs(
        random_labels=labels,
        checked_rows=min(checks, called),
        unlabelled=known.rows,
        checkable=called,
    )


def reached(promise: Promise, objective: Objective) -> tuple[PointStatus, str]:
    """Status and reason of a threshold by what it promises; what was to be proven never is."""
    if promise.level == "missed":
        return "preference_unmet", promise.sentence
    if promise.level == "open" or objective.confidence is not None:
        return "cannot_certify", promise.sentence
    return "met", ""


# -- words -------------------------------------------------------------------------------------------------------------


def _known(known: OnlyPositives, place: int) -> str:
    """What the figures rest on."""
    curve, rates = known.curve, known.at(place)
    said = (
        f"No negative row is labelled. Of {curve.positives:,} labelled positive rows, each left out once, "
        f"{curve.found[place]:,} are called positive, and of {curve.unlabelled:,} unlabelled rows, left out likewise, "
        f"{percents.measured(float(rates.called))}. The recall is as good as the labelled rows are {_AT_RANDOM}; "
        "precision and all else follow from it with the share of positives among the unlabelled rows: "
        f"{_share_words(known.share)}."
    )
    if known.share.is_given or known.share.is_useful:
        return said
    return f"{said} That says next to nothing: give `positive_share`, or label some rows that chance has drawn."


def _share_words(share: ShareEstimate) -> str:
    if share.is_given:
        return f"{percents.asked(share.value)}, as it was given"
    return f"{percents.measured(share.value)}, as it is estimated ({_range(share)})"


def _range(share: ShareEstimate) -> str:
    return f"{percents.measured(share.low)} to {percents.measured(share.high)}"


def _promised(
    known: OnlyPositives,
    objective: Objective,
    level: PromiseLevel | None,
    chance: float | None,
    bounds: dict[str, float],
    needs: Needs | None,
    positive: str,
) -> tuple[str, str]:
    """What can be relied on, and what would prove more, which goes on from there."""
    counted = (
        f"What a row costs you can count on to be {bounds['cost']:.3g} at most"
        if "cost" in bounds
        else (counted_on(bounds, objective.kind))
    )
    rests = (
        f"if the labelled rows are {_AT_RANDOM} and the share of positives among the unlabelled rows is "
        f"{_share_words(known.share)}"
    )
    if objective.targets.keys() == {"recall"}:
        rests = f"if the labelled rows are {_AT_RANDOM}"
    if level is None or chance is None:
        return f"{counted}, {rests}.", ""
    wanted = objective.targets_in_words
    wanted = wanted[0].upper() + wanted[1:]
    verb = "is" if len(objective.targets) == 1 else "are"
    said = {
        "likely": f"{wanted} {verb} likely to hold on rows like the unlabelled ones (chance {percents.odds(chance)})",
        "open": f"{wanted} may hold on rows like the unlabelled ones (chance {percents.odds(chance)})",
    }.get(level, f"{wanted} {verb} not reached")
    advice = " A lower target, or labels of some rows that chance has drawn, would help."
    if needs is not None and needs.checked_rows is not None:
        advice = audit_advice(needs, needs.checked_rows, positive, objective.targets_in_words)
    return f"{said}, {rests}. {counted}; nothing is proven, as no negative row is labelled.", advice


def share_below(share: float) -> str:
    """Say that a share may have been meant of all rows, where it is less than what is labelled of these."""
    return (
        f"positive_share is {percents.asked(share)}, less than the share of all rows that is labelled positive: it is "
        "the share of positives among the unlabelled rows only"
    )


def warnings_of(known: OnlyPositives, place: int, estimated: ShareEstimate, copies: int) -> list[str]:
    """What is odd about what is known.

    Parameters
    ----------
    known : OnlyPositives
    place : int
        Of the threshold that was chosen.
    estimated : ShareEstimate
        The share of positives as the scores have it, where another one was given.
    copies : int
        Unlabelled rows that are the same as a positive one.
    """
    share, curve = known.share, known.curve
    called = curve.called[place] / curve.unlabelled
    found = []
    if called >= _MOST or (called >= _MUCH and called > share.high + _MORE):
        found.append(f"the model calls {percents.measured(called)} of the unlabelled rows positive")
    if curve.positives < FEWEST_POSITIVES:
        found.append(f"only {curve.positives} labelled positive rows: the threshold is uncertain")
    if share.is_given and share.value > estimated.high:
        found.append(
            f"positive_share is {percents.asked(share.value)}, but more than about {percents.measured(estimated.high)} "
            "of the unlabelled rows cannot be positive: too many of them look like no labelled row"
        )
    if share.is_given and share.value < curve.positives / (curve.positives + known.rows):
        found.append(share_below(share.value))
    if not share.is_useful:
        found.append(
            "the share of positives among the unlabelled rows is not to be had from these scores "
            f"({_range(share)}): give positive_share, or label some rows that chance has drawn"
        )
    if copies:
        found.append(f"{copies:,} unlabelled row(s) are the same as one that is labelled positive")
    return found

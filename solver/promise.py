"""What can be relied on of a threshold: a chance, a bound, what would prove the target, and all of it in words.

Everything comes of the counts that a report keeps, so that thresholds of old and applied ones have a promise too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from solver import percents
from solver.audits import rows_to_prove
from solver.chances import LIKELY, WORTH_FOR_CHANCES, Share
from solver.choices import PROMISE_CONFIDENCE, Certificate, PromiseLevel, rate_name
from solver.evaluation.counts import ConfusionCounts
from solver.evaluation.intervals import WORTH_FOR_INTERVALS, clopper_pearson_lower, wilson
from solver.operating_point import FEWEST_NEGATIVES, Objective, PointStatus, measure_words
from solver.report import (
    Abstention,
    CalledRows,
    Estimate,
    Measures,
    Needs,
    Promise,
    PromisedAbstention,
    PromisedSide,
)
from solver.typing import FloatArray

# share of the labelled rows that is asked for besides where their number would do, but did not
_A_FEW_MORE: Final = 0.2
_MOST_ROWS: Final = 10_000
_SIZES: Final = np.unique(np.geomspace(1, _MOST_ROWS, 1500).astype(np.int64))
"""More rows than the last are not asked for."""


_NAMES: Final = {
    "f1": "an F1 of",
    "f_beta": "an F-beta of",
    "precision": "a precision of",
    "recall": "a recall of",
}


Counts = ConfusionCounts | Measures
"""Counts of a decision."""


def promise_of(
    objective: Objective,
    calibration: Counts,
    positive: str,
    *,
    is_proven: bool = False,
    has_seen: bool = False,
    test: Counts | None = None,
    labelled: int = 0,
    certificate: Certificate = "cross_fitted",
    unlabelled: int | None = None,
    called: int | None = None,
    abstained: Abstention | None = None,
    test_abstained: Abstention | None = None,
) -> Promise:
    """What a threshold promises on new rows drawn like the labelled ones.

    The threshold was chosen as the best of many on these very rows, by scores of models that each leave some of them
    out. So their counts say less than counts of untouched rows would: each of them is taken for `WORTH_FOR_CHANCES` of
    one in a Beta posterior with Jeffreys' prior. That share is measured, over ten data sets, and was confirmed on
    others (`benchmarks/promises.py`); it is no theorem. What is proven is.

    Parameters
    ----------
    objective : Objective
    calibration : Counts
        What the threshold decides on the calibration rows.
    positive : str
        Name of the positive class, for the words.
    is_proven : bool, default False
        Whether the target is certified, with the objective's confidence.
    has_seen : bool, default False
        Whether the model was trained on these rows: then nothing can be promised.
    test : Counts, optional
        What this very model and threshold decided on rows that nothing was fitted to.
    labelled : int, optional
        Labelled rows that the training had, where not all of them calibrate.
    certificate : str, default "cross_fitted"
        What a confidence would test the target by, if it names nothing itself: all labelled rows, or half of them.
    unlabelled, called : int, optional
        Rows without a label that there are to be looked at, and those of them that are called positive, if known.
    abstained, test_abstained : Abstention, optional
        What is said of the calibration rows, and of such rows as `test`, where some of them are left undecided.
    """
    confidence = objective.confidence or PROMISE_CONFIDENCE
    evidence = {name: _evidence(name, calibration, objective, test) for name in _measures(objective)}
    posteriors = {} if has_seen else {name: Share(hits, misses) for name, (hits, misses) in evidence.items()}
    bounds = {name: float(share.lower(confidence)) for name, share in posteriors.items()}
    if objective.costs is not None and not has_seen:
        bounds = {"cost": _cost_bound(calibration, objective.costs, confidence)}
    elif not objective.targets:
        bounds = {name: 2 * low / (1 + low) for name, low in bounds.items()}
    chance = None
    if objective.targets and not has_seen:
        chance = math.prod(float(posteriors[name].above(target)) for name, target in objective.targets.items())
    if is_proven:
        chance = max(chance or 0.0, confidence)
        bounds = {name: max(low, objective.targets[name]) for name, low in bounds.items()}
    bounds = as_asked(bounds)
    level = _level(objective, calibration, chance, is_proven=is_proven)
    needs = None
    spoiled = _lacks_negatives(objective, calibration) or (test is not None and _misses_a_target(objective, test))
    if level in ("likely", "open") and not has_seen and not (level == "open" and spoiled):
        needs = _needs(objective, calibration, evidence, confidence, labelled, objective.certificate or certificate)
        needs = _that_there_are(needs, unlabelled, called, every=objective.specificity_target > 0)
    promised = None
    said, advice = _sentence(
        objective, calibration, test, positive, level, chance, confidence, bounds, needs, unlabelled
    )
    sentence = said + advice
    if abstained is not None and not has_seen:
        promised = _abstention(objective, abstained, test_abstained, confidence)
        sentence = f"{sentence} {_abstention_words(promised, abstained, confidence)}"
    return Promise(
        level=level,
        chance=chance,
        confidence=confidence,
        bounds=bounds,
        needs=needs,
        abstain=promised,
        sentence=sentence,
        advice=advice.lstrip(),
    )


def as_asked(bounds: dict[str, float]) -> dict[str, float]:
    """Bounds by the names of what was asked for: a lower one of a specificity is an upper one of false positives."""
    if "specificity" not in bounds:
        return bounds
    return {"false_positive_rate": round(1.0 - bounds["specificity"], 12)}


def _abstention(
    objective: Objective, calibration: Abstention, test: Abstention | None, confidence: float
) -> PromisedAbstention:
    """What can be relied on of both labels. With a confidence a label is only said where it was proven."""

    def side(called: CalledRows, tested: CalledRows | None) -> PromisedSide:
        if called.rows == 0:
            return PromisedSide(label=called.label, level=None, chance=None, bound=None)
        right, wrong = WORTH_FOR_CHANCES * called.right, WORTH_FOR_CHANCES * (called.rows - called.right)
        if tested is not None:
            right, wrong = right + tested.right, wrong + tested.rows - tested.right
        share = Share(right, wrong)
        chance, bound = float(share.above(calibration.precision)), float(share.lower(confidence))
        if objective.confidence is None:
            level = "likely" if chance >= LIKELY else "open"
            return PromisedSide(label=called.label, level=level, chance=chance, bound=bound)
        chance, bound = max(chance, confidence), max(bound, calibration.precision)
        return PromisedSide(label=called.label, level="proven", chance=chance, bound=bound)

    n, undecided = calibration.rows, calibration.undecided
    share = Estimate(1.0, 0.0, 1.0)
    if n > 0:
        share = Estimate(undecided / n, *wilson(undecided, n, worth=WORTH_FOR_INTERVALS))
    return PromisedAbstention(
        positive=side(calibration.positive, None if test is None else test.positive),
        negative=side(calibration.negative, None if test is None else test.negative),
        undecided=share,
    )


def promised_status(status: PointStatus, reason: str, promise: Promise) -> tuple[PointStatus, str]:
    """Status and reason of a threshold as a promise allows them: met is what is likely to hold, or proven."""
    return ("cannot_certify", promise.sentence) if status == "met" and promise.level == "open" else (status, reason)


def _measures(objective: Objective) -> tuple[str, ...]:
    if objective.targets:
        return tuple(objective.targets)
    return () if objective.costs is not None else (objective.kind,)


def _hits_and_misses(name: str, counts: Counts, objective: Objective) -> tuple[float, float]:
    """A measure as a proportion: F_β = 2 s / (1 + s) of the share s of true positives among them and the errors."""
    if name == "precision":
        return counts.true_positives, counts.false_positives
    if name == "recall":
        return counts.true_positives, counts.false_negatives
    if name == "specificity":
        return counts.true_negatives, counts.false_positives
    weight = (objective.beta or 1.0) ** 2
    errors = 2 * (weight * counts.false_negatives + counts.false_positives) / (1 + weight)
    return counts.true_positives, errors


def _evidence(name: str, calibration: Counts, objective: Objective, test: Counts | None) -> tuple[float, float]:
    """Rows for and against, in untouched ones."""
    hits, misses = (WORTH_FOR_CHANCES * part for part in _hits_and_misses(name, calibration, objective))
    more_hits, more_misses = (0.0, 0.0) if test is None else _hits_and_misses(name, test, objective)
    return hits + more_hits, misses + more_misses


def _cost_bound(counts: Counts, costs: tuple[float, float], confidence: float) -> float:
    """Upper bound of the mean cost of a row: those of the two error rates, their distances squared and added.

    Where all rows are decided alike, the other error cannot happen.
    """
    n = counts.true_positives + counts.false_positives + counts.true_negatives + counts.false_negatives
    mean, squares = 0.0, 0.0
    decided = (counts.true_negatives + counts.false_negatives, counts.true_positives + counts.false_positives)
    for errors, cost, rows in zip((counts.false_negatives, counts.false_positives), costs, decided, strict=True):
        if rows == 0:
            continue
        high = float(Share(WORTH_FOR_CHANCES * errors, WORTH_FOR_CHANCES * (n - errors)).upper(confidence))
        mean += cost * errors / max(n, 1)
        squares += (cost * max(0.0, high - errors / max(n, 1))) ** 2
    return mean + math.sqrt(squares)


def _level(objective: Objective, counts: Counts, chance: float | None, *, is_proven: bool) -> PromiseLevel | None:
    if not objective.targets:
        return None
    if is_proven:
        return "proven"
    if _misses_a_target(objective, counts):
        return "missed"
    is_likely = chance is not None and chance >= LIKELY and not _lacks_negatives(objective, counts)
    return "likely" if is_likely else "open"


def _misses_a_target(objective: Objective, counts: Counts) -> bool:
    reached = {name: _rate(*_hits_and_misses(name, counts, objective)) for name in objective.targets}
    return any(reached[name] < target - 1e-12 for name, target in objective.targets.items())


def _rate(hits: float, misses: float) -> float:
    return hits / (hits + misses) if hits + misses > 0 else 0.0


def _needs(
    objective: Objective,
    counts: Counts,
    evidence: dict[str, tuple[float, float]],
    confidence: float,
    labelled: int,
    certificate: Certificate,
) -> Needs | None:
    """How many rows would prove the targets if what was seen goes on; None where no number to speak of would."""
    n = counts.true_positives + counts.false_positives + counts.true_negatives + counts.false_negatives
    have = max(n, labelled)
    labels, checks = 0, None
    for name, target in objective.targets.items():
        rate = _rate(*evidence[name])
        # with fewer than one error in all of them, it is the exact bound for none
        passing = np.flatnonzero(_lower_bounds(rate, confidence) >= target)
        if len(passing) == 0:
            return None
        if name == "precision":
            checks = rows_to_prove(target, rate, confidence, _MOST_ROWS)
        # of further rows the same share tells of the measure, and all of them or half may test it
        testing = sum(_hits_and_misses(name, counts, objective)) / n * (0.5 if certificate == "strict" else 1.0)
        labels = max(labels, math.ceil(int(_SIZES[passing[0]]) / testing - 1e-9) - have)
    if objective.confidence is not None:
        # they have been tested, and were not enough: thresholds of a grid, in order, up to the first failure
        labels = max(labels, math.ceil(_A_FEW_MORE * have))
    if labels > _MOST_ROWS and checks is None:
        return None
    return Needs(random_labels=labels, checked_rows=checks if len(objective.targets) == 1 else None)


def _that_there_are(needs: Needs | None, unlabelled: int | None, called: int | None, *, every: bool) -> Needs | None:
    """The same with the rows that there are: no more are asked to be checked, unless there are none.

    A false positive rate takes `every` one that is called positive at most: others can be no false positives.
    """
    if needs is None:
        return None
    checks, there = needs.checked_rows, unlabelled if called is None else called
    if every and called:
        checks = called
    if checks is not None and there:
        checks = min(checks, there)
    return replace(needs, checked_rows=checks, unlabelled=unlabelled, checkable=there)


def _lower_bounds(rate: float, confidence: float) -> FloatArray:
    return clopper_pearson_lower(np.floor(rate * _SIZES + 1e-9), _SIZES, confidence)


# -- words -------------------------------------------------------------------------------------------------------------


def _sentence(
    objective: Objective,
    counts: Counts,
    test: Counts | None,
    positive: str,
    level: PromiseLevel | None,
    chance: float | None,
    confidence: float,
    bounds: dict[str, float],
    needs: Needs | None,
    unlabelled: int | None,
) -> tuple[str, str]:
    """What can be relied on, and what would prove more, which goes on from there."""
    if not bounds:
        return "Nothing can be promised: the threshold was chosen on rows that trained the model.", ""
    if "cost" in bounds:
        return _cost_sentence(objective, counts, positive, bounds["cost"]), ""
    counted = counted_on(bounds, objective.kind)
    if level is None:
        return f"{counted}.", ""
    less = f" {_capital(_less(objective, unlabelled))}"
    wanted = objective.targets_in_words
    verb = "is" if len(objective.targets) == 1 else "are"
    if level == "proven":
        sure = percents.asked(confidence)
        return f"{_capital(wanted)} {verb} proven for new rows like the labelled ones, with confidence {sure}.", ""
    if level == "missed":
        return f"The labelled rows reach {_reached(objective, counts)}, where {wanted} was asked. {counted}.", less
    odds = "" if chance is None else f" (chance {percents.odds(chance)})"
    advice = _advice(objective, counts, needs, positive, wanted, unlabelled)
    if level == "likely":
        said = f"{_capital(wanted)} {verb} likely to hold on new rows{odds}, not proven"
    elif test is not None and _misses_a_target(objective, test):
        only, little = ("", "much") if objective.specificity_target > 0 else (" only", "little")
        said = f"The test rows reach{only} {_reached(objective, test)}, too {little} to promise {wanted}{odds}"
        advice = less
    else:
        said = f"{_few(objective, counts, test, positive)} to promise {wanted}{odds}"
    return f"{said}; {counted[0].lower()}{counted[1:]}.", advice


def counted_on(bounds: Mapping[str, float], kind: str) -> str:
    """Say what can be counted on, as a sentence without its full stop; `kind` is that of the objective."""
    names = _NAMES | {"false_positive_rate": f"a {rate_name(kind)} of at most"}
    return "What you can count on is " + " and ".join(
        f"{names[name]} {percents.at_most(bound) if name == 'false_positive_rate' else percents.at_least(bound)}"
        for name, bound in bounds.items()
    )


def _cost_sentence(objective: Objective, counts: Counts, positive: str, bound: float) -> str:
    """What can be counted on of a cost, beside what it costs to look at no row."""
    of_negative, of_positive = objective.costs or (0.0, 0.0)
    positives = counts.true_positives + counts.false_negatives
    negatives = counts.true_negatives + counts.false_positives
    called, n = counts.true_positives + counts.false_positives, positives + negatives
    every, none = of_positive * negatives / max(n, 1), of_negative * positives / max(n, 1)
    if called == 0:
        # a bound above the yardstick would say less than the yardstick itself
        return f"None of the labelled rows is called {positive!r}, which costs {none:.3g} a row; all: {every:.3g}."
    if called == n:
        return f"All labelled rows are called {positive!r}, which costs {every:.3g} a row; none: {none:.3g}."
    return (
        f"What you can count on is a mean cost of at most {bound:.3g} a row; with all of the labelled rows called "
        f"{positive!r} it is {every:.3g}, with none {none:.3g}."
    )


def _abstention_words(promised: PromisedAbstention, chosen: Abstention, confidence: float) -> str:
    """What can be relied on of both labels, and how many rows get none."""
    wanted = percents.asked(chosen.precision)
    said = {
        "proven": f"at least {wanted} are right, which is proven with confidence {percents.asked(confidence)}",
        "likely": f"at least {wanted} are likely to be right",
        "open": f"it is not likely enough that {wanted} are right",
    }
    parts = []
    for side, called in ((promised.positive, chosen.positive), (promised.negative, chosen.negative)):
        if side.level is None:
            parts.append(f"no row is called {side.label!r}: {called.reason}")
            continue
        odds = f" (chance {percents.odds(side.chance)})" if side.level != "proven" and side.chance is not None else ""
        parts.append(f"of the rows called {side.label!r} {said[side.level]}{odds}")
    share, low, high = map(percents.measured, vars(promised.undecided).values())
    left = "no row" if chosen.undecided == 0 else f"{share} of the rows"
    return f"{_capital('; '.join(parts))}. Left undecided: {left} ({low} to {high})."


def _reached(objective: Objective, counts: Counts) -> str:
    """What rows reach of the targets."""
    reached = {name: _rate(*_hits_and_misses(name, counts, objective)) for name in objective.targets}
    return " and ".join(
        measure_words(name, share, objective.targets[name], objective.kind) for name, share in reached.items()
    )


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _few(objective: Objective, counts: Counts, test: Counts | None, positive: str) -> str:
    """What there is too little of, test rows counted, as they say as much."""
    rows = [counts] if test is None else [counts, test]
    called = sum(each.true_positives + each.false_positives for each in rows)
    positives = sum(each.true_positives + each.false_negatives for each in rows)
    if _lacks_negatives(objective, counts):
        return f"{counts.true_negatives + counts.false_positives} labelled rows that are not {positive!r} are too few"
    if objective.specificity_target > 0:
        negatives = sum(each.true_negatives + each.false_positives for each in rows)
        return f"{negatives} labelled rows that are not {positive!r} are too few"
    if objective.precision_target > 0 and (objective.recall_target == 0 or called < positives):
        return f"{called} labelled rows called {positive!r} are too few"
    return f"{positives} labelled {positive!r} rows are too few"


def _lacks_negatives(objective: Objective, counts: Counts) -> bool:
    """Whether a precision means nothing, as hardly any row could be called positive wrongly."""
    return objective.precision_target > 0 and counts.true_negatives + counts.false_positives < FEWEST_NEGATIVES


def _advice(
    objective: Objective, counts: Counts, needs: Needs | None, positive: str, wanted: str, unlabelled: int | None
) -> str:
    if _lacks_negatives(objective, counts):
        return f" Label at least {FEWEST_NEGATIVES} of them."
    if 1.0 in objective.targets.values():
        ask = "at most 1%" if objective.specificity_target == 1.0 else "99%"
        return f" However many labels there are, they never prove that there is no error at all: ask for {ask}, say."
    if needs is None:
        if objective.specificity_target > 0 and counts.false_positives == 0:
            return f" It takes more than {_MOST_ROWS:,} labels to prove it: {_less(objective, unlabelled)}"
        return f" No number of labels would prove it, so near to the target: {_less(objective, unlabelled)}"
    if needs.random_labels <= 0:
        return f" Ask for it with a confidence: the labels there are may prove {wanted}."
    if needs.by_audit and needs.checked_rows is not None:
        return audit_advice(needs, needs.checked_rows, positive, wanted)
    said = f" Label {_some(needs.random_labels)} more rows, drawn at random, to prove {wanted}"
    if unlabelled is None or unlabelled >= needs.random_labels:
        return f"{said}."
    there = "each row that there is has a label" if unlabelled == 0 else f"only {unlabelled:,} are without a label"
    return f"{said}: {there}, so upload more."


def audit_advice(needs: Needs, checks: int, positive: str, wanted: str) -> str:
    """Say which rows to check in an audit to prove a target."""
    if needs.checkable == 0:
        return (
            f" There is no unlabelled row that it calls {positive!r}: to prove {wanted}, upload more rows, and check "
            f"{_some(checks)} that it calls so, in an audit."
        )
    rows = f"{_some(checks)} of the unlabelled rows that it calls {positive!r}"
    if checks == needs.checkable:
        rows = f"the unlabelled rows that it calls {positive!r}, all of them if need be"
    return f" To prove {wanted}, check {rows}, in an audit."


def _less(objective: Objective, unlabelled: int | None) -> str:
    """What can be done where no number of rows proves the target."""
    rows = "more rows" if unlabelled == 0 else "the rows that teach most (`prefsvm queue`)"
    target = f"a higher {rate_name(objective.kind)}" if objective.specificity_target > 0 else "a lower target"
    return f"ask for {target}, or label {rows} and train again."


def _some(rows: int) -> str:
    """A number as it is up to 100, then two figures of it, rounded up: it is as rough as that."""
    step = 10 ** max(0, len(str(rows)) - 2)
    return str(rows) if rows < 100 else f"some {math.ceil(rows / step) * step:,}"

"""Whether a name moves from the model that it points at to a new one, and why, in words.

Nothing here computes: who decides is the process that ends jobs, which loads no NumPy. `solver.compared_rows` compares
two models on rows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Final

from solver import percents
from solver.choices import FALSE_POSITIVE_KINDS, SHARES_OF_OBJECTIVES, TARGET_KINDS, rate_name
from solver.report import Classes, ComparedRows, Estimate, Measures, ReportedPoint, Succession

FEW_ROWS: Final = 20
"""Where no target was asked for, the calibration rows must not say worse, unless so many common rows say better."""
FEWEST_ROWS: Final = 5
"""Of fewer common rows the interval says nothing: of one it has no length."""
MOST_COLUMNS: Final = 10
"""Named in a sentence."""
_TINY: Final = 1e-12
_COST: Final = "cost of a row"
_LEVELS: Final = ("missed", "open", "likely", "proven")
# what is known of points that were stored without a promise
_LEVEL_OF_STATUS: Final = {"met": "likely", "cannot_certify": "open", "preference_unmet": "missed"}


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What two models are compared by, besides of rows: the classes, the point that decides, and the columns needed."""

    classes: Classes
    point: ReportedPoint
    columns: Sequence[str] = ()
    proven_by: str | None = None
    """Audit that has proven the target of the point since."""
    applied_meanwhile: bool = False
    """Whether the point was applied after the other model had been asked for."""


def decide(draft: Succession, model: str, now: Standing, before: Standing | None, why_no_rows: str = "") -> Succession:
    """Decide whether the alias moves to a model.

    `if_not_worse`: unless the promise is of a lower level, or the objective is worse on the common rows by more than
    chance explains (the 95 % interval of the difference lies below 0, and they are no handful). Where the classes or
    the objective are others, there is nothing to be worse by, and the request asks for just that: the alias moves,
    unless the older model was given its objective after that request.

    Parameters
    ----------
    draft : Succession
        Alias, policy, the older model, and both on common rows, if there are any.
    model : str
        The new model.
    now, before : Standing
        Of the new model and of the older one.
    why_no_rows : str
        Why there are no common rows.
    """
    draft = replace(draft, promise=None if before is None else before.point.promise)
    status = now.point.status
    if draft.policy == "if_met" and status != "met":
        return kept(draft, model, f"its status is {status}{_meant(now.point)}, and alias_policy is if_met")
    if before is None:
        return moved(draft, "it pointed at no model before")
    other = other_aim(now, before)
    same_class = now.classes.positive == before.classes.positive
    if other is not None and same_class and before.applied_meanwhile and draft.policy != "always":
        return kept(draft, model, f"{other}, by an operating point that was applied while this model was trained")
    if other is not None:
        return moved(draft, f"{other}, so that the two are not compared" + _more_columns(now, before))
    fallen = _fallen(now, before, draft.rows)
    compared = _on_rows(draft.rows, why_no_rows, now.point.objective)
    if draft.policy == "if_not_worse" and _shown(draft.rows) == "worse":
        return kept(draft, model, compared)
    if draft.policy == "if_not_worse" and fallen is not None:
        return kept(draft, model, f"{fallen}; {compared}")
    return moved(draft, (compared if fallen is None else f"{fallen}; {compared}") + _more_columns(now, before))


def _meant(point: ReportedPoint) -> str:
    """Say what the status means where no certificate was asked for, of which it speaks."""
    if point.calibration is None or point.status != "cannot_certify" or point.objective.get("confidence") is not None:
        return ""
    return " (the calibration rows reach what was asked, but are too few to make it likely on new rows)"


def kept(draft: Succession, model: str, why: str) -> Succession:
    """The alias stays where it is, for this reason."""
    stays = f"there is no alias {draft.alias}" if draft.model is None else f"{draft.alias} stays at {draft.model}"
    said = f"{stays}: {why}; to use this model: PUT /aliases/{draft.alias} with {json.dumps({'model': model})}"
    return replace(draft, moved=False, sentence=said)


def moved(draft: Succession, why: str) -> Succession:
    """The alias moves, for this reason."""
    is_new = draft.model is None
    points = "points at this model" if is_new else f"moved to this model from {draft.model}"
    return replace(draft, moved=True, sentence=f"{draft.alias} {points}: {why}")


def other_aim(now: Standing, before: Standing) -> str | None:
    """Say that the two were not asked for the same."""
    ours, theirs = now.classes.positive, before.classes.positive
    if ours != theirs:
        return f"it looks for {ours!r}, the older one for {theirs!r}"
    wanted, was = (_asked(each.point.objective) for each in (now, before))
    return None if wanted == was else f"it was asked for {_words(wanted)}, the older one for {_words(was)}"


def _more_columns(now: Standing, before: Standing) -> str:
    """Say that rows which the older model takes are refused by the new one."""
    more = [name for name in now.columns if name not in before.columns]
    named = ", ".join(map(repr, more[:MOST_COLUMNS])) + (", …" if len(more) > MOST_COLUMNS else "")
    return f"; rows for it need more columns than before: {named}" if more else ""


def _asked(objective: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in objective.items() if value is not None and name != "certificate"}


def _words(objective: dict[str, Any]) -> str:
    said = {"target": "", "at_most": "at most "}
    numbers = [
        said.get(name, f"{name.replace('_', ' ')} ")
        + (percents.asked(value) if name in SHARES_OF_OBJECTIVES else f"{value:g}")
        for name, value in objective.items()
        if name not in ("kind", "abstain")
    ]
    if "abstain" in objective:
        numbers.append(f"undecided below precision {percents.asked(objective['abstain']['precision'])}")
    return " ".join([str(objective["kind"]).replace("_", " "), *numbers])


def _fallen(now: Standing, before: Standing, rows: ComparedRows | None) -> str | None:
    """Say that the new model promises less."""
    if now.point.objective["kind"] in TARGET_KINDS:
        level, was = _level(now.point), "proven" if before.proven_by else _level(before.point)
        if level is None or was is None or _LEVELS.index(level) >= _LEVELS.index(was):
            return None
        by = f" by {before.proven_by}" if before.proven_by else ""
        return f"it promises less (the target is {level!r}, and {was!r} of the older one{by})"
    if rows is not None and rows.n >= FEW_ROWS and rows.gain > 0:
        return None  # it was calibrated on harder rows, maybe
    return _lower_figure(now.point, before.point)


def _level(point: ReportedPoint) -> str | None:
    told = None if point.promise is None else point.promise.level
    return told or _LEVEL_OF_STATUS.get(point.status)


def _lower_figure(now: ReportedPoint, before: ReportedPoint) -> str | None:
    """Say that F or cost on the calibration rows is worse by more than chance explains (MOVER, as if independent)."""
    word, sign = _figure(now.objective)[0], -1 if now.objective["kind"] == "cost" else 1
    ours, theirs = (_figure(now.objective)[1](point.calibration) for point in (now, before))
    if ours is None or theirs is None:
        return None
    best, worst = (ours.high, theirs.low) if sign > 0 else (ours.low, theirs.high)
    highest = sign * (ours.value - theirs.value) + math.hypot(best - ours.value, theirs.value - worst)
    if highest >= 0:
        return None
    return (
        f"its {word} on its calibration rows is {_interval(ours, word)}, that of the older one on its own "
        f"{_interval(theirs, word)}"
    )


def _figure(objective: dict[str, Any]) -> tuple[str, Callable[[Measures | None], Estimate | None]]:
    """Return the figure that an objective without a target speaks of: its name, and what it is of measures."""
    if objective["kind"] == "cost":
        return _COST, lambda of: None if of is None else of.cost
    if objective["kind"] == "f_beta" and objective["beta"] != 1:
        beta = float(objective["beta"])
        return f"F{beta:g}", lambda of: None if of is None else f_beta(of, beta)
    return "F1", lambda of: None if of is None else of.f1


def f_beta(of: Measures, beta: float) -> Estimate | None:
    """Return F-beta of measures; None where it is undefined.

    Its inverse is a sum of those of precision and recall, so that the interval follows from theirs (MOVER).
    """
    precision, recall = of.precision, of.recall
    if precision is None or recall is None:
        return None
    weights = (1 / (1 + beta * beta), beta * beta / (1 + beta * beta))
    parts = tuple(zip(weights, (precision, recall), strict=True))
    if of.true_positives == 0:
        return Estimate(0.0, 0.0, 1 / sum(weight / max(part.high, _TINY) for weight, part in parts))
    inverse = sum(weight / part.value for weight, part in parts)
    above = math.hypot(*(weight * (1 / max(part.low, _TINY) - 1 / part.value) for weight, part in parts))
    below = math.hypot(*(weight * (1 / part.value - 1 / part.high) for weight, part in parts))
    return Estimate(1 / inverse, 1 / (inverse + above), min(1.0, 1 / max(inverse - below, 1.0)))


def _interval(estimate: Estimate, word: str) -> str:
    if word == _COST:
        return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"
    return percents.with_range(estimate.value, estimate.low, estimate.high)


def _shown(rows: ComparedRows | None) -> str | None:
    """What common rows show the new model to be; None where they cannot tell."""
    if rows is None or rows.n < FEWEST_ROWS or rows.low <= 0 <= rows.high:
        return None
    return "worse" if rows.high < 0 else "better"


def _on_rows(rows: ComparedRows | None, why_none: str, objective: dict[str, Any]) -> str:
    """Say which model the common rows show to be better, and the figures of both that the objective speaks of.

    A figure that one of them has not, as it flags none of these rows or none is there to be found, is left out.
    """
    if rows is None:
        return f"no common rows to compare on ({why_none})" if why_none else "no common rows to compare on"
    kind = str(objective["kind"])
    told: list[tuple[str, Callable[[Measures | None], Estimate | None]]] = [
        (each, attrgetter(each)) for each in ("precision", "recall") if each in kind or kind == "f_beta"
    ]
    if kind in FALSE_POSITIVE_KINDS:
        told.append((rate_name(kind), attrgetter("false_positive_rate")))
    told.append(_figure(objective))
    known = [(word, was, now) for word, of in told if (was := of(rows.before)) and (now := of(rows.now))]
    figures = ", ".join(f"{word} {_value(was, word)} → {_value(now, word)}" for word, was, now in known)
    figures = f": {figures}" if figures else ""
    if (shown := _shown(rows)) is not None:
        return f"{shown} on {rows.n} common rows{figures}"
    common = "1 common row" if rows.n == 1 else f"{rows.n} common rows"
    return f"not shown to be worse ({common} cannot tell{figures})"


def _value(estimate: Estimate, word: str) -> str:
    return f"{estimate.value:.2f}" if word == _COST else percents.measured(estimate.value)

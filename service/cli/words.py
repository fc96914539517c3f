"""How the commands of ``prefsvm`` say what was asked of a model and what came out."""

from __future__ import annotations

from typing import Any

from service.outcomes import CALIBRATION_ROWS, status_words
from solver import percents
from solver.report import Abstention, Estimate, FeedbackReport, Refit, ReportedPoint

MOST_FLOORS = 5
"""What is asked of single classes, named in a line."""
UNDECIDED = "undecided"
"""Stands in the place of a label that a model did not give."""


def objective_words(objective: dict[str, Any]) -> str:
    """Say what was asked for."""
    abstain = objective.get("abstain")
    undecided = "" if abstain is None else f", undecided below precision {percents.asked(abstain['precision'])}"
    return _aim_words(objective) + undecided


def _aim_words(objective: dict[str, Any]) -> str:
    match objective:
        case {"kind": "precision" | "recall" as kind, "target": target}:
            return f"{kind} {percents.asked(target)}{_confidence_words(objective)}"
        case {"kind": "precision_recall", "precision": precision, "recall": recall}:
            both = f"precision {percents.asked(precision)} and recall {percents.asked(recall)}"
            return both + _confidence_words(objective)
        case {"kind": "false_positive_rate" | "ham_loss" as kind, "at_most": at_most}:
            return f"{kind.replace('_', ' ')} at most {percents.asked(at_most)}{_confidence_words(objective)}"
        case {"kind": "f1"}:
            return "best F1"
        case {"kind": "f_beta", "beta": beta}:
            return f"best F-beta, beta {beta:g}"
        case {"kind": "macro_f1" | "accuracy" | "cost" as kind, **rest} if kind != "cost" or "costs" in rest:
            floors = [
                f"{name} {percents.asked(target)} of {label!r}"
                for label, each in (objective.get("floors") or {}).items()
                for name, target in each.items()
            ]
            more = f" and {len(floors) - MOST_FLOORS} more" if len(floors) > MOST_FLOORS else ""
            aim = {"macro_f1": "best macro-F1", "accuracy": "best accuracy"}.get(kind, "lowest cost by class")
            return ", ".join([aim, *floors[:MOST_FLOORS]]) + more + _confidence_words(objective)
        case {"kind": "cost", "false_negative": negative, "false_positive": positive}:
            return f"lowest cost, false negative {negative:g}, false positive {positive:g}"
    return str(objective.get("kind"))


def _confidence_words(objective: dict[str, Any]) -> str:
    confidence, certificate = objective.get("confidence"), objective.get("certificate")
    return (f" with confidence {percents.asked(confidence)}" if confidence is not None else "") + (
        f" ({certificate})" if certificate is not None else ""
    )


def audit_words(objective: dict[str, Any], confidence: float) -> str:
    """Say what an audit is to prove."""
    if objective["kind"] == "cost":
        costs = f"{objective['false_negative']:g}:{objective['false_positive']:g}"
        return f"cost {costs} at most {objective['at_most']:g} with confidence {percents.asked(confidence)}"
    return objective_words({**objective, "confidence": confidence})


def promise_words(point: dict[str, Any]) -> str:
    """Say how far a target can be relied on, in a list of models or thresholds; empty where there was none."""
    promise, status = point.get("promise"), str(point["status"])
    if point.get("proven_by"):
        return f"proven by {point['proven_by']}"
    if promise is None or promise["level"] is None or status in ("solver_limit", "stopped"):
        return status_words(point["objective"], status)
    return _level_words(str(promise["level"]), promise["chance"])


def _level_words(level: str, chance: float | None) -> str:
    return level if chance is None or level not in ("likely", "open") else f"{level} (chance {percents.odds(chance)})"


def audit_command(model: dict[str, Any], point: ReportedPoint) -> str | None:
    """Return the command by which checked rows prove a target; None where that is not advised."""
    needs = None if point.promise is None else point.promise.needs
    if needs is None or not needs.by_audit:
        return None
    asked = point.objective
    confidence = f" --confidence {asked['confidence']:g}" if asked.get("confidence") is not None else ""
    dataset = "FILE" if needs.checkable == 0 else model["dataset_id"] or "FILE"
    target = asked["at_most"] if "at_most" in asked else asked["target"]
    return f"prefsvm audit {model['id']} {dataset} --objective {asked['kind']}={target:g}{confidence}"


def reasons(point: ReportedPoint, *, is_proven: bool = False) -> list[str]:
    """Return what else there is to say of how that ended: what can be relied on first.

    Of a target that an audit has proven, what the labels say is said as that, and what would prove it is not.
    """
    if point.promise is None:
        return [point.status_reason] if point.status_reason else []
    said = point.promise.sentence
    is_told = point.status == "preference_unmet" and point.promise.level == "missed"  # once is enough
    others = [] if is_told or point.status_reason in ("", said) else [point.status_reason]
    return [f"from the labels alone: {point.promise.without_advice}" if is_proven else said, *others]


def outcome_words(point: ReportedPoint) -> str:
    """Say what was asked for, and how that ended."""
    rows = CALIBRATION_ROWS if point.calibration is None else f"the {point.calibration.n:,} calibration rows"
    if point.calibration is None and point.promise is not None and point.promise.level is not None:
        return f"{objective_words(point.objective)}: {_level_words(point.promise.level, point.promise.chance)}"
    said = (objective_words(point.objective), status_words(point.objective, point.status, rows))
    return ": ".join(filter(None, said))


def abstain_words(chosen: Abstention) -> str:
    """Say which scores get which label, and which none."""
    said = [
        f"no row is called {called.label!r}" if at is None else f"{called.label!r} {side} {at:.6g}"
        for called, at, side in (
            (chosen.positive, chosen.upper, "above"),
            (chosen.negative, chosen.lower, "up to"),
        )
    ]
    return f"{'; '.join(said)}; else undecided: {chosen.undecided} of {chosen.rows} calibration rows"


def feedback_words(told: FeedbackReport) -> str:
    """Say what became of corrected rows."""
    relabelled = f"{told.relabelled} got a label"
    if told.newly_labelled is not None:
        relabelled = f"{told.newly_labelled} got a first label, {told.relabelled - told.newly_labelled} another label"
    audited = f"; {told.audited} were looked at in audits" if told.audited else ""
    return (
        f"feedback: {told.rows} rows sent: {relabelled}, {told.confirmed} had it already, {told.added} were not in the "
        f"data set and are added; {told.random} were drawn at random and are measured on{audited}"
        + "".join(f"; {each.rows} of {each.source}, weighing {each.weight:g}, nobody gave" for each in told.concluded)
    )


def interval_words(estimate: Estimate | None) -> str:
    """Say a measure with its interval."""
    return "undefined" if estimate is None else percents.decimals(estimate.value, estimate.low, estimate.high)


def refit_words(told: Refit) -> str:
    """Say that the test rows were learned after they had measured."""
    measured, labelled = f"{told.measured:,}", f"{told.labelled:,}"
    return f"the test is of a model of {measured} labels; this one learned from all {labelled}, the test rows too"

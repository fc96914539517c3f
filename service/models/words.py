"""What was asked of a model, and how far that can be relied on, in words for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.models.schemas import ProvenThresholds
from service.shown_text import asked_percent, least_percent, most_percent, number
from solver.report import Promise

MOST_FLOORS = 5
"""What is asked of single classes, named in a sentence."""
LEVELS: Mapping[str, str] = {
    "proven": "Proven",
    "likely": "Likely",
    "open": "Not sure enough",
    "missed": "Not reached",
}
AIMS: Mapping[str, str] = {
    "cost": "Least cost",
    "f1": "Best F1",
    "f_beta": "Best F-beta",
    "macro_f1": "Best macro-F1",
    "accuracy": "Best accuracy",
}
"""Of objectives without a target: there is nothing to be reached, but something that is as good as can be."""


def objective_words(objective: Mapping[str, Any], positive: str | None = None) -> str:
    """Say what was asked for."""
    rows = "rows that it looks for" if positive is None else f"“{positive}” rows"
    confidence = objective.get("confidence")
    sure = "" if confidence is None else f", with a confidence of {asked_percent(confidence)}"
    undecided = "" if objective.get("abstain") is None else "; rows that it is not sure enough of get no label"
    return _of_kind(objective, rows, sure) + undecided


def _of_kind(objective: Mapping[str, Any], rows: str, sure: str) -> str:
    match objective:
        case {"kind": "precision", "target": target}:
            return f"Of what it flags, at least {asked_percent(target)} is right{sure}"
        case {"kind": "recall", "target": target}:
            return f"It finds at least {asked_percent(target)} of the {rows}{sure}"
        case {"kind": "precision_recall", "precision": precision, "recall": recall}:
            return (
                f"Of what it flags, at least {asked_percent(precision)} is right, and it finds at least "
                f"{asked_percent(recall)} of the {rows}{sure}"
            )
        case {"kind": "false_positive_rate" | "ham_loss", "at_most": at_most}:
            others = "good mails" if objective["kind"] == "ham_loss" else "other rows"
            return f"Of the {others}, it flags at most {asked_percent(at_most)}{sure}"
        case {"kind": "macro_f1"}:
            return f"The highest mean of the classes' F1{_floors(objective, sure)}"
        case {"kind": "accuracy"}:
            return f"As many rows as possible are given their class{_floors(objective, sure)}"
        case {"kind": "cost", "costs": _}:
            return f"As little cost as possible, by which class is taken for which{_floors(objective, sure)}"
        case {"kind": "cost", "false_negative": missed, "false_positive": alarm}:
            return f"A miss costs {number(missed)}, a false alarm {number(alarm)}: as little cost as possible"
        case {"kind": "f1"}:
            return "The best balance of precision and recall (F1)"
        case {"kind": "f_beta", "beta": beta}:
            return f"The best balance of precision and recall, with recall counted {number(beta)} times (F-beta)"
    return "Not known"


def _floors(objective: Mapping[str, Any], sure: str) -> str:
    """Say what single classes must reach."""
    wanted = [
        f"{name} {asked_percent(target)} of “{label}”"
        for label, each in (objective.get("floors") or {}).items()
        for name, target in each.items()
    ]
    if not wanted:
        return ""
    more = f" and {len(wanted) - MOST_FLOORS} more" if len(wanted) > MOST_FLOORS else ""
    return f", with {', '.join(wanted[:MOST_FLOORS])}{more}{sure}; rows that it is not sure enough of get no label"


def alone_words(promise: Promise) -> str:
    """Say what the labelled rows promise of a target that an audit has proven: nothing is advised to prove it."""
    return f"From the labels alone: {promise.without_advice}"


def proven_words(part: ProvenThresholds) -> str:
    """Say what is proven, and of which thresholds."""
    threshold = part.highest if part.highest is not None else part.lowest
    of_them = {"recall": ", and by each lower one", "false_positive_rate": ", and by each higher one"}
    at = "by no threshold" if threshold is None else f"by the threshold {number(threshold)}"
    said = {
        "precision": f"of what is flagged, at least {least_percent(part.bound)} is right",
        "recall": f"at least {least_percent(part.bound)} is found of what is there",
        "false_positive_rate": f"of the other rows, at most {most_percent(part.bound)} are flagged",
        "cost": f"a row costs at most {number(part.bound)}, on average",
    }[part.measure]
    return f"{at}{of_them.get(part.measure, '')}, {said} (confidence {asked_percent(part.confidence)})"


def promise_level(level: str | None, objective: Mapping[str, Any]) -> str:
    """Say how far a target can be relied on, in a word or two; without one, what the threshold was chosen for."""
    if level is None:
        return AIMS.get(str(objective.get("kind")), "Not known")
    return LEVELS.get(level, "Not known")

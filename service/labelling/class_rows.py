"""Which rows of several classes to look at, in words; see `service.labelling.service`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from service.labelling.reasons import why_listed
from solver import percents
from solver.classes_report import ClassesQueue, ClassRowsToLabel, DoubtedClasses


def improving_classes(queue: ClassRowsToLabel, classes: list[str]) -> Iterator[dict[str, Any]]:
    """Yield rows to label, without what they hold."""
    for place, row in enumerate(queue.rows):
        reason, covers, alike = queue.reasons[place], queue.covers[place], queue.nearest[place]
        best, following = classes[queue.best[place]], classes[queue.following[place]]
        first, second = queue.probabilities[place], queue.following_probabilities[place]
        unsure = f", between {best!r} {percents.measured(first)} and {following!r} {percents.measured(second)}"
        said = why_listed(reason, covers, queue.compared, alike, unsure)
        called = queue.said[place]
        yield {
            "row": row,
            "label": None if called < 0 else classes[called],
            "score": round(first - second, 6),
            "probability": first,
            "drawn": "random" if reason == "random" else "chosen",
            "reason": said if called >= 0 else f"{said}; it leaves this one undecided",
        }


def suspicious_classes(queue: DoubtedClasses, classes: list[str]) -> Iterator[dict[str, Any]]:
    """Yield labelled rows whose label is in doubt, without what they hold."""
    for place, row in enumerate(queue.rows):
        label, instead = classes[queue.labels[place]], classes[queue.instead[place]]
        of_label, of_instead = queue.probabilities[place], queue.instead_probabilities[place]
        yield {
            "row": row,
            "label": label,
            "score": round(of_label - of_instead, 6),
            "probability": of_label,
            "drawn": "chosen",
            "reason": f"labelled {label!r}; {instead!r} is the most probable, and models that have not seen "
            f"this label give {label!r} {percents.measured(of_label)}",
        }


def no_judge_of_classes(queue: ClassesQueue) -> list[str]:
    """Return what keeps the list from saying anything."""
    doubted = queue.suspicious
    if doubted.judged == 0:
        return ["no label could be judged: no model was trained that had not seen it"]
    if not doubted.better_than_chance:
        return [
            f"models that have not seen a label agree with the {doubted.judged} labels no more often than chance does, "
            "so that none can be doubted by them"
        ]
    return []

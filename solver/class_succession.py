"""Whether a name moves to a new model where this or the older one tells several classes apart.

As `solver.succession` has it for two classes; but two models of several classes are not compared on common rows: their
own figures are. Nothing here loads NumPy.
"""

from __future__ import annotations

from dataclasses import replace

from solver import percents
from solver.classes_report import AnyReport, ClassesFigures, MulticlassReport
from solver.report import Estimate, Succession
from solver.succession import kept, moved


def decide_of_classes(draft: Succession, model: str, now: AnyReport, before: AnyReport | None) -> Succession:
    """Decide whether the alias moves to a model.

    `if_not_worse`: unless the older one reached what was asked of each class and this one does not, or this one's
    interval of the objective (macro-F1, else accuracy) lies wholly below the older one's, on left-out rows of each.

    Parameters
    ----------
    draft : Succession
        Alias, policy and the older model.
    model : str
        The new model.
    now, before : Report or MulticlassReport
    """
    draft = replace(draft, promise=None if before is None else before.promise)
    if draft.policy == "if_met" and now.status != "met":
        return kept(draft, model, f"its status is {now.status}, and alias_policy is if_met")
    if before is None:
        return moved(draft, "it pointed at no model before")
    if not isinstance(now, MulticlassReport) or not isinstance(before, MulticlassReport):
        return moved(draft, "one tells several classes apart and the other two, so that they are not compared")
    other = _other_aim(now, before)
    if other is not None:
        return moved(draft, f"{other}, so that the two are not compared")
    worse = _worse(now, before)
    if worse is None:
        return moved(draft, "on the left-out rows of each it is not worse than chance explains")
    return kept(draft, model, worse) if draft.policy == "if_not_worse" else moved(draft, worse)


def _other_aim(now: MulticlassReport, before: MulticlassReport) -> str | None:
    if set(now.classes) != set(before.classes):
        return "its classes are not those of the older one"
    if now.objective != before.objective:
        return "its objective is not that of the older one"
    return None


def _worse(now: MulticlassReport, before: MulticlassReport) -> str | None:
    if before.status == "met" and now.status != "met":
        return f"its status is {now.status}, that of the older one met"
    name = "macro_f1" if now.objective.get("kind") == "macro_f1" else "accuracy"
    ours, theirs = _figure(now.calibration, name), _figure(before.calibration, name)
    if ours is None or theirs is None or ours.high >= theirs.low:
        return None
    said = name.replace("_f1", "-F1")
    return (
        f"its {said} on left-out rows is {percents.measured(ours.value)} (at most {percents.at_most(ours.high)}), that "
        f"of the older one was {percents.measured(theirs.value)} (at least {percents.at_least(theirs.low)})"
    )


def _figure(figures: ClassesFigures | None, name: str) -> Estimate | None:
    found: Estimate | None = None if figures is None else getattr(figures, name)
    return found

"""What must hold, in fields of a form: of a threshold that somebody looks for, and of an audit."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from service.models.objectives import FALSE_POSITIVE_KINDS
from service.pages.forms import Form, number


def objective_fields(asked: Mapping[str, Any], kinds: Collection[str]) -> dict[str, str]:
    """Return what such a form begins with: what is asked of a model, as far as it is one of these kinds.

    Shares are in percent.
    """
    kind = str(asked.get("kind"))
    target = asked.get("target", asked.get("precision", 0.95))
    return {
        "kind": kind if kind in kinds else "precision",
        "target": f"{100 * target:g}",
        "lost": f"{100 * asked.get('at_most', 0.001):g}",
        "missed": f"{asked.get('false_negative', 5):g}",
        "alarm": f"{asked.get('false_positive', 1):g}",
        "confidence": f"{100 * (asked.get('confidence') or 0.95):g}",
    }


def objective_in(form: Form) -> dict[str, Any]:
    """Return what a form asks for, not yet checked; raises `InvalidRequest` where it holds no number."""
    kind = form.text("kind")
    if kind == "cost":
        return {
            "kind": kind,
            "false_negative": number(form, "missed"),
            "false_positive": number(form, "alarm"),
        }
    if kind in FALSE_POSITIVE_KINDS:
        return {"kind": kind, "at_most": number(form, "lost", 0.01)}
    return {"kind": kind} if kind == "f1" else {"kind": kind, "target": number(form, "target", 0.01)}

"""What must hold, in fields of a form: of a threshold that somebody looks for, and of an audit."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from service.models.objectives import FALSE_POSITIVE_KINDS
from service.pages.forms import Form, number

TARGETS = ("precision", "recall")
"""Kinds of objectives that ask for at least a share, each in a field of its own."""


def objective_fields(asked: Mapping[str, Any], kinds: Collection[str]) -> dict[str, str]:
    """Return what such a form begins with: what is asked of a model, as far as it is one of these kinds.

    Shares are in percent. The confidence is empty where none is asked for.
    """
    kind = str(asked.get("kind"))
    shares = {each: asked.get(each, asked.get("target") if each == kind else None) or 0.95 for each in TARGETS}
    return {
        "kind": kind if kind in kinds else "precision",
        **{each: f"{100 * share:g}" for each, share in shares.items()},
        "lost": f"{100 * asked.get('at_most', 0.001):g}",
        "missed": f"{asked.get('false_negative', 5):g}",
        "alarm": f"{asked.get('false_positive', 1):g}",
        "confidence": f"{100 * asked['confidence']:g}" if asked.get("confidence") else "",
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
    if kind in TARGETS:
        # One field held the share of either kind before, and addresses of then are kept.
        return {"kind": kind, "target": number(form, kind if form.text(kind) else "target", 0.01)}
    return {"kind": kind}

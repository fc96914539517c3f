"""What an audit is to prove, and what it has proved, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.db.tables import AuditRow


def verdict_words(row: AuditRow) -> str | None:
    """Return what the answers prove; None until there is one."""
    pool, verdict = row.pool, row.verdict
    if pool is None or verdict is None:
        return None
    statement = statement_of(row.objective, pool)
    standing, bound = verdict["standing"], f"{verdict['bound']:.4g}"
    reached = f"at most {bound} a row" if row.objective["kind"] == "cost" else f"at least {bound}"
    with_confidence = f"(confidence {row.confidence:g})"
    if standing == "open":
        return f"open after {row.answered} rows whether {statement}; proved so far: {reached} {with_confidence}"
    return f"{standing} after {verdict['decided_after']} rows: {statement} {with_confidence}"


def statement_of(objective: Mapping[str, Any], pool: Mapping[str, Any]) -> str:
    """Return what an audit is to prove, in words."""
    positive = pool["positive"]
    if objective["kind"] == "precision":
        return (
            f"of the {pool['called_positive']} unlabelled rows that the model calls {positive}, at least "
            f"{objective['target']:g} are {positive}"
        )
    if objective["kind"] == "recall":
        return (
            f"of the unlabelled rows that are {positive}, {pool['rows']} being unlabelled, the model calls at least "
            f"{objective['target']:g} {positive}"
        )
    return f"the model's decisions on the {pool['rows']} unlabelled rows cost at most {objective['at_most']:g} a row"

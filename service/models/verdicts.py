"""What an audit is to prove, and what it has proved, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NotRequired, TypedDict, cast

from service.db.tables import AuditRow
from solver import percents
from solver.band import Band
from solver.choices import FALSE_POSITIVE_KINDS, PROMISE_CONFIDENCE


class StoredVerdict(TypedDict):
    """What the answers of an audit say: of its threshold, or of several the last that is proven, or the first."""

    standing: str
    bound: float
    estimate: float | None
    decided_after: int | None
    threshold: NotRequired[float]
    """Lacking in old ones, which are of the threshold in `AuditRow.pool`."""
    tried: NotRequired[list[StoredVerdict]]
    """Of several thresholds, each that was tried so far."""


def stored_verdict(row: AuditRow) -> StoredVerdict | None:
    """Return the verdict of an audit, None until there is an answer."""
    return cast("StoredVerdict | None", row.verdict)


def tried_thresholds(row: AuditRow) -> list[StoredVerdict]:
    """Return what an audit says of each threshold that it has tried."""
    verdict = stored_verdict(row)
    if row.pool is None or verdict is None:
        return []
    return verdict.get("tried") or [{**verdict, "threshold": row.pool["threshold"]}]


def verdict_words(row: AuditRow, of_it: StoredVerdict | None = None) -> str | None:
    """Return what the answers prove, of one of several thresholds if that is `of_it`; None until there is a verdict."""
    pool, verdict = row.pool, of_it or stored_verdict(row)
    if pool is None or verdict is None:
        return None
    statement = statement_of(row.objective, pool, verdict.get("threshold"))
    with_confidence = f"(confidence {percents.asked(row.confidence)})"
    if verdict["standing"] == "open":
        so_far = f"proved so far: {_reached(row, verdict)}"
        said = f"open after {_rows(row.answered)} whether {statement}; {so_far} {with_confidence}"
    else:
        said = f"{verdict['standing']} after {_rows(verdict['decided_after'] or 0)}: {statement} {with_confidence}"
    return said + _against_bound(row, verdict) + _next_words(row, verdict)


def _reached(row: AuditRow, verdict: StoredVerdict) -> str:
    """Say the bound that is proved, rounded so that it is."""
    bound = verdict["bound"]
    if row.objective["kind"] == "cost":
        return f"at most {bound:.4g} a row"
    return (
        f"at most {percents.at_most(bound)}" if "at_most" in row.objective else f"at least {percents.at_least(bound)}"
    )


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _next_words(row: AuditRow, verdict: StoredVerdict) -> str:
    """Say what became of the threshold that is tried behind the last proven one."""
    tried = verdict.get("tried") or []
    if not tried or verdict["standing"] != "proven":
        return ""
    if tried[-1]["standing"] == "proven":
        return "; it is the last of the thresholds that are tried"
    after = tried[-1]
    so_far = f"proved of it so far {_reached(row, after)}"
    return f"; the next threshold, {after['threshold']:.6g}, is {after['standing']}: {so_far}"


def proving_audit(
    audits: Iterable[AuditRow], objective: Mapping[str, Any], threshold: float, band: Band | None = None
) -> str | None:
    """Return the first of these audits that has proven the target of a point, and that no answer since speaks against.

    Where the objective names no confidence, that of the audit must be 0.95.
    """
    confidence = objective.get("confidence") or PROMISE_CONFIDENCE
    for row in audits:
        asked, of_it = row.objective, verdict_of(row, threshold, band)
        if of_it is None or of_it["standing"] != "proven" or is_contradicted(row, of_it):
            continue
        if _is_as_strict(asked, objective) and row.confidence >= confidence:
            return row.id
    return None


def refuting_audit(
    audits: Iterable[AuditRow], objective: Mapping[str, Any], threshold: float, band: Band | None = None
) -> str | None:
    """Return the first of these audits that has refuted a target of a point, unless more than that was to be proven."""
    for row in audits:
        of_it = verdict_of(row, threshold, band)
        if of_it is not None and of_it["standing"] == "refuted" and not _asks_more(row.objective, objective):
            return row.id
    return None


def _asks_more(proved: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Whether what was to be proved is stricter than what was asked of the same measure."""
    if proved["kind"] in FALSE_POSITIVE_KINDS:
        return bool(proved["at_most"] < asked.get("at_most", 0.0))
    target = asked.get("target") if asked.get("kind") == proved["kind"] else asked.get(proved["kind"])
    return target is not None and bool(proved.get("target", 0.0) > target)


def _is_as_strict(proved: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Whether what was proved is what was asked, or more; a cost is not asked to be at most anything."""
    if proved["kind"] in FALSE_POSITIVE_KINDS:
        return asked.get("kind") in FALSE_POSITIVE_KINDS and bool(proved["at_most"] <= asked["at_most"])
    return proved["kind"] == asked.get("kind") and bool(proved.get("target", 0) >= asked.get("target", 1))


def verdict_of(row: AuditRow, threshold: float, band: Band | None) -> StoredVerdict | None:
    """Return what an audit says of a model that decides by this threshold, and leaves these scores undecided.

    None where it says nothing of that.
    """
    if row.pool is None or Band.from_json(row.pool.get("abstain")) != band:
        return None
    return next((each for each in tried_thresholds(row) if each["threshold"] == threshold), None)


def told_verdict(row: AuditRow, threshold: float, band: Band | None) -> StoredVerdict | None:
    """Return what is told with such a model: of its threshold, where the audit tried that, and else the verdict itself.

    That speaks of the last threshold that is proven, while the one in use may be another, and refuted.
    """
    of_it, verdict = verdict_of(row, threshold, band), stored_verdict(row)
    if of_it is None or verdict is None or verdict.get("threshold", threshold) == threshold:
        return verdict  # which also tells of the next threshold
    return of_it


def is_contradicted(row: AuditRow, verdict: StoredVerdict) -> bool:
    """Tell whether answers since contradict what was proved, which it stays: that is how one of many proofs fails."""
    estimate, bound = verdict["estimate"], verdict["bound"]
    return estimate is not None and bool(estimate > bound if "at_most" in row.objective else estimate < bound)


def _against_bound(row: AuditRow, verdict: StoredVerdict) -> str:
    if not is_contradicted(row, verdict):
        return ""
    estimate = cast("float", verdict["estimate"])
    said = f"{estimate:.4g} a row" if row.objective["kind"] == "cost" else percents.measured(estimate, verdict["bound"])
    return (
        f"; the answers since speak against what was proved ({_reached(row, verdict)}): all together they say {said}, "
        "so this is one of the proofs that go wrong at this confidence"
    )


def statement_of(objective: Mapping[str, Any], pool: Mapping[str, Any], threshold: float | None = None) -> str:
    """Return what an audit is to prove, in words: of several thresholds of this one, or of the first."""
    # in quotes: what people call a class stays as they wrote it, also where numbers are written otherwise
    positive, several = f"'{pool['positive']}'", pool.get("thresholds") or []
    spoken_of = next((each for each in several if each["threshold"] == threshold), several[0] if several else None)
    by = "" if spoken_of is None else f" by the threshold {spoken_of['threshold']:.6g}"
    called = pool["called_positive"] if spoken_of is None else spoken_of["called_positive"]
    rows = "rows without label and feedback" if pool.get("with_feedback") else "unlabelled rows"
    if objective["kind"] == "precision":
        return (
            f"of the {called} {rows} that the model calls {positive}{by}, at least "
            f"{percents.asked(objective['target'])} are {positive}"
        )
    if objective["kind"] == "recall":
        return (
            f"of the {pool['rows']} {rows}, the model finds at least {percents.asked(objective['target'])} of those "
            f"that are {positive}{by}{_undecided(pool)}"
        )
    if objective["kind"] in FALSE_POSITIVE_KINDS:
        return (
            f"of the {pool['rows']} {rows}, the model takes at most {percents.asked(objective['at_most'])} of those "
            f"that are not {positive} for {positive}{by}{_undecided(pool)}"
        )
    decisions = f"the model's decisions{by} on the {pool['rows']} {rows}"
    return f"{decisions} cost at most {objective['at_most']:g} a row{_undecided(pool)}"


def _undecided(pool: Mapping[str, Any]) -> str:
    """Say what becomes of rows without a label."""
    return "" if pool.get("abstain") is None else " (those left undecided taken for what the threshold alone says)"

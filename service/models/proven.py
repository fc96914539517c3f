"""Of which thresholds of a model what is proven: by audits, and by labels where a confidence was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from service.db.tables import AuditRow
from service.models.objectives import FALSE_POSITIVE_KINDS
from service.models.schemas import OperatingPoint, ProvenThresholds
from service.models.verdicts import is_contradicted, tried_thresholds
from solver.band import Band


def proven_thresholds(points: Sequence[OperatingPoint], audits: Sequence[AuditRow]) -> list[ProvenThresholds]:
    """Return what is proven of thresholds, each decided by alone.

    A recall that is proven of a threshold is proven of each lower one, and a false positive rate of each higher one:
    what the one flags, the other flags, too. A precision and a cost are proven of one threshold.

    Parameters
    ----------
    points : sequence of OperatingPoint
        Those that the model was given: by its training, and by whoever moved its threshold.
    audits : sequence of AuditRow
        Of which some have proven something of it.
    """
    parts = [*_by_labels(points), *_by_audits(audits)]
    return list(dict.fromkeys(parts))


def _by_labels(points: Sequence[OperatingPoint]) -> Iterator[ProvenThresholds]:
    for point in points:
        confidence = point.objective.get("confidence")
        if confidence is None or point.promise is None or point.promise.level != "proven":
            continue
        for measure, bound in _targets(point.objective).items():
            yield _part(measure, bound, confidence, point.threshold, None)


def _by_audits(audits: Sequence[AuditRow]) -> Iterator[ProvenThresholds]:
    for row in audits:
        band = None if row.pool is None else Band.from_json(row.pool.get("abstain"))
        measure = _measure(row.objective["kind"])
        for tried in tried_thresholds(row):
            if tried["standing"] != "proven" or is_contradicted(row, tried):
                continue
            # of what is called positive, where rows are left undecided, and otherwise of the threshold alone
            threshold = band.upper if band is not None and measure == "precision" else tried["threshold"]
            yield _part(measure, tried["bound"], row.confidence, threshold, row.id)


def _targets(objective: Mapping[str, Any]) -> dict[str, float]:
    kind = str(objective["kind"])
    if kind == "precision_recall":
        return {"precision": objective["precision"], "recall": objective["recall"]}
    return {_measure(kind): objective.get("target", objective.get("at_most"))}


def _measure(kind: str) -> str:
    return "false_positive_rate" if kind in FALSE_POSITIVE_KINDS else kind


def _part(measure: str, bound: float, confidence: float, threshold: float, audit: str | None) -> ProvenThresholds:
    return ProvenThresholds.model_validate(
        {
            **{"measure": measure, "bound": bound, "confidence": confidence, "audit": audit},
            "lowest": None if measure == "recall" else threshold,
            "highest": None if measure == "false_positive_rate" else threshold,
        }
    )

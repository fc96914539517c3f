"""What labelling has bought so far: the models that a name has pointed at, by how many labels they learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from service import charts
from service.models.errors import AliasNotFound, DamagedModel, ModelNotFound, SeveralClasses
from service.models.objectives import FALSE_POSITIVE_KINDS
from service.models.schemas import Model
from service.pages.services import Services

MOST_MODELS = 8
"""Of a name, the newest ones."""
WORDS = {"precision": "Precision", "recall": "Recall", "f1": "F1", "cost": "Mean cost of a row"}


@dataclass(frozen=True)
class Bought:
    """A measure of the models of a name, with a picture."""

    measure: str
    objective: Mapping[str, Any]
    """What all of them were asked for."""
    models: int
    picture: Markup


def bought(services: Services, project: str, alias: str) -> Bought | None:
    """Return what more labels have brought; None where fewer than two models can be laid beside each other.

    The measure is the one that an objective leaves open: what is found at the precision that is asked for, and how
    precise it is at the recall.
    """
    try:
        history = services.aliases.get(project, alias, 2 * MOST_MODELS).history
    except AliasNotFound:
        return None
    ids = list(dict.fromkeys(change.model_id for change in history))[:MOST_MODELS]
    models = [model for each in reversed(ids) if (model := _there(services, project, each)) is not None]
    if not models:
        return None
    objective = models[-1].report.objective
    left_open = {"precision": "recall", "recall": "precision", "cost": "cost"} | dict.fromkeys(
        FALSE_POSITIVE_KINDS, "recall"
    )
    measure = left_open.get(str(objective.get("kind")), "f1")
    points = []
    for model in models:
        value = getattr(model.report.calibration, measure, None)
        if model.report.objective == objective and value is not None:
            points.append(charts.Point(model.report.rows.labelled, value.value, value.low, value.high))
    if len({point.x for point in points}) < 2:
        return None
    points.sort(key=lambda point: point.x)
    x = charts.numbers("Labelled rows", [1.05 * point.x for point in points], whole=True, zero=True)
    ends = [point.high or point.y for point in points]
    y = charts.numbers(WORDS[measure], ends, zero=True) if measure == "cost" else charts.shares(WORDS[measure])
    picture = charts.plot([charts.Line(points, dots=True)], x, y, f"{WORDS[measure]} by the number of labelled rows")
    return Bought(WORDS[measure], objective, len(points), picture)


def _there(services: Services, project: str, model_id: str) -> Model | None:
    try:
        return services.models.get(project, model_id)
    except (ModelNotFound, DamagedModel, SeveralClasses):
        return None

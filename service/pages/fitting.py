"""Data sets that a model can decide on, as far as one answer of the list looks for them."""

from __future__ import annotations

from dataclasses import dataclass

from service.datasets.errors import DatasetNotFound
from service.models.schemas import Model, MulticlassModel
from service.pages.forms import Form
from service.pages.services import Services

MOST_DATASETS = 50
"""In a menu."""


@dataclass(frozen=True)
class Fitting:
    """What a menu of data sets holds."""

    named: list[tuple[str, str]]
    """Id and name."""
    cursor: str
    """Where the list begins; empty: with the newest."""
    next_cursor: str | None
    """Where it goes on; None: there are no others."""


def fitting(services: Services, project: str, model: Model | MulticlassModel, given: Form, chosen: str = "") -> Fitting:
    """Return data sets that fit a model, from where an address says (``older``).

    One that is chosen comes first, as the menu begins with it, and then that of the training while it is there,
    whatever the list has: it looks at so many columns and no more.
    """
    cursor = given.text("older")
    page = services.datasets.list(project, cursor or None, MOST_DATASETS, model.id)
    named = {each.id: each.name for each in page.items}
    wanted = [each for each in (chosen, model.dataset_id if not cursor else None) if each]
    first = {
        each: name
        for each in wanted
        if (name := named.get(each) or name_of_dataset(services, project, each)) is not None
    }
    return Fitting(list((first | named).items()), cursor, page.next_cursor)


def name_of_dataset(services: Services, project: str, dataset: str) -> str | None:
    """Return what a data set is called; None where it is gone."""
    try:
        return services.datasets.get(project, dataset, most=1).name
    except DatasetNotFound:
        return None

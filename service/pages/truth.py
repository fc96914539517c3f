"""What the rows of the example are in truth, for who is to say what they are; of other data sets nobody knows it."""

from __future__ import annotations

from collections.abc import Sequence

from service.datasets.errors import DatasetNotFound
from service.datasets.example import truth_of
from service.pages.services import Services


def truth_in(services: Services, project: str, dataset: str) -> Sequence[str] | None:
    """Return what each row of a data set is, if it is the example, as ``GET /example`` tells."""
    try:
        return truth_of(services.datasets.get(project, dataset, most=1))
    except DatasetNotFound:
        return None

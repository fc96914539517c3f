"""The example that everybody can try the product on: its file, and what is true of its rows."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from functools import cache
from typing import Final

from anyio import to_thread
from pydantic import Field

from service.datasets.schemas import DatasetBase
from service.datasets.service import UploadDetails
from service.schemas import Answer

NAME: Final = "tumours.csv"
ROWS: Final = 398
"""By which most data sets are known not to be the example before it is made."""


class Example(Answer):
    """The example, with what its file leaves open."""

    name: str = Field(description="Of its file, which is at /example/tumours.csv.")
    sha256: str = Field(description="Of the bytes of the file: a data set that has it is the example.")
    target: str = Field(description="The column of the labels, most of which are removed in the file.")
    positive: str = Field(description="The label that is looked for.")
    truth: list[str] = Field(
        description="What each row of the file is, in order, also where its label is removed: so whoever labels or "
        "audits its rows can answer truthfully."
    )


class ExampleUpload:
    """What ``prefsvm example`` writes: 398 tumours, 39 of them with a diagnosis."""

    declared_bytes: int | None = None
    counts_as_stored = False

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the bytes of the file."""
        yield await to_thread.run_sync(example_file)

    def details(self) -> UploadDetails:
        """Return its name; the format is in it."""
        return UploadDetails.of("form", {}, {}, NAME, None)


def truth_of(dataset: DatasetBase) -> Sequence[str] | None:
    """Return what each row of a data set is, if it is the example; None of any other."""
    if dataset.rows != ROWS:
        return None
    example = the_example()
    return example.truth if dataset.sha256 == example.sha256 else None


@cache
def the_example() -> Example:
    """Return the example with what is true of its rows."""
    # Loaded where it is used: most processes never need it, and it brings scikit-learn along.
    from solver.examples import POSITIVE, TARGET, breast_tumours

    tumours = breast_tumours()
    sha256 = hashlib.sha256(tumours.training_csv.encode()).hexdigest()
    return Example(name=NAME, sha256=sha256, target=TARGET, positive=POSITIVE, truth=tumours.training_labels)


def example_file() -> bytes:
    """Return the bytes of its file."""
    from solver.examples import breast_tumours

    return breast_tumours().training_csv.encode()

"""The example that everybody can try the product on, as an upload."""

from __future__ import annotations

from collections.abc import AsyncIterator

from anyio import to_thread

from service.datasets.service import UploadDetails

NAME = "tumours.csv"


class ExampleUpload:
    """What ``prefsvm example`` writes: 398 tumours, 39 of them with a diagnosis."""

    declared_bytes: int | None = None
    counts_as_stored = False

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the bytes of the file."""
        yield await to_thread.run_sync(_csv)

    def details(self) -> UploadDetails:
        """Return its name; the format is in it."""
        return UploadDetails.of("form", {}, {}, NAME, None)


def _csv() -> bytes:
    # Loaded where it is used: most processes never need it, and it brings scikit-learn along.
    from solver.examples import breast_tumours

    return breast_tumours().training_csv.encode()

"""The supervisor's half of a batch: the model goes to the child as a file, and its predictions into the blob store.

The child has no address of the database, and whoever is not told the end of a batch must not see its result.
"""

from __future__ import annotations

from pathlib import Path

from service.blobs.store import BlobStore
from service.db.session import Database
from service.identifiers import new_id
from service.jobs.lease import Claim
from service.models.chunks import stream_chunks


def fetch_model(database: Database, claim: Claim, path: Path) -> None:
    """Write the model that a batch applies to a file.

    Raises
    ------
    ModelNotFound, DamagedModel
        If it was deleted, or is not what was written.
    """
    with path.open("wb") as file:
        for chunk in stream_chunks(database, claim.project_id, claim.request["model"], claim.request["sha256"]):
            file.write(chunk)


def publish(blobs: BlobStore, path: Path) -> str:
    """Move the predictions into the blob store and return their key. If no row comes to name it, it is swept later."""
    key = f"batches/{new_id('blob')}"
    blobs.put_file(key, path)
    return key

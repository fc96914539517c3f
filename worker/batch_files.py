"""The supervisor's half of a batch: the model goes to the child as a file, and its predictions into the blob store.

The child has no address of the database, and whoever is not told the end of a batch must not see its result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from service.blobs.store import BlobStore
from service.db.session import Database
from service.errors import Problem
from service.identifiers import new_id
from service.jobs.lease import Claim
from service.models.chunks import stream_chunks
from service.models.shadows import ShadowCounts, ShadowKey
from worker.protocol import MODEL_FILE, SHADOW_FILE


def fetch_models(database: Database, claim: Claim, folder: Path) -> None:
    """Write the model that a batch applies to a file, and the shadow of its alias to another, if it has one.

    A shadow that is not there any more is left out: it must not end the batch.

    Raises
    ------
    ModelNotFound, DamagedModel
        If the model was deleted, or is not what was written.
    """
    _fetch(database, claim.project_id, claim.request, folder / MODEL_FILE)
    shadow = claim.request.get("shadow")
    if shadow is not None and claim.attempt == 1:
        try:
            _fetch(database, claim.project_id, shadow, folder / SHADOW_FILE)
        except Problem:
            (folder / SHADOW_FILE).unlink()


def _fetch(database: Database, project_id: str, wanted: Mapping[str, Any], path: Path) -> None:
    with path.open("wb") as file:
        for chunk in stream_chunks(database, project_id, wanted["model"], wanted["sha256"]):
            file.write(chunk)


def shadow_counts(claim: Claim, compared: Mapping[str, Any]) -> tuple[ShadowKey, ShadowCounts]:
    """Return what a child said of a shadow, as it is added to the figures of the alias."""
    shadow = claim.request["shadow"]
    key = ShadowKey(claim.project_id, shadow["alias"], claim.request["model"], shadow["model"])
    pairs = Counter({(label, shadow_label): rows for label, shadow_label, rows in compared["pairs"]})
    return key, ShadowCounts(pairs, compared["dropped"], compared["failed"])


def publish(blobs: BlobStore, path: Path) -> str:
    """Move the predictions into the blob store and return their key. If no row comes to name it, it is swept later."""
    key = f"batches/{new_id('blob')}"
    blobs.put_file(key, path)
    return key

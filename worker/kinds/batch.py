"""A batch: the model goes to the child as a file, and its predictions into the blob store.

The child has no address of the database, and whoever is not told the end of a batch must not see its result.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from sqlalchemy.orm import Session

from service.blobs.store import BlobStore, is_disk_full
from service.errors import Problem
from service.identifiers import new_id
from service.jobs.claims import Claim, JobClaims
from service.models.chunks import stream_chunks
from service.models.shadows import UNDECIDED, ShadowCounts, ShadowKey, ShadowRepository
from worker.attempt import DISK_OF_BLOBS, Attempt, Ending
from worker.kinds.kind import Made
from worker.protocol import MODEL_FILE, PREDICTIONS_FILE, RESULT_FILE, SHADOW_FILE

log = logging.getLogger("prefsvm.worker")


class BatchKind:
    """A model and a data set → predictions (`service.batches`)."""

    name = "batch"
    computes = "worker.predict:run"
    makes = PREDICTIONS_FILE

    def lay_out(self, attempt: Attempt) -> dict[str, Any]:
        """Write the model to a file, and the shadow of its alias to another, if it has one.

        A shadow that is not there any more is left out: it must not end the batch.

        Raises
        ------
        ModelNotFound, DamagedModel
            If the model was deleted, or is not what was written.
        """
        claim = attempt.claim
        fetch(attempt, claim.request, attempt.folder / MODEL_FILE)
        shadow = claim.request.get("shadow")
        if shadow is not None and claim.attempt == 1:
            try:
                fetch(attempt, shadow, attempt.folder / SHADOW_FILE)
            except Problem:
                (attempt.folder / SHADOW_FILE).unlink()
        return {}

    def conclude(self, attempt: Attempt, made: Made) -> Ending:
        """Store the predictions, and delete them again if the batch turns out not to be ours."""
        claim = attempt.claim
        report = json.loads((attempt.folder / RESULT_FILE).read_text())["report"]
        compared = report.pop("shadow", None)
        blobs = BlobStore(attempt.settings.blob_location)
        try:
            key = publish(blobs, attempt.folder / PREDICTIONS_FILE)
        except Exception as error:  # an object store may raise anything
            if is_disk_full(error):
                return attempt.disk_full(DISK_OF_BLOBS)
            log.exception("%s: the predictions cannot be stored", claim.job_id)
            return attempt.crashed("storage_error", f"the predictions cannot be stored ({type(error).__name__})")
        result = {"blob_key": key, "bytes": made.bytes, "sha256": made.sha256, **report}
        jobs = JobClaims(attempt.settings.lease_seconds)

        def write(session: Session) -> Literal["cancelled"] | bool:
            def count_shadow(_dataset_id: str | None) -> dict[str, Any]:
                if compared is not None:
                    who, counts = _shadow_counts(claim, compared)
                    ShadowRepository(session, claim.project_id).add(who, counts)
                return {}

            written = jobs.finish_succeeded(session, claim, result=result, store=count_shadow)
            if written is not True:
                blobs.delete(key)
            return written

        return Ending("succeeded", write)


def fetch(attempt: Attempt, wanted: Mapping[str, Any], path: Path) -> None:
    """Write the model that a request names to a file; raises `ModelNotFound`, `DamagedModel`."""
    with path.open("wb") as file:
        chunks = stream_chunks(attempt.database, attempt.claim.project_id, wanted["model"], wanted["sha256"])
        for chunk in chunks:
            file.write(chunk)


def _shadow_counts(claim: Claim, compared: Mapping[str, Any]) -> tuple[ShadowKey, ShadowCounts]:
    """Return what a child said of a shadow, as it is added to the figures of the alias."""
    shadow = claim.request["shadow"]
    key = ShadowKey(claim.project_id, shadow["alias"], claim.request["model"], shadow["model"])
    pairs = Counter({(one or UNDECIDED, other or UNDECIDED): rows for one, other, rows in compared["pairs"]})
    return key, ShadowCounts(pairs, compared["dropped"], compared["failed"])


def publish(blobs: BlobStore, path: Path) -> str:
    """Move the predictions into the blob store and return their key. If no row comes to name it, it is swept later."""
    key = f"batches/{new_id('blob')}"
    blobs.put_file(key, path)
    return key

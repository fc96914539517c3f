from __future__ import annotations

import time
from uuid import uuid4

from api_support import api_client, blob_files, upload
from upload_support import begin, send

from service.blobs.store import BlobStore
from service.orphans import OrphanSweeper

DAY = 24 * 3600


def key(folder: str, age: float) -> str:
    milliseconds = int((time.time() - age) * 1000)
    return f"{folder}/blob_{milliseconds:012x}7{uuid4().hex[13:]}"


def test_only_old_blobs_without_a_row_go(settings, database):
    blobs = BlobStore(settings.blob_location)
    with api_client(settings) as client:
        upload(client)
        path = begin(client)
        send(client, path, 0, b"age,")
        kept = set(blob_files(settings))
        assert {name.partition("/")[0] for name in kept} == {"uploads", "columnar", "parts"}
        young = key("uploads", DAY - 60)
        foreign = "uploads/something-else"
        old = [key(folder, DAY + 60) for folder in ("uploads", "columnar", "parts") for _ in range(3)]
        for name in (young, foreign, *old):
            with blobs.writer(name) as out:
                out.write(b"x")
        assert OrphanSweeper(database, blobs, DAY).sweep() == len(old)
        assert set(blob_files(settings)) == kept | {young, foreign}
        # Rows protect blobs of any age.
        assert OrphanSweeper(database, blobs, -DAY).sweep() == 1
        assert set(blob_files(settings)) == kept | {foreign}

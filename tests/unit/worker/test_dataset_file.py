"""What is trained on is what the reader of the upload wrote, or the job says that it is damaged."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from service.blobs.store import BlobStore
from service.ingest.columnar import read_columnar, read_labels
from service.ingest.limits import ReadingLimits
from service.ingest.reader import read_upload
from service.settings import Settings
from worker.dataset_file import dataset_file
from worker.protocol import JobSpec, UnrunnableJobError

FLIPS = 300


@pytest.fixture
def job(tmp_path: Path) -> JobSpec:
    (tmp_path / "in").write_bytes(
        b"x,kind,y\n" + b"".join(b"%d.5,%s,%d\n" % (row, b"ab"[row % 2 :][:1], row % 2) for row in range(5000))
    )
    read_upload(tmp_path / "in", "csv", {}, ReadingLimits.of(Settings()), tmp_path / "out")
    digest = hashlib.sha256((tmp_path / "out").read_bytes()).hexdigest()
    store = BlobStore(str(tmp_path / "blobs"))
    store.put_file("columnar/one", tmp_path / "out")
    return JobSpec(
        job_id="job_1", attempt=1, request={}, layout="table", columnar_key="columnar/one",
        blob_location=str(tmp_path / "blobs"), scratch=str(tmp_path), columnar_sha256=digest,
    )  # fmt: skip


def read(job: JobSpec) -> None:
    with dataset_file(job) as path:
        read_columnar(path, "table")
        read_labels(path, "table", "y")


def test_one_flipped_bit_is_never_read_in_silence(job: JobSpec, tmp_path: Path) -> None:
    read(job)
    stored = next(path for path in (tmp_path / "blobs").rglob("*") if path.is_file())
    whole = bytearray(stored.read_bytes())
    chance = np.random.default_rng(12)
    for _ in range(FLIPS):
        place, bit = int(chance.integers(len(whole))), 1 << int(chance.integers(8))
        whole[place] ^= bit
        stored.write_bytes(whole)
        with pytest.raises(UnrunnableJobError) as caught:
            read(job)
        assert caught.value.code == "damaged_dataset"
        whole[place] ^= bit
    stored.write_bytes(whole)
    read(job)


def test_a_data_set_from_before_there_were_checksums_is_read_and_told_as_damaged_where_it_is_cut(
    job: JobSpec, tmp_path: Path
) -> None:
    old = replace(job, columnar_sha256=None)
    read(old)
    stored = next(path for path in (tmp_path / "blobs").rglob("*") if path.is_file())
    for left in (stored.read_bytes()[:-500], b"\0" * 4000, b""):
        stored.write_bytes(left)
        with pytest.raises(UnrunnableJobError) as caught:
            read(old)
        assert caught.value.code == "damaged_dataset"

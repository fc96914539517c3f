"""The columnar file of a job's data set, looked at before anything is learned from it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from safetensors import SafetensorError

from service.blobs.store import BlobNotFoundError, BlobStore
from worker.protocol import Job, JobError


@contextmanager
def dataset_file(job: Job) -> Iterator[Path]:
    """Give the path of the file, once its bytes were found to be those that the reader of the upload wrote.

    Data sets from before there were checksums have none, and are only found damaged where they cannot be read.

    Raises
    ------
    JobError
        ``damaged_dataset``, ``dataset_deleted``.
    """
    damaged = JobError("damaged_dataset", "the stored rows of the data set are damaged; upload the file again")
    try:
        with BlobStore(job.blob_location).local_path(job.columnar_key) as path:
            if job.columnar_sha256 is not None:
                with path.open("rb") as file:
                    if hashlib.file_digest(file, "sha256").hexdigest() != job.columnar_sha256:
                        raise damaged
            try:
                yield path
            except (pa.ArrowInvalid, SafetensorError) as error:
                raise damaged from error
            except OSError as error:
                if error.errno is not None:
                    raise  # the disk, or a file of the job; Arrow gives no number
                raise damaged from error
    except BlobNotFoundError as error:
        raise JobError("dataset_deleted", "the data set was deleted before the job could read it") from error

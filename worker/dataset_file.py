"""The files of a job's data set, looked at before anything is learned from them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from safetensors import SafetensorError

from service.blobs.store import BlobNotFoundError, BlobStore
from service.ingest.errors import IngestError
from service.ingest.limits import Limits
from service.ingest.reader import read_upload
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
    damaged = _damaged()
    try:
        with BlobStore(job.blob_location).local_path(job.columnar_key) as path:
            if job.columnar_sha256 is not None:
                _check(path, job.columnar_sha256)
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


def read_again(job: Job, columns: Collection[str], output: Path) -> None:
    """Read the upload of the data set once more, with the texts of some columns as they are written.

    Parameters
    ----------
    job : Job
    columns : collection of str
        Whose texts are wanted. Values that are no texts in the file stay what they are.
    output : Path
        Gets the columnar form.

    Raises
    ------
    JobError
        ``damaged_dataset``, ``dataset_deleted``, and the reasons of `IngestError`.
    """
    upload = cast("dict[str, Any]", job.upload)
    try:
        with BlobStore(job.blob_location).local_path(upload["key"]) as path:
            _check(path, upload["sha256"])
            read_upload(path, upload["format"], upload["options"], Limits(**upload["limits"]), output, columns)
    except BlobNotFoundError as error:
        raise JobError("dataset_deleted", "the data set was deleted before the job could read it") from error
    except IngestError as error:
        raise JobError(error.code, error.message) from error


def _check(path: Path, sha256: str) -> None:
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
            raise _damaged()


def _damaged() -> JobError:
    return JobError("damaged_dataset", "the stored rows of the data set are damaged; upload the file again")

"""The files of a job's data sets, looked at before anything is learned from them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import cast

import pyarrow as pa
from safetensors import SafetensorError

from service.blobs.store import BlobNotFoundError, BlobStore
from service.ingest.errors import IngestError, is_of_the_disk
from service.ingest.limits import ReadingLimits
from service.ingest.reader import read_upload
from solver.reading import Reading
from worker.protocol import JobSpec, UnrunnableJobError, UploadedFile


def dataset_file(job: JobSpec) -> AbstractContextManager[Path]:
    """Give the path of the rows of a job; raises what `_checked` raises."""
    return _checked(job.blob_location, job.columnar_key, job.columnar_sha256, "the data set")


def labels_file(job: JobSpec) -> AbstractContextManager[Path]:
    """Give the path of the data set that has the labels of a training, which is a table; raises as `_checked`."""
    return _checked(job.blob_location, str(job.labels_key), job.labels_sha256, "the data set of the labels")


@contextmanager
def _checked(blob_location: str, key: str, sha256: str | None, what: str) -> Iterator[Path]:
    """Give the path of a file, once its bytes were found to be those that the reader of the upload wrote.

    Data sets from before there were checksums have none, and are only found damaged where they cannot be read.

    Raises
    ------
    UnrunnableJobError
        ``damaged_dataset``, ``dataset_deleted``.
    """
    damaged = _damaged(what)
    try:
        with BlobStore(blob_location).local_path(key) as path:
            if sha256 is not None:
                _check(path, sha256, what)
            try:
                yield path
            except (pa.ArrowInvalid, SafetensorError) as error:
                raise damaged from error
            except OSError as error:
                if is_of_the_disk(error):  # or a file of the job
                    raise
                raise damaged from error
    except BlobNotFoundError as error:
        raise UnrunnableJobError("dataset_deleted", f"{what} was deleted before the job could read it") from error


def read_again(job: JobSpec, columns: Mapping[str, Reading], output: Path) -> None:
    """Read the upload of the data set once more, with the texts of some columns as they are written.

    Parameters
    ----------
    job : JobSpec
    columns : mapping of str to Reading
        Whose texts are wanted, and how they will be read. Values that are no texts in the file keep their meaning.
    output : Path
        Gets the columnar form.

    Raises
    ------
    UnrunnableJobError
        ``damaged_dataset``, ``dataset_deleted``, and the reasons of `IngestError`.
    """
    upload = cast("UploadedFile", job.upload)
    try:
        with BlobStore(job.blob_location).local_path(upload["key"]) as path:
            _check(path, upload["sha256"], "the data set")
            read_upload(path, upload["format"], upload["options"], ReadingLimits(**upload["limits"]), output, columns)
    except BlobNotFoundError as error:
        raise UnrunnableJobError("dataset_deleted", "the data set was deleted before the job could read it") from error
    except IngestError as error:
        raise UnrunnableJobError(error.code, error.message) from error


def _check(path: Path, sha256: str, what: str) -> None:
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
            raise _damaged(what)


def _damaged(what: str) -> UnrunnableJobError:
    return UnrunnableJobError("damaged_dataset", f"the stored rows of {what} are damaged; upload the file again")

"""What can go wrong with data sets."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from service.errors import NotFound, Problem, StorageFull


class DatasetNotFound(NotFound):
    """No data set has this id."""

    type = "dataset-not-found"
    title = "No such data set"


class DatasetInUse(Problem):
    """A job that has not ended reads this data set."""

    type = "dataset-in-use"
    title = "The data set is in use"
    status = 409


class DatasetUsed(Problem):
    """A job has used this data set, so how it is read stays as it is."""

    type = "dataset-used"
    title = "The data set was used"
    status = 409


class UnreadableDataset(Problem):
    """The upload could not be read as a table of its format. `errors` names the line where one is to blame."""

    type = "unreadable-dataset"
    title = "The data set cannot be read"
    status = 422


class DamagedDataset(Problem):
    """The stored bytes of the upload are not those that were sent. Upload the file again, or restore the blob store."""

    type = "damaged-dataset"
    title = "The stored data set is damaged"
    status = 500


class ReaderLost(Problem):
    """What read the upload was ended from outside. The file is not to blame; send it again."""

    type = "reader-lost"
    title = "The reader was ended"
    status = 503

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"Retry-After": "30"})


class UploadNotFound(NotFound):
    """No upload has this id, or it has expired."""

    type = "upload-not-found"
    title = "No such upload"


class UploadConflict(Problem):
    """The part does not begin where the last one ended, or the upload takes no more parts. Ask for its offset."""

    type = "upload-conflict"
    title = "Not at this offset"
    status = 409


class TooManyUploads(Problem):
    """The project has too many uploads that are not complete. Complete or delete one (``GET /uploads`` lists them)."""

    type = "too-many-uploads"
    title = "Too many unfinished uploads"
    status = 409


class UploadTooLarge(Problem):
    """The upload has more bytes than this installation takes."""

    type = "content-too-large"
    title = "Content too large"
    status = 413


@contextmanager
def full_storage_told() -> Iterator[None]:
    """Raise `StorageFull` where the blob store says that it has no room."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull("there is no room for this upload") from error
        raise

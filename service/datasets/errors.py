"""What can go wrong with data sets."""

from collections.abc import Iterator
from contextlib import contextmanager

from service.blobs.store import is_disk_full
from service.errors import NotFound, Problem, StorageFull


class DatasetNotFound(NotFound, type="dataset-not-found", title="No such data set", detail="no data set has this id"):
    """No data set has this id."""


class DatasetInUse(Problem, type="dataset-in-use", title="The data set is in use", status=409):
    """A job that has not ended reads this data set."""


class DatasetUsed(Problem, type="dataset-used", title="The data set was used", status=409):
    """A job has used this data set, so how it is read stays as it is."""


class UnreadableDataset(Problem, type="unreadable-dataset", title="The data set cannot be read", status=422):
    """The upload could not be read as a table of its format. `errors` names the line where one is to blame."""


class DamagedDataset(Problem, type="damaged-dataset", title="The stored data set is damaged", status=500):
    """The stored bytes of the upload are not those that were sent. Upload the file again, or restore the blob store."""


class ReaderLost(Problem, type="reader-lost", title="The reader was ended", status=503, retry_after=30):
    """What read the upload was ended from outside. The file is not to blame; send it again."""


class UploadNotFound(
    NotFound, type="upload-not-found", title="No such upload", detail="no upload has this id; it may have expired"
):
    """No upload has this id, or it has expired."""


class UploadConflict(Problem, type="upload-conflict", title="Not at this offset", status=409):
    """The part does not begin where the last one ended, or the upload takes no more parts. Ask for its offset."""


class TooManyUploads(Problem, type="too-many-uploads", title="Too many unfinished uploads", status=409):
    """The project has too many uploads that are not complete. Complete or delete one (``GET /uploads`` lists them)."""


class UploadTooLarge(Problem, type="content-too-large", title="Content too large", status=413):
    """The upload has more bytes than this installation takes."""


@contextmanager
def full_storage_told() -> Iterator[None]:
    """Raise `StorageFull` where the blob store says that it has no room."""
    try:
        yield
    except OSError as error:
        if is_disk_full(error):
            raise StorageFull("there is no room for this upload") from error
        raise

"""Where the bytes of uploads are kept: a folder, or an object store behind an fsspec address.

Keys are written once and never changed, so that a reader never sees half of a blob and a copy never goes stale.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast
from uuid import uuid4

log = logging.getLogger("prefsvm.blobs")

KEY_PATTERN = re.compile(r"[a-z0-9_-][a-z0-9_.-]*(/[a-z0-9_-][a-z0-9_.-]*)*")
"""Lower case, digits, ``_ - .`` and folders; no part begins with a dot, so ``..`` and hidden names can't be said."""

COPY_BYTES = 1 << 20
UNFINISHED = ".unfinished"
"""Folder below the root of a folder store for what is being written."""


class BlobError(Exception):
    """Base of the errors of the blob store."""


class InvalidKeyError(BlobError, ValueError):
    """A key that is not of the allowed form. A defect of the caller: keys never come from outside."""


class BlobNotFoundError(BlobError, KeyError):
    """No blob has this key."""


class BlobExistsError(BlobError):
    """A blob of this key is there already; keys are written once."""


@dataclass(frozen=True)
class BlobStat:
    """What is known of a blob without reading it."""

    key: str
    bytes: int


class BlobSink(Protocol):
    """What `BlobStore.writer` yields."""

    def write(self, data: bytes | memoryview, /) -> object:
        """Append bytes."""


def is_disk_full(error: BaseException) -> bool:
    """Tell whether there was no room left on a disk, also where a library has wrapped that into an error of its own."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, OSError) and found.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if os.strerror(errno.ENOSPC) in str(found):
            return True
        found = found.__cause__ or found.__context__
    return False


def is_folder(location: str) -> bool:
    """Tell whether a `BlobStore` there is a folder of this machine, and not somewhere in the network."""
    return "://" not in location or location.startswith("file://")


class BlobStore:
    """Blobs under keys such as ``uploads/blob_0192…``.

    Parameters
    ----------
    location : str
        A folder (made when missing, readable by its owner only), ``file://…``, or any fsspec address such as
        ``s3://bucket/prefix``, for which the matching fsspec package must be installed.
    """

    def __init__(self, location: str) -> None:
        self._backend: _Folder | _Remote
        if is_folder(location):
            self._backend = _Folder(Path(location.removeprefix("file://")))
        else:
            self._backend = _Remote(location)

    def writer(self, key: str) -> AbstractContextManager[BlobSink]:
        """Open a new blob for writing.

        The blob appears, whole, when the block ends; when the block raises, nothing stays behind.

        Raises
        ------
        BlobExistsError
            The key is taken.
        """
        return self._backend.writer(_checked(key))

    def put_file(self, key: str, path: Path) -> None:
        """Move a local file into the store under a new key. The file is gone afterwards."""
        self._backend.put_file(_checked(key), path)

    def open(self, key: str) -> BinaryIO:
        """Open a blob for reading; raises `BlobNotFoundError`."""
        return self._backend.open(_checked(key))

    def stat(self, key: str) -> BlobStat:
        """Return the size of a blob; raises `BlobNotFoundError`."""
        return BlobStat(key, self._backend.size(_checked(key)))

    def delete(self, key: str) -> None:
        """Remove a blob; one that is not there is fine."""
        self._backend.delete(_checked(key))

    def discard(self, *keys: str) -> None:
        """Remove blobs that no row names any more. One that cannot be removed now costs space until it is swept."""
        for key in keys:
            try:
                self.delete(key)
            except Exception:
                log.exception("a blob was left behind", extra={"fields": {"key": key}})

    def keys(self, folder: str) -> Iterator[str]:
        """Yield the keys that lie directly in a folder, such as ``uploads``, in no order."""
        return self._backend.keys(_checked(folder))

    def local_path(self, key: str) -> AbstractContextManager[Path]:
        """Yield a path on this machine with the bytes of the blob, not to be written to.

        For an object store the blob is downloaded, and the copy is removed at the end of the block.
        """
        return self._backend.local_path(_checked(key))

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield an empty private folder, removed with all it holds at the end of the block.

        It lies where `put_file` is a rename whenever the store is a folder.
        """
        folder = Path(tempfile.mkdtemp(prefix="scratch-", dir=self._backend.scratch_parent()))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def sweep(self, older_than_seconds: float) -> int:
        """Remove what writers that were killed left behind, and return how many files and folders that were.

        Parameters
        ----------
        older_than_seconds : float
            Younger leftovers stay: their writer may live. Choose more than the longest upload takes.
        """
        return self._backend.sweep(older_than_seconds)


def _checked(key: str) -> str:
    if len(key) > 512 or not KEY_PATTERN.fullmatch(key):
        raise InvalidKeyError(f"{key!r} is not a blob key; expected parts of a-z, 0-9, '_', '-', '.' joined by '/'")
    return key


class _Folder:
    """Blobs as files, written beside the others and renamed when they are whole."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._unfinished = self._root / UNFINISHED
        for folder in (self._root, self._unfinished):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def scratch_parent(self) -> Path:
        return self._unfinished

    @contextmanager
    def writer(self, key: str) -> Iterator[BlobSink]:
        if (self._root / key).exists():
            raise BlobExistsError(key)
        path = self._unfinished / uuid4().hex
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            self._publish(path, key)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def put_file(self, key: str, path: Path) -> None:
        if path.stat().st_dev != self._root.stat().st_dev:
            with self.writer(key) as out, path.open("rb") as file:
                shutil.copyfileobj(file, out, COPY_BYTES)
            path.unlink()
            return
        if (self._root / key).exists():
            raise BlobExistsError(key)
        with path.open("rb") as file:
            os.fsync(file.fileno())
        path.chmod(0o600)
        self._publish(path, key)

    def _publish(self, path: Path, key: str) -> None:
        target = self._root / key
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.rename(target)
        # The name must survive a power cut as well as the bytes.
        descriptor = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def open(self, key: str) -> BinaryIO:
        try:
            return (self._root / key).open("rb")
        except (FileNotFoundError, IsADirectoryError):
            raise BlobNotFoundError(key) from None

    def size(self, key: str) -> int:
        path = self._root / key
        if not path.is_file():
            raise BlobNotFoundError(key)
        return path.stat().st_size

    def delete(self, key: str) -> None:
        (self._root / key).unlink(missing_ok=True)

    def keys(self, folder: str) -> Iterator[str]:
        with suppress(FileNotFoundError), os.scandir(self._root / folder) as entries:
            for entry in entries:
                yield f"{folder}/{entry.name}"

    @contextmanager
    def local_path(self, key: str) -> Iterator[Path]:
        self.size(key)
        yield self._root / key

    def sweep(self, older_than_seconds: float) -> int:
        # The clock of the file system, which may be another machine's.
        with tempfile.TemporaryFile(dir=self._unfinished) as probe:
            oldest = os.fstat(probe.fileno()).st_mtime - older_than_seconds
        removed = 0
        for path in self._unfinished.iterdir():
            with suppress(FileNotFoundError):
                if path.stat().st_mtime >= oldest:
                    continue
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink()
                removed += 1
        return removed


class _Remote:
    """Blobs behind fsspec. An object store shows an object when its last part is committed, never earlier."""

    def __init__(self, location: str) -> None:
        import fsspec.core  # only where it is used: it costs every process start otherwise

        self._fs, root = fsspec.core.url_to_fs(location)
        self._root: str = root.rstrip("/")

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"

    def scratch_parent(self) -> None:
        return None

    @contextmanager
    def writer(self, key: str) -> Iterator[BlobSink]:
        path = self._path(key)
        if self._fs.exists(path):
            raise BlobExistsError(key)
        self._fs.makedirs(self._fs._parent(path), exist_ok=True)
        # Without autocommit, closing the file does not publish it: only commit does.
        file = self._fs._open(path, mode="wb", autocommit=False)
        try:
            yield cast(BlobSink, file)
            file.close()
            file.commit()
        except BaseException:
            self._abandon(file, path)
            raise

    def _abandon(self, file: Any, path: str) -> None:
        with suppress(Exception):  # the first error is the one to report
            file.discard()
        with suppress(Exception):  # file systems without a discard have published what was written so far
            self._fs.rm_file(path)

    def put_file(self, key: str, path: Path) -> None:
        with self.writer(key) as out, path.open("rb") as file:
            shutil.copyfileobj(file, out, COPY_BYTES)
        path.unlink()

    def open(self, key: str) -> BinaryIO:
        try:
            return cast(BinaryIO, self._fs.open(self._path(key), "rb"))
        except FileNotFoundError:
            raise BlobNotFoundError(key) from None

    def size(self, key: str) -> int:
        try:
            info = self._fs.info(self._path(key))
        except FileNotFoundError:
            raise BlobNotFoundError(key) from None
        if info["type"] != "file":
            raise BlobNotFoundError(key)
        return int(info["size"])

    def delete(self, key: str) -> None:
        with suppress(FileNotFoundError):
            self._fs.rm_file(self._path(key))

    def keys(self, folder: str) -> Iterator[str]:
        with suppress(FileNotFoundError):
            for path in self._fs.ls(self._path(folder), detail=False):
                yield f"{folder}/{path.rpartition('/')[2]}"

    @contextmanager
    def local_path(self, key: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="prefsvm-") as folder:
            path = Path(folder) / "blob"
            with self.open(key) as file, path.open("wb") as out:
                shutil.copyfileobj(file, out, COPY_BYTES)
            yield path

    def sweep(self, older_than_seconds: float) -> int:  # noqa: ARG002 (object stores drop unfinished parts by a lifecycle rule)
        return 0

"""Private folders for jobs, which do not outlive their worker for long even if it is killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path


class ScratchFolders:
    """The folder of one worker process below `root`, with one folder a job in it.

    The worker holds a lock on it as long as it lives. The next worker that starts on the same `root` removes the
    folders whose lock nobody holds any more.

    Parameters
    ----------
    root : Path
        Made if needed, mode 0700.
    """

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in root.iterdir():
            self._remove_if_abandoned(left)
        self._folder = Path(tempfile.mkdtemp(prefix="worker-", dir=root))
        self._lock = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @staticmethod
    def _remove_if_abandoned(folder: Path) -> None:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return  # Another worker was quicker, or it is none of ours.
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            return
        finally:
            os.close(descriptor)

    @property
    def folder(self) -> Path:
        """Where the folders of this worker's jobs are."""
        return self._folder

    def new(self) -> Path:
        """Make a folder for one job."""
        return Path(tempfile.mkdtemp(prefix="job-", dir=self._folder))

    def close(self) -> None:
        """Remove everything."""
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)

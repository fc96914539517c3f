"""The data folder of the local stack: made, checked and locked here."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from service.local.servers import ServerError, is_socket_folder, make_folder

LOCK = "lock"


@dataclass(frozen=True)
class Holder:
    """Who has a data folder, as its lock file says."""

    pid: int
    url: str
    ready: bool
    sockets: str
    """Folder of the sockets; elsewhere than in the data folder if the path of that is too long."""


def read_holder(folder: Path) -> Holder | None:
    """Return what the lock file of a data folder says; whether that process still lives is not checked."""
    try:
        return Holder(**json.loads((folder / LOCK).read_text()))
    except (OSError, ValueError, TypeError):
        return None


class DataFolder:
    """A data folder, private to this user (0700) and locked until `close` or the end of this process.

    Missing parents are made; existing ones are left as they are. Nothing is ever put into a folder that is somebody
    else's, or that holds something else.

    Parameters
    ----------
    path : Path
        The folder.

    Raises
    ------
    ServerError
        The folder is in use, or is not ours to use; the message says by whom or why.

    Attributes
    ----------
    path : Path
        The folder, without symbolic links.
    logs : Path
        Folder of the log files.
    sockets : Path
        Folder of the Unix sockets, with a path short enough for them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        try:
            self._make()
        except OSError as error:
            raise ServerError(f"{self.path} cannot be used: {error}") from None
        self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            holder = read_holder(self.path)
            who = f"process {holder.pid}, at {holder.url}" if holder else "another process"
            raise ServerError(f"{self.path} is in use by a running prefsvm ({who}): stop that one first") from None
        self._remove_old_sockets()
        self.logs = self.path / "logs"
        make_folder(self.logs)
        self.sockets = self.path / "run"
        if is_socket_folder(self.sockets):
            make_folder(self.sockets)
        else:
            self.sockets = Path(tempfile.mkdtemp(prefix="prefsvm-", dir="/tmp"))

    def announce(self, url: str, *, ready: bool) -> None:
        """Write into the lock file who has the folder and where its API is."""
        holder = Holder(pid=os.getpid(), url=url, ready=ready, sockets=str(self.sockets))
        text = json.dumps(asdict(holder)).encode()
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, text, 0)

    def close(self) -> None:
        """Remove the sockets and let the folder go."""
        shutil.rmtree(self.sockets, ignore_errors=True)
        os.ftruncate(self._lock, 0)
        os.close(self._lock)

    def _make(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
        if not self.path.is_dir():
            raise ServerError(f"{self.path} is not a folder")
        owner = self.path.stat().st_uid
        if owner != os.geteuid():
            with contextlib.suppress(KeyError):
                raise ServerError(f"{self.path} belongs to {pwd.getpwuid(owner).pw_name}: run prefsvm as that user")
            raise ServerError(f"{self.path} belongs to user number {owner}: run prefsvm as that user")
        # Closing a folder of somebody's documents to all others would be a nasty surprise.
        if not (self.path / LOCK).exists() and any(self.path.iterdir()):
            raise ServerError(f"{self.path} is not empty and was not made by prefsvm: choose another folder")
        self.path.chmod(0o700)

    def _remove_old_sockets(self) -> None:
        """Remove what a killed process left outside of the data folder."""
        old = read_holder(self.path)
        if old is None:
            return
        sockets = Path(old.sockets)
        with contextlib.suppress(OSError):
            if sockets.name.startswith("prefsvm-") and sockets.lstat().st_uid == os.geteuid():
                shutil.rmtree(sockets)

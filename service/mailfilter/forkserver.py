"""A process that forks those that decide on mails, whenever one is wanted: `service.mailfilter.deciders`.

The one that listens soon has threads and connections, and cannot be forked any more. So it forks this one before, which
has neither, does nothing but wait, and shares with all that it forks what is loaded.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NoReturn

from service.processes import die_with_parent

ENDING_SECONDS: Final = 1.5
"""So long they have to end by themselves."""
FORKING_SECONDS: Final = 10.0
"""So long a process may take to be there."""
_ANSWER: Final = struct.Struct(">QI")
"""Number of the process, and of the error for which there is none."""

log = logging.getLogger("prefsvm.mail")

Work = Callable[[socket.socket], None]


class ForkserverGone(Exception):  # noqa: N818 (it is not there any more)
    """The process that forks others has ended: no further ones can be had."""


@dataclass
class Forked:
    """A process that was forked.

    Attributes
    ----------
    pid : int
    handle : int
        A file descriptor of the process, which means no other one when this one has ended.
    connection : socket.socket
        How it is spoken with. It ends when this is closed.
    """

    pid: int
    handle: int
    connection: socket.socket


class Forkserver:
    """The process that forks others. Make it while there is one thread, and no connection to anybody.

    Parameters
    ----------
    work : callable
        What each of them does with its connection.

    Attributes
    ----------
    pid : int
    """

    def __init__(self, work: Work) -> None:
        parent = os.getpid()
        self._asked, theirs = socket.socketpair()
        self._asked.settimeout(FORKING_SECONDS)
        self._is_awaited = False
        """Whether an answer is still to come."""
        self._collecting = threading.Lock()
        self._is_collected = False
        self.pid = os.fork()
        if self.pid == 0:
            self._asked.close()
            _run(parent, partial(_fork_when_asked, theirs, work))
        theirs.close()

    def fork(self) -> Forked:
        """Return a new process; it blocks, so call it in a thread, once at a time.

        Raises
        ------
        ForkserverGone
        OSError
            If it could not be had now.
        """
        try:
            if not self._is_awaited:  # an answer that came too late for the last call is that to this one
                self._asked.sendall(b"+")
                self._is_awaited = True
            data, handles, _, _ = socket.recv_fds(self._asked, _ANSWER.size, 2)
        except (BrokenPipeError, ConnectionResetError):
            data, handles = b"", []
        if not data:
            self._collect()
            raise ForkserverGone
        self._is_awaited = False
        pid, error = _ANSWER.unpack(data)
        if error:
            raise OSError(error, os.strerror(error))
        if len(handles) != 2:  # they could not be opened here
            for each in handles:
                os.close(each)
            raise OSError("too many files are open")
        return Forked(pid, handles[1], socket.socket(fileno=handles[0]))

    def close(self) -> None:
        """Have all of them end, and wait for that: those that don't are killed."""
        self._asked.shutdown(socket.SHUT_RDWR)  # wakes who waits for one, too
        self._asked.close()
        self._collect()

    def _collect(self) -> None:
        """Wait for its end, and kill it if that does not come; once, whoever finds first that it is gone."""
        with self._collecting:
            if not self._is_collected:
                _end([self.pid], 2 * ENDING_SECONDS)
                self._is_collected = True


def _run(parent: int, work: Callable[[], None]) -> NoReturn:
    """Do what a process was forked for, and end it."""
    status = 1
    try:
        die_with_parent(parent)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # sent to all of a group: the parent says when to end
        work()
        status = 0
    except Exception:
        log.exception("a process that decides on mails has failed")
    finally:
        os._exit(status)


def _fork_when_asked(asked: socket.socket, work: Work) -> None:
    """Fork a process for each byte that comes, and end those that are left when nobody asks any more."""
    alive: list[int] = []
    while asked.recv(1):
        alive = [pid for pid in alive if os.waitpid(pid, os.WNOHANG) == (0, 0)]
        try:
            _fork(asked, work, alive)
        except (BrokenPipeError, ConnectionResetError):
            break  # nobody waits for it any more
        except OSError as error:  # of files, memory or processes there are too many now; it ends nobody
            asked.sendall(_ANSWER.pack(0, error.errno or errno.EIO))
    _end(alive, ENDING_SECONDS)


def _fork(asked: socket.socket, work: Work, alive: list[int]) -> None:
    """Fork a process, and send to who asked how it is spoken with."""
    parent = os.getpid()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pid = os.fork()
        if pid == 0:
            asked.close()
            ours.close()  # or nobody would see that the other side has closed it
            _run(parent, partial(work, theirs))
        alive.append(pid)
        handle = os.pidfd_open(pid)
        try:
            socket.send_fds(asked, [_ANSWER.pack(pid, 0)], [ours.fileno(), handle])
        finally:
            os.close(handle)


def _end(pids: list[int], seconds: float) -> None:
    """Collect child processes that end, and kill those that don't in time."""
    until = time.monotonic() + seconds
    for pid in pids:
        handle = os.pidfd_open(pid)
        try:
            ended, _, _ = select.select([handle], [], [], max(0.0, until - time.monotonic()))
            if not ended:
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        finally:
            os.close(handle)

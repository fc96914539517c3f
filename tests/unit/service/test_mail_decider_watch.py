"""A process that decides on mails and does not answer any more is killed, and one that works is not."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, cast

import pytest

from service.mailfilter import forkserver as forkserver_module
from service.mailfilter.deciders import HUNG, STUCK, Deciders, _Decider
from service.mailfilter.forkserver import Forked, Forkserver, ForkserverGone


class Writer:
    """Counts what is written."""

    def __init__(self) -> None:
        self.times = 0

    def write(self, _: bytes) -> None:
        self.times += 1


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as started:
        yield started
        started.kill()


@pytest.fixture
def decider(process: subprocess.Popen[bytes]) -> Iterator[_Decider]:
    handle = os.pidfd_open(process.pid)
    yield _Decider(Forked(process.pid, handle, cast("Any", None)), cast("asyncio.StreamWriter", Writer()))
    os.close(handle)


def test_one_that_says_nothing_is_asked_once_and_killed(decider: _Decider, process: subprocess.Popen[bytes]) -> None:
    for _ in range(HUNG):
        decider.look()
    assert process.poll() is None
    assert cast("Any", decider.writer).times == 1
    decider.look()
    assert process.wait(60) == -signal.SIGKILL
    decider.look()  # it has ended, and nobody has read that yet


def test_one_that_is_there_but_decides_on_nothing_is_killed(
    decider: _Decider, process: subprocess.Popen[bytes]
) -> None:
    def wait(ticks: int) -> None:
        for _ in range(ticks):
            decider.look()
            decider.silent = 0  # as it answers

    wait(2 * STUCK)  # it has no mail
    decider.waiting[1] = cast("Any", None), 100
    wait(STUCK - 1)
    decider.undecided = 0  # as it decides on one
    wait(STUCK)
    assert process.poll() is None
    wait(1)
    assert process.wait(60) == -signal.SIGKILL


def echo(connection: socket.socket) -> None:
    while data := connection.recv(10):
        connection.sendall(data)


def test_processes_are_forked_when_they_are_wanted_until_the_end() -> None:
    forkserver = Forkserver(echo)
    made = [forkserver.fork() for _ in range(2)]
    for each in made:
        each.connection.sendall(b"there?")
        assert each.connection.recv(10) == b"there?"
    os.kill(made[0].pid, signal.SIGKILL)
    assert made[0].connection.recv(10) == b""
    further = forkserver.fork()
    assert further.pid not in {each.pid for each in made}
    forkserver.close()  # also those that would not end by themselves
    for each in (*made, further):
        assert each.connection.recv(10) == b""
        os.close(each.handle)
        each.connection.close()


def test_nobody_is_forked_by_one_that_is_gone() -> None:
    forkserver = Forkserver(echo)
    os.kill(forkserver.pid, signal.SIGKILL)
    with pytest.raises(ForkserverGone):
        forkserver.fork()
    with pytest.raises(ChildProcessError):  # it is collected at once, not when the filter ends
        os.waitpid(forkserver.pid, os.WNOHANG)
    forkserver.close()


def test_one_that_is_waited_for_when_the_filter_ends_is_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(forkserver_module, "ENDING_SECONDS", 0.05)
    forkserver = Forkserver(echo)
    os.kill(forkserver.pid, signal.SIGSTOP)
    is_asked = threading.Event()
    fork = forkserver.fork

    def asked() -> Forked:
        is_asked.set()
        return fork()

    monkeypatch.setattr(forkserver, "fork", asked)

    async def begin_and_end() -> None:
        deciders = Deciders(forkserver, 1, cast("Any", None))
        filling = asyncio.create_task(deciders.open())
        await asyncio.to_thread(is_asked.wait)
        await deciders.close()
        await filling

    asyncio.run(begin_and_end())
    assert not caplog.records


def test_one_that_cannot_be_forked_now_ends_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    can_fork = os.fork
    fails = iter([False, False, True, False])  # the first is the process that forks the others

    def fork() -> int:
        if next(fails):
            raise BlockingIOError(errno.EAGAIN, "no more processes")
        return can_fork()

    monkeypatch.setattr(os, "fork", fork)
    forkserver = Forkserver(echo)
    first = forkserver.fork()
    with pytest.raises(BlockingIOError):
        forkserver.fork()
    first.connection.sendall(b"there?")
    assert first.connection.recv(10) == b"there?"
    second = forkserver.fork()
    forkserver.close()
    for each in (first, second):
        os.close(each.handle)
        each.connection.close()


def test_what_was_forked_for_somebody_who_is_gone_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    can_end = forkserver_module._end

    def end(pids: list[int], seconds: float) -> None:
        ended.extend(pids)
        can_end(pids, seconds)

    monkeypatch.setattr(forkserver_module, "_end", end)
    ours, theirs = socket.socketpair()
    ours.sendall(b"+")
    ours.close()
    with theirs:
        forkserver_module._fork_when_asked(theirs, echo)
    (pid,) = ended
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def test_what_was_forked_too_late_is_had_by_who_asks_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forkserver_module, "FORKING_SECONDS", 0.05)
    forkserver = Forkserver(echo)
    os.kill(forkserver.pid, signal.SIGSTOP)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            forkserver.fork()
    os.kill(forkserver.pid, signal.SIGCONT)
    monkeypatch.undo()
    forked = None
    while forked is None:
        with suppress(TimeoutError):
            forked = forkserver.fork()
    os.close(forked.handle)
    forked.connection.close()
    forkserver._asked.settimeout(None)
    forkserver._asked.shutdown(socket.SHUT_WR)
    assert forkserver._asked.recv(100) == b""  # until its end it tells of no other one
    forkserver.close()

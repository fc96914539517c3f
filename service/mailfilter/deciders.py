"""Processes that decide on mails for the one that speaks with mail software, so that each core has a mail to read.

They are forked before that one has a thread or a connection, so that what both have loaded is in memory once. A mail
goes to the one with the fewest bytes before it, and there mails have their turns in the order in which they came. Each
has its connections and its models; it ends with the process that it was forked from, and is not replaced: where all
have ended, that one decides by itself, as it does without any.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import select
import signal
import socket
import struct
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import orjson

from service.db.session import STATEMENT_SECONDS, Database, acting_for
from service.ingest.mail import MAX_MESSAGE_BYTES
from service.mailfilter.deciding import Deciding, HereDeciding, Undecided, reason_of
from service.mailfilter.verdict import Verdict
from service.models.errors import ModelNotFound
from service.predictions.service import PredictionService
from service.processes import die_with_parent
from service.settings import Settings

MOST: Final = 4
"""Processes, unless somebody asks for more."""
ENDING_SECONDS: Final = 1.5
"""So long they have to end by themselves."""
_HEAD: Final = struct.Struct(">II")
"""Lengths of what is said, in JSON, and of the mail that follows."""
_LONGEST_SAID: Final = 1 << 16

log = logging.getLogger("prefsvm.mail")


def count_of(wanted: int) -> int:
    """Return how many processes decide beside this one: `wanted`, or by cores for 0; none where one would be alone."""
    count = wanted or min(MOST, len(os.sched_getaffinity(0)))
    return count if count > 1 else 0


@dataclass
class Forked:
    """A process that was forked, and how it is spoken with."""

    pid: int
    connection: socket.socket


def fork(count: int, settings: Settings) -> list[Forked]:
    """Fork processes that decide. Call it while there is one thread, and no connection to anybody."""
    made: list[Forked] = []
    parent = os.getpid()
    for _ in range(count):
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                die_with_parent(parent)
                for each in (ours, *(other.connection for other in made)):
                    each.close()  # or nobody would see that the parent has closed them
                for number in (signal.SIGTERM, signal.SIGINT):
                    signal.signal(number, signal.SIG_IGN)  # sent to all of a group: the parent says when to end
                asyncio.run(_decide_forever(theirs, settings))
                status = 0
            except Exception:
                log.exception("a process that decides on mails has failed")
            finally:
                os._exit(status)
        theirs.close()
        made.append(Forked(pid, ours))
    return made


@dataclass
class _Decider:
    """The connection to one of the processes, and what it is asked."""

    writer: asyncio.StreamWriter
    waiting: dict[int, tuple[asyncio.Future[Verdict], int]] = field(default_factory=dict)
    """What is waited for, and the bytes of the mail."""

    @property
    def load(self) -> tuple[int, int]:
        """Bytes and mails that it has not answered yet."""
        return sum(size for _, size in self.waiting.values()), len(self.waiting)


class Deciders:
    """Has mails decided on by other processes, for use on one event loop.

    Parameters
    ----------
    forked : list of Forked
    otherwise : Deciding
        Decides where none of them lives any more.
    """

    def __init__(self, forked: list[Forked], otherwise: Deciding) -> None:
        self._forked = forked
        self._otherwise = otherwise
        self._alive: list[_Decider] = []
        self._reading: list[asyncio.Task[None]] = []
        self._numbers = itertools.count()

    async def open(self) -> None:
        """Begin to speak with them."""
        for each in self._forked:
            reader, writer = await asyncio.open_connection(sock=each.connection)
            decider = _Decider(writer)
            self._alive.append(decider)
            self._reading.append(asyncio.create_task(self._read(reader, decider)))

    async def verdict(self, project_id: str, alias: str, raw: bytes, seconds: float) -> Verdict:
        """Return what the model of an alias says of a mail, see `Deciding`."""
        if not self._alive:
            return await self._otherwise.verdict(project_id, alias, raw, seconds)
        decider = min(self._alive, key=lambda each: each.load)
        number = next(self._numbers)
        answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        decider.waiting[number] = answer, len(raw)
        said = {"number": number, "project": project_id, "alias": alias, "seconds": seconds}
        decider.writer.write(_packed(said, raw))
        return await answer

    async def close(self) -> None:
        """Have them end, and wait for that; those that don't are killed."""
        for decider in self._alive:
            decider.writer.close()
        await asyncio.to_thread(_end, [each.pid for each in self._forked])
        await asyncio.gather(*self._reading, return_exceptions=True)

    async def _read(self, reader: asyncio.StreamReader, decider: _Decider) -> None:
        try:
            while True:
                said, _ = await _unpacked(reader)
                answer, _ = decider.waiting.pop(said["number"])
                if answer.done():
                    continue
                if said["reason"] is None:
                    answer.set_result(Verdict(**said["verdict"]))
                else:
                    error = ModelNotFound() if said["reason"] == "no_model" else Undecided(said["reason"])
                    answer.set_exception(error)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            if decider in self._alive:
                self._alive.remove(decider)
                if not decider.writer.is_closing():
                    log.error("a process that decides on mails has ended; %d are left", len(self._alive))
            decider.writer.close()
            for answer, _ in decider.waiting.values():
                if not answer.done():
                    answer.set_exception(Undecided("error"))


async def _decide_forever(connection: socket.socket, settings: Settings) -> None:
    """Answer until the other side closes the connection."""
    database = Database(
        str(settings.database_url),
        application_name="prefsvm-mail",
        one_project=True,
        statement_seconds=STATEMENT_SECONDS,
    )
    predictions = PredictionService(database, settings, threads=1)  # mails in turn: so no one of twenty is the last
    reader, writer = await asyncio.open_connection(sock=connection)
    async with predictions.running():
        await _answer_all(reader, writer, HereDeciding(predictions))
    database.close()


async def _answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, deciding: Deciding) -> None:
    open_tasks: set[asyncio.Task[None]] = set()
    try:
        while True:
            said, raw = await _unpacked(reader)
            task = asyncio.create_task(_answer(said, raw, deciding, writer.write))
            open_tasks.add(task)
            task.add_done_callback(open_tasks.discard)
    except (asyncio.IncompleteReadError, OSError):
        for task in open_tasks:
            task.cancel()
        await asyncio.gather(*open_tasks, return_exceptions=True)


async def _answer(said: dict[str, Any], raw: bytes, deciding: Deciding, write: Callable[[bytes], None]) -> None:
    reason, verdict = None, None
    try:
        with acting_for(said["project"]):
            verdict = asdict(await deciding.verdict(said["project"], said["alias"], raw, said["seconds"]))
    except Exception as error:
        reason = reason_of(error)
    write(_packed({"number": said["number"], "reason": reason, "verdict": verdict}, b""))


def _packed(said: dict[str, Any], raw: bytes) -> bytes:
    text = orjson.dumps(said)
    return b"".join((_HEAD.pack(len(text), len(raw)), text, raw))


async def _unpacked(reader: asyncio.StreamReader) -> tuple[dict[str, Any], bytes]:
    """Return what is said, and the mail; raises `IncompleteReadError` at the end."""
    length, size = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    if length > _LONGEST_SAID or size > MAX_MESSAGE_BYTES:
        raise OSError("this is none of our messages")
    return orjson.loads(await reader.readexactly(length)), await reader.readexactly(size)


def _end(pids: list[int]) -> None:
    """Collect processes that end, and kill those that don't within `ENDING_SECONDS`."""
    for pid in pids:
        handle = os.pidfd_open(pid)
        try:
            ended, _, _ = select.select([handle], [], [], ENDING_SECONDS)
            if not ended:
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        finally:
            os.close(handle)

"""Processes that decide on mails for the one that speaks with mail software, so that each core has a mail to read.

They are forked by a process that has neither a thread nor a connection, so that what all have loaded is in memory once.
A mail goes to the one with the fewest bytes before it, and there mails have their turns in the order in which they
came. Each has its connections and its models, and ends with the process that it works for. One that has ended is
replaced, and one that hangs is killed; where none answers, the process that listens decides by itself.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import socket
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import orjson

from service.db.session import STATEMENT_SECONDS, Database, acting_for
from service.ingest.mail import MAX_MESSAGE_BYTES
from service.mailfilter.deciding import Deciding, HereDeciding, Undecided, reason_of
from service.mailfilter.forkserver import Forked, Forkserver, ForkserverGone
from service.mailfilter.verdict import MailVerdict
from service.models.errors import ModelNotFound
from service.predictions.service import PredictionService
from service.settings import Settings

MOST: Final = 4
"""Processes, unless somebody asks for more."""
TICK_SECONDS: Final = 0.5
"""So often each is asked whether it is there. What follows counts ticks: where all stands still there are none."""
QUIET: Final = 2
"""Without an answer for so many ticks, it gets no further mails."""
HUNG: Final = 6
"""Without an answer for so many ticks, it is killed: nobody waits for its mails any more."""
STUCK: Final = 120
"""Likewise where it is there, but has mails and has decided on none."""
LONGEST_REST: Final = 60
"""Ticks until the next one is forked, where one after the other has ended."""
_HEAD: Final = struct.Struct(">II")
"""Lengths of what is said, in JSON, and of the mail that follows."""
_LONGEST_SAID: Final = 1 << 16
_ASKED: Final = {"ping": True}

log = logging.getLogger("prefsvm.mail")


def count_of(wanted: int) -> int:
    """Return how many processes decide beside this one: `wanted`, or by cores for 0; none where one would be alone."""
    count = wanted or min(MOST, len(os.sched_getaffinity(0)))
    return count if count > 1 else 0


def decider_forkserver(settings: Settings) -> Forkserver:
    """Return what forks processes that decide. Call it while there is one thread, and no connection to anybody."""
    return Forkserver(lambda connection: asyncio.run(_decide_forever(connection, settings)))


@dataclass
class _Decider:
    """One of the processes, the connection to it, and what it is asked."""

    forked: Forked
    writer: asyncio.StreamWriter
    waiting: dict[int, tuple[asyncio.Future[MailVerdict], int]] = field(default_factory=dict)
    """What is waited for, and the bytes of the mail."""
    silent: int = 0
    """Ticks since it has said anything."""
    undecided: int = 0
    """Ticks since it has decided on a mail, if it has any."""

    @property
    def load(self) -> tuple[int, int]:
        """Bytes and mails that it has not answered yet."""
        return sum(size for _, size in self.waiting.values()), len(self.waiting)

    def look(self) -> None:
        """Count a tick: ask whether it is there, and kill it if it does not answer."""
        if self.silent >= HUNG or self.undecided >= STUCK:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.forked.handle, signal.SIGKILL)
        elif not self.silent:  # or it has been asked
            self.writer.write(_packed(_ASKED, b""))
        self.silent += 1
        self.undecided = self.undecided + 1 if self.waiting else 0


class Deciders:
    """Has mails decided on by other processes, for use on one event loop.

    Parameters
    ----------
    forkserver : Forkserver or None
        None: there are no others.
    count : int
        How many there shall be.
    otherwise : Deciding
        Decides where none of them answers.
    """

    def __init__(self, forkserver: Forkserver | None, count: int, otherwise: Deciding) -> None:
        self._forkserver = forkserver
        self._count = count if forkserver is not None else 0
        self._otherwise = otherwise
        self._alive: list[_Decider] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count()
        self._failures = 0
        """Of them that have ended since a mail was decided on."""
        self._rest = 0
        """Ticks until one may be forked."""
        self._closing = False

    async def open(self) -> None:
        """Begin to speak with them, and to look after them."""
        await self._fill()
        if self._count:
            self._begin(self._look_after_them())

    async def verdict(self, project_id: str, alias: str, raw: bytes, seconds: float) -> MailVerdict:
        """Return what the model of an alias says of a mail, see `Deciding`."""
        decider = min((each for each in self._alive if each.silent < QUIET), key=lambda each: each.load, default=None)
        if decider is None:
            return await self._otherwise.verdict(project_id, alias, raw, seconds)
        number = next(self._numbers)
        answer: asyncio.Future[MailVerdict] = asyncio.get_running_loop().create_future()
        decider.waiting[number] = answer, len(raw)
        said = {"number": number, "project": project_id, "alias": alias, "seconds": seconds}
        decider.writer.write(_packed(said, raw))
        return await answer

    async def close(self) -> None:
        """Have them end, and wait for that; those that don't are killed."""
        self._closing = True
        for decider in self._alive:
            decider.writer.close()
        if self._forkserver is not None:
            await asyncio.to_thread(self._forkserver.close)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _look_after_them(self) -> None:
        filling: asyncio.Task[None] | None = None
        while not self._closing:
            await asyncio.sleep(TICK_SECONDS)
            for decider in self._alive:
                decider.look()
            self._rest = max(0, self._rest - 1)
            is_filling = filling is not None and not filling.done()  # a fork may take long, and is not waited for
            if not self._rest and not is_filling and len(self._alive) < self._count:
                filling = self._begin(self._fill())

    async def _fill(self) -> None:
        """Have as many of them as there shall be, as far as they can be had."""
        while self._forkserver is not None and len(self._alive) < self._count and not self._closing:
            try:
                forked = await asyncio.to_thread(self._forkserver.fork)
            except (ForkserverGone, OSError) as error:
                self._not_had(error)
                return
            else:
                reader, writer = await asyncio.open_connection(sock=forked.connection)
                decider = _Decider(forked, writer)
                self._alive.append(decider)
                self._begin(self._read(reader, decider))

    def _not_had(self, error: Exception) -> None:
        """Say why no further process could be had; when all of them end, that is why."""
        if self._closing:
            return
        if isinstance(error, ForkserverGone):
            log.error("no further process can be had that decides on mails: %d are left", len(self._alive))
            self._count = 0
        else:
            log.error("a process that decides on mails could not be had (%s); it is tried again", error)
            self._failed()

    def _failed(self) -> None:
        self._failures += 1
        self._rest = min(LONGEST_REST, 2 ** min(self._failures - 1, 10))

    async def _read(self, reader: asyncio.StreamReader, decider: _Decider) -> None:
        try:
            while True:
                said, _ = await _unpacked(reader)
                decider.silent = 0
                if said == _ASKED:
                    continue
                self._failures = decider.undecided = 0
                answer, _ = decider.waiting.pop(said["number"])
                if answer.done():
                    continue
                if said["reason"] is None:
                    answer.set_result(MailVerdict(**said["verdict"]))
                else:
                    error = ModelNotFound() if said["reason"] == "no_model" else Undecided(said["reason"])
                    answer.set_exception(error)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self._ended(decider)

    def _ended(self, decider: _Decider) -> None:
        """Let go of one that has ended, and of the mails that it had."""
        self._alive.remove(decider)
        decider.writer.close()
        os.close(decider.forked.handle)
        if not self._closing:
            what = "hung and was killed" if decider.silent > HUNG or decider.undecided > STUCK else "has ended"
            log.error("a process that decides on mails %s, with %d of them", what, len(decider.waiting))
            self._failed()
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
            if said == _ASKED:
                writer.write(_packed(_ASKED, b""))
                continue
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

"""One listener for mail software of every kind: who speaks which protocol is told by the first line."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from service.mailfilter.addresses import Address
from service.mailfilter.figures import Figures
from service.mailfilter.http_doors import HttpDoors
from service.mailfilter.inbound import CHUNK, HungUp, Inbound
from service.mailfilter.spamd import Spamd
from service.predictions.budget import BYTES_A_BYTE_OF_MAIL, HeldMemory, RequestBudget

SEND_SECONDS = 30.0
"""So long an answer may take to be taken."""
CLOSING_SECONDS = 10.0
"""So long open requests are waited for when this ends."""
BACKLOG = 128
HTTP = re.compile(rb"[A-Z]{1,10} [^ ]+ HTTP/1\.[01]")

log = logging.getLogger("prefsvm.mail")


class Listener:
    """Accepts connections, as many as may be, and hands each to the protocol that it speaks.

    Parameters
    ----------
    spamd : Spamd
    http : HttpDoors
    figures : Figures
    most_connections : int
        Further ones are ended at once: their mail is passed on as it came.
    memory_bytes : int
        For the mails of all connections.
    """

    def __init__(
        self, spamd: Spamd, http: HttpDoors, figures: Figures, *, most_connections: int, memory_bytes: int
    ) -> None:
        self._spamd = spamd
        self._http = http
        self._figures = figures
        self._most = most_connections
        self._budget = RequestBudget(memory_bytes)
        self._open: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._sockets: list[Path] = []

    async def open(self, addresses: Sequence[Address]) -> list[str]:
        """Begin to listen, and return where; raises `OSError`."""
        told = []
        for address in addresses:
            if address.path is not None:
                _remove_socket(address.path)
                server = await asyncio.start_unix_server(self._accept, address.path, limit=CHUNK, backlog=BACKLOG)
                address.path.chmod(0o660)
                self._sockets.append(address.path)
                told.append(str(address))
            else:
                server = await asyncio.start_server(
                    self._accept, address.host, address.port, limit=CHUNK, backlog=BACKLOG
                )
                told += [str(Address(*each.getsockname()[:2])) for each in server.sockets]
            self._servers.append(server)
        return told

    async def close(self) -> None:
        """Take no further connections, and end those that are open when they are served, or soon."""
        for server in self._servers:
            server.close()
        if self._open:
            _, late = await asyncio.wait(self._open, timeout=CLOSING_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for path in self._sockets:
            path.unlink(missing_ok=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._open) >= self._most:
            self._figures.note_refused()
            writer.close()
            return
        self._open.add(task)
        self._figures.connections.inc()
        try:
            with HeldMemory(self._budget, BYTES_A_BYTE_OF_MAIL) as memory:
                await self._serve(Inbound(reader, memory), writer, memory)
        except (HungUp, OSError, TimeoutError):
            pass  # whoever that was is not there any more, or not in earnest
        except Exception:  # a defect here must end this connection and no other
            log.exception("a connection failed")
        finally:
            writer.close()
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    await writer.wait_closed()
            except (OSError, TimeoutError):
                writer.transport.abort()  # or what nobody takes would be kept for ever
            self._open.discard(task)
            self._figures.connections.dec()

    async def _serve(self, inbound: Inbound, writer: asyncio.StreamWriter, memory: HeldMemory) -> None:
        first = await inbound.line()
        if HTTP.fullmatch(first):
            await self._http.serve(inbound, first, writer, memory)
        else:
            await self._spamd.serve(inbound, first, writer)
        writer.transport.set_write_buffer_limits(high=0)
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await writer.drain()
        except TimeoutError:
            writer.transport.abort()
            raise HungUp from None


def _remove_socket(path: Path) -> None:
    """Remove what a process before has left; another file stays, and is told by the error that follows."""
    with contextlib.suppress(OSError):
        if stat.S_ISSOCK(path.stat().st_mode):
            path.unlink()

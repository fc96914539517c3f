"""A TCP proxy before a Unix socket that can be cut, made a black hole, or slow. It listens on loopback only."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

MOST_CONNECTIONS = 200
"""Of one link; further ones are refused."""
PIECE_BYTES = 1 << 16


class Link:
    """The way from one part to one server. Make it by `Proxies.link`; the switches may be used from any thread.

    Attributes
    ----------
    port : int
        Where it listens, on 127.0.0.1.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, target: Path) -> None:
        self._loop = loop
        self._target = target
        self._transports: set[asyncio.Transport] = set()
        self._is_cut = False
        self._flows = asyncio.Event()
        self._flows.set()
        self._delay = 0.0
        self._server: asyncio.Server | None = None
        self.port = 0

    async def open(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Break every connection and take no new one."""
        self._loop.call_soon_threadsafe(self._cut, True)

    def swallow(self) -> None:
        """Keep the connections and let nothing through: a peer or a path that is gone without a word."""
        self._loop.call_soon_threadsafe(self._flows.clear)

    def slow_down(self, seconds: float) -> None:
        """Delay each piece by `seconds`."""
        self._loop.call_soon_threadsafe(setattr, self, "_delay", seconds)

    def restore(self) -> None:
        """Work again. What stood in a black hole is lost with its connection, as after a reboot of a router."""
        self._loop.call_soon_threadsafe(self._restore)

    def close(self) -> None:
        """Stop listening and break every connection; in the thread of the loop."""
        if self._server is not None:
            self._server.close()
        self._cut(True)

    def _cut(self, is_cut: bool) -> None:
        self._is_cut = is_cut
        for transport in list(self._transports):
            transport.abort()

    def _restore(self) -> None:
        if not self._flows.is_set():
            self._cut(False)
        self._flows.set()
        self._is_cut = False
        self._delay = 0.0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pair = [writer]
        try:
            if self._is_cut or len(self._transports) >= 2 * MOST_CONNECTIONS:
                return
            self._transports.add(writer.transport)
            await self._flows.wait()
            far_reader, far_writer = await asyncio.open_unix_connection(self._target)
            pair.append(far_writer)
            self._transports.add(far_writer.transport)
            ways = [asyncio.ensure_future(self._pump(*way)) for way in ((reader, far_writer), (far_reader, writer))]
            # Neither protocol uses half-closed connections: the end of one way is the end of both.
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
        except OSError:
            return  # The server is away.
        finally:
            for one in pair:
                self._transports.discard(one.transport)
                one.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(PIECE_BYTES):
                if self._delay:
                    await asyncio.sleep(self._delay)
                await self._flows.wait()
                writer.write(piece)
                await writer.drain()


class Proxies:
    """All links of a run, in one thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._links: list[Link] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._thread.start()

    def link(self, target: Path) -> Link:
        """Open a link to a Unix socket, which need not exist yet."""
        link = Link(self._loop, target)
        self._await(link.open())
        self._links.append(link)
        return link

    def close(self) -> None:
        """Close all links and end the thread. Can be called again."""
        if self._loop.is_closed():
            return
        self._await(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _close(self) -> None:
        for link in self._links:
            link.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _await(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

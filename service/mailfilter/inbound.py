"""What mail software sends, read from a connection with limits on time and memory."""

from __future__ import annotations

import asyncio

from service.errors import Busy
from service.ingest.mail import MAX_MESSAGE_BYTES
from service.predictions.budget import HeldMemory

IDLE_SECONDS = 10.0
"""So long the next bytes may take to come."""
TOTAL_SECONDS = 60.0
"""So long all of a request may take to come, however steadily it drips."""
MAX_LINE = 1 << 12
"""Of a line before the mail."""
CHUNK = 1 << 16
MOST_SKIPPED = 4
"""Times as much as is read of a mail is taken in and thrown away, before the connection is ended."""


class HungUp(Exception):  # noqa: N818 (nothing is wrong here)
    """The other side stopped sending, or sends too slowly, too much or no line at all."""


class Inbound:
    """The receiving half of a connection.

    Parameters
    ----------
    reader : asyncio.StreamReader
    memory : HeldMemory
        Where the memory for the mail is held.
    """

    def __init__(self, reader: asyncio.StreamReader, memory: HeldMemory) -> None:
        self._reader = reader
        self._memory = memory
        self._until = asyncio.get_running_loop().time() + TOTAL_SECONDS
        self._rest = b""

    async def chunk(self) -> bytes:
        """Return the next bytes, none at the end; raises `HungUp`."""
        if self._rest:
            rest, self._rest = self._rest, b""
            return rest
        left = self._until - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(max(0.0, min(IDLE_SECONDS, left))):
                return await self._reader.read(CHUNK)
        except (TimeoutError, OSError):
            raise HungUp from None

    async def line(self) -> bytes:
        """Return the next line without its end; raises `HungUp` if it is too long, or never ends."""
        got = b""
        while b"\n" not in got:
            chunk = await self.chunk()
            got += chunk
            if not chunk or (len(got) > MAX_LINE and b"\n" not in got[:MAX_LINE]):
                raise HungUp
        line, _, self._rest = got.partition(b"\n")
        return line.removesuffix(b"\r")

    def again(self, data: bytes) -> None:
        """Put back what was read, to be read next."""
        self._rest = data + self._rest

    async def mail(self, length: int | None) -> IncomingMail:
        """Return a mail of so many bytes, or one that ends where the other side closes its half.

        Raises
        ------
        HungUp
            If it is shorter than it was said to be, or has no end.
        """
        mail = IncomingMail(self._memory)
        left = MOST_SKIPPED * MAX_MESSAGE_BYTES if length is None else length
        if left > MOST_SKIPPED * MAX_MESSAGE_BYTES:
            raise HungUp
        while left > 0:
            chunk = await self.chunk()
            if not chunk:
                if length is None:
                    return mail
                raise HungUp
            if len(chunk) > left:
                chunk, self._rest = chunk[:left], chunk[left:]
            left -= len(chunk)
            mail.add(chunk)
        if length is None:
            raise HungUp
        return mail


class IncomingMail:
    """The bytes of a mail as they come. What is too much is counted and thrown away.

    Parameters
    ----------
    memory : HeldMemory
        Where the memory for it is held.
    most : int, default=MAX_MESSAGE_BYTES
        Bytes that are kept.

    Attributes
    ----------
    size : int
        Bytes that came.
    is_too_large, is_crowded_out : bool
        Why not all of them are kept: more than are looked at of a mail; or others take all the memory there is.
    """

    def __init__(self, memory: HeldMemory, most: int = MAX_MESSAGE_BYTES) -> None:
        self._memory = memory
        self._most = most
        self._parts = bytearray()
        self.size = 0
        self.is_too_large = self.is_crowded_out = False

    @property
    def is_whole(self) -> bool:
        """Whether all of it was kept."""
        return not (self.is_too_large or self.is_crowded_out)

    def add(self, chunk: bytes) -> None:
        """Take further bytes."""
        self.size += len(chunk)
        self.is_too_large = self.is_too_large or self.size > self._most
        if self.is_whole:
            try:
                self._memory.grow(self.size)
            except Busy:
                self.is_crowded_out = True
            else:
                self._parts += chunk
        if not self.is_whole:
            self._parts.clear()
            self._memory.let_go()  # or all mails of a crowd would be crowded out, by what nobody keeps

    def raw(self) -> bytes:
        """Return the bytes, and let go of them."""
        raw = bytes(self._parts)
        self._parts.clear()
        return raw

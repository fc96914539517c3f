"""Helpers of the tests of the mail filter: the real listener in this process, and clients that speak to it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from api_support import CERTIFICATES
from database_roles import as_api

from service.db.session import Database
from service.mailfilter.addresses import check_mail_settings
from service.mailfilter.deciding import HereDeciding
from service.mailfilter.listener import Listener
from service.mailfilter.main import make_listener
from service.predictions.service import PredictionService
from service.settings import Settings


@dataclass
class Door:
    """A listener on a free port, and the loop that it runs on."""

    port: int
    loop: asyncio.AbstractEventLoop
    listener: Listener
    predictions: PredictionService

    def say(self, request: bytes, *, closes: bool = True) -> bytes:
        """Send bytes, close this half of the connection, and return all that comes back."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(request)
            if closes:
                connection.shutdown(socket.SHUT_WR)
            return read_all(connection)

    def ask(self, command: str, mail: bytes, version: str = "1.5", **fields: str) -> bytes:
        """Send a mail as SpamAssassin's client does, and return the answer."""
        lines = [f"{command} SPAMC/{version}", f"Content-length: {len(mail)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
        return self.say("".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + mail, closes=False)

    def http(self) -> httpx.Client:
        """Return a client of the HTTP that it speaks."""
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=30, trust_env=False, verify=CERTIFICATES)


def read_all(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


@contextmanager
def mail_door(settings: Settings, **changes: Any) -> Iterator[Door]:
    """Open the mail filter as its process does; but for those that say otherwise, mails have time on a busy machine."""
    said = {"mail_listen": "127.0.0.1:0", "mail_min_labels": 0, "mail_seconds": 20} | as_api(settings) | changes
    settings = settings.model_copy(update=said)
    addresses, key = check_mail_settings(settings)
    assert settings.database_url is not None
    database = Database(settings.database_url, one_project=True)
    system = Database(settings.system_database_url or settings.database_url, pool_size=2)
    predictions = PredictionService(database, settings)
    listener = make_listener(settings, HereDeciding(predictions), database, system, key)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    run = lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop).result(60)  # noqa: E731
    try:
        told = run(listener.open(addresses))
        port = int(told[0].rpartition(":")[2]) if ":" in told[0] else 0
        yield Door(port, loop, listener, predictions)
    finally:
        run(listener.close())
        run(predictions.close())
        run(loop.shutdown_default_executor())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
        database.close()
        system.close()


def parsed(answer: bytes) -> tuple[str, dict[str, str], bytes]:
    """Return the first line of an answer, its header fields and its body."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("ascii").split("\r\n")
    return first, dict(line.split(": ", 1) for line in lines if line), body

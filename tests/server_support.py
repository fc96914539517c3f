"""Servers of the local stack, by themselves, for tests."""

from __future__ import annotations

import time

from service.local.servers import PostgresServer, RedisServer, ServerError, tail


def wait_ready(server: PostgresServer | RedisServer, seconds: float = 120.0) -> None:
    """Wait until a started server is ready.

    Raises
    ------
    ServerError
        It ended, or was not ready after `seconds`; the message has the last lines of its log.
    """
    deadline = time.monotonic() + seconds
    while not server.is_ready():
        ended = server.process is None or server.process.poll() is not None
        if ended or time.monotonic() > deadline:
            what = "did not start" if ended else f"was not ready after {seconds:.0f} s"
            raise ServerError(f"{server.name} {what}; the end of {server.log}:\n{tail(server.log)}")
        time.sleep(0.01)

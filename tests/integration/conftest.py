"""What most integration tests begin with: a client on the real application, and a broker that may be broken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from api_support import api_client
from server_support import wait_ready

from service.local.servers import RedisServer
from service.settings import Settings


@pytest.fixture
def client(settings: Settings) -> Iterator[httpx.Client]:
    """Serve the application in this process and yield a client of it."""
    with api_client(settings) as opened:
        yield opened


@pytest.fixture
def own_broker(short_dir: Path) -> Iterator[RedisServer]:
    """A broker of the test's own, which it may stop, freeze or kill."""
    server = RedisServer(short_dir, log=short_dir / "log")
    server.start()
    wait_ready(server)
    yield server
    server.kill()

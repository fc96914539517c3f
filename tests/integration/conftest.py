"""What integration tests begin with: a client on the real application, a broker that may be broken, benches."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import typer.testing
from api_support import api_client, reading_here
from server_support import wait_ready
from worker_bench import STANDIN, Bench, wait_for

from service.db.session import Database
from service.local.servers import RedisServer
from service.settings import Settings
from worker.child_pool import ChildPool

# Typer makes all commands anew of the signatures of their functions whenever a test calls one: .1 s of processor time.
typer.testing._get_command = functools.cache(typer.testing._get_command)


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


@pytest.fixture(scope="session")
def training_children() -> Iterator[ChildPool]:
    """Children that train; what they are forked from is made ready once."""
    pool = ChildPool("worker.fit", 1)
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def standin_children() -> Iterator[ChildPool]:
    """Children that do what `standin_jobs` says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(STANDIN))
        patch.setenv("PREFSVM_JOB_RUNNER_LOADS", "worker.audit worker.predict")  # once, and not each child for itself
        pool = ChildPool("standin_jobs", 1)
        wait_for(lambda: pool.is_warm, 120)
    yield pool
    pool.close()


@pytest.fixture
def trainer(settings: Settings, database: Database, training_children: ChildPool) -> Iterator[Bench]:
    """A bench that runs real trainings."""
    wait_for(lambda: training_children.is_warm, 120)
    bench = Bench(settings, database, training_children)
    yield bench
    bench.close()


@pytest.fixture
def bench(settings: Settings, database: Database, standin_children: ChildPool) -> Iterator[Bench]:
    """A bench for batches, audits and jobs of `standin_jobs`; tests that look at the children themselves open one."""
    bench = Bench(settings, database, standin_children)
    yield bench
    bench.close()


@pytest.fixture
def read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process read what is uploaded, for tests that need a data set and nothing of how it was read."""
    reading_here(monkeypatch)

"""The parts of the product, each a process of its own that can be killed, frozen and cut off from what it needs."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil
import psycopg
from chaos_proxy import Link, Proxies
from server_support import wait_ready

from service.db import migrate
from service.local.processes import spawn
from service.local.servers import PORT, ROLE, PostgresServer, RedisServer, ServerError, postgres_account

ROOT = Path(__file__).parents[2]
PARTS = Path(__file__).parent / "parts"
RESTART_SECONDS = 0.5
"""Time between two tries to start a part that does not stay up."""
DEFECT_OF_THE_API = "answer before the commit"
MARK = "CHAOS_STACK"
"""Variable in the environment of every Python process of a stack, by which its leftovers are found."""


class Part:
    """One part: its main process and all that descend from it.

    Parameters
    ----------
    name : str
    start : callable
        Starts it and returns its main process.
    links : dict of str to Link
        Its ways to the servers, by the name of the server.
    """

    def __init__(self, name: str, start: Callable[[], Any], links: dict[str, Link] | None = None) -> None:
        self.name = name
        self.links = links or {}
        self.starts = 0
        self.unasked_ends = 0
        """How often it ended though nobody killed it."""
        self._start = start
        self._process: Any = None
        self._frozen: list[psutil.Process] = []
        self._next_start = 0.0

    def start(self) -> None:
        """Start it; does not wait until it is ready."""
        self.starts += 1
        self._next_start = time.monotonic() + RESTART_SECONDS
        self._process = self._start()

    def start_if_it_ended(self) -> None:
        """Do the work of a supervisor."""
        if not self.runs and time.monotonic() >= self._next_start:
            self.unasked_ends += 1
            self.start()

    @property
    def pid(self) -> int:
        """Number of the main process."""
        return int(self._process.pid)

    @property
    def runs(self) -> bool:
        """Whether the main process has not ended."""
        return self._process is not None and self._process.poll() is None

    def terminate(self) -> None:
        """SIGTERM to the main process; does not wait."""
        self._process.terminate()

    def kill(self, *, with_children: bool) -> None:
        """SIGKILL, and wait for the end. Without `with_children` they must end by themselves."""
        with suppress(psutil.NoSuchProcess):
            # Stopped first, so that it starts no process that would be missed.
            self._process.send_signal(signal.SIGSTOP)
            victims = psutil.Process(self.pid).children(recursive=True) if with_children else []
            self._process.kill()
            for victim in victims:
                with suppress(psutil.NoSuchProcess):
                    victim.kill()
        self._process.wait(10)
        self._frozen = []

    def freeze(self, *, with_children: bool) -> None:
        """SIGSTOP."""
        with suppress(psutil.NoSuchProcess):
            main = psutil.Process(self.pid)
            main.suspend()
            self._frozen = [main]
            if with_children:
                for child in main.children(recursive=True):
                    with suppress(psutil.NoSuchProcess):
                        child.suspend()
                        self._frozen.append(child)

    def thaw(self) -> None:
        """SIGCONT to whatever was frozen; main process last, so that it does not take its children for hung."""
        for process in reversed(self._frozen):
            with suppress(psutil.NoSuchProcess):
                process.resume()
        self._frozen = []


class ChaosStack:
    """Postgres, Redis without persistence, API, dispatcher and workers, joined by links that can be broken.

    Start it in the main thread: the kernel ends its processes when the thread that started them ends.

    Parameters
    ----------
    folder : Path
        Short path for data, sockets and logs.
    workers : int
    lease_seconds : float
    defect : str
        Of `chaos_entry.DEFECTS`; put into dispatcher and workers, and `DEFECT_OF_THE_API` into the API.
    environment : str
        Further variables for all Python parts.
    """

    def __init__(
        self, folder: Path, *, workers: int = 2, lease_seconds: float = 6.0, defect: str = "", **environment: str
    ) -> None:
        self.folder = folder
        self.lease_seconds = lease_seconds
        self.notes = folder / "notes"
        self.blobs = folder / "blobs"
        self._mark = uuid4().hex
        self._proxies = Proxies()
        self._postgres = self._postgres_in(folder / "home")
        self._redis = RedisServer(folder, log=folder / "redis.log")
        self.port = _free_port()
        self._environment = {
            **os.environ,
            MARK: self._mark,
            "CHAOS_NOTES": str(self.notes),
            "CHAOS_DEFECT": defect,
            "PYTHONPATH": str(PARTS),
            "PREFSVM_JOB_RUNNER": "chaos_jobs",
            "PREFSVM_DATA_DIR": str(folder / "data"),
            "PREFSVM_BLOB_URL": str(self.blobs),
            "PREFSVM_PORT": str(self.port),
            "PREFSVM_LEASE_SECONDS": str(lease_seconds),
            "PREFSVM_REDISPATCH_SECONDS": "3",
            # Good jobs must not fail because their workers were killed again and again.
            "PREFSVM_MAX_ATTEMPTS": "30",
            **environment,
        }
        self.postgres = Part("postgres", lambda: self._start_server(self._postgres))
        self.redis = Part("redis", lambda: self._start_server(self._redis))
        api = ["chaos_entry", "api"] if defect == DEFECT_OF_THE_API else ["service.app"]
        self.api = self._part("api", api, ["postgres", "redis"])
        self.dispatcher = self._part("dispatcher", ["chaos_entry", "dispatcher"], ["postgres", "redis"])
        self.workers = [
            self._part(f"worker {number}", ["chaos_entry", "worker"], ["postgres", "redis"])
            for number in range(1, workers + 1)
        ]
        self.parts = [self.postgres, self.redis, self.api, self.dispatcher, *self.workers]
        self.port_without_broker = _free_port()
        self._without_broker = self._part(
            "api without a broker", ["service.app"], ["postgres"], PREFSVM_PORT=str(self.port_without_broker)
        )

    # ------------------------------------------------------------------------------------------------ start and end

    def start(self) -> None:
        """Start everything and wait until the API says that it is ready and a worker listens."""
        self.start_servers()
        for part in (self.api, self.dispatcher, *self.workers):
            part.start()
        self.wait_until_ready()

    def restart_postgres(self) -> None:
        """End Postgres and start it again."""
        self.postgres.kill(with_children=True)
        self.postgres.start()
        wait_ready(self._postgres)

    def replace_postgres(self) -> None:
        """End Postgres for good; another one without any tables takes its place, and its address."""
        self._postgres = self._postgres_in(self.folder / "other home")
        self.restart_postgres()

    def _postgres_in(self, home: Path) -> PostgresServer:
        return PostgresServer(
            home, self.folder / "postgres", log=self.folder / "postgres.log", account=postgres_account()
        )

    def start_servers(self) -> None:
        """Start Postgres and Redis, and make the tables."""
        for server, part in ((self._postgres, self.postgres), (self._redis, self.redis)):
            part.start()
            wait_ready(server)
        migrate.upgrade(self._postgres.url())

    def start_api_without_broker(self) -> None:
        """Start one more API, on the same database, that knows of no broker: to compare with."""
        self.parts.append(self._without_broker)
        self._without_broker.start()
        deadline = time.monotonic() + 60
        with self.client(port=self.port_without_broker) as client:
            while True:
                with suppress(httpx.HTTPError):
                    client.get("/healthz")
                    return
                assert time.monotonic() < deadline, f"it did not start; logs: {self.folder}"
                time.sleep(0.2)

    def wait_until_ready(self, seconds: float = 120.0, *, worker: bool = True) -> None:
        """Wait until ``GET /readyz`` is 200 (with a worker that listens, if `worker`)."""
        deadline = time.monotonic() + seconds
        with self.client() as client:
            while True:
                with suppress(httpx.HTTPError):
                    answer = client.get("/readyz")
                    if answer.status_code == 200 and (not worker or answer.json()["checks"]["worker"]["ok"]):
                        return
                assert self.api.runs, f"the API ended: {list(self.log_lines('api', ''))[-1:]}"
                assert time.monotonic() < deadline, f"not ready after {seconds:g} s; logs: {self.folder}"
                time.sleep(0.2)

    def close(self) -> list[str]:
        """End everything at once. Returns the command lines of processes that should have ended with their parent."""
        for part in reversed(self.parts):
            if part.runs:
                # Workers and API must take their children along by themselves.
                part.kill(with_children=part is self.postgres)
        self._proxies.close()
        deadline = time.monotonic() + 5.0
        while (left := self._leftovers()) and time.monotonic() < deadline:
            time.sleep(0.1)
        told = []
        for process in left:
            with suppress(psutil.NoSuchProcess):
                told.append(" ".join(process.cmdline()))
                process.kill()
        return told

    def _leftovers(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == self._mark:
                    found.append(process)
        return found

    def _start_server(self, server: PostgresServer | RedisServer) -> Any:
        with suppress(ServerError):
            server.start()
        return server.process

    def _part(self, name: str, command: list[str], servers: list[str], **environment: str) -> Part:
        sockets = {"postgres": self._postgres.run / f".s.PGSQL.{PORT}", "redis": self._redis.socket}
        links = {server: self._proxies.link(sockets[server]) for server in servers}
        addresses = {"PREFSVM_DATABASE_URL": f"postgresql://prefsvm@127.0.0.1:{links['postgres'].port}/prefsvm"}
        if "redis" in links:
            addresses["PREFSVM_BROKER_URL"] = f"redis://127.0.0.1:{links['redis'].port}/0"

        def start() -> Any:
            with (self.folder / f"{name}.log").open("ab") as log:
                return spawn(
                    [sys.executable, "-m", *command],
                    cwd=ROOT,
                    env={**self._environment, **addresses, **environment},
                    log=log,
                )

        return Part(name, start, links)

    # ------------------------------------------------------------------------------------------------- looking at it

    def client(self, seconds: float = 15.0, port: int | None = None) -> httpx.Client:
        """Return a client of the API, or of the one on another port."""
        return httpx.Client(base_url=f"http://127.0.0.1:{port or self.port}", timeout=seconds, trust_env=False)

    def connect(self, role: str = ROLE) -> psycopg.Connection:
        """Connect to Postgres past all links."""
        address = self._postgres.url(role=role).replace("+psycopg", "")
        return psycopg.connect(address, autocommit=True, connect_timeout=2)

    def query(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        with self.connect() as connection:
            return connection.execute(statement, parameters).fetchall()  # type: ignore[call-overload,no-any-return]

    def refusals(self) -> list[tuple[str, str, int]]:
        """Return what late workers tried and were refused: name of the transition, job, attempt."""
        if not self.notes.exists():
            return []
        lines = (line.split() for line in self.notes.read_text().splitlines())
        return [(name, job_id, int(attempt)) for name, job_id, attempt in lines]

    def log_lines(self, name: str, having: str) -> Iterator[str]:
        """Yield the lines of the log of a part that contain `having`."""
        with (self.folder / f"{name}.log").open(errors="replace") as log:
            yield from (line.rstrip() for line in log if having in line)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])

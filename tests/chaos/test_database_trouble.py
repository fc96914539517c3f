"""The database without room, without connections, read-only, and restored from a backup."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import psycopg
import pytest
from chaos_load import send, training, upload, wait_for
from chaos_stack import ChaosStack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
RECOVERY_SECONDS = 10.0


@pytest.fixture
def stack(short_dir: Path) -> Iterator[ChaosStack]:
    stack = ChaosStack(short_dir)
    yield stack
    stack.close()


def try_to_send(stack: ChaosStack, dataset: str, number: int) -> int:
    with stack.client() as client:
        answer = client.post("/train", json=training(dataset, number))
    assert answer.status_code != 503 or int(answer.headers["Retry-After"]) > 0
    return answer.status_code


def is_accepted(stack: ChaosStack, dataset: str, number: int) -> bool:
    with suppress(httpx.HTTPError):
        return try_to_send(stack, dataset, number) == 202
    return False


def all_finished(stack: ChaosStack) -> bool:
    return stack.query("SELECT DISTINCT status FROM jobs") == [("succeeded",)]


def test_no_connection_is_left(stack: ChaosStack, capsys: pytest.CaptureFixture[str]) -> None:
    stack.start()
    dataset = upload(stack)
    with stack.connect("postgres") as connection:
        connection.execute("ALTER SYSTEM SET max_connections = 10")
    stack.restart_postgres()
    stack.wait_until_ready()
    assert stack.query("SHOW max_connections") == [("10",)]
    # Those who are connected stay so: make all of them come again, and be the quickest.
    with ExitStack() as greedy:
        for part in stack.parts:
            if "postgres" in part.links:
                part.links["postgres"].cut()
        time.sleep(0.5)
        with suppress(psycopg.OperationalError):
            while True:
                greedy.enter_context(stack.connect())
        for part in stack.parts:
            if "postgres" in part.links:
                part.links["postgres"].restore()
        assert {try_to_send(stack, dataset, number) for number in range(5)} == {503}
    freed = time.monotonic()
    wait_for(lambda: is_accepted(stack, dataset, 5), RECOVERY_SECONDS)
    with capsys.disabled():
        print(f"\naccepted again {time.monotonic() - freed:.1f} s after connections were free")
    wait_for(lambda: all_finished(stack), 30)


def test_a_read_only_database(stack: ChaosStack, capsys: pytest.CaptureFixture[str]) -> None:
    stack.start()
    dataset = upload(stack)
    long = send(stack, dataset, 25)

    def read_only(on: bool) -> None:
        with stack.connect() as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(f"ALTER DATABASE prefsvm SET default_transaction_read_only = {on}")  # type: ignore[call-overload]
        for part in stack.parts:
            if "postgres" in part.links:
                part.links["postgres"].cut()
        time.sleep(0.2)
        for part in stack.parts:
            if "postgres" in part.links:
                part.links["postgres"].restore()

    read_only(True)
    assert {try_to_send(stack, dataset, number) for number in range(5)} == {503}
    with stack.client() as client:
        assert client.get(f"/jobs/{long}").status_code == 200
    read_only(False)
    freed = time.monotonic()
    wait_for(lambda: is_accepted(stack, dataset, 5), RECOVERY_SECONDS)
    with capsys.disabled():
        print(f"\naccepted again {time.monotonic() - freed:.1f} s after the database could be written")
    wait_for(lambda: all_finished(stack), 60)


def test_a_backup_taken_while_jobs_run_is_whole(
    stack: ChaosStack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is restored goes on by itself: every job of the backup finishes, every model has its hash."""
    if shutil.which("pg_dump") is None:
        pytest.skip("pg_dump is not on the PATH")
    stack.start()
    dataset = upload(stack)
    for number in range(50):
        send(stack, dataset, number)
    wait_for(lambda: stack.query("SELECT count(*) FROM jobs WHERE status = 'succeeded'")[0][0] >= 10, 60)
    dump = tmp_path / "dump"
    address = {**os.environ, "PGHOST": str(stack.folder / "postgres"), "PGUSER": "prefsvm"}
    subprocess.run(["pg_dump", "--format=custom", f"--file={dump}", "prefsvm"], env=address, check=True)
    # The disaster: everything ends, and another server gets the backup. The blobs are as they were.
    for part in (stack.api, stack.dispatcher, *stack.workers, stack.redis):
        part.kill(with_children=False)
    stack.replace_postgres()
    assert stack.query("SELECT to_regclass('jobs')") == [(None,)]
    subprocess.run(["pg_restore", "--dbname=prefsvm", "--no-owner", "--exit-on-error", dump], env=address, check=True)
    found = dict(stack.query("SELECT status, count(*) FROM jobs GROUP BY status"))
    assert sum(found.values()) == 50
    assert found["succeeded"] < 50, "the backup came too late to prove anything"
    for part in (stack.redis, stack.api, stack.dispatcher, *stack.workers):
        part.start()
    stack.wait_until_ready()
    restored = time.monotonic()
    wait_for(lambda: all_finished(stack), 90)
    with capsys.disabled():
        print(f"\nrestored with {found}; all succeeded {time.monotonic() - restored:.1f} s after the start")
    hashes = stack.query(
        "SELECT count(*) FROM models m JOIN model_chunks c ON c.model_id = m.id "
        "WHERE encode(sha256(c.data), 'hex') = m.sha256"
    )
    assert hashes == [(50,)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a small file system")
def test_a_full_disk_below_the_database(short_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tables lie on 64 MB, of which a stranger takes what is left."""
    small = short_dir / "home"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "prefsvm-test", small], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("this machine does not let root mount a tmpfs")
    try:
        stack = ChaosStack(short_dir)
        try:
            stack.start()
            dataset = upload(stack)
            send(stack, dataset, 1)
            wait_for(lambda: all_finished(stack), 30)
            stranger = small / "stranger"
            with suppress(OSError), stranger.open("wb", buffering=0) as file:
                while file.write(b"\0" * (1 << 16)):
                    pass
            got = set()
            deadline = time.monotonic() + 60
            number = 10
            # Pages that are there already take some rows more.
            while 503 not in got and time.monotonic() < deadline:
                number += 1
                with suppress(httpx.HTTPError):
                    got.add(try_to_send(stack, dataset, number))
            assert got <= {202, 503}
            assert 503 in got
            stranger.unlink()
            freed = time.monotonic()

            def goes_on() -> bool:
                stack.postgres.start_if_it_ended()
                return is_accepted(stack, dataset, 5)

            wait_for(goes_on, RECOVERY_SECONDS)
            with capsys.disabled():
                print(f"\naccepted again {time.monotonic() - freed:.1f} s after there was room")
            wait_for(lambda: all_finished(stack), 120)
            assert stack.query("SELECT id FROM jobs WHERE id NOT IN (SELECT job_id FROM models)") == []
        finally:
            stack.close()
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)

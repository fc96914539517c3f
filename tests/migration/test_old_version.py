"""The version before the newest migration goes on answering while that migration runs, and afterwards."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.db import migrate, roles
from service.local.servers import ROLE

ROOT = Path(__file__).parents[2]
CSV = b"age,job,label\n" + b"".join(b"%d,%s,%s\n" % (20 + i, b"ab"[i % 2 :][:1], b"sh"[i % 2 :][:1]) for i in range(40))
ROUNDS = 3
"""How often the newest migration is run, and taken back, under load."""

PREPARE = """
import sys
from pathlib import Path
from api_support import store_model
from service.db import migrate
from service.db.session import Database
url, folder = sys.argv[1:]
migrate.upgrade(url)
print(migrate.head(), store_model(Database(url), Path(folder)))
"""


@pytest.fixture
def old_version(tmp_path: Path) -> Path:
    """Return a folder with the product as it was before the newest migration was added."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("the older version is taken from the Git history, which is not here")
    newest = next((ROOT / "migrations/versions").glob(f"{migrate.head()}_*.py")).relative_to(ROOT)

    def git(*arguments: str) -> bytes:
        return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, check=True).stdout

    added = git("log", "--diff-filter=A", "--format=%H", "-1", "--", str(newest)).decode().strip()
    before = f"{added}^" if added else "HEAD"
    if subprocess.run(["git", "-C", ROOT, "rev-parse", "-q", "--verify", before], capture_output=True).returncode != 0:
        pytest.skip(f"the Git history here is cut off before {added}")
    helpers = ":(glob)tests/integration/*.py"  # one imports others
    archive = git("archive", before, "service", "solver", "worker", "migrations", helpers, "pyproject.toml")
    folder = tmp_path / "old"
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    assert not (folder / newest).exists()
    return folder


@contextmanager
def serving(folder: Path, url: str, broker_url: str, data: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """Run the API of a folder; yields its address, and a function that returns its log."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]

    def as_role(role: str) -> str:
        return url.replace(f"//{ROLE}@", f"//{role}@")

    environment = os.environ | {
        "PYTHONPATH": str(folder),
        "PREFSVM_DATABASE_URL": as_role(roles.API),
        "PREFSVM_SYSTEM_DATABASE_URL": as_role(roles.SYSTEM),
        "PREFSVM_BROKER_URL": broker_url,
        "PREFSVM_DATA_DIR": str(data),
        "PREFSVM_PORT": str(port),
    }
    log = data.with_suffix(".log")
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "service.app"], cwd=folder, env=environment, stdout=out,
                                   stderr=out)  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                httpx.get(f"{address}/healthz", trust_env=False)
                break
            except httpx.TransportError:
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield address, log.read_text
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_the_version_before_answers_while_the_newest_migration_runs(
    empty_database_url: str, broker_url: str, old_version: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = subprocess.run(
        [sys.executable, "-c", PREPARE, empty_database_url, tmp_path],
        cwd=old_version,
        env=os.environ | {"PYTHONPATH": f"{old_version}:{old_version / 'tests/integration'}"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    old_head, model = said.split()
    assert old_head != migrate.head()
    answers: Counter[tuple[str, int]] = Counter()
    wrong: list[str] = []
    over = threading.Event()
    numbers = itertools.count()

    with serving(old_version, empty_database_url, broker_url, tmp_path / "data") as (address, log):

        def client() -> httpx.Client:
            return httpx.Client(base_url=address, timeout=30, trust_env=False)

        with client() as first:
            dataset = first.post("/datasets", files={"file": ("rows.csv", CSV)}).json()["id"]

        def calls(number: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
            body = {"dataset": dataset, "target": "label", "positive": "s", "algorithm": "svm",
                    "objective": {"kind": "recall", "target": 0.9}}  # fmt: skip
            yield "POST", "/train", {"json": body, "headers": {"Idempotency-Key": f"key-{number}"}}
            yield "PUT", f"/aliases/alias-{number % 3}", {"json": {"model": model}}
            yield "POST", "/predict", {"json": {"model": f"alias-{number % 3}", "rows": [{"age": 30, "job": "cook"}]}}
            yield "GET", "/jobs?limit=5", {}
            yield "GET", "/aliases", {}
            yield "GET", f"/models/{model}", {}
            if number % 10 == 0:  # they take a second
                yield "POST", "/datasets", {"files": {"file": (f"{number}.csv", CSV)}}

        def ask() -> None:
            with client() as asking:
                while not over.is_set():
                    for method, path, content in calls(next(numbers)):
                        try:
                            answer = asking.request(method, path, **content)
                        except httpx.HTTPError as error:
                            wrong.append(f"{method} {path}: {error!r}")
                            continue
                        answers[f"{method} {path.split('/')[1].split('?')[0]}", answer.status_code] += 1
                        if answer.is_error:
                            wrong.append(f"{method} {path}: {answer.status_code} {answer.text}")

        askers = [threading.Thread(target=ask) for _ in range(4)]
        for asker in askers:
            asker.start()
        try:
            for _ in range(ROUNDS):
                time.sleep(0.5)
                migrate.upgrade(empty_database_url)
                time.sleep(0.5)
                migrate.downgrade(empty_database_url, old_head)
            migrate.upgrade(empty_database_url)
            time.sleep(1)
        finally:
            over.set()
            for asker in askers:
                asker.join()
        with capsys.disabled():
            print(f"\nthe version at {old_head} while the database goes to {migrate.head()}: {dict(answers)}")
        assert wrong == [], [line for line in log().splitlines() if '"INFO"' not in line]
        assert sum(answers.values()) > 200
        assert len(answers) == 7

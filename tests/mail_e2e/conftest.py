"""A running stack with the mail filter and a model, for tests with the programs of a mail system.

Nothing is installed here: a test whose program is not there is skipped with the reason. Debian has all of them.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx
import pytest

from service.local.stack import local_stack

ROOT = Path(__file__).parents[2]
INTEGRATIONS = ROOT / "integrations"
SPAM = b"Claim free money now: the prize you won is this offer, click and win\n"
HAM = b"Hello, here is the report of our meeting on the budget of the project\n"


def mail(spam: bool, number: int = 0, *, head: bytes = b"") -> bytes:
    """Return a mail with LF, as programs of Unix have it."""
    sender, subject, body = (
        (b"win@example.net", b"You won a prize", SPAM) if spam else (b"anna@example.org", b"Minutes", HAM)
    )
    return (
        head
        + b"From: %s\nTo: you@example.org\nDate: Sat, 28 Nov 2026 03:30:00 +0100\nSubject: %s %d\n\n%s"
        % (sender, subject, number, body)
        + b"caf\xe9, number %d\n" % number
    )


@dataclass
class Filter:
    """The mail filter, and what it stands on."""

    port: int
    path: Path
    api: httpx.Client
    folder: Path
    """Other users may look into it."""

    def configured(self, name: str, **changes: str) -> str:
        """Return a file of `integrations/` with this filter's port in it, and other changes."""
        text = (INTEGRATIONS / name).read_text()
        text = re.sub(r"127\.0\.0\.1(:| -p )783\b", rf"127.0.0.1\g<1>{self.port}", text)
        for old, new in changes.items():
            assert old in text, (name, old)
            text = text.replace(old, new)
        return text

    def labels(self) -> dict[str, int]:
        """Return how many mails were learned with each label."""
        found: dict[str, int] = {}
        for each in self.api.get("/feedback", params={"limit": 100}).json()["items"]:
            for label, count in each["labels"].items():
                found[label] = found.get(label, 0) + count
        return found

    def forget(self) -> None:
        """Delete what was learned."""
        for each in self.api.get("/feedback", params={"limit": 100}).json()["items"]:
            self.api.delete(f"/feedback/{each['id']}")


def need(*programs: str) -> str:
    """Return the path of the first program; skip the test if any of them is missing."""
    path = os.environ["PATH"] + ":/usr/sbin:/usr/lib/dovecot:/usr/lib/postfix/sbin"
    for program in programs:
        if shutil.which(program, path=path) is None:
            pytest.skip(f"{program} is not installed; Debian has it (docs/testing.md says in which package)")
    return str(shutil.which(programs[0], path=path))


def need_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("this program changes users, and needs root")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def wait_for(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def running(*command: str | Path, log: IO[bytes], **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program as long as the block lasts, and end it and its children then."""
    process = subprocess.Popen(
        [str(part) for part in command],
        stdout=log,
        stderr=log,
        start_new_session=True,
        **options,  # type: ignore[call-overload]
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()


def archive() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for spam, name in ((True, "spam"), (False, "ham")):
            for i in range(30):
                raw = mail(spam, i)
                entry = tarfile.TarInfo(f"{name}/{i}.eml")
                entry.size = len(raw)
                tar.addfile(entry, io.BytesIO(raw))
    return packed.getvalue()


@pytest.fixture(scope="session")
def open_folder() -> Iterator[Path]:
    """A folder that the users of other programs can look into."""
    with tempfile.TemporaryDirectory(prefix="mail-e2e-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="session")
def mails(open_folder: Path) -> Iterator[Filter]:
    """The whole stack with a trained model."""
    port, path = free_port(), open_folder / "mail.sock"
    environment = {"PREFSVM_MAIL_LISTEN": f"127.0.0.1:{port},{path}", "PREFSVM_MAIL_LEARN": "true"}
    environment["PREFSVM_MAIL_LEARN_CORRESPONDENTS"] = "true"
    with (
        local_stack(open_folder / "data", environment=environment) as stack,
        httpx.Client(base_url=stack.url, timeout=60) as api,
    ):
        dataset = api.post("/datasets", files={"file": ("mails.tar.gz", archive())}).json()["id"]
        body = {"dataset": dataset, "target": "label", "positive": "spam", "objective": {"kind": "f1"}}
        job = api.post("/train", json=body | {"alias": "spam-filter", "algorithm": "svm"}).json()
        wait_for(
            lambda: api.get(f"/jobs/{job['id']}").json()["status"] not in ("queued", "running"), "the training", 240
        )
        assert api.get("/aliases/spam-filter").status_code == 200
        yield Filter(port, path, api, open_folder)

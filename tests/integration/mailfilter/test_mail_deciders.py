"""Mails are decided on by processes beside the one that listens, which may end, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest
from api_support import HAM
from database_roles import as_api
from hostile_mails import MAILS, PLAIN

from service.mailfilter.deciders import MOST, count_of
from service.settings import Settings

HAM_MAIL = b"Subject: see you\r\n\r\n" + HAM.encode() + b"\r\n"
PATIENCE = 60.0


@contextmanager
def mail_process(settings: Settings, processes: int, log: Path) -> Iterator[tuple[psutil.Process, httpx.Client]]:
    """Start the process of the mail filter, and wait until it listens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    said = as_api(settings) | {
        "mail_listen": f"127.0.0.1:{port}",
        "mail_processes": str(processes),
        "mail_min_labels": "0",
        "mail_seconds": "30",
    }
    environment = os.environ | {f"PREFSVM_{name.upper()}": value for name, value in said.items()}
    with log.open("wb") as out:
        started = subprocess.Popen(
            [sys.executable, "-m", "service.mailfilter.main"], env=environment, stdout=out, stderr=out
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
            wait_for(lambda: started.poll() is not None or answers(client))
            assert started.poll() is None, log.read_text()
            yield psutil.Process(started.pid), client
    finally:
        started.kill()
        started.wait()


def wait_for(holds: object) -> None:
    until = time.monotonic() + PATIENCE
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/ping").status_code == 200
    except httpx.TransportError:
        return False


def check(client: httpx.Client, raw: bytes, **fields: str) -> dict[str, object]:
    answer: dict[str, object] = client.post("/checkv2", content=raw, headers=fields).json()
    return answer


def test_deciders_say_what_predict_says_and_may_end(settings: Settings, api: httpx.Client, tmp_path: Path) -> None:
    log = tmp_path / "mail.log"
    head = {"Content-Type": "message/rfc822"}
    mails = [PLAIN, HAM_MAIL, MAILS["20,000 addresses in To"].raw]
    expected = [
        api.post("/predict?model=spam-filter", content=raw, headers=head).json()["predictions"][0]["score"]
        for raw in mails
    ]
    with mail_process(settings, 2, log) as (process, client):
        deciders = process.children()
        assert len(deciders) == 2
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda raw: check(client, raw)["svm_score"], mails * 6))
        assert found == expected * 6
        assert all(sum(each.cpu_times()[:2]) > 0 for each in deciders)
        assert check(client, PLAIN, **{"Deliver-To": "anna@example.org"})["svm_score"] == expected[0]

        deciders[0].kill()
        wait_for(lambda: "1 are left" in log.read_text())
        assert [check(client, raw)["svm_score"] for raw in mails] == expected
        deciders[1].kill()
        wait_for(lambda: "0 are left" in log.read_text())
        assert [check(client, raw)["svm_score"] for raw in mails] == expected


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_decider_outlives_the_listener(
    settings: Settings, api: httpx.Client, tmp_path: Path, number: signal.Signals
) -> None:
    api.delete("/aliases/spam-filter")
    with mail_process(settings, 2, tmp_path / "mail.log") as (process, client):
        assert check(client, PLAIN)["reason"] == "no_model"
        deciders = process.children()
        for each in deciders:
            each.send_signal(signal.SIGTERM)  # as to all of a group; the listener says when they end
        assert check(client, PLAIN)["reason"] == "no_model"
        assert [each.pid for each in process.children()] == [each.pid for each in deciders]
        process.send_signal(number)
        gone, alive = psutil.wait_procs([process, *deciders], timeout=PATIENCE)
        assert not alive
        assert len(gone) == 3
        assert "has failed" not in (tmp_path / "mail.log").read_text()


def test_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, wanted, count in ((1, 0, 0), (2, 0, 2), (64, 0, MOST), (64, 1, 0), (1, 3, 3)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        assert count_of(wanted) == count

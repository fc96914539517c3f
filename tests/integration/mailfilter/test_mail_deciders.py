"""Mails are decided on by processes beside the one that listens, which may end, and leave nothing behind."""

from __future__ import annotations

import os
import re
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
def mail_process(
    settings: Settings, processes: int, log: Path, seconds: int = 30
) -> Iterator[tuple[psutil.Process, httpx.Client]]:
    """Start the process of the mail filter, and wait until it listens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    said = as_api(settings) | {
        "mail_listen": f"127.0.0.1:{port}",
        "mail_processes": str(processes),
        "mail_min_labels": "0",
        "mail_seconds": str(seconds),
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


def has_decided(decider: psutil.Process) -> bool:
    return sum(decider.cpu_times()[:2]) > 0


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/ping").status_code == 200
    except httpx.TransportError:
        return False


def check(client: httpx.Client, raw: bytes, **fields: str) -> dict[str, object]:
    answer: dict[str, object] = client.post("/checkv2", content=raw, headers=fields).json()
    return answer


def deciders_of(process: psutil.Process) -> list[psutil.Process]:
    """Those that decide: children of the one child, which forks them."""
    (forkserver,) = process.children()
    return [each for each in forkserver.children() if each.status() != psutil.STATUS_ZOMBIE]


def unknown(client: httpx.Client) -> float:
    """How many mails are counted of which nothing could be said."""
    found = re.findall(r"(?m)^prefsvm_mails_unknown_total.* ([0-9.]+)$", client.get("/metrics").text)
    return sum(map(float, found))


def test_deciders_say_what_predict_says_and_may_end(settings: Settings, api: httpx.Client, tmp_path: Path) -> None:
    log = tmp_path / "mail.log"
    head = {"Content-Type": "message/rfc822"}
    mails = [PLAIN, HAM_MAIL, MAILS["20,000 addresses in To"].raw]
    expected = [
        api.post("/predict?model=spam-filter", content=raw, headers=head).json()["predictions"][0]["score"]
        for raw in mails
    ]
    with mail_process(settings, 2, log) as (process, client):
        deciders = deciders_of(process)
        assert len(deciders) == 2
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda raw: check(client, raw)["svm_score"], mails * 6))
        assert found == expected * 6
        assert all(map(has_decided, deciders))
        assert check(client, PLAIN, **{"Deliver-To": "anna@example.org"})["svm_score"] == expected[0]


def test_a_decider_that_is_killed_is_replaced_and_its_mails_are_passed_on(
    settings: Settings, api: httpx.Client, tmp_path: Path
) -> None:
    log = tmp_path / "mail.log"
    with mail_process(settings, 2, log) as (process, client):
        deciders = deciders_of(process)
        score = check(client, PLAIN)["svm_score"]
        deciders[0].suspend()  # or it would have decided on its mails before it is killed
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(check, client, PLAIN) for _ in range(8)]
            wait_for(lambda: sum(each.done() for each in asked) >= 4)  # of the other one
            deciders[0].kill()
            answers = [each.result() for each in asked]
        lost = [each for each in answers if each["verdict"] == "unknown"]
        assert 1 <= len(lost) <= 4
        assert {each["reason"] for each in lost} == {"error"}
        assert unknown(client) == len(lost)
        wait_for(lambda: len(deciders_of(process)) == 2)
        assert deciders[0] not in deciders_of(process)
        wait_for(lambda: check(client, PLAIN)["svm_score"] == score and all(map(has_decided, deciders_of(process))))
        for each in deciders_of(process):
            each.kill()
        wait_for(lambda: len(set(deciders_of(process)) - set(deciders)) == 2)
        assert check(client, PLAIN)["svm_score"] == score

        process.children()[0].kill()  # with it end those that it has forked, and there are no further ones
        wait_for(lambda: "no further process" in log.read_text())
        assert check(client, PLAIN)["svm_score"] == score


def test_a_decider_that_hangs_is_replaced(settings: Settings, api: httpx.Client, tmp_path: Path) -> None:
    with mail_process(settings, 2, tmp_path / "mail.log", seconds=2) as (process, client):
        for _ in range(4):
            check(client, PLAIN)
        hung, other = deciders_of(process)
        early = unknown(client)  # of the first ones, as the model is loaded
        hung.suspend()
        lost = 0
        until = time.monotonic() + PATIENCE
        while hung.is_running():  # mails go on, one after the other
            lost += check(client, PLAIN)["verdict"] == "unknown"
            assert time.monotonic() < until, "nobody has ended it"
        assert lost <= 1  # in time, as the client has patience for a minute only
        assert unknown(client) == early + lost
        wait_for(lambda: len(deciders_of(process)) == 2)
        assert other in deciders_of(process)
        assert "hung and was killed" in (tmp_path / "mail.log").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_decider_outlives_the_listener(
    settings: Settings, api: httpx.Client, tmp_path: Path, number: signal.Signals
) -> None:
    api.delete("/aliases/spam-filter")
    with mail_process(settings, 2, tmp_path / "mail.log") as (process, client):
        assert check(client, PLAIN)["reason"] == "no_model"
        deciders = deciders_of(process)
        for each in deciders:
            each.send_signal(signal.SIGTERM)  # as to all of a group; the listener says when they end
        assert check(client, PLAIN)["reason"] == "no_model"
        assert deciders_of(process) == deciders
        family = process.children(recursive=True)
        process.send_signal(number)
        gone, alive = psutil.wait_procs([process, *family], timeout=PATIENCE)
        assert not alive
        assert len(gone) == 4
        assert "has failed" not in (tmp_path / "mail.log").read_text()


def test_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, wanted, count in ((1, 0, 0), (2, 0, 2), (64, 0, MOST), (64, 1, 0), (1, 3, 3)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        assert count_of(wanted) == count

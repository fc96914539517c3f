"""Webhooks end to end: the calls, the outbox in the transactions of jobs, and a real sender against real receivers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from api_support import api_client, counts, problem, store_dataset, train_body
from database_roles import as_role
from sqlalchemy import text, update
from sqlalchemy.orm import Session
from standardwebhooks import Webhook
from worker_bench import ROOT, JobTable, wait_for

from service.db import roles
from service.db.session import Database
from service.db.tables import DEFAULT_PROJECT, WebhookDeliveryRow, WebhookRow
from service.identifiers import new_id
from service.jobs.claims import JobClaims
from service.jobs.dispatching import JobDispatching
from service.jobs.repository import JobRepository
from service.settings import Settings
from service.webhooks import addresses, post
from service.webhooks.addresses import parse_destination, resolve
from service.webhooks.errors import AddressRefusedError
from service.webhooks.outbox import LEASE_SECONDS, Outbox, announce_end
from service.webhooks.sender import WebhookSender
from service.webhooks.service import MOST_WEBHOOKS

JOBS = JobClaims(30)


@dataclass
class Receiver:
    """A real HTTP or HTTPS server that does what the path says and keeps what it got."""

    url: str
    got: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    def ids(self, path: str) -> list[str]:
        return [headers["webhook-id"] for where, headers, _ in self.got if where == path]


@pytest.fixture
def receive() -> Iterator[Callable[..., Receiver]]:
    servers: list[ThreadingHTTPServer] = []

    def start(tls: ssl.SSLContext | None = None) -> Receiver:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.got.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                seen = receiver.ids(self.path).count(self.headers["webhook-id"])
                if self.path == "/slow":
                    time.sleep(1)
                elif self.path == "/drip":
                    for _ in range(30):
                        self.wfile.write(b"H")
                        self.wfile.flush()
                        time.sleep(0.2)
                elif self.path == "/long":
                    self.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"X-Filler: " + b"x" * 1_000_000)
                    return
                status = {"/gone": 410, "/never": 500, "/redirect": 302}.get(self.path, 204)
                self.send_response(503 if self.path == "/later" and seen == 1 else status)
                if status == 302:
                    self.send_header("Location", "/ok")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        receiver = Receiver(f"http{'' if tls is None else 's'}://localhost:{server.server_port}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return receiver

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def send(database_url: str) -> Iterator[Callable[..., WebhookSender]]:
    """Start a sender that runs until the end of the test."""
    running: list[tuple[WebhookSender, threading.Thread, Database]] = []

    def start(**options: Any) -> WebhookSender:
        own = Database(database_url, pool_size=2)
        sender = WebhookSender(own, **{"allow_private": True, "again_seconds": (0.1, 0.1), **options})
        thread = threading.Thread(target=sender.run)
        thread.start()
        running.append((sender, thread, own))
        return sender

    yield start
    for sender, thread, own in running:
        sender.stop()
        thread.join(40)
        assert not thread.is_alive()
        own.close()


def hook(database: Database, url: str) -> tuple[str, bytes]:
    secret = os.urandom(32)
    row = WebhookRow(id=new_id("wh"), project_id=DEFAULT_PROJECT, url=url, secret=secret)
    with database.transaction() as session:
        session.add(row)
    return row.id, secret


def end_job(database: Database, **error: str) -> str:
    job_id = JobTable(database).enqueue("nothing", secret="4711")
    with database.transaction() as session:
        claim = JOBS.claim(session, job_id)
        assert claim is not None
        assert JOBS.finish_failed(session, claim, {"code": "one_class", "message": "4711", **error})
    return job_id


def deliveries(database: Database) -> list[WebhookDeliveryRow]:
    with database.transaction() as session:
        return list(session.query(WebhookDeliveryRow).order_by(WebhookDeliveryRow.id))


# -- the calls ---------------------------------------------------------------------------------------------------------


def test_the_calls(settings: Settings, database: Database) -> None:
    with api_client(settings) as client:
        made = client.post("/webhooks", json={"url": "https://example.com/hook?a=1"})
        assert made.status_code == 201, made.text
        assert made.json()["secret"].startswith("whsec_")
        other = client.post("/webhooks", json={"url": "https://example.org/"}).json()
        assert other["secret"] != made.json()["secret"]
        listed = client.get("/webhooks")
        assert [item["id"] for item in listed.json()["items"]] == [other["id"], made.json()["id"]]
        assert "secret" not in listed.text
        job = client.post("/train", json=train_body(store_dataset(database))).json()
        assert counts(database, "webhook_deliveries") == [0]
        client.post(f"/jobs/{job['id']}/cancel")
        (sent,) = client.get(f"/webhooks/{other['id']}/deliveries").json()["items"]
        assert (sent["job_id"], sent["job_status"], sent["status"]) == (job["id"], "cancelled", "pending")
        assert client.delete(f"/webhooks/{other['id']}").status_code == 204
        assert client.delete(f"/webhooks/{other['id']}").status_code == 404
        assert client.get(f"/webhooks/{other['id']}/deliveries").status_code == 404
        assert counts(database, "webhooks", "webhook_deliveries") == [1, 1]
        for number in range(19):
            client.post("/webhooks", json={"url": f"https://example.org/{number}"})
        assert client.post("/webhooks", json={"url": "https://example.org/"}).status_code == 409


NOT_PUBLIC = [
    "https://127.1/", "https://0x7f000001/", "https://2130706433/", "https://017700000001/", "https://127.0.0.1/",
    "https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/", "https://[64:ff9b::7f00:1]/",
    "https://[2002:7f00:1::]/", "https://169.254.169.254/latest/meta-data", "https://100.64.0.1/", "https://10.0.0.1/",
    "https://172.16.0.1/", "https://192.168.1.1/", "https://0.0.0.0/", "https://[fe80::1]/", "https://[fc00::1]/",
    "https://[::127.0.0.1]/", "https://[::ffff:0:127.0.0.1]/", "https://[64:ff9b:1::1]/", "https://[fec0::1]/",
    "https://[3fff::1]/", "https://[2001:db8::1]/", "https://[2002:808:808::1]/", "https://192.88.99.1/",
    "https://224.0.0.1/", "https://[ff02::1]/", "https://255.255.255.255/", "https://198.18.0.1/", "https://240.0.0.1/",
]  # fmt: skip
NO_GOOD = [
    "http://example.com/", "https://example.com:8443/", "https://user:pw@example.com/", "https://user@example.com/",
    "ftp://example.com/", "https://", "https:///x", "example.com", "https://example.com/#part", "https://exa mple.com/",
    "https://example.com\\@127.0.0.1/", "https://example.com:99999/", "https://exa\tmple.com/", "https://[::1/",
    "https://%31%32%37.0.0.1/", "https://example.com%00.evil/", "https://[fe80::1%25eth0]/", "https://xn--/",
    "https://[2606:4700::1111%25eth0]/", "https://xn--a-/", "https://-a.com/", "https://a_.com/", "https://a..com/",
    "https://1.2.3.4.5/", "https://999.1.1.1/", f"https://{'a' * 64}.com/", "https://" + "a." * 127 + "com/",
    "https://example.com/ä", "file:///etc/passwd", "gopher://127.0.0.1:6379/_FLUSHALL", "https://." , "x" * 3000,
]  # fmt: skip


def test_a_webhook_that_is_asked_for_twice_is_one(settings: Settings, database: Database) -> None:
    once = {"Idempotency-Key": "once"}
    with api_client(settings) as client:
        made, again = (client.post("/webhooks", json={"url": "https://example.com/"}, headers=once) for _ in range(2))
        assert (again.status_code, again.json()) == (201, made.json())
        assert len(client.get("/webhooks").json()["items"]) == 1
        problem(
            client.post("/webhooks", json={"url": "https://example.org/"}, headers=once), 409, "idempotency-conflict"
        )
        client.delete(f"/webhooks/{made.json()['id']}")
        problem(
            client.post("/webhooks", json={"url": "https://example.com/"}, headers=once), 409, "idempotency-conflict"
        )


def test_addresses_that_are_not_public_are_refused(settings: Settings, database: Database) -> None:
    with api_client(settings) as client:
        for url in NOT_PUBLIC + NO_GOOD:
            response = client.post("/webhooks", json={"url": url})
            assert response.status_code == 422, url
            assert [error["field"] for error in response.json()["errors"]] == ["body.url"], url
            assert "127.0.0.1" not in response.text
    assert counts(database, "webhooks") == [0]


def test_public_addresses_and_names_are_taken() -> None:
    for host in (
        "8.8.8.8",
        "[2606:4700::1111]",
        "[2a00:1450:4001::1]",
        "example.com",
        "bücher.example",
        "xn--bcher-kva.de",
    ):
        assert parse_destination(f"https://{host}/", allow_private=False).secure


def test_a_name_is_refused_if_any_of_its_addresses_is_not_public(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def answer(*found: str) -> Callable[..., Any]:
        def getaddrinfo(host: str, *rest: Any, flags: int = 0, **named: Any) -> Any:
            if flags & socket.AI_NUMERICHOST:
                return real(host, *rest, flags=flags, **named)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in found]

        return getaddrinfo

    destination = parse_destination("https://example.com/", allow_private=False)
    monkeypatch.setattr(addresses.socket, "getaddrinfo", answer("93.184.216.34", "93.184.216.35"))
    assert resolve(destination, 5, allow_private=False) == "93.184.216.34"
    for private in ("10.0.0.1", "169.254.169.254", "::1", "fe80::1%2"):
        monkeypatch.setattr(addresses.socket, "getaddrinfo", answer("93.184.216.34", private))
        with pytest.raises(AddressRefusedError, match="not public"):
            resolve(destination, 5, allow_private=False)


# -- the sender --------------------------------------------------------------------------------------------------------


def test_a_message_is_signed_and_says_no_more_than_id_and_status(
    database: Database, receive: Callable[..., Receiver], send: Callable[..., WebhookSender]
) -> None:
    receiver = receive()
    _, secret = hook(database, f"{receiver.url}/ok?tenant=7")
    job_id = end_job(database)
    send()
    wait_for(lambda: [row.status for row in deliveries(database)] == ["delivered"])
    ((path, headers, body),) = receiver.got
    assert path == "/ok?tenant=7"
    assert Webhook(secret).verify(body, headers) == {"type": "job.failed", "data": {"id": job_id, "status": "failed"}}
    assert headers["webhook-id"] == deliveries(database)[0].id
    with pytest.raises(Exception, match="signature"):
        Webhook(os.urandom(32)).verify(body, headers)
    assert deliveries(database)[0].attempts == 1


def test_failures_are_tried_again_and_given_up(
    database: Database, receive: Callable[..., Receiver], send: Callable[..., WebhookSender],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(post, "SECONDS", 0.6)
    receiver = receive()
    paths = ("/ok", "/later", "/never", "/gone", "/redirect", "/slow", "/drip", "/long")
    hooks = {hook(database, receiver.url + path)[0]: path for path in paths}
    hooks[hook(database, "http://localhost:1/")[0]] = "closed"
    end_job(database)
    send()
    wait_for(lambda: all(row.status != "pending" for row in deliveries(database)), 40)
    rows = {hooks[row.webhook_id]: row for row in deliveries(database)}
    ended = {path: (row.status, row.attempts, row.last_error) for path, row in rows.items()}
    assert ended["/ok"] == ("delivered", 1, None)
    assert ended["/later"] == ("delivered", 2, None)
    assert len(set(receiver.ids("/later"))) == 1
    assert ended["/never"] == ("dead", 3, "the answer was 500")
    assert ended["/gone"] == ("dead", 1, "the answer was 410")
    assert ended["/redirect"] == ("dead", 3, "the answer was 302")
    assert ended["/slow"] == ended["/drip"] == ("dead", 3, "no answer within 0.6 s")
    assert ended["/long"] == ("dead", 3, "the answer is no HTTP, or its head is too long")
    assert ended["closed"] == ("dead", 3, "the connection failed (ConnectionRefusedError)")
    assert len(receiver.ids("/ok")) == 1  # the redirect led nowhere


def test_without_the_setting_nothing_is_sent_inside(
    database: Database, receive: Callable[..., Receiver], send: Callable[..., WebhookSender]
) -> None:
    receiver = receive()
    hook(database, f"{receiver.url}/ok")
    hook(database, f"https://localhost:{receiver.url.rsplit(':', 1)[1]}/ok")
    hook(database, "https://localhost/ok")
    end_job(database)
    send(allow_private=False)
    wait_for(lambda: [row.status for row in deliveries(database)] == ["dead"] * 3)
    assert receiver.got == []
    assert {row.last_error for row in deliveries(database)} == {
        "the URL must begin with https://", "the URL must not name another port than 443",
        "the host has an address that is not public",
    }  # fmt: skip


def test_the_connection_goes_to_the_address_that_was_looked_at(
    database: Database, send: Callable[..., WebhookSender], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name server that answers with a public address first and with this machine's ever after."""
    real = socket.getaddrinfo
    asked: list[str] = []
    connected: list[tuple[str, int]] = []

    def rebinding(host: str, *rest: Any, flags: int = 0, **named: Any) -> Any:
        if host != "rebind.example.com" or flags & socket.AI_NUMERICHOST:
            return real(host, *rest, flags=flags, **named)
        asked.append(host)
        address = "93.184.216.34" if len(asked) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443))]

    def connect(address: tuple[str, int], **_: Any) -> socket.socket:
        connected.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(addresses.socket, "getaddrinfo", rebinding)
    monkeypatch.setattr(post.socket, "create_connection", connect)
    hook(database, "https://rebind.example.com/")
    end_job(database)
    send(allow_private=False, again_seconds=(0.1,))
    wait_for(lambda: [row.status for row in deliveries(database)] == ["dead"])
    assert connected == [("93.184.216.34", 443)]
    assert deliveries(database)[0].last_error == "the host has an address that is not public"


def test_a_name_server_that_does_not_answer_costs_no_more_time_than_a_receiver(
    database: Database, receive: Callable[..., Receiver], send: Callable[..., WebhookSender],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    real, answered = socket.getaddrinfo, threading.Event()

    def silent(host: str, *rest: Any, flags: int = 0, **named: Any) -> Any:
        if host == "silent.example.com" and not flags & socket.AI_NUMERICHOST:
            answered.wait(120)
        return real(host, *rest, flags=flags, **named)

    monkeypatch.setattr(addresses.socket, "getaddrinfo", silent)
    monkeypatch.setattr(post, "SECONDS", 0.3)
    hook(database, "https://silent.example.com/")
    end_job(database)
    send(again_seconds=())
    try:
        wait_for(lambda: [row.status for row in deliveries(database)] == ["dead"], 40)
    finally:
        answered.set()
    assert deliveries(database)[0].last_error == "no answer within 0.3 s"


def test_many_at_once_get_no_more_than_the_limit(settings: Settings, database: Database) -> None:
    with api_client(settings) as client:

        def create(number: int) -> int:
            return client.post("/webhooks", json={"url": f"https://example.com/{number}"}).status_code

        with ThreadPoolExecutor(8) as pool:
            answers = Counter(pool.map(create, range(MOST_WEBHOOKS + 12)))
    assert answers == {201: MOST_WEBHOOKS, 409: 12}
    assert counts(database, "webhooks") == [MOST_WEBHOOKS]


def test_https_with_a_certificate_for_the_name(
    database: Database, receive: Callable[..., Receiver], send: Callable[..., WebhookSender], tmp_path: Path
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate, and is not there")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", "key", "-out", "cert", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    receiver = receive(serving)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "cert"))
    right, secret = hook(database, f"{receiver.url}/ok")
    hook(database, f"{receiver.url}/ok".replace("localhost", "127.0.0.1"))
    end_job(database)
    send(tls=trusting, again_seconds=())
    wait_for(lambda: all(row.status != "pending" for row in deliveries(database)))
    rows = {row.webhook_id == right: (row.status, row.last_error) for row in deliveries(database)}
    assert rows == {True: ("delivered", None), False: ("dead", "TLS: CERTIFICATE_VERIFY_FAILED")}
    ((_, headers, body),) = receiver.got
    Webhook(secret).verify(body, headers)


def test_a_slow_receiver_holds_up_nobody_else_and_gets_one_message_at_a_time(
    database: Database, receive: Callable[..., Receiver], send: Callable[..., WebhookSender]
) -> None:
    receiver = receive()
    hook(database, f"{receiver.url}/slow")
    hook(database, f"{receiver.url}/ok")
    for _ in range(3):
        end_job(database)
    send()
    wait_for(lambda: len(receiver.ids("/ok")) == 3)
    assert len(receiver.ids("/slow")) <= 2
    wait_for(lambda: all(row.status == "delivered" for row in deliveries(database)))
    assert Counter(receiver.ids("/slow")).most_common(1)[0][1] == 1


SENDER = """
import sys
from service.db import roles
from service.db.session import Database
from service.webhooks.sender import WebhookSender
from service.webhooks.service import MOST_WEBHOOKS
WebhookSender(Database(sys.argv[1], pool_size=2), allow_private=True, lease_seconds=1.5).run()
"""


def test_a_sender_that_dies_between_sending_and_noting_it_sends_again_under_the_same_id(
    database: Database, database_url: str, receive: Callable[..., Receiver], send: Callable[..., WebhookSender]
) -> None:
    receiver = receive()
    hook(database, f"{receiver.url}/ok")
    end_job(database)
    environment = {**os.environ, "PREFSVM_FAULT": "webhook_after_send:exit"}
    died = subprocess.run([sys.executable, "-c", SENDER, database_url], cwd=ROOT, env=environment, timeout=60)
    assert died.returncode == -signal.SIGKILL
    assert len(receiver.got) == 1
    assert [row.status for row in deliveries(database)] == ["pending"]
    send()
    wait_for(lambda: [row.status for row in deliveries(database)] == ["delivered"])
    assert receiver.ids("/ok") == [deliveries(database)[0].id] * 2


# -- the outbox --------------------------------------------------------------------------------------------------------


def test_every_way_that_a_job_ends_writes_one_message_in_its_transaction(database: Database) -> None:
    table = JobTable(database)
    hook(database, "https://example.com/")

    def claimed(**options: Any) -> Any:
        with database.transaction() as session:
            claim = JOBS.claim(session, table.enqueue("nothing", **options))
        assert claim is not None
        return claim

    failed, cancelled, crashed = claimed(), claimed(), claimed(max_attempts=1)
    with database.transaction() as session:
        JOBS.finish_failed(session, failed, {"code": "x", "message": ""})
        JOBS.finish_failed(session, failed, {"code": "x", "message": ""})  # its answer was lost
        JOBS.finish_cancelled(session, cancelled)
        JOBS.attempt_crashed(session, crashed, {"code": "x", "message": ""})
    queued = table.enqueue("nothing")
    with database.transaction() as session:
        assert JobRepository(session, DEFAULT_PROJECT).cancel_queued(queued)
    lost, handed_back = claimed(max_attempts=1), claimed()
    table.cancel(handed_back.job_id, keep_best=False)
    with database.transaction() as session:
        JOBS.release(session, handed_back, "the worker shuts down")
        session.connection().exec_driver_sql(
            "UPDATE jobs SET lease_until = now() - interval '1 s' WHERE status = 'running'"
        )
        JobDispatching(30, 15).requeue_expired(session)
    told = {row.job_id: row.job_status for row in deliveries(database)}
    assert told == {
        failed.job_id: "failed", cancelled.job_id: "cancelled", crashed.job_id: "failed", queued: "cancelled",
        lost.job_id: "failed", handed_back.job_id: "cancelled",
    }  # fmt: skip
    assert len(deliveries(database)) == 6
    again = claimed()
    with database.engine.connect() as connection, Session(connection) as session:
        JOBS.finish_cancelled(session, again)
        session.rollback()
    assert len(deliveries(database)) == 6


def test_other_projects_hear_nothing(settings: Settings, database: Database) -> None:
    with database.transaction() as session:
        session.connection().exec_driver_sql("INSERT INTO projects (id, name) VALUES ('prj_other', 'other')")
        session.add(WebhookRow(id=new_id("wh"), project_id="prj_other", url="https://example.com/", secret=b"1"))
    mine, _ = hook(database, "https://example.com/")
    end_job(database)
    assert [row.webhook_id for row in deliveries(database)] == [mine]


def test_many_webhooks_of_one_project_leave_room_for_those_of_others(database: Database) -> None:
    with database.transaction() as session:
        session.connection().exec_driver_sql("INSERT INTO projects (id, name) VALUES ('prj_other', 'other')")
        theirs = WebhookRow(id=new_id("wh"), project_id="prj_other", url="https://example.com/", secret=b"1")
        session.add(theirs)
    for number in range(6):
        hook(database, f"https://example.com/{number}")
    job_id = end_job(database)
    with database.transaction() as session:
        announce_end(session, job_id, "failed", "prj_other")
        first = Outbox(session, 60).take((), 8, most_of_project=2)
        assert sorted(message.project_id for message in first) == sorted([DEFAULT_PROJECT] * 2 + ["prj_other"])
        busy = {message.webhook_id for message in first}
        assert Outbox(session, 60).take(busy, 5, crowded=[DEFAULT_PROJECT], most_of_project=2) == []
        assert len(Outbox(session, 60).take(busy, 3)) == 3


def test_a_clock_that_goes_back_holds_no_message_up(database: Database) -> None:
    hook(database, "https://example.com/")
    end_job(database)
    messages = update(WebhookDeliveryRow)
    ahead = text("now() + interval '59 minutes'")

    def taken(**values: Any) -> int:
        with database.transaction() as session:
            session.execute(messages.values(**values))
            outbox = Outbox(session, LEASE_SECONDS)
            found = len(outbox.take((), 1)) if outbox.has_due() else 0
            session.rollback()
        return found

    # A new one, one that was being sent, one that waited five minutes; and one that has an hour and more to wait.
    assert [taken(attempts=attempts, next_attempt_at=ahead) for attempts in (0, 1, 2, 4)] == [1, 1, 1, 0]
    soon = text("now() + interval '59 seconds'")
    assert [taken(attempts=attempts, next_attempt_at=soon) for attempts in range(1, 9)] == [0] * 8


def test_the_dispatcher_sends_them(settings: Settings, database: Database, receive: Callable[..., Receiver]) -> None:
    from service.local.processes import spawn

    receiver = receive()
    hook(database, f"{receiver.url}/ok")
    log = (settings.data_dir.parent / "dispatcher.log").open("wb")
    environment = {
        **os.environ, "PREFSVM_DATABASE_URL": as_role(settings.database_url, roles.DISPATCHER),
        "PREFSVM_BROKER_URL": str(settings.broker_url), "PREFSVM_WEBHOOK_PRIVATE": "true",
    }  # fmt: skip
    process = spawn([sys.executable, "-m", "service.dispatcher"], cwd=ROOT, env=environment, log=log)
    try:
        end_job(database)
        wait_for(lambda: [row.status for row in deliveries(database)] == ["delivered"], 40)
        process.send_signal(signal.SIGTERM)
        assert process.wait(40) == 0
    finally:
        process.kill()
        log.close()
    assert json.loads(receiver.got[0][2])["type"] == "job.failed"

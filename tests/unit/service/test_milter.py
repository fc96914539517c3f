"""The milter of `integrations/`, with a stand-in for pymilter: whatever happens, the mail is accepted."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest

SCRIPT = Path(__file__).parents[3] / "integrations/milter/prefsvm-milter"
ACCEPT = "accept"


class Base:
    """What pymilter's class is to it."""

    def __init__(self) -> None:
        self.changed: list[tuple[str, int, str]] = []
        self.added: list[tuple[str, str]] = []

    def chgheader(self, name: str, number: int, value: str) -> None:
        self.changed.append((name, number, value))

    def addheader(self, name: str, value: str) -> None:
        self.added.append((name, value))


@pytest.fixture
def milter(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    stand_in = SimpleNamespace(Base=Base, CONTINUE="continue", ACCEPT=ACCEPT, ADDHDRS=1, CHGHDRS=2)
    monkeypatch.setitem(__import__("sys").modules, "Milter", stand_in)
    loader = importlib.machinery.SourceFileLoader("prefsvm_milter", str(SCRIPT))
    spec = importlib.util.spec_from_loader("prefsvm_milter", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    loader.exec_module(module)
    return module


class Filter(BaseHTTPRequestHandler):
    status = 200
    content: bytes = b""
    asked: ClassVar[list[tuple[list[str], bytes]]] = []

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append((self.headers.get_all("Rcpt", []), raw))
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    Filter.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Filter) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()


def passed(module: ModuleType, port: int, *recipients: str, body: bytes = b"text\r\n") -> Base:
    """Show a mail to the milter as the mail system does; it must be accepted."""
    module.SpamFilter.port = port
    mail = module.SpamFilter()
    Base.__init__(mail)
    mail.envfrom("<a@b>", "SIZE=1")
    for each in recipients or ("<you@example.org>",):
        mail.envrcpt(each)
    for name, value in (
        ("X-Spam-Flag", "NO"),
        ("Subject", "caf\udce9"),
        ("x-spam-FLAG", "NO"),
        ("X-Spam-Status", "No,\n\tscore=-9"),
    ):
        mail.header(name, value)
    mail.body(body)
    assert mail.eom() == ACCEPT
    made: Base = mail
    return made


def test_marks_go_in_and_forged_ones_out(milter: ModuleType, port: int) -> None:
    Filter.status, Filter.content = (
        200,
        json.dumps({"milter": {"add_headers": {"X-Spam-Flag": {"value": "YES"}}}}).encode(),
    )
    mail = passed(milter, port, "<you@example.org>")
    assert mail.changed == [("X-Spam-Status", 1, ""), ("x-spam-FLAG", 2, ""), ("X-Spam-Flag", 1, "")]
    assert mail.added == [("X-Spam-Flag", "YES")]
    ((recipients, raw),) = Filter.asked
    assert recipients == ["<you@example.org>"]
    assert b"Subject: caf\xe9\n" in raw
    assert raw.endswith(b"\n\ntext\r\n")
    passed(milter, port, "<a@b>", "<c@d>", "<e@f>")
    assert len(Filter.asked[-1][0]) == 2


@pytest.mark.parametrize(
    ("status", "content"), [(500, b"{}"), (503, b""), (200, b"no JSON"), (200, b"[]"), (200, b'{"milter": null}')]
)
def test_every_answer_that_is_none_lets_the_mail_pass(
    milter: ModuleType, port: int, status: int, content: bytes
) -> None:
    Filter.status, Filter.content = status, content
    assert passed(milter, port).added == []


def test_nobody_there_and_a_large_mail(milter: ModuleType, port: int) -> None:
    assert passed(milter, 1).added == []
    assert passed(milter, port, body=b"x" * (milter.MOST_BYTES + 1)).added == []
    assert Filter.asked == []

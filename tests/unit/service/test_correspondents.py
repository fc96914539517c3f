"""The script of `integrations/imap`: to whom it gives the password of a mailbox, and whose mails it has learned."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import io
import shutil
import socket
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / "integrations/imap/prefsvm-correspondents"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("prefsvm_correspondents", str(SCRIPT))
    spec = importlib.util.spec_from_loader("prefsvm_correspondents", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    loader.exec_module(module)
    monkeypatch.setenv("IMAP_PASSWORD", "secret")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return module


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with the key and certificate of localhost, signed by itself."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate, and is not there")
    folder = tmp_path_factory.mktemp("certificate")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    subprocess.run(
        [
            *command.split(),
            "-addext",
            "subjectAltName=DNS:localhost",
            "-keyout",
            folder / "key",
            "-out",
            folder / "cert",
        ],
        check=True,
        capture_output=True,
    )
    file = folder / "both"
    file.write_bytes((folder / "key").read_bytes() + (folder / "cert").read_bytes())
    return file


@contextmanager
def imap(certificate: Path | None, *, encrypted: bool = False) -> Iterator[tuple[int, list[tuple[bool, bytes]]]]:
    """Run a server of IMAP; give its port, and the lines that it is sent with whether they were encrypted."""
    heard: list[tuple[bool, bytes]] = []
    open_ones: list[ssl.SSLSocket] = []
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if certificate is not None:
        serving.load_cert_chain(certificate)

    def encrypted_by(plain: socket.socket) -> ssl.SSLSocket:
        connection = serving.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        open_ones.append(connection)
        connection.do_handshake()
        return connection

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.settimeout(30)
            with suppress(OSError):  # who does not trust us hangs up
                self.talk(encrypted_by(self.request) if encrypted else self.request)

        def talk(self, connection: socket.socket) -> None:
            connection.sendall(b"* OK ready\r\n")
            lines = connection.makefile("rb")
            while line := lines.readline():
                heard.append((isinstance(connection, ssl.SSLSocket), line))
                tag, name = line.split()[:2]
                if name == b"CAPABILITY":
                    offered = b" STARTTLS" if certificate and not isinstance(connection, ssl.SSLSocket) else b""
                    connection.sendall(b"* CAPABILITY IMAP4rev1" + offered + b"\r\n")
                connection.sendall(tag + (b" NO none\r\n" if name == b"EXAMINE" else b" OK done\r\n"))
                if name == b"STARTTLS":
                    lines.close()
                    connection = encrypted_by(connection)
                    lines = connection.makefile("rb")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield server.server_address[1], heard
        finally:
            server.shutdown()
            server.server_close()
            for connection in open_ones:
                connection.close()


def log_in(script: ModuleType, port: int) -> None:
    script.main("anna", f"localhost:{port}")


def away(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this machine taken for another one, which somebody may stand before."""
    monkeypatch.setattr(script, "is_here", lambda _: False, raising=False)


@pytest.mark.parametrize("encrypted", [True, False])
def test_who_cannot_prove_who_he_is_does_not_get_the_password(
    script: ModuleType, certificate: Path, monkeypatch: pytest.MonkeyPatch, *, encrypted: bool
) -> None:
    away(script, monkeypatch)
    with imap(certificate, encrypted=encrypted) as (port, heard):
        monkeypatch.setattr(script.imaplib, "IMAP4_SSL_PORT", port if encrypted else 993)
        with pytest.raises(ssl.SSLCertVerificationError):
            log_in(script, port)
        assert not any(b"secret" in line for _, line in heard)


@pytest.mark.parametrize("encrypted", [True, False])
def test_whom_an_own_authority_vouches_for_gets_it_encrypted(
    script: ModuleType, certificate: Path, monkeypatch: pytest.MonkeyPatch, *, encrypted: bool
) -> None:
    away(script, monkeypatch)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with imap(certificate, encrypted=encrypted) as (port, heard):
        monkeypatch.setattr(script.imaplib, "IMAP4_SSL_PORT", port if encrypted else 993)
        log_in(script, port)
        assert [is_encrypted for is_encrypted, line in heard if b"secret" in line] == [True]


def test_without_encryption_it_is_given_on_this_machine_only(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    with imap(None) as (port, heard):
        log_in(script, port)
        assert any(b"secret" in line for _, line in heard)
        heard.clear()
        away(script, monkeypatch)
        with pytest.raises(SystemExit, match="STARTTLS"):
            log_in(script, port)
        assert not any(b"secret" in line for _, line in heard)


@pytest.mark.parametrize(
    ("host", "here"),
    [("localhost", True), ("127.0.0.1", True), ("127.9.9.9", True), ("192.0.2.1", False), ("localhost.example", False)],
)
def test_what_is_this_machine(script: ModuleType, host: str, *, here: bool) -> None:
    assert script.is_here(host) is here


def test_elsewhere_it_is_encrypted_from_the_start_unless_a_port_says_otherwise(script: ModuleType) -> None:
    assert script.place("imap.example.org") == ("imap.example.org", 993)
    assert script.place("imap.example.org:143") == ("imap.example.org", 143)
    assert script.place("127.0.0.1") == ("127.0.0.1", 143)


BERT = "From: Bert <bert@example.com>"
PASSED = "Authentication-Results: mx.example.org; dmarc=pass (p=NONE) header.from=example.com"
FORGED = (
    "Authentication-Results: mx.example.org; spf=pass smtp.mailfrom=a@evil.example; dmarc=fail header.from=example.com"
)
SIGNED = 'Authentication-Results: mx.example.org 1; spf=none; dkim=pass reason="good; x" header.d='


class Mailbox:
    """What the script asks of a mailbox, with one mail in Sent and one in the inbox."""

    def __init__(self, header: str, flags: str = "") -> None:
        self.mails = {
            "Sent": ("From: Anna <a.b@example.org>\nTo: bert@example.com, a.b@example.org, anna\n", ""),
            "INBOX": (header, flags),
        }
        self.selected = ""

    def __enter__(self) -> Mailbox:
        return self

    def __exit__(self, *_: object) -> None: ...

    def login(self, user: str, password: str) -> None: ...

    def select(self, folder: str, *, readonly: bool) -> tuple[str, list[bytes]]:
        assert readonly
        self.selected = folder.strip('"')
        return "OK" if self.selected in self.mails else "NO", []

    def search(self, *_: object) -> tuple[str, list[bytes]]:
        return "OK", [b"1"]

    def fetch(self, _: bytes, parts: str) -> tuple[str, list[tuple[bytes, bytes] | bytes]]:
        header, flags = self.mails[self.selected]
        names = parts.lower().partition("header.fields (")[2].partition(")")[0].split()
        kept, is_kept = "", False
        for line in header.splitlines(keepends=True):
            is_kept = is_kept if line[0] in " \t" else line.partition(":")[0].lower() in names
            kept += line if is_kept else ""
        return "OK", [(f"1 (FLAGS ({flags})".encode(), kept.encode()), b")"]


def is_learned(script: ModuleType, monkeypatch: pytest.MonkeyPatch, *header: str, flags: str = "") -> bool:
    learned: list[bytes] = []
    monkeypatch.setattr(script, "opened", lambda *_: Mailbox("\n".join(header) + "\n", flags), raising=False)
    monkeypatch.setattr(script, "learn", lambda _, number, *__: learned.append(number) or 1)
    script.main("anna@example.org", "localhost:1")
    return bool(learned)


@pytest.mark.parametrize(
    "header",
    [
        [BERT],
        ["From: BERT@example.com"],
        ["From: =?utf-8?q?B=C3=A9rt?= <bert@example.com>"],
        [BERT, PASSED],
        [BERT, PASSED, FORGED.replace("mx.example.org", "elsewhere.example")],
        [BERT, SIGNED + "example.com"],
        [BERT, SIGNED + "mail.example.com"],
        [BERT, SIGNED + "example.com; dmarc=none"],
        [BERT.replace("bert@", "Bert@"), SIGNED.replace("; ", ";\n\t") + "EXAMPLE.com"],
        [BERT, "Authentication-Results: mx; dkim=fail header.d=example.com; spf=pass smtp.mailfrom=bert@example.com"],
        [
            BERT,
            "Authentication-Results: mx; spf=none",
            "Authentication-Results: mx; dkim = pass header.d = example.com",
        ],
    ],
)
def test_mails_of_correspondents_are_learned(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, header: list[str]
) -> None:
    assert is_learned(script, monkeypatch, *header)


@pytest.mark.parametrize(
    "header",
    [
        ["From: bert@example.com, win@evil.example"],
        [BERT, "From: win@evil.example"],
        [BERT, BERT],
        ["From: bert@example.com <win@evil.example>"],
        ["From: bert@example.com (<win@evil.example>)"],
        ["From: <bert@example.com> win"],
        ["From: anna@example.org"],  # who logs in
        ["From: anna"],
        ["From: a.b@example.org"],  # who has written what is in Sent, to herself too
        ["Subject: none"],
        [BERT, FORGED],
        [BERT, PASSED, FORGED],
        [BERT, "Authentication-Results: mx.example.org; none"],
        [BERT, "Authentication-Results: mx.example.org"],
        [BERT, "Authentication-Results:"],
        [BERT, "Authentication-Results: mx; dmarc=temperror"],
        [BERT, "Authentication-Results: mx; dmarc=none"],
        [BERT, "Authentication-Results: mx; dmarc=pass@evil.example"],
        [BERT, "Authentication-Results: mx; spf=none", "Authentication-Results: evil.example; dmarc=pass"],
        [BERT, "Authentication-Results: mx; spf=fail (of \\) a; dmarc=pass )"],
        [BERT, "Authentication-Results: mx; spf=fail (a (b; dmarc=pass ) c)"],
        [BERT, 'Authentication-Results: mx; spf=fail smtp.mailfrom="a; dmarc=pass "@evil.example'],
        [BERT, 'Authentication-Results: mx; spf=fail smtp.mailfrom="a; dmarc=pass '],
        [BERT, SIGNED + "evil.example"],
        [BERT, SIGNED + "com"],
        [BERT, SIGNED + "notexample.com"],
        [BERT, "Authentication-Results: mx; spf=pass smtp.mailfrom=example.com@evil.example"],
        [BERT, "Authentication-Results: mx; spf=pass smtp.helo=example.com"],
    ],
)
def test_mails_that_others_may_have_sent_are_not(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, header: list[str]
) -> None:
    assert not is_learned(script, monkeypatch, *header)


def test_what_was_answered_is_learned_whoever_sent_it(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_learned(script, monkeypatch, "From: new@example.net", FORGED, flags="\\Answered")

"""The script of `integrations/imap`: to whom it gives the password of a mailbox."""

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

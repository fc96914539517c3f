"""The clients of SpamAssassin and rspamd, and the programs that deliver mail through the first."""

from __future__ import annotations

import os
import socket
import subprocess
import zlib
from email import message_from_bytes
from pathlib import Path

import pytest
from mail_e2e.conftest import Filter, mail, need

pytestmark = pytest.mark.mail_e2e


def run(*command: str | Path, given: bytes, cwd: Path | None = None, status: int = 0, **environment: str) -> bytes:
    done = subprocess.run(
        [str(part) for part in command],
        input=given,
        capture_output=True,
        check=False,
        cwd=cwd,
        env=os.environ | environment,
        timeout=60,
    )
    assert done.returncode == status, (done.stdout, done.stderr)
    return done.stdout


def test_every_option_of_spamc(mails: Filter) -> None:
    spamc = [need("spamc"), "-d", "127.0.0.1", "-p", str(mails.port)]
    spam, ham = mail(True, 100), mail(False, 100)
    assert run(*spamc, "-c", given=spam, status=1).endswith(b"/5.0\n")
    assert run(*spamc, "-c", given=ham).endswith(b"/5.0\n")
    for breaks in (b"\n", b"\r\n"):
        raw = mail(True, 100, head=b"X-Spam-Flag: NO\nX-Spam-Status: No\n").replace(b"\n", breaks)
        for options in ([], ["--headers"]):
            marked = run(*spamc, *options, given=raw)
            assert marked.endswith(spam.replace(b"\n", breaks))
            assert message_from_bytes(marked).get_all("X-Spam-Flag") == ["YES"]
    assert "X-Spam-Flag" not in message_from_bytes(run(*spamc, given=ham))
    for option in ("-R", "-r"):
        assert b"PREFSVM_SPAM" in run(*spamc, option, given=spam)
    assert b"PREFSVM_HAM" in run(*spamc, "-R", given=ham)
    assert run(*spamc, "-y", given=spam) == b"PREFSVM_SPAM"
    assert b"SPAMD/1.5" in run(*spamc, "-K", given=b"")
    assert run(*spamc, "-E", "-c", given=spam, status=1)
    assert run(*spamc, "-u", "anna@example.org", "-c", given=spam, status=1)
    assert run(spamc[0], "-U", mails.path, "-c", given=spam, status=1)
    envelope = b"From win@example.net Sat Nov 28 03:30:00 2026\n" + spam
    assert run(*spamc, given=envelope).startswith(envelope.partition(b"\n")[0] + b"\nX-Spam-Flag: YES\n")


def test_spamc_learns(mails: Filter) -> None:
    spamc = [need("spamc"), "-d", "127.0.0.1", "-p", str(mails.port)]
    mails.forget()
    for said, answer, labels in (
        ("spam", b"successfully", {"spam": 1}),
        ("spam", b"already", {"spam": 1}),
        ("ham", b"successfully", {"ham": 1}),
        ("forget", b"successfully", {}),
        ("forget", b"already", {}),
    ):
        assert answer in run(*spamc, "-L", said, given=mail(True, 101))
        assert mails.labels() == labels


def test_spamc_passes_on_what_is_too_large_and_what_nobody_answers(mails: Filter) -> None:
    spamc = need("spamc")
    large = mail(True) + b"x" * (11 << 20)
    here = ["-d", "127.0.0.1", "-p", str(mails.port), "-s", "20000000"]
    assert run(spamc, *here, given=large) == large
    assert run(spamc, *here, "-c", given=large) == b"0.0/5.0\n"
    assert run(spamc, "-d", "127.0.0.1", "-p", "1", given=mail(True)) == mail(True)


def test_rspamc_checks_and_learns(mails: Filter) -> None:
    rspamc = [need("rspamc"), "-h", f"127.0.0.1:{mails.port}"]
    mails.forget()
    said = run(*rspamc, given=mail(True, 102)).decode()
    assert "Action: add header" in said
    assert "Symbol: PREFSVM_SPAM" in said
    assert "Action: no action" in run(*rspamc, "symbols", given=mail(False, 102)).decode()
    for command, labels in (("learn_spam", {"spam": 1}), ("learn_spam", {"spam": 1}), ("learn_ham", {"ham": 1})):
        assert "success = true" in run(*rspamc, command, given=mail(True, 102)).decode()
        assert mails.labels() == labels


def test_curl_learns(mails: Filter) -> None:
    mails.forget()
    url = f"http://127.0.0.1:{mails.port}/learnspam"
    large = mail(True, 103) + b"more text\n" * 200_000  # curl waits for 100 Continue
    for raw in (mail(True, 103), large):
        assert b'"success":true' in run(need("curl"), "-s", "--data-binary", "@-", url, given=raw)
    assert mails.labels() == {"spam": 2}


def test_procmail(mails: Filter, tmp_path: Path) -> None:
    procmail = need("procmail", "spamc")
    rules = tmp_path / "procmailrc"
    rules.write_text(
        f"MAILDIR={tmp_path}\nDEFAULT={tmp_path}/inbox\nSHELL=/bin/sh\n" + mails.configured("procmail/procmailrc")
    )
    for i in range(2):
        run(procmail, "-m", rules, given=b"From a@b Sat Nov 28 03:30:00 2026\n" + mail(i == 0, 104))
    junk, inbox = (tmp_path / "Junk").read_bytes(), (tmp_path / "inbox").read_bytes()
    assert (junk.count(b"\nSubject: "), inbox.count(b"\nSubject: ")) == (1, 1)
    assert b"\nX-Spam-Flag: YES\n" in junk
    assert mail(True, 104) in junk
    assert b"X-Spam-Status: No, score=" in inbox


def test_maildrop(mails: Filter, tmp_path: Path) -> None:
    maildrop = need("maildrop", "spamc")
    for folder in ("Maildir", "Maildir/.Junk"):
        for part in ("cur", "new", "tmp"):
            (tmp_path / folder / part).mkdir(parents=True)
    rules = tmp_path / ".mailfilter"
    rules.write_text(mails.configured("maildrop/mailfilter"))
    rules.chmod(0o600)
    for i in range(2):
        run(maildrop, ".mailfilter", given=mail(i == 0, 105), cwd=tmp_path, HOME=str(tmp_path))
    (junk,) = (tmp_path / "Maildir/.Junk/new").iterdir()
    (inbox,) = (tmp_path / "Maildir/new").iterdir()
    assert message_from_bytes(junk.read_bytes())["X-Spam-Flag"] == "YES"
    assert junk.read_bytes().endswith(mail(True, 105))
    assert message_from_bytes(inbox.read_bytes())["X-Spam-Status"].startswith("No, score=")


def test_a_packed_mail(mails: Filter) -> None:
    """Debian's spamc is built without it; those of others send this."""

    packed = zlib.compress(mail(True))
    head = f"CHECK SPAMC/1.5\r\nCompress: zlib\r\nContent-length: {len(packed)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", mails.port)) as connection:
        connection.sendall(head.encode() + packed)
        assert b"Spam: True ; " in connection.recv(4096)

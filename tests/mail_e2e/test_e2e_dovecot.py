"""Dovecot, where people move mails into Junk and out of it."""

from __future__ import annotations

import imaplib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mail_e2e.conftest import INTEGRATIONS, Filter, free_port, listens, mail, need, need_root, running, wait_for

pytestmark = pytest.mark.mail_e2e

CONFIGURATION = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
ssl = no
disable_plaintext_auth = no
listen = 127.0.0.1
protocols = imap
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
passdb {{
  driver = static
  args = password=secret
}}
userdb {{
  driver = static
  args = uid=65534 gid=65534 home={folder}/home/%u
}}
first_valid_uid = 1
mail_location = maildir:~/Maildir
namespace inbox {{
  inbox = yes
  separator = /
  mailbox Junk {{
    auto = create
  }}
  mailbox Trash {{
    auto = create
  }}
  mailbox Archive {{
    auto = create
  }}
}}
"""


@contextmanager
def dovecot(mails: Filter, name: str) -> Iterator[int]:
    """Run Dovecot with our files, and give the port of IMAP."""
    program = need("dovecot", "curl")
    need_root()
    if not list(Path("/usr/lib/dovecot/modules/sieve").glob("*imapsieve*")):
        pytest.skip("dovecot-sieve is not installed")
    folder, port = mails.folder / name, free_port()
    sieve = folder / "sieve"
    sieve.mkdir(parents=True)
    (folder / "home").mkdir()
    (folder / "home").chmod(0o777)
    for file in ("prefsvm-learn", "report-spam.sieve", "report-ham.sieve"):
        (sieve / file).write_text(mails.configured(f"dovecot/{file}"))
    (sieve / "prefsvm-learn").chmod(0o755)
    ours = mails.configured("dovecot/90-prefsvm.conf", **{"/etc/dovecot/sieve": str(sieve)})
    (folder / "dovecot.conf").write_text(CONFIGURATION.format(folder=folder, port=port) + ours)
    with (folder / "out").open("wb") as log, running(program, "-F", "-c", folder / "dovecot.conf", log=log):
        wait_for(lambda: listens(port), "Dovecot does not listen")
        yield port


@contextmanager
def logged_in(port: int) -> Iterator[imaplib.IMAP4]:
    with imaplib.IMAP4("127.0.0.1", port, timeout=60) as imap:
        imap.login("anna@example.org", "secret")
        yield imap


def move(imap: imaplib.IMAP4, source: str, target: str) -> None:
    """Move the only mail of a mailbox, as mail programs do today."""
    assert imap.select(source)[1] == [b"1"]
    assert imap.uid("MOVE", "1:*", target)[0] == "OK"


def test_what_is_moved_into_junk_and_out_of_it_is_learned(mails: Filter) -> None:
    mails.forget()
    with dovecot(mails, "dovecot") as port, logged_in(port) as imap:
        imap.append("INBOX", "", "", mail(True, 500).replace(b"\n", b"\r\n"))
        assert mails.labels() == {}
        move(imap, "INBOX", "Junk")
        assert mails.labels() == {"spam": 1}
        move(imap, "Junk", "Trash")
        assert mails.labels() == {"spam": 1}
        move(imap, "Trash", "Junk")
        assert mails.labels() == {"spam": 1}
        move(imap, "Junk", "INBOX")
        assert mails.labels() == {"ham": 1}
        move(imap, "INBOX", "Archive")
        assert mails.labels() == {"ham": 1}
        imap.append("Junk", "", "", mail(True, 501).replace(b"\n", b"\r\n"))
        assert mails.labels() == {"ham": 1, "spam": 1}


def test_without_the_filter_mails_are_moved_all_the_same(mails: Filter) -> None:
    away = Filter(1, mails.path, mails.api, mails.folder)
    with dovecot(away, "dovecot-away") as port, logged_in(port) as imap:
        imap.append("INBOX", "", "", mail(True, 502).replace(b"\n", b"\r\n"))
        move(imap, "INBOX", "Junk")
        assert imap.select("Junk")[1] == [b"1"]


def test_mails_of_correspondents_are_good_ones_without_asking(mails: Filter) -> None:
    mails.forget()
    others = mail(False, 510).replace(b"anna@example.org", b"stranger@example.com")
    answered = mail(True, 511).replace(b"win@example.net", b"new@example.com")
    known = mail(False, 512).replace(b"anna@example.org", b"Bert <BERT@example.com>")
    with dovecot(mails, "dovecot-known") as port:
        with logged_in(port) as imap:
            imap.create("Sent")
            sent = b"From: anna@example.org\r\nTo: Bert <bert@example.com>, carl@example.com\r\nSubject: x\r\n\r\ny\r\n"
            imap.append("Sent", "", "", sent)
            for raw, flags in ((others, ""), (answered, r"(\Answered)"), (known, "")):
                imap.append("INBOX", flags, "", raw.replace(b"\n", b"\r\n"))

        def run() -> str:
            script = INTEGRATIONS / "imap/prefsvm-correspondents"
            command = ["/usr/bin/python3", script, "anna@example.org", f"127.0.0.1:{port}", f"127.0.0.1:{mails.port}"]
            environment = {**os.environ, "IMAP_PASSWORD": "secret"}
            done = subprocess.run(
                command, env=environment, input="", capture_output=True, text=True, check=True, timeout=60
            )
            return done.stdout

        assert run() == "2 mails learned\n"
        assert mails.labels() == {"ham": 2}
        assert run() == "0 mails learned\n"  # each once

"""Postfix with spamass-milter as Debian has it: no line of ours stands between them and the filter."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import smtplib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path

import httpx
import pytest
from mail_e2e.conftest import INTEGRATIONS, Filter, free_port, listens, mail, need, need_root, running, wait_for

pytestmark = pytest.mark.mail_e2e

MAIN = """
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/state
daemon_directory = /usr/lib/postfix/sbin
maillog_file = {folder}/log
maillog_file_prefixes = {folder}
myhostname = mx.example.org
mydestination =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 192.0.2.1
smtpd_relay_restrictions = reject_unauth_destination
alias_maps =
virtual_mailbox_domains = example.org
virtual_mailbox_base = {folder}/boxes
virtual_mailbox_maps = static:box/
virtual_minimum_uid = 1
virtual_uid_maps = static:65534
virtual_gid_maps = static:65534
"""
MASTER = """
{port} inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
proxymap unix - - n - - proxymap
virtual unix - n n - - virtual
error unix - - n - - error
retry unix - - n - - error
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
"""


@dataclass
class Postfix:
    port: int
    folder: Path

    def deliver(self, raw: bytes, *recipients: str) -> list[bytes]:
        """Send a mail, and return the copies that were delivered."""
        box = self.folder / "boxes/box/new"
        before = set(box.glob("*"))
        recipients = recipients or ("you@example.org",)
        with smtplib.SMTP("127.0.0.1", self.port, timeout=60) as smtp:
            smtp.sendmail("win@example.net", recipients, raw.replace(b"\n", b"\r\n"))
        wait_for(lambda: len(set(box.glob("*")) - before) == len(recipients), (self.folder / "log").read_text())
        return [path.read_bytes() for path in set(box.glob("*")) - before]


@contextmanager
def postfix(mails: Filter, milter: int) -> Iterator[Postfix]:
    need("postfix", "spamass-milter", "spamc")
    need_root()
    folder, port = mails.folder / f"postfix-{milter}", free_port()
    for name in ("queue", "state", "boxes", "etc"):
        (folder / name).mkdir(parents=True)
    shutil.chown(folder / "state", "postfix")
    os.chown(folder / "boxes", 65534, 65534)
    ours = mails.configured("postfix/main.cf", **{"inet:127.0.0.1:7830": f"inet:127.0.0.1:{milter}"})
    (folder / "etc/main.cf").write_text(MAIN.format(folder=folder) + ours)
    (folder / "etc/master.cf").write_text(MASTER.format(port=port))

    def control(word: str) -> None:
        command = ["/usr/sbin/postfix", "-c", str(folder / "etc"), word]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr

    control("start")
    try:
        wait_for(lambda: listens(port), "Postfix does not listen")
        yield Postfix(port, folder)
    finally:
        control("stop")


@contextmanager
def milter(mails: Filter, port: int, filter_port: int | None = None) -> Iterator[None]:
    """Run spamass-milter with the options of our file, but look at mails of this machine, too."""
    text = mails.configured("postfix/spamass-milter", **{"-i 127.0.0.1 ": ""})
    (options,) = re.findall(r'^OPTIONS="(.*)"$', text, flags=re.MULTILINE)
    assert 'SOCKET="inet:7830@127.0.0.1"' in text
    if filter_port is not None:
        options = options.replace(str(mails.port), str(filter_port))
    with (
        (mails.folder / "milter.log").open("ab") as log,
        running(need("spamass-milter"), "-p", f"inet:{port}@127.0.0.1", *shlex.split(options), log=log),
    ):
        wait_for(lambda: listens(port), "the milter does not listen")
        yield


@contextmanager
def our_milter(mails: Filter, port: int, filter_port: int | None = None) -> Iterator[None]:
    """Run the milter of `integrations/` with the system's Python, which has pymilter by Debian's python3-milter."""
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import Milter"], capture_output=True, check=False).returncode:
        pytest.skip("python3-milter is not installed; Debian has it")
    script = INTEGRATIONS / "milter/prefsvm-milter"
    where = f"127.0.0.1:{filter_port or mails.port}"
    with (
        (mails.folder / "our-milter.log").open("ab") as log,
        running(python, script, f"inet:{port}@127.0.0.1", where, log=log),
    ):
        wait_for(lambda: listens(port), "our milter does not listen")
        yield


def scans(mails: Filter, door: str = "spamd") -> float:
    text = httpx.get(f"http://127.0.0.1:{mails.port}/metrics", trust_env=False).text
    found = re.findall(rf'^prefsvm_mails_total\{{door="{door}".*\}} (.*)$', text, re.MULTILINE)
    return sum(map(float, found))


def test_mails_are_marked_once_and_below_the_marks_they_stay_as_they_are(mails: Filter) -> None:
    port = free_port()
    with postfix(mails, port) as mta, milter(mails, port):
        forged = b"X-Spam-Flag: NO\nX-SPAM-Status: No,\n\tscore=-9\n" * 3 + b"Subject: caf\xe9 \xff\n"
        before = scans(mails)
        copies = mta.deliver(mail(True, 200, head=forged), "you@example.org", "me@example.org")
        assert scans(mails) == before + 1
        for raw in copies:
            message = message_from_bytes(raw)
            assert message.get_all("X-Spam-Flag") == ["YES"]
            (status,) = message.get_all("X-Spam-Status")
            assert str(status).startswith("Yes, score=")
            assert b"score=-9" not in raw
            assert raw.endswith(mail(True, 200).partition(b"\n\n")[2])
            assert b"Subject: caf\xe9 \xff\n" in raw
        (ham,) = map(message_from_bytes, mta.deliver(mail(False, 200)))
        assert "X-Spam-Flag" not in ham
        assert str(ham["X-Spam-Status"]).startswith("No, score=")


def test_mail_goes_through_whatever_is_down(mails: Filter) -> None:
    port = free_port()
    with postfix(mails, port) as mta:
        (raw,) = mta.deliver(mail(True, 201))  # no milter
        assert b"X-Spam-" not in raw
        with milter(mails, port, filter_port=1):  # no filter
            (raw,) = mta.deliver(mail(True, 202))
            assert b"X-Spam-Flag" not in raw
            assert raw.endswith(mail(True, 202).partition(b"\n\n")[2])
        with milter(mails, port):
            assert b"X-Spam-Flag: YES" in mta.deliver(mail(True, 203))[0]


def test_our_milter_marks_and_lets_pass_whatever_is_down(mails: Filter) -> None:
    port = free_port()
    with postfix(mails, port) as mta:
        forged = b"X-Spam-Flag: NO\nX-SPAM-Status: No,\n\tscore=-9\n" * 200 + b"Subject: caf\xe9 \xff\n"
        with our_milter(mails, port):
            before = scans(mails, "rspamd")
            copies = mta.deliver(mail(True, 210, head=forged), "you@example.org", "me@example.org")
            assert scans(mails, "rspamd") == before + 1
            for raw in copies:
                message = message_from_bytes(raw)
                assert message.get_all("X-Spam-Flag") == ["YES"]
                assert len(message.get_all("X-Spam-Status", [])) == 1
                assert b"score=-9" not in raw
                assert raw.endswith(mail(True, 210).partition(b"\n\n")[2])
                assert b"Subject: caf\xe9 \xff\n" in raw
            (ham,) = map(message_from_bytes, mta.deliver(mail(False, 210)))
            assert "X-Spam-Flag" not in ham
            assert str(ham["X-Spam-Status"]).startswith("No, score=")
        with our_milter(mails, port, filter_port=1):
            (raw,) = mta.deliver(mail(True, 211, head=b"X-Spam-Flag: NO\n"))
            assert b"X-Spam-Flag" not in raw
            assert raw.endswith(mail(True, 211).partition(b"\n\n")[2])

"""Exim, whose condition `spam` asks the filter."""

from __future__ import annotations

import os
import pwd
import smtplib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path

import pytest
from mail_e2e.conftest import Filter, free_port, listens, mail, need, need_root, running, wait_for

pytestmark = pytest.mark.mail_e2e

CONFIGURATION = """
primary_hostname = mx.example.org
exim_path = {program}
spool_directory = {folder}/spool
log_file_path = {folder}/log/%slog
pid_file_path = {folder}/log/pid
local_interfaces = 127.0.0.1
daemon_smtp_ports = {port}
tls_advertise_hosts =
host_lookup =
rfc1413_hosts =
queue_run_in_order = true
spamd_address = 127.0.0.1 {spamd} tmo=5s
acl_smtp_rcpt = accept
acl_smtp_data = data
begin acl
data:
{acl}
begin routers
all:
  driver = accept
  transport = box
begin transports
box:
  driver = appendfile
  directory = {folder}/box
  maildir_format
  user = {user}
begin retry
* * F,1h,1m
"""


@dataclass
class Exim:
    port: int
    folder: Path

    def deliver(self, raw: bytes) -> bytes:
        """Send a mail, and return it as it was delivered."""
        box = self.folder / "box/new"
        before = set(box.glob("*"))
        with smtplib.SMTP("127.0.0.1", self.port, timeout=60) as smtp:
            smtp.sendmail("win@example.net", ["you@example.org"], raw.replace(b"\n", b"\r\n"))
        wait_for(lambda: set(box.glob("*")) - before, f"Exim does not deliver; see {self.folder}/log", 30)
        (path,) = set(box.glob("*")) - before
        return path.read_bytes()


@contextmanager
def exim(mails: Filter, name: str, spamd: int) -> Iterator[Exim]:
    program = need("exim4")
    need_root()
    try:
        user = pwd.getpwnam("Debian-exim")
    except KeyError:
        pytest.skip("there is no user Debian-exim, as whom Exim runs")
    folder, port = mails.folder / name, free_port()
    for each in ("spool", "log", "box"):
        (folder / each).mkdir(parents=True)
        os.chown(folder / each, user.pw_uid, user.pw_gid)
    acl = mails.configured("exim/acl_data.conf")
    configuration = folder / "exim.conf"
    text = CONFIGURATION.format(folder=folder, port=port, spamd=spamd, acl=acl, user=user.pw_name, program=program)
    configuration.write_text(text)
    with (folder / "out").open("wb") as log, running(program, "-C", configuration, "-bdf", log=log):
        wait_for(lambda: listens(port), "Exim does not listen")
        yield Exim(port, folder)


def test_mails_are_marked(mails: Filter) -> None:
    with exim(mails, "exim", mails.port) as mta:
        forged = b"X-Spam-Flag: NO\nX-SPAM-Status: No,\n\tscore=-9\n" * 3
        raw = mta.deliver(mail(True, 400, head=forged))
        message = message_from_bytes(raw)
        assert message.get_all("X-Spam-Flag") == ["YES"]
        (status,) = message.get_all("X-Spam-Status")
        assert status.startswith("Yes, score=")
        assert float(message["X-Spam-Score"]) >= 5.0
        assert raw.endswith(mail(True, 400).partition(b"\n\n")[2])
        ham = message_from_bytes(mta.deliver(mail(False, 400)))
        assert "X-Spam-Flag" not in ham
        assert ham["X-Spam-Status"].startswith("No, score=")


def test_without_the_filter_mail_is_passed_on(mails: Filter) -> None:
    with exim(mails, "exim-away", 1) as mta:
        raw = mta.deliver(mail(True, 401))
        assert b"X-Spam-Flag" not in raw
        assert raw.endswith(mail(True, 401).partition(b"\n\n")[2])

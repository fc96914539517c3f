"""rspamd that asks the filter: as it asks SpamAssassin, and by a plugin."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from mail_e2e.conftest import Filter, free_port, listens, mail, need, need_root, running, wait_for

pytestmark = pytest.mark.mail_e2e

LOCAL = {
    "logging.inc": 'type = "console"; level = "info";',
    "options.inc": 'dns { nameserver = ["127.0.0.1:1"]; timeout = 0.05s; retransmits = 1; }',
    "worker-proxy.inc": "enabled = false;",
    "worker-fuzzy.inc": "enabled = false;",
    **{f"{name}.conf": "enabled = false;" for name in ("rbl", "surbl", "fuzzy_check", "phishing", "asn", "neural")},
}


@contextmanager
def rspamd(mails: Filter, name: str, files: Mapping[str, str]) -> Iterator[int]:
    """Run rspamd with files of ours below its folder of local configuration; gives the port of the scanner."""
    program = need("rspamd", "rspamc")
    need_root()
    folder, port = mails.folder / name, free_port()
    (folder / "etc/local.d").mkdir(parents=True)
    for each in ("db", "run", "log"):
        (folder / each).mkdir()
    ports = {"normal": port, "controller": free_port()}
    said = LOCAL | {f"worker-{each}.inc": f'bind_socket = "127.0.0.1:{at}"; count = 1;' for each, at in ports.items()}
    for file, text in {**{f"local.d/{file}": text for file, text in said.items()}, **files}.items():
        (folder / "etc" / file).write_text(text + "\n")
    places = {"LOCAL_CONFDIR": "etc", "DBDIR": "db", "RUNDIR": "run", "LOGDIR": "log"}
    variables = [f"--var={key}={folder / place}" for key, place in places.items()]
    with (folder / "rspamd.log").open("wb") as log, running(program, "-f", "-i", *variables, log=log):
        wait_for(lambda: listens(port), "rspamd does not listen", 180)
        yield port


def scanned(port: int, raw: bytes, *options: str) -> dict[str, Any]:
    command = [need("rspamc"), "-h", f"127.0.0.1:{port}", "-t", "60", "--json", *options]
    done = subprocess.run(command, input=raw, capture_output=True, check=True, timeout=90)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_as_an_external_service(mails: Filter) -> None:
    files = {
        f"local.d/{name}": mails.configured(f"rspamd/{name}")
        for name in ("external_services.conf", "external_services_group.conf")
    }
    with rspamd(mails, "rspamd-external", files) as port:
        found = scanned(port, mail(True, 300))["symbols"]
        assert found["PREFSVM"]["options"] == ["PREFSVM_SPAM"]
        assert 3.0 <= found["PREFSVM"]["score"] <= 9.0
        assert "PREFSVM" not in scanned(port, mail(False, 300))["symbols"]


def test_by_the_plugin_and_with_nobody_there(mails: Filter) -> None:
    plugin = mails.configured("rspamd/rspamd.local.lua")
    with rspamd(mails, "rspamd-plugin", {"rspamd.local.lua": plugin}) as port:
        found = scanned(port, mail(True, 301))["symbols"]
        assert 0 < found["PREFSVM_SPAM"]["score"] <= 6.0
        assert "PREFSVM_HAM" not in found
        assert -3.0 <= scanned(port, mail(False, 301), "--rcpt=anna@example.org")["symbols"]["PREFSVM_HAM"]["score"] < 0
    away = plugin.replace(f":{mails.port}/", ":1/")
    with rspamd(mails, "rspamd-away", {"rspamd.local.lua": away}) as port:
        found = scanned(port, mail(True, 302))
        assert not [name for name in found["symbols"] if name.startswith("PREFSVM")]

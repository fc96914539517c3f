"""The timer of `integrations/systemd` runs a command that there is, once a week, as systemd reads it."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli.main import app

UNITS = Path(__file__).parents[3] / "integrations" / "systemd"


def unit(name: str) -> configparser.ConfigParser:
    read = configparser.ConfigParser(strict=True, interpolation=None)
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read_string((UNITS / name).read_text())
    return read


def test_the_command_of_the_service_is_there() -> None:
    first, command, *arguments = shlex.split(unit("prefsvm-mail-retrain.service")["Service"]["ExecStart"])
    assert (first, command) == ("/usr/bin/env", "prefsvm")
    assert CliRunner().invoke(app, [*arguments, "--help"]).exit_code == 0
    assert CliRunner().invoke(app, [*arguments[:-1], "retrain-all", "--help"]).exit_code != 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_reads_both_units_and_the_time() -> None:
    when = unit("prefsvm-mail-retrain.timer")["Timer"]["OnCalendar"]
    assert subprocess.run(["systemd-analyze", "calendar", when], capture_output=True, check=False).returncode == 0
    names = [str(UNITS / f"prefsvm-mail-retrain.{kind}") for kind in ("service", "timer")]
    made = subprocess.run(["systemd-analyze", "verify", *names], capture_output=True, text=True, check=False)
    assert "mail-retrain" not in made.stderr, made.stderr

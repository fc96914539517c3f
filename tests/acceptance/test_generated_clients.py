"""Clients that others' generators make of the document do the main job against the running stack."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from service.local.stack import local_stack

CLIENTS = Path(__file__).parents[1] / "clients"
DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.json"


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def mails(tmp_path):
    """Rows whose length tells the class; every third without a label."""
    chance = random.Random(0)  # noqa: S311
    lines = ["length,label"]
    for number in range(150):
        spam = number % 2
        label = "" if number % 3 == 0 else ("ham", "spam")[spam]
        lines.append(f"{chance.gauss(3 if spam else -3, 1):.4f},{label}")
    path = tmp_path / "mails.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow  # .ci/run runs it
def test_the_main_job_by_openapi_python_client(tmp_path, mails):
    generator = Path(sys.executable).parent / "openapi-python-client"
    config = tmp_path / "config.yml"
    config.write_text("post_hooks: []\n")
    made = ("--meta", "none", "--output-path", tmp_path / "prefsvm_client", "--config", config)
    run(generator, "generate", "--path", DOCUMENT, *made, cwd=tmp_path)
    with local_stack(tmp_path / "data") as stack:
        script = CLIENTS / "python" / "main_job.py"
        said = run(sys.executable, script, stack.url, mails, cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert said.split() == ["ham", "spam"]


@pytest.mark.slow  # npm fetches its packages
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_the_main_job_by_openapi_typescript(tmp_path, mails):
    folder = tmp_path / "typescript"
    shutil.copytree(CLIENTS / "typescript", folder)
    run("npm", "ci", "--no-audit", "--no-fund", cwd=folder)
    run("npx", "openapi-typescript", DOCUMENT, "--output", "schema.d.ts", "--default-non-nullable=false", cwd=folder)
    run("npx", "tsc", cwd=folder)
    with local_stack(tmp_path / "data") as stack:
        said = run("node", "built/main_job.js", stack.url, mails, cwd=folder)
    assert said.split() == ["ham", "spam"]

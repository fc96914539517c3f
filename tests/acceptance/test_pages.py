"""The blocks of README.md and docs/ work when pasted, in order; ``make demo`` shows what it says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import psutil
import pytest

from service.local.stack import local_stack

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
URL = "http://127.0.0.1:8000"


def blocks(page: Path, language: str) -> str:
    """All blocks of a page in a language, as one script. What cannot run here (Docker, say) is marked ``sh``."""
    found = re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return "\n".join(found)


PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if blocks(page, "bash") or blocks(page, "python")]


@dataclass
class Pasted:
    """A running stack, and the folder in which the README was pasted."""

    url: str
    folder: Path
    logs: Path
    printed: str = ""

    def run(self, *command: str) -> str:
        """Run a command there and return what it printed."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**os.environ, "PREFSVM_URL": self.url, "PATH": f"{self.folder / '.venv/bin'}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def bash(self, script: str) -> str:
        """Paste a script; every curl that the service refuses ends it: a page must show no call that fails."""
        strict = 'set -euo pipefail\ncurl() { command curl --fail-with-body "$@"; }\n'
        return self.run("bash", "-c", strict + script.replace(URL, self.url))


@pytest.fixture(scope="module")
def readme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pasted]:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    folder = tmp_path_factory.mktemp("readme")
    (folder / ".venv").symlink_to(sys.prefix)  # as in a clone: the README puts .venv/bin in front of PATH
    with local_stack(data := tmp_path_factory.mktemp("stack") / "data") as stack:
        pasted = Pasted(stack.url, folder, data / "logs")
        pasted.printed = pasted.bash(blocks(README, "bash"))
        yield pasted


def test_the_walk_with_curl(readme: Pasted) -> None:
    job = json.loads((readme.folder / "job.json").read_text())
    assert job["status"] == "succeeded"
    assert job["model_id"].startswith("mdl_")
    assert job["attempt"] == 1
    predictions, of_a_mail = (
        json.loads(line) for line in readme.printed.replace("}{", "}\n{").splitlines() if '"predictions"' in line
    )
    assert [made["label"] for made in of_a_mail["predictions"]] == ["spam"]
    assert len(predictions["predictions"]) == 171
    assert {p["label"] for p in predictions["predictions"]} == {"malignant", "benign"}
    assert all(
        (p["score"] > predictions["threshold"]) == (p["label"] == "malignant") for p in predictions["predictions"]
    )
    assert re.search(r"^complaint \d\S+ 0\.\d+$", readme.printed, flags=re.MULTILINE)


def test_mails_of_the_first_recipe_can_be_audited(readme: Pasted, tmp_path: Path) -> None:
    said = readme.run("prefsvm", "mail", "audit", "--out", str(tmp_path / "mails.csv"))
    written = re.search(r"(\d+) rows are in", said)
    assert written, said
    assert 5 <= int(written[1]) <= 30


def test_what_needs_a_file_that_was_deleted_says_so(readme: Pasted) -> None:
    with pytest.raises(AssertionError, match="was deleted; upload it and train again"):
        readme.run("prefsvm", "retrain", "tumours")


def test_the_log_of_the_worker_tells_what_became_of_jobs_and_not_of_messages(readme: Pasted) -> None:
    said = (readme.logs / "worker.log").read_text()
    assert said.count(": attempt 1 succeeded") >= 4
    assert not re.search(r"Task \S+ succeeded", said)


@pytest.mark.slow  # .ci/run runs it
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_runs_as_pasted(readme: Pasted, page: Path) -> None:
    readme.bash(blocks(page, "bash"))
    python = blocks(page, "python").replace(URL, readme.url)
    readme.run(sys.executable, "-c", python)


def test_who_follows_the_pages_in_a_clone_finds_no_files_among_the_changes(readme: Pasted) -> None:
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines()]
    written = {path.name for path in readme.folder.iterdir()}
    assert written >= {"tumours.csv", "messages.csv", "job.json"}
    assert [name for name in written if not any(fnmatch(name, pattern) for pattern in ignored)] == []


@pytest.mark.slow  # .ci/run runs it
def test_make_demo_needs_no_arguments_and_leaves_nothing_running(tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/demo.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for said in ("Recall of at least 0.9: certified", "truth: 171 test rows", "plain svm", "10 draws", "What it cost"):
        assert said in done.stdout
    # Draw 0 is the one that was measured along with the others: what is shown is none that was picked.
    measured = json.loads((ROOT / "benchmarks/results/demo_draws.json").read_text())
    recall = re.search(r"^ *recall .* (\d\.\d+) \(\S+ to \S+\) *$", done.stdout, flags=re.MULTILINE)
    f1 = re.search(r"^ *f1 +(\d\.\d+) \(.*?\) +(\d\.\d+) ", done.stdout, flags=re.MULTILINE)
    assert recall
    assert f1
    assert float(recall[1]) == pytest.approx(measured["tumours"][0]["test_recall"], abs=0.03), done.stdout
    pictures = measured["pictures"][0]
    shown = [pictures["cluster_f1"], pictures["svm_f1"]]
    assert [float(f1[1]), float(f1[2])] == pytest.approx(shown, abs=0.03), done.stdout
    commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    assert [command for command in commands if any("prefsvm-demo-" in part for part in command)] == []

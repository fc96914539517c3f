"""The README's walk with curl works when pasted, in order."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import psutil
import pytest

from service.local.stack import local_stack

README = Path(__file__).parents[2] / "README.md"


def pasted(url: str) -> str:
    """Return all ``bash`` blocks of the README as one script against `url`."""
    blocks = re.findall(r"^```bash\n(.*?)^```", README.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 8
    script = "\n".join(blocks)
    assert "http://127.0.0.1:8000" in script
    assert ".venv/bin/prefsvm" in script
    return script.replace("http://127.0.0.1:8000", url).replace(
        ".venv/bin/prefsvm", str(Path(sys.executable).parent / "prefsvm")
    )


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_walk_with_curl(tmp_path):
    with local_stack(tmp_path / "data") as stack:
        # Every curl that the service refuses ends the script: the README must show no call that fails.
        strict = 'set -euo pipefail\ncurl() { command curl --fail-with-body "$@"; }\n'
        done = subprocess.run(
            ["bash", "-c", strict + pasted(stack.url)],
            cwd=tmp_path,
            env={**os.environ, "PREFSVM_URL": stack.url},
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    job = json.loads((tmp_path / "job.json").read_text())
    assert job["status"] == "succeeded"
    assert job["model_id"].startswith("mdl_")
    assert job["attempt"] == 1
    predictions, of_a_mail = (
        json.loads(line) for line in done.stdout.replace("}{", "}\n{").splitlines() if '"predictions"' in line
    )
    assert [made["label"] for made in of_a_mail["predictions"]] == ["spam"]
    assert len(predictions["predictions"]) == 171
    assert {p["label"] for p in predictions["predictions"]} == {"malignant", "benign"}
    assert all(
        (p["score"] > predictions["threshold"]) == (p["label"] == "malignant") for p in predictions["predictions"]
    )
    ignored = [line.strip("/") for line in (README.parent / ".gitignore").read_text().splitlines()]
    written = {path.name for path in tmp_path.iterdir()} - {"data"}
    untracked = [name for name in written if not any(fnmatch(name, pattern) for pattern in ignored)]
    assert untracked == [], "who follows the README in a clone must not find its files among the changes"


def test_make_demo_needs_no_arguments_and_leaves_nothing_running(tmp_path):
    done = subprocess.run(
        [sys.executable, str(README.parent / "scripts/demo.py")],
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
    measured = json.loads((README.parent / "benchmarks/results/demo_draws.json").read_text())
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

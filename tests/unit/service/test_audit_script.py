"""`scripts/audit.py`: the bill of materials names what the lock names; a known vulnerability turns it red."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
LOCK = ROOT / "requirements" / "server.lock"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit_script", ROOT / "scripts" / "audit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_bill_names_every_package_of_the_lock(script: ModuleType, tmp_path: Path) -> None:
    bill = tmp_path / "sbom.json"
    script.write_sbom(LOCK, bill)
    named = {(c["name"], c["version"]) for c in json.loads(bill.read_bytes())["components"]}
    locked = set(re.findall(r"^([a-z0-9-]+)==([^ ;]+)", LOCK.read_text(), re.MULTILINE))
    assert len(locked) > 50
    assert locked == named


@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [
        ([{"name": "kombu", "version": "5.7.0", "vulns": []}], 0, "1 packages looked up, 0 vulnerabilities"),
        (
            [{"name": "kombu", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"]}]}],
            1,
            "kombu 1.0: PYSEC-1, mended in 1.1",
        ),
        ([{"name": "kombu", "version": "1.0", "skip_reason": "not found"}], 0, "the database knows none of them"),
        (None, 0, "no vulnerability database answered (no route)"),
    ],
)
def test_what_the_database_says_decides(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: list[object] | None,
    status: int,
    says: str,
) -> None:
    # The database is somebody else's and cannot be made to know a vulnerability.
    def run(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        out = "" if answer is None else json.dumps({"dependencies": answer})
        return subprocess.CompletedProcess([], 1, out, "Traceback\nno route")

    monkeypatch.setattr(subprocess, "run", run)
    assert script.audit(LOCK) == status
    assert says in capsys.readouterr().out

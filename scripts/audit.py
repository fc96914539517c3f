"""What is installed, and what is known against it: writes an SBOM, then asks a vulnerability database.

``make audit`` runs it. The versions come from a lock file, so nothing is resolved or installed. It ends with 1 if a
vulnerability is known. Where no database can be reached it says so and ends with 0: a machine without a way out must
still be able to check the rest, and ``tests/unit/service/test_floors.py`` holds the floors that close known holes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 300


def write_sbom(lock: Path, path: Path) -> int:
    """Write the CycloneDX bill of materials of a lock file; returns the number of its components."""
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [
            *(sys.executable, "-m", "cyclonedx_py", "requirements", str(lock)),
            *("--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible", "--output-format", "JSON"),
            *("--output-file", str(path)),
        ],
        check=True,
        timeout=SECONDS,
        # It warns that a lock file does not tell which package needs which.
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    return len(json.loads(path.read_bytes())["components"])


def audit(lock: Path) -> int:
    """Ask for known vulnerabilities of a lock file and print them; returns the exit status."""
    asked = subprocess.run(
        [
            *(sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "--requirement", str(lock)),
            *("--format", "json", "--progress-spinner", "off"),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    try:
        packages = json.loads(asked.stdout)["dependencies"]
    except json.JSONDecodeError:
        print(f"no vulnerability database answered ({(asked.stderr.strip().splitlines() or ['no word'])[-1][:200]})")
        return 0
    known = [(package, hole) for package in packages for hole in package.get("vulns", [])]
    for package, hole in known:
        fixed = ", ".join(hole["fix_versions"]) or "no version yet"
        print(f"{package['name']} {package['version']}: {hole['id']}, mended in {fixed}")
    skipped = sum("skip_reason" in package for package in packages)
    print(f"{lock.name}: {len(packages) - skipped} packages looked up, {len(known)} vulnerabilities, {skipped} unknown")
    if skipped == len(packages):
        print("the database knows none of them: this machine reaches a mirror without one; only the floors are checked")
    return int(bool(known))


def main() -> None:
    """Write the bill, then audit."""
    parser = argparse.ArgumentParser(description="Write the SBOM of a lock file and audit it.")
    parser.add_argument("--lock", type=Path, default=ROOT / "requirements" / "server.lock")
    parser.add_argument("--sbom", type=Path, default=ROOT / "build" / "sbom.cdx.json")
    chosen = parser.parse_args()
    components = write_sbom(chosen.lock, chosen.sbom)
    print(f"{chosen.sbom.name}: {components} components of {chosen.lock.name}")
    sys.exit(audit(chosen.lock))


if __name__ == "__main__":
    main()

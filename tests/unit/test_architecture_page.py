"""The page on the architecture names every folder and every file at the top of a package, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def named(package: str) -> set[str]:
    """What the block of folders names below `package/`: files, and folders with a slash at their end."""
    block = PAGE.split("## Folders", 1)[1].split("```")[1]
    found: set[str] = set()
    inside = False
    for line in block.splitlines():
        if line and not line.startswith(" "):
            inside = line.startswith(f"{package}/")
        elif inside and line.startswith("  ") and not line.startswith("   "):
            names = re.match(r"  (\S+(?: \S+(?:\.py|/)(?= ))*) ", line + " ")
            assert names, line
            found |= set(names.group(1).split())
    return found


@pytest.mark.parametrize("package", ["service", "worker", "solver", "prefsvm"])
def test_page_names_what_is_there(package: str) -> None:
    folder = ROOT / package
    there = {path.name for path in folder.glob("*.py") if path.name != "__init__.py"}
    there |= {f"{path.name}/" for path in folder.iterdir() if any(path.glob("*.py"))}
    assert named(package) == there


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for package in ("service", "worker", "solver", "prefsvm")
        for path in (ROOT / package).rglob("*.py")
        if path.read_text().strip() and '"""' not in path.read_text().split("\nimport ")[0].split("\nfrom ")[0]
    ]
    assert silent == []

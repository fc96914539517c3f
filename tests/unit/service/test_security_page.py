"""docs/security.md and docs/testing.md: the tests that they name, the rows of the list, silenced findings."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/security.md").read_text()


@pytest.mark.parametrize("page", ["security", "testing"])
def test_named_tests_exist(page: str) -> None:
    text = (ROOT / f"docs/{page}.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text)
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), flags=re.MULTILINE)
    ]
    assert missing == []
    assert len(named) > 20


def test_every_row_of_the_list_is_there() -> None:
    rows = re.findall(r"^\| \*\*API(\d+)\*\* ", PAGE, flags=re.MULTILINE)
    assert [int(row) for row in rows] == list(range(1, 11))


def test_silenced_findings_are_listed() -> None:
    silenced = {
        (rule, str(path.relative_to(ROOT)))
        for package in ("service", "worker", "solver", "migrations")
        for path in (ROOT / package).rglob("*.py")
        for comment in re.findall(r"# noqa: ([A-Z0-9, ]+)", path.read_text())
        for rule in re.findall(r"\bS\d{3}\b", comment)
    }
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    silenced |= {(rule, "everywhere") for rule in lint["ignore"] if re.fullmatch(r"S\d{3}", rule)}
    for files, rules in lint["per-file-ignores"].items():
        assert files.split("/")[0] in ("tests", "benchmarks", "scripts") or not any(r.startswith("S") for r in rules)
    assert "S" in lint["select"]
    listed = {
        (rule, place.strip("`"))
        for rules, places in re.findall(r"^\| ((?:S\d{3}[ ,]*)+)[^|]*\| ([^|]*) \|", PAGE, flags=re.MULTILINE)
        for rule in re.findall(r"S\d{3}", rules)
        for place in places.split(", ")
    }
    assert listed == silenced

"""No link of README.md and docs/ is dead, and every file of the repository that they, or a comment, name is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
FOLDERS = "benchmarks|deploy|docs|migrations|prefsvm|requirements|scripts|service|solver|tests|worker"
FILE = re.compile(rf"(?<![\w./<-])(?:{FOLDERS})/[\w./-]*\w\.(?:py|md|sh|json|toml|lock|yml|conf|svg)(?![.\w]*\w)")
WRITTEN_BY_READERS = re.compile(r"benchmarks/results/|deploy/secrets/")


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub names them in links."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_link_is_dead(page: Path) -> None:
    dead = []
    for path, anchor in LINK.findall(page.read_text()):
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(f"{path}#{anchor}")
    assert dead == []


def test_every_page_is_linked() -> None:
    linked = {(page.parent / path).resolve() for page in PAGES for path, _ in LINK.findall(page.read_text()) if path}
    assert [page.name for page in PAGES[1:] if page not in linked] == []


def test_files_that_are_named_are_there() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    named = [ROOT / name for name in listed.split() if re.search(rf"^(?:{FOLDERS})/.*\.(?:py|md|sh)$|^[^/]*$", name)]
    missing = {
        f"{file.relative_to(ROOT)}: {path}"
        for file in named or PAGES
        for path in FILE.findall(file.read_text())
        if not (ROOT / path).exists() and not WRITTEN_BY_READERS.match(path)
    }
    assert sorted(missing) == []

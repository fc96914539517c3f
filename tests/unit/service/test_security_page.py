"""docs/security.md: every test that it names is there, and every row of the list has one or says why not."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/security.md").read_text()


def test_named_tests_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE)
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), flags=re.MULTILINE)
    ]
    assert missing == []
    assert len(named) > 30


def test_every_row_of_the_list_is_there() -> None:
    rows = re.findall(r"^\| \*\*API(\d+)\*\* ", PAGE, flags=re.MULTILINE)
    assert [int(row) for row in rows] == list(range(1, 11))

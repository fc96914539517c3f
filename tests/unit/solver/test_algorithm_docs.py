"""README and docs/algorithms.md name exactly the algorithms and parameters that there are."""

import re
from pathlib import Path

import pytest

from solver.algorithms import ALGORITHMS, AUTO

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/algorithms.md").read_text()


def rows(text):
    """The first cell of each row of the tables in a text."""
    return re.findall(r"^\| `([^`]+)`", text, flags=re.MULTILINE)


def test_the_readme_names_every_algorithm_and_the_page_lists_them():
    section = (ROOT / "README.md").read_text().partition("\n## Algorithms\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"`([^`]+)`", section)) >= {AUTO, *ALGORITHMS}
    assert "docs/algorithms.md" in section
    assert rows(PAGE.partition("\n## ")[0]) == ["algorithm", AUTO, *ALGORITHMS]


def test_the_page_has_a_section_for_each_algorithm_and_for_what_they_share():
    assert re.findall(r"^## `([^`]+)`$", PAGE, flags=re.MULTILINE) == list(ALGORITHMS)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_page_lists_every_parameter_with_its_default(name):
    shared = PAGE.partition("\n## Shared parameters\n")[2].partition("\n## ")[0]
    own = PAGE.partition(f"\n## `{name}`\n")[2].partition("\n## ")[0]
    # a later row stands for an earlier one of the same name
    documented = dict(re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", shared + own, flags=re.MULTILINE))
    without = re.search(r"^Without (.*)\.$", own, flags=re.MULTILINE)
    for parameter in re.findall(r"`([^`]+)`", without[1] if without else ""):
        del documented[parameter]
    expected = {
        parameter.name: "null" if parameter.default is None else f"{parameter.default}"
        for parameter in ALGORITHMS[name].parameters
    }
    assert documented == expected

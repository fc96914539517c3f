"""README and docs/algorithms.md name exactly the algorithms and parameters that there are."""

import os
import re
from pathlib import Path

import pytest

from solver.algorithms import ALGORITHMS, SHARED

ROOT = Path(__file__).parents[3]
PATH = ROOT / "docs/algorithms.md"
PAGE = PATH.read_text()


def rows(text):
    """The first cell of each row of the tables in a text."""
    return re.findall(r"^\| `([^`]+)`", text, flags=re.MULTILINE)


def test_the_readme_names_every_algorithm_and_the_page_lists_them():
    section = (ROOT / "README.md").read_text().partition("\n## Algorithms\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"`([^`]+)`", section)) >= {*ALGORITHMS}
    assert "docs/algorithms.md" in section
    assert rows(PAGE.partition("\n## ")[0]) == ["algorithm", *ALGORITHMS]


def test_the_page_has_a_section_for_each_algorithm_and_for_what_they_share():
    assert re.findall(r"^## `([^`]+)`$", PAGE, flags=re.MULTILINE) == list(ALGORITHMS)


def table(parameters):
    """The table of these parameters, as it stands on the page."""
    return (
        "\n".join(["| parameter | default | allowed | what it does |", "|---|---|---|---|", *map(row, parameters)])
        + "\n"
    )


def row(parameter):
    texts = [f"`{each}`" for each in (*parameter.choices, *(["null"] if parameter.nullable else []))]
    allowed = ", ".join(texts)
    if parameter.type != "choice":
        kind = "number" if parameter.type == "number" else "whole number"
        allowed = " or ".join([f"{kind}, {parameter.minimum:g} … {parameter.maximum:g}", *texts])
    default = "null" if parameter.default is None else parameter.default
    return f"| `{parameter.name}` | `{default}` | {allowed} | {parameter.help} |"


def test_the_tables_of_parameters_are_those_of_the_declarations():
    """`WRITE_SNAPSHOT=1` writes them."""
    page = PAGE
    own = {name: [each for each in spec.parameters if each not in SHARED] for name, spec in ALGORITHMS.items()}
    for title, parameters in {"Shared parameters": SHARED, **{f"`{name}`": each for name, each in own.items()}}.items():
        start = page.index(f"\n## {title}\n")
        start = page.index("| parameter | default |", start)
        end = re.compile(r"^(?!\|)", re.MULTILINE).search(page, start).start()
        page = page[:start] + table(parameters) + page[end:]
    if os.environ.get("WRITE_SNAPSHOT"):
        PATH.write_text(page)
    assert page == PAGE, "docs/algorithms.md: run this test with WRITE_SNAPSHOT=1"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_page_says_which_shared_parameters_an_algorithm_lacks(name):
    own = PAGE.partition(f"\n## `{name}`\n")[2].partition("\n## ")[0]
    without = re.search(r"^Without (.*)\.$", own, flags=re.MULTILINE)
    lacking = {each.name for each in SHARED} - {each.name for each in ALGORITHMS[name].parameters}
    assert set(re.findall(r"`([^`]+)`", without[1] if without else "")) == lacking

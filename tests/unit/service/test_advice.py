"""Every command that the product advises, in an error, a note or a page, is one that it has, with these options."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import typer.main

from service.cli import app

ROOT = Path(__file__).resolve().parents[3]
ADVICE = re.compile(r"prefsvm ((?:[a-z]+)(?: (?:--)?[A-Za-z@][\w@.=:/-]*)*)")
PROSE = {*("in", "is", "as", "or", "of", "on", "and", "has", "does", "needs", "answers", "serves", "trains", "refuses")}
"""Words after the product's name that begin no command."""


def advised() -> list[tuple[str, str]]:
    found = []
    for folder in ("service", "worker", "solver", "prefsvm"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found += [(path.name, text) for text in ADVICE.findall(node.value)]
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for code in re.findall(r"`([^`\n]+)`|^((?:\.venv/bin/)?prefsvm .+)$", page.read_text(), flags=re.MULTILINE):
            found += [(page.name, text) for text in ADVICE.findall("".join(code).split(" #")[0])]
    return sorted({(name, text) for name, text in found if text.split()[0] not in PROSE})


CASES = advised()


def test_there_is_advice() -> None:
    assert len(CASES) > 20


@pytest.mark.parametrize(("place", "text"), CASES)
def test_an_advised_command_exists_with_its_options(place: str, text: str) -> None:
    words = text.split()
    command = typer.main.get_command(app)
    while words and hasattr(command, "commands"):
        assert words[0] in command.commands, f"{place}: there is no command {words[0]!r} in {text!r}"
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for option in (word.partition("=")[0].rstrip(".") for word in words if word.startswith("--")):
        assert option in known | {"--help"}, f"{place}: {text!r} has no {option}"

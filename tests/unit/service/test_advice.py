"""Every command that the product advises exists, and no advice for callers of the API is left in what a command prints.

``tests/acceptance/test_advice_runs.py`` follows what is advised, on a real stack.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import click
import pytest
import typer.main

from service.cli.advice import RUNNING, in_flags
from service.cli.main import app
from service.ingest.options import correction, kind_option

ROOT = Path(__file__).resolve().parents[3]
ADVICE = re.compile(r"prefsvm ((?:[a-z]+)(?: (?:--)?[A-Za-z@][\w@.=:/-]*)*)")
PROSE = {*("in", "is", "as", "or", "of", "on", "and", "has", "does", "needs", "answers", "serves", "trains", "refuses")}
"""Words after the product's name that begin no command."""


@cache
def texts_of_sources() -> list[tuple[Path, ast.expr, ast.AST]]:
    """Every text of the sources, with what it is a part of: seconds, so that it is no work of finding the tests."""
    found = []
    for folder in ("service", "worker", "solver", "prefsvm"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            waiting: list[ast.AST] = [ast.parse(path.read_text())]
            while waiting:
                node = waiting.pop()
                for child in ast.iter_child_nodes(node):
                    waiting.append(child)
                    is_text = isinstance(child, ast.Constant) and isinstance(child.value, str)
                    if is_text or isinstance(child, ast.JoinedStr | ast.BinOp):
                        found.append((path, child, node))
    return found


def advised() -> list[tuple[str, str]]:
    found = []
    for path, node, _ in texts_of_sources():
        if isinstance(node, ast.Constant):
            found += [(path.name, text) for text in ADVICE.findall(str(node.value))]
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for code in re.findall(r"`([^`\n]+)`|^(prefsvm .+)$", page.read_text(), flags=re.MULTILINE):
            found += [(page.name, text) for text in ADVICE.findall("".join(code).split(" #")[0])]
    return sorted({(name, text) for name, text in found if text.split()[0] not in PROSE})


def test_advised_commands_exist_with_their_options() -> None:
    cases = advised()
    assert len(cases) > 20
    assert [wrong for case in cases if (wrong := wrong_of_command(*case))] == []


@cache
def commands() -> click.Command:
    """Typer makes them of the signatures of their functions: .1 s each time."""
    return typer.main.get_command(app)


def wrong_of_command(place: str, text: str) -> str | None:
    """What an advised command has that there is not."""
    words = text.split()
    command = commands()
    while words and hasattr(command, "commands"):
        if words[0] not in command.commands and "show" in command.commands:
            words.insert(0, "show")  # `prefsvm datasets ds_...`
        if words[0] not in command.commands:
            return f"{place}: there is no command {words[0]!r} in {text!r}"
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for option in (word.partition("=")[0].rstrip(".") for word in words if word.startswith("--")):
        if option not in known | {"--help"}:
            return f"{place}: {text!r} has no {option}"
    return None


OF_THE_API = re.compile(
    r"\boptions? (?:delimiter|quote|escape|header|encoding|missing|decimal|thousands|trim|columns|format)\b"
    r'|"(?:unlabeled|negative|positive|labels|features|include|exclude|kinds|columns|fold|keep)": '
    r"|`(?:unlabeled|negative|include|exclude|kinds|features)`|features\.(?:include|exclude|kinds)"
    r"|\b(?:GET|POST|PUT|PATCH|DELETE) /(?!readyz)|\bcurl\b"
)
NOT_FOR_COMMANDS = ("pages", "schemas.py", "api", "metrics.py", "app.py", "tables.py")
"""What describes the API, and what only its callers can do wrong."""


def as_said(node: ast.expr) -> str:
    """What a text may look like: every value in it is called x."""
    if isinstance(node, ast.JoinedStr):
        return "".join(as_said(each.value if isinstance(each, ast.FormattedValue) else each) for each in node.values)
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.BinOp):
        return as_said(node.left) + as_said(node.right)
    if isinstance(node, ast.Call):
        match ast.unparse(node.func):
            case "correction":
                return correction("x y", "text")
            case "kind_option":
                return kind_option("x y", "text")
            case "json.dumps":
                return _as_json(node.args[0])
    return "x"


def _as_json(node: ast.expr) -> str:
    if isinstance(node, ast.Dict):
        fields = [f'"{as_said(k)}": {_as_json(v)}' for k, v in zip(node.keys, node.values, strict=True) if k]
        return "{" + ", ".join(fields) + "}"
    return '["x y", "z"]' if isinstance(node, ast.List | ast.Name) else '"x"'


def advice_of_the_api() -> list[tuple[str, str]]:
    found = set()
    for path, node, parent in texts_of_sources():
        of_commands = path.name.startswith("cli") or path.relative_to(ROOT).parts[0] == "prefsvm"
        if of_commands or any(part in NOT_FOR_COMMANDS for part in path.relative_to(ROOT).parts):
            continue
        if isinstance(parent, ast.Expr | ast.JoinedStr | ast.BinOp | ast.FormattedValue):
            continue
        text = as_said(node)
        if OF_THE_API.search(text) and len(text) > 20 and not re.search(r"SELECT|DELETE FROM", text):
            found.add((path.name, text))
    return sorted(found)


def test_commands_say_options_where_the_api_says_json() -> None:
    found = advice_of_the_api()
    assert len(found) > 30
    RUNNING.begin(())
    said = [(place, in_flags(text)) for place, text in found]
    assert [(place, text) for place, text in said if OF_THE_API.search(text) or '{"' in text] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('if so, say "unlabeled": ["NA", "N A"]; if', "if so, say --unlabeled NA --unlabeled 'N A'; if"),
        ('; "labels": {"fold": true} makes one', "; --fold-labels makes one"),
        ("say null for option quote if", "--quote none if"),
        ('say "\\\\" for option escape', "--escape '\\'"),
        ('with options decimal "," and thousands ".".', "with --decimal , --thousands .."),
        ("upload again with option header false", "upload again with --no-header"),
        ('(POST /jobs/job_1/cancel; of a batch POST /batches/job_1/cancel)', "(prefsvm jobs job_1 --cancel; of a batch "
         "prefsvm batches cancel job_1)"),
        ('PUT /aliases/x with {"model": "mdl_1"}', "prefsvm aliases set x mdl_1"),
        ('{"features": {"kinds": {"my x": "text"}}}', "--kind 'my x=text'"),
        ("the optional options of others", "the optional options of others"),
        ('a text such as {"a": 1} or "b": 2 stays', 'a text such as {"a": 1} or "b": 2 stays'),
    ],
)  # fmt: skip
def test_in_flags(text: str, said: str) -> None:
    assert in_flags(text) == said

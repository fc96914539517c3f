"""Rules for the code itself: what one module may know of another one, and how long a function may be."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("service", "worker", "solver", "prefsvm")
PRIVATE_OF_OTHERS = {"solver/estimators/parameters.py"}
"""scikit-learn has no public name for these checks, and its own tests of estimators ask for their words."""
IMPORT = re.compile(r"^ *from (\S+) import (\([^)]*\)|[^#\n]*).*$|^ *import (.+)$", re.MULTILINE)
NAME = re.compile(r"\w+(?: as \w+)?")
MOST_LINES = 60
LONG = {"_iterate": "the loop of the solver: compiled code, in which a call costs"}
"""Longer functions, besides those that only put routes together."""


@functools.cache
def sources() -> dict[str, str]:
    paths = [path for folder in PRODUCT for path in sorted((ROOT / folder).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def crosses_border(module: str, path: str) -> bool:
    """Whether a module is a private one of a package that this file is not in."""
    names = module.split(".")
    private = [i for i, name in enumerate(names) if is_private(name)]
    return bool(private) and not path.startswith("/".join(names[: private[0]]) + "/")


def private_imports(path: str, text: str) -> list[str]:
    found = []
    for module, names, plain in IMPORT.findall(text):
        found += [f"{module}.{each}" for each in NAME.findall(names) if is_private(each)]
        found += [each for each in (module, *plain.split(", ")) if crosses_border(each, path)]
    return found


def long_functions(text: str) -> list[str]:
    """Names of functions whose body, without the docstring, is too long."""
    if not has_long_block(text):  # what follows takes long
        return []
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            if body and body[-1].end_lineno - body[0].lineno >= MOST_LINES:
                found.append(node.name)
    return found


def has_long_block(text: str) -> bool:
    """Whether more lines than a function may have stand between one `def` and the next line that is not deeper."""
    open_blocks: list[tuple[int, int]] = []
    for number, line in enumerate([*text.splitlines(), "end"]):
        code = line.lstrip()
        if not code or code.startswith(")"):
            continue
        while open_blocks and len(line) - len(code) <= open_blocks[-1][0]:
            if number - open_blocks.pop()[1] > MOST_LINES:
                return True
        if code.startswith(("def ", "async def ")):
            open_blocks.append((len(line) - len(code), number))
    return False


def test_no_module_imports_private_names_of_another():
    found = {path: private_imports(path, text) for path, text in sources().items() if path not in PRIVATE_OF_OTHERS}
    assert {path: names for path, names in found.items() if names} == {}


def test_functions_are_short():
    found = {path: long_functions(text) for path, text in sources().items()}
    long = [f"{path}: {name}" for path, names in found.items() for name in names if name not in LONG]
    assert [each for each in long if not each.endswith("_router")] == []

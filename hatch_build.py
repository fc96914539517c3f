"""Build hook: in the wheel, the folders of the repository are parts of one package, ``prefsvm``.

In the repository, and in an editable installation, the folders are importable as ``solver``, ``service``, ``worker``
and ``migrations``. Names like these must not be taken from whoever installs a library. So the wheel has them as
``prefsvm.solver`` and so on, with every absolute import rewritten, and every string that names one of their modules
(what ``python -m`` runs, for example). What cannot be rewritten safely ends the build.

``tests/unit/test_wheel.py`` builds the wheel, installs it, and runs it.
"""

from __future__ import annotations

import ast
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "prefsvm"
PARTS = ("solver", "service", "worker", "migrations")
LEFT_OUT = ("__pycache__", "*.pyc", "*.nbi", "*.nbc")
_MODULE = re.compile(rf"(?:{'|'.join(PARTS)})(?:\.\w+)+(?::\w+)?")


class BuildError(Exception):
    """A source file cannot be rewritten."""


class WheelHook(BuildHookInterface[Any]):
    """Puts the rewritten folders into the wheel; leaves editable installations and source archives as they are."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the package into a temporary folder, and name that to the builder."""
        if self.target_name != "wheel" or version == "editable":
            return
        self._staged = tempfile.TemporaryDirectory(prefix="prefsvm-wheel-")
        staged = Path(self._staged.name) / PACKAGE
        stage(Path(self.root), staged)
        build_data["force_include"][str(staged)] = PACKAGE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 (the hook's)
        """Remove the temporary folder."""
        if self.target_name == "wheel" and version != "editable":
            self._staged.cleanup()


def stage(root: Path, target: Path) -> None:
    """Copy the package as the wheel has it: `prefsvm` with the other folders inside, imports rewritten."""
    for part in (PACKAGE, *PARTS):
        to = target if part == PACKAGE else target / part
        shutil.copytree(root / part, to, ignore=shutil.ignore_patterns(*LEFT_OUT), dirs_exist_ok=True)
    for path in sorted(target.rglob("*.py")):
        try:
            path.write_bytes(rewrite(path.read_bytes(), root))
        except BuildError as error:
            raise BuildError(f"{path.relative_to(target)}, {error}") from None


def rewrite(source: bytes, root: Path) -> bytes:
    """Return the source of a module with the names of our modules moved into the package.

    Parameters
    ----------
    source : bytes
        UTF-8.
    root : Path
        The repository: a string is the name of a module where there is such a file.

    Raises
    ------
    BuildError
        If it has ``import solver.x`` without ``as``, whose name ``solver`` may be used anywhere after, or an f-string
        that begins with the name of a module.
    """
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    edits: list[tuple[int, int, bytes, bytes]] = []  # line, byte, what is there, what shall be
    documentation = _docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and _ours(node.module):
            line = lines[node.lineno - 1]
            at = line.index(str(node.module).encode(), node.col_offset + len("from"))
            edits.append((node.lineno, at, b"", f"{PACKAGE}.".encode()))
        elif isinstance(node, ast.Import):
            edits += _of_import(node, lines)
        elif isinstance(node, ast.JoinedStr):
            first = node.values[0] if node.values else None
            if isinstance(first, ast.Constant) and str(first.value).split(".")[0] in PARTS and "." in str(first.value):
                raise BuildError(f"line {node.lineno}: an f-string that names a module; say it without one")
        elif isinstance(node, ast.Constant) and node not in documentation and _names_module(node.value, root):
            at = lines[node.lineno - 1].index(str(node.value).encode(), node.col_offset)
            edits.append((node.lineno, at, b"", f"{PACKAGE}.".encode()))
    for number, at, old, new in sorted(edits, reverse=True):
        line = lines[number - 1]
        lines[number - 1] = line[:at] + new + line[at + len(old) :]
    rewritten = b"".join(lines)
    ast.parse(rewritten)
    return rewritten


def _of_import(node: ast.Import, lines: list[bytes]) -> list[tuple[int, int, bytes, bytes]]:
    ours = [alias for alias in node.names if _ours(alias.name)]
    if not ours:
        return []
    alias = ours[0]
    if len(node.names) > 1 or ("." in alias.name and alias.asname is None):
        raise BuildError(f"line {node.lineno}: say `from … import …`, or `import {alias.name} as …`, one a line")
    if alias.asname is None:
        return [(node.lineno, node.col_offset, b"import", f"from {PACKAGE} import".encode())]
    at = lines[node.lineno - 1].index(alias.name.encode(), node.col_offset + len("import"))
    return [(node.lineno, at, b"", f"{PACKAGE}.".encode())]


def _ours(module: str | None) -> bool:
    return module is not None and module.split(".")[0] in PARTS


def _names_module(value: object, root: Path) -> bool:
    if not isinstance(value, str) or not _MODULE.fullmatch(value):
        return False
    path = root.joinpath(*value.partition(":")[0].split("."))
    return path.with_suffix(".py").is_file() or path.is_dir()


def _docstrings(tree: ast.Module) -> set[ast.Constant]:
    return {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }

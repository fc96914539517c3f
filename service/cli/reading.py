"""How a file of rows is read, as options of the commands that take one, and CSV files opened so."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.names import model_path
from service.ingest.options import FORMATS

if TYPE_CHECKING:
    from service.cli.client import Connection
    from service.cli.csv_rows import CsvRows

_READING = "How the file is read"
Kind = Annotated[
    list[str],
    typer.Option(help="What a column is: name=number, category, date or text; may be repeated."),
]
Format = Annotated[
    str | None,
    typer.Option(
        help=f"One of {', '.join(FORMATS)}.",
        show_default="by the file",
        rich_help_panel=_READING,
    ),
]
ReadingOptions = Mapping[str, Any]
UNSAID: ReadingOptions = {}


def _option(kind: Any, unsaid: Any, help: str, shown: str | bool = True, spelt: str | None = None) -> tuple[Any, Any]:
    declared = () if spelt is None else (spelt,)
    option = typer.Option(*declared, help=help, show_default=shown, rich_help_panel=_READING)
    return Annotated[kind, option], unsaid


OPTIONS = {
    "delimiter": _option(
        str | None, None, "Character between the values of a csv or tsv file; \\t is a tab.", "told by the first lines"
    ),
    "quote": _option(
        str | None,
        None,
        "Character that quotes values of a csv or tsv file; none: quotes are part of the texts.",
        '", if that makes sense',
    ),
    "escape": _option(str | None, None, "A backslash, if it escapes the character behind it, as in files of MySQL."),
    "header": _option(
        bool | None,
        None,
        "Whether the first line of a csv or tsv file names the columns; else they are f0, f1, …",
        "told by the first lines",
        "--header/--no-header",
    ),
    "encoding": _option(str | None, None, "Encoding of a csv or tsv file.", "utf-8"),
    "missing": _option(list[str], [], "Value that means 'missing', such as NA; may be repeated."),
    "decimal": _option(str, ".", "Decimal sign of the numbers, a point or a comma.", "point"),
    "thousands": _option(str | None, None, "Thousands are separated by this (,.' or a blank)."),
    "trim": _option(bool, False, "Take blanks around the values away.", spelt="--trim"),
    "vectors": _option(
        bool,
        False,
        "X of an npz file is one column of vectors, and other arrays are columns beside it.",
        spelt="--vectors",
    ),
}
"""How a file can be said to be read: what the option is, and what it is unless it is said."""
OF_ROWS = ("delimiter", "quote", "escape", "header", "encoding", "missing", "decimal")
"""Those that also hold where the command line itself reads the rows."""


def says_how_to_read(names: Iterable[str] = tuple(OPTIONS)) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command options in the place of its parameter `reading`, which gets what was said as options of uploads.

    Parameters
    ----------
    names : iterable of str, optional
        Which of `OPTIONS`; all by default.
    """

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        plain = inspect.signature(command, eval_str=True)
        named = inspect.Parameter.KEYWORD_ONLY
        options = [
            inspect.Parameter(name, named, default=OPTIONS[name][1], annotation=OPTIONS[name][0]) for name in names
        ]
        taken: list[inspect.Parameter] = []
        for each in plain.parameters.values():
            taken += options if each.name == "reading" else [each.replace(kind=named)]

        @functools.wraps(command)
        def run(**given: Any) -> None:
            said = {name: given.pop(name) for name in names}
            command(**given, reading=_said(said))

        run.__signature__ = plain.replace(parameters=taken)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in taken}
        return run

    return with_options


def _said(given: Mapping[str, Any]) -> dict[str, Any]:
    if given["decimal"] not in (".", ","):
        raise typer.BadParameter("--decimal takes . or ,")
    said = {name: value for name, value in given.items() if value != OPTIONS[name][1]}
    quote = said.pop("quote", None)
    if quote is not None:
        said["quote"] = None if quote in ("", "none") else quote
    return said


@contextmanager
def open_csv(client: Connection, model: str, file: Path, options: Mapping[str, Any]) -> Iterator[CsvRows]:
    """Open a CSV file of rows for a model, named by its id or by an alias; see `says_how_to_read`."""
    from dataclasses import replace

    from service.cli.csv_rows import CsvRows, CsvStyle, encoding_of, lone_quote

    said = dict(options)
    encoding = said.pop("encoding", None) or encoding_of(file)
    if file.suffix.lower() in (".tsv", ".tab"):
        said.setdefault("delimiter", "\t")
    if said.get("delimiter") == "\\t":
        said["delimiter"] = "\t"
    for option in ("delimiter", "quote"):
        value = said.get(option)
        if value is not None and (len(value) != 1 or value in "\r\n\\" or (option == "delimiter" and value == '"')):
            raise typer.BadParameter(f"--{option} takes one character{' other than a quote' * (option == 'delimiter')}")
    if said.get("escape", "\\") != "\\":
        raise typer.BadParameter("--escape takes a backslash")
    try:
        source = file.open(encoding=encoding, newline="")
    except LookupError:
        raise typer.BadParameter(f"--encoding: nobody knows {encoding}") from None
    style = CsvStyle(**said)
    line = lone_quote(file, encoding, style)
    with source:
        kinds = {column["name"]: column["kind"] for column in client.get(model_path(client, model))["columns"]}
        rows = CsvRows(source, style if line is None else replace(style, quote=None), kinds)
        if line is not None:
            rows.warnings.append(
                "quotes were read as characters like others (--quote none), because the one that opens a value on line "
                f"{line} does not close it, and each line by itself makes a row"
            )
        yield rows

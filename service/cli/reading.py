"""How a file of rows is read, as options of the commands that take one, and CSV files opened so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.names import model_path
from service.ingest.options import FORMATS

if TYPE_CHECKING:
    from service.cli.client import Client
    from service.cli.csv_rows import CsvRows

_READING = "How the file is read"
Delimiter = Annotated[
    str | None,
    typer.Option(
        help="Character between the values of a csv or tsv file; \\t is a tab.",
        show_default="told by the first lines",
        rich_help_panel=_READING,
    ),
]
Missing = Annotated[
    list[str],
    typer.Option(help="Value that means 'missing', such as NA; may be repeated.", rich_help_panel=_READING),
]
Thousands = Annotated[
    str | None, typer.Option(help="Thousands are separated by this (,.' or a blank).", rich_help_panel=_READING)
]
Decimal = Annotated[
    str,
    typer.Option(
        help="Decimal sign of the numbers, a point or a comma.", show_default="point", rich_help_panel=_READING
    ),
]
Trim = Annotated[bool, typer.Option("--trim", help="Take blanks around the values away.", rich_help_panel=_READING)]
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
Quote = Annotated[
    str | None,
    typer.Option(
        help="Character that quotes values of a csv or tsv file; none: quotes are part of the texts.",
        show_default='", if that makes sense',
        rich_help_panel=_READING,
    ),
]
Escape = Annotated[
    str | None,
    typer.Option(
        help="A backslash, if it escapes the character behind it, as in files of MySQL.", rich_help_panel=_READING
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of a csv or tsv file names the columns; else they are f0, f1, …",
        show_default="told by the first lines",
        rich_help_panel=_READING,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(help="Encoding of a csv or tsv file.", show_default="utf-8", rich_help_panel=_READING),
]


def reading_options(
    delimiter: str | None,
    quote: str | None,
    escape: str | None,
    header: bool | None,
    encoding: str | None,
    missing: Sequence[str],
    decimal: str,
    thousands: str | None = None,
    trim: bool = False,
) -> dict[str, Any]:
    """Return what was said of a file, as options of an upload."""
    if decimal not in (".", ","):
        raise typer.BadParameter("--decimal takes . or ,")
    given = {
        "delimiter": delimiter,
        "escape": escape,
        "header": header,
        "encoding": encoding,
        "missing": list(missing) or None,
        "decimal": None if decimal == "." else decimal,
        "thousands": thousands,
        "trim": trim or None,
    }
    said: dict[str, Any] = {option: value for option, value in given.items() if value is not None}
    if quote is not None:
        said["quote"] = None if quote in ("", "none") else quote
    return said


@contextmanager
def open_csv(client: Client, model: str, file: Path, options: Mapping[str, Any]) -> Iterator[CsvRows]:
    """Open a CSV file of rows for a model, named by its id or by an alias; see `reading_options`."""
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

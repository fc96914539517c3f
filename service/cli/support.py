"""What the commands of ``prefsvm`` share: the connection, tables, files that appear whole, progress.

Imports are inside: ``prefsvm --help`` must not wait for what it does not need.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from service.cli.advice import error_words, in_flags

if TYPE_CHECKING:
    from service.cli.client import Connection
    from service.settings import Settings

Url = Annotated[str, typer.Option(envvar="PREFSVM_URL", help="Address of a running prefsvm.")]
CertificateOption = Annotated[
    str | None,
    typer.Option(
        "--certificate",
        help="With --confidence: cross_fitted tests the target on all labelled rows, strict on a half kept apart.",
        show_default="cross_fitted",
    ),
]
AbstainOption = Annotated[
    float | None,
    typer.Option(
        "--abstain",
        help="Leave rows undecided where labels are not likely to be right in this share, such as 0.98, on both sides.",
        show_default="every row gets a label",
    ),
]
DEFAULT_URL = "http://127.0.0.1:8000"
ID = re.compile(r"(?:ds|job|mdl|up|fb|wh|key|aud)_[0-9a-f]{32}")
LONGEST_ID = len("job_") + 32
WIDE = 200
"""Characters of a line, at least, where a program reads it, so that a row of a table is one."""


def fail(message: str) -> NoReturn:
    """End the command with one line and exit code 1."""
    print(f"prefsvm: {message}", file=sys.stderr)
    raise typer.Exit(1)


def read_settings(**given: Any) -> Settings:
    """Read the settings from the environment, and what is given; says what is wrong with them."""
    from pydantic import ValidationError

    from service.settings import Settings

    try:
        return Settings(**given)
    except ValidationError as error:
        # Names and reasons, without the values: one of them may hold a password.
        fail("; ".join(f"PREFSVM_{str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors()))


@contextmanager
def open_client(url: str) -> Iterator[Connection]:
    """Open a client with the key in PREFSVM_API_KEY, if any, and turn what goes wrong into one line."""
    import os

    from service.cli.client import ClientError, Connection

    try:
        with Connection(url, os.environ.get("PREFSVM_API_KEY")) as client:
            yield client
    except ClientError as error:
        fail(error_words(error))


@contextmanager
def published(path: Path, *, binary: bool = False) -> Iterator[IO[Any]]:
    """Open a file that appears at `path` only once it is whole: until then what is there stays, and may be read."""
    import os

    if path.exists() and not path.is_file():  # a pipe or a device, which cannot be replaced; or a folder
        part = None
        opened = path
    else:
        path = path.resolve()  # a link stays a link
        opened = part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with opened.open("wb") if binary else opened.open("w", encoding="utf-8", newline="") as sink:
            yield sink
        if part is not None:
            if path.exists():
                part.chmod(path.stat().st_mode & 0o7777)
            part.replace(path)
    except OSError as error:
        fail(f"{path} cannot be written: {error.strerror}")
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


def by_suffix(out: Path | None, forms: Mapping[str, str], default: str, besides: str = "") -> str:
    """Return the form of a file to write by its name; refuse a suffix that promises another one."""
    if out is None or not out.suffix:
        return default
    form = forms.get(out.suffix.lower())
    if form is None:
        raise typer.BadParameter(f"--out ends in {out.suffix}; what can be written ends in {', '.join(forms)}{besides}")
    return form


def download(client: Connection, path: str, out: Path | None, form: str = "*/*") -> None:
    """Download into a file that appears once it is whole, or to standard output."""
    if out is None:
        client.download(path, sys.stdout.buffer, form)
        sys.stdout.buffer.flush()
        return
    with published(out, binary=True) as sink:
        client.download(path, sink, form)


def _is_shown() -> bool:
    """Whether somebody looks at what is printed; else a program reads it."""
    import os

    return sys.stdout.isatty() or "COLUMNS" in os.environ


def table_width() -> int:
    """Return how many characters a line may have."""
    from rich.console import Console

    return Console().width if _is_shown() else WIDE


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], below: int = 0) -> None:
    """Print rows under a head, no wider than the terminal; ids stay whole, other cells go on in the next line.

    The last `below` columns are printed in a line beneath each row where the terminal is too narrow for all.
    """
    import textwrap

    from rich.console import Console
    from rich.table import Table

    cells = [list(map(str, row)) for row in rows]
    wide = sum(max(map(len, column)) + 2 for column in zip(columns, *cells, strict=True))
    console = Console(highlight=False, markup=False, width=table_width() if _is_shown() else max(WIDE, wide))
    if title:
        print(title)
    if below and wide > console.width:
        widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
        while sum(widths[:-below]) + 2 * (len(columns) - below - 1) > console.width and below < len(columns) - 1:
            below += 1
        for row in (list(columns), *cells):
            print("  ".join(map(str.ljust, row[:-below], widths)).rstrip())
            named = row[-below:] if below == 1 or row == list(columns) else _named(columns[-below:], row[-below:])
            said = textwrap.wrap(", ".join(filter(None, named)), console.width - 4, break_on_hyphens=False)
            print("".join(f"    {line}\n" for line in said), end="")
        return
    table = Table(box=None, pad_edge=False)
    for position, name in enumerate(columns):
        whole = any(ID.fullmatch(row[position]) for row in cells)
        table.add_column(name, no_wrap=whole, overflow="fold", min_width=LONGEST_ID if whole else None)
    for row in cells:
        table.add_row(*row)
    console.print(table)


def _named(columns: Sequence[str], cells: Sequence[str]) -> list[str]:
    return [f"{name} {cell}" for name, cell in zip(columns, cells, strict=True) if cell]


@contextmanager
def interruptible(said: str) -> Iterator[None]:
    """Say what Ctrl-C leaves behind, and end with the exit code of it."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"\nprefsvm: {said}", file=sys.stderr)
        raise typer.Exit(130) from None


def wait_for(client: Connection, job: dict[str, Any], path: str = "/jobs") -> dict[str, Any]:
    """Wait for the end of a job or batch, or for the rows of an audit, behind a progress bar.

    It goes on when somebody has enough of waiting.
    """
    with interruptible(
        f"{job['id']} goes on; prefsvm jobs {job['id']} shows it, with --cancel it ends"
        if path == "/jobs"
        else f"{job['id']} goes on; prefsvm {path[1:]} show {job['id']} shows it"
    ):
        return _wait_for(client, job, path)


def phase_words(job: dict[str, Any]) -> str:
    """Say what a job does now."""
    if "phase" not in job:  # an audit
        return str(job["status"])
    if job["phase"] == "preparing":
        return "preparing (the first time on a machine this compiles the solver)"
    words = {
        "features": "making features",
        "encoding": "encoding texts",
        "waiting_for_encoder": "waiting for the encoder, which does not answer",
    }
    return words.get(job["phase"], str(job["phase"] or job["status"]))


def _wait_for(client: Connection, job: dict[str, Any], path: str) -> dict[str, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    shown = (TextColumn("{task.description:<12}"), BarColumn(40), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*shown, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        bar = progress.add_task(job["status"], total=1.0)
        for found in client.looks(path, job):
            if found is None:
                progress.update(bar, description="no answer")
                continue
            job = found
            progress.update(bar, completed=job["progress"], description=phase_words(job))
        done = 1.0 if job["status"] == "succeeded" else job["progress"]
        progress.update(bar, completed=done, description=job["status"])
    return job


def short_value(value: Any) -> str:
    """Return a value of an event for reading: numbers with six digits."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {short_value(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(short_value, value)) + "]"
    return in_flags(str(value))


def short_time(text: str | None) -> str:
    """A time to the minute, in UTC; nothing for none."""
    return "" if text is None else text[:16].replace("T", " ")

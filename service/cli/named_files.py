"""Data sets that a command names by a file, which is uploaded unless the service has it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from service.cli.advice import RUNNING, print_notes
from service.cli.names import LAST, full_id
from service.cli.reading import ReadingOptions
from service.cli.support import fail
from service.cli.uploads import send_file

if TYPE_CHECKING:
    from service.cli.client import Connection


def dataset_of(client: Connection, named: str, format: str | None, options: ReadingOptions, kind: list[str]) -> str:
    """Return the id of a data set; a file is uploaded, unless the service has the same one, read by these options."""
    from service.cli.client_uploads import sha256_of

    file = Path(named)
    if not file.is_file():
        if file.is_dir():
            fail(f"{named} is a folder; one of mails can be packed: tar czf mails.tar.gz -C {shlex.quote(named)} .")
        if not named.startswith(("ds_", LAST)):
            fail(f"there is no file {named}; a data set is named by its id: prefsvm datasets")
        if options or format is not None:
            raise typer.BadParameter("how a file is read is said with the file; a data set has been read")
        RUNNING.dataset = full_id(client, "/datasets", named)
        return RUNNING.dataset
    kinds = kinds_of(kind)
    there = _same_file(client, sha256_of(file), format, options, kinds.get("columns", {}))
    if there is not None:
        said = "".join(f", {name!r} read as {each}" for name, each in there["options"].get("columns", {}).items())
        print_notes([f"{file} is there as {there['id']}{said}"])
        return str(there["id"])
    made = send_file(client, file, None, format, {**options, **kinds})
    print_notes([f"{file} is {made['id']}, {made['rows']:,} rows", *made["warnings"]])
    return str(made["id"])


def _same_file(
    client: Connection, digest: str, format: str | None, options: ReadingOptions, kinds: dict[str, str]
) -> dict[str, Any] | None:
    """Return the data set of a file that was read by these options; where no kinds are asked for, a corrected one."""
    others: list[dict[str, Any]] = []
    for each in client.items("/datasets"):
        if each["sha256"] != digest or each["options"] != options or format not in (None, each["format"]):
            continue
        found: dict[str, Any] = client.get(f"/datasets/{each['id']}")
        if found["options"].get("columns", {}) == kinds:
            return found
        others.append(found)
    return others[0] if others and not kinds else None


def kinds_of(kind: list[str]) -> dict[str, Any]:
    """Return what columns are, as an option of uploads."""
    from service.cli.client import parse_params

    try:
        return {"columns": parse_params(kind)} if kind else {}
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None

"""``prefsvm uploads``, and the progress bar of a big file: it is sent in parts, and goes on where it was cut off.

Imports are inside: ``prefsvm --help`` must not wait for what it does not need.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.advice import in_flags
from service.cli.names import full_id, path_of
from service.cli.support import DEFAULT_URL, Url, fail, interruptible, open_client, print_table, short_time

if TYPE_CHECKING:
    from service.cli.client import Connection

uploads_app = typer.Typer(help="Big files that arrive in parts, and are data sets once they are complete.")


UploadId = Annotated[str, typer.Argument(help="Id of the upload (up_…).")]


class UploadStatus(StrEnum):
    """What an upload may be at."""

    RECEIVING = "receiving"
    RECEIVED = "received"
    READY = "ready"
    FAILED = "failed"


@uploads_app.command("list")
def uploads_list(
    status: Annotated[
        UploadStatus | None, typer.Option(help="Only those that wait for more, are read, are data sets, or failed.")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """List uploads that have not expired, newest first."""
    with open_client(url) as client:
        _print_uploads(list(client.items("/uploads" + ("" if status is None else f"?status={status}"))))


@uploads_app.command("show")
def uploads_show(upload: UploadId, url: Url = DEFAULT_URL) -> None:
    """Show how much of a file has arrived, and what became of it."""
    with open_client(url) as client:
        _print_uploads([client.get(path_of(client, "/uploads", upload))])


def _print_uploads(found: list[dict[str, Any]]) -> None:
    rows = [
        (
            each["id"],
            each["status"],
            f"{each['received']} of {each['bytes']}",
            short_time(each["expires_at"]),
            each["metadata"].get("name") or each["metadata"].get("filename", ""),
            each["dataset_id"] or in_flags((each["error"] or {}).get("detail", "")),
        )
        for each in found
    ]
    print_table("", ("upload", "status", "bytes", "kept until", "name", "data set"), rows, below=2)


@uploads_app.command("delete")
def uploads_delete(upload: UploadId, url: Url = DEFAULT_URL) -> None:
    """Throw away what has arrived of a file; a data set that was made of it stays."""
    from service.cli.client_uploads import TUS

    with open_client(url) as client:
        client.delete(path_of(client, "/uploads", upload := full_id(client, "/uploads", upload)), headers=TUS)
    print(f"{upload} is deleted")


def send_file(client: Connection, file: Path, name: str | None, format: str | None, options: Mapping[str, Any]) -> Any:
    """Send a file and return the data set that it became; a big one in parts, behind a progress bar."""
    from service.cli.client_uploads import RESUMABLE_BYTES, upload_in_parts

    if not file.is_file():
        fail(f"{file} is a pipe or a device, of which nobody knows how much will come: write it into a file first")
    size = file.stat().st_size
    from rich.console import Console

    if size < RESUMABLE_BYTES:
        with Console(stderr=True).status(f"sending and reading {file.name}"):  # on a terminal only
            return client.upload(file, name=name, format=format, options=options)

    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    shown = (TextColumn("{task.description:<12}"), BarColumn(40), DownloadColumn(), TransferSpeedColumn())
    with (
        interruptible("what has arrived is kept for a while: the same command again sends the rest"),
        Progress(*shown, console=Console(stderr=True)) as bar,
    ):
        task = bar.add_task("sending", total=size)

        def progress(what: str, arrived: int) -> None:
            bar.update(task, description=what, completed=arrived)

        return upload_in_parts(client, file, name=name, format=format, options=options, progress=progress)

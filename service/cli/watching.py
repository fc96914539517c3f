"""``prefsvm status``, ``metrics`` and ``batches``: how the service does, and what became of batches."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from service.cli.advice import print_failure, print_notes
from service.cli.names import path_of
from service.cli.support import DEFAULT_URL, Url, download, fail, open_client, print_table, short_time
from solver import percents

BatchId = Annotated[str, typer.Argument(help="Id of the batch (job_…).")]
batches_app = typer.Typer(help="Predictions of whole data sets (prefsvm batch).")


def status(url: Url = DEFAULT_URL) -> None:
    """Show whether the service is ready, and each part of it; exit code 1 when it is not."""
    with open_client(url) as client:
        found = client.readiness()
    rows = [(name, "ok" if check["ok"] else "not ok", check["detail"]) for name, check in found["checks"].items()]
    print_table("", ("part", "", ""), rows)
    if found["workers"] is not None:
        print(f"workers that listen: {found['workers']}")
    if not found["ready"]:
        fail("not ready")


def metrics(url: Url = DEFAULT_URL) -> None:
    """Print the figures of the service, as Prometheus takes them."""
    with open_client(url) as client:
        download(client, "/metrics", None)


@batches_app.command("list")
def batches_list(url: Url = DEFAULT_URL) -> None:
    """List batches, newest first."""
    with open_client(url) as client:
        _print_batches(list(client.items("/batches")))


@batches_app.command("show")
def batches_show(batch: BatchId, url: Url = DEFAULT_URL) -> None:
    """Show how far a batch is, and what came out."""
    with open_client(url) as client:
        found = client.get(path_of(client, "/batches", batch))
    _print_batches([found])
    print_failure(found)
    if found["result"]:
        labels = ", ".join(f"{rows} {label}" for label, rows in found["result"]["labels"].items())
        undecided = found["result"].get("undecided", 0)
        labels += f", {undecided} undecided" if undecided else ""
        part = found["result"].get("threshold_probability")
        print(f"{found['result']['rows']} rows: {labels}" + (f"; threshold at probability {part:.3g}" if part else ""))
        print_notes(found["result"]["warnings"], sys.stdout)


@batches_app.command("cancel")
def batches_cancel(batch: BatchId, url: Url = DEFAULT_URL) -> None:
    """Cancel a batch."""
    with open_client(url) as client:
        _print_batches([client.post(f"{path_of(client, '/batches', batch)}/cancel")])


@batches_app.command("result")
def batches_result(
    batch: BatchId,
    out: Annotated[Path | None, typer.Option(help="File to write.", show_default="standard output")] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Write the predictions of a batch that has succeeded."""
    with open_client(url) as client:
        download(client, f"{path_of(client, '/batches', batch)}/result", out)


def _print_batches(found: list[dict[str, Any]]) -> None:
    rows = [
        (
            b["id"],
            b["status"],
            percents.done(b["progress"]),
            short_time(b["created_at"]),
            b["model"],
            b["dataset"],
        )
        for b in found
    ]
    print_table("", ("batch", "status", "done", "created", "model", "data set"), rows, below=2)

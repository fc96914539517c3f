"""``prefsvm feedback`` and ``retrain``, and what concerns the shadow of an alias."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from service.cli.advice import print_notes
from service.cli.models import print_outcome
from service.cli.names import full_id, path_of
from service.cli.reading import OF_ROWS, UNSAID, ReadingOptions, open_csv, says_how_to_read
from service.cli.support import DEFAULT_URL, Url, fail, open_client, print_table, short_time, wait_for
from service.cli.words import UNDECIDED
from service.ingest.labels import composed, contradiction, number_label, shortened
from solver import percents

if TYPE_CHECKING:
    from service.cli.client import Connection
    from service.cli.csv_rows import Piece

feedback_app = typer.Typer(help="Corrected rows, which the next training of an alias learns.")
AliasName = Annotated[str, typer.Argument(help="The alias.")]
AliasPolicyOption = Annotated[
    str | None,
    typer.Option(
        help="When the alias leaves the model that it points at: if_not_worse, if_met or always.",
        show_default="if_not_worse; of a retraining that of the training before",
    ),
]


@feedback_app.command("add")
@says_how_to_read(OF_ROWS)
def feedback_add(
    alias: AliasName,
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="CSV file.")],
    label: Annotated[str, typer.Option(help="Column that holds the right labels.")] = "label",
    dataset: Annotated[
        str | None, typer.Option(help="Data set that has the rows, which FILE then names by their keys (--key).")
    ] = None,
    key: Annotated[str, typer.Option(help="With --dataset: column of FILE that holds the keys.")] = "key",
    random: Annotated[
        bool,
        typer.Option("--random", help="Chance alone chose the rows: thresholds and intervals may rest on them, too."),
    ] = False,
    reading: ReadingOptions = UNSAID,
    url: Url = DEFAULT_URL,
) -> None:
    """Send the rows of a CSV file with their right labels, and print the id of each thousand."""
    with open_client(url) as client, open_csv(client, alias, file, reading) as rows:
        if label not in rows.header:
            fail(f"the file has no column {label!r}; --label names the one that holds the right labels")
        print_notes(rows.warnings)
        at = rows.header.index(label)
        to = {"alias": alias, "drawn": "random" if random else "chosen"}
        if dataset is not None:
            if key not in rows.header:
                fail(f"the file has no column {key!r}; --key names the one that holds the keys of the rows")
            body = {**to, "dataset": full_id(client, "/datasets", dataset)}
            key_at = rows.header.index(key)
            # All of them first: what contradicts itself is refused whole, and not its last thousand only.
            pieces = [
                (piece, [composed(row[key_at]) for row in piece.rows], [row[at] for row in piece.rows])
                for piece in rows.pieces()
            ]
            keys = [key for _, some, _ in pieces for key in some]
            labels = [given for _, _, some in pieces for given in some]
            places = contradiction(keys, list(map(number_label, labels)))
            if places is not None:
                named, (first, second) = shortened(keys[places[0]]), (labels[place] for place in places)
                fail(f"the file gives key {named} the labels {first!r} and {second!r}; leave one label for each key")
            _send(client, ((piece, {**body, "keys": keys, "labels": labels}) for piece, keys, labels in pieces))
            return

        def labelled(piece: list[list[str]]) -> dict[str, Any]:
            sent = [rows.as_sent(row, without=label) for row in piece]
            return {"rows": sent, "labels": [row[at] for row in piece]}

        _send(client, ((piece, {**to, **labelled(piece.rows)}) for piece in rows.pieces()))


def _send(client: Connection, requests: Iterable[tuple[Piece, dict[str, Any]]]) -> None:
    """Send piece after piece of a file; what was sent before one is refused is kept, and that is said."""
    from service.cli.client import ClientError

    sent: list[str] = []
    try:
        for piece, body in requests:
            with piece.errors_by_line():
                sent.append(client.post("/feedback", body)["id"])
            print(sent[-1])
    except ClientError as error:
        if sent:
            back = "; ".join(f"prefsvm feedback delete {each}" for each in sent)
            error.args = (f"{error}\nWhat stands before is kept. Before you send the file again, take it back: {back}",)
        raise


@feedback_app.command("list")
def feedback_list(
    alias: Annotated[str | None, typer.Argument(help="The alias.", show_default="all of them")] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """List what was sent, newest first."""
    with open_client(url) as client:
        found = list(client.items("/feedback" + (f"?alias={quote(alias, safe='')}" if alias else "")))
    _print_feedback(found)


@feedback_app.command("show")
def feedback_show(
    feedback: Annotated[str, typer.Argument(help="Id of the feedback (fb_…).")], url: Url = DEFAULT_URL
) -> None:
    """Show what was sent at one time."""
    with open_client(url) as client:
        _print_feedback([client.get(path_of(client, "/feedback", feedback))])


def _print_feedback(found: list[dict[str, Any]]) -> None:
    rows = [
        (f["id"], f["rows"], short_time(f["created_at"]), f["alias"],
         ", ".join(f"{n} {name}" for name, n in f["labels"].items()))
        for f in found
    ]  # fmt: skip
    print_table("", ("feedback", "rows", "created", "alias", "labels"), rows, below=2)


@feedback_app.command("delete")
def feedback_delete(
    feedback: Annotated[str, typer.Argument(help="Id of the feedback (fb_…).")], url: Url = DEFAULT_URL
) -> None:
    """Delete feedback: later trainings do without it."""
    with open_client(url) as client:
        client.delete(path_of(client, "/feedback", feedback := full_id(client, "/feedback", feedback)))
    print(f"{feedback} is deleted")


def retrain(
    alias: AliasName,
    alias_policy: AliasPolicyOption = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end behind a progress bar.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Train once more what an alias points at, with all feedback for it; the alias moves if its policy lets it."""
    with open_client(url) as client:
        job = client.post(
            f"/aliases/{quote(alias, safe='')}/retrain", {"alias_policy": alias_policy} if alias_policy else None
        )
        print(job["id"])
        if not wait:
            return
        print_outcome(client, wait_for(client, job))


def alias_shadow(
    alias: AliasName,
    latest: Annotated[int, typer.Option(min=1, max=100, help="How many of the last disagreements.")] = 10,
    url: Url = DEFAULT_URL,
) -> None:
    """Show how the shadow of an alias would have answered."""
    with open_client(url) as client:
        found = client.get(f"/aliases/{quote(alias, safe='')}/shadow?limit={latest}")
    share = "" if found["disagreement_share"] is None else f" ({percents.measured(found['disagreement_share'])})"
    print(f"{found['disagreements']} of {found['rows']} rows differ{share}; {found['dropped']} dropped, ", end="")
    print(f"{found['failed']} do not fit")
    pairs = [(pair["label"] or UNDECIDED, pair["shadow_label"] or UNDECIDED, pair["rows"]) for pair in found["pairs"]]
    print_table(f"{found['model_id']} and its shadow {found['shadow_id']}", ("answered", "shadow", "rows"), pairs)
    rows = [
        (short_time(d["created_at"]), d["label"] or UNDECIDED, f"{d['score']:.4g}", d["shadow_label"] or UNDECIDED,
         f"{d['shadow_score']:.4g}", d["row_sha256"])
        for d in found["latest"]
    ]  # fmt: skip
    if rows:
        print_table("last disagreements", ("time", "answered", "score", "shadow", "score", "SHA-256"), rows, below=1)

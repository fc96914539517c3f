"""``prefsvm queue``: which rows to label next, in the terminal or by a CSV file out and in."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from service.cli.advice import print_notes
from service.cli.looking import KEYS, Answered, answers, ask_key, errors_by_line, print_row, write_rows
from service.cli.names import path_of
from service.cli.support import DEFAULT_URL, Url, fail, interruptible, open_client, print_table, published, table_width
from service.cli.words import UNDECIDED

if TYPE_CHECKING:
    from service.cli.client import Connection

WHY = {
    "random": "drawn by chance: its label counts for thresholds and intervals, too",
    "unsure": "the model is least sure of rows like it",
    "close": "close to a labelled row or one before it; nothing else tells more",
    "new": "no label is near it",
}
NOTHING = {
    "improve": "each row of the list has an answer: prefsvm retrain learns them, and makes a new list",
    "suspicious": "no label looks wrong, or each that did has an answer",
    "mistakes": "the threshold in use calls no such row otherwise, or each has an answer",
}
"""What is said where a list is empty and the service does not say why."""
LABELLED = {
    "suspicious": "labels that look wrong",
    "mistakes": "labels that look wrong, where the threshold in use calls the row otherwise",
}
"""Lists of rows that have a label, and what stands over them."""
LEAST_SHOWN, LONGEST_KEY = 20, 20
"""Characters, at least of what a row holds and at most of its key, in the table."""


def queue(
    model: Annotated[str, typer.Argument(help="Alias or id (mdl_…) of the model.")],
    purpose: Annotated[
        Literal["improve", "suspicious", "mistakes"],
        typer.Option(
            help="Rows to label next, labelled rows whose label looks wrong, or those of them that the threshold in "
            "use calls otherwise."
        ),
    ] = "improve",
    n: Annotated[int, typer.Option("--rows", "-n", min=1, max=100, help="Rows, at most.")] = 20,
    ask: Annotated[
        bool, typer.Option("--ask", help="Show row after row, and take the keys y and n, of several classes 1 to 9.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the rows to a CSV file with a column 'answer'.")] = None,
    labels: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Send the answers of such a file as feedback.")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Show which rows to label next and why. Labels become feedback, which prefsvm retrain learns."""
    with open_client(url) as client:
        path = path_of(client, "/models", model)
        if labels is not None:
            alias, classes = _learner(client, path, model)
            _send_file(client, labels, alias, classes, model)
            return
        found = client.get(f"{path}/queue?purpose={purpose}&n={n}")
        print_notes(found["warnings"])
        if out is not None:
            # with the data set that the numbers are of: until the file comes back the name may have moved
            items = ({**item, "dataset": found["dataset"]} for item in found["items"])
            with published(out) as sink:
                written = write_rows(items, ("label", "drawn", "dataset", "reason", "score", "probability"), sink)
            print(f"{written} rows are in {out}; fill in 'answer', and then")
            print(f"prefsvm queue {model} --labels {out}")
        elif not found["items"]:
            if not found["warnings"]:  # which say why
                print(NOTHING[purpose])
        elif ask:
            alias, classes = _learner(client, path, model)
            _look(client, found["items"], {"alias": alias, "dataset": found["dataset"]}, classes)
        else:
            _print(found, client.get(path_of(client, "/models", found["model"])))


def _learner(client: Connection, path: str, model: str) -> tuple[str, list[str]]:
    """Return the name that feedback goes to, and the classes of its model, of two the negative one first."""
    shown = client.get(path)
    if model not in shown["aliases"] and not shown["aliases"]:
        fail(f"labels are kept for an alias, and none points at {shown['id']}: prefsvm aliases set NAME {shown['id']}")
    classes = shown["report"]["classes"]
    named = classes if isinstance(classes, list) else [classes["negative"], classes["positive"]]
    return model if model in shown["aliases"] else str(shown["aliases"][0]), named


def _look(client: Connection, items: list[dict[str, Any]], to: dict[str, str], classes: list[str]) -> None:
    """Show row after row, and send each answer at once."""
    by_key = dict(zip("ny" if len(classes) == 2 else "123456789", classes, strict=False))
    said = [f"{key}: it is {label}" for key, label in by_key.items()]
    print(", ".join([*(reversed(said) if len(classes) == 2 else said), KEYS]))
    if len(classes) > len(by_key):
        print("the other classes have no key: --out writes a file that takes them")
    question = f"{classes[1]}? " if len(classes) == 2 else "which? "
    sent = 0
    with interruptible(f"{to['alias']} keeps the answers"):
        for item in items:
            print_row(item, item["reason"])
            key = ask_key(question, "".join(by_key))
            if key == "q":
                break
            if key == "s":
                continue
            client.post("/feedback", {**to, "numbers": [item["row"]], "labels": [by_key[key]], "drawn": item["drawn"]})
            sent += 1
    _say_sent(sent, to["alias"])


def _send_file(client: Connection, file: Path, alias: str, classes: list[str], model: str) -> None:
    sent = 0
    try:
        for given in answers(file, classes, f"prefsvm queue {model} --out FILE", ("drawn", "dataset")):
            alike: dict[tuple[str, ...], list[Answered]] = defaultdict(list)
            for each in given:
                alike[each.more].append(each)
            for (drawn, dataset), some in alike.items():
                body = {"numbers": [each.row for each in some], "labels": [each.label for each in some]}
                with errors_by_line(some):
                    client.post("/feedback", {**body, "alias": alias, "drawn": drawn, "dataset": dataset})
                sent += len(some)
    finally:
        _say_sent(sent, alias)


def _say_sent(sent: int, alias: str) -> None:
    print(f"{sent} labels sent" + (f"; prefsvm retrain {alias} learns them" if sent else ""))


def _print(found: dict[str, Any], model: dict[str, Any]) -> None:
    """Print a line a row: what it holds first, as much as the terminal has room for."""
    classes, is_labelled = model["report"]["classes"], found["purpose"] != "improve"
    # of several classes a probability is that of the label, or of what the model is nearest to
    positive = None if isinstance(classes, list) else classes["positive"]
    columns = ("label", "its probability", "row") if is_labelled else ("called", "probability", "why", "row")
    cells = []
    for item in found["items"]:
        part = item["probability"]
        if part is not None and is_labelled and positive is not None and item["label"] != positive:
            part = 1 - part
        why = () if is_labelled else (_why(item),)
        key = "" if item["key"] is None else f" ({_cut(item['key'], LONGEST_KEY)})"
        cells.append((item["label"] or UNDECIDED, "" if part is None else f"{part:.2f}", *why, f"{item['row']}{key}"))
    beside = sum(max(map(len, column)) + 2 for column in zip(columns, *cells, strict=True))
    room = max(LEAST_SHOWN, table_width() - beside)
    rows = [(_cut(_held(item), room), *cell) for item, cell in zip(found["items"], cells, strict=True)]
    threshold = (model.get("abstain_probabilities") or {"upper": model.get("threshold_probability")})["upper"]
    said = "" if threshold is None else f"; {positive!r} is said from a probability of {threshold:.2g} on"
    print_table(LABELLED.get(found["purpose"], f"rows to label next{said}"), ("holds", *columns), rows)
    if is_labelled:
        print("its probability is that of the label, by models that have not seen it")
    for word in dict.fromkeys(cell[2] for cell in cells if not is_labelled):
        print(f"{word}: {WHY[word]}")


def _why(item: dict[str, Any]) -> str:
    """Return the word for why a row is to be labelled."""
    if item["drawn"] == "random":
        return "random"
    if "least sure" in item["reason"]:
        return "unsure"
    return "close" if "it is close to" in item["reason"] else "new"


def _held(item: dict[str, Any]) -> str:
    """Return what a row holds; a single value without the name of its column."""
    held = {name: value for name, value in item["content"].items() if value is not None}
    return ", ".join(str(value) if len(item["content"]) == 1 else f"{name}: {value}" for name, value in held.items())


def _cut(text: str, most: int) -> str:
    shown = "".join(c if c.isprintable() else " " for c in text[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"

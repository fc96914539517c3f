"""``prefsvm …``: run the product, and talk to a running one over HTTP.

Imports are inside the commands: ``prefsvm --help`` must not wait for what it does not need.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.administration import keys_app, projects_app, webhooks_app
from service.cli.advice import RUNNING, columns_left_out, in_flags, print_notes
from service.cli.audits import audit, audits_app
from service.cli.encoders import encoder_app
from service.cli.groups import Commands, Listing, NamedByOut, WithShow
from service.cli.improving import AliasPolicyOption, feedback_app, retrain
from service.cli.mail import mail_app
from service.cli.models import jobs, models, print_outcome
from service.cli.named_files import dataset_of, kinds_of
from service.cli.names import full_id
from service.cli.queue import queue
from service.cli.reading import OF_ROWS, UNSAID, Format, Kind, ReadingOptions, open_csv, says_how_to_read
from service.cli.reasons import print_reasons
from service.cli.resources import (
    aliases_app,
    curve,
    datasets_app,
    download_card,
    download_model,
    drift,
    follow,
    retry,
    threshold,
)
from service.cli.support import (
    DEFAULT_URL,
    AbstainOption,
    CertificateOption,
    Url,
    by_suffix,
    fail,
    open_client,
    print_table,
    published,
    read_settings,
    wait_for,
)
from service.cli.threshold_note import ThresholdNote
from service.cli.uploads import send_file, uploads_app
from service.cli.watching import batches_app, metrics, status
from service.cli.words import UNDECIDED
from service.ingest.options import FORMATS, PACKED, DelimitedOptions
from solver.algorithms import ALGORITHMS

if TYPE_CHECKING:
    from service.cli.client import Connection

FIRST, LOOK, RUN = "Training and predicting", "What is there", "Running the service"
"""Parts of the list of commands."""
app = typer.Typer(
    cls=Commands,
    help="Train classifiers from few labelled and many unlabelled examples to a precision, recall or cost target. "
    "The commands speak with a running service: prefsvm serve starts one on this machine; PREFSVM_URL or --url says "
    "where another one is, PREFSVM_API_KEY holds the key if it asks for one.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

OBJECTIVES = (
    "precision=0.9, recall=0.95, precision_recall=0.9:0.8, false_positive_rate=0.001 (or ham_loss=0.001: at most this "
    "share of the others is flagged), f1, f_beta=2, or cost=5:1 (of a false negative and of a false positive); of "
    "three classes and more macro_f1 or accuracy; or JSON, as POST /train takes it."
)
NO_ROWS_OF_TEXT = frozenset(
    (
        *(".json", *PACKED),
        *(ending for each in FORMATS.values() if each.options is not DelimitedOptions for ending in each.extensions),
    )
)
"""Suffixes of files that can be uploaded, or not even that, but whose rows `predict` does not read."""

LOOKED_AT_BYTES = 1 << 20
"""Of a file, for whether it holds mails."""


# --- running the product -------------------------------------------------------------------------------------------


def serve(
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder for all data.", show_default="$PREFSVM_DATA_DIR or prefsvm-data")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on; keys are needed on one beyond loopback.", show_default="127.0.0.1"),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on; 0 takes a free one.", show_default="8000")
    ] = None,
) -> None:
    """Run everything on this machine until Ctrl-C: Postgres, Redis, dispatcher, worker, API."""
    from service.isolation import hide_secrets
    from service.local.serve import LocalStack
    from service.local.servers import ServerError

    # The key of the first admin is in the environment of this process, which children of its parts could read.
    hide_secrets()
    given = {"data_dir": data_dir, "host": host, "port": port}
    settings = read_settings(**{name: value for name, value in given.items() if value is not None})
    try:
        LocalStack(settings, say=lambda line: print(line, flush=True)).run()
    except (ServerError, OSError) as error:
        fail(str(error))


def migrate() -> None:
    """Bring the database at PREFSVM_DATABASE_URL to this version."""
    settings = read_settings()
    if settings.database_url is None:
        fail("set PREFSVM_DATABASE_URL to the address of the database; prefsvm serve migrates its own by itself")
    from service.db.migrate import head, upgrade

    upgrade(settings.database_url)
    print(f"the database is at revision {head()}")


def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    print(installed("prefsvm"))


@app.command(rich_help_panel=FIRST)
def example(
    training: Annotated[Path, typer.Argument(help="CSV file to write: rows to train on.")],
    test: Annotated[Path, typer.Argument(help="JSON file to write: a body for POST /predict, model `tumours`.")],
    truth: Annotated[
        Path | None, typer.Option(help="CSV file to write: what each row of the first one is, by its number from 0.")
    ] = None,
) -> None:
    """Write a small real data set to play with: 569 breast tumours, most labels removed."""
    import json

    from solver.examples import TARGET, breast_tumours

    tumours = breast_tumours()
    if truth is not None:
        lines = [f"{row},{label}" for row, label in enumerate(tumours.training_labels)]
        truth.write_text("\n".join([f"row,{TARGET}", *lines]) + "\n")
    training.write_text(tumours.training_csv)
    test.write_text(json.dumps({"model": "tumours", "rows": tumours.test_rows}))
    print(f"{training}: {tumours.training_csv.count(chr(10)) - 1} rows, {tumours.labelled} with a label in {TARGET!r}")
    print(f"{test}: {len(tumours.test_rows)} rows")


# --- talking to a running one ----------------------------------------------------------------------------------------


@app.command(rich_help_panel=FIRST)
@says_how_to_read()
def upload(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="The data.")],
    name: Annotated[str | None, typer.Option(help="Name of the data set.", show_default="of the file")] = None,
    kind: Kind = [],  # noqa: B006
    format: Format = None,
    reading: ReadingOptions = UNSAID,
    url: Url = DEFAULT_URL,
) -> None:
    """Upload a data set and print its id and columns; where that of a big file was cut off, it goes on."""
    with open_client(url) as client:
        dataset = send_file(client, file, name, format, {**reading, **kinds_of(kind)})
    RUNNING.dataset = dataset["id"]
    print(dataset["id"])
    rows = [(c["name"], c["kind"], c["missing"], _distinct(c)) for c in dataset["columns"]]
    print_table(f"{dataset['rows']:,} rows", ("column", "kind", "missing", "distinct"), rows)
    print_notes([*columns_left_out(dataset), *dataset["warnings"]], sys.stdout)


def _distinct(column: dict[str, Any]) -> str:
    if column["distinct"] is None:
        return ""
    return f">{column['distinct'] - 1}" if column["distinct_capped"] else str(column["distinct"])


@app.command(rich_help_panel=FIRST)
@says_how_to_read()
def train(
    dataset: Annotated[
        str, typer.Argument(help="A file, which is uploaded unless the service has it; or a data set (ds_…).")
    ],
    target: Annotated[str, typer.Option(help="Column with the labels.")],
    labels_from: Annotated[
        str | None,
        typer.Option(
            help="Another file or data set that has the labels; --key names the column by which rows find theirs.",
            show_default="the data itself",
        ),
    ] = None,
    labels_key: Annotated[
        str | None,
        typer.Option(help="Column with the keys in --labels-from.", show_default="called as --key says"),
    ] = None,
    objective: Annotated[str | None, typer.Option(help=f"{OBJECTIVES} Required.")] = None,
    positive: Annotated[
        str | None,
        typer.Option(
            help="The class that the objective speaks of.", show_default="1, where the labels are 0/1 or -1/+1"
        ),
    ] = None,
    scheme: Annotated[
        str | None,
        typer.Option(
            help="Of three classes and more: one_vs_one (a problem of two for each pair) or one_vs_rest.",
            show_default="one_vs_one",
        ),
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="Probability with which the target shall hold on new rows.")
    ] = None,
    certificate: CertificateOption = None,
    abstain: AbstainOption = None,
    unlabeled: Annotated[list[str], typer.Option(help="Label that means 'not known'; may be repeated.")] = [],  # noqa: B006
    negative: Annotated[
        list[str],
        typer.Option(help="Label of the negative class; may be repeated, naming them all.", show_default="all others"),
    ] = [],  # noqa: B006
    fold_labels: Annotated[
        bool,
        typer.Option(
            "--fold-labels", help="Labels that differ in capitals, blanks or how a number is written are one."
        ),
    ] = False,
    keep_labels: Annotated[
        int | None, typer.Option(help="For experiments: keep so many labels and blank the others.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Column that names the rows: no feature, it comes back with the predictions.")
    ] = None,
    include: Annotated[list[str], typer.Option(help="Column to learn from; may be repeated.", show_default="all")] = [],  # noqa: B006
    exclude: Annotated[list[str], typer.Option(help="Column to leave out; may be repeated.")] = [],  # noqa: B006
    kind: Kind = [],  # noqa: B006
    missing_values: Annotated[
        str, typer.Option(help="What becomes of missing values: indicate, impute, drop or error.")
    ] = "indicate",
    text: Annotated[
        list[str],
        typer.Option(
            help="Option of texts: encoder=words (or the name of one), words=2 (pairs, too), characters=0 (no parts of "
            "words), max_terms=50000 or min_rows=2; may be repeated."
        ),
    ] = [],  # noqa: B006
    keep_no_words: Annotated[
        bool, typer.Option("--keep-no-words", help="Let report and explanations name no words of texts.")
    ] = False,
    algorithm: Annotated[str, typer.Option(help=f"{', '.join(ALGORITHMS)}.")] = "auto",
    param: Annotated[list[str], typer.Option(help="Parameter of the algorithm, name=value; may be repeated.")] = [],  # noqa: B006
    test_fraction: Annotated[
        float | None, typer.Option(help="Share of the labelled rows to hold out.", show_default="0.2")
    ] = None,
    no_refit: Annotated[
        bool, typer.Option("--no-refit", help="Keep the model that the held-out rows measured: do not learn from them.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    alias: Annotated[str | None, typer.Option(help="Name that shall point at the model.")] = None,
    alias_policy: AliasPolicyOption = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(help="Longest time of the training, in seconds.", show_default="the most that the service allows"),
    ] = None,
    no_feedback: Annotated[
        bool, typer.Option("--no-feedback", help="Do not learn from the feedback for the alias.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say whether it would be taken, and what it would need.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end behind a progress bar.")] = False,
    format: Format = None,
    reading: ReadingOptions = UNSAID,
    url: Url = DEFAULT_URL,
) -> None:
    """Train a model on a file or data set and print the id of the job, and with --wait what came out."""
    from service.cli.client import parse_objective, parse_params

    if objective is None:
        raise typer.BadParameter(f"--objective is needed: {OBJECTIVES}")
    labels: dict[str, Any] = {
        **({"fold": True} if fold_labels else {}),
        **({"key": labels_key} if labels_key is not None else {}),
        **({"keep": keep_labels} if keep_labels is not None else {}),
    }
    try:
        body: dict[str, Any] = {
            "target": target,
            "objective": parse_objective(objective, confidence, certificate, abstain),
            "algorithm": algorithm,
            "params": parse_params(param),
            "unlabeled": unlabeled,
            **({"negative": negative} if negative else {}),
            "features": {
                "include": include or None,
                "exclude": exclude,
                # A kind of the target or of the key says how the file is read: neither is a feature.
                "kinds": {name: each for name, each in parse_params(kind).items() if name not in (target, key)},
                "missing": missing_values,
                "text": parse_params(text),
                **({"keep_words": False} if keep_no_words else {}),
            },
            "seed": seed,
            "feedback": not no_feedback,
            **({"refit": False} if no_refit else {}),
        }
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    optional = {
        "positive": positive,
        "scheme": scheme,
        "key": key,
        "test_fraction": test_fraction,
        "alias": alias,
        "alias_policy": alias_policy,
        "max_seconds": max_seconds,
    }
    body |= {name: value for name, value in optional.items() if value is not None}
    with open_client(url) as client:
        body["dataset"] = dataset_of(client, dataset, format, reading, kind)
        if labels_from is not None:
            a_file = Path(labels_from).is_file()
            how = (format, reading) if a_file else (None, UNSAID)
            labels["dataset"] = dataset_of(client, labels_from, *how, [])
        body |= {"labels": labels} if labels else {}
        job = client.post("/train?dry_run=true" if dry_run else "/train", body)
        print_notes(job["warnings"])
        if dry_run:
            needs = job["estimate"]
            print(f"would be taken: about {needs['bytes'] / 2**20:.0f} MiB and {needs['seconds']:.3g} s")
            print(needs["how"])
            return
        print(job["id"])
        if not wait:
            return
        print_outcome(client, wait_for(client, job))


@app.command(rich_help_panel=FIRST)
@says_how_to_read(OF_ROWS)
def predict(
    model: Annotated[str, typer.Argument(help="Id of a model (mdl_…) or an alias.")],
    file: Annotated[Path | None, typer.Argument(dir_okay=False, readable=True, help="CSV file, or a mail.")] = None,
    text: Annotated[list[str], typer.Option(help="A text to decide on, instead of a file; may be repeated.")] = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option(help="File to write.", show_default="standard output")] = None,
    explain: Annotated[
        int | None,
        typer.Option(min=1, max=50, help="Say why: so many words or columns that weighed most, and labelled rows."),
    ] = None,
    reading: ReadingOptions = UNSAID,
    url: Url = DEFAULT_URL,
) -> None:
    """Predict the rows of a CSV file, one mail, or texts.

    Behind each row it writes prefsvm_label, prefsvm_score and, if there is one,
    prefsvm_probability, and with --explain prefsvm_why and prefsvm_nearest; of a
    mail or text a line with these alone.
    """
    from service.cli.csv_rows import predict_csv

    if file is None or text:
        if file is not None or not text:
            raise typer.BadParameter("say what to decide on: either a file, or --text 'some text'")
        with open_client(url) as client:
            asked = {} if explain is None else {"explain": explain}
            answer = client.post("/predict", {"model": full_id(client, "/models", model), "texts": text, **asked})
            _write_decisions(client, answer, out)
        return
    if not file.exists():
        fail(f"there is no file {file}; a text is given by --text")
    if file.suffix.lower() in NO_ROWS_OF_TEXT:
        raise typer.BadParameter(
            f"predict takes a CSV file or one mail, not {file.suffix}: "
            f"prefsvm batch {model} {file} --out answers.csv decides on its rows"
        )
    if file.suffix.lower() == ".eml" or _is_a_mail(file):
        with open_client(url) as client:
            answer = client.predict_mail(full_id(client, "/models", model), file.read_bytes(), explain)
            _write_decisions(client, answer, out)
        return

    with (
        open_client(url) as client,
        open_csv(client, model, file, reading) as rows,
        nullcontext(sys.stdout) if out is None else published(out) as sink,
    ):
        warnings = predict_csv(client, full_id(client, "/models", model), rows, sink, explain)
    print_notes(warnings)


def _is_a_mail(file: Path) -> bool:
    """Whether a file is a mail by what stands in it; a file of several ends the command."""
    from service.ingest.mbox import mails_in

    if file.suffix.lower() in (".csv", ".tsv", ".tab") or not file.is_file():  # a pipe can be read once
        return False
    with file.open("rb") as source:
        found = mails_in(source.read(LOOKED_AT_BYTES))
    if found > 1:
        raise typer.BadParameter(
            f"{file} holds several mails: prefsvm upload {file} --format mail makes a data set of them, which "
            "prefsvm batch decides on"
        )
    return found == 1


def _write_decisions(client: Connection, answer: dict[str, Any], out: Path | None) -> None:
    """Write label, score and, where there is one, probability of each mail or text in a line; to people, in words.

    In the place of a label that was not given stands `UNDECIDED`.
    """
    to_people = out is None and sys.stdout.isatty()
    with nullcontext(sys.stdout) if out is None else published(out) as sink:
        for decided in answer["predictions"]:
            if to_people:
                part = decided.get("probability")
                sure = "" if part is None else f"  probability {part:.2f}"
                print(f"{decided['label'] or UNDECIDED}  score {decided['score']:.3g}{sure}")
                if decided.get("explanation"):
                    print_reasons(decided["explanation"], None)
            else:
                said = {**decided, "label": decided["label"] or UNDECIDED}
                reasons = said.pop("explanation", None)
                print(*(value for value in said.values() if value is not None), file=sink)
                if reasons:
                    print_reasons(reasons, sink)
    threshold = ThresholdNote()
    threshold.count(answer)
    print_notes([*answer["warnings"], *threshold.said(client)])


@app.command(rich_help_panel=FIRST)
def batch(
    model: Annotated[str, typer.Argument(help="Id of a model (mdl_…) or an alias.")],
    dataset: Annotated[
        str, typer.Argument(help="A file, which is uploaded unless the service has it; or a data set (ds_…).")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write; waits for it behind a progress bar.", show_default="print the id of the batch"
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="csv, parquet or jsonl.",
            show_default="by the suffix of the file, csv if it has none",
        ),
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Predict a whole file or data set as a job: row, key (if there is one), label, score and probability of each."""
    if form is None:
        forms = {".csv": "csv", ".parquet": "parquet", ".jsonl": "jsonl"}
        form = by_suffix(out, forms, "csv", "; or say --format")
    with open_client(url) as client:
        named = {"model": full_id(client, "/models", model), "dataset": dataset_of(client, dataset, None, {}, [])}
        made = client.post("/batches", {**named, "format": form})
        if out is None:
            print(made["id"])
            return
        made = wait_for(client, made, "/batches")
        if made["status"] != "succeeded":
            reason = f": {in_flags(made['error']['message'])}" if made["error"] else ""
            fail(f"the batch ended as {made['status']}{reason}")
        with published(out, binary=True) as sink:
            client.download(f"/batches/{made['id']}/result", sink)
    print_notes(made["result"]["warnings"])


# --- of this file and others, in the order of the help ---------------------------------------------------------------


app.command("jobs", cls=WithShow, rich_help_panel=LOOK)(jobs)
app.command("models", cls=WithShow, rich_help_panel=LOOK)(models)
app.command("retry", rich_help_panel=LOOK)(retry)
app.command("audit", rich_help_panel=FIRST)(audit)
app.command("queue", rich_help_panel=FIRST)(queue)
app.command("retrain", rich_help_panel=FIRST)(retrain)
app.command("follow", rich_help_panel=LOOK)(follow)
app.command("threshold", rich_help_panel=FIRST)(threshold)
app.command("curve", cls=NamedByOut, rich_help_panel=LOOK)(curve)
app.command("drift", rich_help_panel=LOOK)(drift)
app.command("card", rich_help_panel=LOOK)(download_card)
app.command("export", rich_help_panel=LOOK)(download_model)
app.command("serve", rich_help_panel=RUN)(serve)
app.command("status", rich_help_panel=RUN)(status)
app.command("metrics", rich_help_panel=RUN)(metrics)
app.command("migrate", rich_help_panel=RUN)(migrate)
app.command("version", rich_help_panel=RUN)(version)
app.add_typer(datasets_app, name="datasets", cls=Listing, rich_help_panel=LOOK)
app.add_typer(batches_app, name="batches", cls=Listing, rich_help_panel=LOOK)
app.add_typer(mail_app, name="mail", cls=Commands, rich_help_panel=FIRST)
app.add_typer(audits_app, name="audits", cls=Listing, rich_help_panel=LOOK)
app.add_typer(uploads_app, name="uploads", cls=Listing, rich_help_panel=LOOK)
app.add_typer(aliases_app, name="aliases", cls=Listing, rich_help_panel=LOOK)
app.add_typer(feedback_app, name="feedback", cls=Listing, rich_help_panel=FIRST)
app.add_typer(encoder_app, name="encoder", rich_help_panel=RUN)
app.add_typer(webhooks_app, name="webhooks", cls=Listing, rich_help_panel=RUN)
app.add_typer(keys_app, name="keys", cls=Listing, rich_help_panel=RUN)
app.add_typer(projects_app, name="projects", cls=Listing, rich_help_panel=RUN)


def main() -> None:
    """Run the command line."""
    try:
        app()
    except ModuleNotFoundError as error:
        # The base installation is the estimators, the client and these commands.
        print(f"prefsvm: {error.name} is not installed: pip install 'prefsvm[local]'", file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()

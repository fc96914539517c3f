"""``prefsvm …``: run the product, and talk to a running one over HTTP.

Imports are inside the commands: ``prefsvm --help`` must not wait for what it does not need.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from service.client import Client
    from service.settings import Settings

app = typer.Typer(
    help="Train classifiers from few labelled and many unlabelled examples to a precision, recall or cost target.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

Url = Annotated[str, typer.Option(envvar="PREFSVM_URL", help="Address of a running prefsvm.")]
Delimiter = Annotated[
    str | None,
    typer.Option(
        help="Character between the values of a csv or tsv file; \\t is a tab.", show_default="comma; tab for .tsv"
    ),
]
Missing = Annotated[list[str], typer.Option(help="Value that means 'missing', such as NA; may be repeated.")]
ALGORITHM_NAMES = ("svm", "psvm", "cs4vm", "mean-s3vm", "tsvm", "ramp-tsvm", "lapsvm", "self-training")
"""Those of `solver.training.ALGORITHMS`, which a test compares; importing them would make the help slow."""
DEFAULT_URL = "http://127.0.0.1:8000"


# --- running the product -------------------------------------------------------------------------------------------


@app.command()
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
    from service.local.servers import ServerError
    from service.local.supervisor import Supervisor

    given = {"data_dir": data_dir, "host": host, "port": port}
    settings = _settings(**{name: value for name, value in given.items() if value is not None})
    try:
        Supervisor(settings, say=lambda line: print(line, flush=True)).run()
    except (ServerError, OSError) as error:
        _fail(str(error))


@app.command()
def migrate() -> None:
    """Bring the database at PREFSVM_DATABASE_URL to this version."""
    settings = _settings()
    if settings.database_url is None:
        _fail("set PREFSVM_DATABASE_URL to the address of the database; prefsvm serve migrates its own by itself")
    from service.db.migrate import head, upgrade

    upgrade(settings.database_url)
    print(f"the database is at revision {head()}")


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    print(installed("prefsvm"))


@app.command()
def example(
    training: Annotated[Path, typer.Argument(help="CSV file to write: rows to train on.")],
    test: Annotated[Path, typer.Argument(help="JSON file to write: a body for POST /predict, model `tumours`.")],
) -> None:
    """Write a small real data set to play with: 569 breast tumours, most labels removed."""
    import json

    from solver.examples import TARGET, breast_tumours

    tumours = breast_tumours()
    training.write_text(tumours.training_csv)
    test.write_text(json.dumps({"model": "tumours", "rows": tumours.test_rows}))
    print(f"{training}: {tumours.training_csv.count(chr(10)) - 1} rows, {tumours.labelled} with a label in {TARGET!r}")
    print(f"{test}: {len(tumours.test_rows)} rows")


@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(help="psvm or cs4vm.")],
    data: Annotated[Path, typer.Option(help="Folder with the papers' data sets as .npz files.")],
    quick: Annotated[bool, typer.Option("--quick", help="A smaller run, minutes on two cores.")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="Random draws.", show_default="by the paper")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results (JSON, Markdown).")] = Path("benchmarks/results"),
) -> None:
    """Run a paper's experiments again, its tables beside ours; exit code 1 when a required pattern is missed."""
    from solver.reproduction import PAPERS, DataError

    if paper not in PAPERS:
        raise typer.BadParameter(f"the papers are {', '.join(PAPERS)}; got {paper!r}")
    try:
        found = PAPERS[paper](data, quick=quick, seeds=seeds, say=lambda line: print(line, file=sys.stderr, flush=True))
    except DataError as error:
        _fail(str(error))
    print(found.to_markdown())
    for path in found.write(out, f"reproduce-{paper}{'-quick' if quick else ''}"):
        print(f"written: {path}")
    if not all(pattern.met for pattern in found.patterns):
        raise typer.Exit(1)


# --- talking to a running one ----------------------------------------------------------------------------------------


@app.command()
def upload(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="The data.")],
    name: Annotated[str | None, typer.Option(help="Name of the data set.", show_default="of the file")] = None,
    format: Annotated[
        str | None, typer.Option(help="csv, tsv, parquet, svmlight, npz.", show_default="by the file")
    ] = None,
    delimiter: Delimiter = None,
    missing: Missing = [],  # noqa: B006
    encoding: Annotated[str | None, typer.Option(help="Encoding of a csv or tsv file.", show_default="utf-8")] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Upload a data set and print its id and columns."""
    given = {"delimiter": delimiter, "missing": missing, "encoding": encoding}
    options = {option: value for option, value in given.items() if value}
    with _client(url) as client:
        dataset = client.upload(file, name=name, format=format, options=options)
    print(dataset["id"])
    rows = [(c["name"], c["kind"], c.get("missing", ""), c.get("distinct", "")) for c in dataset["columns"]]
    _table(f"{dataset['rows']:,} rows", ("column", "kind", "missing", "distinct"), rows)
    for warning in dataset["warnings"]:
        print(f"note: {warning}")


@app.command()
def train(
    dataset: Annotated[str, typer.Argument(help="Id of a data set (ds_…).")],
    target: Annotated[str, typer.Option(help="Column with the labels.")],
    objective: Annotated[
        str,
        typer.Option(
            help="precision=0.9, recall=0.95, precision_recall=0.9:0.8, f1, f_beta=2, or cost=5:1 (of a false negative "
            "and of a false positive)."
        ),
    ],
    positive: Annotated[
        str | None,
        typer.Option(
            help="The class that the objective speaks of.", show_default="1, where the labels are 0/1 or -1/+1"
        ),
    ] = None,
    confidence: Annotated[float | None, typer.Option(help="Probability with which the target shall hold.")] = None,
    unlabeled: Annotated[list[str], typer.Option(help="Label that means 'not known'; may be repeated.")] = [],  # noqa: B006
    exclude: Annotated[list[str], typer.Option(help="Column to leave out; may be repeated.")] = [],  # noqa: B006
    kind: Annotated[
        list[str],
        typer.Option(help="What a column is: name=number, category, date or text; may be repeated."),
    ] = [],  # noqa: B006
    missing_values: Annotated[
        str, typer.Option(help="What becomes of missing values: indicate, impute, drop or error.")
    ] = "indicate",
    text: Annotated[
        list[str],
        typer.Option(help="Option of texts: words=2, characters=4, max_terms=50000 or min_rows=2; may be repeated."),
    ] = [],  # noqa: B006
    algorithm: Annotated[str, typer.Option(help=f"auto, {', '.join(ALGORITHM_NAMES)}.")] = "auto",
    param: Annotated[list[str], typer.Option(help="Parameter of the algorithm, name=value; may be repeated.")] = [],  # noqa: B006
    test_fraction: Annotated[
        float | None, typer.Option(help="Share of the labelled rows to hold out.", show_default="0.2")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    alias: Annotated[str | None, typer.Option(help="Name that shall point at the model.")] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(help="Longest time of the training, in seconds.", show_default="the most that the service allows"),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end behind a progress bar.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Train a model and print the id of the job, and with --wait what came out."""
    from service.client import parse_objective, parse_params

    try:
        body: dict[str, Any] = {
            "dataset": dataset,
            "target": target,
            "objective": parse_objective(objective, confidence),
            "algorithm": algorithm,
            "params": parse_params(param),
            "unlabeled": unlabeled,
            "features": {
                "exclude": exclude,
                "kinds": parse_params(kind),
                "missing": missing_values,
                "text": parse_params(text),
            },
            "seed": seed,
        }
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    optional = {"positive": positive, "test_fraction": test_fraction, "alias": alias, "max_seconds": max_seconds}
    body |= {name: value for name, value in optional.items() if value is not None}
    with _client(url) as client:
        job = client.post("/train", body)
        print(job["id"])
        if not wait:
            return
        job = _wait_for(client, job)
        if job["status"] != "succeeded":
            reason = f": {job['error']['message']}" if job["error"] else ""
            _fail(f"the job ended as {job['status']}{reason}")
        print(job["model_id"])
        _print_model(client.get(f"/models/{job['model_id']}"))


@app.command()
def jobs(
    job: Annotated[str | None, typer.Argument(help="Id of one job; without it, the newest jobs.")] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel that job.")] = False,
    keep_best: Annotated[bool, typer.Option("--keep-best", help="With --cancel: keep the best model so far.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List the newest jobs, or show or cancel one."""
    with _client(url) as client:
        if job is None:
            if cancel:
                raise typer.BadParameter("--cancel needs the id of a job")
            found = client.get("/jobs")["items"]
        elif cancel:
            found = [client.post(f"/jobs/{job}/cancel", {"keep_best": keep_best})]
        else:
            found = [client.get(f"/jobs/{job}")]
    rows = [
        (j["id"], j["status"], f"{j['progress']:.0%}", j["phase"] or "", j["created_at"][:19], j["model_id"] or "")
        for j in found
    ]
    _table("", ("job", "status", "done", "phase", "created", "model"), rows)
    for each in found:
        if each["error"] and job:
            print(f"{each['error']['code']}: {each['error']['message']}")


@app.command()
def models(
    model: Annotated[
        str | None, typer.Argument(help="Id (mdl_…) or alias of one model; without it, the newest models.")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """List the newest models, or show one."""
    with _client(url) as client:
        if model is not None:
            _print_model(client.get(_model_path(client, model)))
            return
        found = client.get("/models")["items"]
    rows = [
        (
            m["id"],
            m["algorithm"],
            _objective_words(m["objective"]),
            _status_words(m["objective"], m["status"]),
            m["created_at"][:19],
            ", ".join(m["aliases"]),
        )
        for m in found
    ]
    _table("", ("model", "algorithm", "objective", "status", "created", "aliases"), rows)


@app.command()
def predict(
    model: Annotated[str, typer.Argument(help="Id of a model (mdl_…) or an alias.")],
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="CSV file with a header.")],
    out: Annotated[Path | None, typer.Option(help="CSV file to write.", show_default="standard output")] = None,
    delimiter: Delimiter = None,
    missing: Missing = [],  # noqa: B006
    url: Url = DEFAULT_URL,
) -> None:
    """Predict the rows of a CSV file; writes them with columns more: label, score, and probability if there is one."""
    from service.client import predict_csv

    if delimiter is None:
        delimiter = "\t" if file.suffix.lower() in (".tsv", ".tab") else ","
    delimiter = "\t" if delimiter == "\\t" else delimiter
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise typer.BadParameter("--delimiter takes one character other than a quote")

    with _client(url) as client, file.open(encoding="utf-8-sig", newline="") as source:
        columns = client.get(_model_path(client, model))["columns"]
        kinds = {column["name"]: column["kind"] for column in columns}
        with nullcontext(sys.stdout) if out is None else _published(out) as sink:
            warnings = predict_csv(client, model, source, sink, kinds=kinds, delimiter=delimiter, missing=missing)
    for warning in warnings:
        print(f"note: {warning}", file=sys.stderr)


@app.command()
def batch(
    model: Annotated[str, typer.Argument(help="Id of a model (mdl_…) or an alias.")],
    dataset: Annotated[str, typer.Argument(help="Id of a data set (ds_…).")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write; waits for it behind a progress bar.", show_default="print the id of the batch"
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="csv, parquet or jsonl.", show_default="by the name of the file, else csv"),
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Predict a whole data set that was uploaded: row, label, score and probability of each row."""
    if form is None:
        suffix = "" if out is None else out.suffix.lower().removeprefix(".")
        form = suffix if suffix in ("csv", "parquet", "jsonl") else "csv"
    with _client(url) as client:
        made = client.post("/batches", {"model": model, "dataset": dataset, "format": form})
        if out is None:
            print(made["id"])
            return
        made = _wait_for(client, made, "/batches")
        if made["status"] != "succeeded":
            reason = f": {made['error']['message']}" if made["error"] else ""
            _fail(f"the batch ended as {made['status']}{reason}")
        with _published(out, binary=True) as sink:
            client.download(f"/batches/{made['id']}/result", sink)
    for warning in made["result"]["warnings"]:
        print(f"note: {warning}", file=sys.stderr)


# --- keys and projects -----------------------------------------------------------------------------------------------

keys_app = typer.Typer(help="API keys of a project; the commands but `new` need one with the scope admin.")
app.add_typer(keys_app, name="keys", no_args_is_help=True)
projects_app = typer.Typer(help="Projects and their limits, for admins of the default project.")
app.add_typer(projects_app, name="projects", no_args_is_help=True)

LimitOption = Annotated[
    list[str],
    typer.Option(
        help="name=number or name=none, of requests_per_second, queued_jobs, running_jobs, stored_bytes; may be "
        "repeated. What is not named is as usual."
    ),
]


@keys_app.command("new")
def keys_new() -> None:
    """Print a new key for PREFSVM_BOOTSTRAP_KEY, the first key of an installation. Asks no service."""
    from service.access.keys import ApiKey

    print(ApiKey.new().text)


@keys_app.command("create")
def keys_create(
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scope: Annotated[list[str], typer.Option(help="read, write or admin; may be repeated.")] = ["read"],  # noqa: B006
    days: Annotated[float | None, typer.Option(help="It expires after so many days.", show_default="never")] = None,
    project: Annotated[str | None, typer.Option(help="Id of its project.", show_default="your own")] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Make a key and print it: it cannot be shown again."""
    body = {"name": name, "scopes": scope, "expires_in_days": days, "project": project}
    with _client(url) as client:
        print(client.post("/keys", body)["key"])


@keys_app.command("list")
def keys_list(url: Url = DEFAULT_URL) -> None:
    """List the keys of your project."""
    with _client(url) as client:
        found = list(_items(client, "/keys"))
    rows = [
        (key["id"], key["name"], " ".join(key["scopes"]), *(_time(key[name]) for name in _KEY_TIMES)) for key in found
    ]
    _table("", ("key", "name", "scopes", "created", "last used", "expires", "revoked"), rows)


_KEY_TIMES = ("created_at", "last_used_at", "expires_at", "revoked_at")


@keys_app.command("rotate")
def keys_rotate(
    key: Annotated[str, typer.Argument(help="How the key begins: pfs_ and 8 characters.")],
    grace: Annotated[float, typer.Option(help="Seconds that the old key goes on working.")] = 86400,
    url: Url = DEFAULT_URL,
) -> None:
    """Make a key like another one and print it; the other one ends after the grace."""
    from urllib.parse import quote

    with _client(url) as client:
        print(client.post(f"/keys/{quote(key, safe='')}/rotate?grace_seconds={grace:g}")["key"])


@keys_app.command("revoke")
def keys_revoke(
    key: Annotated[str, typer.Argument(help="How the key begins: pfs_ and 8 characters.")], url: Url = DEFAULT_URL
) -> None:
    """End a key; it is refused within 5 seconds."""
    from urllib.parse import quote

    with _client(url) as client:
        client.delete(f"/keys/{quote(key, safe='')}")
    print(f"{key} is revoked")


@projects_app.command("create")
def projects_create(
    name: Annotated[str, typer.Argument(help="Its name.")],
    limit: LimitOption = [],  # noqa: B006
    url: Url = DEFAULT_URL,
) -> None:
    """Make a project and print its id."""
    with _client(url) as client:
        print(client.post("/projects", {"name": name, "limits": _limits(limit)})["id"])


@projects_app.command("list")
def projects_list(url: Url = DEFAULT_URL) -> None:
    """List projects with their limits."""
    with _client(url) as client:
        found = list(_items(client, "/projects"))
    names = ("requests_per_second", "queued_jobs", "running_jobs", "stored_bytes")
    rows = [
        (p["id"], p["name"], _time(p["created_at"]), *("" if p["limits"][n] is None else p["limits"][n] for n in names))
        for p in found
    ]
    _table("", ("project", "name", "created", "requests/s", "queued", "running", "bytes"), rows)


@projects_app.command("limit")
def projects_limit(
    project: Annotated[str, typer.Argument(help="Id of the project.")], limit: LimitOption, url: Url = DEFAULT_URL
) -> None:
    """Replace the limits of a project."""
    from urllib.parse import quote

    with _client(url) as client:
        print(client.patch(f"/projects/{quote(project, safe='')}", {"limits": _limits(limit)})["limits"])


@projects_app.command("usage")
def projects_usage(url: Url = DEFAULT_URL) -> None:
    """Show what your own project uses of what it may."""
    with _client(url) as client:
        found = client.get("/limits")
    rows = [(name, used, found["limits"][name] or "no limit") for name, used in found["usage"].items()]
    _table(found["project_id"], ("", "used", "limit"), rows)


def _items(client: Client, path: str) -> Iterator[dict[str, Any]]:
    """Yield what a list has, page by page."""
    from urllib.parse import quote

    cursor: str | None = ""
    while cursor is not None:
        page = client.get(f"{path}?limit=100{cursor and f'&cursor={quote(cursor)}'}")
        yield from page["items"]
        cursor = page["next_cursor"]


def _limits(given: Sequence[str]) -> dict[str, float | int | None]:
    from service.client import parse_params

    limits = {}
    try:
        for name, value in parse_params(list(given)).items():
            limits[name] = None if value == "none" else value
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return limits


def _time(text: str | None) -> str:
    return "" if text is None else text[:19]


# --- helpers ---------------------------------------------------------------------------------------------------------


def _fail(message: str) -> NoReturn:
    print(f"prefsvm: {message}", file=sys.stderr)
    raise typer.Exit(1)


def _settings(**given: Any) -> Settings:
    from pydantic import ValidationError

    from service.settings import Settings

    try:
        return Settings(**given)
    except ValidationError as error:
        # Names and reasons, without the values: one of them may hold a password.
        _fail("; ".join(f"PREFSVM_{str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors()))


@contextmanager
def _client(url: str) -> Iterator[Client]:
    """Open a client with the key in PREFSVM_API_KEY, if any, and turn what goes wrong into one line."""
    import os

    from service.client import Client, ClientError

    try:
        with Client(url, os.environ.get("PREFSVM_API_KEY")) as client:
            yield client
    except ClientError as error:
        _fail(str(error))


@contextmanager
def _published(path: Path, *, binary: bool = False) -> Iterator[IO[Any]]:
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
        _fail(f"{path} cannot be written: {error.strerror}")
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns, title=title or None, title_justify="left", box=None, pad_edge=False)
    for row in rows:
        table.add_row(*map(str, row))
    # Ids must stay whole where the output goes into a file or a pipe.
    Console(highlight=False, markup=False, soft_wrap=True, width=None if sys.stdout.isatty() else 200).print(table)


def _wait_for(client: Client, job: dict[str, Any], path: str = "/jobs") -> dict[str, Any]:
    """Wait for the end of a job or batch behind a progress bar."""
    import time

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    shown = (TextColumn("{task.description:<12}"), BarColumn(40), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*shown, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        bar = progress.add_task(job["status"], total=1.0)
        while job["status"] in ("queued", "running"):
            time.sleep(0.1)
            job = client.get(f"{path}/{job['id']}")
            progress.update(bar, completed=job["progress"], description=job["phase"] or job["status"])
        done = 1.0 if job["status"] == "succeeded" else job["progress"]
        progress.update(bar, completed=done, description=job["status"])
    return job


def _model_path(client: Client, name: str) -> str:
    """Return the path of a model that is named by its id or by an alias."""
    from urllib.parse import quote

    from service.client import ClientError

    if name.startswith("mdl_"):
        return f"/models/{quote(name, safe='')}"
    for alias in _items(client, "/aliases"):
        if alias["name"] == name:
            return f"/models/{alias['model_id']}"
    raise ClientError(f"no alias is named {name!r}, and an id of a model starts with mdl_")


def _print_model(model: dict[str, Any]) -> None:
    report, applied = model["report"], model["operating_point"]
    # What decides now; the report always shows what the training chose.
    point = applied or report
    said = _objective_words(point["objective"])
    outcome = _status_words(point["objective"], point["status"], (point["calibration"] or {}).get("n"))
    print(": ".join(filter(None, (f"{report['algorithm']}, objective {said}", outcome))))
    if point["status_reason"]:
        print(point["status_reason"])
    print(f"threshold {point['threshold']:.6g} on the score for {report['classes']['positive']!r}")
    if applied:
        trained = _objective_words(report["objective"])
        print(f"applied {applied['created_at'][:19]}; trained for {trained}, threshold {report['threshold']:.6g}")

    def interval(estimate: dict[str, float] | None) -> str:
        if estimate is None:
            return "undefined"
        return f"{estimate['value']:.3f} ({estimate['low']:.3f} to {estimate['high']:.3f})"

    measured = [
        ("calibration", point["calibration"]),
        # Nothing is known of the test rows at a threshold that was applied later.
        ("test, as trained" if applied else "test", report["test"]),
    ]
    known = [(name, measures) for name, measures in measured if measures is not None]
    shown = {"precision": "precision", "recall": "recall", "f1": "F1"}
    if any(measures.get("cost") is not None for _, measures in known):
        shown["cost"] = "cost of a row"
    rows = [(name, measures["n"], *(interval(measures.get(each)) for each in shown)) for name, measures in known]
    _table("", ("rows", "n", *shown.values()), rows)
    for note in (*_comparison_notes(report), *report["warnings"]):
        print(f"note: {note}")


def _objective_words(objective: dict[str, Any]) -> str:
    match objective:
        case {"kind": "precision" | "recall" as kind, "target": target}:
            confidence = objective.get("confidence")
            return f"{kind} {target:g}" + (f" with confidence {confidence:g}" if confidence is not None else "")
        case {"kind": "precision_recall", "precision": precision, "recall": recall}:
            return f"precision {precision:g} and recall {recall:g}"
        case {"kind": "f1"}:
            return "best F1"
        case {"kind": "f_beta", "beta": beta}:
            return f"best F-beta, beta {beta:g}"
        case {"kind": "cost", "false_negative": negative, "false_positive": positive}:
            return f"lowest cost, false negative {negative:g}, false positive {positive:g}"
    return str(objective.get("kind"))


def _status_words(objective: dict[str, Any], status: str, rows: int | None = None) -> str:
    """Say what came out without promising more than was seen; empty where there was no target to reach."""
    where = "the calibration rows" if rows is None else f"the {rows:,} calibration rows"
    confidence = objective.get("confidence")
    at = "" if confidence is None else f" at confidence {confidence:g}"
    has_target = objective.get("kind") in ("precision", "recall", "precision_recall")
    match status:
        case "met" | "preference_unmet" if not has_target:
            return ""
        case "met":
            return f"certified{at}" if at else f"met on {where}"
        case "preference_unmet":
            return f"target not reached on {where}"
        case "cannot_certify":
            return f"not certified{at}"
        case "solver_limit":
            return "the solver met its limit first"
        case "stopped":
            return "stopped early, the best so far"
    return status


def _comparison_notes(report: dict[str, Any]) -> Iterator[str]:
    """Say when the guard (parameter `mode`) returned the model without the unlabelled rows."""
    comparison = report.get("comparison") or {}
    if comparison.get("returned") != "no_unlabelled":
        return
    gain = comparison["gain"]
    match report["objective"].get("kind"):
        case "f1":
            measure = "F1"
        case "f_beta":
            measure = "F-beta"
        case "cost":
            measure, gain = "cost of a row", -gain
        case _:
            measure = "F1 less what is missing to the target"
    yield (
        f"the unlabelled rows did not help enough ({measure} {gain:+.3g}, standard error "
        f"{comparison['standard_error']:.3g}): this is the same method without them (--param mode=method keeps it)"
    )


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()

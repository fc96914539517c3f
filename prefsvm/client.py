"""A typed client of a running service: upload, train, wait, predict; rows as dictionaries or as frames of pandas."""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from decimal import Decimal
from itertools import chain
from numbers import Integral, Real
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast, overload
from urllib.parse import quote

from service.cli.client import ClientError, Connection, parse_audit_objective, parse_objective

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_URL = "http://127.0.0.1:8000"
PREDICT_ROWS = 1000
"""Rows of one request to ``POST /predict``."""
PREDICT_NUMBERS = 500_000
"""Of vectors, in the rows of one request: some ten megabytes of JSON."""

_PLACE = re.compile(r"(?:(?<=: )|(?<=\n  ))rows\.([0-9]+)\b")
"""How an error names a row of a request."""

Row = Mapping[str, Any]


class ServiceWarning(UserWarning):
    """Something that the service noticed about a file, a training or rows."""


class JobFailedError(ClientError):
    """A training has failed or was cancelled; `job` is its last state."""

    job: Job


@dataclass(frozen=True)
class Dataset:
    """A data set; `document` is all that the service says of it (``GET /datasets/{id}``)."""

    id: str
    name: str
    rows: int
    columns: tuple[str, ...]
    warnings: tuple[str, ...]
    document: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Job:
    """A training; `progress` goes from 0 to 1, `document` is ``GET /jobs/{id}``."""

    id: str
    status: str
    phase: str | None
    progress: float
    model_id: str | None
    warnings: tuple[str, ...]
    document: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Model:
    """A model; `status` says whether the objective was reached, `document` is ``GET /models/{id}``.

    `promise` is what can be relied on of it (`level`, `chance`, `bounds`, `needs` and, in words, `sentence`), `audits`
    what was proved by checking rows. A model of several classes has neither `threshold` nor `positive`; its classes are
    in ``report["classes"]``.
    """

    id: str
    algorithm: str
    status: str
    threshold: float | None
    positive: str | None
    document: Mapping[str, Any] = field(repr=False)

    @property
    def promise(self) -> Mapping[str, Any] | None:
        """What can be relied on of the threshold in use; None for a model of an old version."""
        return cast("Mapping[str, Any] | None", self.document.get("promise"))

    @property
    def audits(self) -> Sequence[Mapping[str, Any]]:
        """What audits have proved, newest first."""
        return cast("Sequence[Mapping[str, Any]]", self.document.get("audits", ()))

    @property
    def report(self) -> Mapping[str, Any]:
        """What the training measured."""
        return cast("Mapping[str, Any]", self.document["report"])


@dataclass(frozen=True)
class Prediction:
    """What a model decides on a row: `score` > threshold is the positive class.

    `label` is None where a model that abstains leaves the row undecided.

    `key` is what names the row, as it was sent, where the training had a ``key``. `threshold_probability` is the
    threshold as a probability: above it the label is the positive class, be that below 0.5. `explanation` is why, where
    that was asked for: ``weights``, ``rest``, ``intercept``, ``nearest`` and ``compared``, as ``POST /predict`` has it.

    Of several classes `score` and `probability` are those of the class that is said, or of the one nearest to it where
    none is; `scores` and `probabilities` have those of each, and are None of two classes.
    """

    label: str | None
    score: float
    probability: float | None
    key: str | int | float | None = None
    threshold_probability: float | None = None
    explanation: Mapping[str, Any] | None = field(default=None, repr=False)
    scores: Mapping[str, float] | None = field(default=None, repr=False)
    probabilities: Mapping[str, float] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Audit:
    """A target that is to be proved; `document` is ``GET /audits/{id}``.

    `status` is ``open``, ``proven`` or ``refuted``; `bound` is what is proved whatever the target, None before
    the first answer.
    """

    id: str
    status: str
    statement: str
    bound: float | None
    document: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class AuditRow:
    """A row that an audit has drawn: its number in the data set, what the model sees and says of it."""

    row: int
    content: Mapping[str, Any]
    label: str | None
    score: float
    probability: float | None
    key: str | None
    position: int


@dataclass(frozen=True)
class QueuedRow:
    """A row of a data set that somebody is to look at, what the model sees and says of it, and why.

    `drawn` is ``random`` where chance alone chose it; its label may then move thresholds and figures.
    """

    row: int
    content: Mapping[str, Any]
    label: str | None
    score: float
    probability: float | None
    key: str | None
    drawn: str
    reason: str
    dataset: str


SomeRow = TypeVar("SomeRow", AuditRow, QueuedRow)


class Client:
    """A connection to a running service; a context manager.

    Parameters
    ----------
    url : str or None, default=None
        Address; None: ``PREFSVM_URL``, else ``http://127.0.0.1:8000``.
    key : str or None, default=None
        API key, where the service asks for one; None: ``PREFSVM_API_KEY``, if it is set.

    Notes
    -----
    What goes wrong is a `ClientError`: `UnreachableError`, `AccessError` (the key), `NotFoundError`, `ConflictError`,
    `BusyError` (too many calls), `RefusedError` (the request), `JobFailedError`. `status` is that of HTTP and `problem`
    the problem document, where there was one. What the service notices is a `ServiceWarning`.
    """

    def __init__(self, url: str | None = None, key: str | None = None) -> None:
        url = os.environ.get("PREFSVM_URL", DEFAULT_URL) if url is None else url
        self._connection = Connection(url, os.environ.get("PREFSVM_API_KEY") if key is None else key)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def upload(
        self,
        data: str | os.PathLike[str] | pd.DataFrame | Iterable[Row],
        *,
        name: str | None = None,
        format: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Dataset:
        """Upload a file, a frame, or rows, and return the data set.

        Parameters
        ----------
        data : path, pandas.DataFrame, or iterable of dict
            Frames and rows are sent as JSON Lines, as `predict` sends them: the same value means the same at both. The
            index of a frame is not a column. NaN, NaT, None and NA are missing.
        name : str or None, default=None
            Name of the data set; None: of the file, or ``rows``.
        format : str or None, default=None
            Format of the file; None: by the file.
        options : mapping or None, default=None
            Of the format, such as ``{"delimiter": ";"}``.

        Raises
        ------
        TypeError, ValueError
            A value of a frame or row that JSON does not have; the message names column and row.
        RefusedError
            The service cannot read it; the message names the line.
        """
        from service.cli.client_uploads import RESUMABLE_BYTES, upload_in_parts

        with _as_file(data) as (file, is_ours):
            name, format = (name or "rows", "jsonl") if is_ours else (name, format)
            if file.stat().st_size < RESUMABLE_BYTES:
                document = self._connection.upload(file, name=name, format=format, options=options)
            else:
                document = upload_in_parts(
                    self._connection, file, name=name, format=format, options=options, progress=_say_nothing
                )
        return _dataset(document)

    def train(
        self,
        dataset: Dataset | str,
        *,
        target: str,
        objective: str | Mapping[str, Any],
        positive: str | None = None,
        algorithm: str = "auto",
        alias: str | None = None,
        labels_from: Dataset | str | None = None,
        **options: Any,
    ) -> Job:
        """Begin a training, and return the job.

        Parameters
        ----------
        dataset : Dataset or str
            What `upload` returned, or its id.
        target : str
            Column with the labels; rows without one are the unlabelled ones.
        objective : str or mapping
            As the command line says it (``"recall=0.95"``, ``"ham_loss=0.001"``, ``"f1"``, ``"cost=5:1"``) or as
            ``POST /train`` does.
        positive : str or None, default=None
            The class that the objective speaks of; may be left out where labels are 0/1 or -1/+1, and is where several
            classes are told apart (``"macro_f1"``, ``"accuracy"``, ``{"kind": "cost", "costs": …}``).
        algorithm : str, default="auto"
        alias : str or None, default=None
            Name that shall point at the model.
        labels_from : Dataset, str or None, default=None
            Another data set, or its id, that has the labels in its column `target`: each row gets the label of its
            ``key``, which has to be given; ``labels={"key": …}`` where that column has another name there.
        **options
            The other fields of ``POST /train``: ``params``, ``features``, ``unlabeled``, ``test_fraction``, ``seed`` …
        """
        asked = parse_objective(objective) if isinstance(objective, str) else dict(objective)
        body = {"dataset": _id(dataset), "target": target, "objective": asked, "algorithm": algorithm} | options
        body |= {key: value for key, value in {"positive": positive, "alias": alias}.items() if value is not None}
        if labels_from is not None:
            body["labels"] = {**options.get("labels", {}), "dataset": _id(labels_from)}
        return _job(self._connection.post("/train", body))

    def job(self, job: Job | str) -> Job:
        """Return how far a job is."""
        return _job(self._connection.get(f"/jobs/{quote(_id(job), safe='')}"), warn=False)

    def cancel(self, job: Job | str, *, keep_best: bool = False) -> Job:
        """Cancel a job; with `keep_best` it succeeds with the best model so far."""
        path = f"/jobs/{quote(_id(job), safe='')}/cancel"
        return _job(self._connection.post(path, {"keep_best": keep_best}), warn=False)

    def wait(
        self,
        job: Job | str,
        *,
        progress: bool | Callable[[Job], object] = False,
        timeout: float | None = None,
    ) -> Model:
        """Wait for the end of a job and return its model; what its report warns of is a `ServiceWarning`.

        Parameters
        ----------
        job : Job or str
        progress : bool or callable, default=False
            True shows a bar; a function is called with each state of the job that is seen.
        timeout : float or None, default=None
            Seconds; the job goes on when they are over.

        Raises
        ------
        JobFailedError
            It failed, or was cancelled.
        TimeoutError
        """
        with _shown(progress) as show:
            done = self._wait(self.job(job), show, timeout)
        if done.status != "succeeded" or done.model_id is None:
            told = done.document.get("error")
            failed = JobFailedError(
                f"{done.id} ended as {done.status}" + (f": {told['message']}" if told else ""), problem=told
            )
            failed.job = done
            raise failed
        model = self.model(done.model_id)
        known = () if isinstance(job, str) else job.warnings  # said when it was made
        told = dict.fromkeys([*done.warnings, *model.report["warnings"]])
        _warn((each for each in told if each not in known), 3)
        return model

    def _wait(self, job: Job, show: Callable[[Job], object], timeout: float | None) -> Job:
        show(job)
        for found in self._connection.looks("/jobs", job.document, timeout):
            if found is not None:
                job = _job(found, warn=False)
                show(job)
        return job

    def model(self, model: Model | str) -> Model:
        """Return a model by its id or an alias."""
        return _model(self._connection.get(f"/models/{quote(_id(model), safe='')}"))

    @overload
    def predict(self, model: Model | str, rows: pd.DataFrame, explain: int | None = None) -> pd.DataFrame: ...
    @overload
    def predict(
        self, model: Model | str, rows: Iterable[Row] | Iterable[str], explain: int | None = None
    ) -> list[Prediction]: ...
    def predict(
        self, model: Model | str, rows: pd.DataFrame | Iterable[Row] | Iterable[str], explain: int | None = None
    ) -> pd.DataFrame | list[Prediction]:
        """Decide on rows, a thousand at a time, or one where each is to be explained.

        Parameters
        ----------
        model : Model or str
            Model, id or alias.
        rows : pandas.DataFrame, iterable of dict or iterable of str
            Texts are rows of a model of one column of text.
        explain : int, optional
            How many words or columns are told that weighed most, and how many labelled rows that are like the row.

        Returns
        -------
        pandas.DataFrame or list of Prediction
            Of a frame: a frame with its index and the columns ``label``, ``score`` and, where the model gives it,
            ``probability`` (of several classes also ``probability.NAME`` of each), and ``explanation`` if asked; its
            ``attrs`` have ``threshold_probability``. Else one
            `Prediction` a row.
        """
        predicted: list[Prediction] = []
        told: dict[str, None] = {}
        sent = _rows_or_texts(rows)
        asked = {} if explain is None else {"explain": explain}
        # How many rows of a model are explained at once depends on its size; one always is.
        while piece := _piece(sent, PREDICT_ROWS if explain is None else 1):
            field = "texts" if isinstance(piece[0], str) else "rows"
            with _rows_from(len(predicted)):
                answer = self._connection.post("/predict", {"model": _id(model), field: piece, **asked})
            told |= dict.fromkeys(answer["warnings"])
            threshold = answer.get("threshold_probability")
            predicted += [
                Prediction(
                    p["label"],
                    p["score"],
                    p.get("probability"),
                    p.get("key"),
                    threshold,
                    p.get("explanation"),
                    p.get("scores"),
                    p.get("probabilities"),
                )
                for p in answer["predictions"]
            ]
        _warn(told, 3)
        if not _is_frame(rows):
            return predicted
        import pandas as pd

        columns: dict[str, list[Any]] = {
            "label": [each.label for each in predicted],
            "score": [each.score for each in predicted],
        }
        if any(each.probability is not None for each in predicted):
            columns["probability"] = [each.probability for each in predicted]
        for name in predicted[0].probabilities or () if predicted else ():
            columns[f"probability.{name}"] = [(each.probabilities or {}).get(name) for each in predicted]
        if explain is not None:
            columns["explanation"] = [each.explanation for each in predicted]
        made = pd.DataFrame(columns, index=cast("pd.DataFrame", rows).index)
        made.attrs["threshold_probability"] = predicted[0].threshold_probability if predicted else None
        return made

    def audit(
        self,
        model: Model | str,
        dataset: Dataset | str,
        *,
        objective: str | Mapping[str, Any],
        at_most: float | None = None,
        confidence: float = 0.95,
        rows: int = 2000,
        thresholds: Sequence[float] | Literal["curve"] | None = None,
    ) -> Audit:
        """Begin to prove a target on the unlabelled rows of a data set, and wait until rows are drawn.

        Parameters
        ----------
        model : Model or str
            Model, id or alias.
        dataset : Dataset or str
        objective : str or mapping
            ``"precision=0.95"``, ``"recall=0.9"``, ``"ham_loss=0.001"`` or ``"cost=5:1"``, or as ``POST /audits``
            says it.
        at_most : float or None, default=None
            With ``"cost=…"``: what a row may cost on average.
        confidence : float, default=0.95
            A proof is false with a probability of at most 1 - confidence, whenever one looks.
        rows : int, default=2000
            Rows that are drawn, at most.
        thresholds : sequence of float, "curve" or None, default=None
            Are tried in this order, each once the one before is proven; ``"curve"`` takes some around the model's own.
            None: the threshold that decides now.

        Raises
        ------
        ClientError
            No rows could be drawn.
        """
        asked = parse_audit_objective(objective, at_most) if isinstance(objective, str) else dict(objective)
        body = {"model": _id(model), "dataset": _id(dataset), "objective": asked, "confidence": confidence}
        if thresholds is not None:
            body["thresholds"] = thresholds if isinstance(thresholds, str) else [float(each) for each in thresholds]
        made = self._connection.post("/audits", {**body, "rows": rows})
        for found in self._connection.looks("/audits", made):
            made = found or made
        if made["status"] == "failed":
            told = made["error"]
            raise ClientError(f"{made['id']}: no rows could be drawn" + (f": {told['message']}" if told else ""))
        _warn(made["pool"]["warnings"])
        return _audit(made)

    def audit_rows(self, audit: Audit | str, n: int = 10, *, after: int = 0) -> list[AuditRow]:
        """Return the next rows of an audit without an answer: at most 100, behind the position `after`."""
        found = self._connection.get(f"/audits/{quote(_id(audit), safe='')}/next?n={n}&after={after}")
        return [_row(AuditRow, item) for item in found["items"]]

    def answer(self, audit: Audit | str, labels: Mapping[int, str]) -> Audit:
        """Say what rows of an audit are, by their numbers in the data set, and return what is proved now."""
        body = {"rows": [int(row) for row in labels], "labels": list(labels.values())}
        return _audit(self._connection.post(f"/audits/{quote(_id(audit), safe='')}/labels", body))

    def seal(self, audit: Audit | str, *, alias: str | None = None) -> Audit:
        """End an audit; `alias` learns its answers at its next training."""
        return _audit(self._connection.post(f"/audits/{quote(_id(audit), safe='')}/seal", {"alias": alias}))

    def queue(
        self, model: Model | str, purpose: Literal["improve", "suspicious", "mistakes"] = "improve", *, n: int = 20
    ) -> list[QueuedRow]:
        """Return the rows to label next, labelled ones whose label looks wrong, or those of them that the threshold in
        use calls otherwise: at most 100.
        """
        found = self._connection.get(f"/models/{quote(_id(model), safe='')}/queue?purpose={purpose}&n={n}")
        _warn(found["warnings"])
        return [_row(QueuedRow, {**item, "dataset": found["dataset"]}) for item in found["items"]]

    def label(self, alias: str, answers: Iterable[tuple[QueuedRow, str]]) -> None:
        """Say what rows of a queue are: feedback for an alias, which its next training learns."""
        sent: dict[tuple[str, str], dict[int, str]] = {}
        for row, label in answers:
            sent.setdefault((row.dataset, row.drawn), {})[row.row] = label
        for (dataset, drawn), labels in sent.items():
            body = {"alias": alias, "dataset": dataset, "numbers": list(labels), "labels": list(labels.values())}
            self._connection.post("/feedback", {**body, "drawn": drawn})


# --- answers ---------------------------------------------------------------------------------------------------------


def _say_nothing(*_: object) -> None:
    pass


def _id(named: Dataset | Job | Model | Audit | str) -> str:
    return named if isinstance(named, str) else named.id


def _warn(told: Iterable[str], level: int = 4) -> None:
    for each in told:
        warnings.warn(each, ServiceWarning, stacklevel=level)


def _dataset(document: Mapping[str, Any]) -> Dataset:
    _warn(document["warnings"])
    columns = tuple(column["name"] for column in document["columns"])
    told = tuple(document["warnings"])
    return Dataset(document["id"], document["name"], document["rows"], columns, told, document)


def _job(document: Mapping[str, Any], *, warn: bool = True) -> Job:
    if warn:
        _warn(document["warnings"])
    return Job(
        document["id"],
        document["status"],
        document["phase"],
        document["progress"],
        document["model_id"],
        tuple(document["warnings"]),
        document,
    )


def _row(kind: type[SomeRow], item: Mapping[str, Any]) -> SomeRow:
    """Return a row of a list; what a newer service says besides is left out."""
    return kind(**{each.name: item[each.name] for each in fields(kind)})


def _audit(document: Mapping[str, Any]) -> Audit:
    verdict = document["verdict"]
    bound = None if verdict is None else verdict["bound"]
    return Audit(document["id"], document["status"], document["statement"], bound, document)


def _model(document: Mapping[str, Any]) -> Model:
    report = document["report"]
    return Model(
        document["id"],
        report["algorithm"],
        document["status"],
        document["threshold"],
        report["classes"]["positive"] if isinstance(report["classes"], Mapping) else None,
        document,
    )


@contextmanager
def _shown(progress: bool | Callable[[Job], object]) -> Iterator[Callable[[Job], object]]:
    """Open what is called with each state of a job."""
    if callable(progress):
        yield progress
        return
    if not progress:
        yield _say_nothing
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<12}"), BarColumn(40), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*columns, TimeElapsedColumn()) as bar:
        task = bar.add_task("queued", total=1.0)

        def show(job: Job) -> None:
            done = 1.0 if job.status == "succeeded" else job.progress
            bar.update(task, completed=done, description=job.phase or job.status)

        yield show


@contextmanager
def _rows_from(first: int) -> Iterator[None]:
    """Let an error of a request with rows from this one on name them as the caller has them: ``rows[1003]``."""
    try:
        yield
    except ClientError as error:
        error.args = (_PLACE.sub(lambda place: f"rows[{first + int(place[1])}]", str(error)),)
        raise


# --- rows ------------------------------------------------------------------------------------------------------------


def _is_frame(data: object) -> bool:
    """Tell whether something is a frame of pandas, without importing pandas."""
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "iloc") and hasattr(data, "columns")


@contextmanager
def _as_file(data: Any) -> Iterator[tuple[Path, bool]]:
    """Give a file, and whether it was written here, as JSON Lines."""
    if isinstance(data, str | os.PathLike):
        yield Path(data), False
        return
    with tempfile.TemporaryDirectory(prefix="prefsvm-") as folder:
        file = Path(folder) / "rows.jsonl"
        with file.open("w", encoding="utf-8") as sink:
            for row in _clean_rows(data):
                sink.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
        yield file, True


def _rows_or_texts(rows: Any) -> Iterator[dict[str, Any]] | Iterator[str]:
    """Yield what to decide on as the service takes it: all rows, or all texts."""
    if _is_frame(rows) or isinstance(rows, Mapping | str | bytes):
        return _clean_rows(rows)
    given = iter(rows)
    first = next(given, None)
    if first is None:
        return iter(())
    return _texts(chain([first], given)) if isinstance(first, str) else _clean_rows(chain([first], given))


def _piece(sent: Iterator[Any], most: int) -> list[Any]:
    """Return what goes into the next request: so many rows, or fewer where they are large."""
    piece: list[Any] = []
    numbers = 0
    while len(piece) < most and numbers < PREDICT_NUMBERS:
        row = next(sent, None)
        if row is None:
            break
        piece.append(row)
        if isinstance(row, dict):
            numbers += sum(len(value) for value in row.values() if isinstance(value, list))
    return piece


def _texts(given: Iterable[Any]) -> Iterator[str]:
    for number, text in enumerate(given):
        if not isinstance(text, str):
            raise TypeError(f"rows[{number}] is a {type(text).__name__}, and the first one a text; expected all alike")
        yield text


def _clean_rows(rows: pd.DataFrame | Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Yield rows as the service takes them."""
    for number, row in enumerate(_records(rows)):
        if not isinstance(row, Mapping):
            raise TypeError(
                f"rows[{number}] is a {type(row).__name__}; expected a dictionary, such as {{column: value}}"
            )
        yield {str(name): _clean(value, str(name), number) for name, value in row.items()}


def _records(rows: Any) -> Iterator[Row]:
    if not _is_frame(rows):
        if isinstance(rows, Mapping | str | bytes):
            raise TypeError("rows are a frame, a list of dictionaries, one a row, or, to predict, a list of texts")
        yield from rows
        return
    names = [str(name) for name in rows.columns]
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise ValueError(f"two columns have the same name {twice!r}; expected each name once")
    for start in range(0, len(rows), PREDICT_ROWS):
        yield from rows.iloc[start : start + PREDICT_ROWS].to_dict("records")


def _clean(value: Any, name: str, row: int) -> str | int | float | bool | list[int | float] | None:
    """Return a value as JSON has it; nothing is rounded or turned into text in silence."""
    if isinstance(value, list | tuple) or (hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1):
        return _clean_vector(value, name, row)
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, str | bool):
        return value
    if type(value).__name__ in ("bool", "bool_"):  # NumPy's
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Decimal) and not value.is_nan():
        if Decimal(repr(float(value))) == value:
            return float(value)
        raise ValueError(f"rows[{row}], column {name!r}: {value} has more digits than a number of JSON keeps")
    if isinstance(value, Real | Decimal):
        number = float(value)
        if math.isinf(number):
            raise ValueError(
                f"rows[{row}], column {name!r}: infinite; expected a finite number, or NaN where it is missing"
            )
        return None if math.isnan(number) else number
    if isinstance(value, datetime | date):
        return value.isoformat()
    raise TypeError(
        f"rows[{row}], column {name!r}: {type(value).__name__}; expected text, a number, a truth value, a date, a "
        "vector (a list or array of numbers), or None"
    )


def _clean_vector(value: Any, name: str, row: int) -> list[int | float]:
    """Return a list, tuple or array of numbers as a list."""
    numbers = [_clean(number, name, row) for number in (value.tolist() if hasattr(value, "tolist") else value)]
    if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
        raise ValueError(f"rows[{row}], column {name!r}: expected a vector of finite numbers, without any other value")
    return cast("list[int | float]", numbers)


__all__: Sequence[str] = (
    *(
        "Audit",
        "AuditRow",
        "Client",
        "ClientError",
        "Dataset",
        "Job",
        "JobFailedError",
        "Model",
        "Prediction",
        "ServiceWarning",
    ),
)

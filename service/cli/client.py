"""A small HTTP client of the API: what the command line and `prefsvm.Client` speak through."""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self
from urllib.parse import quote

import httpx

from solver.choices import FALSE_POSITIVE_KINDS, TARGET_KINDS

EVENT_RETRIES = 10
"""How often in a row a stream of events is taken up again."""
PATIENCE_SECONDS = 60.0
"""For so long a call is made again where the service says that it is too busy."""
QUICK_LOOK_SECONDS, QUICK_SECONDS, LOOK_SECONDS = 0.1, 10.0, 0.5
"""How often somebody who waits looks: at first, for how long, and then."""
AWAY_SECONDS = 60.0
"""For so long a service that does not answer may come back."""
AT_WORK = ("queued", "running", "preparing", "receiving", "received")
"""What jobs, batches, audits and uploads are of which more is to come."""

OF_CLASSES = ("macro_f1", "accuracy")
"""Objectives of three classes and more; costs and floors of theirs are said in JSON."""


class ClientError(Exception):
    """The service was not reached, or refused; the message has its own words.

    Attributes
    ----------
    status : int or None
        Status of HTTP, where there was an answer.
    problem : mapping or None
        The problem document, where there was one: ``type``, ``title``, ``detail``, and what else it has.
    """

    status: int | None = None
    problem: Mapping[str, Any] | None = None

    def __init__(self, message: str, *, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.problem = problem

    @classmethod
    def of(cls, problem: Mapping[str, Any]) -> Self:
        """Say what a problem document says, each thing once: its fields where it has some, else its detail."""
        # The detail of a problem with fields is the first of them again.
        said = [_field_problem(error["field"], error["message"]) for error in problem.get("errors", [])]
        said = said or [problem["detail"]]
        if problem.get("line") is not None and f"line {problem['line']}" not in said[0]:
            said[0] = f"line {problem['line']}: {said[0]}"
        return cls(f"{problem['title']}: " + "\n  ".join(said), problem=problem)


class UnreachableError(ClientError):
    """Nobody answered, or the answer broke off."""


class NotFoundError(ClientError):
    """There is nothing of that id or name."""


class ConflictError(ClientError):
    """Something is in the way, such as an alias that points at a model to delete."""


class AccessError(ClientError):
    """The service asks for a key, or for one with more rights."""


class RefusedError(ClientError):
    """The request cannot be done as it is; the message names the field, column or line."""


class BusyError(ClientError):
    """The service asks to come again in some seconds."""

    seconds = 0.0
    looked_at = True
    """Whether the call may have been begun; one too many in a second is turned away unseen."""


ERRORS: dict[int, type[ClientError]] = {
    401: AccessError,
    403: AccessError,
    404: NotFoundError,
    409: ConflictError,
}
"""By status; another one of the four hundreds is a `RefusedError`."""


@cache
def _certificates() -> ssl.SSLContext:
    """Who vouches for servers: reading them takes longer than a call, and is done once a process."""
    return httpx.create_ssl_context()


class Connection:
    """Connection to a running service.

    Parameters
    ----------
    url : str
        Address, such as ``http://127.0.0.1:8000``.
    key : str or None, default=None
        API key, where the service asks for one.
    """

    def __init__(self, url: str, key: str | None = None) -> None:
        # An upload is answered when its file has been read, which takes as long as it takes.
        timeout = httpx.Timeout(60.0, read=None, write=None)
        try:
            headers = {} if key is None else {"Authorization": f"Bearer {key.strip()}"}
            self._http = httpx.Client(base_url=url, timeout=timeout, headers=headers, verify=_certificates())
        except UnicodeEncodeError:
            raise ClientError("PREFSVM_API_KEY is not an API key") from None
        except httpx.InvalidURL as error:
            raise ClientError(f"{url} is not an address: {error}") from None
        if self._http.base_url.scheme not in ("http", "https") or not self._http.base_url.host:
            raise ClientError(f"{url} is not an address such as http://127.0.0.1:8000")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def get(self, path: str) -> Any:
        """GET a JSON document."""
        return self._call("GET", path)

    def readiness(self) -> Any:
        """Return what ``GET /readyz`` says, also where it says that the service is not ready."""
        answer = self._request("GET", "/readyz")
        try:
            return {"ready": answer.json()["ready"], **answer.json()}
        except (ValueError, KeyError, TypeError):
            raise ClientError(f"what answers at {self._http.base_url} is not prefsvm") from None

    def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """POST a JSON document, if any, and return the JSON answer."""
        return self._call("POST", path, json=body)

    def predict_mail(self, model: str, message: bytes, explain: int | None = None) -> Any:
        """Return what a model of mails decides on a message as it came in, and so many reasons for it."""
        headers = {"Content-Type": "message/rfc822"}
        query = f"model={quote(model, safe='')}" + ("" if explain is None else f"&explain={explain}")
        return self._call("POST", f"/predict?{query}", content=message, headers=headers)

    def patch(self, path: str, body: dict[str, Any]) -> Any:
        """PATCH with a JSON document and return the JSON answer."""
        return self._call("PATCH", path, json=body)

    def put(self, path: str, body: dict[str, Any]) -> Any:
        """PUT a JSON document and return the JSON answer."""
        return self._call("PUT", path, json=body)

    def looks(self, path: str, document: Mapping[str, Any], timeout: float | None = None) -> Iterator[Any]:
        """Look at something that is at work until it is not any more: soon at first, then twice a second.

        Parameters
        ----------
        path : str
            Of its kind, such as ``/jobs``.
        document : mapping
            What it was last.
        timeout : float, optional
            Seconds.

        Yields
        ------
        object
            What it is by then; None where nobody answers, since it goes on without the API, which may come back.

        Raises
        ------
        UnreachableError
            If nobody has answered for a minute.
        TimeoutError
        """
        begun = answered = time.monotonic()
        while document["status"] in AT_WORK:
            now = time.monotonic()
            if timeout is not None and now - begun > timeout:
                raise TimeoutError(f"{document['id']} is {document['status']} after {timeout:g} s, and goes on")
            time.sleep(QUICK_LOOK_SECONDS if now - begun < QUICK_SECONDS else LOOK_SECONDS)
            try:
                document = self.get(f"{path}/{document['id']}")
            except UnreachableError:
                if time.monotonic() - answered > AWAY_SECONDS:
                    raise
                yield None
                continue
            answered = time.monotonic()
            yield document

    def events(self, path: str) -> Iterator[Any]:
        """Yield the events of a stream as they come, until the last one; takes it up again where it was cut off."""
        last = ""
        finished = False
        failures = 0
        while True:
            headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last} if last else {})
            pause = None
            try:
                with self._http.stream("GET", path, headers=headers) as answer:
                    if answer.is_error:
                        answer.read()
                        raise _problem(answer)
                    for line in answer.iter_lines():
                        name, _, value = line.partition(": ")
                        if name == "id":
                            last = value
                        elif name == "data":
                            failures = 0
                            event = json.loads(value)
                            finished = event["kind"] == "finished"
                            yield event
                if finished or answer.status_code == httpx.codes.NO_CONTENT:
                    return
                # the service is about to stop, or wants to see the key again
                broken = ClientError("the events end before the job does")
            except BusyError as error:
                broken, pause = error, error.seconds
            except httpx.TransportError as error:
                broken = ClientError(f"the events broke off ({str(error) or type(error).__name__})")
            failures += 1
            if failures > EVENT_RETRIES:
                raise broken
            time.sleep(min(5.0, 0.5 * failures) if pause is None else pause)

    def download(self, path: str, sink: IO[bytes], form: str = "*/*") -> None:
        """GET a file in the media type `form` and write it, piece by piece."""
        try:
            with self._http.stream("GET", path, headers={"Accept": form}) as answer:
                if answer.is_error:
                    answer.read()
                    raise _problem(answer)
                for piece in answer.iter_bytes():
                    sink.write(piece)
        except httpx.TransportError as error:
            raise ClientError(f"the download broke off ({str(error) or type(error).__name__})") from None

    def delete(self, path: str, **content: Any) -> None:
        """DELETE."""
        self._call("DELETE", path, **content)

    def items(self, path: str) -> Iterator[Any]:
        """Yield what a list has, page by page."""
        cursor: str | None = ""
        while cursor is not None:
            more = f"&cursor={quote(cursor)}" if cursor else ""
            page = self.get(f"{path}{'&' if '?' in path else '?'}limit=100{more}")
            yield from page["items"]
            cursor = page["next_cursor"]

    def upload(
        self,
        file: Path,
        *,
        name: str | None = None,
        format: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Any:
        """Send a file as a new data set, without ever holding it in memory, and return the data set.

        `options` are those of the format, such as ``{"delimiter": ";"}``.
        """
        fields = {"name": name, "format": format, "options": json.dumps(options) if options else None}
        with file.open("rb") as content:
            return self._call(
                "POST",
                "/datasets",
                data={key: value for key, value in fields.items() if value is not None},
                files={"file": (file_name(file), content)},
            )

    def send(self, method: str, path: str, **content: Any) -> httpx.Response:
        """Make one call and return its answer, if it is a good one.

        Raises
        ------
        UnreachableError
        BusyError
        ClientError
        """
        answer = self._request(method, path, **content)
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            refused = AccessError(
                f"{self._http.base_url} asks for an API key; set PREFSVM_API_KEY to one that is neither revoked nor "
                "expired"
            )
            refused.status = answer.status_code
            raise refused
        if answer.is_error:
            raise _problem(answer)
        return answer

    def _request(self, method: str, path: str, **content: Any) -> httpx.Response:
        """Make one call and return its answer, whatever it is; raises `UnreachableError`."""
        try:
            return self._http.request(method, path, **content)
        except ValueError as error:
            if "not JSON compliant" not in str(error):
                raise
            raise ClientError("a number is nan or infinite, and no request can say that; give a finite one") from None
        except httpx.TransportError as error:
            reason = str(error) or type(error).__name__
            raise UnreachableError(
                f"no prefsvm answers at {self._http.base_url} ({reason}); start one with `prefsvm serve`, or say "
                "where it is with --url"
            ) from None

    def _call(self, method: str, path: str, **content: Any) -> Any:
        """Make a call and return its JSON; comes again where nothing was begun and the service asks for it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                answer = self.send(method, path, **content)
                break
            except BusyError as error:
                # A POST that may have been begun is not made twice.
                again = method != "POST" or not error.looked_at
                if not again or time.monotonic() + error.seconds > deadline:
                    raise
                time.sleep(error.seconds)
        if answer.status_code == httpx.codes.NO_CONTENT:
            return None
        try:
            return answer.json()
        except ValueError:
            raise ClientError(f"what answers at {self._http.base_url} is not prefsvm") from None


def _problem(answer: httpx.Response) -> ClientError:
    """Return the error that an answer stands for."""
    kind = ERRORS.get(answer.status_code, RefusedError if 400 <= answer.status_code < 500 else ClientError)
    try:
        error = kind.of(answer.json())
    except (ValueError, KeyError, TypeError, AttributeError):
        error = kind(f"{answer.request.method} {answer.request.url.path}: HTTP status {answer.status_code}")
    error.status = answer.status_code
    seconds = answer.headers.get("Retry-After", "")
    if answer.status_code not in (429, 503) or not (seconds.isascii() and seconds.isdigit()):
        return error
    busy = BusyError(f"{error} (try again in {seconds} s)", problem=error.problem)
    busy.status = answer.status_code
    busy.seconds = float(seconds)
    busy.looked_at = not answer.json()["type"].endswith(":too-many-requests")
    return busy


def _field_problem(field: str, message: str) -> str:
    """Name a field without the part of the request that it is in, which the command line does not show."""
    where, _, name = field.partition(".")
    if where not in ("body", "form", "query", "path"):
        name = field
    return f"{name}: {message}" if name else message


def parse_objective(
    text: str, confidence: float | None = None, certificate: str | None = None, abstain: float | None = None
) -> dict[str, Any]:
    """Turn ``recall=0.95`` and its kind, or JSON, into the objective of ``POST /train``.

    Raises
    ------
    ValueError
        It is none of the known forms.
    """
    if text.lstrip().startswith("{"):
        return _json_objective(text, confidence, certificate, abstain)
    kind, _, value = text.partition("=")
    if confidence is not None and kind not in TARGET_KINDS:
        raise ValueError("a confidence goes with a target only: a precision, a recall or a false positive rate")
    if certificate is not None and confidence is None:
        raise ValueError("a certificate goes with a confidence only")
    objective: dict[str, Any] = {"kind": kind}
    try:
        match kind:
            case "precision" | "recall":
                objective["target"] = float(value)
            case "precision_recall":
                objective["precision"], objective["recall"] = map(float, value.split(":"))
            case "false_positive_rate" | "ham_loss":
                objective["at_most"] = float(value)
            case "f_beta":
                objective["beta"] = float(value)
            case "cost":
                objective["false_negative"], objective["false_positive"] = map(float, value.split(":"))
            case _ if text not in ("f1", *OF_CLASSES):
                raise ValueError
    except ValueError:
        known = "precision=0.9, recall=0.95, precision_recall=0.9:0.8, ham_loss=0.001, f1, f_beta=2, cost=5:1, "
        known += "macro_f1, accuracy"
        raise ValueError(f"{text!r} is none of {known}; more is said by --confidence and --abstain") from None
    if confidence is not None:
        objective["confidence"] = confidence
    if certificate is not None:
        objective["certificate"] = certificate
    if abstain is not None:
        objective["abstain"] = {"precision": abstain}
    return objective


def _json_objective(text: str, *options: object) -> dict[str, Any]:
    """Return an objective that is written as ``POST /train`` takes it; raises ValueError."""
    if any(option is not None for option in options):
        raise ValueError("an objective in JSON says confidence, certificate and abstain itself")
    try:
        made = json.loads(text)
    except ValueError:
        raise ValueError("the objective begins like JSON and is none") from None
    if not isinstance(made, dict):
        raise ValueError("the objective should be a JSON object")
    return made


def parse_audit_objective(text: str, at_most: float | None = None) -> dict[str, Any]:
    """Turn ``precision=0.95``, or ``cost=5:1`` with what a row may cost, into the objective of ``POST /audits``.

    Raises
    ------
    ValueError
        It is none of the known forms.
    """
    kind = text.partition("=")[0]
    if kind not in ("precision", "recall", *FALSE_POSITIVE_KINDS, "cost"):
        raise ValueError(f"{text!r} is none of precision=0.95, recall=0.9, ham_loss=0.001, cost=5:1")
    if (at_most is None) == (kind == "cost"):
        raise ValueError("a cost, and nothing else, goes with what a row may cost at most")
    objective = parse_objective(text)
    return objective if at_most is None else {**objective, "at_most": at_most}


def parse_params(pairs: list[str]) -> dict[str, Any]:
    """Turn ``["C=10", "kernel=rbf"]`` into parameters: a value that is JSON is taken as that, else as text.

    Raises
    ------
    ValueError
        One has no ``=``.
    """
    params = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"{pair!r} has no '=': say name=value")
        try:
            params[name] = json.loads(value)
        except ValueError:
            params[name] = value
    return params


def file_name(file: Path) -> str:
    """Return the name of a file as text: on Linux it may be bytes that are no UTF-8."""
    return os.fsencode(file.name).decode(errors="replace")

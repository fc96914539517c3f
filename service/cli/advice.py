"""Advice of the API in the words of the command line: JSON and calls become the options and commands of ``prefsvm``.

The API advises whoever calls it: ``"unlabeled": ["NA"]``, ``option quote null``, ``PATCH /datasets/{id} with {…}``.
All of it is translated here, by its form and not message by message. ``tests/acceptance/test_advice_runs.py`` looks at
every text of the sources that has such a form, and runs what comes out.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from service.cli.client import ClientError

FLAGS = {
    **{name: f"--{name}" for name in ("target", "positive", "unlabeled", "negative", "key", "include", "exclude")},
    **{name: f"--{name}" for name in ("alias", "algorithm", "objective", "seed", "format", "name")},
    "alias_policy": "--alias-policy",
    **{"test_fraction": "--test-fraction", "max_seconds": "--max-seconds", "confidence": "--confidence"},
    "certificate": "--certificate",
    **{"kinds": "--kind", "columns": "--kind", "text": "--text", "params": "--param"},
    **{"keep": "--keep-labels", "fold": "--fold-labels"},
}
"""Fields of requests that are options of commands."""
NOT_FOUND = 404
LISTS = {"alias": "aliases", "batch": "batches", "feedback": "feedback"}
"""Commands that list what a problem says is not there, where they are not called like many of it."""
PARTS_OF_REQUESTS = ("labels", "features")
"""Fields that hold others."""
READING = ("delimiter", "quote", "escape", "header", "encoding", "missing", "decimal", "thousands", "trim", "vectors")
"""Options of files that are options of commands of the same name."""


@dataclass
class Running:
    """The command that runs."""

    options: frozenset[str] = frozenset()
    """What it takes."""
    dataset: str | None = None
    """The data set that it is about, where that can still be read in another way."""
    too_short: str | None = None
    """A name that begins an id, and is too short to stand for one."""
    said: set[str] = field(default_factory=set)
    """Notes that were printed."""

    def begin(self, options: Iterable[str]) -> None:
        """Forget the command before."""
        self.options, self.dataset, self.too_short, self.said = frozenset(options), None, None, set()


RUNNING = Running()

_JSON = r'null|true|false|"(?:[^"\\]|\\.)*"'
_OPTION = "|".join((*READING, "columns", "format"))
_FOR_OPTION = re.compile(rf"(?:\bsay )?({_JSON}) for option ({_OPTION})\b")
_OPTIONS = re.compile(rf"\boptions? (({_OPTION})( (?:{_JSON}))?(?: and (?:{_OPTION})(?: (?:{_JSON}))?)*)(?!\w)")
_EACH = re.compile(rf"({_OPTION})(?: ({_JSON}))?")
_FIELDS = "|".join((*FLAGS, *PARTS_OF_REQUESTS))
_OBJECT = re.compile(rf'(?:(?:the )?options )?(?=\{{"(?:{_FIELDS})": )|(?<![{{\w])"({_FIELDS})": ')
_QUOTED = re.compile(rf"`({_FIELDS})`(?: of `(?:features|labels)`)?|\bfeatures\.({_FIELDS})\b")
_CALL = re.compile(r"\b(GET|POST|PUT|PATCH|DELETE) (/[\w{}/?=&-]+)(?: with (?=\{))?")


def in_flags(text: str) -> str:
    """Return a text of the API with its advice as options and commands."""
    text = _replaced(_CALL, text, lambda found, value: _command(found[1], found[2], value))
    text = _FOR_OPTION.sub(lambda found: _option(found[2], found[1]), text)
    text = _OPTIONS.sub(lambda found: " ".join(_option(*each) for each in _EACH.findall(found[1])), text)
    text = _replaced(_OBJECT, text, lambda found, value: " ".join(_flags(found[1], value)) or None)
    return _QUOTED.sub(lambda found: FLAGS.get(found[1] or found[2], found[0]), text)


def _replaced(pattern: re.Pattern[str], text: str, words: Any) -> str:
    """Replace what a pattern finds, and the JSON that follows it; ``words(found, value)`` of None changes nothing."""
    made, at = "", 0
    for found in pattern.finditer(text):
        if found.start() < at:
            continue
        end, value = found.end(), None
        if text[end : end + 1] in ("{", "[", '"'):
            try:
                value, end = json.JSONDecoder().raw_decode(text, end)
            except ValueError:
                continue
        said = words(found, value)
        if said is not None:
            made += text[at : found.start()] + said
            at = end
    return made + text[at:]


def _command(method: str, path: str, body: Any) -> str | None:
    """Return the command that makes a call; None for a call that has none."""
    match method, path.strip("/").replace("?", "/").split("/"):
        case "PATCH", ["datasets", _]:
            kinds = " ".join(_flags("columns", (body or {}).get("columns", {}))) or "--kind NAME=KIND"
            if RUNNING.dataset is not None:
                return f"prefsvm datasets correct {RUNNING.dataset} {kinds}"
            return kinds if "--kind" in RUNNING.options else f"train with {kinds}"
        case "POST", ["jobs", job, "cancel"]:
            return f"prefsvm jobs {job} --cancel"
        case "POST", ["batches", batch, "cancel"]:
            return f"prefsvm batches cancel {batch}"
        case "POST", ["audits", audit, "seal"]:
            return f"prefsvm audits seal {audit}"
        case "GET", ["audits" | "batches" as group, name]:
            return f"prefsvm {group} {name}"
        case "DELETE", ["audits", audit]:
            return f"prefsvm audits delete {audit}"
        case "GET", ["uploads", "status=receiving"]:
            return "prefsvm uploads list --status receiving"
        case "PUT", ["aliases", alias] if isinstance(body, dict) and "model" in body:
            return f"prefsvm aliases set {shlex.quote(alias)} {body['model']}"
        case "POST", ["train" | "predict" as command]:
            return f"prefsvm {command}"
    return None


def _flags(name: str | None, value: Any) -> Iterator[str]:
    """Yield the options that a field of a request is, or, without a name, those of all fields of an object."""
    if name is None or name in PARTS_OF_REQUESTS:
        for each, held in value.items() if isinstance(value, dict) else ():
            yield from _flags(each, held)
    elif isinstance(value, dict):
        yield from (f"{FLAGS[name]} {shlex.quote(f'{key}={held}')}" for key, held in value.items())
    elif isinstance(value, list):
        yield from (f"{FLAGS[name]} {shlex.quote(str(each))}" for each in value)
    elif value is True:
        yield FLAGS[name]
    elif name in FLAGS:
        yield f"{FLAGS[name]} {shlex.quote(str(value))}"


def _option(name: str, value: str | None = None) -> str:
    """Return what an option of a file is, with its value as JSON, if one is said."""
    flag = FLAGS.get(name, f"--{name}")
    match name, value:
        case _, None | "":
            return flag
        case "header" | "trim" | "vectors", "true":
            return flag
        case "header", "false":
            return "--no-header"
        case _, "null":
            return f"{flag} none"
    return f"{flag} {shlex.quote(str(json.loads(value or 'null')))}"


def error_words(error: ClientError) -> str:
    """Return what went wrong, its fields called as the options of the command that runs."""
    said = str(error)
    for each in (error.problem or {}).get("errors", []):
        name = re.sub(r"^(?:body|form|query|path)\.", "", each["field"])
        option = _option_of(name)
        if option is not None:
            said = said.replace(f" {name}: ", f" {option}: ", 1)
    if error.status == NOT_FOUND and RUNNING.too_short is not None:
        said += f"; of an id say at least four characters behind the _, not {RUNNING.too_short}"
    unknown = re.fullmatch(r"urn:prefsvm:problem:(\w+)-not-found", (error.problem or {}).get("type", ""))
    if unknown:
        said += f"; prefsvm {LISTS.get(unknown[1], f'{unknown[1]}s')} lists what there is"
    return in_flags(said)


def _option_of(name: str) -> str | None:
    """Return the option that a field of a request is, if the command that runs has it."""
    first, *rest = name.split(".")
    if first in (*PARTS_OF_REQUESTS, "options") and rest:
        parent, first, *rest = first, *rest
        option = "--missing-values" if (parent, first) == ("features", "missing") else FLAGS.get(first, f"--{first}")
    elif first == "objective" and rest[:1] in (["confidence"], ["certificate"], ["abstain"]):
        option = f"--{rest[0]}"
    else:
        option = FLAGS.get(first, f"--{first}")
    if option not in RUNNING.options:
        return None
    return f"{option} {'.'.join(rest)}" if rest and option in ("--kind", "--param", "--text") else option


def columns_left_out(dataset: Mapping[str, Any]) -> Iterator[str]:
    """Say of how many columns an answer about a data set does not tell."""
    told, count = len(dataset["columns"]), dataset.get("column_count", 0)
    if told < count:
        yield f"{told:,} of {count:,} columns are shown (`datasets show --columns-from`)"


def print_failure(found: Mapping[str, Any]) -> None:
    """Say why a job or an audit has failed, if it has."""
    if found["error"]:
        print(in_flags(f"{found['error']['code']}: {found['error']['message']}"))


def print_notes(notes: Iterable[str], to: IO[str] | None = None) -> None:
    """Print what somebody should know, each thing once in a command, on standard error unless `to` says otherwise."""
    for note in notes:
        if note not in RUNNING.said:
            RUNNING.said.add(note)
            print(f"note: {in_flags(note)}", file=to or sys.stderr)

"""Advice of the API in the words of the pages: who looks at one has no call to make, but a menu or a button.

It is translated by its form, as `service.cli.advice` does for the command line. What no page can do stays a call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

ELSEWHERE = " on the page of the data set"
MOST_ADVICE = 10_000
"""Characters of a sentence of the service that are looked through for advice."""
Said = Callable[[re.Match[str]], str]


def _kind(found: re.Match[str]) -> str:
    try:
        ((column, kind),) = json.loads(found[1])["columns"].items()
    except (ValueError, KeyError, AttributeError):
        return found[0]
    return f"set the kind of {column!r} to {kind}{ELSEWHERE}"


def _unlabelled(found: re.Match[str]) -> str:
    try:
        names = ", ".join(map(str, json.loads(found[1])))
    except ValueError:
        return found[0]
    return f"tick {names} under “A label that means ‘not known’”"


FIELDS = {
    "header true": "“First line”: names the columns",
    "header false": "“First line”: is a row",
    **{"header": "“First line”", "decimal": "“Decimal sign”", "thousands": "“Separator of thousands”"},
    **{"missing": "“Words for missing values”", "encoding": "“Encoding”", "delimiter": "“Delimiter”"},
    **{"quote null": "“Quotes”: are characters like others", "quote": "“Quotes”"},
    **{"escape": "“Backslashes”", "trim": "“Blanks around values”"},
}
"""Fields of the form of an upload, by the options that they are; `upload.js` has them, too."""

_FORMS: tuple[tuple[re.Pattern[str], Said], ...] = (
    (re.compile(r'PATCH /datasets/[\w{}]+ with (\{"columns": \{"(?:[^"\\]|\\.)*": "\w+"\}\})'), _kind),
    (
        re.compile(r'PUT /aliases/([\w.-]+) with \{"model": "(\w+)"\}'),
        lambda found: f"on the page of {found[2]}, point the name {found[1]} at it",
    ),
    (re.compile(r"POST /jobs/\w+/cancel"), lambda _: "by the button on its page"),
    (re.compile(r"(?:POST|DELETE) /audits/\w+(?:/seal)?"), lambda _: "on the page of the audit"),
    (re.compile(r"GET /audits/(\w+)"), lambda found: f"it has the page /ui/audits/{found[1]}"),
    (re.compile(r"train with POST /train"), lambda _: "train from the page of a data set"),
    (re.compile(r"say \"unlabeled\": (\[.*?\])"), _unlabelled),
    (
        re.compile(r'if it is a class, "negative": \[.*?\]'),
        lambda _: "if it is a class, give it another name in the file",
    ),
    (re.compile(r"list it in `unlabeled`"), lambda _: "tick it under “A label that means ‘not known’”"),
    (re.compile(r"at random: sent as such, its label"), lambda _: "at random: its label"),
    (re.compile(r"`prefsvm queue`"), lambda _: "“Label rows”"),
    (
        re.compile(r"another one by option encoding \(such as utf-16, or cp1252 of many Windows files\)"),
        lambda _: "another one: choose it under “Encoding” (many Windows files are cp1252)",
    ),
    (
        re.compile(r"say null for option quote"),
        lambda _: "say under “Quotes” that they are characters like others",
    ),
    (re.compile(r'"\\"" for option quote'), lambda _: 'that they are "'),
    (re.compile(r'say "\\\\" for option escape'), lambda _: "say so under “Backslashes”"),
    (
        re.compile(r"option delimiter says otherwise"),
        lambda _: "if that is wrong, upload the file with the right “Delimiter”",
    ),
    (
        re.compile(r"name them in option missing or, where these are the labels of a training, in its `unlabeled`"),
        lambda _: (
            f"upload again with them under {FIELDS['missing']} or, where these are the labels of a training, tick them "
            "there under “A label that means ‘not known’”"
        ),
    ),
    (re.compile(rf"\boptions? ({'|'.join(FIELDS)})\b"), lambda found: FIELDS[found[1]]),
    (
        re.compile(r"unless `include` or `kinds` of `features` names it"),
        lambda _: "unless a training by the API names it",
    ),
)


def in_pages(text: str) -> str:
    """Return a text of the API with its advice as what the pages have."""
    for pattern, said in _FORMS:
        text = pattern.sub(said, text)
    return text


def on_page_of_data_set(text: str) -> str:
    """Return it as the page of the data set says it, where nobody needs to be sent to that page."""
    return in_pages(text[:MOST_ADVICE]).replace(ELSEWHERE, " here")

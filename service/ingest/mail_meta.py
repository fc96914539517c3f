"""What is told of a mail beside its texts, as words: who sent it with which program, and what it is made of.

From a list of what may be told, never of all headers: those that mail systems add on the way name the place where a
mail was kept, and so its class, and are others when the next mail is decided on.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from solver.single_bytes import bytes_where, single_bytes

MOST = 20
"""Words of one kind."""
MOST_LINKS = 500
"""That are looked at."""
MAX_CHARACTERS = 4000
"""Of the body, whose capitals are counted."""

_LINK = re.compile(r"(?i)\bhttps?://(?:[^/\s@\"'<>]{0,100}@)?([a-z0-9.-]{3,100})")
_MARK = "://"
_LAST_OF_HTTPS = ("s", "S", "\u017f")
"""As a regular expression finds it that does not tell capitals apart."""
_ADDRESS = re.compile(r"([\w.+-]{1,100})@([A-Za-z0-9.-]{3,100})")
_LETTERS = bytes_where(str.isalpha)
_CAPITALS = bytes_where(lambda character: character.isalpha() and character.isupper())
_PROGRAM = re.compile(r"[A-Za-z]{2,30}")
_NUMBERS = re.compile(r"[\d.]+")
_OTHER = re.compile(r"\W+")


def meta_words(
    headers: Mapping[str, str], parts: Iterable[tuple[str, str]], subject: str, body: str, texts: Iterable[str]
) -> str:
    """Return words such as ``type_text_html`` and ``mailer_none``.

    Parameters
    ----------
    headers : mapping of str to str
        ``from``, ``reply-to``, ``user-agent`` and ``x-mailer``, decoded, as far as they are there.
    parts : iterable of pairs of str
        Kinds (``type``, ``charset``, ``encoding``, ``attached``) and values, of all parts.
    subject, body : str
    texts : iterable of str
        Of plain and HTML parts, for their links.
    """
    return " ".join(
        [*_of_sender(headers), *_of_parts(parts), *_of_links(texts), *_of_subject(subject), *_of_body(body)]
    )


def _of_sender(headers: Mapping[str, str]) -> Iterator[str]:
    program = f"{headers.get('user-agent', '')} {headers.get('x-mailer', '')}"
    named = [word.lower() for word in islice((found[0] for found in _PROGRAM.finditer(program)), 8)]
    yield from (f"mailer_{word}" for word in named or ["none"])
    sender = headers.get("from", "")
    address = _ADDRESS.search(sender)
    domain = address[2].lower() if address else ""
    if address:
        yield _word("sender", domain)
        yield _word("sender_in", domain.rpartition(".")[2])
        if re.search(r"\d\d", address[1]):
            yield "sender_digits"
    if "<" in sender:
        yield "sender_named"
    answer = _ADDRESS.search(headers.get("reply-to", ""))
    yield "reply_none" if answer is None else "reply_same" if answer[2].lower() == domain else "reply_other"


def _of_parts(parts: Iterable[tuple[str, str]]) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for kind, value in parts:
        counts[kind] += 1
        if value and counts[kind] <= MOST:
            yield _word(kind, value)


def _of_links(texts: Iterable[str]) -> Iterator[str]:
    found = (host.lower().strip(".") for text in texts for host in _hosts(text))
    hosts = list(dict.fromkeys(islice(found, MOST_LINKS)))
    for host in hosts[:MOST]:
        yield _word("link", ".".join(host.split(".")[-2:]))
        if _NUMBERS.fullmatch(host):
            yield "link_number"
    yield f"links_{min(len(hosts), 5)}"


def _hosts(text: str) -> Iterator[str]:
    """Yield what `_LINK` finds, looked for at what is the same in all links: that is found fast."""
    end, at = 0, text.find(_MARK)
    while at >= 0:
        begin = at - (5 if text[at - 1 : at] in _LAST_OF_HTTPS else 4)
        link = _LINK.match(text, begin) if begin >= end else None
        if link is not None:
            end = link.end()
            yield link[1]
        at = text.find(_MARK, at + len(_MARK))


def _of_subject(subject: str) -> Iterator[str]:
    yield f"subject_capitals_{int(4 * _capitals(subject))}"
    for mark, name in (("!", "call"), ("$", "dollar"), ("?", "question"), ("%", "percent")):
        if mark in subject:
            yield f"subject_{name}"
    if any(character.isdigit() for character in subject):
        yield "subject_digits"
    if subject[:3].lower() == "re:":
        yield "subject_answer"


def _of_body(body: str) -> Iterator[str]:
    body = body.strip()  # mailboxes add line breaks at the end
    yield f"body_capitals_{int(20 * min(_capitals(body[:MAX_CHARACTERS]), 0.39))}"
    yield f"body_length_{int(math.log2(1 + len(body)))}"
    for mark, name in (("!", "calls"), ("$", "dollars")):
        yield f"body_{name}_{min(int(math.log2(1 + body.count(mark))), 4)}"


def _capitals(text: str) -> float:
    data = single_bytes(text)
    if data is not None:
        others, no_capitals = (data.translate(None, each) for each in (_LETTERS, _CAPITALS))
        return (len(data) - len(no_capitals)) / max(len(data) - len(others), 1)
    letters = list(filter(str.isalpha, text))
    return sum(map(str.isupper, letters)) / max(len(letters), 1)


def _word(kind: str, value: str) -> str:
    """One word for the features, whatever the value holds."""
    return f"{kind}_{_OTHER.sub('_', value.lower())[:60]}"

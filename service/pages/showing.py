"""How the pages show sentences of the service, cells, values and moments; see `service.shown_text` for texts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup, escape

from service.locales import localized, localized_sentence
from service.pages.advice import MOST_ADVICE, in_pages
from service.shown_text import MOST_CHARACTERS, number, visible

MOST_OF_A_CELL = 120


def hint(text: str) -> Markup:
    """Return a sentence of the service as HTML: advice as the pages have it, numbers as the reader, commands marked."""
    parts = visible(in_pages(text[:MOST_ADVICE])).split("`")
    if len(parts) % 2 == 0:
        return escape(localized_sentence("`".join(parts)))
    marked = (
        Markup("<code>{}</code>").format(part) if place % 2 else escape(localized_sentence(part))
        for place, part in enumerate(parts)
    )
    return Markup("").join(marked)


def sentence(text: str) -> Markup:
    """Return what is told within a sentence as one of its own, as `hint` does."""
    return hint(text[:1].upper() + text[1:])


def exact(value: str) -> Markup:
    """Return a text as it is, for the value of a field, which is sent back and not read."""
    return escape(value)


def cell(value: Any) -> str:
    """Return a value of a data set, cut for a table."""
    return visible(number(value) if isinstance(value, int | float) else str(value), MOST_OF_A_CELL)


def long(value: Any) -> Markup:
    """Return a value of a row that somebody looks at by itself, cut, with its length where it was."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        text = str(value)
        cut = f" ({number(len(text))} characters)" if len(text) > MOST_CHARACTERS else ""
        return escape(visible(text) + cut)
    return escape(localized(f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"))


def ago(moment: datetime) -> str:
    """Return how long ago something was, in words."""
    seconds = max(0.0, (datetime.now(UTC) - moment).total_seconds())
    for length, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' * (count > 1)} ago"
    return "just now"


def after(at: datetime, begun: datetime) -> str:
    """Return how long after another moment something was, in words."""
    seconds = max(0.0, (at - begun).total_seconds())
    for least, length, unit in ((7200, 3600, "h"), (120, 60, "min"), (0, 1, "s")):
        if seconds >= least:
            return f"{int(seconds // length)} {unit}"
    raise AssertionError(seconds)  # never: the last one begins at 0


def moment(at: datetime) -> Markup:
    """Return a time as the browser's own language can say it; without script it is told in UTC."""
    utc = at.astimezone(UTC)
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(
        utc.isoformat(timespec="seconds"), utc.strftime("%Y-%m-%d %H:%M:%S"), ago(at)
    )

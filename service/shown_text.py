"""Texts and numbers as people read them: what comes from outside is cut, and holds nothing that changes how it reads.

Jinja escapes HTML. What is left are characters without a form of their own: controls, and those that turn the
direction of all that follows. They are shown by name.
"""

from __future__ import annotations

import math
import unicodedata
from typing import Any

from markupsafe import Markup

from service.locales import localized, percentage
from solver import percents

MOST_CHARACTERS = 2000
"""Of anything that a page shows."""
MOST_OF_A_NAME = 80
_BLANKS = "\t\n\r"


def visible(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return a text that reads as it stands, cut."""
    shown = text[:most]
    if not shown.isprintable():
        shown = "".join(map(_visible, shown))
    return shown if len(text) <= most else shown + "…"


def _visible(character: str) -> str:
    if character.isprintable() or character in _BLANKS:
        return character
    if ord(character) < 0x20:
        return chr(0x2400 + ord(character))
    # Zs are blanks of other widths, which do no harm; the rest breaks lines, or is control, format or not assigned.
    return character if unicodedata.category(character) == "Zs" else f"⟨U+{ord(character):04X}⟩"


def finalize(value: Any) -> Any:
    """Make what stands in a template's braces safe to read; Jinja calls it for each of them."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def name(value: str) -> str:
    """Return a name, cut for a heading or a list."""
    return visible(value, MOST_OF_A_NAME)


def number(value: float) -> str:
    """Return a number as people write it."""
    if not math.isfinite(value):
        return str(value)
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e15):
        return localized(f"{int(value):,}")
    return localized(f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}")


def percent(share: float | None) -> str:
    """Return a measured share in percent; see `solver.percents`, also for the others."""
    return "–" if share is None else _localized(percents.measured(share))


def least_percent(bound: float) -> str:
    """Return in percent what a share is at least: rounded down."""
    return _localized(percents.at_least(bound))


def most_percent(bound: float) -> str:
    """Return in percent what a share is at most: rounded up."""
    return _localized(percents.at_most(bound))


def asked_percent(share: float) -> str:
    """Return a share that somebody asked for in percent, to the last digit: 0.9999 is not 100%."""
    return _localized(percents.asked(share))


def _localized(share: str) -> str:
    return percentage(share.removesuffix("%"))


def chance(probability: float | None) -> str:
    """Return a probability in percent: what is short of certain is not called so."""
    if probability is None or 0.001 <= probability <= 0.999:
        return percent(probability)
    return f"under {percent(0.001)}" if probability < 0.5 else f"over {percent(0.999)}"


def size(count: int) -> str:
    """Return a number of bytes."""
    value, unit = float(count), "bytes"
    for larger in ("KB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return localized(f"{value:.0f}" if unit == "bytes" or value >= 100 else f"{value:.1f}") + f" {unit}"

"""Why a row has its score, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any


def why(explanation: Mapping[str, Any]) -> str:
    """Return what weighed most: `prize +0.31; job -0.12`, of several classes after `urgent, not other:`."""
    between = f"{explanation['said']}, not {explanation['against']}: " if explanation.get("against") else ""
    return between + "; ".join(f"{_name(weight)} {weight['change']:+.3g}" for weight in explanation["weights"])


def nearest(explanation: Mapping[str, Any]) -> str:
    """Return which labelled rows are most like it: `row 17 spam 0.83; row 4 ham 0.41`."""
    return "; ".join(f"{_row(each)} {each['label']} {each['similarity']:.2f}" for each in explanation["nearest"] or ())


def print_reasons(explanation: Mapping[str, Any], sink: IO[str] | None) -> None:
    """Write both, a line each; to people (no sink) without characters that a terminal might obey."""
    for line in filter(None, (why(explanation), nearest(explanation))):
        visible = line if sink is not None else "".join(c if c.isprintable() else "\ufffd" for c in line)
        print(f"    {visible}", file=sink)


def _name(weight: Mapping[str, Any]) -> str:
    """Return what a part of a row is called: a word by itself, a column by its name."""
    name = weight["column"] if weight["term"] is None else weight["term"]
    return f"{name} (encoded)" if weight["kind"] == "encoding" else str(name)


def _row(found: Mapping[str, Any]) -> str:
    return "feedback" if found["row"] is None else f"row {found['row']}"

"""Labels of another table, joined to rows by the keys of both."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from solver.labels import folded
from solver.report import JoinedLabelsReport

MOST_NAMED: Final = 3
"""Examples in a message."""
LONGEST_NAMED: Final = 40
"""Characters of an example."""


class JoinError(ValueError):
    """Labels and rows do not come together.

    Attributes
    ----------
    code : str
        `conflicting_labels` or `no_matching_key`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class JoinedLabels:
    """What `join_labels` returns.

    Attributes
    ----------
    labels : object array of shape (rows,)
        Label of each row, None where there is none.
    report : JoinedLabelsReport
    warnings : list of str
    """

    labels: NDArray[np.object_]
    report: JoinedLabelsReport
    warnings: list[str]


def join_labels(
    keys: Sequence[str | None],
    label_keys: Sequence[str | None],
    labels: Sequence[str | None],
    *,
    names: tuple[str, str],
    unlabeled: Collection[str] = (),
    fold: bool = False,
) -> JoinedLabels:
    """Give each row the label that the labels' table has for its key. Costs the rows of both, not their product.

    Keys are equal if their characters are, composed (NFC): `7` is not `007`.

    Parameters
    ----------
    keys : sequence of str or None, shape (rows,)
    label_keys, labels : sequence of str or None, shape (rows of the labels,)
        A label that is missing, blank, or in `unlabeled` says nothing.
    names : tuple of str
        What the two columns of keys are called, that of the rows first.
    unlabeled : collection of str
    fold : bool, default False
        Whether labels that differ in capitals or blanks only are the same.

    Raises
    ------
    JoinError
        `conflicting_labels` if a key has two labels, `no_matching_key` if no key with a label is that of a row.
    """
    first, repeated, without_key = _first_rows(label_keys, labels, names[1], unlabeled, fold)
    joined = np.full(len(keys), None, dtype=object)
    met: set[str] = set()
    shared: list[str] = []
    rows_without_key = labelled = 0
    for row, key in enumerate(keys):
        if key is None or not key.strip():
            rows_without_key += 1
            continue
        key = composed_key(key)
        at = first.get(key)
        if at is None:
            continue
        if key in met:
            shared.append(key)
        met.add(key)
        joined[row] = labels[at]
        labelled += 1
    unmatched = [key for key in first if key not in met]
    if first and not met:
        there = [key for key in keys[:1000] if key is not None and key.strip()]
        raise JoinError(
            "no_matching_key",
            f"none of the {len(first):,} labelled keys in column {names[1]!r} of the labels ({_named(unmatched)}) is a "
            f"key in column {names[0]!r} of the rows ({_named(there) or 'all missing'}); keys are compared as texts, "
            "so 7 is not 007",
        )
    report = JoinedLabelsReport(
        labelled=labelled,
        unmatched=len(unmatched),
        repeated=repeated,
        without_key=without_key,
        rows_without_key=rows_without_key,
        shared=len(shared),
    )
    said = (
        (len(unmatched), "labelled key(s) are not in the data set", unmatched),
        (repeated, "row(s) of the labels repeat a key and its label", ()),
        (without_key, f"row(s) of the labels have a label and no key in column {names[1]!r}", ()),
        (rows_without_key, f"row(s) have no key in column {names[0]!r} and count as unlabelled", ()),
        (len(shared), "row(s) have their label together with an earlier row of the same key", shared),
    )
    warnings = [
        f"labels: {count:,} {what}" + (f" ({_named(examples)})" if examples else "")
        for count, what, examples in said
        if count
    ]
    return JoinedLabels(joined, report, warnings)


def composed_key(key: str) -> str:
    """Return a key in the form in which keys are compared (NFC)."""
    return key if key.isascii() else unicodedata.normalize("NFC", key)


def _first_rows(
    keys: Sequence[str | None], labels: Sequence[str | None], name: str, unlabeled: Collection[str], fold: bool
) -> tuple[dict[str, int], int, int]:
    """Return the row that labels each key, how many say the same again, and how many labels have no key."""
    silent = frozenset(map(folded, unlabeled) if fold else unlabeled)
    first: dict[str, int] = {}
    conflicts: list[tuple[str, int, int]] = []
    conflicting = repeated = without_key = 0
    for row, (key, label) in enumerate(zip(keys, labels, strict=True)):
        if label is None or not label.strip() or (folded(label) if fold else label) in silent:
            continue
        if key is None or not key.strip():
            without_key += 1
            continue
        at = first.setdefault(composed_key(key), row)
        if at == row:
            continue
        earlier = labels[at]
        if label == earlier or (fold and earlier is not None and folded(label) == folded(earlier)):
            repeated += 1
            continue
        conflicting += 1
        if len(conflicts) < MOST_NAMED:
            conflicts.append((key, at, row))
    if conflicts:
        named = "; ".join(
            f"{_short(key)} is {_short(labels[at])} in row {at + 1} and {_short(labels[row])} in row {row + 1}"
            for key, at, row in conflicts
        )
        raise JoinError(
            "conflicting_labels",
            f"{conflicting:,} row(s) of the labels contradict an earlier row of the same key in column {name!r}: "
            f"{named}; leave one label a key",
        )
    return first, repeated, without_key


def _named(keys: Sequence[str]) -> str:
    return ", ".join(map(_short, keys[:MOST_NAMED])) + (", …" if len(keys) > MOST_NAMED else "")


def _short(text: str | None) -> str:
    text = text or ""
    return repr(text if len(text) <= LONGEST_NAMED else text[:LONGEST_NAMED] + "…")

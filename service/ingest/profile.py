"""What is known of the columns of an upload: their kinds, ranges, and how often values occur where there are few."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from service.ingest.errors import IngestError
from service.ingest.limits import MAX_NAME_CHARACTERS

if TYPE_CHECKING:
    from service.ingest.quoting import Lines

NESTED = "it holds lists or objects; send a column for each of their values"
"""Why a column of such values is left out."""
MOST_LEFT_OUT = 20
"""Columns that are left out of which each gets a warning of its own."""


@dataclass
class ColumnProfile:
    """One column.

    Attributes
    ----------
    name : str
    kind : {"number", "category", "text", "date", "vector", "features"}
        See `service.ingest.options.Kind`; ``vector`` for lists of as many numbers in each row; ``features`` is the
        sparse matrix of a ``matrix`` layout, as one entry.
    missing : int
        Rows without a value.
    distinct : int
        Different values; 1001 for more than 1000.
    distinct_capped : bool, optional
        True if there are more than 1000.
    values : dict of str to int, optional
        How many rows have each value, if there are at most 20 different ones; numbers in their shortest form.
    written : dict of str to str, optional
        How the numbers in `values` stand in the file, by their shortest form, where they have decimal commas,
        separators of thousands or a unit: ``{"10": "10%"}``. So they are called as labels.
    min, max : float, optional
        Of the numbers that are there.
    earliest, latest : str, optional
        Of the dates that are there, as they are written. Where there are more than 1000 different ones, only of those
        that begin with the year.
    constant : bool
        One value in all rows ("missing" counts as a value).
    leading_zeros : bool
        Text of digits only that begins with a zero occurs, so the column would not survive as numbers.
    identifier : str, optional
        Why it is taken for an index, a counter, an id or a key, see `service.ingest.identifiers`.
    missing_words : dict of str to int, optional
        Words in a column of numbers that count as missing, as they are spelt, and how often they occur.
    plus_minus_one : bool, optional
        True for text of which each value is ``-1`` or ``+1``: labels that need no word on what is positive.
    count, nonzeros : int, optional
        Of a feature matrix: its width and its stored entries.
    length : int, optional
        Numbers of a vector.
    norm_min, norm_mean, norm_max : float, optional
        Of the lengths (Euclidean norms) of the vectors.
    zero_rows : int, optional
        Vectors that hold nothing but zeros.
    identifiers : dict of str to str, optional
        Columns of a feature matrix, by their numbers, that have an `identifier`.
    """

    name: str
    kind: str
    missing: int = 0
    distinct: int | None = None
    distinct_capped: bool | None = None
    values: dict[str, int] | None = None
    written: dict[str, str] | None = None
    min: float | None = None
    max: float | None = None
    earliest: str | None = None
    latest: str | None = None
    constant: bool | None = None
    leading_zeros: bool | None = None
    identifier: str | None = None
    missing_words: dict[str, int] | None = None
    plus_minus_one: bool | None = None
    count: int | None = None
    nonzeros: int | None = None
    length: int | None = None
    norm_min: float | None = None
    norm_mean: float | None = None
    norm_max: float | None = None
    zero_rows: int | None = None
    identifiers: dict[str, str] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what is known as a JSON object."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Columnar:
    """What a reader wrote.

    Attributes
    ----------
    layout : {"table", "matrix"}
    rows : int
    columns : list of ColumnProfile
    duplicate_rows : int, optional
        Rows that are equal to an earlier one in every column; None if that was not looked at.
    dropped_rows : int
        What stands in the file in the place of a row and is none; a warning says what.
    lines : `service.ingest.quoting.Lines`, optional
        What became of the lines of a delimited text.
    left_out : mapping of str to str
        Columns of the file that cannot be used and are not among `columns`, each with the reason.
    """

    layout: Literal["table", "matrix"]
    rows: int
    columns: list[ColumnProfile]
    duplicate_rows: int | None = None
    dropped_rows: int = 0
    lines: Lines | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)


def left_out_warnings(left_out: Mapping[str, str]) -> list[str]:
    """Return what to say of columns that cannot be used; of many, the first."""
    said = [f"column {name!r} is left out: {reason}" for name, reason in left_out.items()]
    if len(said) > MOST_LEFT_OUT:
        said[MOST_LEFT_OUT:] = [f"{len(said) - MOST_LEFT_OUT} more columns are left out for such reasons"]
    return said


def checked_names(raw: list[str], warnings: list[str], *, line: int | None = None) -> list[str]:
    """Bring column names to the form that everything else relies on.

    Surrounding blanks go, Unicode is normalised (NFC), an empty name of a third column becomes ``column3`` with a
    warning.

    Parameters
    ----------
    raw : list of str
        As they stand in the file.
    warnings : list of str
        Gets what was changed.
    line : int, optional
        Where they stand, for the error.

    Raises
    ------
    IngestError
        ``bad_column_name``: over 256 characters, with a control character, or twice there.
    """
    names = []
    unnamed = []
    first: dict[str, int] = {}
    for position, each in enumerate(raw, start=1):
        name = unicodedata.normalize("NFC", each).strip()
        if not name:
            name = f"column{position}"
            unnamed.append(position)
        if len(name) > MAX_NAME_CHARACTERS:
            raise IngestError(
                "bad_column_name",
                f"the name of column {position} has {len(name)} characters; at most {MAX_NAME_CHARACTERS} are allowed",
                line=line,
            )
        if has_control_characters(name):
            raise IngestError("bad_column_name", f"the name of column {position} has a control character", line=line)
        if name in first:
            raise IngestError(
                "bad_column_name",
                f"columns {first[name]} and {position} have the same name {name!r}; expected each name once",
                line=line,
                column=name,
            )
        first[name] = position
        names.append(name)
    if len(unnamed) == 1:
        warnings.append(f"column {unnamed[0]} has no name and is called 'column{unnamed[0]}'")
    elif unnamed:
        warnings.append(f"{len(unnamed)} columns have no name and are called by their place, as 'column{unnamed[0]}'")
    return names


def has_control_characters(text: str) -> bool:
    """Whether there are control characters, line separators, or halves of surrogate pairs."""
    return not text.isprintable() and any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in text)

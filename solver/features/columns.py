"""Raw tables: named columns of numbers, texts or vectors, and what applying a fitted pipeline to one had to bridge."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, Literal, get_args

from numpy.typing import NDArray

from solver.reading import AS_IS, Reading
from solver.typing import IndexArray

# how the values of a raw column are held
ColumnKind = Literal["number", "text", "vector"]
# what a column is to a model. Free text alone is `"text"` here.
FeatureKind = Literal["number", "category", "date", "text", "vector"]
FEATURE_KINDS: Final[tuple[FeatureKind, ...]] = get_args(FeatureKind)

# Scaled numbers are cut here, in standard deviations from the mean: a wild one would decide every distance by itself.
CUT: Final = 3.0
# where dates are cut, and the numbers of models from before that, so that no kernel overflows
LARGEST_SCORE: Final = 1e6
# columns that warnings name one by one: a row from outside may have thousands that are worth a word
MOST_NAMED: Final = 20
# "by so many times the range" says no more than this
_FURTHEST: Final = 1e9


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    name : str
    kind : {"number", "text", "vector"}
    values : ndarray, shape (rows,)
        Numbers: float64, NaN where missing (an infinite value counts as missing too).
        Texts: objects, each a str or None where missing.
        Vectors: float32 of shape (rows, length), all of them finite. None is ever missing.
    reading : Reading, optional
        How the values were written that became these; None for values that no upload has read.
    """

    name: str
    kind: ColumnKind
    values: NDArray[Any]
    reading: Reading | None = None

    def replaced(self, values: NDArray[Any]) -> Column:
        """The same column with other values."""
        return Column(self.name, self.kind, values, self.reading)

    @property
    def known_reading(self) -> Reading:
        """How its values are written; a vector is never written as text."""
        return self.reading or AS_IS["text" if self.kind == "text" else "number"]


def chosen_names(names: Iterable[str], include: Iterable[str] | None, exclude: Iterable[str]) -> list[str]:
    """Return the names that are included, or all without such a choice, and not excluded, in order."""
    left_out = frozenset(exclude)
    wanted = None if include is None else frozenset(include)
    return [name for name in names if name not in left_out and (wanted is None or name in wanted)]


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of equal length by name."""

    columns: dict[str, Column]

    def __post_init__(self) -> None:
        lengths = {len(column.values) for column in self.columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns of one table differ in length: {sorted(lengths)}")

    @property
    def n_rows(self) -> int:
        """Number of rows; 0 without columns."""
        for column in self.columns.values():
            return len(column.values)
        return 0

    def take(self, rows: IndexArray) -> Table:
        """Those rows, in that order, as a table of its own."""
        return Table({c.name: c.replaced(c.values[rows]) for c in self.columns.values()})


# what is said of the rows of a column that each part of `FeatureCounts` counts
_SAID_OF: Final = {
    "missing": "have no value; training had none missing, its median or mean is used",
    "unseen": "hold a category that training never saw",
    "unreadable": "hold no date that can be read; they count as missing",
    "wordless": "hold a text without any word that training knew",
    "far": "hold a number far outside those of the training, where the model only guesses (the furthest by",
    "distant": "hold a vector far from those of the training, as of another encoder; there the model only guesses",
    "foreign": "hold a text whose encoding is far from those of the training; there the model only guesses",
}


_COUNTED: Final = attrgetter(*_SAID_OF)


@dataclass(slots=True)
class FeatureCounts:
    """What `transform` met that the fitted pipeline had to bridge, by raw column.

    Attributes
    ----------
    missing : dict of str to int
        Rows without a number or date in a column that had none missing when the pipeline was fitted.
    unseen : dict of str to int
        Rows with a category (or a missing one) that the fitted rows did not have (no level is set).
    unreadable : dict of str to int
        Rows with something that is no date in a column of dates (they count as missing).
    wordless : dict of str to int
        Rows with a text of which no word is known.
    far : dict of str to int
        Rows with a number beyond those of the fitted rows by more than their whole range.
    furthest : dict of str to float
        How far beyond those of the fitted rows the furthest of these numbers is, in whole ranges.
    distant : dict of str to int
        Rows with a vector farther from the mean of the fitted ones, or nearer to it, than any of these by more than the
        whole range of their distances.
    foreign : dict of str to int
        Likewise rows with an encoded text.
    far_rows : list of int
        The rows that `far`, `distant` and `foreign` count, of the table that was transformed last.
    unlike : int
        Rows that no support vector is near, so that their score is the intercept; the decision counts them.
    extra : int
        Non-zero entries of a matrix beyond its fitted width, or NaN and infinite ones (all ignored).
    """

    missing: dict[str, int] = field(default_factory=dict)
    unseen: dict[str, int] = field(default_factory=dict)
    unreadable: dict[str, int] = field(default_factory=dict)
    wordless: dict[str, int] = field(default_factory=dict)
    far: dict[str, int] = field(default_factory=dict)
    furthest: dict[str, float] = field(default_factory=dict)
    distant: dict[str, int] = field(default_factory=dict)
    foreign: dict[str, int] = field(default_factory=dict)
    far_rows: list[int] = field(default_factory=list)
    unlike: int = 0
    extra: int = 0

    def count_far(self, name: str, rows: int, ranges: float) -> None:
        """Count rows whose number in a column is far outside, the furthest by so many ranges."""
        self.far[name] = self.far.get(name, 0) + rows
        self.furthest[name] = max(self.furthest.get(name, 0.0), float(min(ranges, _FURTHEST)))

    def add(self, other: FeatureCounts) -> None:
        """Count what further rows had, too."""
        for part in _SAID_OF:
            mine = getattr(self, part)
            for name, n in getattr(other, part).items():
                mine[name] = mine.get(name, 0) + n
        for name, ranges in other.furthest.items():
            self.furthest[name] = max(self.furthest.get(name, 0.0), ranges)
        self.unlike += other.unlike
        self.extra += other.extra

    def warnings(self) -> list[str]:
        """The same as sentences for the user."""
        if not (any(_COUNTED(self)) or self.unlike or self.extra):
            return []
        said = []
        for part, what in _SAID_OF.items():
            columns = sorted(getattr(self, part).items(), key=lambda column: -column[1])
            for name, n in columns[:MOST_NAMED]:
                by = f" {self.furthest.get(name, 1.0):.3g} times their range)" if part == "far" else ""
                said.append(f"column {name!r}: {n} row(s) {what}{by}")
            if len(columns) > MOST_NAMED:
                said.append(f"{len(columns) - MOST_NAMED} more columns: row(s) {what.partition(' (')[0]}")
        if self.unlike:
            said.append(
                f"{self.unlike} row(s) are unlike any row of the training: their score is the one that the model gives "
                "to whatever is far from all that it knows"
            )
        if self.extra:
            said.append(f"{self.extra} matrix entries are not finite or beyond the trained columns and were ignored")
        return said

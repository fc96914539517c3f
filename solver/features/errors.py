"""What can be wrong with data that are to become features."""

from __future__ import annotations

from collections.abc import Sequence


class FeatureError(ValueError):
    """Base of all errors about data that do not fit; its text can be shown to the user."""


class MissingColumns(FeatureError):  # noqa: N818 (named in the HTTP contract's words)
    """Columns that the model was trained on are not there.

    Attributes
    ----------
    names : tuple of str
        The columns that were not found.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        super().__init__(f"missing columns: {', '.join(repr(name) for name in self.names)}")


class BadRow(FeatureError):  # noqa: N818 (as above)
    """A row is not as it should be. None of its values is in the text.

    Attributes
    ----------
    row : int
        Which row, counted from 0.
    reason : str
        What is wrong with it.
    """

    def __init__(self, row: int, reason: str) -> None:
        self.row = row
        self.reason = reason
        super().__init__(f"row {row}, {reason}")


class BadValue(BadRow):
    """A value is not of the kind that its column holds.

    Attributes
    ----------
    column : str
        Which column.
    expected : str
        What would have been right, e.g. `"a number or null"`.
    """

    def __init__(self, row: int, column: str, expected: str) -> None:
        self.column = column
        self.expected = expected
        super().__init__(row, f"column {column!r}: expected {expected}")


class StateError(FeatureError):
    """The stored state of a feature pipeline contradicts itself: it was not written by this product, or is damaged."""

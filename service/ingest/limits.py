"""How much of an upload is read before it is refused. All are checked before memory is taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.ingest.errors import IngestError
from solver.reading import LARGEST_EXACT, MAX_CHARACTERS

if TYPE_CHECKING:  # the child that reads a file gets plain numbers and need not load pydantic
    from service.settings import Settings

COLUMN_BYTES = 24 << 10
"""That a column takes while a file is read, however few its rows are: measured 21 KiB in Parquet, 16 in CSV, 11 in JSON
Lines."""
READER_BYTES = 1536 << 20
"""Of a reader's address space that it takes itself, with a few rows."""
FEWEST_COLUMNS = 1_000
"""That are tried however little memory there is."""
MAX_THREADS = 4
"""Of one reader."""
MAX_NAME_CHARACTERS = MAX_CHARACTERS
"""Longest column name, and longest label."""
MAX_MISSING_SPELLINGS = 100
"""Words for missing values that an option may name, and of those that everybody uses, found in one column."""
MAX_DISTINCT = 1001
"""Where counting distinct values stops: 1001 stands for "more than 1000"."""
MAX_LISTED_VALUES = 20
"""A column with at most so many different values has each of them counted."""
CELL_BYTES = 8
"""Of a number in a table, and at least of a text."""
MAX_COMPARED_ROWS = 10_000_000
"""Rows among which equal ones are counted; it takes 8 bytes a row."""
MAX_EXPANSION = 250
"""Largest ratio of unpacked to packed bytes, once more than `EXPANSION_FREE_BYTES` were unpacked."""
EXPANSION_FREE_BYTES = 32 << 20
MAX_EXACT_INTEGER = LARGEST_EXACT
"""float64 holds every integer up to here; a longer one is an identifier, and stays text."""


@dataclass(frozen=True)
class ReadingLimits:
    """The part of the settings that readers obey, see `service.settings.Settings` for each."""

    max_bytes: int
    """Largest file after unpacking, and largest amount of text in one table."""
    max_rows: int
    max_columns: int
    """What fits into the memory of a reader by their number alone; their rows may still be too many for it."""
    max_feature_index: int
    max_cells: int
    max_line_bytes: int

    @classmethod
    def of(cls, settings: Settings) -> ReadingLimits:
        """Take the limits from the settings."""
        return cls(
            max_bytes=settings.max_upload_bytes,
            max_rows=settings.max_rows,
            max_columns=max(FEWEST_COLUMNS, (settings.ingest_memory_bytes - READER_BYTES) // COLUMN_BYTES),
            max_feature_index=settings.max_feature_index,
            max_cells=settings.max_cells,
            max_line_bytes=settings.max_line_bytes,
        )


def check_unpacked(unpacked: int, packed: int, limits: ReadingLimits, free_bytes: int = EXPANSION_FREE_BYTES) -> None:
    """Refuse what becomes of a packed file: more than any file may have, or than one of its size."""
    if unpacked > limits.max_bytes:
        raise IngestError("expands_too_much", f"the file unpacks to more than the {limits.max_bytes} bytes allowed")
    if unpacked > max(free_bytes, MAX_EXPANSION * packed):
        raise IngestError("expands_too_much", f"the file unpacks to more than {MAX_EXPANSION} times its own size")


def check_laid_out(size: int, packed: int, *, line: int) -> None:
    """Refuse rows that leave so much out that a table of them is far larger than their file, as packed ones would be.

    Parameters
    ----------
    size : int
        Bytes of the table up to this row.
    packed : int
        Those of the file.
    line : int
        Of this row.
    """
    if size > max(EXPANSION_FREE_BYTES, MAX_EXPANSION * packed):
        raise IngestError(
            "expands_too_much",
            f"with this row the table has more than {MAX_EXPANSION} times the size of the file, because rows leave out "
            "most of its columns; send fewer columns, or svmlight, of which only what is there is kept",
            line=line,
        )


class UnpackingBudget:
    """Counts what comes out of a file of so many packed bytes."""

    def __init__(self, packed: int, limits: ReadingLimits) -> None:
        self._packed = packed
        self._limits = limits
        self._unpacked = 0

    def spend(self, size: int) -> None:
        """Count so many bytes; refuses if these are too many."""
        self._unpacked += size
        check_unpacked(self._unpacked, self._packed, self._limits)

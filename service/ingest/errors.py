"""What can be wrong with an upload."""

from __future__ import annotations

import errno
from typing import Literal

Code = Literal[
    "bad_option",  # an option that the format does not have, or a value it does not allow
    "unknown_column",  # an option names a column that the file does not have
    "bad_column_name",  # too long, with control characters, or twice there
    "bad_encoding",  # bytes that are not text in the stated encoding
    "malformed",  # not of the stated format
    "truncated",  # the end is missing
    "ragged",  # a row with more or fewer values than the header
    "bad_value",  # a value that the column's kind does not allow
    "bad_label",  # a label that is too long or has control characters
    "unsupported",  # part of the format, but nothing that can be trained on: nested columns, object arrays
    "empty",  # no rows
    "too_many_columns",
    "too_many_rows",
    "too_many_cells",
    "too_long",  # a line, row or value
    "index_too_large",  # a feature index
    "expands_too_much",  # a compressed file that unpacks to too much
    "out_of_memory",  # the reader met its memory limit
    "storage_full",  # no room for what the reader makes of the file, which is not to blame
    "timeout",  # the reader met its time limit
    "crashed",  # the reader died; the file is to blame as far as anybody can tell
]


class IngestError(Exception):
    """An upload that cannot be read, or only at a price that nobody should pay.

    Parameters
    ----------
    code : str
        One of `Code`, stable.
    message : str
        What was wrong and what was expected, for the person who sent the file. Names columns and lines, never a value.
    line : int, optional
        Line of the (unpacked) file where it was noticed, 1-based; for formats without lines, the row.
    column : str, optional
        Name of the column.
    """

    def __init__(self, code: Code, message: str, *, line: int | None = None, column: str | None = None) -> None:
        super().__init__(message)
        self.code: Code = code
        self.message = message
        self.line = line
        self.column = column


def is_of_the_disk(error: BaseException) -> bool:
    """Tell whether the disk, not the file, is to blame for an error."""
    return isinstance(error, OSError) and error.errno not in (None, errno.EINVAL)  # EINVAL: a seek to before the start

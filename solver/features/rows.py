"""JSON rows → the columns that a model needs."""

from __future__ import annotations

import math
import struct
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np

from solver.features.columns import Column, Table
from solver.features.errors import BadRow, BadValue, FeatureError, MissingColumns
from solver.features.vectors import VectorArray
from solver.labels import is_missing_word
from solver.reading import AS_IS, Reading, number_text
from solver.typing import FloatArray

_NUMBER_TYPES: Final = frozenset({int, float, bool, type(None)})
_TEXT_EXPECTED: Final = "text, a number, true, false or null"
_OF_A_VECTOR: Final = frozenset({int, float})


class RawValues(NamedTuple):
    """Values of the columns that a model needs, before they become features.

    Attributes
    ----------
    numbers : float64 array of shape (rows, number columns)
        NaN where missing.
    texts : list of lists
        Of each other column that is no vector.
    vectors : list of float32 arrays of shape (rows, length)
        Of each column of vectors.
    """

    numbers: FloatArray
    texts: list[list[str | None]]
    vectors: list[VectorArray]


def table_from_rows(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Mapping[str, Any]],
    readings: Mapping[str, Reading] | None = None,
) -> tuple[Table, list[str]]:
    """Take the columns that a model needs out of JSON rows.

    Parameters
    ----------
    rows : sequence of mappings
        Column name to value; blanks around a name and the form of its Unicode do not matter. `None` and the empty
        text are missing values, as are the words that the column's reading names. A number column takes finite numbers,
        booleans, and texts that its reading takes for numbers; one of vectors takes lists of as many finite numbers as
        those of the training have; the others take text, booleans (`"true"`, `"false"`) and finite numbers
        (`number_text`).
    columns : sequence of mappings
        `{"name", "kind"}` each, and `"length"` of vectors, as `TableFeatures.columns` or `Model.columns`.
    readings : mapping of str to Reading, optional
        How the values of a column are written. Default: of each column, `AS_IS`.

    Returns
    -------
    table : Table
    extra : list of str
        Names in the rows that are not needed, sorted.

    Raises
    ------
    MissingColumns
        If any row lacks one of the columns; it lists all that are lacking somewhere.
    BadValue
        For the first value of a wrong type.
    """
    reader = RowReader(columns, readings)
    values, extra = reader.read(rows)
    made = {name: Column(name, "number", values.numbers[:, j]) for j, name in enumerate(reader.numbers)}
    for name, texts in zip(reader.texts, values.texts, strict=True):
        made[name] = Column(name, "text", np.array([*texts, None], dtype=object)[:-1])
    for each, vectors in zip(reader.vectors, values.vectors, strict=True):
        made[each.name] = Column(each.name, "vector", vectors)
    return Table(made), extra


def meant_rows(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Mapping[str, Any]],
    readings: Mapping[str, Reading] | None = None,
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return rows with what their values mean to a model in place of how they are written.

    Texts in columns of numbers become numbers, words for missing values None. Whoever reads the numbers in another way
    than the model, such as the next data set, then finds the same ones.

    Parameters
    ----------
    rows, columns, readings
        As for `table_from_rows`.

    Returns
    -------
    rows : list of dict
        By the names of `columns`; other values as they came.
    meant : dict of str to {"number", "text"}
        What the columns whose reading is known hold now, missing values aside.

    Raises
    ------
    MissingColumns, BadValue
        See `table_from_rows`.
    """
    reader = RowReader(columns, readings)
    rows = [row if reader.names <= row.keys() else reader.with_known_names(i, row) for i, row in enumerate(rows)]
    values, _ = reader.read(rows)
    made = [dict(row) for row in rows]
    for j, name in enumerate(reader.numbers):
        for row, number in zip(made, values.numbers[:, j].tolist(), strict=True):
            row[name] = None if math.isnan(number) else number
    for each in reader.text_readers:
        for row in made:
            row[each.name] = each.meant(row[each.name])
    return made, _meant(readings)


def meant_table(
    table: Table, columns: Sequence[Mapping[str, Any]], readings: Mapping[str, Reading] | None = None
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the rows of a table as `meant_rows` does; of its columns, those that the model needs.

    Raises
    ------
    MissingColumns, BadValue, FeatureError
        See `RowReader.read_table`.
    """
    reader = RowReader(columns, readings)
    values = reader.read_table(table)
    made: list[dict[str, Any]] = [
        {name: None if math.isnan(value) else value for name, value in zip(reader.numbers, row, strict=True)}
        for row in values.numbers.tolist()
    ]
    for vector, numbers in zip(reader.vectors, values.vectors, strict=True):
        for row, vector_of_row in zip(made, numbers.tolist(), strict=True):
            # in nine digits, of which float32 makes the same numbers
            row[vector.name] = [float(f"{number:.9g}") for number in vector_of_row]
    for each, texts in zip(reader.text_readers, values.texts, strict=True):
        for row, value in zip(made, texts, strict=True):
            is_number = value is not None and each.reading.kind == "number" and AS_IS["number"].is_number(value)
            row[each.name] = float(value) if value is not None and is_number else value
    return made, _meant(readings)


def _meant(readings: Mapping[str, Reading] | None) -> dict[str, str]:
    return {name: reading.kind for name, reading in (readings or {}).items()}


class RowReader:
    """Takes the columns that a model needs out of JSON rows; made once a model, so that one row is quick.

    Parameters
    ----------
    columns : sequence of mappings
        `{"name", "kind"}` each, and `"length"` of vectors.
    readings : mapping of str to Reading, optional
        See `table_from_rows`.
    unclear : mapping of str to collection of str, optional
        Numbers, in their shortest form, that mean several levels of a column, such as `1` where there are `1` and
        `1.0`: only as text are they told apart.
    """

    def __init__(
        self,
        columns: Sequence[Mapping[str, Any]],
        readings: Mapping[str, Reading] | None = None,
        unclear: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        self.numbers = [column["name"] for column in columns if column["kind"] == "number"]
        self.texts = [column["name"] for column in columns if column["kind"] not in ("number", "vector")]
        self.vectors = [
            _VectorReader(column["name"], column["length"]) for column in columns if column["kind"] == "vector"
        ]
        known = readings or {}
        self._number_readings = [known.get(name, AS_IS["number"]) for name in self.numbers]
        self._missing_numbers = [
            (j, np.array(reading.missing_numbers))
            for j, reading in enumerate(self._number_readings)
            if reading.missing_numbers
        ]
        self.text_readers = [
            _TextReader(
                column["name"],
                column["kind"],
                known.get(column["name"], AS_IS["text"]),
                (unclear or {}).get(column["name"], frozenset()),
            )
            for column in columns
            if column["kind"] not in ("number", "vector")
        ]
        self.names = {column["name"] for column in columns}
        self._byclean_name = {clean_name(name): name for name in self.names}
        self._pick: Callable[[Mapping[str, Any]], Sequence[Any]] = _picker(self.numbers)

    def read(self, rows: Sequence[Mapping[str, Any]]) -> tuple[RawValues, list[str]]:
        """Return the values of the columns, and the names not needed.

        Raises
        ------
        MissingColumns, BadValue
            See `table_from_rows`.
        """
        try:
            picked = list(map(self._pick, rows))
            unread = [[row[name] for row in rows] for name in self.texts] if self.texts else []
            vectors = [[row[each.name] for row in rows] for each in self.vectors] if self.vectors else []
        except KeyError:
            rows = [self.with_known_names(i, row) for i, row in enumerate(rows)]
            lacking = [name for name in self._ordered_names() if any(name not in row for row in rows)]
            if lacking:
                raise MissingColumns(lacking) from None
            picked = list(map(self._pick, rows))
            unread = [[row[name] for row in rows] for name in self.texts]
            vectors = [[row[each.name] for row in rows] for each in self.vectors]
        values = RawValues(
            self._number_block(picked),
            [reader.read(each) for reader, each in zip(self.text_readers, unread, strict=True)] if unread else [],
            [reader.read(each) for reader, each in zip(self.vectors, vectors, strict=True)] if vectors else [],
        )
        extra: set[str] = set()
        for row in rows:
            if len(row) > len(self.names):  # it has all of them, so only then can there be others
                extra.update(row.keys() - self.names)
        return values, sorted(extra)

    def _ordered_names(self) -> tuple[str, ...]:
        return (*self.numbers, *self.texts, *(each.name for each in self.vectors))

    def read_again(self, held: Mapping[str, Reading]) -> dict[str, Reading]:
        """Return the columns of a file whose texts are needed, because what they became is not what they are here.

        Each has with it how it is read here. They are needed too where numbers of the file became texts that would be
        other numbers here.

        Parameters
        ----------
        held : mapping of str to Reading
            How the columns of the file were read.
        """
        wanted = [
            *((name, reading, True) for name, reading in zip(self.numbers, self._number_readings, strict=True)),
            *((each.name, each.reading, False) for each in self.text_readers),
        ]
        return {
            name: reading
            for name, reading, is_number in wanted
            if name in held
            if reading.loses(held[name], is_number=is_number) or _may_be_other_numbers(reading, held[name])
        }

    def read_table(self, table: Table) -> RawValues:
        """Return the values of the columns of a table.

        A column that is written or held in another way than the model's is read as rows are: a text as a number where
        the model has numbers, a number in its shortest form where it has categories. What the options of the file's
        upload said of decimals and thousands holds where the model's reading finds no number.

        Raises
        ------
        MissingColumns
        BadValue
            For the first text that is no number.
        FeatureError
            If a column of free text holds numbers, or numbers are of another unit, or are other numbers as the model
            reads them; or if a column has lost its texts (`read_again`); or if one holds vectors, or vectors of another
            length, and the model's does not.
        """
        lacking = [name for name in self._ordered_names() if name not in table.columns]
        if lacking:
            raise MissingColumns(lacking)
        for name in (*self.numbers, *self.texts):
            if table.columns[name].kind == "vector":
                raise FeatureError(f"column {name!r} holds vectors here, and none to the model")
        numbers = np.empty((table.n_rows, len(self.numbers)))
        for j, (name, reading) in enumerate(zip(self.numbers, self._number_readings, strict=True)):
            numbers[:, j] = _numbers_of(table.columns[name], reading)
        for j, missing in self._missing_numbers:
            held = table.columns[self.numbers[j]]
            if held.kind == "number" and held.known_reading.typed:
                _take_for_missing(numbers, j, missing)
        return RawValues(
            numbers,
            [reader.read_column(table.columns[reader.name]) for reader in self.text_readers],
            [reader.read_column(table.columns[reader.name]) for reader in self.vectors],
        )

    def with_known_names(self, number: int, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the row with its names as the columns have them: without blanks around, and in one form (NFC)."""
        made: dict[str, Any] = {}
        for name, value in row.items():
            known = name if name in self.names else self._byclean_name.get(clean_name(name), name)
            if known in made:
                raise BadRow(number, f"two of its names mean the column {known!r}")
            made[known] = value
        return made

    def _number_block(self, rows: list[Sequence[Any]]) -> FloatArray:
        """Values of the number columns, shape (rows, columns), NaN for what is missing."""
        if self._missing_numbers:
            texts = {(i, j) for i, row in enumerate(rows) for j, _ in self._missing_numbers if type(row[j]) is str}
            block = self._numbers_as_given(rows)
            for j, missing in self._missing_numbers:
                kept = {i: block[i, j] for i, k in texts if k == j}  # of which the reading said what is missing
                _take_for_missing(block, j, missing)
                for i, number in kept.items():
                    block[i, j] = number
            return block
        return self._numbers_as_given(rows)

    def _numbers_as_given(self, rows: list[Sequence[Any]]) -> FloatArray:
        values = rows[0] if len(rows) == 1 else list(chain.from_iterable(rows))
        try:
            # All at once, into memory that may be written; this takes no text, which NumPy would read as a number.
            try:
                block = np.frombuffer(bytearray(struct.pack(f"{len(values)}d", *values)))
                missing = 0
            except struct.error:
                filled = [math.nan if value is None else value for value in values]
                block = np.frombuffer(bytearray(struct.pack(f"{len(values)}d", *filled)))
                missing = values.count(None)
        except (struct.error, OverflowError):
            pass
        else:
            # For one row, a finite sum is quicker to find than each value's kind.
            few_are_finite = len(rows) == 1 and not missing and math.isfinite(sum(values, 0.0))
            if few_are_finite or np.count_nonzero(np.isfinite(block)) == len(values) - missing:
                return block.reshape(len(rows), len(self.numbers))
        read = [
            _number(i, name, reading, value)
            for i, row in enumerate(rows)
            for name, reading, value in zip(self.numbers, self._number_readings, row, strict=True)
        ]
        return np.array(read, dtype=np.float64).reshape(len(rows), len(self.numbers))


class _VectorReader:
    """Reads the values of one column of vectors."""

    def __init__(self, name: str, length: int) -> None:
        self.name, self.length = name, length

    def read(self, values: list[Any]) -> VectorArray:
        """Return lists of numbers as the rows of an array.

        Raises
        ------
        BadValue
            For the first that has another length, or holds something else than finite numbers.
        """
        made = np.empty((len(values), self.length), dtype=np.float32)
        with np.errstate(over="ignore"):  # found below
            for row, value in enumerate(values):
                vector = value.tolist() if isinstance(value, np.ndarray) else value
                if (
                    type(vector) is not list
                    or len(vector) != self.length
                    or not _OF_A_VECTOR.issuperset(map(type, vector))
                ):
                    raise self._bad(row, vector)
                try:
                    made[row] = vector
                except OverflowError:  # an integer of hundreds of digits
                    raise self._bad(row, vector) from None
        if not np.isfinite(made).all():
            row = int(np.flatnonzero(~np.isfinite(made).all(axis=1))[0])
            raise self._bad(row, values[row])
        return made

    def read_column(self, column: Column) -> VectorArray:
        """Return the vectors of a column of a table."""
        if column.kind != "vector":
            raise FeatureError(f"column {column.name!r} holds no vectors; the model takes {self._expected}")
        vectors: VectorArray = column.values
        if vectors.shape[1] != self.length:
            raise FeatureError(
                f"column {column.name!r} holds vectors of {vectors.shape[1]} numbers; the model takes {self._expected}"
            )
        return vectors

    @property
    def _expected(self) -> str:
        return f"vectors of {self.length} numbers"

    def _bad(self, row: int, vector: Any) -> BadValue:
        """Say what is wrong with a vector, without any of its values."""
        expected = f"a list of {self.length} numbers that float32 can hold"
        if type(vector) is list and len(vector) != self.length:
            expected += f", got one of {len(vector)}"
        return BadValue(row, self.name, expected)


class _TextReader:
    """Reads the values of one column that is no number to the model."""

    def __init__(self, name: str, kind: str, reading: Reading, unclear: frozenset[str]) -> None:
        self.name, self._kind, self.reading, self._unclear = name, kind, reading, unclear
        self._as_it_is = reading.kind == "text" and not (reading.trim or reading.missing or reading.lower)
        self._missing_numbers = frozenset(map(number_text, reading.missing_numbers))

    def read(self, values: list[Any]) -> list[str | None]:
        """Return the values as the column holds them."""
        texts: list[str | None] = []
        for row, value in enumerate(values):
            if type(value) is str:
                plain = self._as_it_is and value and value.isascii()
                texts.append(value if plain else self.reading.category(value))
            elif value is None:
                texts.append(None)
            elif value is True or value is False:
                texts.append("true" if value else "false")
            else:
                texts.append(self._of_number(row, value))
        return texts

    def meant(self, value: Any) -> Any:
        """Return what a value that `read` takes means: a text without what its reading leaves out, or a number."""
        if type(value) is not str:
            return None if type(value) in (int, float) and self._is_missing_number(value) else value
        if self.reading.kind == "number":
            with suppress(ValueError):
                number = self.reading.number(value)
                return None if math.isnan(number) else number
        return self.reading.category(value)

    def _is_missing_number(self, value: float) -> bool:
        return bool(self._missing_numbers) and number_text(float(value)) in self._missing_numbers

    def read_column(self, column: Column) -> list[str | None]:
        """Return the values of a column of a table."""
        values: list[Any] = column.values.tolist()
        held = column.known_reading
        if self.reading.loses(held, is_number=False):
            raise _lost(self.name)
        if column.kind == "number":
            if self._kind == "text" and np.isfinite(column.values).any():
                raise FeatureError(f"column {self.name!r} is a text to the model, here it holds numbers")
            return [self._of_number(row, value) if math.isfinite(value) else None for row, value in enumerate(values)]
        if held == self.reading:
            return values
        known: dict[str | None, str | None] = {None: None}
        for value in values:
            if value not in known:
                if self.reading.kind == "number":
                    _refuse_number_as_text(self.name, self.reading, held, value)
                known[value] = self.reading.category(value)
        return [known[value] for value in values]

    def _of_number(self, row: int, value: Any) -> str | None:
        if type(value) is int and abs(value) < 10**40:  # turning a huge int into digits is slow
            text = str(value)
        elif type(value) is float and math.isfinite(value):
            text = number_text(value)
        else:
            raise BadValue(row, self.name, _TEXT_EXPECTED)
        if text in self._missing_numbers:
            return None
        if text in self._unclear:
            raise BadValue(row, self.name, "text as it is written: several categories are this number")
        return text


def _number(row: int, name: str, reading: Reading, value: Any) -> float:
    """Read one value of a number column; NaN where it is missing."""
    if type(value) is str:
        try:
            return reading.number(value)
        except ValueError as error:
            raise BadValue(row, name, str(error)) from None
    if value is None:
        return math.nan
    if type(value) not in _NUMBER_TYPES or not _is_finite(value):
        raise BadValue(row, name, reading.expected)
    return float(value)


def _numbers_of(column: Column, reading: Reading) -> FloatArray | list[float]:
    """Values of a column of a table as a model's column of numbers."""
    held = column.known_reading
    if column.kind == "number" and held.unit and held.unit != reading.unit:
        trained = f"on {reading.unit}" if reading.unit else "on numbers without a unit"
        raise FeatureError(f"column {column.name!r} is in {held.unit}, the model was trained {trained}")
    if reading.loses(held, is_number=True):
        raise _lost(column.name)
    if column.kind == "number":
        return column.values
    known: dict[str | None, float] = {None: math.nan}
    for row, value in enumerate(column.values.tolist()):
        if value not in known:
            _refuse_number_as_text(column.name, reading, held, value)
            known[value] = _number_of_text(row, column.name, reading, held, value)
    return [known[value] for value in column.values.tolist()]


def _number_of_text(row: int, name: str, reading: Reading, held: Reading, text: str) -> float:
    """Read one text of a file for a column of numbers, of which the upload of the file may have said something."""
    said = Reading(kind="number", decimal=held.decimal, thousands=held.thousands)
    is_said = (said.decimal, said.thousands) not in ((".", ""), (reading.decimal, reading.thousands))
    try:
        number = reading.number(text)
    except ValueError as error:
        if is_said and said.is_number(text):
            return said.number(text)
        if is_missing_word(text):
            return math.nan
        raise BadValue(row, name, str(error)) from None
    if is_said and said.is_number(text) and said.number(text) != number:
        raise BadValue(
            row, name, f"{reading.expected}: by the options of the file's upload it holds another number than by those "
            "of the training"
        )  # fmt: skip
    return number


def _refuse_number_as_text(name: str, reading: Reading, held: Reading, text: str) -> None:
    """Refuse what was a number by the format of its file and is a text now, if the text may be another number."""
    if _may_be_other_numbers(reading, held) and "." in text and AS_IS["number"].is_number(text):
        raise FeatureError(
            f"column {name!r} holds texts beside numbers, which cannot be told apart from texts where the decimal sign "
            f"is {reading.decimal!r}; write all of them as numbers"
        )


def _may_be_other_numbers(reading: Reading, held: Reading) -> bool:
    """Whether texts of a column were numbers by the format of their file, of which this reading may make others."""
    return held.typed and held.kind == "text" and reading.kind == "number" and reading.decimal != "."


def _lost(name: str) -> FeatureError:
    return FeatureError(
        f"column {name!r} is read in another way than that of the training, and its texts as they were written are not "
        "there; upload it as the data of the training were"
    )


def _take_for_missing(numbers: FloatArray, column: int, missing: FloatArray) -> None:
    values = numbers[:, column]
    values[np.isin(values, missing)] = math.nan


def clean_name(name: str) -> str:
    """Return the name of a column as uploads have it: without blanks around, in one form (NFC)."""
    return unicodedata.normalize("NFC", name).strip()


def _picker(names: list[str]) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    """Return what gives the values of these columns of a row, raising `KeyError` if it has not all of them."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda row: [row[name] for name in names]


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False

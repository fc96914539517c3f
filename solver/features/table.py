"""Tables of numbers, categories, dates, texts and vectors → a feature matrix."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from solver.features.categories import CategoryColumns
from solver.features.columns import (
    FEATURE_KINDS,
    LARGEST_SCORE,
    Column,
    FeatureCounts,
    FeatureKind,
    Table,
    chosen_names,
)
from solver.features.dates import DateColumns, checked_format, guess_format
from solver.features.encoded import EncodedTexts, Encoder
from solver.features.errors import BadValue, FeatureError, StateError
from solver.features.missing import MISSING_POLICIES, MissingPolicy
from solver.features.numbers import NumberColumns
from solver.features.progress import Passes
from solver.features.rows import RawValues, RowReader
from solver.features.texts import TermShares, TextColumns, TextOptions
from solver.features.vectors import VectorArray, VectorColumns
from solver.kinds import consists_of_words, is_free_text, looks_like_an_identifier
from solver.reading import Reading, ReadingError, number_text
from solver.typing import FloatArray, IndexArray

# share of the fitting that is done when all columns have been looked at
_NO_TERMS: Final = "texts become features by their words, their runs of characters or an encoder: none is on"
_SEEN: Final = 0.1
# arrays of the state and their types, by the kind of column that they belong to
_PARTS: Final[dict[str, dict[str, str]]] = {
    "number": {
        "number_text": "uint8",
        "number_ends": "int64",
        "median": "float64",
        "mean": "float64",
        "scale": "float64",
        "indicator": "uint8",
        "number_low": "float64",
        "number_high": "float64",
    },
    "category": {
        "category_text": "uint8",
        "category_ends": "int64",
        "level_text": "uint8",
        "level_ends": "int64",
        "level_counts": "int64",
        "missing_level": "uint8",
        "level_fill": "int64",
    },
    "date": {
        "date_text": "uint8",
        "date_ends": "int64",
        "date_format": "uint8",
        "date_mean": "float64",
        "date_scale": "float64",
        "date_parts": "uint8",
        "date_indicator": "uint8",
    },
    "text": {
        "text_text": "uint8",
        "text_ends": "int64",
        "text_kind": "uint8",
        "text_longest": "uint8",
        "text_normalization": "uint8",
        "text_length": "float64",
        "term_counts": "int64",
        "term_text": "uint8",
        "term_ends": "int64",
        "idf": "float64",
    },
    "vector": {
        "vector_text": "uint8",
        "vector_ends": "int64",
        "vector_lengths": "int64",
        "vector_mean": "float64",
        "vector_weight": "float64",
        "vector_low": "float64",
        "vector_high": "float64",
    },
    "skewed": {
        "skewed": "int64",
        "knot_counts": "int64",
        "knots": "float64",
        "knot_scores": "float64",
    },
    "encoded": {
        "encoded_text": "uint8",
        "encoded_ends": "int64",
        "encoded_counts": "int64",
        "encoded_mean": "float64",
        "encoded_weight": "float64",
        "encoded_low": "float64",
        "encoded_high": "float64",
        "encoded_probes": "float32",
    },
}
_RANGES: Final = ("number_low", "number_high")
_NORMALIZATION: Final = "text_normalization"
_LENGTH: Final = "text_length"
# what older files have not
_LATER: Final = ("level_fill", *_RANGES, _NORMALIZATION, _LENGTH)
# Keys of the JSON part of the state: that the arrays of each vocabulary say how texts are normalised,
_NORMALIZED: Final = "normalized"
# how long a text is as terms,
_LENGTHS: Final = "lengths"
# and that words are not to be named.
_KEEP_WORDS: Final = "keep_words"
# These are no kinds of columns, but further features of text columns, and how some number columns are read.
_ENCODED: Final = "encoded"
_SKEWED: Final = "skewed"

# a part of a row that an explanation speaks of
PartKind = Literal["column", "term", "encoding"]
_Part = NumberColumns | CategoryColumns | DateColumns | TextColumns | VectorColumns


class TableFeatures:
    """Fits how columns become features, and applies it.

    Numbers are standardised and cut, see `NumberColumns`. Columns of text are dates where each value is one
    (`DateColumns`); free text where many values differ and are made of words (`TextColumns`, `solver.kinds`); else
    categories (`CategoryColumns`). Columns that cannot help are left out, each with a warning: those with one value
    only, and texts that look like identifiers (more than 1000 different ones, or more than 10 in more than half of the
    rows).

    Each vector is one block of features (`VectorColumns`).

    Where there is an encoder, it makes a vector of each text, which is one block as well (`EncodedTexts`), beside the
    words of the text.

    Features are ordered: numbers, dates, vectors, encoded texts, categories, words of texts.

    Parameters
    ----------
    include : sequence of str, optional
        The only columns that may become features. Default: all.
    exclude : sequence of str, default ()
        Columns that never become features, whatever `include` says.
    kinds : mapping of str to {"number", "category", "date", "text", "vector"}, optional
        What columns are, where the guess is not wanted.
    guessed : mapping of str to {"category", "date", "text"}, optional
        What an upload took columns of text for, having seen all rows. It stands where `kinds` says nothing; where the
        rows of `fit` tell no date of it, `warnings` say so.
    missing : MissingPolicy, default "indicate"
        `drop` is the caller's to carry out, with `missing_values`: rows that `fit` gets are all used.
    text : TextOptions, optional
    text_weights : mapping of str to float, optional
        How much columns of text count beside the others, above 0 and up to 1; 1 where nothing is said.
    encoder : Encoder, optional
        Makes vectors of texts, too. What it is asked for then, `transform` asks it for again.
    encode_together : sequence of sequences of str, default ()
        The only columns of text that are encoded, those of each sequence as one text. Without it, each by itself.
    keep_words : bool, default True
        Whether what explains a model may name words of texts. The fitted state has them all the same.

    Attributes
    ----------
    columns : list of dict
        `{"name", "kind"}` of the raw columns that `transform` needs, and `"length"` of vectors.
    n_features : int
        Width of the matrix.
    readings : dict of str to Reading
        How values of those columns are written, as far as an upload has found out.
    sparse : bool
        Whether `transform` gives CSR instead of a dense matrix: from 512 features on, where there are texts or less
        than 5 % are non-zero.
    warnings : list of str
        What `fit` left out, and why.
    """

    kind: Literal["table"] = "table"

    def __init__(
        self,
        *,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        kinds: Mapping[str, str] | None = None,
        guessed: Mapping[str, str] | None = None,
        missing: MissingPolicy = "indicate",
        text: TextOptions | None = None,
        text_weights: Mapping[str, float] | None = None,
        encoder: Encoder | None = None,
        encode_together: Sequence[Sequence[str]] = (),
        keep_words: bool = True,
    ) -> None:
        self.include = None if include is None else tuple(include)
        self.exclude = tuple(exclude)
        self.kinds = dict(kinds or {})
        self.guessed = dict(guessed or {})
        self.missing = missing
        self.text = text or TextOptions()
        self.text_weights = dict(text_weights or {})
        self.encoder = encoder
        self.encode_together = [tuple(names) for names in encode_together]
        self.keep_words = keep_words
        self.readings: dict[str, Reading] = {}
        self.warnings: list[str] = []

    # -- fitting ------------------------------------------------------------------------------------------------------

    def fit(
        self,
        table: Table,
        progress: Callable[[float], object] = lambda _: None,
        labelled: IndexArray | None = None,
    ) -> Self:
        """Learn from these rows how each column becomes features.

        Parameters
        ----------
        table : Table
        progress : callable, optional
            Called now and then with the share that is done, 0 to 1.
        labelled : int64 array, optional
            The rows that have a label, whichever: their words are kept however rare they are.

        Raises
        ------
        FeatureError
            If `include`, `exclude` or `kinds` names a column that is not there or not of that kind, or no column is
            left.
        """
        self._refuse_unknown(table)
        self.warnings = []
        numbers: dict[str, FloatArray] = {}
        categories: dict[str, Sequence[str | None]] = {}
        dates: dict[str, tuple[Sequence[str | None], str]] = {}
        texts: dict[str, Sequence[str | None]] = {}
        vectors: dict[str, VectorArray] = {}
        chosen = frozenset(chosen_names(table.columns, self.include, self.exclude))
        for place, (name, column) in enumerate(table.columns.items()):
            progress(_SEEN * place / len(table.columns))
            if name not in chosen:
                continue
            given = self.kinds.get(name)
            if column.kind == "vector" and given in (None, "vector"):
                vectors[name] = column.values
                continue
            if column.kind == "number" and given in (None, "number"):
                numbers[name] = column.values
                continue
            if column.kind == "vector" or given == "vector":
                raise FeatureError(f"column {name!r} holds {column.kind}s and cannot be of the kind {given!r}")
            values = _as_texts(column)
            levels = sorted({value for value in values if value is not None})
            kind, date_format = self._kind(name, column, levels, given, len(values))
            if kind == "date":
                dates[name] = (values, date_format)
            elif kind == "text":
                texts[name] = values
            elif kind == "category":
                categories[name] = values
        progress(_SEEN)
        indicate = self.missing == "indicate"
        passes = Passes(
            table.n_rows * (len(texts) * self.text.passes + len(dates)),
            lambda share: progress(_SEEN + (1 - _SEEN) * share),
        )
        of_words = texts if self.text.passes else {}
        text_columns, entries = TextColumns.fit(of_words, self.text, self.warnings, passes, labelled, self.text_weights)
        date_columns = DateColumns.fit(dates, indicate, self.warnings, passes)
        readings = {name: column.reading for name, column in table.columns.items() if column.reading is not None}
        for name, unreadable in date_columns.unreadable.items():
            reading = table.columns[name].known_reading
            readings[name] = dataclasses.replace(reading, missing=(*reading.missing, *unreadable))
        number_columns = NumberColumns.fit(numbers, indicate, self.warnings)
        category_columns = CategoryColumns.fit(categories, indicate, self.missing == "impute", self.warnings)
        beside = number_columns.width + date_columns.width + len(category_columns.names) + len(text_columns.names)
        vector_columns = VectorColumns.fit(vectors, beside, self.warnings)
        encoded = EncodedTexts.fit(self._groups(texts), self.encoder, beside, self.warnings)
        if texts and not self.text.passes and not encoded.width:
            raise FeatureError(_NO_TERMS)
        self._set(number_columns, date_columns, vector_columns, encoded, category_columns, text_columns, readings)
        progress(1.0)
        if self.n_features == 0:
            raise FeatureError(
                "no column is left as a feature" + (": " + "; ".join(self.warnings) if self.warnings else "")
            )
        nonzeros = self._n_dense + len(self._categories.names) + entries
        self.sparse = self.n_features >= 512 and (self.has_text or nonzeros < 0.05 * self.n_features)
        return self

    def _refuse_unknown(self, table: Table) -> None:
        unknown = [name for name in (*(self.include or ()), *self.exclude, *self.kinds) if name not in table.columns]
        if unknown:
            raise FeatureError(f"no such column: {', '.join(repr(name) for name in unknown)}")

    def _groups(self, texts: Mapping[str, Sequence[str | None]]) -> list[dict[str, Sequence[str | None]]]:
        """Which columns of text are encoded, by what is one text together."""
        groups = self.encode_together or [(name,) for name in texts]
        found = [{name: texts[name] for name in names if name in texts} for names in groups]
        return [group for group in found if group]

    def _kind(
        self, name: str, column: Column, levels: list[str], given: str | None, n_rows: int
    ) -> tuple[FeatureKind | None, str]:
        """What a column is, with its format if it is a date; None if it is to be left out."""
        if given is not None:
            if given not in FEATURE_KINDS:
                raise FeatureError(f"column {name!r}: its kind must be one of {', '.join(FEATURE_KINDS)}")
            if given == "number" or (column.kind == "number" and given not in ("category", "date")):
                raise FeatureError(f"column {name!r} holds {column.kind}s and cannot be of the kind {given!r}")
            return given, checked_format(name, levels) if given == "date" and levels else ""
        if len(levels) < 2:
            return "category", ""
        guessed = self.guessed.get(name)
        date_format = guess_format(levels) if guessed in (None, "date") else None
        if date_format is not None:
            return "date", date_format
        if guessed == "date":
            self.warnings.append(
                f"column {name!r} was taken for dates by the upload, but not all of its training rows are, or their "
                "days may as well be months; it is taken for texts here"
            )
        if guessed == "text" or (guessed != "category" and is_free_text(levels, len(levels), n_rows)):
            return "text", ""
        if not looks_like_an_identifier(len(levels), n_rows):
            return "category", ""
        hint = ""
        if consists_of_words(levels):
            kinds = json.dumps({"features": {"kinds": {name: "text"}}}, ensure_ascii=False)
            hint = f"; if its words matter, make it a text: {kinds}"
        self.warnings.append(
            f"column {name!r} is left out: {len(levels)} different texts in {n_rows} training rows look like an "
            f"identifier{hint}"
        )
        return None, ""

    def _set(
        self,
        numbers: NumberColumns,
        dates: DateColumns,
        vectors: VectorColumns,
        encoded: EncodedTexts,
        categories: CategoryColumns,
        texts: TextColumns,
        readings: Mapping[str, Reading],
    ) -> None:
        """Keep the fitted parts; of the readings, those of columns that are used."""
        self._numbers, self._dates, self._categories, self._texts = numbers, dates, categories, texts
        self._vectors, self.encoded = vectors, encoded
        self._n_dense = numbers.width + dates.width + vectors.width + encoded.width
        self.n_features = self._n_dense + categories.width + texts.width
        self.columns: list[dict[str, Any]] = [
            {"name": name, "kind": kind}
            for kind, part in (("number", numbers), ("date", dates), ("category", categories), ("text", texts))
            for name in part.names
        ]
        self.columns += [{"name": name, "kind": "text"} for name in encoded.columns if name not in texts.names]
        self.columns += [
            {"name": name, "kind": "vector", "length": length}
            for name, length in zip(vectors.names, vectors.lengths, strict=True)
        ]
        used = [column["name"] for column in self.columns]
        self.readings = {name: readings[name] for name in used if name in readings}
        self._reader = RowReader(self.columns, self.readings, categories.unclear)

    @property
    def has_text(self) -> bool:
        """Whether words of free text are features."""
        return self._texts.width > 0

    @property
    def term_width(self) -> int:
        """How many features are terms of texts: the last ones."""
        return self._texts.width

    @property
    def lookup_nbytes(self) -> int:
        """About what applying takes in memory besides the arrays of the state."""
        return self._texts.nbytes

    @property
    def category_levels(self) -> list[tuple[str, dict[str | None, int]]]:
        """Each category column with the feature, counted from the first of a category, that a value of it sets."""
        return self._categories.features_by_level

    @property
    def category_numbers(self) -> list[dict[float, int]]:
        """The same by the numbers that the levels are, where they are; see `CategoryColumns`."""
        return self._categories.numbers

    @property
    def feature_names(self) -> list[str]:
        """Readable names in order, such as `age is missing`, `ordered day`, `photo[0]`, `job=clerk`, `note: see`."""
        parts = (self._numbers, self._dates, self._vectors, self.encoded, self._categories, self._texts)
        return [name for part in parts for name in part.feature_names]

    # -- explaining ---------------------------------------------------------------------------------------------------

    @cached_property
    def feature_parts(self) -> tuple[list[tuple[PartKind, str]], IndexArray]:
        """The columns, and the encodings of texts, that features are of; and of each feature, which of these."""
        parts: dict[tuple[PartKind, str], int] = {}
        owners: list[int] = []
        columns: Sequence[_Part | EncodedTexts] = (self._numbers, self._dates, self._vectors)
        for part in (*columns, self.encoded, self._categories, self._texts):
            kind: PartKind = "encoding" if part is self.encoded else "column"
            owners += [parts.setdefault((kind, name), len(parts)) for name in part.feature_columns]
        return list(parts), np.array(owners, dtype=np.int64)

    def texts_with_terms(self, rows: Table | Sequence[Mapping[str, Any]]) -> list[list[str | None]]:
        """Return the texts of the columns whose words are features, for `term_shares`; raises as `transform` does."""
        values = self._reader.read_table(rows) if isinstance(rows, Table) else self._reader.read(rows)[0]
        first = len(self._dates.names) + len(self._categories.names)
        return values.texts[first : first + len(self._texts.names)]

    def term_shares(self, texts: Sequence[str | None]) -> TermShares:
        """Which words the features of the texts of one row are owed to, counted from the first of all features."""
        shares = self._texts.shares(texts)
        return shares._replace(features=shares.features + (self.n_features - self.term_width))

    # -- applying -----------------------------------------------------------------------------------------------------

    def transform(
        self,
        table: Table,
        *,
        refuse_unreadable: bool = True,
        progress: Callable[[float], object] = lambda _: None,
        encoder: Encoder | None = None,
    ) -> tuple[FloatArray | sparse.csr_array, FeatureCounts]:
        """Turn rows into features.

        Parameters
        ----------
        table : Table
        refuse_unreadable : bool, default True
            Whether a text that is no date, in a column of dates, is an error. False: it is missing, and counted.
        progress : callable, optional
            Called now and then with the share that is done, 0 to 1.
        encoder : Encoder, optional
            Instead of the one of `fit`.

        Returns
        -------
        X : ndarray of float64 (C order) or csr_array, shape (rows, n_features)
        counts : FeatureCounts

        Raises
        ------
        MissingColumns
            If columns that were fitted are not in `table`. More columns than needed do not matter.
        FeatureError
            If a column is of another kind, a value cannot be read, or one is missing and `missing` is `error`.
        EncoderNeeded
            If texts are to be encoded and there is no encoder.
        """
        values = self._reader.read_table(table)
        passes = Passes(table.n_rows * len(self._dates.names), progress)
        return self._assemble(values, refuse_unreadable, passes, encoder)

    def texts_of_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return the different texts of JSON rows that an encoder has to make vectors of.

        Raises
        ------
        MissingColumns, BadValue
            See `table_from_rows`.
        """
        if not self.encoded.width:
            return []
        values, _ = self._reader.read(rows)
        return self.encoded.texts(dict(zip(self._reader.texts, values.texts, strict=True)))

    def read_again(self, held: Mapping[str, Reading]) -> dict[str, Reading]:
        """Return the columns of a file that was read in another way than the rows of the training.

        Their texts are needed as they are written; `transform` refuses what was made of them.

        Parameters
        ----------
        held : mapping of str to Reading
            How the columns of the file were read.
        """
        return self._reader.read_again(held)

    def transform_rows(
        self, rows: Sequence[Mapping[str, Any]], encoder: Encoder | None = None
    ) -> tuple[FloatArray | sparse.csr_array, FeatureCounts, list[str]]:
        """Turn JSON rows into features: what `table_from_rows` and `transform` do, without a table in between.

        Returns
        -------
        X, counts
            As of `transform`.
        extra : list of str
            Names in the rows that are not needed, sorted.

        Raises
        ------
        MissingColumns, BadValue
            See `table_from_rows`.
        """
        values, extra = self._reader.read(rows)
        return *self._assemble(values, encoder=encoder), extra

    def _assemble(
        self,
        values: RawValues,
        refuse_unreadable: bool = True,
        passes: Passes | None = None,
        encoder: Encoder | None = None,
    ) -> tuple[FloatArray | sparse.csr_array, FeatureCounts]:
        """Features of the number columns, which may be written over, and of the other columns, in order."""
        if self.missing == "error":
            self._refuse_missing(values.numbers, values.texts)
        counts = FeatureCounts()
        X = self._blocks(values, counts, refuse_unreadable, passes, encoder or self.encoder)
        if self.missing == "impute":
            counts.missing.clear()  # as asked for
        return X, counts

    def _blocks(
        self,
        values: RawValues,
        counts: FeatureCounts,
        refuse_unreadable: bool,
        passes: Passes | None,
        encoder: Encoder | None,
    ) -> FloatArray | sparse.csr_array:
        numbers, texts, vectors = values
        scaled = self._numbers.transform(numbers, counts)
        if self._numbers.width == self.n_features:
            return scaled
        n, n_dense = len(numbers), self._n_dense
        first, second = len(self._dates.names), len(self._dates.names) + len(self._categories.names)
        dense = np.zeros((n, n_dense if self.sparse else self.n_features))
        dense[:, : self._numbers.width] = scaled
        of_dates, of_vectors, of_texts = np.split(
            dense[:, self._numbers.width : n_dense],
            (self._dates.width, self._dates.width + self._vectors.width),
            axis=1,
        )
        self._dates.transform(texts[:first], counts, of_dates, refuse_unreadable, passes)
        self._vectors.transform(vectors, counts, of_vectors)
        self.encoded.transform(dict(zip(self._reader.texts, texts, strict=True)), encoder, counts, of_texts)
        codes = self._categories.codes(texts[first:second], counts)
        third = second + len(self._texts.names)
        words = self._texts.transform(texts[second:third], counts) if self.has_text else None
        if not self.sparse:
            for code in codes:
                known = np.flatnonzero(code >= 0)
                dense[known, n_dense + code[known]] = 1.0
            if words is not None:
                dense[:, self.n_features - self._texts.width :] = words.toarray()
            return dense
        blocks = [sparse.csr_array(dense)] if n_dense else []
        if self._categories.width:
            blocks.append(_one_hot(codes, self._categories.width))
        if words is not None:
            blocks.append(words)
        return sparse.csr_array(sparse.hstack(blocks, format="csr")) if len(blocks) > 1 else blocks[0]

    def _refuse_missing(self, numbers: FloatArray, texts: Sequence[Sequence[str | None]]) -> None:
        for row, column in self._missing_places(numbers, texts):
            raise BadValue(row, column, "a value: this model takes no missing ones")

    def _missing_places(self, numbers: FloatArray, texts: Sequence[Sequence[str | None]]) -> Iterator[tuple[int, str]]:
        for i, j in np.argwhere(~np.isfinite(numbers)).tolist():
            yield i, self._numbers.names[j]
        for name, values in zip(self._reader.texts, texts, strict=True):
            if None in values:
                yield list(values).index(None), name

    # -- storing ------------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """What was fitted, as arrays and as JSON-ready values; `from_state` takes both."""
        parts: dict[str, _Part] = {
            "number": self._numbers,
            "category": self._categories,
            "date": self._dates,
            "text": self._texts,
            "vector": self._vectors,
        }
        kinds = [kind for kind, part in parts.items() if part.names]
        arrays = {name: array for kind in kinds for name, array in parts[kind].state().items()}
        if self.encoded.width:
            kinds.append(_ENCODED)
            arrays |= self.encoded.state()
        kinds += [_SKEWED] if _SKEWED in arrays else []
        readings = {name: reading.to_json() for name, reading in self.readings.items()}
        ranges: dict[str, Any] = {"ranges": True} if "number_low" in arrays else {}
        ranges |= {"cut": self._numbers.cut} if self._numbers.names else {}
        meta = {"sparse": self.sparse, "missing": self.missing, "kinds": kinds, "readings": readings}
        # for those who have the manifest only; the arrays count
        formats = {"date_formats": self._dates.formats} if self._dates.names else {}
        encoder = {"encoder": self.encoded.meta()} if self.encoded.width else {}
        said = {_NORMALIZED: "text" in kinds, _LENGTHS: "text" in kinds}
        said |= {} if self.keep_words else {_KEEP_WORDS: False}
        return arrays, ranges | meta | formats | encoder | said

    @staticmethod
    def _stored_cut(meta: Mapping[str, Any]) -> float:
        cut = meta.get("cut", LARGEST_SCORE)  # older files have none
        if type(cut) not in (int, float) or not 0 < cut <= LARGEST_SCORE:
            raise StateError(f"table features: 'cut' must be a number above 0, and {LARGEST_SCORE:g} at most")
        return float(cut)

    @staticmethod
    def _stored_readings(meta: Mapping[str, Any]) -> dict[str, Reading]:
        stored = meta.get("readings", {})  # older files have none
        if not isinstance(stored, dict):
            raise StateError("table features: 'readings' must be a JSON object")
        try:
            return {name: Reading.from_json(reading) for name, reading in stored.items()}
        except ReadingError as error:
            raise StateError(f"table features: {error}") from None

    @staticmethod
    def array_types(meta: Mapping[str, Any]) -> dict[str, str]:
        """Names and types of the arrays that `from_state` needs, by what `meta` says of them.

        Raises
        ------
        StateError
            If `meta` names a kind of column that is not known here.
        """
        kinds = meta.get("kinds")
        if kinds is None:  # written before there were dates and texts
            old = _PARTS["number"] | _PARTS["category"]
            return {name: type_ for name, type_ in old.items() if name not in _LATER}
        if not isinstance(kinds, list) or any(kind not in tuple(_PARTS) for kind in kinds):
            raise StateError(f"table features: 'kinds' must be of {', '.join(_PARTS)}")
        types = {name: type_ for kind in kinds for name, type_ in _PARTS[kind].items()}
        absent: tuple[str, ...] = () if meta.get("ranges") is True else _RANGES
        absent = absent if meta.get(_NORMALIZED) is True else (*absent, _NORMALIZATION)
        absent = absent if meta.get(_LENGTHS) is True else (*absent, _LENGTH)
        return {name: type_ for name, type_ in types.items() if name not in absent}

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> Self:
        """Rebuild from `state`, believing nothing.

        Parameters
        ----------
        arrays : mapping of str to ndarray
            One-dimensional, of the types that `array_types` gives; floats finite.
        meta : mapping

        Raises
        ------
        StateError
            If the parts contradict each other.
        """
        missing = meta.get("missing", "indicate")
        if missing not in MISSING_POLICIES:
            raise StateError(f"table features: 'missing' must be one of {', '.join(MISSING_POLICIES)}")
        if not isinstance(meta.get("sparse"), bool):
            raise StateError("table features: 'sparse' must be true or false")
        keep_words = meta.get(_KEEP_WORDS, True)  # older files say nothing
        if not isinstance(keep_words, bool):
            raise StateError(f"table features: {_KEEP_WORDS!r} must be true or false")
        empty = {
            name: np.zeros(0, dtype=type_)
            for part in _PARTS.values()
            for name, type_ in part.items()
            if name not in _LATER
        }
        stored = empty | dict(arrays)
        self = cls(missing=missing, keep_words=keep_words)
        self._set(
            NumberColumns.from_state(stored, cls._stored_cut(meta)),
            DateColumns.from_state(stored),
            VectorColumns.from_state(stored),
            EncodedTexts.from_state(stored, meta.get("encoder")),
            CategoryColumns.from_state(stored),
            TextColumns.from_state(stored),
            cls._stored_readings(meta),
        )
        names = [column["name"] for column in self.columns]
        if len(set(names)) != len(names):
            raise StateError("table features: a column is named twice")
        self.sparse = meta["sparse"]
        return self


def _as_texts(column: Column) -> list[str | None]:
    """Values as texts; numbers, which the caller wants as categories, in their shortest form."""
    if column.kind == "text":
        texts: list[str | None] = column.values.tolist()
        return texts
    return [number_text(value) if np.isfinite(value) else None for value in column.values.tolist()]


def _one_hot(codes: list[NDArray[np.int64]], width: int) -> sparse.csr_array:
    """Rows with a 1 at each code; -1 sets nothing."""
    indices = np.column_stack(codes)
    keep = indices >= 0
    ends = np.concatenate([[0], np.cumsum(keep.sum(axis=1))])
    return sparse.csr_array((np.ones(int(ends[-1])), indices[keep], ends), shape=(len(indices), width))

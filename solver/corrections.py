"""Corrected labels, sent after a model was used, become part of the rows of the next training.

A corrected row that is a row of the data set gives that one its label. Any other becomes a further row. What came last
counts where two corrections speak of the same row.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from solver.content_hashes import bytes_of_vectors, hashes_of_columns, hashes_of_entries
from solver.features import BadRow, BadValue, Column, FeatureError, MatrixData, MissingPolicy, Table, matrix_from_rows
from solver.features.categories import Spellings
from solver.features.dates import example_of, guess_format
from solver.features.rows import RowReader, clean_name
from solver.kinds import MAX_LEVELS
from solver.labels import all_but, lone_negative
from solver.report import ConcludedFeedback, FeedbackReport, RefusedFeedback
from solver.typing import BoolArray, FloatArray, IndexArray

Key = tuple[Any, ...]
# who gives a label unless something else is said
PERSON: Final = "person"


@dataclass(frozen=True)
class Corrections:
    """Rows and their right labels, oldest first.

    Attributes
    ----------
    rows : sequence of mappings
        As for predicting: a value for each column by name.
    labels : sequence of str
    meant : sequence of mappings, optional
        Of each row, what its columns were to the model that predicted it: `number`, `text`, or how their dates were
        written (`solver.features.dates.FORMATS`). Its values then are what was meant: numbers are numbers, however they
        were written. Default: nothing is known of them.
    random : sequence of bool, optional
        Of each row, whether chance chose it, and not somebody who looked at it or at what a model says. Default: none.
    audited : sequence of bool, optional
        Of each row, whether an audit has drawn it. Default: none.
    sources : sequence of str, optional
        Of each row, who gave the label: `PERSON`, the default, or what concluded it, such as a rule of a mail system.
        What was concluded never changes a label that a row of the data set has.
    weights : sequence of float, optional
        Of each row, how much it counts in the training; default: 1.
    """

    rows: Sequence[Mapping[str, Any]]
    labels: Sequence[str]
    meant: Sequence[Mapping[str, str]] = ()
    random: Sequence[bool] = ()
    audited: Sequence[bool] = ()
    sources: Sequence[str] = ()
    weights: Sequence[float] = ()


@dataclass(frozen=True)
class Corrected:
    """A data set after its corrections.

    Attributes
    ----------
    data, labels
        The rows of the data set in their order, then those that were added.
    unmeasured : bool array of shape (rows,)
        Rows that have a label by a correction only, unless chance chose them. People correct what looks wrong to them,
        and a queue shows what a model is unsure of: such rows are to be learned from, but would bend every figure that
        is measured on them. A row that had a label before keeps its place among those that are measured on, with the
        right label.
    changed : bool array of shape (rows,)
        Every row whose label comes from a correction.
    looked_at : bool array of shape (rows,)
        Of these, the ones that had a label before.
    report : FeedbackReport or None
        None where nothing could have been corrected.
    weights : float array of shape (rows,) or None
        How much each row counts; None where all count alike.
    """

    data: Table | MatrixData
    labels: NDArray[Any]
    unmeasured: BoolArray
    changed: BoolArray
    looked_at: BoolArray
    report: FeedbackReport | None
    weights: FloatArray | None = None

    def take(self, rows: IndexArray) -> Corrected:
        """Those rows, in that order."""
        marks = self.unmeasured[rows], self.changed[rows], self.looked_at[rows]
        kept = self.data.take(rows), self.labels[rows], *marks
        return Corrected(*kept, self.report, None if self.weights is None else self.weights[rows])


@dataclass(frozen=True)
class Rules:
    """What of a training request decides on what becomes of a correction; see `solver.training.TrainingRequest`."""

    target: str | None
    include: Collection[str] | None
    exclude: Collection[str]
    positive: str | None
    unlabeled: Sequence[str]
    missing: MissingPolicy
    negative: Sequence[str] = ()
    groups: str | None = None
    """Column that tells which rows belong together."""

    def is_feature(self, name: str) -> bool:
        """Whether a column may become a feature."""
        return name != self.target and name not in self.exclude and (self.include is None or name in self.include)


@dataclass
class _Group:
    """Corrections that give the same columns: what they say of each different row, the last word only.

    A row that chance chose once stays one that it chose, whoever speaks of it besides.
    """

    names: tuple[str, ...]
    labels: dict[Key, str] = field(default_factory=dict)
    random: set[Key] = field(default_factory=set)
    concluded: set[Key] = field(default_factory=set)
    weights: dict[Key, float] = field(default_factory=dict)
    """How much each counts."""
    links: dict[Key, str] = field(default_factory=dict)
    """By what each belongs together with others, where that is known."""

    def as_added(self, key: Key) -> _Added:
        """A row of these, as one that was not there."""
        weight, link = self.weights.get(key, 1.0), self.links.get(key)
        return _Added(self.names, key, self.labels[key], key in self.random, weight, link)


class _Added(NamedTuple):
    """A row that was not there."""

    names: tuple[str, ...]
    key: Key
    label: str
    is_random: bool
    weight: float
    link: str | None = None


def apply_corrections(
    data: Table | MatrixData,
    labels: NDArray[Any],
    corrections: Corrections,
    rules: Rules,
    known_labels: NDArray[Any] | None = None,
) -> Corrected:
    """Give rows their right labels, and add those that are not there.

    Two rows are the same if they have the same values in all columns that may become features and that the correction
    gives. What cannot be used is refused and counted; nothing is an error.

    Parameters
    ----------
    data, labels
        As for `solver.training.train`.
    corrections : Corrections
    rules : Rules
    known_labels : array of str or None, optional
        The labels that corrections may give; default: those in `labels`.
    """
    frame = _TableFrame(data, rules) if isinstance(data, Table) else _MatrixFrame(data, rules)
    known = _known_labels(labels if known_labels is None else known_labels, rules)
    refused: Counter[str] = Counter()
    groups, superseded = _last_words(corrections, frame, known, refused, rules.groups)
    labels = labels.copy()
    changed, was_labelled = np.zeros(len(labels), dtype=bool), _are_labelled(labels, rules)
    random = np.zeros(len(labels), dtype=bool)
    weights = np.ones(len(labels))
    relabelled = confirmed = first = 0
    added: list[_Added] = []
    for group in groups:
        places = frame.find(group.names, group.labels)
        for key, label in group.labels.items():
            rows = places.get(key)
            if rows is None:
                reason = frame.why_not_added(group.names, key)
                if reason is None:
                    added.append(group.as_added(key))
                else:
                    refused[reason] += 1
                continue
            if key in group.concluded:  # where somebody has said a label, that counts, and nobody has looked again
                said, rows = rows[was_labelled[rows]], rows[~was_labelled[rows]]
                same = int(np.count_nonzero(labels[said] == label))
                superseded, confirmed = superseded + len(said) - same, confirmed + same
            if key in group.random:
                rows = _drawn_once(rows, was_labelled)
                random[rows] = True
            same = int(np.count_nonzero(labels[rows] == label))
            confirmed, relabelled = confirmed + same, relabelled + len(rows) - same
            first += int(np.count_nonzero(~was_labelled[rows] & ~changed[rows]))
            labels[rows] = label
            changed[rows] = True
            weights[rows[~was_labelled[rows]]] = group.weights.get(key, 1.0)
    weights = np.concatenate([weights, [each.weight for each in added]])
    chosen = np.array([not each.is_random for each in added], dtype=bool)
    unmeasured = np.concatenate([changed & ~was_labelled & ~random, chosen])
    looked_at = np.concatenate([changed & was_labelled, np.zeros(len(added), dtype=bool)])
    changed = np.concatenate([changed, np.ones(len(added), dtype=bool)])
    return Corrected(
        data=frame.with_rows(added) if added else data,
        labels=np.concatenate([labels, np.array([*(each.label for each in added), None], dtype=object)[:-1]]),
        unmeasured=unmeasured,
        changed=changed,
        looked_at=looked_at,
        report=FeedbackReport(
            rows=len(corrections.labels),
            added=len(added),
            relabelled=relabelled,
            newly_labelled=first,
            confirmed=confirmed,
            superseded=superseded,
            random=int(np.count_nonzero(random & ~was_labelled)) + sum(each.is_random for each in added),
            audited=sum(corrections.audited),
            held_out=0,  # the draw of the test rows has to know it
            refused=[RefusedFeedback(reason, n) for reason, n in sorted(refused.items())],
            concluded=_concluded(corrections),
        ),
        weights=weights if (weights != 1).any() else None,
    )


def _concluded(corrections: Corrections) -> list[ConcludedFeedback]:
    """How many labels were sent that nobody gave, by source."""
    counts = Counter(corrections.sources)
    weights = dict(zip(corrections.sources, corrections.weights or [1.0] * len(corrections.sources), strict=True))
    return [ConcludedFeedback(name, counts[name], weights[name]) for name in sorted(counts) if name != PERSON]


def _last_words(
    corrections: Corrections,
    frame: _TableFrame | _MatrixFrame,
    known: Mapping[str, str],
    refused: Counter[str],
    column_of_groups: str | None,
) -> tuple[Iterable[_Group], int]:
    """What is said of each row in the end, and how many words something later replaced; counts what is refused."""
    groups: dict[tuple[str, ...], _Group] = {}
    superseded = 0
    meanings = corrections.meant or [{}] * len(corrections.rows)
    drawn = corrections.random or [False] * len(corrections.rows)
    sources = corrections.sources or [PERSON] * len(corrections.rows)
    weights = corrections.weights or [1.0] * len(corrections.rows)
    sent = zip(corrections.rows, corrections.labels, meanings, drawn, sources, weights, strict=True)
    for row, said, meant, is_random, source, weight in sent:
        label = known.get(said)
        if label is None:
            refused["the data set has no such label"] += 1
            continue
        try:
            names, key = frame.parse(row, meant)
        except FeatureError as error:
            refused[error.reason if isinstance(error, BadRow) else str(error)] += 1
            continue
        group = groups.setdefault(names, _Group(names))
        superseded += key in group.labels
        if source != PERSON and key in group.labels and key not in group.concluded:
            continue  # a person has said it, and a rule does not overrule people
        group.labels.pop(key, None)  # put back at the end: the order is that in which rows were last spoken of
        group.labels[key] = label
        (group.concluded.add if source != PERSON else group.concluded.discard)(key)
        group.weights[key] = weight
        link = None if column_of_groups is None else row.get(column_of_groups)
        if isinstance(link, str):
            group.links[key] = link
        if is_random:
            group.random.add(key)
    return groups.values(), superseded


def _drawn_once(rows: IndexArray, was_labelled: BoolArray) -> IndexArray:
    """Of equal rows those with a label, and the first of the others.

    The rest stays unlabelled: a row would be measured by a model that learned from its copies, and count once for each.
    """
    fresh = ~was_labelled[rows]
    fresh[np.flatnonzero(fresh)[:1]] = False
    return rows[~fresh]


def _are_labelled(labels: NDArray[Any], rules: Rules) -> BoolArray:
    blank = {value for value in set(labels.tolist()) if value is None or not value.strip() or value in rules.unlabeled}
    return np.fromiter((value not in blank for value in labels.tolist()), bool, len(labels))


def _known_labels(labels: NDArray[Any], rules: Rules) -> dict[str, str]:
    """What a correction may say, to the label that the data set has for it."""
    found = sorted(set(labels[_are_labelled(labels, rules)].tolist()))
    known = {label: label for label in found}
    others = [label for label in found if label != rules.positive]
    if rules.positive is not None and others:
        # what a model calls all labels but the positive one
        known.setdefault(all_but(rules.positive), others[0])
    if len(found) == 1 and rules.positive in (
        None,
        found[0],
    ):  # the first negative row may come of a correction, under the name that the model has for it
        known |= {label: label for label in (*rules.negative, lone_negative(found[0], rules.negative))}
    return known


class _TableFrame:
    """Corrections as rows of a table."""

    def __init__(self, table: Table, rules: Rules) -> None:
        self._table = table
        self._groups = rules.groups
        self._complete = rules.missing in ("drop", "error")
        self._readers: dict[str, Callable[[Any, str | None], Any]] = {
            name: _reader_of(column) for name, column in table.columns.items() if rules.is_feature(name)
        }
        self._by_clean_name = {clean_name(name): name for name in self._readers}

    def parse(self, row: Mapping[str, Any], meant: Mapping[str, str]) -> tuple[tuple[str, ...], Key]:
        if not row.keys() <= self._readers.keys():
            row = {self._by_clean_name.get(clean_name(name), name): value for name, value in row.items()}
        names = tuple(name for name in self._readers if name in row)
        if not names:
            raise FeatureError("none of its columns is a feature of this training")
        return names, tuple(self._readers[name](row[name], meant.get(name)) for name in names)

    def find(self, names: tuple[str, ...], keys: Mapping[Key, str]) -> dict[Key, IndexArray]:
        """Rows of the table that are like a key."""
        columns = [self._table.columns[name] for name in names]
        wanted = [c.replaced(_values(c.kind, v)) for c, v in zip(columns, _transposed(keys), strict=True)]
        candidates = np.flatnonzero(np.isin(hashes_of_columns(columns), hashes_of_columns(wanted)))
        values = [_hashable(column, candidates) for column in columns]
        return _matches(candidates, (tuple(map(_plain, row)) for row in zip(*values, strict=True)), keys)

    def why_not_added(self, names: tuple[str, ...], key: Key) -> str | None:
        lacking = [name for name in self._readers if self._table.columns[name].kind == "vector" and name not in names]
        if lacking:
            return f"it has no vector of column {lacking[0]!r}, of which none can be missing"
        if self._complete and (len(names) < len(self._readers) or any(value is None for value in key)):
            return "a value is missing, and this training takes no rows with missing values"
        return None

    def with_rows(self, added: Sequence[_Added]) -> Table:
        given = [dict(zip(each.names, each.key, strict=True)) for each in added]
        if self._groups is not None:
            given = [row | {self._groups: each.link} for row, each in zip(given, added, strict=True)]

        def more(column: Column) -> NDArray[Any]:
            values = [row.get(column.name) for row in given]
            if column.kind == "vector":  # there is none of a column that is no feature
                none = bytes(column.values[:1].nbytes)
                return _values("vector", [none if value is None else value for value in values])
            return _values(column.kind, values)

        return Table(
            {
                name: column.replaced(np.concatenate([column.values, more(column)]))
                for name, column in self._table.columns.items()
            }
        )


class _MatrixFrame:
    """Corrections as sparse rows."""

    def __init__(self, data: MatrixData, rules: Rules) -> None:
        self._data = data
        width = int(data.X.shape[1])
        self._names = [str(data.first_index + j) for j in range(width)]
        self._used = np.fromiter((rules.is_feature(name) for name in self._names), bool, width)

    def parse(self, row: Mapping[str, Any], meant: Mapping[str, str]) -> tuple[tuple[str, ...], Key]:
        del meant
        parsed, _ = matrix_from_rows([row], self._data.first_index, len(self._names))
        return (), next(_sparse_keys(sparse.csr_array(parsed.X), self._used))

    def find(self, names: tuple[str, ...], keys: Mapping[Key, str]) -> dict[Key, IndexArray]:
        del names
        X = sparse.csr_array(self._data.X)
        wanted = self._matrix(list(keys))
        candidates = np.flatnonzero(np.isin(hashes_of_entries(X, self._used), hashes_of_entries(wanted, self._used)))
        return _matches(candidates, _sparse_keys(X[candidates], self._used), keys)

    def why_not_added(self, names: tuple[str, ...], key: Key) -> str | None:
        del names, key
        return None

    def with_rows(self, added: Sequence[_Added]) -> MatrixData:
        X, more = self._data.X, self._matrix([each.key for each in added])
        if isinstance(X, np.ndarray):
            return MatrixData(np.vstack([X, more.toarray()]), self._data.first_index)
        return MatrixData(sparse.csr_array(sparse.vstack([X, more], format="csr")), self._data.first_index)

    def _matrix(self, keys: Sequence[Key]) -> sparse.csr_array:
        ends = np.cumsum([0, *map(len, keys)])
        indices = np.array([position for key in keys for position, _ in key], dtype=np.int32)
        values = np.array([value for key in keys for _, value in key], dtype=np.float64)
        return sparse.csr_array((values, indices, ends), shape=(len(keys), len(self._names)))


def _matches(candidates: IndexArray, found: Iterator[Key], keys: Mapping[Key, str]) -> dict[Key, IndexArray]:
    """Candidates by the key that they have, if it is wanted."""
    places: dict[Key, list[int]] = {}
    for row, key in zip(candidates.tolist(), found, strict=True):
        if key in keys:
            places.setdefault(key, []).append(row)
    return {key: np.array(rows, dtype=np.intp) for key, rows in places.items()}


# -- values ------------------------------------------------------------------------------------------------------------


def _reader_of(column: Column) -> Callable[[Any, str | None], Any]:
    """What turns a value of a correction, of which may be known what it meant, into one of the column."""
    if column.kind == "vector":
        return _vector_reader_of(column)
    is_number = column.kind == "number"
    levels: set[str] = set() if is_number else set(column.values.tolist()) - {None}
    spellings = Spellings(sorted(levels) if len(levels) <= MAX_LEVELS else [])
    reader = RowReader(
        [{"name": column.name, "kind": "number" if is_number else "category"}],
        {column.name: column.known_reading},
        {column.name: spellings.unclear},
    )

    date_format: list[str | None] = []  # computed at the first use

    def checked(value: Any, meant: str | None) -> Any:
        if value is None or meant is None:
            return read(value)
        held = "number" if is_number else "text"
        if (meant == "number") != is_number:
            was = "number" if meant == "number" else "text"
            raise FeatureError(
                f"column {column.name!r} held {was}s when the correction was given, and holds {held}s in this data set"
            )
        if meant not in ("number", "text") and levels:
            if not date_format:
                date_format.append(guess_format(sorted(levels)))
            if date_format[0] not in (None, meant):
                raise FeatureError(
                    f"column {column.name!r} had dates written like {example_of(meant)} when the correction was given, "
                    "and has them in another form in this data set"
                )
        made = read(value)
        if made is None:
            raise FeatureError(
                f"column {column.name!r} had a value when the correction was given that means missing in this data set"
            )
        return made

    def read(value: Any) -> Any:
        try:
            (numbers, texts, _), _ = reader.read([{column.name: value}])
        except BadValue as error:
            raise FeatureError(f"column {column.name!r}: expected {error.expected}") from None
        if is_number:
            return _plain(float(numbers[0, 0]))
        return None if texts[0][0] is None else spellings.level_of(texts[0][0])

    return checked


def _vector_reader_of(column: Column) -> Callable[[Any, str | None], bytes]:
    reader = RowReader([{"name": column.name, "kind": "vector", "length": column.values.shape[1]}])

    def read(value: Any, meant: str | None) -> bytes:
        del meant
        try:
            (_, _, vectors), _ = reader.read([{column.name: value}])
        except BadValue as error:
            raise FeatureError(f"column {column.name!r}: expected {error.expected}") from None
        return bytes_of_vectors(vectors[0])[0]

    return read


def _hashable(column: Column, rows: IndexArray) -> list[Any]:
    values = column.values[rows]
    return bytes_of_vectors(values) if column.kind == "vector" else values.tolist()


def _plain(value: Any) -> Any:
    """A value that equals itself: None for NaN, 0.0 for -0.0."""
    if isinstance(value, float):
        return None if not math.isfinite(value) else value + 0.0
    return value


def _values(kind: str, values: Sequence[Any]) -> NDArray[Any]:
    if kind == "number":
        return np.array([math.nan if value is None else value for value in values], dtype=np.float64)
    if kind == "vector":
        return np.frombuffer(b"".join(values), dtype=np.float32).reshape(len(values), -1)
    return np.array([*values, None], dtype=object)[:-1]


def _transposed(keys: Mapping[Key, str]) -> list[tuple[Any, ...]]:
    return list(zip(*keys, strict=True))


def _sparse_keys(X: sparse.csr_array, used: BoolArray) -> Iterator[Key]:
    for start, end in zip(X.indptr[:-1].tolist(), X.indptr[1:].tolist(), strict=True):
        entries = zip(X.indices[start:end].tolist(), X.data[start:end].tolist(), strict=True)
        yield tuple(sorted((j, float(v)) for j, v in entries if v != 0 and math.isfinite(v) and used[j]))

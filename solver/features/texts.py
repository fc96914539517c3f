"""Free text → TF-IDF weights of its words and of runs of their characters.

A weight is 1 + ln(count) times a smooth inverse row frequency, as scikit-learn's `TfidfVectorizer(sublinear_tf=True)`
has it. Words and runs have one length, and both together length 1: neither drowns the other, and a text counts as much
as words alone would. Scikit-learn does the fitting; what it found is kept as arrays. Applying is our own, so that one
text takes microseconds and the API need not load scikit-learn. Reading takes most of the time, so the texts that were
fitted are not read again when they are transformed next, and a word is cut into runs once, however many texts have it.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any, Final, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from solver.features.columns import FeatureCounts
from solver.features.errors import FeatureError, StateError
from solver.features.progress import Passes
from solver.features.runs import SHORTEST_CHARACTERS, RunIndex, parted
from solver.features.strings import pack_strings, unpack_strings
from solver.kinds import IDEOGRAPHS, beyond_ascii, normalized
from solver.single_bytes import CODEC, bytes_where, is_of_a_word, single_bytes
from solver.typing import FloatArray, IndexArray

# longer texts are cut here
MAX_TEXT_CHARACTERS: Final = 1 << 18
# longest run of words that may be a term
MOST_WORDS: Final = 3
MOST_CHARACTERS: Final = 6
USUAL_CHARACTERS: Final = 4
MOST_TERMS: Final = 500_000
# measured bytes of a term in memory: as text, and in what looks texts up
_BYTES_OF_A_TERM: Final[dict[str, int]] = {"words": 200, "characters": 75}

_WORD: Final = re.compile(rf"[{IDEOGRAPHS}]|[^\W{IDEOGRAPHS}]{{2,}}")
_IDEOGRAPH: Final = re.compile(f"[{IDEOGRAPHS}]")
# the same without ideographs, in half the time
_PLAIN_WORD: Final = re.compile(r"\w{2,}")
# for texts of one byte a character: turns all that separates words into blanks
_NO_WORD: Final = bytes_where(lambda character: not is_of_a_word(character))
_BLANK_BETWEEN_WORDS: Final = bytes.maketrans(_NO_WORD, b" " * len(_NO_WORD))
# from so many terms of a text on, these are counted in one array of all terms instead of being sorted
_FEWEST_TALLIED: Final = 1000
# from so many texts on, runs of characters are counted by the words that they have in common
_FEWEST_TOGETHER: Final = 16
# characters of words in which runs are looked for at once
_CHARACTERS_AT_ONCE: Final = 1 << 20

# How the texts of new models are normalised. Older models have 0, not at all, so that they decide as before.
NORMALIZATION: Final = 1
# Name of the term that counts invisible characters between letters or digits; no word has parentheses.
HIDDEN_TERM: Final = "(invisible characters)"

TermKind = Literal["words", "characters"]
# by number as in a model file
_KINDS: Final[tuple[TermKind, ...]] = get_args(TermKind)


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How texts become terms.

    Attributes
    ----------
    words : int, default 1
        Longest run of words that is a term, 1 to 3; 0 for none. Words have two letters or digits at least and are
        lower-cased.
    characters : int, default 4
        Longest run of characters within a word that is a term, 3 to 6 (shorter ones down to 3 too); 0 for none. Helps
        with short texts, and with misspelt, hyphenated and inflected words.
    max_terms : int, default 50000
        Most terms kept of a column, the most frequent ones; runs of characters are counted on their own.
    min_rows : int, default 2
        Terms in fewer rows are left out, where there are at least ten times as many rows. Not those of labelled rows: a
        word in one of a hundred labelled rows says something even if no other row has it yet.
    """

    words: int = 1
    characters: int = USUAL_CHARACTERS
    max_terms: int = 50_000
    min_rows: int = 2

    @property
    def passes(self) -> int:
        """How often fitting looks at each text."""
        return (self.words > 0) + (self.characters > 0)

    def __post_init__(self) -> None:
        if not 0 <= self.words <= MOST_WORDS:
            raise FeatureError(f"words must be 0 to {MOST_WORDS}")
        if self.characters != 0 and not SHORTEST_CHARACTERS <= self.characters <= MOST_CHARACTERS:
            raise FeatureError(f"characters must be 0, or {SHORTEST_CHARACTERS} to {MOST_CHARACTERS}")
        if not 1 <= self.max_terms <= MOST_TERMS:
            raise FeatureError(f"max_terms must be 1 to {MOST_TERMS}")
        if self.min_rows < 1:
            raise FeatureError("min_rows must be at least 1")


class TermShares(NamedTuple):
    """Which words the features of one row are owed to, entry by entry; the shares of each feature add up to 1.

    A term of words is its own. Runs of characters are owed to the words that they are cut from, by how often; where one
    is cut from several words that no blank parts, each has as much of it.

    Attributes
    ----------
    terms : list of (str, str)
        Column and word.
    owners : int64 array of shape (entries,)
        Which of `terms`.
    features : int64 array of shape (entries,)
        Counted from the first feature of texts.
    shares : float64 array of shape (entries,)
    """

    terms: list[tuple[str, str]]
    owners: IndexArray
    features: IndexArray
    shares: FloatArray


class _Occurrences(NamedTuple):
    """How often each feature of one vocabulary is owed to each word of one text."""

    terms: list[str]
    owners: IndexArray
    features: IndexArray
    counts: FloatArray


class _Weights(NamedTuple):
    """Rows of weights as a `csr_array` has them: terms in order and their weights, and where each row ends."""

    terms: NDArray[np.int32]
    weights: FloatArray
    ends: NDArray[np.int32]
    width: int


class TextColumns:
    """The fitted vocabularies of the text columns, and how to apply them.

    Features are ordered by column, within it words before runs of characters, then by term.

    Attributes
    ----------
    names : list of str
        The columns.
    width : int
        Number of features.
    nbytes : int
        About what applying takes in memory besides the state.
    """

    def __init__(self, vocabularies: Sequence[_Vocabulary]) -> None:
        self._vocabularies = list(vocabularies)
        self.names = list(dict.fromkeys(vocabulary.column for vocabulary in vocabularies))
        self.width = sum(len(vocabulary.terms) for vocabulary in vocabularies)
        self.nbytes = sum(vocabulary.nbytes for vocabulary in vocabularies)

    @classmethod
    def fit(
        cls,
        columns: Mapping[str, Sequence[str | None]],
        options: TextOptions,
        warnings: list[str],
        passes: Passes | None = None,
        labelled: IndexArray | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> tuple[Self, float]:
        """Learn the terms of columns; one without any is left out with a warning.

        `passes` counts, for each column, as many as the options have kinds of terms. The terms of the `labelled` rows
        are kept however rare they are. A text of a column is as long as the `weights` say, above 0 and up to 1, else 1.

        Returns
        -------
        fitted : TextColumns
        nonzeros : float
            Features that are not zero in a row, on average.
        """
        vocabularies = []
        entries = 0.0
        passes = passes or Passes()
        for name, values in columns.items():
            found = [
                _fit_vocabulary(name, values, kind, longest, options, passes, labelled)
                for kind, longest in ((_KINDS[0], options.words), (_KINDS[1], options.characters))
                if longest > 0
            ]
            kept = [each for each in found if each is not None]
            if not kept:
                warnings.append(f"column {name!r} is left out: no word occurs in {options.min_rows} training rows")
            for vocabulary, _ in kept:
                vocabulary.length = (weights or {}).get(name, 1.0) / math.sqrt(len(kept))
                vocabularies.append(vocabulary)
            entries += sum(nonzeros for _, nonzeros in kept)
        return cls(vocabularies), entries

    @property
    def feature_names(self) -> list[str]:
        """Readable names, such as `subject: prize`."""
        return [f"{each.column}: {term}" for each in self._vocabularies for term in each.terms]

    @property
    def feature_columns(self) -> list[str]:
        """The column that each feature is of."""
        return [each.column for each in self._vocabularies for _ in each.terms]

    def shares(self, texts: Sequence[str | None]) -> TermShares:
        """Which words the features of one row are owed to.

        Parameters
        ----------
        texts : sequence of str or None
            Of the row, in the order of `names`.
        """
        by_column = dict(zip(self.names, texts, strict=True))
        places: dict[tuple[str, str], int] = {}
        parts, features, shares = [], [], []
        begin = 0
        for vocabulary in self._vocabularies:
            own = vocabulary.occurrences(by_column[vocabulary.column] or "")
            places_of = [places.setdefault((vocabulary.column, term), len(places)) for term in own.terms]
            parts.append(np.array(places_of, dtype=np.int64)[own.owners])
            features.append(own.features + begin)
            totals = np.bincount(own.features, weights=own.counts, minlength=1)
            shares.append(own.counts / totals[own.features])
            begin += len(vocabulary.terms)
        return TermShares(list(places), np.concatenate(parts), np.concatenate(features), np.concatenate(shares))

    def transform(self, columns: Sequence[Sequence[str | None]], counts: FeatureCounts) -> sparse.csr_array:
        """Weights of texts, shape (rows, width); texts of which no word is known are counted.

        Parameters
        ----------
        columns : sequence of sequences
            The texts of each column, in the order of `names`; None is an empty text.
        counts : FeatureCounts
            `wordless` is filled in.
        """
        blocks: list[_Weights] = []
        for name, values in zip(self.names, columns, strict=True):
            vocabularies = [vocabulary for vocabulary in self._vocabularies if vocabulary.column == name]
            forms = {each.normalization for each in vocabularies} if len(values) == 1 else ()
            ready = {form: _prepared(values[0] or "", form) for form in forms}
            own = [each.weights(values, ready.get(each.normalization)) for each in vocabularies]
            # Those of words are first, where there are any. Of any word some run of characters is known.
            wordless = sum(1 for i in np.flatnonzero(own[0].ends[1:] == own[0].ends[:-1]).tolist() if values[i])
            if wordless:
                counts.wordless[name] = wordless
            blocks += own
        return _side_by_side(blocks)

    # -- storing ------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        """What was fitted, as arrays; `from_state` takes them."""
        column_text, column_ends = pack_strings([vocabulary.column for vocabulary in self._vocabularies])
        term_text, term_ends = pack_strings([term for vocabulary in self._vocabularies for term in vocabulary.terms])
        return {
            "text_text": column_text,
            "text_ends": column_ends,
            "text_kind": np.array([_KINDS.index(each.kind) for each in self._vocabularies], dtype=np.uint8),
            "text_longest": np.array([each.longest for each in self._vocabularies], dtype=np.uint8),
            "text_normalization": np.array([each.normalization for each in self._vocabularies], dtype=np.uint8),
            "text_length": np.array([each.length for each in self._vocabularies], dtype=np.float64),
            "term_counts": np.array([len(each.terms) for each in self._vocabularies], dtype=np.int64),
            "term_text": term_text,
            "term_ends": term_ends,
            "idf": np.concatenate([np.zeros(0), *(vocabulary.idf for vocabulary in self._vocabularies)]),
        }

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild from `state`, believing nothing.

        Without `text_normalization`, texts are taken as they are; without `text_length`, each block has length 1.

        Raises
        ------
        StateError
            If the parts contradict each other.
        """
        columns = unpack_strings(arrays["text_text"], arrays["text_ends"])
        kinds, longest = arrays["text_kind"].tolist(), arrays["text_longest"].tolist()
        counts = arrays["term_counts"].tolist()
        normalizations = arrays["text_normalization"].tolist() if "text_normalization" in arrays else [0] * len(columns)
        lengths = arrays["text_length"].tolist() if "text_length" in arrays else [1.0] * len(columns)
        if not len(columns) == len(kinds) == len(longest) == len(counts) == len(normalizations) == len(lengths):
            raise StateError("text features: each vocabulary needs a column, a kind, two lengths, a form and a count")
        if not all(0 < each <= 1 for each in lengths):
            raise StateError("text features: the length of a text must be above 0, and 1 at most")
        if any(each > NORMALIZATION for each in normalizations):
            raise StateError("text features: texts are normalised in a way that is not known here")
        if len(set(zip(columns, kinds, strict=True))) != len(columns) or any(
            columns[i] != columns[i - 1] and columns[i] in columns[:i] for i in range(1, len(columns))
        ):
            raise StateError("text features: a column is listed twice")
        if len(arrays["term_ends"]) > 2 * len(columns) * MOST_TERMS or len(arrays["idf"]) != len(arrays["term_ends"]):
            raise StateError("text features: terms need one weight each, and there are too many or too few")
        if any(count < 1 for count in counts) or sum(counts) != len(arrays["term_ends"]):
            raise StateError("text features: the term counts do not add up to the terms")
        if (arrays["idf"] <= 0).any():
            raise StateError("text features: a weight must be above 0")
        terms = unpack_strings(arrays["term_text"], arrays["term_ends"])
        vocabularies = []
        start = 0
        for column, kind, most, count, form, length in zip(
            columns, kinds, longest, counts, normalizations, lengths, strict=True
        ):
            if kind >= len(_KINDS) or not (
                1 <= most <= MOST_WORDS if kind == 0 else SHORTEST_CHARACTERS <= most <= MOST_CHARACTERS
            ):
                raise StateError("text features: a kind of term that is not known here")
            own = terms[start : start + count]
            if len(set(own)) != count:
                raise StateError("text features: a term is listed twice")
            idf = arrays["idf"][start : start + count]
            vocabularies.append(_Vocabulary(column, _KINDS[kind], most, own, idf, form, length))
            start += count
        return cls(vocabularies)


class _Vocabulary:
    """The terms of one kind in one column, with their weights, and how long a text is as these."""

    def __init__(
        self,
        column: str,
        kind: TermKind,
        longest: int,
        terms: list[str],
        idf: NDArray[Any],
        normalization: int,
        length: float = 1.0,
    ) -> None:
        self.column, self.kind, self.longest, self.terms, self.idf = column, kind, longest, terms, idf
        self.normalization, self.length = normalization, length
        self._index = {term: j for j, term in enumerate(terms)} if kind == "words" else {}
        self._runs = RunIndex(terms if kind == "characters" else [], longest)
        self.nbytes = _BYTES_OF_A_TERM[kind] * len(terms) + self._runs.nbytes
        self._fitted: tuple[Sequence[str | None], sparse.csr_array] | None = None

    def remember(self, texts: Sequence[str | None], counts: sparse.csr_array) -> None:
        """Keep how often each term occurs in these texts until `weights` is called."""
        self._fitted = texts, counts

    def weights(self, texts: Sequence[str | None], prepared: tuple[str, int] | None = None) -> _Weights:
        """TF-IDF weights, with sorted terms; of one text that may be `_prepared` already."""
        fitted, self._fitted = self._fitted, None
        counts: tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
        # Comparing the very same objects, as they are as a rule, takes no time.
        if fitted is not None and fitted[0] == texts:
            counts = fitted[1].indices, fitted[1].data, fitted[1].indptr
        elif prepared is not None:
            counts = self._counts_of_one(*prepared)
        else:
            made = self._counts(texts) if self.kind == "words" else self._counts_of_runs(texts)
            counts = made.indices, made.data, made.indptr
        terms, times, ends = counts
        weights = (np.log(times.astype(np.float64)) + 1) * self.idf[terms]
        rows = np.repeat(np.arange(len(texts)), np.diff(ends))
        weights /= np.sqrt(np.bincount(rows, weights=weights**2, minlength=len(texts)))[rows]
        if self.length != 1:
            weights *= self.length
        return _Weights(terms.astype(np.int32), weights, ends.astype(np.int32), len(self.terms))

    def occurrences(self, text: str) -> _Occurrences:
        """How often each term of a text is owed to each of its words."""
        prepared, hidden = _prepared(text, self.normalization)
        index = self._index
        owners, features, counts = array("q"), array("q"), array("d")
        if self.kind == "words":
            terms = [term for term in dict.fromkeys(_word_runs(prepared, hidden, self.longest)) if term in index]
            owners, counts = array("q", range(len(terms))), array("d", [1.0]) * len(terms)
            features = array("q", [index[term] for term in terms])
        else:
            tokens = Counter(prepared.split())
            known = {self.terms[j]: j for j in self._runs.find(parted(list(tokens))).terms.tolist()}
            places: dict[str, int] = {}
            for token, times in tokens.items():
                for word, run, part in _owned_runs(token, self.longest):
                    if run in known:
                        owners.append(places.setdefault(word, len(places)))
                        features.append(known[run])
                        counts.append(times * part)
            terms = list(places)
        return _Occurrences(
            terms,
            np.array(owners, dtype=np.int64),
            np.array(features, dtype=np.int64),
            np.array(counts, dtype=np.float64),
        )

    def _counts_of_one(self, prepared: str, hidden: int) -> tuple[IndexArray, IndexArray, IndexArray]:
        """Terms of a text, in order, how often each occurs, and where a list of one row begins and ends."""
        found = self._known_words(prepared, hidden) if self.kind == "words" else self._known_runs(prepared)
        if len(found) < _FEWEST_TALLIED:
            terms, times = np.unique(found, return_counts=True)
        else:
            tally = np.bincount(found, minlength=len(self.terms))
            terms = np.flatnonzero(tally != 0)  # half the time of looking at numbers
            times = tally[terms]
        return terms, times, np.array([0, len(terms)])

    def _known_words(self, prepared: str, hidden: int) -> IndexArray:
        """The known terms of words of a text, as often as they occur."""
        runs = _word_runs(prepared, hidden, self.longest)
        numbers = np.fromiter(map(self._index.get, runs, repeat(-1)), dtype=np.int64, count=len(runs))
        return numbers[numbers >= 0]

    def _known_runs(self, prepared: str) -> IndexArray:
        """The known runs of characters of a text, as often as they occur."""
        return self._runs.find(parted(prepared.split())).terms

    def _counts(self, texts: Sequence[str | None]) -> sparse.csr_array:
        return _counted(
            (self._known_words(*_prepared(text or "", self.normalization)).tolist() for text in texts), len(self.terms)
        )

    def _counts_of_runs(self, texts: Sequence[str | None]) -> sparse.csr_array:
        """The same of runs of characters; of many texts by way of their words, each of which is looked at once."""
        prepared = (_prepared(text or "", self.normalization)[0] for text in texts)
        if len(texts) < _FEWEST_TOGETHER:
            return _counted((self._known_runs(text).tolist() for text in prepared), len(self.terms))
        words: dict[str, int] = {}
        per_text = _word_counts(prepared, words)
        return _product(per_text, self._counts_of_words(list(words)))

    def _counts_of_words(self, words: Sequence[str]) -> sparse.csr_array:
        """How often each word has each term."""
        begins = np.cumsum([0, *(len(word) + 2 for word in words)])
        parts = [(np.zeros(0, dtype=np.int64),) * 2]
        for first, last in _spans(begins, _CHARACTERS_AT_ONCE):
            found = self._runs.find(parted(words[first:last]))
            parts.append((found.terms, np.searchsorted(begins, found.places + begins[first], side="right") - 1))
        terms, rows = map(np.concatenate, zip(*parts, strict=True))
        ones = np.ones(len(terms), dtype=np.int32)
        made = sparse.csr_array((ones, (rows, terms)), shape=(len(words), len(self.terms)))
        made.sum_duplicates()
        return made


def _side_by_side(blocks: Sequence[_Weights]) -> sparse.csr_array:
    """Features of several vocabularies, of the same rows."""
    rows = len(blocks[0].ends) - 1
    if rows > 1:
        made = [sparse.csr_array((each.weights, each.terms, each.ends), shape=(rows, each.width)) for each in blocks]
        return made[0] if len(made) == 1 else sparse.csr_array(sparse.hstack(made, format="csr"))
    begins = np.cumsum([0, *(each.width for each in blocks)])  # of one row, of which there are many, this is quicker
    terms = np.concatenate(
        [each.terms + begin for each, begin in zip(blocks, begins[:-1].astype(np.int32), strict=True)]
    )
    weights = np.concatenate([each.weights for each in blocks])
    return sparse.csr_array((weights, terms, np.array([0, len(terms)], dtype=np.int32)), shape=(1, int(begins[-1])))


def _spans(begins: IndexArray, most: int) -> Iterator[tuple[int, int]]:
    """Parts of a list of words that have about so many characters each, by where the words begin."""
    firsts = np.flatnonzero(np.diff(begins // most, prepend=-1)[:-1])
    return pairwise([*firsts.tolist(), len(begins) - 1])


def _word_counts(texts: Iterable[str], words: dict[str, int]) -> sparse.csr_array:
    """How often each text has each of its words between blanks; `words` is filled with the columns of these."""
    return _counted([words.setdefault(word, len(words)) for word in text.split()] for text in texts)


def _counted(rows: Iterable[Sequence[int]], width: int | None = None) -> sparse.csr_array:
    """How often each row lists each column, of so many, or of those up to the last that is listed."""
    # Arrays rather than lists: four bytes an entry, of which there may be many millions.
    indices, ends = array("i"), [0]
    for row in rows:
        indices.extend(row)
        ends.append(len(indices))
    ones = np.ones(len(indices), dtype=np.int32)
    columns = np.array(indices, dtype=np.int32)
    width = int(columns.max(initial=-1)) + 1 if width is None else width
    made = sparse.csr_array((ones, columns, np.array(ends, dtype=np.int32)), shape=(len(ends) - 1, width))
    made.sum_duplicates()
    return made


def _product(per_text: sparse.csr_array, per_word: sparse.csr_array) -> sparse.csr_array:
    counts = sparse.csr_array(per_text @ per_word)
    counts.sort_indices()
    return counts


def _all_runs(texts: Iterable[str], longest: int) -> tuple[sparse.csr_array, list[str]]:
    """How often each text has each run of characters, and the runs, in order."""
    words: dict[str, int] = {}
    runs: dict[str, int] = {}
    per_text = _word_counts(texts, words)
    per_word = _counted([runs.setdefault(run, len(runs)) for run in _runs_of(word, longest)] for word in words)
    del words
    names = sorted(runs)
    place = np.empty(len(names), dtype=np.int32)
    place[[runs[name] for name in names]] = np.arange(len(names), dtype=np.int32)
    per_word.indices = place[per_word.indices]
    return _product(per_text, per_word), names


def _fit_vocabulary(
    column: str,
    values: Sequence[str | None],
    kind: TermKind,
    longest: int,
    options: TextOptions,
    passes: Passes,
    labelled: IndexArray | None,
) -> tuple[_Vocabulary, float] | None:
    """The vocabulary of a column and its terms a row, None if no term is frequent enough."""
    from sklearn.feature_extraction.text import TfidfTransformer

    fewest = options.min_rows if len(values) >= 10 * options.min_rows else 1
    looked_at = passes.over(values)
    if kind == "characters":
        counts, names = _all_runs((_prepared(value or "", NORMALIZATION)[0] for value in looked_at), longest)
    else:
        counts, names = _all_words(looked_at, longest)
    if not names:
        return None
    kept = _kept_terms(counts, fewest, options.max_terms, labelled)
    if not len(kept):  # none is frequent enough
        return None
    terms = [names[j] for j in kept.tolist()]
    counts = sparse.csr_array(counts[:, kept])
    counts.sort_indices()
    vocabulary = _Vocabulary(column, kind, longest, terms, TfidfTransformer().fit(counts).idf_, NORMALIZATION)
    vocabulary.remember(values, counts)
    return vocabulary, counts.nnz / len(values)


def _all_words(values: Iterable[str | None], longest: int) -> tuple[sparse.csr_array, list[str]]:
    """How often each text has each run of words, and these, in order."""
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(
        analyzer=lambda text: _word_runs(*_prepared(text, NORMALIZATION), longest), dtype=np.int32
    )
    try:
        counts = sparse.csr_array(vectorizer.fit_transform(value or "" for value in values))
    except ValueError:  # no word
        return _counted([]), []
    return counts, vectorizer.get_feature_names_out().tolist()


def _kept_terms(counts: sparse.csr_array, fewest: int, most: int, labelled: IndexArray | None) -> NDArray[np.intp]:
    """Terms of so many rows at least, or of a labelled one; of these the most frequent ones, in order."""
    width = counts.shape[1]
    wanted = np.bincount(counts.indices, minlength=width) >= fewest
    if labelled is not None:
        wanted[counts[labelled].indices] = True
    kept = np.flatnonzero(wanted)
    if len(kept) > most:
        times = np.bincount(counts.indices, weights=counts.data, minlength=width)[kept].astype(np.int64)
        kept = np.sort(kept[np.argsort(-times)[:most]])  # among equals the ones that scikit-learn keeps
    return kept


def _prepared(text: str, normalization: int) -> tuple[str, int]:
    """A text in lower case as terms are cut from it, and what it hid within words."""
    if not normalization or text.isascii():
        return text[:MAX_TEXT_CHARACTERS].lower(), 0
    seen, hidden = normalized(text[:MAX_TEXT_CHARACTERS])
    return seen[:MAX_TEXT_CHARACTERS].lower(), hidden


def _words(text: str) -> list[str]:
    """Return the words of a text that have two characters at least, and its ideographs."""
    data = single_bytes(text)
    if data is None:
        return (_WORD if _IDEOGRAPH.search(beyond_ascii(text)) else _PLAIN_WORD).findall(text)
    return [word for word in data.translate(_BLANK_BETWEEN_WORDS).decode(CODEC).split() if len(word) > 1]


def _word_runs(text: str, hidden: int, longest: int) -> list[str]:
    words = _words(text)
    runs = [*words, *[HIDDEN_TERM] * hidden] if hidden else words if longest == 1 else list(words)
    for length in range(2, longest + 1):
        runs += [" ".join(words[i : i + length]) for i in range(len(words) - length + 1)]
    return runs


def _runs_of(word: str, longest: int) -> list[str]:
    """Runs of a word that a blank begins and ends, as `analyzer="char_wb"` of scikit-learn has them."""
    padded = f" {word} "
    runs: list[str] = []
    for length in range(SHORTEST_CHARACTERS, longest + 1):
        if len(padded) <= length:  # a shorter word is one run, counted once
            runs.append(padded)
            break
        runs += [padded[i : i + length] for i in range(len(padded) - length + 1)]
    return runs


def _owned_runs(token: str, longest: int) -> Iterator[tuple[str, str, float]]:
    """Runs of what stands between blanks, each with a word that it is owed to and how much of it is.

    Where there is one word, all are that word's, those of the signs around it, too. Where there are several (`e-mail`,
    or a sentence of ideographs), a run belongs to those that it overlaps; to the whole where it overlaps none.
    """
    spans = [match.span() for match in _WORD.finditer(token)]
    if len(spans) < 2:
        word = token[slice(*spans[0])] if spans else token
        yield from ((word, run, 1.0) for run in _runs_of(token, longest))
        return
    at: list[list[str]] = [[] for _ in range(len(token) + 2)]  # of each character of the padded token, its word
    for begin, end in spans:
        at[begin + 1 : end + 1] = [[token[begin:end]]] * (end - begin)  # one text: it may be as long as all of them
    padded = f" {token} "
    for length in range(SHORTEST_CHARACTERS, longest + 1):
        last = max(0, len(padded) - length)
        for place in range(last + 1):
            words = list(dict.fromkeys(word for own in at[place : place + length] for word in own)) or [token]
            yield from ((word, padded[place : place + length], 1 / len(words)) for word in words)
        if len(padded) <= length:  # a shorter word is one run, counted once
            return

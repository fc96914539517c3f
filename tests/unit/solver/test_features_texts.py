"""Texts → TF-IDF weights: those of scikit-learn, from plain arrays, and never dense."""

from __future__ import annotations

import json
import random
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from solver.features import Column, FeatureError, StateError, Table, TableFeatures, TextOptions
from solver.features import texts as texts_module
from solver.features.columns import FeatureCounts
from solver.features.texts import TextColumns

WORDS = [f"{a}{b}" for a in ("win", "Lunch", "prize", "über", "meet", "3d") for b in ("", "s", "er", "ing", "ly")]


def some_texts(n: int, seed: int = 0) -> list[str | None]:
    rng = random.Random(seed)  # noqa: S311 (no secret)
    made: list[str | None] = [
        " ".join(rng.choices(WORDS, k=rng.randint(3, 30))) + rng.choice(["", " a I!", "\n\tx-y", "  Dr. O'Neil "])
        for _ in range(n)
    ]
    made[3] = None
    return made


def column(name: str, values: list[str | None]) -> Column:
    return Column(name, "text", np.array([*values, None], dtype=object)[:-1])


def table(*columns: Column) -> Table:
    return Table({each.name: each for each in columns})


def stored_and_read(features: TableFeatures) -> TableFeatures:
    arrays, meta = features.state()
    assert {name: array.dtype.name for name, array in arrays.items()} == TableFeatures.array_types(meta)
    return TableFeatures.from_state(arrays, json.loads(json.dumps(meta)))


def dense(X: NDArray[np.float64] | sparse.csr_array) -> NDArray[np.float64]:
    return X if isinstance(X, np.ndarray) else X.toarray()


@pytest.mark.parametrize(
    ("options", "vectorizers"),
    [
        (TextOptions(characters=0, min_rows=3), [{"min_df": 3}]),
        (TextOptions(characters=0, words=2, max_terms=40), [{"ngram_range": (1, 2), "min_df": 2, "max_features": 40}]),
        (TextOptions(), [{"min_df": 2}, {"analyzer": "char_wb", "ngram_range": (3, 4), "min_df": 2}]),
        (TextOptions(characters=6), [{"min_df": 2}, {"analyzer": "char_wb", "ngram_range": (3, 6), "min_df": 2}]),
    ],
)
def test_weights_are_those_of_scikit_learn(options: TextOptions, vectorizers: list[dict[str, object]]) -> None:
    texts, unseen = some_texts(120), some_texts(30, seed=1)
    features = stored_and_read(TableFeatures(text=options).fit(table(column("note", texts))))
    X, counts = features.transform(table(column("note", unseen)))
    expected = []
    for arguments in vectorizers:
        reference = TfidfVectorizer(sublinear_tf=True, **arguments).fit([text or "" for text in texts])
        expected.append(reference.transform([text or "" for text in unseen]).toarray())
    np.testing.assert_allclose(dense(X), np.hstack(expected) / len(vectorizers) ** 0.5, rtol=0, atol=1e-12)
    one, _ = features.transform(table(column("note", unseen[:1])))  # fewer texts are read in another way
    np.testing.assert_array_equal(dense(one), dense(X)[:1])
    assert counts.warnings() == []
    assert features.columns == [{"name": "note", "kind": "text"}]
    assert features.has_text
    assert features.feature_names[0] == f"note: {sorted(reference.vocabulary_)[0]}" or len(vectorizers) > 1


def test_a_wide_vocabulary_stays_sparse_beside_numbers_dates_and_categories() -> None:
    rng = random.Random(0)  # noqa: S311 (no secret)
    vocabulary = [f"word{i}" for i in range(900)]
    n = 400
    notes = column("note", [" ".join(rng.choices(vocabulary, k=40)) for _ in range(n)])
    data = table(
        Column("age", "number", np.array([*np.linspace(0, 1, n - 1), np.nan])),
        column("job", [["clerk", "cook", None][i % 3] for i in range(n)]),
        column("when", [f"2026-0{1 + i % 9}-1{i % 10}" for i in range(n)]),
        notes,
    )
    features = TableFeatures().fit(data)
    assert [each["kind"] for each in features.columns] == ["number", "date", "category", "text"]
    X, _ = features.transform(data)
    assert isinstance(X, sparse.csr_array)
    assert X.has_sorted_indices
    assert X.shape == (n, features.n_features) == (n, len(features.feature_names))
    alone, _ = TableFeatures().fit(table(notes)).transform(table(notes))
    np.testing.assert_array_equal(dense(X)[:, -alone.shape[1] :], dense(alone))
    few = dense(TableFeatures(exclude=["note"]).fit(data).transform(data)[0])
    np.testing.assert_array_equal(dense(X)[:, : few.shape[1]], few)
    rows = [{"age": 0.5, "job": "cook", "when": "2026-02-11", "note": "word1 word2"}, dict.fromkeys(data.columns)]
    again = stored_and_read(features)
    from_rows, counts, _ = again.transform_rows(rows)
    assert isinstance(from_rows, sparse.csr_array)
    assert np.isfinite(from_rows.data).all()
    assert counts.missing == {"when": 1}


def test_what_training_never_saw_is_counted_and_empty_texts_are_not() -> None:
    features = TableFeatures().fit(table(column("note", some_texts(60))))
    X, counts = features.transform(table(column("note", ["zzz qqq", "", None, "win"])))
    assert counts.wordless == {"note": 1}
    # runs of characters that are known make no known word
    runs, again = features.transform(table(column("note", ["winner lunchbox"])))
    assert np.count_nonzero(dense(runs)) > 0
    assert again.wordless == {"note": 1}
    assert "no word" in counts.warnings()[0] or "without any word" in counts.warnings()[0]
    assert np.count_nonzero(dense(X)[:3]) == 0
    assert np.linalg.norm(dense(X)[3]) == pytest.approx(1)


def test_words_and_runs_of_characters_are_as_long_as_words_alone() -> None:
    texts = some_texts(60)
    for options, lengths in ((TextOptions(), [0.5**0.5] * 2), (TextOptions(characters=0), [1.0])):
        fitted, _ = TextColumns.fit({"a": texts, "b": texts}, options, [])
        state = fitted.state()
        assert state["text_length"].tolist() == pytest.approx(lengths * 2)
        X = dense(fitted.transform([texts, texts], FeatureCounts()))
        assert np.linalg.norm(X[0, : X.shape[1] // 2]) == pytest.approx(1)
        np.testing.assert_array_equal(
            X, dense(TextColumns.from_state(state).transform([texts, texts], FeatureCounts()))
        )
        # models from before there were such lengths: words and runs have length 1 each
        old = TextColumns.from_state({name: part for name, part in state.items() if name != "text_length"})
        before = dense(old.transform([texts, texts], FeatureCounts()))
        np.testing.assert_allclose(before * lengths[0], X, rtol=1e-15)
        again = TextColumns.from_state(old.state())
        np.testing.assert_array_equal(before, dense(again.transform([texts, texts], FeatureCounts())))
        for lie in (0.0, -1.0, 1.5, np.nan):
            with pytest.raises(StateError, match="length"):
                TextColumns.from_state({**state, "text_length": np.full(len(lengths) * 2, lie)})
    with pytest.raises(StateError, match="two lengths"):
        TextColumns.from_state({**state, "text_length": np.ones(3)})


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text(alphabet="ab\u00e9 \t\n\x1c\u3000.\u4f60", max_size=12), min_size=16, max_size=20))
def test_runs_are_those_of_scikit_learn_whatever_the_blanks(texts: list[str]) -> None:
    try:
        reference = TfidfVectorizer(sublinear_tf=True, analyzer="char_wb", ngram_range=(3, 5), dtype=np.float64).fit(
            texts
        )
    except ValueError:  # no run
        return
    fitted, _ = TextColumns.fit({"t": texts}, TextOptions(characters=5, min_rows=1), [])
    names = [f"t: {run}" for run in sorted(reference.vocabulary_)]
    assert fitted.feature_names[-len(names) :] == names
    X = dense(fitted.transform([texts[::-1]], FeatureCounts()))[:, -len(names) :]
    length = fitted.state()["text_length"][-1]
    np.testing.assert_allclose(X, reference.transform(texts[::-1]).toarray() * length, rtol=0, atol=1e-12)
    few = dense(fitted.transform([texts[::-1][:3]], FeatureCounts()))[:, -len(names) :]
    np.testing.assert_array_equal(few, X[:3])


def test_ideographs_are_words_of_their_own() -> None:
    values: list[str | None] = [f"你好世界{chr(0x4E00 + i)} hi" for i in range(40)]
    features = TableFeatures().fit(table(column("note", values)))
    assert {"note: 你", "note: 好", "note: hi"} <= set(features.feature_names)


def test_kinds_are_guessed_from_the_values_and_can_be_given() -> None:
    n = 200
    data = table(
        column("prose", [f"we meet at the {i} th place for lunch" for i in range(n)]),
        column("code", [f"A-{i % 90 + 10}-{i}" for i in range(n)]),
        column("long", [["married, spouse not at home", "never married at all"][i % 2] for i in range(n)]),
        Column("zip", "number", np.arange(n) % 3 + 0.0),
    )
    features = TableFeatures().fit(data)
    kinds = {each["name"]: each["kind"] for each in features.columns}
    assert kinds == {"prose": "text", "long": "category", "zip": "number"}
    assert "'code'" in features.warnings[0]
    told = TableFeatures(kinds={"code": "text", "long": "text", "zip": "category", "prose": "category"}).fit(data)
    kinds = {each["name"]: each["kind"] for each in told.columns}
    assert kinds == {"prose": "category", "code": "text", "long": "text", "zip": "category"}
    assert {"zip=0", "zip=1", "zip=2"} <= set(told.feature_names)
    X, counts = told.transform(data)
    assert counts.warnings() == []
    row, counts, _ = told.transform_rows([{"prose": "x", "code": "A-11-1", "long": "never married at all", "zip": 1}])
    assert counts.unseen == {"prose": 1}
    zips = [i for i, name in enumerate(told.feature_names) if name.startswith("zip=")]
    np.testing.assert_array_equal(dense(row)[0, zips], dense(X)[1, zips])


@pytest.mark.parametrize(
    ("kinds", "match"),
    [
        ({"zip": "text"}, "'zip' holds numbers"),
        ({"zip": "date"}, "'zip'.*no dates"),
        ({"note": "number"}, "'note' holds texts"),
        ({"note": "date"}, "'note'.*no dates"),
        ({"note": "magic"}, "'note'.*one of number"),
        ({"nobody": "text"}, "no such column: 'nobody'"),
    ],
)
def test_kinds_that_columns_cannot_have_are_refused(kinds: dict[str, str], match: str) -> None:
    data = table(column("note", ["a b", "c d"]), Column("zip", "number", np.array([1.0, 2.0])))
    with pytest.raises(FeatureError, match=match):
        TableFeatures(kinds=kinds).fit(data)


@pytest.mark.parametrize("changes", [{"words": -1}, {"characters": 2}, {"max_terms": 0}, {"min_rows": 0}, {"words": 9}])
def test_impossible_options_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(FeatureError, match=next(iter(changes))):
        TextOptions(**changes)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("text_kind", np.array([2], dtype=np.uint8)),
        ("text_longest", np.array([0], dtype=np.uint8)),
        ("text_longest", np.array([200], dtype=np.uint8)),
        ("term_counts", np.array([10**6], dtype=np.int64)),
        ("term_counts", np.array([-1], dtype=np.int64)),
        ("term_counts", np.array([], dtype=np.int64)),
        ("idf", np.array([1.0])),
        ("idf", None),
        ("term_text", np.frombuffer(b"\xff", dtype=np.uint8)),
        ("term_ends", np.array([1, 2**60], dtype=np.int64)),
    ],
)
def test_lying_state_is_refused(part: str, value: NDArray[np.generic] | None) -> None:
    arrays, meta = TableFeatures().fit(table(column("note", some_texts(40)))).state()
    TableFeatures.from_state(arrays, meta)
    with pytest.raises(StateError):
        TableFeatures.from_state({**arrays, part: -arrays[part] if value is None else value}, meta)


def test_a_vocabulary_that_lists_a_term_or_a_column_twice_is_refused() -> None:
    arrays, meta = TableFeatures(text=TextOptions(characters=3)).fit(table(column("note", some_texts(40)))).state()
    with pytest.raises(StateError, match="twice"):
        TableFeatures.from_state({**arrays, "text_kind": np.zeros(2, dtype=np.uint8)}, meta)
    ends = arrays["term_ends"].copy()
    ends[:2] = ends[1]
    ends[2] = ends[1]
    with pytest.raises(StateError, match="twice"):
        TableFeatures.from_state({**arrays, "term_ends": ends}, meta)
    for kinds in (["text", "magic"], "text", [3], [["text"]]):
        with pytest.raises(StateError, match="kinds"):
            TableFeatures.array_types({**meta, "kinds": kinds})


@pytest.mark.parametrize("options", [TextOptions(), TextOptions(words=2, characters=4, max_terms=30)])
def test_fitted_texts_are_read_once_and_to_the_same_bits(options, monkeypatch):
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{j}" for j in rng.integers(0, 60, 20)) for _ in range(50)] + [None]
    read = []
    words = texts_module._word_runs
    monkeypatch.setattr(texts_module, "_word_runs", lambda text, *how: read.append(text) or words(text, *how))
    fitted, _ = TextColumns.fit({"t": texts}, options, [])
    first = fitted.transform([list(texts)], FeatureCounts())
    assert len(read) == len(texts)
    again = fitted.transform([texts], FeatureCounts())
    assert len(read) == 2 * len(texts)
    for part in ("data", "indices", "indptr"):
        one, other = getattr(first, part), getattr(again, part)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    # Other texts than those that were fitted are read, also right after.
    fitted, _ = TextColumns.fit({"t": texts}, options, [])
    np.testing.assert_array_equal(fitted.transform([texts[:7]], FeatureCounts()).toarray(), again[:7].toarray())


INVISIBLE = ["\u200b", "\u00ad", "\u2060", "\ufe0f", "\u200c", "\u200d", "\ufeff", "\u034f", "\u180e", "\u200b\u200d"]


def hidden(mark: str, text: str) -> str:
    return " ".join(mark.join(word) for word in text.split())


@pytest.mark.parametrize("mark", INVISIBLE)
def test_invisible_characters_part_no_words_and_are_counted(mark: str) -> None:
    texts = ["claim your prize now", "see you at lunch", "the prize is yours", hidden(mark, "claim the prize")] * 10
    fitted, _ = TextColumns.fit({"body": texts}, TextOptions(words=2, characters=4), [])
    index = {name: j for j, name in enumerate(fitted.feature_names)}
    rows = fitted.transform([["claim the prize", hidden(mark, "claim the prize")]], FeatureCounts()).toarray()
    sign = index["body: (invisible characters)"]
    assert rows[0, sign] == 0
    assert rows[1, sign] > 0
    assert {name for name, j in index.items() if rows[0, j]} == {name for name, j in index.items() if rows[1, j]} - {
        "body: (invisible characters)"
    }
    emoji = fitted.transform([["claim \u2764\ufe0f the \ufeffprize"]], FeatureCounts()).toarray()
    assert emoji[0, sign] == 0  # between letters alone they are odd


@pytest.mark.parametrize("spelt", ["ｐｒｉｚｅ", "𝐩𝐫𝐢𝐳𝐞", "PRIZE", "ⓟⓡⓘⓩⓔ"])
def test_other_spellings_of_letters_are_the_letters(spelt: str) -> None:
    fitted, _ = TextColumns.fit({"body": ["a prize", "gro\u00dfe caf\u00e9"] * 10}, TextOptions(), [])
    plain, other = fitted.transform([["prize", spelt]], FeatureCounts()).toarray()
    assert (plain == other).all()
    composed, parted = fitted.transform([["caf\u00e9", "cafe\u0301"]], FeatureCounts()).toarray()
    assert (composed == parted).all()


def test_an_older_state_decides_as_it_did() -> None:
    """Before texts were normalised, invisible characters parted words, and full-width letters were other ones."""
    fitted, _ = TextColumns.fit(
        {"body": ["claim your prize now", "see you at lunch"] * 10}, TextOptions(characters=0), []
    )
    state = fitted.state()
    del state["text_normalization"]
    old = TextColumns.from_state(state)
    asked = [["pr\u200bize", "ｐｒｉｚｅ", "prize lunch"]]
    assert np.diff(fitted.transform(asked, FeatureCounts()).indptr).tolist() == [1, 1, 2]
    assert np.diff(old.transform(asked, FeatureCounts()).indptr).tolist() == [0, 0, 2]
    again = TextColumns.from_state(old.state())  # stored again, it stays what it is
    assert np.diff(again.transform(asked, FeatureCounts()).indptr).tolist() == [0, 0, 2]
    for wrong in ([2], [0, 0], []):
        with pytest.raises(StateError):
            TextColumns.from_state({**state, "text_normalization": np.array(wrong, dtype=np.uint8)})


@pytest.mark.parametrize("unit", ["\u0301\u0316", "\u05b0\u05b1", "\ufdfa", "\u200b", "a\u200b", "\u1160", "é", "字"])
def test_normalising_takes_linear_time(unit: str) -> None:
    fitted, _ = TextColumns.fit({"body": ["claim your prize now", "see you at lunch"] * 10}, TextOptions(), [])
    text = "a" + unit * (500_000 // len(unit))
    started = time.process_time()
    fitted.transform([[text]], FeatureCounts())
    assert time.process_time() - started < 5  # .1 to .4 here, and minutes where each is compared with each


def test_a_table_of_an_older_model_is_read_as_it_was() -> None:
    table = Table({"t": Column("t", "text", np.array(["claim your prize now", "see you at lunch"] * 10, dtype=object))})
    arrays, meta = TableFeatures(kinds={"t": "text"}, text=TextOptions(characters=0)).fit(table).state()
    assert meta["normalized"] is meta["lengths"] is True
    assert set(TableFeatures.array_types(meta)) == set(arrays)
    old_meta = {name: value for name, value in meta.items() if name not in ("normalized", "lengths")}
    old_arrays = {name: array for name, array in arrays.items() if name not in ("text_normalization", "text_length")}
    assert set(TableFeatures.array_types(old_meta)) == set(old_arrays)
    old = TableFeatures.from_state(old_arrays, old_meta)
    X, _, _ = old.transform_rows([{"t": "pr\u200bize"}])
    assert not X.any()
    X, _, _ = TableFeatures.from_state(*old.state()).transform_rows([{"t": "pr\u200bize"}])
    assert not X.any()


def test_words_of_labelled_rows_are_kept_however_rare_they_are() -> None:
    texts = [f"common words here {word}" for word in ("alpha", "beta", "gamma", *["delta"] * 27)]
    data = table(column("note", texts))
    kinds, words = {"note": "text"}, TextOptions(characters=0)
    assert "note: alpha" not in TableFeatures(kinds=kinds, text=words).fit(data).feature_names
    features = stored_and_read(TableFeatures(kinds=kinds, text=words).fit(data, labelled=np.array([0, 5])))
    assert features.feature_names == [f"note: {word}" for word in ("alpha", "common", "delta", "here", "words")]
    weights = TfidfVectorizer(sublinear_tf=True).fit(texts)
    X, _ = features.transform(data)
    np.testing.assert_allclose(dense(X)[0], weights.transform(texts).toarray()[0, [0, 2, 3, 5, 6]], rtol=1e-12)
    few = TableFeatures(kinds=kinds, text=TextOptions(characters=0, max_terms=4)).fit(data, labelled=np.array([0, 5]))
    assert few.feature_names == [f"note: {word}" for word in ("common", "delta", "here", "words")]


def test_texts_one_after_the_other_count_as_all_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the words of all are looked at in several parts."""
    monkeypatch.setattr(texts_module, "_CHARACTERS_AT_ONCE", 50)
    rng = np.random.default_rng(0)
    words = ["a", "ab", "abc", "x" * 30, "水", "é", *("".join(rng.choice(list("abcd"), 5)) for _ in range(40))]
    several: list[str | None] = [" ".join(rng.choice(words, int(n))) for n in rng.integers(0, 60, 40)]
    fitted, _ = TextColumns.fit({"text": several}, TextOptions(min_rows=1), [])
    (vocabulary,) = (each for each in fitted._vocabularies if each.kind == "characters")
    together = vocabulary._counts_of_runs(several)
    assert together.has_sorted_indices
    few = vocabulary._counts_of_runs(several[:5])
    np.testing.assert_array_equal(few.toarray(), together[:5].toarray())
    all_rows = fitted.transform([several], FeatureCounts())
    for i, text in enumerate(several):
        alone = fitted.transform([[text]], FeatureCounts())
        for part in ("data", "indices"):
            np.testing.assert_array_equal(getattr(alone, part), getattr(all_rows[[i]], part))


def test_a_column_counts_as_much_as_its_weight() -> None:
    texts = {"subject": ["win a prize", "lunch today"] * 6, "body": ["claim the prize now", "see you at lunch"] * 6}
    fitted, _ = TextColumns.fit(texts, TextOptions(), [], weights={"subject": 0.5})
    X = fitted.transform(list(texts.values()), FeatureCounts()).toarray()
    in_subject = np.array([name.startswith("subject: ") for name in fitted.feature_names])
    np.testing.assert_allclose(np.linalg.norm(X[:, in_subject], axis=1), 0.5)
    np.testing.assert_allclose(np.linalg.norm(X[:, ~in_subject], axis=1), 1.0)
    again = TextColumns.from_state(fitted.state())
    np.testing.assert_array_equal(again.transform(list(texts.values()), FeatureCounts()).toarray(), X)

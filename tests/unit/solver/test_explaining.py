"""What weighed most in a score is what an independent computation says, and adds up where it is said to."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from solver import explaining
from solver.decision import DecisionState
from solver.explaining import MOST_PARTS, Part, explain, weights_of
from solver.features import (
    Column,
    EncoderIdentity,
    KnownVectors,
    MatrixData,
    MatrixFeatures,
    Table,
    TableFeatures,
    TextOptions,
)
from solver.features.encoded import encoder_text
from solver.model_file import Model, read_model, write_model
from solver.nearest import MOST_BYTES, KeptRows, KeptRowsError, Neighbours
from solver.training import TrainedModel, TrainingRequest, train

ALL = 10**6
WORDS = ("win", "prize", "e-mail", "meeting", "tomorrow", "lunch", "invoice", "cheap", "don't", "こんにちは世界", "!!")
JOBS = ("clerk", "cook", "smith")


def row(rng: np.random.Generator, positive: bool, *, gaps: bool = True) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return None if gaps and rng.random() < 0.1 else value

    own = WORDS[:4] if positive else WORDS[3:7]
    return {
        "age": maybe(float(rng.normal(40 + 6 * positive, 9))),
        "rooms": float(rng.integers(0, 2)),
        "job": maybe(JOBS[int(rng.integers(0, 3))]),
        "since": maybe(
            f"20{rng.integers(10, 24)}-0{rng.integers(1, 9)}-1{rng.integers(0, 9)}T0{rng.integers(0, 9)}:00"
        ),
        "note": maybe(" ".join(rng.choice([*own, *WORDS], 8))),
        "vec": rng.normal(positive, 1, 5).round(3).tolist(),
    }


def table(rows: list[dict[str, Any]]) -> Table:
    def column(name: str) -> Column:
        values = [each[name] for each in rows]
        if name == "vec":
            return Column(name, "vector", np.array(values, dtype=np.float32))
        if name in ("age", "rooms"):
            return Column(name, "number", np.array([np.nan if value is None else value for value in values]))
        return Column(name, "text", np.array([*values, None], dtype=object)[:-1])

    return Table({name: column(name) for name in rows[0]})


def mixed(
    *, gaps: bool, text: TextOptions | None = None, keep_words: bool = True
) -> tuple[TableFeatures, list[dict[str, Any]]]:
    rng = np.random.default_rng(3)
    rows = [row(rng, bool(i % 2), gaps=gaps) for i in range(80)]
    features = TableFeatures(kinds={"note": "text", "since": "date"}, text=text, keep_words=keep_words)
    return features.fit(table(rows)), rows


def decision(kind: str, X: Any, seed: int = 0) -> DecisionState:
    rng = np.random.default_rng(seed)
    chosen = X[np.arange(0, X.shape[0], 3)]
    return DecisionState(kind, 0.11, 3, 0.4, chosen, rng.normal(size=chosen.shape[0]), 0.37, 0.2)


def explained(state: DecisionState, features: TableFeatures, rows: list[dict[str, Any]], most: int = ALL) -> Any:
    X, _, _ = features.transform_rows(rows)
    return explain([state], features, X, features.texts_with_terms(rows), most)


@pytest.mark.parametrize("text", [TextOptions(), TextOptions(words=2), TextOptions(words=0), TextOptions(characters=0)])
@pytest.mark.parametrize("keep_words", [True, False])
def test_parts_of_a_linear_score_add_up(text: TextOptions, keep_words: bool) -> None:
    features, rows = mixed(gaps=True, text=text, keep_words=keep_words)
    X, _, _ = features.transform_rows(rows)
    state = decision("linear", X)
    dense = X.toarray() if sparse.issparse(X) else X
    vectors = state.support_vectors
    plane = state.dual_coef @ (vectors.toarray() if sparse.issparse(vectors) else vectors)
    scores = dense @ plane
    for most in (ALL, 3):
        made = explained(state, features, rows, most)
        summed = [sum(change for _, change in each.changes) + each.rest for each in made]
        np.testing.assert_allclose(summed, scores, rtol=0, atol=1e-9)
        assert all(len(each.changes) <= most for each in made)
        for each in made:
            sizes = [abs(change) for _, change in each.changes]
            assert sizes == sorted(sizes, reverse=True)
            assert len({part for part, _ in each.changes}) == len(each.changes)
    # Column by column, too, by the names that the features have for people.
    names = features.feature_names
    for place, each in enumerate(explained(state, features, rows)):
        for column in ("age", "job"):
            own = [
                j
                for j, name in enumerate(names)
                if name in (column, f"{column} is missing") or name.startswith(f"{column}=")
            ]
            said = sum(change for part, change in each.changes if part.column == column)
            assert said == pytest.approx(dense[place, own] @ plane[own], abs=1e-12)
    assert any(part.kind == "term" for part, _ in made[0].changes) == keep_words or most == 3


def test_a_word_has_its_own_feature_and_the_runs_that_are_cut_from_it() -> None:
    rows = [{"note": "win prize"}, {"note": "lunch tomorrow"}, {"note": "prize prizes e-mail"}, {"note": "no e mail"}]
    texts = Table({"note": Column("note", "text", np.array([each["note"] for each in rows], dtype=object))})
    features = TableFeatures(kinds={"note": "text"}, text=TextOptions(characters=3, min_rows=1)).fit(texts)
    X, _, _ = features.transform_rows(rows)
    plane = np.random.default_rng(0).normal(size=X.shape[1])
    state = DecisionState("linear", 1.0, 3, 0.0, plane[None, :], np.ones(1), 0.0, 0.0)
    dense = X.toarray() if sparse.issparse(X) else X
    said = {part.term: change for part, change in explained(state, features, rows)[2].changes}
    weighed = dict(zip(features.feature_names, dense[2] * plane, strict=True))
    # "prize" has " pr", "pri", "riz", "ize" with "prizes" in common, and "ze " alone.
    assert said["prize"] == pytest.approx(
        weighed["note: prize"]
        + weighed["note: ze "]
        + sum(weighed[f"note: {run}"] for run in (" pr", "pri", "riz", "ize")) / 2
    )
    assert set(said) == {"prize", "prizes", "mail"}  # a single letter is no word
    assert sum(said.values()) == pytest.approx(dense[2] @ plane)


@pytest.mark.parametrize("kind", ["rbf", "poly", "sigmoid", "linear"])
def test_a_change_is_what_an_edited_row_shows(kind: str) -> None:
    features, rows = mixed(gaps=False, keep_words=False)
    X, _, _ = features.transform_rows(rows)
    model = Model("svm", {}, {"kind": "f1"}, ("ham", "spam"), decision(kind, X), features)
    means = {
        "age": float(np.mean([each["age"] for each in rows])),
        "job": "a job that nobody has",
        "note": None,
        "vec": np.mean([each["vec"] for each in rows], axis=0).tolist(),
    }
    means["rooms"] = 0.0
    for given in rows[:6]:
        said = {part.column: change for part, change in explained(model.decision, features, [given])[0].changes}
        before = model.predict_rows([given])[0].scores[0]
        for column, value in means.items():
            after = model.predict_rows([{**given, column: value}])[0].scores[0]
            # A vector is sent in float32, so that its mean is off by as much; the others are the very same.
            near = 1e-5 if column == "vec" else 1e-9
            assert said.get(column, 0.0) == pytest.approx(before - after, abs=near * max(1, abs(before)))


@pytest.mark.parametrize("kind", ["rbf", "poly"])
@pytest.mark.parametrize("in_csr", [False, True])
def test_of_very_many_columns_those_are_told_that_change_most(kind: str, in_csr: bool) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, MOST_PARTS + 200)) * (rng.random(MOST_PARTS + 200) ** 4)
    features = MatrixFeatures().fit(MatrixData(sparse.csr_array(X) if in_csr else X, first_index=0))
    made, _ = features.transform(MatrixData(sparse.csr_array(X) if in_csr else X, first_index=0))
    state = replace(decision(kind, made), gamma=0.001)
    (said,) = explain([state], features, made[:1], [], 5)
    dense = made.toarray() if in_csr else made
    changes = []
    for j in range(dense.shape[1]):
        without = dense[:1].copy()
        without[0, j] = 0
        changes.append(float(state.decision_function(dense[:1])[0] - state.decision_function(without)[0]))
    best = np.argsort(-np.abs(changes))[:5]
    assert [part for part, _ in said.changes] == [Part("column", str(j)) for j in best]
    np.testing.assert_allclose([change for _, change in said.changes], np.array(changes)[best], rtol=0, atol=1e-9)


def test_a_row_of_nothing_has_no_reasons() -> None:
    features = MatrixFeatures().fit(MatrixData(sparse.csr_array(np.eye(4))))
    X, _ = features.transform(MatrixData(sparse.csr_array((1, 4))))
    for kind in ("linear", "rbf"):
        state = DecisionState(kind, 0.1, 3, 0.0, sparse.csr_array(np.eye(4)), np.ones(4), 0.5, 0.0)
        (said,) = explain([state], features, X, [], 5)
        assert said.changes == []
        assert said.rest == (0.0 if kind == "linear" else None)


@pytest.mark.parametrize(
    "word", ["a" * 100_000, "ab-" + "x" * 100_000, "漢字" * 1_000, "-" * 50_000, "x-" * 2_000, "\ud800 \x00", ""]
)
def test_strange_texts(word: str) -> None:
    features, rows = mixed(gaps=False)
    X, _, _ = features.transform_rows(rows)
    state = decision("linear", X)
    (said,) = explained(state, features, [{**rows[0], "note": f"win {word} prize"}])
    assert {"win", "prize"} <= {part.term for part, _ in said.changes}


def trained(labels: Any, **changes: Any) -> TrainedModel:
    rng = np.random.default_rng(5)
    rows = [row(rng, bool(i % 2)) for i in range(120)]
    asked = TrainingRequest(algorithm="svm", positive="yes", kinds={"note": "text", "since": "date"}, **changes)
    return train(table(rows), labels, asked)


def test_a_report_says_what_weighs_most_and_keeps_labelled_rows() -> None:
    labels = np.array(["no", "yes"] * 40 + [None] * 40, dtype=object)
    made = trained(labels)
    weights = made.report.weights
    assert (weights.rows, weights.adds_up) == (80, True)
    assert {each.column for each in weights.columns} <= {"age", "rooms", "job", "since", "note", "vec"}
    sizes = [each.mean_size for each in weights.columns]
    assert sizes == sorted(sizes, reverse=True)
    assert {each.term for each in weights.terms} >= {"win", "prize"}
    assert all(each.mean > 0 for each in weights.terms if each.term in ("win", "prize"))
    assert "no better than chance" not in weights.sentence
    kept = made.kept
    assert kept.numbers.tolist() == list(range(80))
    assert kept.positive.tolist() == [False, True] * 40
    assert kept.labelled == 80


def test_of_labels_drawn_at_random_the_report_says_that_the_weights_are_of_no_use() -> None:
    labels = np.array([*np.random.default_rng(11).permutation(["no", "yes"] * 60)], dtype=object)
    weights = trained(labels).report.weights
    assert weights.columns[0].mean_size > 0  # a model has weights, whatever it learned from
    assert "no better than chance" in weights.sentence


def test_without_words_none_is_named(tmp_path: Path) -> None:
    labels = np.array(["no", "yes"] * 60, dtype=object)
    made = trained(labels, keep_words=False)
    assert made.report.weights.terms == []
    told = str(made.report.weights.to_dict())
    assert not [word for word in WORDS if word in told]
    write_model(tmp_path / "model", made.model)
    model = read_model(tmp_path / "model")
    assert model.features.keep_words is False
    given = row(np.random.default_rng(0), True, gaps=False)
    (said,) = explained(model.decision, model.features, [given])
    assert {part.column for part, _ in said.changes} >= {"note", "age"}
    assert {part.term for part, _ in said.changes} == {None}


def test_the_weights_of_a_report_are_means_of_explanations() -> None:
    features, rows = mixed(gaps=True)
    X, _, _ = features.transform_rows(rows)
    chosen = np.array([4, 2, 60])
    for kind in ("linear", "rbf"):
        state = decision(kind, X)
        weights = weights_of(state, features, X, chosen, table([rows[at] for at in chosen]), knows=True)
        found = explained(state, features, [rows[at] for at in chosen])
        for each in weights.terms:
            own = [change for one in found for part, change in one.changes if part.term == each.term]
            assert each.mean == pytest.approx(sum(own) / 3, abs=1e-9)
            assert each.mean_size == pytest.approx(sum(map(abs, own)) / 3, abs=1e-9)
            assert each.rows == len(own)


def test_a_report_looks_at_few_rows_of_a_large_model(monkeypatch: pytest.MonkeyPatch) -> None:
    features, rows = mixed(gaps=True)
    X, _, _ = features.transform_rows(rows)
    every = np.arange(len(rows))
    monkeypatch.setattr(explaining, "_PRODUCTS", 1)
    assert weights_of(decision("rbf", X), features, X, every, table(rows), knows=True).rows == 1
    monkeypatch.undo()
    monkeypatch.setattr(explaining, "_CHARACTERS", 200)
    assert 1 <= weights_of(decision("linear", X), features, X, every, table(rows), knows=True).rows < 10


def test_an_encoded_text_is_a_part_beside_its_words() -> None:
    rng = np.random.default_rng(0)
    rows = [row(rng, bool(i % 2), gaps=False) for i in range(40)]
    texts = sorted({encoder_text([each["note"]]) for each in rows})
    vectors = rng.normal(size=(len(texts), 6)).astype(np.float32)

    class Known(KnownVectors):
        def identity(self) -> EncoderIdentity:
            return EncoderIdentity("known", ("probe",), np.ones((1, 6), dtype=np.float32))

    encoder = Known(texts, vectors)
    features = TableFeatures(kinds={"note": "text", "since": "date"}, encoder=encoder).fit(table(rows))
    X, _, _ = features.transform_rows(rows)
    state = decision("linear", X)
    dense = X.toarray() if sparse.issparse(X) else X
    vectors_of = state.support_vectors
    plane = state.dual_coef @ (vectors_of.toarray() if sparse.issparse(vectors_of) else vectors_of)
    own = [j for j, name in enumerate(features.feature_names) if "(encoded)" in name]
    for at, said in enumerate(explained(state, features, rows)):
        (change,) = (change for part, change in said.changes if part.kind == "encoding")
        assert change == pytest.approx(dense[at, own] @ plane[own], abs=1e-12)
        assert sum(change for _, change in said.changes) == pytest.approx(dense[at] @ plane, abs=1e-9)
        assert "term" in {part.kind for part, _ in said.changes}


def test_runs_of_several_words_in_one_are_shared() -> None:
    columns = {"note": Column("note", "text", np.array(["ab-cd ef", "漢字漢 gh"], dtype=object))}
    options = TextOptions(words=0, characters=3, min_rows=1)
    features = TableFeatures(kinds={"note": "text"}, text=options).fit(Table(columns))
    shares = features.term_shares(["ab-cd 漢字漢"])
    names = features.feature_names
    found: dict[str, dict[str, float]] = {}
    for owner, feature, share in zip(shares.owners, shares.features, shares.shares, strict=True):
        found.setdefault(names[feature].removeprefix("note: "), {})[shares.terms[owner][1]] = share
    assert found["b-c"] == {"ab": 0.5, "cd": 0.5}
    assert found["ab-"] == {"ab": 1.0}
    assert found["字漢 "] == {"漢": 0.5, "字": 0.5}
    assert all(sum(own.values()) == pytest.approx(1) for own in found.values())


# -- rows that are like it ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_csr", [False, True])
@pytest.mark.parametrize("kind", ["rbf", "linear"])
def test_the_nearest_rows_are_those_that_a_look_at_each_finds(tmp_path: Path, in_csr: bool, kind: str) -> None:
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(30, 7)) * (rng.random((30, 7)) < 0.6)
    X = sparse.csr_array(dense) if in_csr else dense
    labelled = np.arange(0, 30, 2)
    kept = KeptRows.of(X, labelled, labelled % 4 == 0, labelled + 100, 120, seed=0)
    kept = kept.named_by([f"key {i}" for i in range(120)])
    kept.write(tmp_path / "kept")
    kept = KeptRows.read((tmp_path / "kept").read_bytes())
    assert kept.numbers.tolist() == [100 + i if i < 20 else -1 for i in labelled]
    assert kept.keys == [f"key {100 + i}" if i < 20 else None for i in labelled]
    state = replace(decision(kind, X), gamma=0.1)
    for at, found in enumerate(Neighbours(kept, state).nearest(X[:3], 4)):
        distances = ((dense[labelled] - dense[at]) ** 2).sum(axis=1)
        lengths = np.linalg.norm(dense[labelled], axis=1) * np.linalg.norm(dense[at])
        likeness = np.exp(-0.1 * distances) if kind == "rbf" else np.maximum(0, dense[labelled] @ dense[at] / lengths)
        assert [place for place, _ in found] == np.argsort(-likeness, kind="stable")[:4].tolist()
        np.testing.assert_allclose([how for _, how in found], np.sort(likeness)[::-1][:4], atol=1e-6)


@pytest.mark.parametrize("in_csr", [False, True])
@pytest.mark.parametrize("kind", ["rbf", "linear"])
def test_what_comparing_takes_is_known(kind: str, in_csr: bool) -> None:
    rng = np.random.default_rng(0)
    X = sparse.random_array((700, 900), density=0.3, rng=rng, format="csr") if in_csr else rng.normal(size=(700, 900))
    every = np.arange(700)
    kept = KeptRows.of(X, every, every % 2 == 0, every, 700, seed=0)
    tracemalloc.start()
    try:
        ready = Neighbours(kept, decision(kind, X))
        taken = kept.X.nbytes if not in_csr else 8 * kept.X.nnz
        taken += tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert ready.nbytes == pytest.approx(taken, rel=0.1)


@pytest.mark.parametrize("kind", ["rbf", "poly", "linear"])
@pytest.mark.parametrize(("in_csr", "vectors", "width"), [(False, 400, 6000), (True, 2000, 50_000)])
def test_reasons_of_a_large_model_take_little_memory(kind: str, in_csr: bool, vectors: int, width: int) -> None:
    rng = np.random.default_rng(0)
    shape = (vectors, width)
    X = sparse.random_array(shape, density=0.002, rng=rng, format="csr") if in_csr else rng.normal(size=shape)
    features = MatrixFeatures().fit(MatrixData(X, first_index=0))
    made, _ = features.transform(MatrixData(X, first_index=0))
    state = replace(decision(kind, made), gamma=1 / width)
    state.decision_function(made[:1])  # which prepares it
    tracemalloc.start()
    try:
        found = explain([state], features, made[:3], [], 50)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [len(each.changes) for each in found] == [50] * 3
    assert peak < 16 << 20


def test_no_more_rows_are_kept_than_fit() -> None:
    X = np.ones((3000, 9000), dtype=np.float32)
    kept = KeptRows.of(X, np.arange(3000), np.zeros(3000, dtype=bool), np.arange(3000), 3000, seed=1)
    assert len(kept.numbers) == MOST_BYTES // (4 * 9000)
    assert kept.labelled == 3000
    assert kept.nbytes < 1.1 * MOST_BYTES
    assert len(np.unique(kept.numbers // 1000)) == 3  # from all over the data set


@pytest.mark.parametrize("at", [0, 5, 60, 200, 500, -1])
def test_damaged_rows_are_told(tmp_path: Path, at: int) -> None:
    X = sparse.csr_array(np.eye(6))
    KeptRows.of(X, np.arange(6), np.zeros(6, dtype=bool), np.arange(6), 6, seed=1).write(tmp_path / "kept")
    stored = (tmp_path / "kept").read_bytes()
    with pytest.raises(KeptRowsError):
        KeptRows.read(stored[:at])


def test_kept_rows_with_indices_out_of_range_are_told(tmp_path: Path) -> None:
    kept = KeptRows.of(sparse.csr_array(np.eye(6)), np.arange(6), np.zeros(6, dtype=bool), np.arange(6), 6, seed=1)
    kept.X.indices[3] = 77
    kept.write(tmp_path / "kept")
    with pytest.raises(KeptRowsError, match="cannot be read"):
        KeptRows.read((tmp_path / "kept").read_bytes())

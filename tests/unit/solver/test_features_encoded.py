"""Encoded texts as features: one block a text, beside its words, by the encoder of the fit and no other."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from encoder_server import DIMENSIONS, MODEL, Trigrams, vector

from solver.decision import DecisionState
from solver.features import Column, EncoderNeeded, FeatureError, KnownVectors, Table, TableFeatures
from solver.features.encoded import MAX_ENCODED_CHARACTERS, PROBES, encoder_text
from solver.features.texts import TextOptions
from solver.labelled_rows import fingerprints
from solver.model_file import Model, ModelFileError, read_model, write_model

NOTES = [f"the {word} of number {i} was fine" for i, word in enumerate(["parcel", "letter", "invoice"] * 10)]
RNG = np.random.default_rng(1)
PLACES = [None if i % 5 == 0 else f"room {i % 7} of the house" for i in range(30)]


def table(notes: list[str | None] = NOTES, places: list[str | None] | None = None) -> Table:  # type: ignore[assignment]
    columns = {
        "note": Column("note", "text", np.array([*notes, None], dtype=object)[:-1]),
        "age": Column("age", "number", np.arange(len(notes), dtype=float)),
    }
    if places is not None:
        columns["place"] = Column("place", "text", np.array([*places, None], dtype=object)[:-1])
    return Table(columns)


def fitted(encoder: Trigrams | None, data: Table | None = None, **options: Any) -> TableFeatures:
    kinds = {name: "text" for name in (data or table()).columns if name != "age"}
    return TableFeatures(kinds=kinds, encoder=encoder, **options).fit(data or table())


def dense(X: Any) -> np.ndarray:
    return X if isinstance(X, np.ndarray) else X.toarray()


def test_vectors_stand_beside_the_words() -> None:
    encoder = Trigrams()
    with_words, words = fitted(encoder), fitted(None)
    X, W = dense(with_words.transform(table())[0]), dense(words.transform(table())[0])
    assert with_words.n_features == words.n_features + DIMENSIONS
    assert with_words.columns == words.columns
    assert X[:, [0, *range(1 + DIMENSIONS, X.shape[1])]] == pytest.approx(W)
    block = X[:, 1 : 1 + DIMENSIONS]
    # as long as all beside it together: a number and a text
    assert np.linalg.norm(block, axis=1) == pytest.approx(np.sqrt(2))
    raw = np.stack([vector(note) for note in NOTES]).astype(float)
    centred = raw - raw.mean(axis=0)
    assert block / np.sqrt(2) == pytest.approx(centred / np.linalg.norm(centred, axis=1)[:, None], abs=1e-6)
    assert with_words.feature_names[1] == "note (encoded)[0]"
    assert len(with_words.feature_names) == X.shape[1]
    again = with_words.transform_rows([{"note": NOTES[4], "age": 4.0}])[0]
    assert dense(again)[0] == pytest.approx(X[4], abs=1e-12)


def test_each_text_is_asked_for_once_and_rows_without_one_for_nothing() -> None:
    encoder = Trigrams()
    data = table([*NOTES[:15], *NOTES[:15]], PLACES)
    features = fitted(encoder, data, text=TextOptions(words=0, characters=0))
    assert sorted(set(encoder.asked) - set(PROBES)) == sorted({*NOTES[:15], *(p for p in PLACES if p)})
    assert len(encoder.asked) == len(set(encoder.asked))
    X = dense(features.transform(data)[0])
    place = X[:, 1 + DIMENSIONS :]
    assert (place[::5] == 0).all()
    assert np.linalg.norm(np.delete(place, np.s_[::5], axis=0), axis=1) == pytest.approx(1.0)
    assert features.texts_of_rows([{"note": " a ", "age": 1, "place": None}] * 3) == ["a"]


def test_columns_that_are_one_text_together() -> None:
    encoder = Trigrams()
    features = fitted(encoder, table(NOTES, PLACES), encode_together=[("note", "place", "nowhere")])
    assert features.encoded.columns == ["note", "place"]
    assert features.encoded.width == DIMENSIONS
    assert f"{NOTES[1]}\n{PLACES[1]}" in encoder.asked
    assert NOTES[0] in encoder.asked  # it has no place
    assert encoder_text(["x" * 5000, "  ", None, "y"]) == "x" * MAX_ENCODED_CHARACTERS + "\ny"
    assert encoder_text([None, " "]) is None
    assert encoder_text(["half \ud800"]) == "half ?"


def model_of(features: TableFeatures) -> Model:
    X = dense(features.transform(table())[0])
    decision = DecisionState(
        kind="linear", gamma=1.0, degree=3, coef0=0.0, support_vectors=X[:3], dual_coef=np.array([1.0, -2.0, 1.0]),
        intercept=0.1, threshold=0.0, probability=None,
    )  # fmt: skip
    return Model("svm", {}, {"kind": "f1"}, ("ham", "spam"), decision, features)


def as_bytes(model: Model, tmp_path: Any) -> bytes:
    write_model(tmp_path / "model", model)
    made: bytes = (tmp_path / "model").read_bytes()
    return made


def test_a_file_knows_its_encoder_again(tmp_path: Any) -> None:
    model = model_of(fitted(Trigrams()))
    read = read_model(as_bytes(model, tmp_path))
    assert read.encoder is not None
    assert (read.encoder.model, read.encoder.texts, read.encoder.dimensions) == (MODEL, PROBES, DIMENSIONS)
    rows = [{"note": NOTES[7], "age": 7.0}]
    with pytest.raises(EncoderNeeded):
        read.predict_rows(rows)
    (text,) = read.texts_of_rows(rows)
    known = KnownVectors([text], vector(text)[None, :])
    expected = model.predict_rows(rows)[0].scores
    assert read.predict_rows(rows, known)[0].scores == pytest.approx(expected, abs=1e-12)
    assert read.encoding_by(Trigrams()).predict(table()).scores[7] == pytest.approx(expected[0], abs=1e-12)
    assert read.encoder.change_to("x", Trigrams().encode(PROBES)) is None
    noisy = Trigrams().encode(PROBES) + np.float32(5e-4)
    assert read.encoder.change_to("x", noisy) is None
    other = read.encoder.change_to("x", Trigrams("salt").encode(PROBES))
    assert other is not None
    assert f"'x' makes other vectors now than {MODEL!r} did" in other
    shorter = read.encoder.change_to("x", noisy[:, 1:])
    assert shorter is not None
    assert f"vectors of {DIMENSIONS} numbers" in shorter


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", None),
        ("model", "x" * 201),
        ("dimensions", 0),
        ("dimensions", DIMENSIONS - 1),
        ("dimensions", True),
        ("probes", []),
        ("probes", ["a"]),
        ("probes", [1, 2, 3]),
        ("characters", 5),
    ],
)
def test_a_file_that_lies_about_its_encoder_is_refused(name: str, value: object) -> None:
    arrays, meta = fitted(Trigrams()).state()
    meta["encoder"] = meta["encoder"] | {name: value}
    with pytest.raises(FeatureError, match="table features"):
        TableFeatures.from_state(arrays, meta)


def test_blocks_of_a_file_must_fit_together() -> None:
    arrays, meta = fitted(Trigrams(), table(NOTES, PLACES)).state()
    assert TableFeatures.from_state(arrays, meta).encoded.columns == ["note", "place"]
    for part, value in (
        ("encoded_counts", np.array([3])),
        ("encoded_counts", np.array([0, 2])),
        ("encoded_mean", np.zeros(5)),
        ("encoded_weight", np.ones(3)),
        ("encoded_weight", np.array([1.0, -1.0])),
        ("encoded_probes", np.zeros(4, dtype=np.float32)),
    ):
        with pytest.raises(FeatureError, match="table features"):
            TableFeatures.from_state(arrays | {part: value}, meta)


def test_without_an_encoder_no_words_is_an_error_and_state_is_as_it_was() -> None:
    with pytest.raises(FeatureError, match="none is on"):
        fitted(None, text=TextOptions(words=0, characters=0))
    arrays, meta = fitted(None).state()
    assert not any(name.startswith("encoded") for name in arrays)
    assert "encoder" not in meta


def test_an_encoder_that_gives_something_else_is_an_error() -> None:
    class Short(Trigrams):
        def encode(self, texts: Any) -> np.ndarray:
            made = super().encode(texts)
            return made if list(texts) == list(PROBES) else made[:, 1:]

    with pytest.raises(FeatureError, match="the encoder gave an array of the shape"):
        fitted(Short())


def test_texts_unlike_those_of_the_training_are_told() -> None:
    encoder = Trigrams()
    features = fitted(encoder, table([f"the same words again, number {i % 10}" for i in range(30)]))
    _, counts, _ = features.transform_rows([{"note": "昨日の会議", "age": 1.0}, {"note": None, "age": 1.0}])
    assert counts.foreign == {"note": 1}
    assert counts.far_rows == [0]
    assert "hold a text whose encoding is far" in " ".join(counts.warnings())


def test_an_encoder_is_not_asked_where_there_are_no_texts() -> None:
    encoder = Trigrams()
    data = Table({"age": Column("age", "number", np.arange(9.0))})
    TableFeatures(encoder=encoder).fit(data)
    assert encoder.asked == []


def test_a_model_file_is_whole_or_refused(tmp_path: Any) -> None:
    raw = as_bytes(model_of(fitted(Trigrams())), tmp_path)
    cut = raw.replace(b'dimensions\\":48', b'dimensions\\":47')
    with pytest.raises(ModelFileError):
        read_model(io.BytesIO(cut).getvalue())


def test_rows_are_told_apart_by_their_texts_and_not_by_bits_of_vectors() -> None:
    class Noisy(Trigrams):
        def encode(self, texts: Any) -> np.ndarray:
            made = super().encode(texts)
            return made + RNG.normal(scale=1e-6, size=made.shape).astype(np.float32)

    model = model_of(fitted(Noisy(), text=TextOptions(words=0, characters=0)))
    one, other = (model.feature_matrix(table())[0] for _ in range(2))
    assert not np.isin(fingerprints(one), fingerprints(other)).any()
    prints = fingerprints(model.telling_matrix(table()))
    assert prints.tolist() == fingerprints(model.telling_matrix(table())).tolist()
    assert len(set(prints.tolist())) == len(NOTES)
    rows = [{"note": f"  {NOTES[4]} ", "age": 4.0}, {"note": NOTES[5], "age": 4.0}]
    found = fingerprints(model.telling_matrix(model.parse_rows(rows)[0]))
    assert (found == prints[4]).tolist() == [True, False]

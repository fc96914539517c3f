"""Models of several classes in files: what is loaded predicts the same bits, and what lies is refused."""

import json
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris

from solver.estimators import SVM, GaussianMixtureClassifier, OneVsOne, OneVsRest, SelfTraining
from solver.model_file import LoadedClasses, ModelFileError, load_model, read_any_model, read_model, save_model
from solver.multiclass import ClassesDecision, ProblemScores, SharedExpansion, decision, pairs_of, votes
from solver.multiclass.file import ClassesModel
from solver.tensor_file import read_tensors, write_tensors

X, Y = load_iris(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
PARTLY = np.where(np.arange(150) % 4 == 0, Y, -1)
FLOORS = {"kind": "macro_f1", "floors": {"virginica": {"precision": 0.97}, "versicolor": {"recall": 0.9}}}

FITTED = {
    "rest": lambda: OneVsRest(SVM(random_state=0), objective="macro_f1").fit(X, NAMES),
    "pairs": lambda: OneVsOne(SVM(random_state=0), objective="accuracy").fit(X, NAMES),
    "floors": lambda: OneVsRest(SVM(random_state=0, gamma=2.0), objective=FLOORS).fit(X, NAMES),
    "costs": lambda: OneVsOne(SVM(random_state=0), objective={"kind": "cost", "costs": {1: {2: 9}}}).fit(X, Y),
    "alone": lambda: OneVsRest(SVM(labeled_split="full")).fit(X, NAMES),
    "linear": lambda: OneVsOne(SVM(kernel="linear", random_state=0)).fit(X, Y),
    "unlabelled": lambda: OneVsRest(SelfTraining(random_state=0)).fit(X, PARTLY),
    "kernels": lambda: OneVsOne(SelfTraining(random_state=0)).fit(X, PARTLY),
    "mixture": lambda: OneVsRest(GaussianMixtureClassifier(random_state=0)).fit(X, PARTLY),
}


@pytest.mark.parametrize("name", FITTED)
def test_what_is_loaded_predicts_the_same_bits(name: str, tmp_path: Path) -> None:
    fitted = FITTED[name]()
    save_model(tmp_path / "model", fitted)
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded, LoadedClasses)
    assert loaded.predict(X).tolist() == fitted.predict(X).tolist()
    assert np.array_equal(loaded.decision_function(X), fitted.decision_function(X))
    if name == "alone":
        with pytest.raises(ValueError, match="gives no probabilities"):
            loaded.predict_proba(X)
    else:
        assert np.array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    assert loaded.model.params["C"] == 1.0
    assert loaded.n_features_in_ == 4


def test_sparse_rows_are_held_as_such(tmp_path: Path) -> None:
    rows = sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0))
    for learner in (SVM(random_state=0), SVM(random_state=0, tune="C")):
        fitted = OneVsRest(learner, objective="macro_f1").fit(rows, NAMES)
        save_model(tmp_path / "model", fitted)
        assert np.array_equal(load_model(tmp_path / "model").predict_proba(rows), fitted.predict_proba(rows))


def test_two_classes_are_saved_as_what_they_are(tmp_path: Path) -> None:
    two = Y > 0
    fitted = OneVsRest(SVM(random_state=0)).fit(X[two], Y[two])
    with pytest.raises(TypeError, match=r"estimators_\[0\]"):
        save_model(tmp_path / "model", fitted)


def test_doors_that_know_two_classes_refuse_the_file(tmp_path: Path) -> None:
    save_model(tmp_path / "model", FITTED["rest"]())
    with pytest.raises(ModelFileError, match="several classes"):
        read_model(tmp_path / "model")
    with pytest.raises(ModelFileError, match="several classes"):
        read_model((tmp_path / "model").read_bytes())
    assert isinstance(read_any_model(tmp_path / "model"), ClassesModel)


def changed(path: Path, change) -> Path:
    """The file of a model with something else in it."""
    tensors, metadata = read_tensors(path)
    manifest, arrays = json.loads(metadata["manifest"]), {name: array.copy() for name, array in tensors.items()}
    decision = manifest["decision"]
    change(SimpleNamespace(manifest=manifest, decision=decision, kernel=decision["kernels"][0], arrays=arrays))
    write_tensors(path, arrays, {"manifest": json.dumps(manifest)})
    return path


LIES = {
    "two classes": (lambda file: file.manifest.update(classes=["a", "b"]), "3 to 100 different labels"),
    "one label twice": (lambda file: file.manifest.update(classes=["a", "b", "a"]), "different labels"),
    "a label that is none": (lambda file: file.manifest.update(classes=["a", "b", None]), "short texts"),
    "another scheme": (lambda file: file.decision.update(scheme="trees"), "scheme"),
    "a problem of no kernel": (
        lambda file: file.kernel.update(problems=[0, 1]),
        "belongs to one",
    ),
    "a problem twice": (
        lambda file: file.kernel.update(problems=[0, 1, 1]),
        "belongs to one",
    ),
    "a problem beyond": (
        lambda file: file.kernel.update(problems=[0, 1, 3]),
        "numbers from 0 to 2",
    ),
    "no kernels": (lambda file: file.decision.update(kernels=[]), "must be 1 to 3"),
    "gamma below 0": (lambda file: file.kernel.update(gamma=-1.0), "above 0"),
    "more vectors": (
        lambda file: file.kernel.update(support_vectors=10**9),
        "expected shape",
    ),
    "an index beyond": (lambda file: file.arrays["coefficients.indices"].__setitem__(-1, 10**6), "must lie between"),
    "slopes below 0": (lambda file: file.arrays["slopes"].__setitem__(0, -1.0), "must not be negative"),
    "weights of 0": (lambda file: file.arrays["weights"].__setitem__(0, 0.0), "above 0"),
    "not a number": (lambda file: file.arrays["intercepts"].__setitem__(0, np.nan), "NaN"),
    "an array too many": (lambda file: file.arrays.update(more=np.zeros(2)), "belongs to nothing"),
    "a class that is none": (lambda file: file.decision["rule"].update(never=[7]), "numbers of classes"),
    "a rule without sigmoids": (
        lambda file: (
            file.decision.update(is_calibrated=False),
            file.arrays.pop("slopes"),
            file.arrays.pop("offsets"),
        ),
        "needs a model that is calibrated",
    ),
}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("classes") / "model"
    save_model(path, FITTED["rest"]())
    return path.read_bytes()


@pytest.mark.parametrize("lie", LIES)
def test_a_file_that_lies_is_refused(lie: str, honest: bytes, tmp_path: Path) -> None:
    change, said = LIES[lie]
    (tmp_path / "model").write_bytes(honest)
    with pytest.raises(ModelFileError, match=said):
        load_model(changed(tmp_path / "model", change))


def test_flipped_bits_of_arrays_are_refused_or_leave_a_model_that_predicts(honest: bytes, tmp_path: Path) -> None:
    """Every answer is a class, and every probability a number from 0 to 1, or the file or the row is refused."""
    begin, path, rng = 8 + int.from_bytes(honest[:8], "little"), tmp_path / "model", np.random.default_rng(0)
    outcomes = {"refused": 0, "predicts": 0}
    for place, bit in zip(rng.integers(begin, len(honest), 300), rng.integers(0, 8, 300), strict=True):
        damaged = bytearray(honest)
        damaged[place] ^= 1 << int(bit)
        path.write_bytes(damaged)
        try:
            loaded = load_model(path)
            with np.errstate(all="ignore"):
                said, probabilities = loaded.predict(X), loaded.predict_proba(X)
        except ValueError:
            outcomes["refused"] += 1
            continue
        outcomes["predicts"] += 1
        assert set(said.tolist()) <= {*NAMES.tolist(), None}
        assert ((probabilities >= 0) & (probabilities <= 1)).all()
    assert min(outcomes.values()) > 0


def test_a_small_file_that_names_many_columns_makes_nothing_large(tmp_path: Path) -> None:
    save_model(tmp_path / "model", OneVsOne(SVM(kernel="linear", random_state=0)).fit(sparse.csr_array(X), Y))
    columns = 1 << 22
    loaded = load_model(changed(tmp_path / "model", lambda file: file.decision.update(n_features=columns)))
    rows = sparse.csr_array((X[:7].ravel(), np.tile(np.arange(4), 7), np.arange(0, 29, 4)), shape=(7, columns))
    tracemalloc.start()
    said = loaded.predict(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert said.tolist() == Y[:7].tolist()
    assert peak < 16 * columns  # numbers for each column, and none for each column and problem


@pytest.mark.parametrize("classes", [20, 80])
def test_predicting_holds_no_score_of_each_row_and_pair(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that grows with rows and classes, not with rows and pairs of classes, of which there are forty times."""
    monkeypatch.setattr(decision, "_SCORES_AT_ONCE", 1 << 15)
    random = np.random.default_rng(0)
    pairs = pairs_of(classes)
    # five support vectors of each class, which are those of its pairs
    own = np.array([np.r_[5 * i : 5 * i + 5, 5 * j : 5 * j + 5] for i, j in pairs])
    vectors, rows = random.normal(size=(5 * classes, 3)), random.normal(size=(2000, 3))
    coefficients = sparse.csr_array(
        (random.normal(size=own.size), own.ravel(), np.arange(0, own.size + 1, 10)), shape=(len(pairs), len(vectors))
    )
    scores = ProblemScores.of_one(SharedExpansion("rbf", 0.5, 3, 0.0, vectors, coefficients, np.zeros(len(pairs))))
    decided = ClassesDecision("one_vs_one", np.ones(classes, dtype=np.intp), None, None)
    scores(rows[:1])
    tracemalloc.start()
    said = scores.mapped(rows, decided.says)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (4 << 20) + 8 * 40 * classes**2
    expected = votes(np.exp(-0.5 * ((rows[:50, None] - vectors) ** 2).sum(axis=2)) @ coefficients.toarray().T, classes)
    assert np.array_equal(said[:50], np.argmax(expected, axis=1))

"""save_model and load_model with the real estimators: what is loaded predicts the same bits."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from solver.estimators import (
    CS4VM,
    PSVM,
    SVM,
    TSVM,
    AugmentedClassifier,
    ClusterSVM,
    GaussianMixtureClassifier,
    LaplacianSVM,
    MeanS3VM,
    RampTSVM,
    SelfTraining,
)
from solver.model_file import ModelFileError, load_model, save_model

RNG = np.random.default_rng(3)
N = 90
TRUTH = np.arange(N) % 2
X = RNG.normal(size=(N, 7)) + TRUTH[:, None]


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "sigmoid"])
@pytest.mark.parametrize(
    "rows",
    [X, np.asfortranarray(X), X.astype(np.float32), np.hstack([X, X])[:, ::2], sparse.csr_array(X), X.tolist()],
    ids=["C", "F", "float32", "strided", "csr", "list"],
)
def test_loaded_svm_predicts_the_same_bits(tmp_path: Path, kernel: str, rows: Any) -> None:
    svm = SVM(kernel=kernel, objective={"kind": "recall", "target": 0.9}, random_state=0).fit(rows, TRUTH)
    save_model(tmp_path / "svm", svm)
    loaded = load_model(tmp_path / "svm")
    fresh = RNG.normal(size=(50, 7)) + 0.5
    for probe in (rows if not isinstance(rows, list) else X, fresh, sparse.csr_array(fresh), fresh[:1]):
        assert loaded.decision_function(probe).tobytes() == svm.decision_function(probe).tobytes()
        np.testing.assert_array_equal(loaded.predict(probe), svm.predict(probe))
    assert loaded.predict(fresh).dtype == svm.predict(fresh).dtype
    np.testing.assert_array_equal(loaded.classes_, svm.classes_)
    assert (loaded.threshold_, loaded.n_features_in_) == (svm.threshold_, 7)
    assert loaded.model.algorithm == "SVM"
    assert loaded.model.objective == {"kind": "recall", "target": 0.9}
    assert loaded.model.params["kernel"] == kernel


@pytest.mark.parametrize("labels", [("no", "yes"), (False, True), (1.0, 2.0), (3, 7)])
def test_classes_come_back_as_they_were(tmp_path: Path, labels: tuple[Any, Any]) -> None:
    y = np.array(labels)[TRUTH]
    svm = SVM(callback=lambda *_: False, random_state=0).fit(X, y)
    save_model(tmp_path / "svm", svm)
    loaded = load_model(tmp_path / "svm")
    np.testing.assert_array_equal(loaded.predict(X), svm.predict(X))
    assert loaded.predict(X).dtype == svm.predict(X).dtype
    assert "callback" not in loaded.model.params


@pytest.mark.parametrize(
    "method",
    [
        *(PSVM, TSVM, RampTSVM, LaplacianSVM, SelfTraining, CS4VM, MeanS3VM, AugmentedClassifier),
        *(ClusterSVM, GaussianMixtureClassifier, partial(GaussianMixtureClassifier, covariance="full")),
    ],
)
def test_semi_supervised(tmp_path: Path, method: Any) -> None:
    y = np.where(np.arange(N) >= 36, -1, TRUTH)
    fitted = method(random_state=0).fit(X, y)
    save_model(tmp_path / "model", fitted)
    loaded = load_model(tmp_path / "model")
    assert loaded.decision_function(X).tobytes() == fitted.decision_function(X).tobytes()
    assert loaded.predict_proba(X).tobytes() == fitted.predict_proba(X).tobytes()
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))


def test_what_was_saved_without_probabilities_gives_none(tmp_path: Path) -> None:
    save_model(tmp_path / "svm", SVM(labeled_split="full").fit(X, TRUTH))
    with pytest.raises(ValueError, match="gives no probabilities"):
        load_model(tmp_path / "svm").predict_proba(X)


def test_an_empty_file_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(ModelFileError, match="too short"):
        load_model(tmp_path / "empty")


def test_what_is_no_classifier_of_two_or_more_classes_cannot_be_saved(tmp_path: Path) -> None:
    class Three:
        classes_ = np.array([0, 1, 2])

    with pytest.raises(TypeError, match="OneVsRest and OneVsOne of more"):
        save_model(tmp_path / "x", Three())  # type: ignore[arg-type]

"""save_model and load_model with the real estimators: what is loaded predicts the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from solver.estimators import PSVM, SVM
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


def test_psvm(tmp_path: Path) -> None:
    y = np.where(RNG.random(N) < 0.6, -1, TRUTH)
    psvm = PSVM(random_state=0).fit(X, y)
    save_model(tmp_path / "psvm", psvm)
    loaded = load_model(tmp_path / "psvm")
    assert loaded.decision_function(X).tobytes() == psvm.decision_function(X).tobytes()
    np.testing.assert_array_equal(loaded.predict(X), psvm.predict(X))
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(ModelFileError, match="too short"):
        load_model(tmp_path / "empty")


def test_more_than_two_classes_cannot_be_saved(tmp_path: Path) -> None:
    class Three:
        classes_ = np.array([0, 1, 2])

    with pytest.raises(TypeError, match="two classes"):
        save_model(tmp_path / "x", Three())  # type: ignore[arg-type]

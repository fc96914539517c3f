"""Models of several classes in ONNX say what the library says."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from sklearn.datasets import load_wine

from solver.classes_onnx import onnx_classes
from solver.estimators import SVM, OneVsOne, OneVsRest, SelfTraining
from solver.model_file import load_model, save_model
from solver.onnx_export import OnnxExportError

X, Y = load_wine(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
NAMES = np.array(["Barolo", "Grignolino", "Barbera"])[Y]
PARTLY = np.where(np.arange(len(Y)) % 4 == 0, Y, -1)
NEW = np.concatenate([X, np.random.default_rng(0).normal(size=(200, X.shape[1])), np.full((1, X.shape[1]), 50.0)])
FLOORS = {"kind": "accuracy", "floors": {"Barolo": {"precision": 0.999}, "Barbera": {"recall": 0.9}}}


@pytest.mark.parametrize(
    "make",
    [
        lambda: OneVsRest(SVM(random_state=0)).fit(X, NAMES),
        lambda: OneVsRest(SVM(random_state=0, kernel="poly"), objective="macro_f1").fit(X, NAMES),
        lambda: OneVsRest(SVM(random_state=0, C=0.05), objective=FLOORS).fit(X, NAMES),
        lambda: OneVsRest(SVM(random_state=0), objective={"kind": "cost", "costs": {0: {1: 7}}}).fit(X, Y),
        lambda: OneVsRest(SVM(labeled_split="full")).fit(X, NAMES),
        lambda: OneVsOne(SVM(random_state=0, kernel="linear")).fit(X, Y),
        lambda: OneVsOne(SelfTraining(random_state=0)).fit(X, PARTLY),
    ],
    ids=["rest", "poly", "floors", "cost", "alone", "pairs", "kernels"],
)
def test_onnx_says_what_the_library_says(make, tmp_path):
    fitted = make()
    save_model(tmp_path / "model", fitted)
    made = onnx_classes(load_model(tmp_path / "model").model)
    session = onnxruntime.InferenceSession(made, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    told = dict(zip(names, session.run(None, {"features": NEW}), strict=True))
    expected = ["" if label is None else str(label) for label in fitted.predict(NEW)]
    assert told["label"].tolist() == expected
    assert told["scores"] == pytest.approx(fitted.decision_function(NEW), abs=1e-9)
    has_probabilities = isinstance(fitted, OneVsRest) and hasattr(fitted, "predict_proba")
    assert ("probabilities" in told) == has_probabilities
    if has_probabilities:
        assert told["probabilities"] == pytest.approx(fitted.predict_proba(NEW), abs=1e-9)
    metadata = {each.key: each.value for each in onnx.load_from_string(made).metadata_props}
    assert json.loads(metadata["classes"]) == [str(label) for label in fitted.classes_]


def test_coupled_probabilities_have_no_form_in_onnx(tmp_path):
    save_model(tmp_path / "model", OneVsOne(SVM(random_state=0), objective="accuracy").fit(X, NAMES))
    with pytest.raises(OnnxExportError, match="no operator that couples them"):
        onnx_classes(load_model(tmp_path / "model").model)

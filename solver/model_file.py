"""Models and the files that hold them: arrays and JSON in one safetensors file, nothing that could run.

A file is read as if an enemy had written it: every size, index and number is checked before it is used, and nothing is
allocated by a declared size (see `solver.tensor_file`).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from solver.band import Band
from solver.decision import DecisionState
from solver.evaluation import OperatingCurve, Sigmoid
from solver.features import BadRow, FeatureCounts, FeatureError, TableFeatures
from solver.file_fields import (
    FORMAT,
    MAX_LABEL,
    Fields,
    Tensors,
    is_label,
    kernel_of,
    read_producer,
    support_vectors,
)
from solver.file_fields import ModelFileError as ModelFileError  # whoever reads models expects it here
from solver.kernels.values import prepared_nbytes
from solver.multiclass import ClassesDecision, ClassesReport, ProblemScores
from solver.multiclass.file import VERSION as CLASSES_VERSION
from solver.multiclass.file import ClassesModel, classes_model
from solver.row_model import OVERFLOW_IS_FOUND as _OVERFLOW_IS_FOUND
from solver.row_model import FittedFeatures as FittedFeatures
from solver.row_model import RowModel, feature_manifest, feature_tensors, producer, read_features, read_key
from solver.tensor_file import TensorFileError, parse_json, read_tensors, tensor_pieces, write_tensors
from solver.typing import FloatArray

# raised when a reader of the older version would misunderstand the file
FORMAT_VERSION: Final = 1
ABSTAINING_VERSION: Final = 2
"""Of a model that leaves rows undecided, which readers of version 1 would give a label."""
_VERSIONS: Final = (FORMAT_VERSION, ABSTAINING_VERSION)

Label = str | int | float | bool


@dataclass(frozen=True)
class Predictions:
    """What a model says about rows.

    Attributes
    ----------
    labels : list of str or None
        The positive class where the score is strictly above the threshold, else the negative class; None where a model
        that abstains leaves the row undecided.
    scores : float64 array of shape (rows,)
    probabilities : float64 array of shape (rows,), or None
        Of the positive class; None where the model is not calibrated. They never decide.
    warnings : list of str
        What the rows held that training had not seen.
    unseen : mapping of str to int
        Column to the number of rows with a category that training had not seen.
    far_rows : sequence of int
        Rows with a number far outside those of the training, ascending.
    """

    labels: list[str | None]
    scores: FloatArray
    probabilities: FloatArray | None
    warnings: list[str]
    unseen: Mapping[str, int] = field(default_factory=dict)
    far_rows: Sequence[int] = ()


@dataclass(frozen=True)
class Model(RowModel[Predictions]):
    """A trained classifier of two classes with all that is needed to apply it to raw rows.

    Attributes
    ----------
    algorithm : str
    params, objective : dict
        As they were used for training; JSON-ready.
    classes : (negative, positive)
    decision : DecisionState
    features : TableFeatures, MatrixFeatures or None
        None: the model takes feature matrices as they are.
    curve : OperatingCurve or None
        On the calibration rows, for choosing another threshold without training.
    key : str or None
        The column that names the rows. No feature: it comes back beside what is said of a row.
    producer : dict of str to str
        Versions of what trained it.
    """

    algorithm: str
    params: dict[str, Any]
    objective: dict[str, Any]
    classes: tuple[Label, Label]
    decision: DecisionState
    features: FittedFeatures | None = None
    curve: OperatingCurve | None = None
    key: str | None = None
    producer: dict[str, str] = field(default_factory=producer)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, with those that predicting adds: what a cache has to reckon with."""
        stored = sum(array.nbytes for array in _tensors(self).values())
        copied = prepared_nbytes(self.decision.support_vectors, self.decision.kind)
        lookup = self.features.lookup_nbytes if isinstance(self.features, TableFeatures) else 0
        return stored + copied + lookup

    @property
    def manifest(self) -> dict[str, Any]:
        """The JSON part of the file: everything but the arrays."""
        return _manifest(self)

    def with_threshold(self, threshold: float | None, band: Band | None = None) -> Model:
        """The same model deciding by another threshold, and by this band around it or none; itself for None."""
        return self if threshold is None else replace(self, decision=self.decision.with_threshold(threshold, band))

    @_OVERFLOW_IS_FOUND
    def decide(self, X: FloatArray | sparse.csr_array, counts: FeatureCounts) -> Predictions:
        """Label what `feature_matrix` gave; raises `FeatureError` if a score leaves the range of float64."""
        scores = self.decision.decision_function(X)
        values, threshold = scores.tolist(), self.decision.threshold
        if not math.isfinite(sum(values)):  # where the sum is finite, so is every score
            for row in np.flatnonzero(~np.isfinite(scores)).tolist():
                raise BadRow(row, "its score is beyond the range of float64")
        self._count_unlike(X, scores, values, counts)
        negative, positive = map(str, self.classes)
        band = self.decision.band
        labels: list[str | None]
        if band is None:
            labels = [positive if value > threshold else negative for value in values]
        else:
            low, high = band.lower, band.upper
            labels = [positive if value > high else negative if value <= low else None for value in values]
        probabilities = None if self.decision.probability is None else self.decision.probabilities(scores)
        return Predictions(labels, scores, probabilities, counts.warnings(), counts.unseen, counts.far_rows)

    def _count_unlike(
        self, X: FloatArray | sparse.csr_array, scores: FloatArray, values: list[float], counts: FeatureCounts
    ) -> None:
        """Count rows that are far from all support vectors. Their score is the intercept; few others' nearly is."""
        decision, limit = self.decision, self.decision.unlike_limit
        if len(values) == 1:
            if not abs(values[0] - decision.intercept) <= limit:
                return
            doubtful = np.zeros(1, dtype=np.int64)
        else:
            doubtful = np.flatnonzero(np.abs(scores - decision.intercept) <= limit)
        unlike = doubtful[decision.are_far(X[doubtful])].tolist() if len(doubtful) else []
        if unlike:
            counts.unlike += len(unlike)
            counts.far_rows = sorted({*counts.far_rows, *unlike})


AnyModel = Model | ClassesModel


# -- writing ----------------------------------------------------------------------------------------------------------


def write_model(path: str | os.PathLike[str], model: AnyModel) -> None:
    """Write a model file, array by array. It appears under `path` whole or not at all.

    Raises
    ------
    ValueError
        If the model holds what a file cannot (numbers that are not finite, types that JSON lacks).
    """
    write_tensors(path, *_parts(model))


def model_bytes(model: AnyModel) -> bytes:
    """The bytes of a model file; errors are those of `write_model`."""
    return b"".join(tensor_pieces(*_parts(model)))


def _parts(model: AnyModel) -> tuple[Mapping[str, NDArray[Any]], Mapping[str, str]]:
    tensors = model.tensors() if isinstance(model, ClassesModel) else _tensors(model)
    return tensors, {"manifest": json.dumps(model.manifest, allow_nan=False, separators=(",", ":"))}


def _manifest(model: Model) -> dict[str, Any]:
    decision = model.decision
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION if decision.band is None else ABSTAINING_VERSION,
        "producer": model.producer,
        "algorithm": model.algorithm,
        "params": model.params,
        "objective": model.objective,
        "classes": {"negative": model.classes[0], "positive": model.classes[1]},
        "decision": {
            "kernel": decision.kind,
            "gamma": float(decision.gamma),
            "degree": int(decision.degree),
            "coef0": float(decision.coef0),
            "intercept": float(decision.intercept),
            "threshold": float(decision.threshold),
            **({} if decision.band is None else {"band": decision.band.to_json()}),
            "sign": 1,  # always; in files of old versions it may be -1
            "support_vectors": int(decision.support_vectors.shape[0]),
            "n_features": int(decision.support_vectors.shape[1]),
            "layout": "dense" if isinstance(decision.support_vectors, np.ndarray) else "csr",
            "probability": None
            if decision.probability is None
            else {"slope": decision.probability.slope, "offset": decision.probability.offset},
        },
        "key": model.key,
        "features": feature_manifest(model.features),
        "curve": None
        if model.curve is None
        else {"positives": model.curve.positives, "negatives": model.curve.negatives},
    }


def _tensors(model: Model) -> dict[str, NDArray[Any]]:
    vectors = model.decision.support_vectors
    tensors: dict[str, NDArray[Any]] = {"dual_coef": model.decision.dual_coef}
    if isinstance(vectors, np.ndarray):
        tensors["support_vectors"] = vectors
    else:
        tensors["support_vectors.data"] = vectors.data
        tensors["support_vectors.indices"] = vectors.indices
        tensors["support_vectors.indptr"] = vectors.indptr
    tensors |= feature_tensors(model.features)
    if model.curve is not None:
        tensors["curve.thresholds"] = model.curve.thresholds
        tensors["curve.true_positives"] = model.curve.true_positives
        tensors["curve.false_positives"] = model.curve.false_positives
    return tensors


# -- reading ----------------------------------------------------------------------------------------------------------


def read_model(source: bytes | str | os.PathLike[str]) -> Model:
    """Read a model of two classes; parameters and errors are those of `read_any_model`.

    Raises
    ------
    ModelFileError
        Also for a model of several classes.
    """
    model = read_any_model(source)
    if isinstance(model, ClassesModel):
        raise ModelFileError("a model of several classes; here a model has two")
    return model


def read_any_model(source: bytes | str | os.PathLike[str]) -> AnyModel:
    """Read a model from a file or from its bytes, trusting nothing in it.

    Memory stays within the size of the file (arrays are views of its bytes) and some MiB for its JSON.

    Parameters
    ----------
    source : bytes or path-like

    Raises
    ------
    ModelFileError
        If it is not a model file of a version known here, is damaged, or contradicts itself.
    OSError
        If the file cannot be read.
    """
    try:
        tensors, metadata = read_tensors(source)
        if "manifest" not in metadata:
            raise ModelFileError("not a model file: it has no manifest")
        manifest = Fields("manifest", parse_json(metadata["manifest"]))
        if manifest.get("format", str) != FORMAT:
            raise ModelFileError(f"not a model file: the format is not {FORMAT!r}")
        version = manifest.get("version", int)
        if version == CLASSES_VERSION:
            return classes_model(manifest, tensors)
        _check_version(version)
        model = _model(manifest, Tensors(tensors))
        if (model.decision.band is not None) != (version == ABSTAINING_VERSION):
            raise ModelFileError(f"a band belongs into a file of version {ABSTAINING_VERSION}, and into no other")
        return model
    except (TensorFileError, FeatureError) as error:
        raise ModelFileError(str(error)) from error


def _check_version(version: int) -> None:
    if version not in (*_VERSIONS, CLASSES_VERSION):
        known = ", ".join(map(str, (*_VERSIONS, CLASSES_VERSION)))
        raise ModelFileError(f"model file of version {version}; this release reads versions {known}")


def _model(manifest: Fields, tensors: Tensors) -> Model:
    decision = _decision(manifest.object("decision"), tensors)
    n_features = decision.support_vectors.shape[1]
    features = read_features(manifest.object_or_null("features"), tensors, n_features)
    curve = _curve(manifest.object_or_null("curve"), tensors)
    if tensors.arrays:
        raise ModelFileError(f"array {next(iter(tensors.arrays))!r} belongs to nothing in the manifest")
    classes = manifest.object("classes")
    return Model(
        algorithm=manifest.get("algorithm", str),
        params=manifest.get("params", dict),
        objective=manifest.get("objective", dict),
        classes=(_label(classes, "negative"), _label(classes, "positive")),
        decision=decision,
        features=features,
        curve=curve,
        key=read_key(manifest.values.get("key")),
        producer=read_producer(manifest),
    )


def _label(classes: Fields, name: str) -> Label:
    value = classes.values.get(name)
    if not is_label(value):
        raise ModelFileError(
            f"{classes.place}: {name!r} must be a number, true, false, or at most {MAX_LABEL} characters"
        )
    return cast("Label", value)


def _decision(fields: Fields, tensors: Tensors) -> DecisionState:
    n = fields.integer("support_vectors", 0, 1 << 40)
    sign = fields.integer("sign", -1, 1)  # -1 in some old files: the score is that of the other class
    if sign == 0:
        raise ModelFileError(f"{fields.place}: 'sign' must be -1 or 1")
    kind, gamma, degree, coef0 = kernel_of(fields)
    sigmoid = fields.object_or_null("probability")
    return DecisionState(
        kind=kind,
        gamma=gamma,
        degree=degree,
        coef0=coef0,
        support_vectors=support_vectors(fields, tensors, n),
        dual_coef=sign * tensors.take("dual_coef", ("float64",), (n,)),
        intercept=sign * fields.number("intercept"),
        threshold=fields.number("threshold"),
        probability=None if sigmoid is None else Sigmoid(sigmoid.number("slope"), sigmoid.number("offset")),
        band=_band(fields),
    )


def _band(fields: Fields) -> Band | None:
    band = fields.object_or_null("band")
    try:
        return None if band is None else Band.from_json(band.values)
    except ValueError as error:
        raise ModelFileError(f"{fields.place}.band: {error}") from error


def _curve(fields: Fields | None, tensors: Tensors) -> OperatingCurve | None:
    if fields is None:
        return None
    try:
        return OperatingCurve.from_dict(
            {
                "thresholds": tensors.take("curve.thresholds", ("float64",)),
                "true_positives": tensors.take("curve.true_positives", ("int64",)),
                "false_positives": tensors.take("curve.false_positives", ("int64",)),
                "positives": fields.integer("positives", 0, 1 << 48),
                "negatives": fields.integer("negatives", 0, 1 << 48),
            }
        )
    except ModelFileError:
        raise
    except ValueError as error:
        raise ModelFileError(f"operating curve: {error}") from error


# -- for users of the library: `prefsvm.save_model` and `prefsvm.load_model` -------------------------------------------


class BinaryEstimator(Protocol):
    """What `save_model` needs of a fitted estimator."""

    classes_: NDArray[Any]

    def decision_state(self) -> DecisionState:
        """The fitted decision function with its threshold."""
        ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor parameters, as in scikit-learn."""
        ...


class LoadedClassifier:
    """A classifier read from a file: predicts as the one that was saved, bit by bit; it cannot be fitted.

    Attributes
    ----------
    model : Model
    classes_ : ndarray of shape (2,)
        (negative, positive)
    threshold_ : float
    n_features_in_ : int
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.classes_ = np.array(model.classes)
        self.threshold_ = model.decision.threshold
        self.n_features_in_ = int(model.decision.support_vectors.shape[1])

    def decision_function(self, X: NDArray[Any] | sparse.csr_array) -> FloatArray:
        """Scores of the rows of a feature matrix, shape (rows,)."""
        return self.model.decision.decision_function(X)

    def predict(self, X: NDArray[Any] | sparse.csr_array) -> NDArray[Any]:
        """The positive class where the score is strictly above `threshold_`, else the negative one.

        Of a model that abstains, an array of objects, which holds None for rows that are left undecided.
        """
        positive, negative = self.model.decision.says(self.decision_function(X))
        labels: NDArray[Any] = self.classes_[positive.astype(np.intp)]
        if self.model.decision.band is not None:
            labels = labels.astype(object)
            labels[~(positive | negative)] = None
        return labels

    def predict_proba(self, X: NDArray[Any] | sparse.csr_array) -> FloatArray:
        """Probabilities of the negative and the positive class, shape (rows, 2).

        Raises
        ------
        ValueError
            If the saved classifier had none.
        """
        positive = self.model.decision.probabilities(self.decision_function(X))
        return np.column_stack([1 - positive, positive])


class LoadedClasses:
    """A classifier of several classes read from a file: predicts as the one that was saved; it cannot be fitted.

    Attributes
    ----------
    model : ClassesModel
    classes_ : ndarray of shape (classes,)
    n_features_in_ : int
    """

    def __init__(self, model: ClassesModel) -> None:
        self.model = model
        self.classes_ = np.array(model.classes)
        self.n_features_in_ = model.n_features

    def decision_function(self, X: NDArray[Any] | sparse.csr_array) -> FloatArray:
        """Scores of the rows of a feature matrix, shape (rows, classes)."""
        return self.model.scores.mapped(X, self.model.decision.of_classes)

    def predict(self, X: NDArray[Any] | sparse.csr_array) -> NDArray[Any]:
        """The class that is said of each row; None where a model with floors is not sure of any."""
        said = self.model.scores.mapped(X, self.model.decision.says)
        return self.model.decision.labels(said, self.classes_)

    def predict_proba(self, X: NDArray[Any] | sparse.csr_array) -> FloatArray:
        """Probabilities of the classes, shape (rows, classes).

        Raises
        ------
        ValueError
            If the saved classifier had none.
        """
        calibration = self.model.decision.calibration
        if calibration is None:
            raise ValueError("this model gives no probabilities")
        return self.model.scores.mapped(X, calibration)


class ClassesEstimator(Protocol):
    """What `save_model` needs of a fitted estimator of three classes or more."""

    classes_: NDArray[Any]
    scores_: ProblemScores
    decision_: ClassesDecision
    report_: ClassesReport
    estimator: Any


def save_model(path: str | os.PathLike[str], estimator: BinaryEstimator | ClassesEstimator) -> None:
    """Save a fitted estimator of `solver.estimators` for `load_model`.

    Parameters
    ----------
    path : path-like
    estimator : fitted classifier
        Of two classes, or `OneVsRest` or `OneVsOne` of more. Parameters that JSON cannot hold (callbacks, arrays) are
        left out; they do not matter for predicting.

    Raises
    ------
    TypeError
        If its classes are not text or plain numbers, or it is one for several classes that has two.
    """
    classes = estimator.classes_.tolist()
    if not all(isinstance(label, str | int | float | bool) for label in classes):
        raise TypeError("only classifiers whose classes are named by text or numbers can be saved")
    if hasattr(estimator, "scores_"):
        _save_classes(path, cast("ClassesEstimator", estimator), classes)
        return
    if len(classes) != 2 or not hasattr(estimator, "decision_state"):
        raise TypeError("only classifiers of two classes, and OneVsRest and OneVsOne of more, can be saved")
    params = {name: value for name, value in estimator.get_params(deep=False).items() if _is_plain(value)}
    objective = params.pop("objective", None) or {}
    write_model(
        path,
        Model(
            algorithm=type(estimator).__name__,
            params=params,
            objective=objective if isinstance(objective, dict) else {"kind": objective},
            classes=(classes[0], classes[1]),
            decision=estimator.decision_state(),
        ),
    )


def _save_classes(path: str | os.PathLike[str], estimator: ClassesEstimator, classes: list[Label]) -> None:
    if len(classes) == 2:
        raise TypeError("with two classes save the one classifier that there is: estimators_[0]")
    params = estimator.estimator.get_params(deep=False)
    model = ClassesModel(
        algorithm=type(estimator.estimator).__name__,
        params={name: value for name, value in params.items() if _is_plain(value)},
        objective=estimator.report_.objective,
        classes=tuple(classes),
        scores=estimator.scores_,
        decision=estimator.decision_,
        producer=producer(),
    )
    write_model(path, model)


def load_model(path: str | os.PathLike[str]) -> LoadedClassifier | LoadedClasses:
    """Load what `save_model` saved.

    Raises
    ------
    ModelFileError
        See `read_model`.
    """
    model = read_any_model(path)
    return LoadedClasses(model) if isinstance(model, ClassesModel) else LoadedClassifier(model)


def _is_plain(value: Any) -> bool:
    """Whether JSON holds the value as it is."""
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_plain(item) for name, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))

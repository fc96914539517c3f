"""Models of several classes in files: version 3 of the format that `solver.model_file` has for two."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from solver.features import BadRow, FeatureCounts
from solver.file_fields import (
    FORMAT,
    Fields,
    ModelFileError,
    Tensors,
    csr_matrix,
    is_label,
    kernel_of,
    read_producer,
    support_vectors,
)
from solver.multiclass.calibration import Calibration
from solver.multiclass.decision import ClassesDecision, ProblemScores, SharedExpansion, stacked
from solver.multiclass.objective import MOST_CLASSES
from solver.multiclass.problems import Scheme
from solver.multiclass.rule import ClassRule
from solver.row_model import (
    OVERFLOW_IS_FOUND,
    FittedFeatures,
    RowModel,
    feature_manifest,
    feature_tensors,
    read_features,
    read_key,
)
from solver.typing import FloatArray, IndexArray, Matrix

VERSION: Final = 3
_SCHEMES: Final[tuple[Scheme, ...]] = ("one_vs_rest", "one_vs_one")

Label = str | int | float | bool


@dataclass(frozen=True)
class ClassPredictions:
    """What a model of several classes says about rows.

    Attributes
    ----------
    labels : list of str or None
        None where no class is sure enough.
    winners : int array of shape (rows,)
        The class that is said, or that is nearest to being said where none is.
    scores : float64 array of shape (rows, classes)
        The highest one wins where there is no objective.
    probabilities : float64 array of shape (rows, classes), or None
        None where the model is not calibrated.
    warnings, unseen, far_rows
        As of `solver.model_file.Predictions`.
    """

    labels: list[str | None]
    winners: IndexArray
    scores: FloatArray
    probabilities: FloatArray | None
    warnings: list[str]
    unseen: Mapping[str, int] = field(default_factory=dict)
    far_rows: Sequence[int] = ()

    @property
    def winning_scores(self) -> FloatArray:
        """The score of the winner of each row, (rows,)."""
        return np.asarray(self.scores[np.arange(len(self.winners)), self.winners])

    @property
    def winning_probabilities(self) -> FloatArray | None:
        """The probability of the winner of each row, (rows,)."""
        if self.probabilities is None:
            return None
        return np.asarray(self.probabilities[np.arange(len(self.winners)), self.winners])


@dataclass(frozen=True)
class ClassesModel(RowModel[ClassPredictions]):
    """A trained classifier of three classes or more, for raw rows or feature matrices.

    Attributes
    ----------
    algorithm : str
    params, objective : dict
        As they were used for training; JSON-ready.
    classes : tuple of labels
    scores : ProblemScores
    decision : ClassesDecision
    features : TableFeatures, MatrixFeatures or None
        None: the model takes feature matrices as they are.
    key : str or None
        The column that names the rows.
    producer : dict of str to str
        Versions of what trained it.
    """

    algorithm: str
    params: dict[str, Any]
    objective: dict[str, Any] | None
    classes: tuple[Label, ...]
    scores: ProblemScores
    decision: ClassesDecision
    features: FittedFeatures | None = None
    key: str | None = None
    producer: dict[str, str] = field(default_factory=dict)

    @property
    def n_features(self) -> int:
        """Columns of the feature matrix."""
        return int(self.scores.expansions[0].support_vectors.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, with those that predicting adds: what a cache has to reckon with."""
        stored = sum(array.nbytes for array in self.tensors().values())
        lookup = getattr(self.features, "lookup_nbytes", 0)
        return int(2 * stored + sum(each.prepared_nbytes for each in self.scores.expansions) + lookup)

    def with_rule(self, rule: Mapping[str, Any] | None) -> ClassesModel:
        """The model that decides by another rule, as `ClassRule.to_json` gives it; by its own for None."""
        if rule is None:
            return self
        decision = replace(self.decision, rule=ClassRule.from_json(rule, self.decision.counts))
        return replace(self, decision=decision)

    @OVERFLOW_IS_FOUND
    def decide(self, X: Matrix, counts: FeatureCounts) -> ClassPredictions:
        """Label what `feature_matrix` gave; raises `FeatureError` if a score leaves the range of float64."""
        of_problems = self.scores(X)
        beyond = np.flatnonzero(~np.isfinite(of_problems).all(axis=1))
        if len(beyond):
            raise BadRow(int(beyond[0]), "its score is beyond the range of float64")
        calibration, rule = self.decision.calibration, self.decision.rule
        probabilities = None if calibration is None else calibration(of_problems)
        if rule is None or probabilities is None:
            said = winners = self.decision.says(of_problems)
        else:
            said, winners = rule.says(probabilities), rule.best(probabilities)
        names = [str(label) for label in self.classes]
        labels = [None if code < 0 else names[code] for code in said.tolist()]
        scores = self.decision.of_classes(of_problems)
        return ClassPredictions(
            labels, winners, scores, probabilities, counts.warnings(), counts.unseen, counts.far_rows
        )

    @property
    def manifest(self) -> dict[str, Any]:
        """The JSON part of the file: everything but the arrays."""
        rule, calibration = self.decision.rule, self.decision.calibration
        first = self.scores.expansions[0]
        return {
            "format": FORMAT,
            "version": VERSION,
            "producer": self.producer,
            "algorithm": self.algorithm,
            "params": self.params,
            "objective": self.objective,
            "classes": list(self.classes),
            "key": self.key,
            "features": feature_manifest(self.features),
            "decision": {
                "scheme": self.decision.scheme,
                "kernels": [
                    {
                        "kernel": each.kind,
                        "gamma": float(each.gamma),
                        "degree": int(each.degree),
                        "coef0": float(each.coef0),
                        "support_vectors": int(each.support_vectors.shape[0]),
                        "problems": [int(place) for place in places],
                    }
                    for each, places in zip(self.scores.expansions, self.scores.places, strict=True)
                ],
                "n_features": int(first.support_vectors.shape[1]),
                "layout": "dense" if isinstance(first.support_vectors, np.ndarray) else "csr",
                "is_calibrated": calibration is not None,
                "rule": None if rule is None else {"never": [k for k, p in enumerate(rule.least) if p == math.inf]},
            },
        }

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The arrays of the file."""
        expansions = self.scores.expansions
        vectors = stacked([each.support_vectors for each in expansions])
        tensors: dict[str, NDArray[Any]] = {}
        if isinstance(vectors, np.ndarray):
            tensors["support_vectors"] = vectors
        else:
            tensors |= _csr_tensors("support_vectors", vectors)
        blocks = [each.coefficients for each in expansions]
        coefficients = sparse.csr_array(sparse.block_diag(blocks)) if len(blocks) > 1 else blocks[0]
        coefficients.sort_indices()
        tensors |= _csr_tensors("coefficients", coefficients)
        tensors["intercepts"] = np.concatenate([each.intercepts for each in expansions])
        tensors["counts"] = self.decision.counts.astype(np.int64)
        if self.decision.calibration is not None:
            tensors["slopes"], tensors["offsets"] = self.decision.calibration.slopes, self.decision.calibration.offsets
        rule = self.decision.rule
        if rule is not None:
            tensors["weights"] = rule.weights
            tensors["least"] = np.where(np.isfinite(rule.least), rule.least, -1.0)
            if rule.costs is not None:
                tensors["costs"] = rule.costs
        return tensors | feature_tensors(self.features)


def _csr_tensors(name: str, matrix: Any) -> dict[str, NDArray[Any]]:
    return {f"{name}.data": matrix.data, f"{name}.indices": matrix.indices, f"{name}.indptr": matrix.indptr}


def classes_model(manifest: Fields, arrays: Mapping[str, NDArray[Any]]) -> ClassesModel:
    """Read a model of several classes from what its file says, trusting nothing in it.

    Raises
    ------
    ModelFileError
        If it contradicts itself.
    """
    tensors = Tensors(dict(arrays))
    labels = manifest.get("classes", list)
    if not 3 <= len(labels) <= MOST_CLASSES or len(set(map(str, labels))) != len(labels):
        raise ModelFileError(f"manifest: 'classes' must be 3 to {MOST_CLASSES} different labels")
    if not all(is_label(label) for label in labels):
        raise ModelFileError("manifest: 'classes' must be numbers, true, false or short texts")
    fields = manifest.object("decision")
    scheme: Scheme = "one_vs_one" if fields.choice("scheme", _SCHEMES) == "one_vs_one" else "one_vs_rest"
    k = len(labels)
    scores = _scores(fields, tensors, k * (k - 1) // 2 if scheme == "one_vs_one" else k)
    decision = _decision(fields, tensors, scheme, k, scores.problems)
    width = int(scores.expansions[0].support_vectors.shape[1])
    features = read_features(manifest.object_or_null("features"), tensors, width)
    if tensors.arrays:
        raise ModelFileError(f"array {next(iter(tensors.arrays))!r} belongs to nothing in the manifest")
    objective = manifest.object_or_null("objective")
    return ClassesModel(
        manifest.get("algorithm", str), manifest.get("params", dict),
        None if objective is None else objective.values, tuple(labels), scores, decision, features,
        read_key(manifest.values.get("key")), read_producer(manifest),
    )  # fmt: skip


def _scores(fields: Fields, tensors: Tensors, problems: int) -> ProblemScores:
    """The expansions, whose problems together are all there are."""
    groups = fields.get("kernels", list)
    if not 1 <= len(groups) <= problems:
        raise ModelFileError(f"{fields.place}: 'kernels' must be 1 to {problems}")
    read = [Fields(f"{fields.place}.kernels[{number}]", group) for number, group in enumerate(groups)]
    sizes = [group.integer("support_vectors", 0, 1 << 40) for group in read]
    places = [_places(group, problems) for group in read]
    every = np.concatenate(places)
    if not np.array_equal(np.sort(every), np.arange(problems)):
        raise ModelFileError(f"{fields.place}: each of the {problems} problems belongs to one kernel")
    vectors = support_vectors(fields, tensors, sum(sizes))
    coefficients = csr_matrix(tensors, problems, sum(sizes), "coefficients")
    intercepts = tensors.take("intercepts", ("float64",), (problems,))
    expansions, line, column = [], 0, 0
    for group, size, own in zip(read, sizes, places, strict=True):
        lines = coefficients[line : line + len(own)]
        block = lines[:, column : column + size]
        if block.nnz != lines.nnz:
            raise ModelFileError(f"{group.place}: its coefficients are of support vectors of another kernel")
        expansions.append(_expansion(group, vectors[column : column + size], block, intercepts[line:][: len(own)]))
        line, column = line + len(own), column + size
    return ProblemScores(tuple(expansions), tuple(places))


def _places(group: Fields, problems: int) -> NDArray[np.intp]:
    numbers = group.get("problems", list)
    if not numbers or not all(type(number) is int and 0 <= number < problems for number in numbers):
        raise ModelFileError(f"{group.place}: 'problems' must be numbers from 0 to {problems - 1}")
    return np.array(numbers, dtype=np.intp)


def _expansion(
    group: Fields, vectors: Matrix, coefficients: sparse.csr_array, intercepts: FloatArray
) -> SharedExpansion:
    return SharedExpansion(*kernel_of(group), vectors, coefficients, intercepts)


def _decision(fields: Fields, tensors: Tensors, scheme: Scheme, classes: int, problems: int) -> ClassesDecision:
    counts = tensors.take("counts", ("int64",), (classes,))
    if counts.min() < 0:
        raise ModelFileError("array 'counts' must not be negative")
    calibration = None
    if fields.get("is_calibrated", bool):
        slopes = tensors.take("slopes", ("float64",), (problems,))
        if slopes.min() < 0:
            raise ModelFileError("array 'slopes' must not be negative")
        calibration = Calibration(slopes, tensors.take("offsets", ("float64",), (problems,)), scheme, classes)
    rule = fields.object_or_null("rule")
    if rule is None:
        return ClassesDecision(scheme, counts, calibration, None)
    if calibration is None:
        raise ModelFileError(f"{fields.place}: a rule needs a model that is calibrated")
    weights = tensors.take("weights", ("float64",), (classes,))
    if weights.min() <= 0:
        raise ModelFileError("array 'weights' must be above 0")
    least = tensors.take("least", ("float64",), (classes,)).copy()
    never = rule.get("never", list)
    if not all(type(k) is int and 0 <= k < classes for k in never):
        raise ModelFileError(f"{rule.place}: 'never' must be numbers of classes")
    least[least < 0] = -math.inf
    least[never] = math.inf
    costs = tensors.take("costs", ("float64",), (classes, classes)) if "costs" in tensors.arrays else None
    return ClassesDecision(scheme, counts, calibration, ClassRule(weights, least, counts, costs))

"""A model that is ready, and what it says of rows: the part of a prediction that knows no database and no waiting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from service.ingest.limits import MAX_EXACT_INTEGER
from service.models.errors import SeveralClasses
from service.predictions.errors import RowsDoNotFit
from service.predictions.inputs import knows_meta
from service.predictions.usage import ModelUsage
from solver.features import BadRow, Encoder, FeatureCounts, FeatureError
from solver.features.rows import clean_name
from solver.model_file import AnyModel, Model, Predictions
from solver.multiclass.file import ClassesModel, ClassPredictions
from solver.typing import Matrix

QUICK_SECONDS = 0.001
"""What is decided within this time is decided on the event loop: a thread would cost more than it spares others."""
CALL_SECONDS, CELL_SECONDS, VECTOR_SECONDS, PRODUCT_SECONDS = 50e-6, 40e-9, 2e-9, 45e-12
"""Measured: a prediction as such, a value of a row, a support vector for a row, a number of a support vector for a
row."""
PROBLEMS_SECONDS, COUPLED_SECONDS = 100e-6, 2e-9
"""Of several classes: what a row takes beside its kernel values, and for the cube of the number of classes."""
TEXT_ROWS = 40
"""A number that is sent as text takes so many times what one takes that is sent as a number, where it has a unit."""
OBJECT_BYTES = 1 << 16
"""What a model needs beside its arrays."""


@dataclass(slots=True)
class Decisions:
    """The fields of `PredictAnswer` as plain data: an object of pydantic for each row costs more than deciding."""

    model: str
    threshold: float | None
    """None of a model of several classes."""
    threshold_probability: float | None
    abstain: dict[str, float | None] | None
    predictions: list[dict[str, Any]]
    """With the ``key`` of the row, if it has one and the model knows of such a column, and ``truncated`` of a mail of
    which not all was looked at, and ``explanation`` if that was asked for."""
    warnings: list[str]


class ReadyModel:
    """A model in the cache."""

    def __init__(self, model_id: str, model: AnyModel, usage: ModelUsage) -> None:
        self.model_id = model_id
        self.usage = usage
        self.model = model
        self.threshold_probability: float | None = None
        self.abstain: dict[str, float | None] | None = None
        distance = 0.0
        if isinstance(model, Model):
            self.threshold_probability = model.decision.threshold_probability
            self.abstain = model.decision.told_band
            distance = 0.0 if model.curve is None else model.curve.typical_distance(model.decision.threshold)
        self.typical_distance = distance if 0 < distance < float("inf") else 1.0
        """Of the score of a row from the threshold: what is far, and what is near, on the scale of this model."""
        self.nbytes = model.nbytes + OBJECT_BYTES
        expansions = [model.decision] if isinstance(model, Model) else list(model.scores.expansions)
        n_features = expansions[0].support_vectors.shape[1]
        dense = isinstance(expansions[0].support_vectors, np.ndarray)
        first = np.zeros((1, n_features)) if dense else sparse.csr_array((1, n_features))
        cells = sum(column.get("length", 1) for column in model.columns) or n_features
        seconds = CELL_SECONDS * cells
        for each in expansions:
            if each.kind != "linear":
                vectors = each.support_vectors
                seconds += VECTOR_SECONDS * vectors.shape[0] + PRODUCT_SECONDS * _numbers(vectors)
        if not isinstance(model, Model):
            seconds += _seconds_of_classes(model)
        has_text = any(column["kind"] == "text" for column in model.columns)
        self.quick_rows = 0 if has_text else int((QUICK_SECONDS - CALL_SECONDS) / seconds)
        """Rows that are decided within `QUICK_SECONDS`; a text may be of any length."""
        self.knows_meta = knows_meta(model.columns)
        self._n_texts = sum(column["kind"] not in ("number", "vector") for column in model.columns)
        # The decision function prepares itself with its first row; that shall not be a caller's.
        if isinstance(model, Model):
            model.decision.decision_function(first)
        else:
            model.decide(first, FeatureCounts())

    @property
    def of_two(self) -> Model:
        """The model, where it is of two classes; raises `SeveralClasses`."""
        if not isinstance(self.model, Model):
            raise SeveralClasses.lacking("positive class and threshold, which this is about")
        return self.model

    def cost_of(self, rows: Sequence[Mapping[str, Any]]) -> int:
        """Return as how many rows these count: one with a number that is sent as text as `TEXT_ROWS` of them."""
        if len(rows) * TEXT_ROWS <= self.quick_rows or len(rows) > self.quick_rows:
            return len(rows)
        with suppress(TypeError, OverflowError):  # of a text, or of what is missing; of a very large number
            for row in rows:
                sum(row.values(), 0.0)  # a fifth of the time that the look below takes
            return len(rows)
        with_texts = any(list(map(type, row.values())).count(str) > self._n_texts for row in rows)
        return len(rows) * TEXT_ROWS if with_texts else len(rows)


def _seconds_of_classes(model: ClassesModel) -> float:
    """Seconds of a row for what several classes take beside the kernel: scores of all problems, and probabilities."""
    products = sum(each.coefficients.size for each in model.scores.expansions if each.kind != "linear")
    k = len(model.classes)
    coupled = k**3 if model.decision.scheme == "one_vs_one" else k
    return PROBLEMS_SECONDS + PRODUCT_SECONDS * products + COUPLED_SECONDS * coupled


def _numbers(matrix: Matrix) -> int:
    return matrix.size if isinstance(matrix, np.ndarray) else matrix.nnz


def decide(
    ready: ReadyModel,
    rows: Sequence[Mapping[str, Any]],
    where: str = "body.rows",
    encoder: Encoder | None = None,
) -> Decisions:
    """Apply a model to rows, which came from `where`, a list of the body or tensors; raises `RowsDoNotFit`.

    A model that encodes texts needs the vectors of those that `texts_of` has named.
    """
    return decide_by_features(ready, rows, where, encoder)[0]


def decide_by_features(
    ready: ReadyModel, rows: Sequence[Mapping[str, Any]], where: str, encoder: Encoder | None
) -> tuple[Decisions, Matrix]:
    """Do what `decide` does, and return the features of the rows, too."""
    try:
        X, counts, extra = ready.model.matrix_of_rows(rows, encoder)
        made = ready.model.decide(X, counts)
    except FeatureError as error:
        raise _refused(where, error) from None
    if ready.model.key is not None:
        extra = [name for name in extra if clean_name(name) != ready.model.key]
    return decisions(ready, made, extra), X


def texts_of(ready: ReadyModel, rows: Sequence[Mapping[str, Any]], where: str = "body.rows") -> list[str]:
    """Return the different texts of rows that are to be encoded; raises `RowsDoNotFit`."""
    try:
        return ready.model.texts_of_rows(rows)
    except FeatureError as error:
        raise _refused(where, error) from None


def _refused(where: str, error: FeatureError) -> RowsDoNotFit:
    """Return the error that says where rows that do not fit a model came from."""
    if isinstance(error, BadRow) and where.startswith("body."):
        return RowsDoNotFit.of(f"{where}.{error.row}", error.reason)
    return RowsDoNotFit.of(where, str(error))


def keyed(ready: ReadyModel, rows: Sequence[Mapping[str, Any]], made: Decisions) -> Decisions:
    """Put the key of each row that has one beside what was decided, as it came; raises `RowsDoNotFit`."""
    key = ready.model.key
    if key is None:
        return made
    for position, (row, prediction) in enumerate(zip(rows, made.predictions, strict=True)):
        names = [key] if key in row else [name for name in row if clean_name(name) == key]
        if not names:
            continue
        value = row[names[0]]
        if not (
            value is None
            or isinstance(value, str)
            or (isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_EXACT_INTEGER)
        ):
            raise RowsDoNotFit.of(
                f"body.rows.{position}",
                f"column {key!r}: a key should be text, a number up to 2**53 or null; send longer numbers as text",
            )
        prediction["key"] = value
    return made


def decisions(ready: ReadyModel, made: Predictions | ClassPredictions, extra: Sequence[str]) -> Decisions:
    """Count the rows and return what is answered; `extra` names columns that the model does not use."""
    warnings = list(made.warnings)
    if extra:
        named = ", ".join(name[:100] for name in extra[:20]) + (", …" if len(extra) > 20 else "")
        warnings.append(f"ignored, because the model does not use them: {named}")
    if isinstance(made, ClassPredictions):
        return _of_classes(ready, made, warnings)
    scores = made.scores.tolist()
    ready.usage.add(scores, made.labels, made.unseen, made.far_rows)
    probabilities = [None] * len(made.labels) if made.probabilities is None else made.probabilities.tolist()
    return Decisions(
        model=ready.model_id,
        threshold=ready.of_two.decision.threshold,
        threshold_probability=ready.threshold_probability,
        abstain=ready.abstain,
        predictions=[
            {"label": label, "score": score, "probability": probability}
            for label, score, probability in zip(made.labels, scores, probabilities, strict=True)
        ],
        warnings=warnings,
    )


def _of_classes(ready: ReadyModel, made: ClassPredictions, warnings: list[str]) -> Decisions:
    """What is answered by a model of several classes."""
    winning = made.winning_scores.tolist()
    ready.usage.add(winning, made.labels, made.unseen, made.far_rows)
    names = [str(label) for label in ready.model.classes]
    none = [None] * len(made.labels)
    of_winners = none if made.winning_probabilities is None else made.winning_probabilities.tolist()
    probabilities = none if made.probabilities is None else made.probabilities.tolist()
    return Decisions(
        model=ready.model_id,
        threshold=None,
        threshold_probability=None,
        abstain=None,
        predictions=[
            {
                "label": label,
                "score": score,
                "probability": probability,
                "scores": dict(zip(names, scores, strict=True)),
                "probabilities": None if each is None else dict(zip(names, each, strict=True)),
            }
            for label, score, probability, scores, each in zip(
                made.labels, winning, of_winners, made.scores.tolist(), probabilities, strict=True
            )
        ],
        warnings=warnings,
    )

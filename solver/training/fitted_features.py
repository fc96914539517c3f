"""Features of a training: fitted on the rows that it learns from, with the kernel that suits them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from scipy import sparse

from solver.algorithms import AUTO
from solver.features import FeatureError, MatrixFeatures, Table, TableFeatures, TextOptions
from solver.model_file import AnyModel
from solver.repeated_rows import told_of_repeats
from solver.report import ReportedEncoder
from solver.training.request import TrainingError
from solver.training.stopwatch import FEATURES_DONE, Stopwatch
from solver.training.target import UNLABELLED
from solver.training.task import TrainingTask
from solver.typing import FloatArray

_FITTED: Final = 0.8
"""Share of the work on features that is done when they are fitted; then they are applied."""


def fit_features(
    task: TrainingTask, watch: Stopwatch
) -> tuple[TableFeatures | MatrixFeatures, FloatArray | sparse.csr_array, list[str]]:
    """The fitted features, the matrix of the rows that are trained on, and warnings; the kernel is chosen by them."""
    watch.report(0.0)
    features, X, warnings = _fit(task, watch.features)
    if task.params["kernel"] == AUTO:
        # Measured on mails and newsgroups: texts are told apart as well or better by a plane, and sooner.
        has_text = isinstance(features, TableFeatures) and features.has_text
        task.params["kernel"] = "linear" if has_text else "rbf"
    watch.report(FEATURES_DONE, features=features.n_features)
    return features, X, [*warnings, *told_of_repeats(X, task.train_codes, task.target.classes)]


def _fit(
    task: TrainingTask, progress: Callable[[float], object]
) -> tuple[TableFeatures | MatrixFeatures, FloatArray | sparse.csr_array, list[str]]:
    """The fitted pipeline, the feature matrix of the same rows, and what was left out."""
    request, data, target = task.request, task.train_data, task.request.target
    if target is not None and request.include is not None and target in request.include:
        raise TrainingError("target_is_feature", f"the target column {target!r} cannot be a feature")
    exclude = list(request.exclude)
    try:
        if isinstance(data, Table):
            if target is not None and target in data.columns and target not in exclude:
                exclude.append(target)
            excluded = frozenset(exclude)
            table_features = TableFeatures(
                include=request.include,
                exclude=exclude,
                kinds={name: kind for name, kind in request.kinds.items() if name not in excluded},
                guessed=request.guessed,
                missing=request.missing,
                text=TextOptions(**request.text),
                text_weights=request.text_weights,
                encoder=request.encoder,
                encode_together=request.encode_together,
                keep_words=request.keep_words,
            ).fit(data, lambda share: progress(_FITTED * share), np.flatnonzero(task.train_codes != UNLABELLED))
            X, _ = table_features.transform(
                data, refuse_unreadable=False, progress=lambda share: progress(_FITTED + (1 - _FITTED) * share)
            )
            return table_features, X, table_features.warnings
        matrix_features = MatrixFeatures(include=request.include, exclude=exclude).fit(data)
        return matrix_features, matrix_features.transform(data)[0], matrix_features.warnings
    except FeatureError as error:
        raise TrainingError("features", str(error)) from error


def encoder_of(model: AnyModel) -> ReportedEncoder | None:
    """What the report tells of the encoder of a model, if it has one."""
    identity = model.encoder
    if identity is None or not isinstance(model.features, TableFeatures):
        return None
    return ReportedEncoder(identity.model, identity.dimensions, model.features.encoded.columns)

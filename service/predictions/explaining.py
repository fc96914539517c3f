"""Why: what weighed most in the scores of rows, and the labelled rows that are most like them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from service.errors import InvalidRequest
from service.predictions.deciding import PRODUCT_SECONDS, Decisions, ReadyModel
from solver.decision import DecisionState
from solver.explaining import MOST_PARTS, Explanation, cut, explain
from solver.features import TableFeatures
from solver.model_file import FittedFeatures, Model
from solver.multiclass.decision import SharedExpansion
from solver.multiclass.file import ClassesModel
from solver.nearest import KeptRows, Neighbours
from solver.typing import Matrix

MOST_ROWS = 100
"""Rows that are explained in one request, of models that are not large."""
MOST_CHARACTERS = 1 << 20
"""Of the texts of these rows together; one row has as many as it has."""
MOST_SECONDS = 2.0
"""What a request may take of a processor, as far as the size of the model tells; one row takes what it takes."""
KERNEL_VALUE_SECONDS = 12e-9
"""Measured: one value of a kernel for a row without one of its parts."""
SPARSE_SECONDS = 100e-9
"""Measured: a number of a sparse support vector, all that is done with it for a row."""
PASSES = 6
"""How often dense support vectors are gone through for a row, besides once for each part that is told."""


def check_explained(ready: ReadyModel, rows: Sequence[Mapping[str, Any]], most: int, where: str) -> None:
    """Refuse more rows than are explained at once; raises `InvalidRequest`."""
    allowed = explained_at_once(ready, most)
    if len(rows) > allowed:
        why = "" if allowed == MOST_ROWS else ", as the model has so many support vectors"
        raise InvalidRequest.of(
            where, f"with explain {most} may hold at most {allowed} rows{why}; send them in several requests"
        )
    if len(rows) > 1:
        names = [column["name"] for column in ready.model.columns if column["kind"] == "text"]
        values = (row.get(name) for row in rows for name in names)
        if sum(len(value) for value in values if isinstance(value, str)) > MOST_CHARACTERS:
            raise InvalidRequest.of(
                where, f"with explain may hold at most {MOST_CHARACTERS} characters of text; send fewer rows at a time"
            )


def explained_at_once(ready: ReadyModel, most: int) -> int:
    """Return how many rows of a model one request may have explained."""
    model = ready.model
    if isinstance(model, Model):
        seconds = _seconds_of(model.decision, most)
    else:  # a row takes two problems at most
        seconds = 2 * max(_seconds_of(each, most) for each in model.scores.expansions)
    return max(1, min(MOST_ROWS, int(MOST_SECONDS / max(seconds, 1e-9))))


def _seconds_of(expansion: DecisionState | SharedExpansion, most: int) -> float:
    """Return how long a row takes with all support vectors of an expansion."""
    if expansion.kind == "linear":
        return 0.0
    vectors = expansion.support_vectors
    if isinstance(vectors, np.ndarray):
        seconds = PRODUCT_SECONDS * vectors.size * (PASSES + most)
    else:
        seconds = SPARSE_SECONDS * vectors.nnz
    seconds += KERNEL_VALUE_SECONDS * vectors.shape[0] * min(MOST_PARTS, vectors.shape[1])
    return float(seconds)


def add_explanations(
    ready: ReadyModel,
    rows: Sequence[Mapping[str, Any]],
    X: Matrix,
    made: Decisions,
    most: int,
    neighbours: Neighbours | None,
) -> None:
    """Put beside each decision why it is so; the decision itself stays as it is.

    Parameters
    ----------
    ready : ReadyModel
    rows : sequence of mappings
        That were decided on.
    X : matrix
        Their features, by which they were.
    made : Decisions
    most : int
        Parts, and labelled rows, of each row.
    neighbours : Neighbours or None
        Labelled rows of the training; None where the model has none.
    """
    model, features = ready.model, ready.model.features
    assert features is not None  # noqa: S101 (rows were decided on)
    texts = features.texts_with_terms(rows) if isinstance(features, TableFeatures) and features.has_text else []
    if not isinstance(model, Model):
        _explain_classes(model, features, X, texts, made, most)
        return
    decision = model.decision
    explanations = explain([decision], features, X, texts, most)
    labels = [str(label) for label in model.classes]
    kept = None if neighbours is None else neighbours.kept
    nearest = None if neighbours is None else neighbours.nearest(X, most)
    for row, explanation in enumerate(explanations):
        made.predictions[row]["explanation"] = {
            **_weights(explanation, [decision]),
            "nearest": None if nearest is None or kept is None else _told(kept, nearest[row], labels),
            "compared": 0 if kept is None else len(kept.numbers),
        }


def _explain_classes(
    model: ClassesModel,
    features: FittedFeatures,
    X: Matrix,
    texts: Sequence[Sequence[str | None]],
    made: Decisions,
    most: int,
) -> None:
    """Say of each row what weighed most for the class that is said, or is nearest to it, against the next one."""
    names = [str(label) for label in model.classes]
    known: dict[tuple[int, int], list[DecisionState]] = {}
    first, second = model.decision.best_two(model.scores(X))
    for row, pair in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        if pair not in known:
            known[pair] = [model.scores.of_problem(*each) for each in model.decision.between(*pair)]
        between, x = known[pair], X[row : row + 1]
        (explanation,) = explain(between, features, x, [[column[row]] for column in texts], most)
        made.predictions[row]["explanation"] = {
            "said": names[pair[0]],
            "against": names[pair[1]],
            "margin": sum(float(each.decision_function(x)[0]) for each in between),
            **_weights(explanation, between),
            "nearest": None,
            "compared": 0,
        }


def _weights(explanation: Explanation, decisions: Sequence[DecisionState]) -> dict[str, Any]:
    return {
        "weights": [
            {
                "kind": part.kind,
                "column": part.column,
                "term": None if part.term is None else cut(part.term),
                "change": change,
            }
            for part, change in explanation.changes
        ],
        "rest": explanation.rest,
        "intercept": None if explanation.rest is None else sum(each.intercept for each in decisions),
    }


def _told(kept: KeptRows, found: Sequence[tuple[int, float]], labels: Sequence[str]) -> list[dict[str, Any]]:
    numbers = kept.numbers
    return [
        {
            "row": int(numbers[place]) if numbers[place] >= 0 else None,
            "key": kept.keys[place],
            "label": labels[int(kept.positive[place])],
            "similarity": similarity,
        }
        for place, similarity in found
    ]

"""Models of several classes as ONNX: raw columns or a feature matrix in, labels, scores and probabilities out."""

from __future__ import annotations

import json

import numpy as np
from onnx import TensorProto

from solver.multiclass.calibration import Calibration
from solver.multiclass.decision import ProblemScores
from solver.multiclass.file import ClassesModel
from solver.multiclass.problems import pairs_of
from solver.multiclass.rule import ClassRule
from solver.onnx_export import (
    Graph,
    OnnxExportError,
    all_values,
    finished,
    kernel_values,
    left_to_the_caller,
    raw_features,
)
from solver.typing import IndexArray


def onnx_classes(model: ClassesModel) -> bytes:
    """Write a model of several classes in ONNX.

    All arithmetic is float64, as in the library. The inputs are the raw columns, as `solver.onnx_export.onnx_model` has
    them; of a model without features it is `features`, of shape (rows, columns). Outputs: `label`
    (string, of shape (rows,); empty where a model with floors is not sure of any class), `scores` (double, of shape
    (rows, classes): the highest one wins where there is no objective), and `probabilities`, likewise, of a model of
    classes against the rest that has them. The metadata have `classes`, in that order, as JSON.

    Raises
    ------
    OnnxExportError
        If it decides by coupled probabilities of pairs, for which ONNX has no operator, reads free text or dates, or
        its support vectors would take more than 1 GiB.
    """
    decision, k = model.decision, len(model.classes)
    is_of_pairs = decision.scheme == "one_vs_one"
    if is_of_pairs and decision.rule is not None:
        raise OnnxExportError(
            "it decides by coupled probabilities of pairs, and ONNX has no operator that couples them; train with the "
            "scheme one_vs_rest"
        )
    graph = Graph(["features", *(column["name"] for column in model.columns)])
    features = raw_features(graph, model.features, model.n_features)
    of_problems = _scores(graph, model.scores, features)
    scores = _votes(graph, of_problems, k) if is_of_pairs else of_problems
    if decision.calibration is not None and not is_of_pairs:
        probabilities = _normalised(graph, decision.calibration, of_problems)
        if decision.rule is None:
            label = _named(graph, model, _highest(graph, scores, decision.counts))
        else:
            label = _ruled(graph, model, decision.rule, probabilities)
        graph.give("label", label, TensorProto.STRING)
        graph.give("scores", scores, TensorProto.DOUBLE, k)
        graph.give("probabilities", probabilities, TensorProto.DOUBLE, k)
    else:
        graph.give("label", _named(graph, model, _highest(graph, scores, decision.counts)), TensorProto.STRING)
        graph.give("scores", scores, TensorProto.DOUBLE, k)
    classes = json.dumps([str(label) for label in model.classes], ensure_ascii=False)
    return finished(
        graph,
        model.producer,
        {
            "algorithm": model.algorithm,
            "classes": classes,
            "columns": json.dumps(model.columns, ensure_ascii=False),
            "readings": json.dumps(left_to_the_caller(model), ensure_ascii=False),
            "explanations": "none",
        },
    )


def _scores(graph: Graph, scores: ProblemScores, X: str) -> str:
    """Scores of the problems, (rows, problems)."""
    parts = []
    for expansion in scores.expansions:
        coefficients = all_values(expansion.coefficients).T
        if expansion.kind == "linear":
            planes = np.asarray(expansion.support_vectors.T @ coefficients, dtype=np.float64)
            sums = graph.add("MatMul", X, graph.constant(planes))
        else:
            values = kernel_values(graph, expansion, X, all_values(expansion.support_vectors))
            sums = graph.add("MatMul", values, graph.constant(np.ascontiguousarray(coefficients)))
        parts.append(graph.add("Add", sums, graph.constant(expansion.intercepts)))
    together = graph.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
    order = np.argsort(np.concatenate(scores.places)).astype(np.int64)
    return graph.add("Gather", together, graph.constant(order), axis=1)


def _votes(graph: Graph, scores: str, classes: int) -> str:
    """What `solver.multiclass.problems.votes` gives."""
    pairs = pairs_of(classes)
    first, second = np.zeros((len(pairs), classes)), np.zeros((len(pairs), classes))
    for place, (i, j) in enumerate(pairs):
        first[place, i] = second[place, j] = 1.0
    is_second = graph.add("Cast", graph.add("Greater", scores, graph.constant(np.float64(0))), to=TensorProto.DOUBLE)
    is_first = graph.add("Sub", graph.constant(np.float64(1)), is_second)
    won = graph.add(
        "Add",
        graph.add("MatMul", is_second, graph.constant(second)),
        graph.add("MatMul", is_first, graph.constant(first)),
    )
    of_both = [graph.add("MatMul", won, graph.constant(np.ascontiguousarray(side.T))) for side in (first, second)]
    clipped = graph.add("Clip", scores, graph.constant(np.float64(-1)), graph.constant(np.float64(1)))
    counted = graph.add("Where", graph.add("Equal", *of_both), clipped, graph.constant(np.float64(0)))
    among = graph.add("MatMul", counted, graph.constant(second - first))
    size = graph.add("Add", graph.add("Abs", among), graph.constant(np.float64(1)))
    return graph.add("Add", won, graph.add("Div", among, graph.add("Mul", size, graph.constant(np.float64(3)))))


def _normalised(graph: Graph, calibration: Calibration, scores: str) -> str:
    """Probabilities of classes against the rest."""
    scaled = graph.add("Mul", scores, graph.constant(calibration.slopes))
    each = graph.add("Sigmoid", graph.add("Add", scaled, graph.constant(calibration.offsets)))
    total = graph.add("ReduceSum", each, graph.constant(np.array([1], dtype=np.int64)), keepdims=1)
    some = graph.add("Greater", total, graph.constant(np.float64(0)))
    even = graph.constant(np.float64(1 / calibration.classes))
    return graph.add("Where", some, graph.add("Div", each, total), even)


def _highest(graph: Graph, values: str, counts: IndexArray) -> str:
    """The class of the highest value, among equals the larger one, then the first."""
    by_size = np.argsort(-counts, kind="stable").astype(np.int64)
    sorted_ = graph.add("Gather", values, graph.constant(by_size), axis=1)
    return graph.add("Gather", graph.constant(by_size), graph.add("ArgMax", sorted_, axis=1, keepdims=0))


def _named(graph: Graph, model: ClassesModel, said: str) -> str:
    labels = np.array([str(label) for label in model.classes], dtype=object)
    return graph.add("Gather", graph.constant(labels), said)


def _ruled(graph: Graph, model: ClassesModel, rule: ClassRule, probabilities: str) -> str:
    """The class that the rule says; an empty text where it is not sure."""
    if rule.costs is None:
        worth = graph.add("Mul", probabilities, graph.constant(rule.weights))
    else:
        worth = graph.add("Neg", graph.add("MatMul", probabilities, graph.constant(rule.costs)))
    said = _highest(graph, worth, rule.counts)
    label = _named(graph, model, said)
    if not rule.may_leave_undecided:
        return label
    column = graph.add("Unsqueeze", said, graph.constant(np.array([1], dtype=np.int64)))
    own = graph.add("GatherElements", probabilities, column, axis=1)
    flat = graph.add("Squeeze", own, graph.constant(np.array([1], dtype=np.int64)))
    sure = graph.add("Greater", flat, graph.add("Gather", graph.constant(rule.least), said))
    return graph.add("Where", sure, label, graph.constant(np.array("", dtype=object)))

"""Trained models as ONNX: raw columns in, labels, scores and probabilities out."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from scipy import sparse

from solver.band import Band
from solver.decision import DecisionState
from solver.features import MatrixFeatures, TableFeatures
from solver.features.normal_scores import NormalScores
from solver.features.strings import unpack_strings
from solver.features.vectors import ROUNDING
from solver.model_file import AnyModel, FittedFeatures, Model
from solver.multiclass import SharedExpansion
from solver.reading import BLANKS, Reading
from solver.typing import FloatArray, Matrix

# a file of ONNX ends at 2 GiB, and its runtime holds it twice
MAX_BYTES: Final = 1 << 30
OPSET: Final = 17
# where categories are numbers or blanks around them are cut: it has the operator that tells what a text is like
OPSET_OF_NUMBERS: Final = 20
# columns of more levels leave it to the caller to cut blanks around their values
MOST_TRIMMED: Final = 100
# what matches no text
NOTHING: Final = r"[^\x00-\x{10FFFF}]"
ML_OPSET: Final = 3
IR_VERSION: Final = 9
# texts that are numbers, as far as a level can be one: a longer one would be beyond float64
_NUMBER: Final = r"[ \t]*[+-]?([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][+-]?[0-9]{1,2})?[ \t]*"


class OnnxExportError(ValueError):
    """The model has no form in ONNX; the message says why."""


def onnx_model(model: Model) -> bytes:
    """Write a model in ONNX.

    All arithmetic is float64, as in the library. Inputs are one column each, of shape (rows, 1), under the column's
    name: numbers as double, NaN where one is missing; categories as string, empty where one is missing, or a word that
    the upload took for that; é may be one character or two; where all levels are numbers, any text that is the same
    number. Numbers are imputed where they are missing, also by a model whose own policy is to refuse them. A model of a
    matrix has one input `features` of shape (rows, columns). Outputs: `label` (string; empty where a model that
    abstains leaves the row undecided), `score` (double), and `probability` (double) where the model gives one; each of
    shape (rows,), in that order. The metadata have the
    `positive` and the `negative` class, the `threshold`, the same as a probability (`threshold_probability`) where the
    model gives one, the `lower` and `upper` bound of the scores that are left undecided, where there are such (empty:
    the class beyond it is said of no row), and the `columns`, as JSON, and under `readings` what of reading categories
    is left to the caller, by column (`Reading.to_json`): to cut blanks around them (`trim`, where there are more than a
    hundred levels), to write them in small letters (`lower`), or numbers with a point and nothing else (`decimal`,
    `thousands`, `unit`). Why a row has its score, no file says; `explanations` says so.

    Returns
    -------
    bytes
        A file for opset 17, or 20 where all levels of a category are numbers or blanks around them are cut, and version
        3 of the machine learning operators.

    Raises
    ------
    OnnxExportError
        If the model reads free text or dates, or its support vectors would take more than 1 GiB without their zeros
        left out.
    """
    graph = Graph([column["name"] for column in model.columns])
    features = raw_features(graph, model.features, model.decision.support_vectors.shape[1])
    score = _score(graph, model.decision, features)
    graph.give("label", _label(graph, model, score), TensorProto.STRING)
    graph.give("score", score, TensorProto.DOUBLE)
    if model.decision.probability is not None:
        sigmoid = model.decision.probability
        scaled = graph.add("Mul", score, graph.constant(np.float64(sigmoid.slope)))
        shifted = graph.add("Add", scaled, graph.constant(np.float64(sigmoid.offset)))
        graph.give("probability", graph.add("Sigmoid", shifted), TensorProto.DOUBLE)
    as_probability = model.decision.threshold_probability
    return finished(
        graph,
        model.producer,
        {
            "threshold": repr(model.decision.threshold),
            **({} if as_probability is None else {"threshold_probability": repr(as_probability)}),
            **_bounds(model.decision.band),
            "algorithm": model.algorithm,
            "positive": str(model.classes[1]),
            "negative": str(model.classes[0]),
            "columns": json.dumps(model.columns, ensure_ascii=False),
            "readings": json.dumps(left_to_the_caller(model), ensure_ascii=False),
            "explanations": "none: POST /predict of the service has them",
        },
    )


def finished(graph: Graph, producer: Mapping[str, str], metadata: dict[str, str]) -> bytes:
    """Return the file of a graph, checked."""
    made = helper.make_model(
        graph.build(),
        opset_imports=[helper.make_opsetid("", graph.opset), helper.make_opsetid("ai.onnx.ml", ML_OPSET)],
        ir_version=IR_VERSION,
        producer_name="prefsvm",
        producer_version=producer.get("prefsvm", ""),
    )
    helper.set_model_props(made, metadata)
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())


def _label(graph: Graph, model: Model, score: str) -> str:
    """The class that is said; an empty text where none is."""
    band, threshold = model.decision.band, model.decision.threshold
    above = graph.add("Greater", score, graph.constant(np.float64(threshold if band is None else band.upper)))
    negative, positive = (graph.constant(np.array(str(label), dtype=object)) for label in model.classes)
    if band is None:
        return graph.add("Where", above, positive, negative)
    over = graph.add("Greater", score, graph.constant(np.float64(band.lower)))
    none = graph.constant(np.array("", dtype=object))
    return graph.add("Where", above, positive, graph.add("Where", over, none, negative))


def _bounds(band: Band | None) -> dict[str, str]:
    return {} if band is None else {name: "" if at is None else repr(at) for name, at in band.to_json().items()}


def left_to_the_caller(model: AnyModel) -> dict[str, dict[str, Any]]:
    """What of reading the texts of each column no operator does."""
    if not isinstance(model.features, TableFeatures):
        return {}
    done = ("kind", "missing", "composed", "typed")
    readings, left = model.features.readings, {}
    for name, levels in model.features.category_levels:
        if name in readings:
            cut = ["trim"] if _cuts_blanks(readings[name], len({*levels.values()})) else []
            parts = readings[name].to_json().items()
            left[name] = {part: value for part, value in parts if part not in (*done, *cut)}
    return {name: parts for name, parts in left.items() if parts}


class Graph:
    """Collects nodes; every value gets a name of its own.

    Parameters
    ----------
    taken : collection of str
        Names of the inputs, which come from outside and may be any.
    """

    def __init__(self, taken: Collection[str]) -> None:
        self._prefix = "prefsvm/"
        while any(name.startswith(self._prefix) for name in taken):
            self._prefix += "/"
        self.opset = OPSET
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def take(self, name: str, kind: int, width: int) -> str:
        """Declare an input of shape (rows, width)."""
        self._inputs.append(helper.make_tensor_value_info(name, kind, ["rows", width]))
        return name

    def give(self, name: str, value: str, kind: int, width: int | None = None) -> None:
        """Declare an output of shape (rows,), or (rows, width)."""
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        shape: list[str | int] = ["rows"] if width is None else ["rows", width]
        self._outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def constant(self, value: NDArray[Any] | np.float64 | np.int64) -> str:
        """Store an array."""
        name = f"{self._prefix}constant/{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Apply an operator; returns the name of its only output."""
        name = f"{self._prefix}value/{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [name], domain=domain, **attributes))
        return name

    def build(self) -> Any:
        """Return the graph of all that was added."""
        return helper.make_graph(self._nodes, "prefsvm", self._inputs, self._outputs, self._constants)


def raw_features(graph: Graph, features: FittedFeatures | None, width: int) -> str:
    """The feature matrix of a model, of shape (rows, width), whose raw columns are inputs of the graph.

    Without features the matrix itself is the input.
    """
    if isinstance(features, TableFeatures):
        return _table(graph, features)
    if isinstance(features, MatrixFeatures):
        given = graph.take("features", TensorProto.DOUBLE, features.n_features)
        factor, low, high, offset = map(graph.constant, features.limits)
        scaled = graph.add("Mul", _finite_or(graph, given, graph.constant(np.float64(0))), factor)
        return graph.add("Sub", graph.add("Min", graph.add("Max", scaled, low), high), offset)
    return graph.take("features", TensorProto.DOUBLE, width)


def _table(graph: Graph, features: TableFeatures) -> str:
    arrays, meta = features.state()
    refused = [column["name"] for column in features.columns if column["kind"] in ("text", "date")]
    if refused:
        others = "; a training without them (`features.exclude`) has that form"
        raise OnnxExportError(
            "ONNX has no operators that read free text or dates as this model does; its columns of those kinds: "
            + ", ".join(repr(name[:100]) for name in refused[:10])
            + (", which is sent to an encoder besides" if features.encoded.width else "")
            + (others if len(refused) < len(features.columns) else "")
        )
    reserved = {"score", "label", "probability"} & {column["name"] for column in features.columns}
    if reserved:
        raise OnnxExportError(f"a column has the name of an output: {', '.join(sorted(reserved))}")
    blocks: list[str] = []
    if "number" in meta["kinds"]:
        blocks += _numbers(graph, features, arrays, meta["cut"])
    if "vector" in meta["kinds"]:
        blocks += _vectors(graph, features, arrays)
    if "category" in meta["kinds"]:
        blocks += _categories(graph, features, arrays)
    return graph.add("Concat", *blocks, axis=1) if len(blocks) > 1 else blocks[0]


def _numbers(graph: Graph, features: TableFeatures, arrays: dict[str, NDArray[Any]], cut: float) -> Iterable[str]:
    """Standardised numbers, then the 0/1 features that say where one is missing."""
    names = unpack_strings(arrays["number_text"], arrays["number_ends"])
    inputs = [graph.take(name, TensorProto.DOUBLE, 1) for name in names]
    together = graph.add("Concat", *inputs, axis=1)
    words = [features.readings[name].missing_numbers if name in features.readings else () for name in names]
    for place in range(max(map(len, words))):
        wanted = np.array([each[place] if place < len(each) else np.nan for each in words])
        is_word = graph.add("Equal", together, graph.constant(wanted))
        together = graph.add("Where", is_word, graph.constant(np.float64(np.nan)), together)
    filled = _finite_or(graph, together, graph.constant(arrays["median"]))
    valued, indicated = np.flatnonzero(arrays["scale"] > 0), np.flatnonzero(arrays["indicator"])
    if len(valued):
        used = graph.add("Gather", filled, graph.constant(valued), axis=1)
        if "skewed" in arrays:
            used = _with_scores(graph, used, valued, NormalScores.from_state(arrays, len(names)))
        centred = graph.add("Sub", used, graph.constant(arrays["mean"][valued]))
        scaled = graph.add("Div", centred, graph.constant(arrays["scale"][valued]))
        low, high = graph.constant(np.float64(-cut)), graph.constant(np.float64(cut))
        yield graph.add("Min", graph.add("Max", scaled, low), high)
    if len(indicated):
        used = graph.add("Gather", together, graph.constant(indicated), axis=1)
        yield graph.add("Cast", graph.add("Not", _is_finite(graph, used)), to=TensorProto.DOUBLE)


def _with_scores(graph: Graph, used: str, valued: NDArray[Any], scores: NormalScores) -> str:
    """The columns in `valued`, with normal scores in place of those that are skewed."""
    skewed = np.searchsorted(valued, scores.columns)
    others = np.setdiff1d(np.arange(len(valued)), skewed)
    given = graph.add("Gather", used, graph.constant(skewed), axis=1)
    above = graph.add(
        "GreaterOrEqual",
        graph.add("Unsqueeze", given, graph.constant(np.array([2], dtype=np.int64))),
        graph.constant(scores.bends),
    )
    axis = graph.constant(np.array([2], dtype=np.int64))
    places = graph.add("ReduceSum", graph.add("Cast", above, to=TensorProto.INT64), axis, keepdims=0)
    pieces = scores.pieces
    at = graph.add("Add", places, graph.constant(np.arange(len(skewed)) * pieces.shape[2]))
    start, score, slope = (graph.add("Gather", graph.constant(part.ravel()), at, axis=0) for part in pieces)
    of_skewed = graph.add("Add", score, graph.add("Mul", slope, graph.add("Sub", given, start)))
    if not len(others):
        return of_skewed
    rest = graph.add("Gather", used, graph.constant(others), axis=1)
    order = np.argsort(np.concatenate([others, skewed]))
    return graph.add("Gather", graph.add("Concat", rest, of_skewed, axis=1), graph.constant(order), axis=1)


def _vectors(graph: Graph, features: TableFeatures, arrays: dict[str, NDArray[Any]]) -> Iterable[str]:
    """Each vector without the mean, brought to its length as a feature; see `VectorColumns`."""
    lengths = [column["length"] for column in features.columns if column["kind"] == "vector"]
    names = unpack_strings(arrays["vector_text"], arrays["vector_ends"])
    means = np.split(arrays["vector_mean"], np.cumsum(lengths)[:-1])
    for name, length, mean, weight in zip(names, lengths, means, arrays["vector_weight"], strict=True):
        given = graph.add("Cast", graph.take(name, TensorProto.FLOAT, length), to=TensorProto.DOUBLE)
        centred = graph.add("Sub", given, graph.constant(mean))
        norm, distance = _norm(graph, given), _norm(graph, centred)
        least = graph.add("Add", norm, graph.constant(np.float64(np.sqrt(mean @ mean))))
        says_something = graph.add(
            "And",
            graph.add("Greater", norm, graph.constant(np.float64(0))),
            graph.add("Greater", distance, graph.add("Mul", least, graph.constant(np.float64(ROUNDING)))),
        )
        scale = graph.add("Div", graph.constant(np.float64(weight)), distance)
        yield graph.add("Mul", centred, graph.add("Where", says_something, scale, graph.constant(np.float64(0))))


def _norm(graph: Graph, vectors: str) -> str:
    """Lengths of vectors, of shape (rows, 1)."""
    axis = graph.constant(np.array([1], dtype=np.int64))
    return graph.add("Sqrt", graph.add("ReduceSum", graph.add("Mul", vectors, vectors), axis, keepdims=1))


def _categories(graph: Graph, features: TableFeatures, arrays: dict[str, NDArray[Any]]) -> Iterable[str]:
    """One 0/1 feature for each level of each column."""
    first = 0
    widths = (arrays["level_counts"] + arrays["missing_level"]).tolist()
    levels = zip(features.category_levels, features.category_numbers, widths, strict=True)
    for (name, index), by_number, width in levels:
        given = graph.take(name, TensorProto.STRING, 1)
        # A cell that is empty is missing; a level that is the empty text itself goes before.
        known = {"" if level is None else level: code - first for level, code in index.items() if level is not None}
        if None in index:
            known.setdefault("", index[None] - first)
        reading = features.readings.get(name)
        if reading is not None:
            for word in reading.missing if "" in known else ():
                known.setdefault(word, known[""])
            if reading.composed:
                for level, code in tuple(known.items()):
                    known.setdefault(unicodedata.normalize("NFD", level), code)
        if _cuts_blanks(reading, width):
            met = _met_between_blanks(graph, given, known, width)
        else:
            codes = graph.add(
                "LabelEncoder",
                given,
                domain="ai.onnx.ml",
                keys_strings=list(known),
                values_int64s=list(known.values()),
                default_int64=-1,
            )
            met = graph.add("Equal", codes, graph.constant(np.arange(width, dtype=np.int64)))
        if by_number:
            numbers = np.full(width, np.nan)
            numbers[[code - first for code in by_number.values()]] = list(by_number)
            axis = graph.constant(np.array([1], dtype=np.int64))
            some = graph.add("ReduceMax", graph.add("Cast", met, to=TensorProto.INT64), axis, keepdims=1)
            other = graph.add("Equal", some, graph.constant(np.int64(0)))
            same = graph.add("Equal", _number_of(graph, given), graph.constant(numbers))
            met = graph.add("Or", met, graph.add("And", other, same))
        yield graph.add("Cast", met, to=TensorProto.DOUBLE)
        first += width


def _cuts_blanks(reading: Reading | None, width: int) -> bool:
    """Whether the blanks around the values of a column are cut here: each level takes an operator."""
    return reading is not None and reading.trim and width <= MOST_TRIMMED


def _met_between_blanks(graph: Graph, texts: str, known: Mapping[str, int], width: int) -> str:
    """Which level, of shape (rows, width), each text is without the blanks around it."""
    graph.opset = OPSET_OF_NUMBERS
    spellings: list[list[str]] = [[] for _ in range(width)]
    for text, code in known.items():
        if text == text.strip(BLANKS):  # nothing else is left when blanks are cut
            # no letter or sign of a text means anything but itself
            spellings[code].append("".join(each if each.isalnum() else f"\\x{{{ord(each):x}}}" for each in text))
    found = [
        graph.add("RegexFullMatch", texts, pattern=rf"[ \t]*({'|'.join(each)})[ \t]*" if each else NOTHING)
        for each in spellings
    ]
    return graph.add("Concat", *found, axis=1)


def _number_of(graph: Graph, texts: str) -> str:
    """The numbers that texts are, NaN for others."""
    graph.opset = OPSET_OF_NUMBERS
    found = graph.add("RegexFullMatch", texts, pattern=_NUMBER)
    nan = graph.constant(np.array("nan", dtype=object))
    return graph.add("Cast", graph.add("Where", found, texts, nan), to=TensorProto.DOUBLE)


def _score(graph: Graph, decision: DecisionState, X: str) -> str:
    """The decision function, of shape (rows,)."""
    vectors = decision.support_vectors
    column = decision.dual_coef[:, None]
    if decision.kind == "linear":
        expansion = graph.add("MatMul", X, graph.constant(np.asarray(vectors.T @ decision.dual_coef)[:, None]))
    else:
        expansion = graph.add("MatMul", kernel_values(graph, decision, X, all_values(vectors)), graph.constant(column))
    shifted = graph.add("Add", expansion, graph.constant(np.float64(decision.intercept)))
    return graph.add("Squeeze", shifted, graph.constant(np.array([1], dtype=np.int64)))


def all_values(vectors: Matrix) -> FloatArray:
    """Support vectors or coefficients with their zeros; raises `OnnxExportError` where those would take too much."""
    if vectors.shape[0] * vectors.shape[1] * 8 > MAX_BYTES:
        raise OnnxExportError(
            f"its support vectors or coefficients, {vectors.shape[0]} × {vectors.shape[1]}, take more than 1 GiB"
        )
    return np.asarray(vectors.toarray() if sparse.issparse(vectors) else vectors, dtype=np.float64)


def kernel_values(graph: Graph, decision: DecisionState | SharedExpansion, X: str, vectors: FloatArray) -> str:
    """Kernel values, of shape (rows, support vectors)."""
    if decision.kind == "rbf":
        # Distances do not change when everything is shifted, and near the centre they lose less to rounding.
        centre = vectors.mean(axis=0) if len(vectors) else np.zeros(vectors.shape[1])
        X, vectors = graph.add("Sub", X, graph.constant(centre)), vectors - centre
    products = graph.add("MatMul", X, graph.constant(np.ascontiguousarray(vectors.T)))
    gamma = graph.constant(np.float64(decision.gamma))
    if decision.kind != "rbf":
        inner = graph.add("Add", graph.add("Mul", products, gamma), graph.constant(np.float64(decision.coef0)))
        if decision.kind == "sigmoid":
            return graph.add("Tanh", inner)
        return graph.add("Pow", inner, graph.constant(np.float64(decision.degree)))
    squares = graph.add("ReduceSum", graph.add("Mul", X, X), graph.constant(np.array([1], dtype=np.int64)), keepdims=1)
    norms = graph.add("Add", squares, graph.constant((vectors**2).sum(axis=1)))
    distances = graph.add("Sub", norms, graph.add("Mul", products, graph.constant(np.float64(2))))
    least = graph.add("Max", distances, graph.constant(np.float64(0)))
    return graph.add("Exp", graph.add("Neg", graph.add("Mul", least, gamma)))


def _is_finite(graph: Graph, value: str) -> str:
    """Where a value is a number: anything else minus itself is NaN."""
    return graph.add("Equal", graph.add("Sub", value, value), graph.constant(np.float64(0)))


def _finite_or(graph: Graph, value: str, otherwise: str) -> str:
    return graph.add("Where", _is_finite(graph, value), value, otherwise)

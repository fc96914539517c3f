"""The bodies of the Open Inference Protocol, and how tensors become rows and decisions become tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from service.predictions.deciding import Decisions
from service.predictions.errors import TensorsDoNotFit
from service.predictions.schemas import MAX_NAME, MOST_EXPLAINED
from service.schemas import Received
from solver.model_file import AnyModel, Model

INTEGERS = {f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
FLOATS = {"FP16", "FP32", "FP64"}
PLATFORM = "prefsvm"
MATRIX_INPUT = "input"
OUTPUTS = (("label", "BYTES"), ("score", "FP64"), ("probability", "FP64"), ("explanation", "BYTES"))
"""Of which the last is there only if it is asked for."""
OF_CLASSES = ("scores", "probabilities")
"""Further outputs of a model of several classes, one number a class."""

EXAMPLE_INFER: JsonDict = {
    "id": "42",
    "inputs": [
        {"name": "age", "shape": [2], "datatype": "FP64", "data": [39, 25]},
        {"name": "job", "shape": [2], "datatype": "BYTES", "data": ["clerk", "cook"]},
    ],
}


class Lenient(Received):
    """Of the protocol, which may be extended: what is not known is ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class InputTensor(Lenient):
    """Values of one column, or of all columns of a model that takes numbers only."""

    name: str = Field(max_length=1000)
    shape: list[int] = Field(max_length=8, description="`[rows]`, or `[rows, numbers]` of a column of vectors.")
    datatype: str = Field(max_length=20)
    parameters: dict[str, Any] = Field(default={})
    data: list[Any] = Field(description="Row by row, nested or flat; null is a missing value.")


class RequestedOutput(Lenient):
    """One of `label`, `score`, `probability`, and where there are such `explanation`, `scores` and `probabilities`."""

    name: str = Field(max_length=MAX_NAME)
    parameters: dict[str, Any] = Field(default={})


class InferRequest(Lenient):
    """An inference request."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_INFER]})

    id: str | None = Field(default=None, max_length=1000)
    parameters: dict[str, Any] = Field(
        default={},
        description="`explain`, a whole number: the output `explanation` has a JSON text for each row, as `POST "
        "/predict` gives it. Others are ignored.",
    )
    inputs: list[InputTensor] = Field(min_length=1, max_length=10_000)
    outputs: list[RequestedOutput] | None = Field(default=None, max_length=10, description="Default: all there are.")


class OutputTensor(BaseModel):
    """One output of the model."""

    name: str
    shape: list[int]
    datatype: str
    data: list[str] | list[float]


class InferAnswer(BaseModel):
    """An inference response."""

    model_name: str
    model_version: str = Field(description="Id of the model that decided.")
    id: str | None = Field(default=None, description="That of the request.")
    parameters: dict[str, str | float] = Field(
        description="`threshold`; `threshold_probability`, the same as a probability, if the model gives one; "
        "of a model that leaves rows undecided, whose label is an empty text, `lower` (up to it the negative class is "
        "said), `upper` (above it the positive one), each unless that class is said of no row, and the same as "
        "`lower_probability` and `upper_probability`; of a model of several classes, which has none of these, "
        "`classes`: a JSON list in the order of the outputs `scores` and `probabilities`; `warnings`, if there are any."
    )
    outputs: list[OutputTensor]


class TensorDescription(BaseModel):
    """An input or output; -1 stands for any number of rows."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(BaseModel):
    """What a model takes and gives."""

    name: str
    versions: list[str] = Field(description="Id of the model that the name means now.")
    platform: str
    inputs: list[TensorDescription]
    outputs: list[TensorDescription]


def describe(name: str, model_id: str, model: AnyModel) -> ModelMetadata:
    """Return the metadata of a model that is known by a name."""
    columns = model.columns
    if columns and any(column["kind"] != "number" for column in columns):
        inputs = [
            TensorDescription(
                name=column["name"],
                datatype={"number": "FP64", "vector": "FP32"}.get(column["kind"], "BYTES"),
                shape=[-1, *([column["length"]] if column["kind"] == "vector" else [])],
            )
            for column in columns
        ]
    else:
        inputs = [TensorDescription(name=MATRIX_INPUT, datatype="FP64", shape=[-1, len(_numbered(model))])]
    return ModelMetadata(
        name=name,
        versions=[model_id],
        platform=PLATFORM,
        inputs=inputs,
        outputs=[
            TensorDescription(name=output, datatype=datatype, shape=[-1])
            for output, datatype in OUTPUTS[:3]
            if output != "probability" or _is_calibrated(model)
        ]
        + _described_classes(model),
    )


def _is_calibrated(model: AnyModel) -> bool:
    decided_by = model.decision.probability if isinstance(model, Model) else model.decision.calibration
    return decided_by is not None


def _described_classes(model: AnyModel) -> list[TensorDescription]:
    """The outputs that only a model of several classes has."""
    if isinstance(model, Model):
        return []
    wanted = OF_CLASSES if _is_calibrated(model) else OF_CLASSES[:1]
    return [TensorDescription(name=name, datatype="FP64", shape=[-1, len(model.classes)]) for name in wanted]


def explain_of(request: InferRequest) -> int | None:
    """Return how much is to be told of why a row has its score; raises `TensorsDoNotFit`."""
    wanted = request.parameters.get("explain")
    if wanted is not None and (type(wanted) is not int or not 1 <= wanted <= MOST_EXPLAINED):
        raise TensorsDoNotFit(f"parameter 'explain' must be a whole number from 1 to {MOST_EXPLAINED}")
    return wanted


def rows_of(model: AnyModel, tensors: Sequence[InputTensor]) -> list[dict[str, Any]]:
    """Return the rows that tensors hold: one of all columns in order, or one a column by name.

    A column of vectors takes a tensor of shape [rows, numbers], of any name where the model has no other column.

    Raises
    ------
    TensorsDoNotFit
        If shapes, types and data contradict each other or the model. What lacks a column is found later.
    """
    values = [_values(tensor) for tensor in tensors]
    first = tensors[0]
    lengths = {column["name"]: column["length"] for column in model.columns if column["kind"] == "vector"}
    if lengths:
        return _rows_with_vectors(model, tensors, values, lengths)
    if len(tensors) == 1 and len(first.shape) == 2:
        names = _numbered(model)
        width = first.shape[1]
        if width != len(names):
            raise TensorsDoNotFit(
                f"input {first.name[:100]!r} has {width} columns, the model takes {len(names)}: all of them in one "
                "tensor, or one tensor a column"
            )
        return [dict(zip(names, values[0][start : start + width], strict=True)) for start in _starts(first, width)]
    _check_columns(tensors, {})
    names = [tensor.name for tensor in tensors]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def _rows_with_vectors(
    model: AnyModel, tensors: Sequence[InputTensor], values: Sequence[list[Any]], lengths: Mapping[str, int]
) -> list[dict[str, Any]]:
    if len(tensors) == len(model.columns) == 1:
        tensors = [tensors[0].model_copy(update={"name": model.columns[0]["name"]})]
    _check_columns(tensors, lengths)
    columns = [
        [flat[start : start + tensor.shape[1]] for start in _starts(tensor, tensor.shape[1])]
        if tensor.name in lengths
        else flat
        for tensor, flat in zip(tensors, values, strict=True)
    ]
    names = [tensor.name for tensor in tensors]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _check_columns(tensors: Sequence[InputTensor], lengths: Mapping[str, int]) -> None:
    """Check the shapes of tensors of one column each; `lengths` has those of vectors."""
    names = [tensor.name for tensor in tensors]
    if len(set(names)) != len(names):
        raise TensorsDoNotFit("two inputs have the same name")
    for tensor in tensors:
        length = lengths.get(tensor.name)
        shapes = ([], [1]) if length is None else ([length],)
        if tensor.shape[1:] not in shapes or tensor.shape[0] != tensors[0].shape[0]:
            expected = "[rows] or [rows, 1]" if length is None else f"[rows, {length}]"
            raise TensorsDoNotFit(
                f"input {tensor.name[:100]!r}: expected the shape {expected}, with as many rows as the others have"
            )


def tensors_of(decisions: Decisions, request: InferRequest, name: str) -> InferAnswer:
    """Return decisions as the outputs that were asked for; raises `TensorsDoNotFit` if one does not exist."""
    made = decisions.predictions
    count = [len(made)]
    outputs = {
        output: OutputTensor(name=output, shape=count, datatype=datatype, data=_data(made, output))
        for output, datatype in OUTPUTS
        if made and (output == "label" or made[0].get(output) is not None)
    }
    classes: list[str] = []
    for output in OF_CLASSES if made and "scores" in made[0] else ():
        if made[0][output] is not None:
            classes = list(made[0][output])
            flat = [value for row in made for value in row[output].values()]
            outputs[output] = OutputTensor(name=output, shape=[len(made), len(classes)], datatype="FP64", data=flat)
    wanted = list(outputs) if request.outputs is None else [output.name for output in request.outputs]
    for output in wanted:
        if output not in outputs:
            raise TensorsDoNotFit(f"the outputs of this model are {', '.join(outputs)}")
    parameters: dict[str, str | float] = {}
    if decisions.threshold is not None:
        parameters["threshold"] = decisions.threshold
    if classes:
        parameters["classes"] = orjson.dumps(classes).decode()
    if decisions.threshold_probability is not None:
        parameters["threshold_probability"] = decisions.threshold_probability
    parameters |= {name: bound for name, bound in (decisions.abstain or {}).items() if bound is not None}
    if decisions.warnings:
        parameters["warnings"] = "; ".join(decisions.warnings)
    return InferAnswer(
        model_name=name,
        model_version=decisions.model,
        id=request.id,
        parameters=parameters,
        outputs=[outputs[output] for output in wanted],
    )


def _data(made: Sequence[Mapping[str, Any]], output: str) -> list[Any]:
    """The values of an output. A tensor has no null: a row that is left undecided has an empty label."""
    values = [row[output] for row in made]
    if output == "explanation":
        return [orjson.dumps(value).decode() for value in values]
    return ["" if value is None else value for value in values] if output == "label" else values


def _numbered(model: AnyModel) -> Sequence[str]:
    """The names of the columns of one tensor of all of them."""
    columns: Sequence[Mapping[str, Any]] = model.columns
    return [column["name"] for column in columns] or (model.features.feature_names if model.features else [])


def _starts(tensor: InputTensor, width: int) -> range:
    return range(0, tensor.shape[0] * width, width)


def _values(tensor: InputTensor) -> list[Any]:
    """The data of a tensor as a flat list, checked against its shape and type."""
    place = f"input {tensor.name[:100]!r}"
    if not tensor.shape or any(size < 0 for size in tensor.shape) or tensor.shape[0] == 0:
        raise TensorsDoNotFit(f"{place}: its shape must be of numbers from 0 up, with at least one row")
    values = tensor.data
    for _ in tensor.shape[1:]:
        if values and all(type(item) is list for item in values):
            values = [value for item in values for value in item]
    if len(values) != math.prod(tensor.shape):
        raise TensorsDoNotFit(f"{place}: its data has not as many values as its shape says")
    if tensor.datatype == "BYTES":
        kinds: tuple[type, ...] = (str,)
    elif tensor.datatype == "BOOL":
        kinds = (bool,)
    elif tensor.datatype in INTEGERS:
        kinds = (int,)
    elif tensor.datatype in FLOATS:
        kinds = (float, int)
    else:
        raise TensorsDoNotFit(
            f"{place}: its datatype must be BYTES, BOOL, FP16 to FP64, INT8 to INT64, UINT8 to UINT64"
        )
    if not all(value is None or type(value) in kinds for value in values):
        raise TensorsDoNotFit(f"{place}: its data has values that are not of its datatype {tensor.datatype}")
    return values

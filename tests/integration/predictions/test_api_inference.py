"""The Open Inference Protocol: answers against the schemas of its specification (version 2.0), errors in its form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from api_support import store_model, tiny_model
from jsonschema import Draft202012Validator

from service.db.session import Database
from solver.decision import DecisionState
from solver.features import Column, MatrixData, MatrixFeatures, Table, TableFeatures
from solver.model_file import Model

PARAMETERS = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
STRING = {"type": "string"}
SHAPE = {"type": "array", "items": {"type": "integer"}}
DATA = {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/data"}, {"type": ["number", "string", "boolean"]}]}}


def schema(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "$defs": {"data": DATA}}


TENSOR = {
    "type": "object",
    "properties": {"name": STRING, "datatype": STRING, "shape": SHAPE},
    "required": ["name", "datatype", "shape"],
}
OUTPUT = {
    "type": "object",
    "properties": {"name": STRING, "shape": SHAPE, "datatype": STRING, "parameters": PARAMETERS, "data": DATA},
    "required": ["name", "shape", "datatype", "data"],
}
SERVER = schema(
    {"name": STRING, "version": STRING, "extensions": {"type": "array", "items": STRING}},
    ["name", "version", "extensions"],
)
METADATA = schema(
    {
        "name": STRING,
        "versions": {"type": "array", "items": STRING},
        "platform": STRING,
        "inputs": {"type": "array", "items": TENSOR},
        "outputs": {"type": "array", "items": TENSOR},
    },
    ["name", "platform"],
)
RESPONSE = schema(
    {
        "model_name": STRING,
        "model_version": STRING,
        "id": STRING,
        "parameters": PARAMETERS,
        "outputs": {"type": "array", "items": OUTPUT},
    },
    ["model_name", "outputs"],
)
ERROR = schema({"error": STRING}, ["error"]) | {"additionalProperties": False}

AGES, JOBS = [39.0, 21.5], ["clerk", "cook"]
BY_COLUMN = [
    {"name": "age", "shape": [2], "datatype": "FP64", "data": AGES},
    {"name": "job", "shape": [2, 1], "datatype": "BYTES", "data": [[job] for job in JOBS]},
]


def checked(response: httpx.Response, form: dict[str, Any], status: int = 200) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    Draft202012Validator(form).validate(body)
    return body


def numbers_model() -> Model:
    """A model of numbers only; its score is the sum of its columns, each less its mean and over its deviation."""
    values = np.array([[0.0, 10, -1], [1, 20, 0], [2, 30, 1]])
    table = Table({name: Column(name, "number", values[:, j]) for j, name in enumerate("abc")})
    features = TableFeatures().fit(table)
    decision = DecisionState(
        kind="linear", gamma=1.0, degree=3, coef0=0.0, support_vectors=np.ones((1, 3)), dual_coef=np.ones(1),
        intercept=0.0, threshold=0.5,
    )  # fmt: skip
    return Model("svm", {}, {"kind": "f1"}, (-1, 1), decision, features)


def test_health_and_metadata(client: httpx.Client, database: Database, tmp_path: Path) -> None:
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True}
    assert checked(client.get("/v2"), SERVER)["name"] == "prefsvm"
    model_id = store_model(database, tmp_path)
    client.put("/aliases/spam-filter", json={"model": model_id}).raise_for_status()
    for path in ("/v2/models/spam-filter", f"/v2/models/spam-filter/versions/{model_id}"):
        described = checked(client.get(path), METADATA)
        assert (described["name"], described["versions"]) == ("spam-filter", [model_id])
        assert described["inputs"] == [
            {"name": "age", "datatype": "FP64", "shape": [-1]},
            {"name": "job", "datatype": "BYTES", "shape": [-1]},
        ]
        assert [output["name"] for output in described["outputs"]] == ["label", "score"]
        assert client.get(f"{path}/ready").json() == {"name": "spam-filter", "ready": True}
    for path in ("/v2/models/nobody", "/v2/models/nobody/ready", "/v2/models/spam-filter/versions/2/ready"):
        checked(client.get(path), ERROR, 404)


def test_one_tensor_a_column_gives_what_predict_gives(client: httpx.Client, database: Database, tmp_path: Path) -> None:
    model_id = store_model(database, tmp_path)
    rows = [{"age": age, "job": job} for age, job in zip(AGES, JOBS, strict=True)]
    expected = client.post("/predict", json={"model": model_id, "rows": rows}).json()
    for path in (f"/v2/models/{model_id}/infer", f"/v2/models/{model_id}/versions/{model_id}/infer"):
        made = checked(client.post(path, json={"id": "42", "inputs": BY_COLUMN}), RESPONSE)
        assert (made["model_name"], made["model_version"], made["id"]) == (model_id, model_id, "42")
        assert made["parameters"] == {"threshold": expected["threshold"]}
        labels, scores = made["outputs"]
        assert labels == {
            "name": "label",
            "datatype": "BYTES",
            "shape": [2],
            "data": [row["label"] for row in expected["predictions"]],
        }
        assert scores["data"] == [row["score"] for row in expected["predictions"]]
    odd = [BY_COLUMN[0], {**BY_COLUMN[1], "data": ["king", "cook"]}, {**BY_COLUMN[0], "name": "shoe"}]
    body = {"inputs": odd, "outputs": [{"name": "score"}]}
    made = checked(client.post(f"/v2/models/{model_id}/infer", json=body), RESPONSE)
    assert [output["name"] for output in made["outputs"]] == ["score"]
    assert "shoe" in made["parameters"]["warnings"]
    assert "1 row(s) hold a category that training never saw" in made["parameters"]["warnings"]


@pytest.mark.parametrize("data", [[0, 10, -1, 2, 30, 1], [[0.0, 10.0, -1.0], [2.0, 30.0, 1.0]]])
def test_one_tensor_of_all_columns(client: httpx.Client, database: Database, tmp_path: Path, data: list[Any]) -> None:
    tables = store_model(database, tmp_path, numbers_model())
    features = MatrixFeatures().fit(MatrixData(np.array([[1.0, 2, 0], [0, -4, 8]])))
    decision = numbers_model().decision
    matrices = store_model(database, tmp_path, Model("svm", {}, {"kind": "f1"}, ("no", "yes"), decision, features))
    kind = "FP64" if isinstance(data[0], list) else "INT32"
    body = {"inputs": [{"name": "input", "shape": [2, 3], "datatype": kind, "data": data}]}
    of_tables, of_matrices = [-3 * 1.5**0.5, 3 * 1.5**0.5], [10 / 4 - 1 / 8, 2 + 3 + 1 / 8]  # 30 / 4 is cut
    for model_id, labels, scores in ((tables, ["-1", "1"], of_tables), (matrices, ["yes", "yes"], of_matrices)):
        described = checked(client.get(f"/v2/models/{model_id}"), METADATA)
        assert described["inputs"] == [{"name": "input", "datatype": "FP64", "shape": [-1, 3]}]
        made = checked(client.post(f"/v2/models/{model_id}/infer", json=body), RESPONSE)
        assert made["outputs"][0]["data"] == labels
        assert made["outputs"][1]["data"] == pytest.approx(scores)


def test_errors_have_the_form_of_the_protocol(client: httpx.Client, database: Database, tmp_path: Path) -> None:
    model_id = store_model(database, tmp_path, tiny_model())
    cases: list[tuple[list[Any], str]] = [
        ([], "body.inputs"),
        (BY_COLUMN[:1], "'job'"),
        ([{**BY_COLUMN[0], "shape": [3]}, BY_COLUMN[1]], "not as many values as its shape says"),
        ([{**BY_COLUMN[0], "shape": [1 << 62, 1 << 62]}, BY_COLUMN[1]], "not as many values as its shape says"),
        ([{**BY_COLUMN[0], "shape": [-2]}, BY_COLUMN[1]], "from 0 up"),
        ([{**BY_COLUMN[0], "shape": [0], "data": []}, BY_COLUMN[1]], "at least one row"),
        ([{**BY_COLUMN[0], "datatype": "COMPLEX"}, BY_COLUMN[1]], "datatype must be"),
        ([{**BY_COLUMN[0], "data": [1, "2"]}, BY_COLUMN[1]], "not of its datatype FP64"),
        ([{**BY_COLUMN[0], "data": [1, [2]]}, BY_COLUMN[1]], "not of its datatype FP64"),
        ([{**BY_COLUMN[0], "data": [[1], [2]]}, BY_COLUMN[1]], "not of its datatype FP64"),
        ([BY_COLUMN[0], BY_COLUMN[0]], "same name"),
        ([BY_COLUMN[0], {**BY_COLUMN[1], "shape": [1], "data": ["cook"]}], "as many rows"),
        ([{"name": "input", "shape": [2, 3], "datatype": "FP64", "data": [1] * 6}], "the model takes 2"),
        ([{"name": "age", "shape": [2], "datatype": "FP64"}], "body.inputs.0.data"),
    ]
    for inputs, said in cases:
        error = checked(client.post(f"/v2/models/{model_id}/infer", json={"inputs": inputs}), ERROR, 400)["error"]
        assert said in error, inputs


def test_errors_beside_the_tensors(client: httpx.Client, database: Database, tmp_path: Path) -> None:
    model_id = store_model(database, tmp_path)
    path = f"/v2/models/{model_id}/infer"
    checked(client.post("/v2/models/nobody/infer", json={"inputs": BY_COLUMN}), ERROR, 404)
    checked(client.post(path, json={"inputs": BY_COLUMN, "outputs": [{"name": "probability"}]}), ERROR, 400)
    checked(client.post(path, content=b"{", headers={"Content-Type": "application/json"}), ERROR, 400)
    checked(client.post(path, content=b"{}", headers={"Content-Type": "text/plain"}), ERROR, 415)
    many = [{"name": "age", "shape": [10_001], "datatype": "FP64", "data": [1] * 10_001}]
    assert "10000 rows" in checked(client.post(path, json={"inputs": many}), ERROR, 400)["error"]


def test_errors_in_front_of_the_protocol_have_its_member_too(client: httpx.Client) -> None:
    wrong_key = {"Authorization": "Bearer pfs_none"}
    for method, path, headers, status in (
        ("GET", "/v2", wrong_key, 401),
        ("POST", "/v2/models/spam/infer", wrong_key, 401),
        ("GET", "/v2/nothing", {}, 404),
        ("DELETE", "/v2/models/spam", {}, 405),
    ):
        answer = client.request(method, path, headers=headers)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["error"] == answer.json()["detail"]
    assert "GET" in answer.headers["allow"]
    for elsewhere in ("/v2x", "/models/mdl_0"):
        assert "error" not in client.get(elsewhere).json()

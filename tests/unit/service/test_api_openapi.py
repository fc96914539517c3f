"""The OpenAPI document: sound, with examples that are true, and changed only on purpose."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from service.api.docs import _page
from service.app import create_app
from service.settings import Settings

SNAPSHOT = Path(__file__).parents[3] / "docs" / "openapi.json"
KNOWN_TAGS = {
    "html",
    "meta",
    "title",
    "style",
    "h1",
    "h2",
    "h3",
    "p",
    "a",
    "details",
    "summary",
    "b",
    "i",
    "code",
    "table",
    "tr",
    "td",
    "pre",
}
OPERATIONS = {
    "cancelJob": "POST /jobs/{job_id}/cancel",
    "getInferenceModel": "GET /v2/models/{name}",
    "getInferenceModelReady": "GET /v2/models/{name}/ready",
    "getInferenceModelVersion": "GET /v2/models/{name}/versions/{version}",
    "getInferenceModelVersionReady": "GET /v2/models/{name}/versions/{version}/ready",
    "getServerLive": "GET /v2/health/live",
    "getServerMetadata": "GET /v2",
    "getServerReady": "GET /v2/health/ready",
    "infer": "POST /v2/models/{name}/infer",
    "inferVersion": "POST /v2/models/{name}/versions/{version}/infer",
    "cancelBatch": "POST /batches/{batch_id}/cancel",
    "createBatch": "POST /batches",
    "deleteAlias": "DELETE /aliases/{name}",
    "deleteAliasShadow": "DELETE /aliases/{name}/shadow",
    "getAlias": "GET /aliases/{name}",
    "getAliasShadow": "GET /aliases/{name}/shadow",
    "getBatch": "GET /batches/{batch_id}",
    "getBatchResult": "GET /batches/{batch_id}/result",
    "listBatches": "GET /batches",
    "chooseOperatingPoint": "POST /models/{model_id}/operating-points",
    "changeProject": "PATCH /projects/{project_id}",
    "appendToUpload": "PATCH /uploads/{upload_id}",
    "correctDataset": "PATCH /datasets/{dataset_id}",
    "createDataset": "POST /datasets",
    "createUpload": "POST /uploads",
    "deleteUpload": "DELETE /uploads/{upload_id}",
    "describeUploads": "OPTIONS /uploads",
    "getUpload": "GET /uploads/{upload_id}",
    "listUploads": "GET /uploads",
    "getUploadOffset": "HEAD /uploads/{upload_id}",
    "createKey": "POST /keys",
    "createProject": "POST /projects",
    "deleteDataset": "DELETE /datasets/{dataset_id}",
    "deleteModel": "DELETE /models/{model_id}",
    "exportModel": "GET /models/{model_id}/export",
    "getDataset": "GET /datasets/{dataset_id}",
    "getHealth": "GET /healthz",
    "getJob": "GET /jobs/{job_id}",
    "retrainAlias": "POST /aliases/{name}/retrain",
    "retryJob": "POST /jobs/{job_id}/retry",
    "createWebhook": "POST /webhooks",
    "listWebhooks": "GET /webhooks",
    "deleteWebhook": "DELETE /webhooks/{webhook_id}",
    "listWebhookDeliveries": "GET /webhooks/{webhook_id}/deliveries",
    "getModel": "GET /models/{model_id}",
    "getModelCard": "GET /models/{model_id}/card",
    "getModelCurve": "GET /models/{model_id}/curves/{kind}",
    "getModelDrift": "GET /models/{model_id}/drift",
    "getLimits": "GET /limits",
    "getMetrics": "GET /metrics",
    "getProject": "GET /projects/{project_id}",
    "getReadiness": "GET /readyz",
    "listAliases": "GET /aliases",
    "listDatasets": "GET /datasets",
    "listJobEvents": "GET /jobs/{job_id}/events",
    "listJobs": "GET /jobs",
    "listKeys": "GET /keys",
    "listModels": "GET /models",
    "listOperatingPoints": "GET /models/{model_id}/operating-points",
    "listProjects": "GET /projects",
    "predict": "POST /predict",
    "putAlias": "PUT /aliases/{name}",
    "revokeKey": "DELETE /keys/{key_id}",
    "rollbackAlias": "POST /aliases/{name}/rollback",
    "rotateKey": "POST /keys/{key_id}/rotate",
    "addFeedback": "POST /feedback",
    "deleteFeedback": "DELETE /feedback/{feedback_id}",
    "getFeedback": "GET /feedback/{feedback_id}",
    "listFeedback": "GET /feedback",
    "train": "POST /train",
}


@pytest.fixture(scope="module")
def document(tmp_path_factory) -> dict[str, Any]:
    settings = Settings(database_url="postgresql://nobody@/nothing", data_dir=tmp_path_factory.mktemp("data"))
    return create_app(settings).openapi()


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def walk(value):
    yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(item)


def test_snapshot(document):
    """Clients are generated from this document: a change must be meant, and then be named in the change log."""
    text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if os.environ.get("WRITE_SNAPSHOT"):
        SNAPSHOT.write_text(text)
    assert text == SNAPSHOT.read_text(), "to accept: WRITE_SNAPSHOT=1 pytest tests/unit/service/test_api_openapi.py"


def test_operation_ids_are_the_agreed_ones(document):
    found = {operation["operationId"]: f"{method.upper()} {path}" for path, method, operation in operations(document)}
    assert found == OPERATIONS
    assert len(list(operations(document))) == len(found)


def test_structure(document):
    assert re.fullmatch(r"3\.1\.\d", document["openapi"])
    assert document["info"]["title"] == "prefsvm"
    for path, _, operation in operations(document):
        in_path = {parameter["name"] for parameter in operation.get("parameters", []) if parameter["in"] == "path"}
        assert in_path == set(re.findall(r"{(\w+)}", path))
        keys = [(parameter["in"], parameter["name"]) for parameter in operation.get("parameters", [])]
        assert len(keys) == len(set(keys)), path
        assert operation["summary"]
        assert operation["description"]
        assert all(re.fullmatch(r"[1-5]\d\d", status) for status in operation["responses"])
        assert all(response["description"] for response in operation["responses"].values())


def test_references_lead_somewhere_and_nothing_is_left_over(document):
    wanted = {node["$ref"] for node in walk(document) if isinstance(node, dict) and "$ref" in node}
    there = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert wanted == there


def test_schemas_are_schemas_and_their_examples_are_true(document):
    validator = jsonschema.Draft202012Validator
    examples = 0
    for name, schema in document["components"]["schemas"].items():
        validator.check_schema(schema)
        whole = {**schema, "components": document["components"]}
        for example in schema.get("examples", []):
            validator(whole, format_checker=validator.FORMAT_CHECKER).validate(example)
            examples += 1
        for part, below in schema.get("properties", {}).items():
            for example in below.get("examples", []):
                validator({**below, "components": document["components"]}).validate(example)
                examples += 1
            assert "default" not in below or validator({**below, "components": document["components"]}).is_valid(
                below["default"]
            ), (name, part)
    assert examples > 12


def test_every_error_is_documented_as_a_problem(document):
    for path, method, operation in operations(document):
        if path in ("/healthz", "/readyz", "/metrics") or path.startswith("/v2"):  # which is another protocol
            continue
        errors = {status: response for status, response in operation["responses"].items() if status >= "400"}
        assert "503" in errors, path
        assert "422" in errors, path
        if "{" in path and (method, path) != ("put", "/aliases/{name}"):
            assert "404" in errors, path
        if "requestBody" in operation:
            assert {"413", "415"} <= set(errors), path
        for response in errors.values():
            assert list(response["content"]) == ["application/problem+json"]


def test_the_page_for_people_names_every_call_and_needs_no_network(document):
    page = "".join(_page(document))
    for path, method, _ in operations(document):
        assert f"<b>{method.upper()}</b> <code>{path}</code>" in page
    # Addresses stand in examples, and nothing is fetched from one.
    assert not re.search(r"<script|<link|src=|href=.?https?:|url\(|@import", page)
    assert [tag for tag in re.findall(r"<(\w+)", page) if tag not in KNOWN_TAGS] == []
    assert "<b>&" not in page
    assert "<code>Idempotency-Key</code>" in page
    links = set(re.findall(r"href=['\"]?([^'\">]+)", page))
    assert links - {"/openapi.json"} <= {f"#{name}" for name in re.findall(r" id='([^']+)'", page)}


def test_bodies_refuse_unknown_fields(document):
    schemas = document["components"]["schemas"]
    for name in (
        "TrainRequest",
        "PredictRequest",
        "PutAlias",
        "Cancel",
        "Features",
        "RecallObjective",
        "CostObjective",
    ):
        assert schemas[name]["additionalProperties"] is False

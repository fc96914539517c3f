"""The OpenAPI document: sound, with examples that are true, and changed only on purpose."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from service.app import create_app
from service.settings import Settings

SNAPSHOT = Path(__file__).parents[3] / "docs" / "openapi.json"


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


def test_structure(document):
    assert re.fullmatch(r"3\.1\.\d", document["openapi"])
    assert document["info"]["title"] == "prefsvm"
    for path, _, operation in operations(document):
        in_path = {parameter["name"] for parameter in operation.get("parameters", []) if parameter["in"] == "path"}
        assert in_path == set(re.findall(r"{(\w+)}", path))
        keys = [(parameter["in"], parameter["name"]) for parameter in operation.get("parameters", [])]
        assert len(keys) == len(set(keys)), path
        assert operation["summary"]
        assert operation["description"].startswith(operation["summary"])
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


def test_every_body_has_an_example(document):
    """Which `/docs` fills in where one tries a call. What is bytes only is a file that one chooses."""
    components = document["components"]
    for path, method, operation in operations(document):
        for kind, content in operation.get("requestBody", {}).get("content", {}).items():
            if kind in ("multipart/form-data", "application/octet-stream", "application/offset+octet-stream"):
                continue
            schema = content["schema"]
            for below in schema.get("anyOf", [schema]):
                below = components["schemas"].get(below.get("$ref", "").rpartition("/")[2], below)
                if below.get("type") != "null":
                    assert "example" in content or below.get("examples"), (method, path, kind)


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

"""The OpenAPI document: FastAPI's, with our problems in place of its errors."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from service.api.access import route_access
from service.api.parameters import problems
from service.api.problem import ProblemBody
from service.audits.schemas import EXAMPLE_AUDIT
from service.batches.schemas import EXAMPLE_BATCH
from service.jobs.schemas import EXAMPLE_JOB
from service.webhooks.schemas import EXAMPLE_DELIVERY

OTHER_PROTOCOLS = ("/v2", "/metrics")
"""How paths begin of calls that answer with errors of other forms."""


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the document of `app`."""
    document = get_openapi(
        title=app.title, version=app.version, summary=app.summary, description=app.description, routes=app.routes
    )
    schemas = document["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for path, methods in document["paths"].items():
        for operation in methods.values():  # in place of the name of a function: what a page shows beside the address
            operation["summary"] = re.split(r"\.(?:\s|$)", operation["description"], maxsplit=1)[0]
        if path.startswith("/v2"):  # the Open Inference Protocol has 400 for all that FastAPI has 422 for
            for operation in methods.values():
                operation["responses"].pop("422", None)
    problem = ProblemBody.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs"))
    schemas["Problem"] = problem | {"title": "Problem"}
    # FastAPI drops nulls, also from examples, where they are what an unfinished job shows.
    schemas["Job"]["examples"] = [EXAMPLE_JOB]
    schemas["Audit"]["examples"] = [EXAMPLE_AUDIT]
    schemas["Batch"]["examples"] = [EXAMPLE_BATCH]
    schemas["WebhookDelivery"]["examples"] = [EXAMPLE_DELIVERY]
    _add_access(app, document)
    _spell_constants(document)
    return document


def _spell_constants(node: Any) -> None:
    """Put an `enum` of one beside each `const`, which generators of clients that are not quite new do not know."""
    if isinstance(node, list):
        for item in node:
            _spell_constants(item)
    elif isinstance(node, dict):
        if isinstance(node.get("const"), str):
            node.setdefault("enum", [node["const"]])
        for name, item in node.items():
            if name not in ("examples", "example", "default"):
                _spell_constants(item)


def _add_access(app: FastAPI, document: dict[str, Any]) -> None:
    """Say of every call which scope its key must have, and how any call answers that may not, cannot, or not now."""
    document["components"]["securitySchemes"] = {
        "apiKey": {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key, `Authorization: Bearer pfs_…`. A service that listens on a loopback address "
            "needs none, unless it is told to.",
        }
    }
    for route in route_access(app):
        if route.required is None or route.path not in document["paths"]:  # pages are no calls
            continue
        for method in route.methods:
            operation = document["paths"][route.path][method.lower()]
            operation["security"] = [{"apiKey": [route.required.scope]}]
            usual, said = [401, 403, 429, 503], operation["responses"]
            if not route.path.startswith(OTHER_PROTOCOLS):
                takes_json = "application/json" in operation.get("requestBody", {}).get("content", ())
                usual += [413, 415, 422] if takes_json else [422]
                said.pop("422", None)  # FastAPI's
            operation["responses"] = said | {str(status): answer for status, answer in problems(*usual).items()}

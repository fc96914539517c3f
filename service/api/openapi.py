"""The OpenAPI document: FastAPI's, with our problems in place of its errors."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from service.api.problem import ProblemBody
from service.jobs.schemas import EXAMPLE_JOB


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the document of `app`."""
    document = get_openapi(
        title=app.title, version=app.version, summary=app.summary, description=app.description, routes=app.routes
    )
    schemas = document["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    problem = ProblemBody.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs"))
    schemas["Problem"] = problem | {"title": "Problem"}
    # FastAPI drops nulls, also from examples, where they are what an unfinished job shows.
    schemas["Job"]["examples"] = [EXAMPLE_JOB]
    return document

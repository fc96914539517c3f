"""Where a request is wrong is said in the request's own words, whatever the program calls its types and functions."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from service.api.problem import invalid_request
from service.audits.schemas import AuditRequest
from service.jobs.schemas import TrainRequest

AUDIT = {"model": "m", "dataset": "d", "objective": {"kind": "precision", "target": 0.9}}
TRAINING = {"dataset": "d", "target": "t", "objective": {"kind": "f1"}}


@pytest.mark.parametrize(
    ("schema", "body", "place"),
    [
        (AuditRequest, AUDIT | {"thresholds": [1, 1]}, "body.thresholds"),
        (AuditRequest, AUDIT | {"thresholds": [0.5, "a"]}, "body.thresholds.1"),
        (AuditRequest, AUDIT | {"thresholds": 3}, "body.thresholds"),
        (TrainRequest, TRAINING | {"features": {"kinds": {"list[a]b": 7}}}, "body.features.kinds.list[a]b"),
    ],
)
def test_where_it_is_wrong(schema: type[BaseModel], body: dict[str, Any], place: str) -> None:
    with pytest.raises(ValidationError) as refused:
        schema.model_validate(body)
    errors = refused.value.errors()
    told = invalid_request(RequestValidationError([{**each, "loc": ("body", *each["loc"])} for each in errors]))
    assert told.errors[0].field == place

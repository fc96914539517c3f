"""Schemathesis reads the document and calls every operation: no 5xx, and every answer is as the document says.

A bounded number of calls by default, a long run by ``make fuzz``.
"""

from __future__ import annotations

import os

import pytest
import schemathesis
from api_support import api_client, store_dataset, store_model
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
FEW = 4
MANY = int(os.environ.get("SCHEMATHESIS_EXAMPLES", "150"))


@schemathesis.serializer("application/offset+octet-stream")
def as_bytes(_context, value):
    """Give the bytes of a piece of an upload."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


def call_everything(client, examples: int) -> tuple[dict[str, int], set[int]]:
    """Call each operation with generated input; returns how often each was called, and the statuses that came."""
    calls: dict[str, int] = {}
    statuses: set[int] = set()
    document = client.get("/openapi.json").json()
    # This service asks for no key, and wrong ones are refused: with generated keys nothing behind the door is reached.
    del document["components"]["securitySchemes"]
    schema = schemathesis.openapi.from_dict(document)
    for found in schema.get_all_operations():
        operation = found.ok()
        calls[operation.label] = 0

        @hypothesis_settings(
            max_examples=examples,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def check(case):
            calls[case.operation.label] += 1
            response = case.call_and_validate(base_url=str(client.base_url), checks=CHECKS, timeout=30)
            statuses.add(response.status_code)

        check()
    return calls, statuses


@pytest.fixture
def client(settings, database, tmp_path):
    with api_client(settings) as client:
        store_dataset(database)
        client.put("/aliases/spam-filter", json={"model": store_model(database, tmp_path)})
        yield client


def test_every_operation_answers_as_documented(client):
    calls, statuses = call_everything(client, FEW)
    assert {200, 404, 422} <= statuses  # it gets past the doors
    assert len(calls) >= 40
    assert min(calls.values()) >= 1


@pytest.mark.fuzz
def test_every_operation_answers_as_documented_for_long(client):
    calls, statuses = call_everything(client, MANY)
    assert {200, 404, 422} <= statuses
    assert sum(calls.values()) >= 0.7 * MANY * len(calls)

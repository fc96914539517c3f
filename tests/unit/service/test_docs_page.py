"""The page ``/docs``: it shows the whole document, needs nothing from elsewhere, and its links lead somewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from service.api.docs import docs_router

DOCUMENT = json.loads((Path(__file__).parents[3] / "docs" / "openapi.json").read_text())


@pytest.fixture(scope="module")
def page() -> str:
    route = next(route for route in docs_router(lambda: DOCUMENT).routes if route.path == "/docs")
    answer = route.endpoint()
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    return answer.body.decode()


def test_every_call_and_every_schema_is_there(page: str) -> None:
    for path, methods in DOCUMENT["paths"].items():
        for method in methods:
            assert f"<b>{method.upper()}</b> <code>{path}</code>" in page
    assert all(f"<p id='{name}'>" in page for name in DOCUMENT["components"]["schemas"])


def test_nothing_is_fetched(page: str) -> None:
    assert not re.search(r"<(script|link|img|iframe)|src=|url\(|@import", page)
    links = set(re.findall(r"href=['\"]?([^'\">]+)", page))
    assert {link for link in links if not link.startswith("#")} == {"/openapi.json"}
    assert {f"#{name}" for name in re.findall(r" id='([^']+)'", page)} >= links - {"/openapi.json"}


def test_what_stands_in_backticks_is_code(page: str) -> None:
    assert "<code>Idempotency-Key</code>" in page

"""``/docs``: the OpenAPI document as one plain page. It needs no network and runs nothing in the browser."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from html import escape
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, RedirectResponse

STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
code,pre{font:14px/1.45 ui-monospace,monospace;background:#f4f4f4}pre{padding:.7rem;overflow:auto}
summary{cursor:pointer;padding:.3rem 0}summary b{display:inline-block;width:4.5rem}
table{border-collapse:collapse}td{padding:.15rem .8rem .15rem 0;vertical-align:top}"""
POLICY = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"}


def docs_router(describe: Callable[[], dict[str, Any]]) -> APIRouter:
    """Return the route of the page; `describe` gives the OpenAPI document."""
    router = APIRouter()

    @router.get("/", include_in_schema=False)
    def start() -> RedirectResponse:
        # The address that `prefsvm serve` prints is what people open in a browser.
        return RedirectResponse("/docs")

    @router.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse("".join(_page(describe())), headers=POLICY)

    return router


def _page(document: dict[str, Any]) -> Iterator[str]:
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    yield f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{STYLE}</style>"
    yield f"<h1>{title}</h1><p>{escape(document['info']['description'])}</p>"
    yield "<p>For programs: <a href=/openapi.json>/openapi.json</a>.</p><h2>Calls</h2>"
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield from _operation(f"<b>{method.upper()}</b> <code>{escape(path)}</code>", operation)
    yield "<h2>Schemas</h2>"
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield f"<details id='{escape(name)}'><summary><code>{escape(name)}</code></summary>"
        yield f"<p>{escape(schema.get('description', ''))}</p>{_json(schema)}</details>"


def _operation(heading: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"<details><summary>{heading}</summary><p>{escape(operation['description'])}</p><table>"
    for parameter in operation.get("parameters", []):
        text = escape(parameter.get("description", ""))
        yield f"<tr><td><code>{escape(parameter['name'])}</code><td>{escape(parameter['in'])}<td>{text}"
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"<tr><td>body<td>{escape(kind)}<td>{_schema(content)}"
    for status, response in operation["responses"].items():
        schemas = ", ".join(map(_schema, response.get("content", {}).values()))
        yield f"<tr><td>{escape(status)}<td>{escape(response['description'])}<td>{schemas}"
    yield "</table></details>"


def _schema(content: dict[str, Any]) -> str:
    schema = content.get("schema", {})
    name = escape(schema.get("$ref", "").rpartition("/")[2])
    return f"<a href='#{name}'>{name}</a>" if name else _json(schema)


def _json(value: Any) -> str:
    return f"<pre>{escape(json.dumps(value, indent=2, ensure_ascii=False))}</pre>"

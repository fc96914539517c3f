"""``/docs``: the OpenAPI document as one plain page. It needs no network and runs nothing in the browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from html import escape
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, RedirectResponse

STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
code,pre{font:14px/1.45 ui-monospace,monospace;background:#f4f4f4}pre{padding:.7rem;margin:0;white-space:pre-wrap}
h3{margin:1.5rem 0 .3rem}details{border-bottom:1px solid #eee;scroll-margin-top:1rem}details[open]{padding-bottom:1rem}
summary{cursor:pointer;padding:.3rem 0}summary b{display:inline-block;min-width:5rem}
summary i{color:#666;font-style:normal}
table{width:100%;table-layout:fixed;border-collapse:collapse}td{padding:.25rem .8rem .25rem 0;vertical-align:top}
td,p,pre,summary{overflow-wrap:anywhere}td:first-child{width:22%}td:nth-child(2){width:24%}
@media(max-width:40rem){td,td:first-child,td:nth-child(2){display:block;width:auto;padding:0}
tr{display:block;padding:.4rem 0}}
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}code,pre{background:#262626}a{color:#8ab4f8}
details{border-color:#333}summary i{color:#999}}"""
_CODE = re.compile(r"`([^`]+)`")
_REFERENCE = re.compile(r"#/components/schemas/(\w+)")
_LINK = r"<a href='#\1'>#/components/schemas/\1</a>"
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
    yield f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title>"
    yield f"<meta name=viewport content='width=device-width,initial-scale=1'><style>{STYLE}</style>"
    yield f"<h1>{title}</h1><p>{_text(document['info']['description'])}</p>"
    yield "<p>For programs: <a href=/openapi.json>/openapi.json</a>.</p><h2>Calls</h2>"
    for tag, operations in sorted(_by_tag(document).items()):
        yield f"<h3>{escape(tag)}</h3>"
        for heading, operation in operations:
            yield from _operation(heading, operation)
    yield "<h2>Schemas</h2>"
    for name, schema in sorted(document["components"]["schemas"].items()):
        # The target of links is inside, so that a browser opens what is around it.
        yield f"<details><summary><code>{escape(name)}</code></summary>"
        yield f"<p id='{escape(name)}'>{_text(schema.get('description', ''))}</p>{_json(schema)}</details>"


def _by_tag(document: dict[str, Any]) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Return headings and operations by what they are about."""
    found: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            heading = f"<b>{method.upper()}</b> <code>{escape(path)}</code>"
            found.setdefault(operation.get("tags", ["other"])[0], []).append((heading, operation))
    return found


def _operation(heading: str, operation: dict[str, Any]) -> Iterator[str]:
    first_sentence, *more = re.split(r"\.(?:\s+|$)", operation["description"], maxsplit=1)
    yield f"<details><summary>{heading} <i>{_text(first_sentence)}</i></summary>"
    yield f"<p>{_text(''.join(more))}</p><table>"
    for parameter in operation.get("parameters", []):
        required = ", required" if parameter.get("required") else ""
        text = _text(parameter.get("description", ""))
        yield f"<tr><td><code>{escape(parameter['name'])}</code><td>{escape(parameter['in'])}{required}<td>{text}"
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"<tr><td>body<td>{escape(kind)}<td>{_schema(content)}"
    for status, response in operation["responses"].items():
        schemas = ", ".join(map(_schema, response.get("content", {}).values()))
        yield f"<tr><td>{escape(status)}<td>{_text(response['description'])}<td>{schemas}"
    yield "</table></details>"


def _schema(content: dict[str, Any]) -> str:
    schema = content.get("schema", {})
    name = escape(schema.get("$ref", "").rpartition("/")[2])
    return f"<a href='#{name}'>{name}</a>" if name else _json(schema)


def _text(markdown: str) -> str:
    """Return a text in which what stands in backticks is code."""
    return _CODE.sub(r"<code>\1</code>", escape(markdown))


def _json(value: Any) -> str:
    """Return a JSON value in which references to schemas lead to them."""
    text = escape(json.dumps(value, indent=2, ensure_ascii=False))
    return f"<pre>{_REFERENCE.sub(_LINK, text)}</pre>"

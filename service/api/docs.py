"""``/docs``: the calls, to read and to try, in Swagger UI. Its files come from here: the browser asks nobody else."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse

# Addresses are relative: a proxy may put the whole service below a path. A key that is typed in is not kept.
_START = (
    "SwaggerUIBundle({url:'openapi.json',dom_id:'#ui',deepLinking:true,filter:true,tryItOutEnabled:true,"
    "displayRequestDuration:true,docExpansion:'list',defaultModelsExpandDepth:0,validatorUrl:null})"
)
_BACK = (
    "<nav class=swagger-ui><div class=wrapper><p class=info><a href=ui>‹ Back to the pages of prefsvm</a></p></div>"
    "</nav>"
)
_PAGE = """<!doctype html><html lang=en><meta charset=utf-8><title>Calls · prefsvm</title>
<meta name=viewport content="width=device-width,initial-scale=1">
<link rel=icon href="docs/favicon-32x32.png"><link rel=stylesheet href="docs/swagger-ui.css">
{back}<main id=ui></main><script src="docs/swagger-ui-bundle.js"></script><script>{start}</script>"""
POLICY = "; ".join(
    (
        "default-src 'none'",
        f"script-src 'self' 'sha256-{b64encode(hashlib.sha256(_START.encode()).digest()).decode()}'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_FILES = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}
DOCS_PATHS = ("/", "/docs", *(f"/docs/{name}" for name in _FILES))


def start_router(*, has_pages: bool, has_docs: bool) -> APIRouter:
    """Return the route of the address that `prefsvm serve` prints, which is what people open in a browser."""
    router = APIRouter(include_in_schema=False)

    @router.api_route("/", methods=["GET", "HEAD"])
    def start(request: Request) -> Response:
        wants_page = has_pages and (not has_docs or "text/html" in request.headers.get("accept", ""))
        # Relative, as below; and told apart by what is asked for.
        return RedirectResponse("ui" if wants_page else "docs", headers={"Vary": "Accept"})

    return router


def docs_router(*, has_pages: bool) -> APIRouter:
    """Return the routes of the page and its files; where there are pages, it leads back to them."""
    router = APIRouter(include_in_schema=False)
    folder = Path(str(files("fastapi_swagger.resources")))
    page = _PAGE.format(back=_BACK if has_pages else "", start=_START)

    @router.get("/docs")
    def docs() -> HTMLResponse:
        return HTMLResponse(page, headers={"Content-Security-Policy": POLICY})

    def serve(name: str, media_type: str) -> None:
        @router.get(f"/docs/{name}")
        def file() -> FileResponse:
            return FileResponse(folder / name, media_type=media_type, headers={"Cache-Control": "max-age=3600"})

    for name, media_type in _FILES.items():
        serve(name, media_type)
    return router

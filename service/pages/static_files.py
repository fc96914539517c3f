"""Style sheets and scripts of the pages: ours, and those that ``scripts/vendor_pages.py`` has fetched.

They are small, so they are kept packed. An address with the right hash never changes its meaning, and may be kept.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request, Response

FOLDER = Path(__file__).parent / "static"
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FOREVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True)
class StaticFile:
    """A file, as it is and packed."""

    name: str
    media_type: str
    raw: bytes
    packed: bytes

    @property
    def version(self) -> str:
        """What its address ends with."""
        return hashlib.sha256(self.raw).hexdigest()[:16]


@cache
def static_files() -> tuple[StaticFile, ...]:
    """Return what the browser may ask for, read and packed once in a process."""
    return tuple(map(_packed, sorted(path for path in FOLDER.iterdir() if path.suffix in MEDIA_TYPES)))


def _packed(path: Path) -> StaticFile:
    raw = path.read_bytes()
    # Without the time, so that equal files are equal bytes.
    return StaticFile(path.name, MEDIA_TYPES[path.suffix], raw, gzip.compress(raw, 9, mtime=0))


def static_path(file: StaticFile) -> str:
    """Return where a file is."""
    return f"/ui/static/{file.name}"


def add_static(router: APIRouter, file: StaticFile) -> None:
    """Add the route of a file. Each has its own, so that the gate knows what is open to all."""

    @router.get(static_path(file))
    async def send(request: Request) -> Response:
        is_packed = "gzip" in request.headers.get("accept-encoding", "")
        is_of_this_version = request.query_params.get("v") == file.version
        headers = {
            "Cache-Control": FOREVER if is_of_this_version else "no-cache",
            "Vary": "Accept-Encoding",
            "Cross-Origin-Resource-Policy": "same-origin",
            **({"Content-Encoding": "gzip"} if is_packed else {}),
        }
        return Response(file.packed if is_packed else file.raw, media_type=file.media_type, headers=headers)

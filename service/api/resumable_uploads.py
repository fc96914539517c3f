"""``/uploads``: the TUS protocol 1.0 (core, creation, expiration, termination), for big files and bad lines."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Coroutine
from email.utils import format_datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from fastapi.routing import APIRoute

from service.api.access import Reader, Writer
from service.api.json_body import declared_length, parse_json
from service.api.parameters import CursorText, Limit, problems
from service.api.problem import MalformedRequest, UnsupportedMediaType
from service.datasets.resumable import ResumableUploads
from service.datasets.schemas import ResumableUpload, UploadStatus
from service.datasets.service import UploadDetails
from service.errors import InvalidRequest, Problem
from service.schemas import Page

VERSION = "1.0.0"
EXTENSIONS = "creation,expiration,termination"
MEDIA_TYPE = "application/offset+octet-stream"
MAX_METADATA_CHARACTERS = 64 * 1024
_DIGITS = re.compile(r"[0-9]{1,1000}")
_TUS_HEADER: dict[str, Any] = {
    "name": "Tus-Resumable",
    "in": "header",
    "required": True,
    "schema": {"type": "string", "enum": [VERSION]},
}
_TUS: dict[str, Any] = {"parameters": [_TUS_HEADER]}
_BODY = {"requestBody": {"content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}, "required": True}}

UploadLength = Annotated[
    int, Header(alias="Upload-Length", ge=0, description="Bytes of the whole file.", examples=[2147483648])
]
UploadOffset = Annotated[
    int, Header(alias="Upload-Offset", ge=0, description="Where in the file these bytes begin.", examples=[0])
]
UploadMetadata = Annotated[
    str,
    Header(
        alias="Upload-Metadata",
        max_length=MAX_METADATA_CHARACTERS,
        description="Pairs `key base64`, separated by commas: `filename`, `filetype` (media type), `name`, `format`, "
        "`options` (a JSON object), as the fields of `POST /datasets`. Other keys are kept and shown again.",
        examples=["filename bWFpbHMuY3N2,options eyJkZWxpbWl0ZXIiOiI7In0="],
    ),
]


class UnsupportedTusVersion(
    Problem, type="unsupported-tus-version", title="Not this version of the protocol", status=412
):
    """The request does not say that it follows version 1.0.0 of the protocol (``Tus-Resumable: 1.0.0``)."""


class _TusRoute(APIRoute):
    """A route of the protocol: version and sizes are checked, and every answer names the version."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_version(request: Request) -> Response:
            try:
                if request.headers.get("tus-resumable") != VERSION:
                    raise UnsupportedTusVersion(
                        f"expected the header Tus-Resumable: {VERSION}", headers={"Tus-Version": VERSION}
                    )
                _check_sizes(request)
                response = await handle(request)
            except Problem as problem:
                problem.headers["Tus-Resumable"] = VERSION
                raise
            response.headers["Tus-Resumable"] = VERSION
            return response

        return handle_version


def resumable_uploads_router(uploads: ResumableUploads) -> APIRouter:
    """Return the routes of resumable uploads."""
    router = APIRouter(tags=["uploads"])
    tus = APIRouter(tags=["uploads"], route_class=_TusRoute)

    @router.options("/uploads", operation_id="describeUploads", status_code=204)
    def describe(caller: Reader, response: Response) -> None:  # noqa: ARG001 (the scope is checked)
        """Say which parts of the TUS protocol are spoken."""
        response.headers["Tus-Resumable"] = response.headers["Tus-Version"] = VERSION
        response.headers["Tus-Extension"] = EXTENSIONS
        response.headers["Tus-Max-Size"] = str(uploads.max_bytes)

    @tus.post(
        "/uploads",
        operation_id="createUpload",
        status_code=201,
        responses=problems(400, 409, 413),
        openapi_extra=_TUS,
    )
    def create(
        caller: Writer, response: Response, upload_length: UploadLength, upload_metadata: UploadMetadata = ""
    ) -> ResumableUpload:
        """Begin an upload in parts: `Location` says where to send them."""
        metadata = _metadata(upload_metadata)
        options = parse_json(metadata["options"].encode(), "metadata.options") if metadata.get("options") else {}
        if not isinstance(options, dict):
            raise InvalidRequest.of("metadata.options", "should be a JSON object")
        named = metadata.get("filename"), metadata.get("filetype")
        details = UploadDetails.of("metadata", metadata, options, *named)
        upload = uploads.create(caller.project_id, upload_length, details, metadata)
        response.headers["Location"] = f"/uploads/{upload.id}"
        _say(response, upload)
        return upload

    @tus.head(
        "/uploads/{upload_id}",
        operation_id="getUploadOffset",
        status_code=200,
        responses=problems(404),
        openapi_extra=_TUS,
    )
    def offset(caller: Reader, response: Response, upload_id: str) -> None:
        """Say in `Upload-Offset` where the next part begins."""
        upload = uploads.get(caller.project_id, upload_id)
        _say(response, upload)
        response.headers["Upload-Length"] = str(upload.bytes)
        if upload.metadata:
            response.headers["Upload-Metadata"] = _metadata_header(upload.metadata)

    @tus.patch(
        "/uploads/{upload_id}",
        operation_id="appendToUpload",
        status_code=204,
        responses=problems(404, 409, 413, 415),
        openapi_extra={**_TUS, **_BODY},
    )
    async def append(
        request: Request, caller: Writer, response: Response, upload_id: str, upload_offset: UploadOffset
    ) -> None:
        """Send bytes. What has arrived counts, also if the connection breaks; the last byte makes the data set."""
        if request.headers.get("content-type") != MEDIA_TYPE:
            raise UnsupportedMediaType(f"this call takes Content-Type: {MEDIA_TYPE}")
        upload = await uploads.append(
            caller.project_id, upload_id, upload_offset, request.stream(), declared_length(request)
        )
        _say(response, upload)

    @tus.delete(
        "/uploads/{upload_id}",
        operation_id="deleteUpload",
        status_code=204,
        responses=problems(404),
        openapi_extra=_TUS,
    )
    def delete(caller: Writer, upload_id: str) -> None:
        """Throw away what has arrived, also while more arrives. A data set that was made of it stays."""
        uploads.delete(caller.project_id, upload_id)

    @router.get("/uploads", operation_id="listUploads")
    def list_(
        caller: Reader, limit: Limit = 20, cursor: CursorText = None, status: UploadStatus | None = None
    ) -> Page[ResumableUpload]:
        """List uploads in parts, newest first: those that wait for more, and those that ended a short while ago."""
        return uploads.list(caller.project_id, status, cursor, limit)

    @router.get("/uploads/{upload_id}", operation_id="getUpload", responses=problems(404))
    def get(caller: Reader, upload_id: str) -> ResumableUpload:
        """Show how far an upload is, and which data set it became."""
        return uploads.get(caller.project_id, upload_id)

    router.include_router(tus)
    return router


def _say(response: Response, upload: ResumableUpload) -> None:
    response.headers["Upload-Offset"] = str(upload.received)
    response.headers["Upload-Expires"] = format_datetime(upload.expires_at, usegmt=True)


def _check_sizes(request: Request) -> None:
    """Refuse a size that is not written as the protocol says: digits and nothing else."""
    if "upload-defer-length" in request.headers:
        raise MalformedRequest("Upload-Defer-Length is not spoken here: send Upload-Length, the size of the file")
    for name in ("Upload-Length", "Upload-Offset"):
        if not _DIGITS.fullmatch(request.headers.get(name, "0")):
            raise MalformedRequest(f"{name}: expected a number of bytes, digits only")


def _metadata_header(metadata: dict[str, str]) -> str:
    """Write what `_metadata` read."""
    return ",".join(f"{key} {base64.b64encode(value.encode()).decode()}".strip() for key, value in metadata.items())


def _metadata(header: str) -> dict[str, str]:
    """Read ``key base64,key base64``; a key may stand alone."""
    metadata: dict[str, str] = {}
    for pair in filter(None, header.split(",")):
        key, _, encoded = pair.strip().partition(" ")
        try:
            value = base64.b64decode(encoded.strip(), validate=True).decode()
        except (binascii.Error, ValueError):
            raise MalformedRequest("Upload-Metadata: expected pairs of a key and a text in base64") from None
        if not key or key in metadata or not key.isascii():
            raise MalformedRequest("Upload-Metadata: expected each key once, in ASCII")
        if "\0" in value:
            raise MalformedRequest("Upload-Metadata: expected texts without the character NUL")
        metadata[key] = value
    return metadata

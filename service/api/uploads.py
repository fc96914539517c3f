"""The bytes of an upload as they arrive, without keeping them: multipart or a raw body."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from service.api.json_body import declared_length, parse_json
from service.api.problem import InvalidJson, MalformedRequest, UnsupportedMediaType
from service.datasets.service import UploadDetails
from service.errors import InvalidRequest

FIELDS = ("name", "format", "options")
MAX_FIELD_BYTES = 64 * 1024
MAX_PARTS = 10
REFUSED_TYPES = ("application/json", "text/html", "application/x-www-form-urlencoded")


def open_upload(request: Request) -> MultipartUpload | RawUpload:
    """Choose the reader by the Content-Type.

    Raises
    ------
    MalformedRequest
        If a multipart body names no boundary.
    UnsupportedMediaType
        If the body says that it is something that no data set is.
    """
    kind, parameters = parse_options_header(request.headers.get("content-type", ""))
    media_type = kind.decode("latin-1").lower()
    if media_type == "multipart/form-data":
        return MultipartUpload(request, parameters.get(b"boundary", b""))
    if media_type in REFUSED_TYPES or media_type.startswith("multipart/"):
        raise UnsupportedMediaType("send multipart/form-data with a part `file`, or the file itself with its own type")
    return RawUpload(request, media_type or None)


class RawUpload:
    """The request body is the file; name, format and options are in the query."""

    counts_as_stored = False

    def __init__(self, request: Request, media_type: str | None) -> None:
        self.declared_bytes = declared_length(request)
        self._stream = request.stream()
        self._query = request.query_params
        self._media_type = media_type

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the bytes of the file."""
        async for chunk in self._stream:
            if chunk:
                yield chunk

    def details(self) -> UploadDetails:
        """Return what was said about the file."""
        given = {name: self._query[name] for name in FIELDS if name in self._query}
        return _details("query", given, filename=None, media_type=self._media_type)


class MultipartUpload:
    """The part ``file`` is the file; further parts may say its name, format and options, before or after it."""

    counts_as_stored = False

    def __init__(self, request: Request, boundary: bytes) -> None:
        if not boundary:
            raise MalformedRequest("the Content-Type multipart/form-data names no boundary")
        self.declared_bytes = declared_length(request)
        self._stream = request.stream()
        self._file: list[bytes] = []  # bytes of the file that the parser has found and nobody has fetched yet
        self._filename: str | None = None
        self._media_type: str | None = None
        self._saw_file = False
        self._fields: dict[str, bytearray] = {}
        self._parts = 0
        self._ended = False
        self._header_name = b""
        self._header_value = b""
        self._headers: dict[bytes, bytes] = {}
        self._field: bytearray | None = None  # the text part that is being read; None: the file
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._on_part_begin,
                    "on_header_field": self._on_header_field,
                    "on_header_value": self._on_header_value,
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers_finished,
                    "on_part_data": self._on_part_data,
                    "on_end": self._on_end,
                },
            )
        except FormParserError:
            raise MalformedRequest("the boundary of the multipart body is too long") from None

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the bytes of the file; the other parts are kept aside."""
        async for chunk in self._stream:
            try:
                self._parser.write(chunk)
            except FormParserError:
                raise MalformedRequest("the multipart body does not follow its rules") from None
            for data in self._file:
                yield data
            self._file.clear()
        if not self._ended:
            raise MalformedRequest("the multipart body ends before its closing boundary")
        if not self._saw_file:
            raise InvalidRequest.of("form.file", "is missing; send the data set as the part `file`")

    def details(self) -> UploadDetails:
        """Return what was said about the file; complete only after `chunks` has ended."""
        given = {name: _text(f"form.{name}", value) for name, value in self._fields.items()}
        return _details("form", given, filename=self._filename, media_type=self._media_type)

    def _on_part_begin(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise MalformedRequest(f"the multipart body has more than {MAX_PARTS} parts")
        self._headers = {}

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers[self._header_name.lower()] = self._header_value
        self._header_name = self._header_value = b""

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        name = options.get(b"name", b"").decode("utf-8", "replace")
        if name == "file":
            if self._saw_file:
                raise InvalidRequest.of("form.file", "was sent twice; send one file a request")
            self._saw_file = True
            self._field = None
            self._filename = options.get(b"filename", b"").decode("utf-8", "replace")
            self._media_type = self._headers.get(b"content-type", b"").decode("latin-1").split(";")[0].strip().lower()
        elif name in FIELDS and name not in self._fields:
            self._field = self._fields[name] = bytearray()
        else:
            raise InvalidRequest.of("form", f"takes each of these parts once: file, {', '.join(FIELDS)}")

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._field is None:
            self._file.append(data[start:end])
        elif len(self._field) + end - start > MAX_FIELD_BYTES:
            raise InvalidRequest.of("form", f"a text part may have at most {MAX_FIELD_BYTES} bytes")
        else:
            self._field += data[start:end]

    def _on_end(self) -> None:
        self._ended = True


def _text(field: str, value: bytearray) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest.of(field, "is not UTF-8") from None


def _details(where: str, given: dict[str, str], *, filename: str | None, media_type: str | None) -> UploadDetails:
    options = _options(where, given["options"]) if given.get("options") else {}
    if not isinstance(options, dict):
        raise InvalidRequest.of(f"{where}.options", "should be a JSON object")
    return UploadDetails(
        where=where,
        name=given.get("name") or None,
        filename=filename or None,
        format=given.get("format") or None,
        media_type=media_type,
        options=options,
    )


def _options(where: str, text: str) -> Any:
    try:
        return parse_json(text.encode(), f"{where}.options")
    except InvalidJson as problem:
        if where == "form" and text.startswith("{") and not text.rstrip().endswith("}"):
            hint = "it seems to be cut off: curl's -F ends a value at a `;`, its --form-string sends all of it"
            raise InvalidJson.of(f"{where}.options", f"{problem.errors[0].message}; {hint}") from None
        raise

"""The bytes of an upload as they arrive, without keeping them: multipart or a raw body."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.datastructures import QueryParams

from service.api.json_body import declared_length, parse_json
from service.api.problem import InvalidJson, MalformedRequest, UnsupportedMediaType
from service.datasets.service import UploadDetails
from service.errors import InvalidRequest
from service.ingest.options import guess_format

FIELDS = ("name", "format", "options")
MAX_FIELD_BYTES = 64 * 1024
MAX_PARTS = 10
PACKED = (b"\x1f\x8b", b"BZh")
"""How files begin in which there may be no end of a line."""
MAX_PATH_BYTES = 4096
LINE_ENDS = (b"\n", b"\r")
HOW_TO_SEND = "curl does that with `-F file=@FILE`, or with `-H 'Content-Type: text/csv' --data-binary @FILE`"
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
        raise UnsupportedMediaType(
            f"send multipart/form-data with a part `file`, or the file itself with its own type: {HOW_TO_SEND}"
        )
    return RawUpload(request, media_type or None)


class RawUpload:
    """The request body is the file; name, format and options are in the query."""

    counts_as_stored = False

    def __init__(self, request: Request, media_type: str | None) -> None:
        self.declared_bytes = declared_length(request)
        self._stream = request.stream()
        self._query = request.query_params
        self._media_type = media_type
        self._begin = b""
        self._has_lines = False

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the bytes of the file."""
        async for chunk in self._stream:
            if chunk:
                self._begin = self._begin or chunk[:3]
                self._has_lines = self._has_lines or any(end in chunk for end in LINE_ENDS)
                yield chunk

    def details(self) -> UploadDetails:
        """Return what was said about the file; complete only after `chunks` has ended."""
        details = _details("query", _in_query(self._query), filename=None, media_type=self._media_type)
        kind = details.format or guess_format(details.name, self._media_type)
        if kind in ("csv", "tsv") and self._begin and not self._has_lines and not self._begin.startswith(PACKED):
            raise InvalidRequest.of(
                "body",
                "has no end of a line, and a table has a line for each row: curl's `-d` takes them away, "
                "send it with `--data-binary @FILE`",
            )
        return details


class MultipartUpload:
    """The part ``file`` is the file; further parts may say its name, format and options, before or after it."""

    counts_as_stored = False
    fields: Sequence[str] = FIELDS
    """Parts besides the file that it takes."""
    most_parts = MAX_PARTS

    def __init__(self, request: Request, boundary: bytes) -> None:
        if not boundary:
            raise MalformedRequest("the Content-Type multipart/form-data names no boundary")
        self.declared_bytes = declared_length(request)
        self._stream = request.stream()
        self._query = request.query_params
        self._begin = b""
        self._bytes = 0
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
                if len(self._begin) < MAX_PATH_BYTES:
                    self._begin += data[:MAX_PATH_BYTES]
                self._bytes += len(data)
                yield data
            self._file.clear()
        if not self._ended:
            raise MalformedRequest("the multipart body ends before its closing boundary")
        if not self._saw_file:
            raise InvalidRequest.of("form.file", "is missing; send the data set as the part `file`")
        if self._is_path():
            raise InvalidRequest.of(
                "form.file", "holds a single line and names no file: curl sends a file with `-F file=@FILE`"
            )

    def details(self) -> UploadDetails:
        """Return what was said about the file; complete only after `chunks` has ended."""
        given = {name: _text(f"form.{name}", value) for name, value in self._fields.items()}
        in_query = _in_query(self._query)
        for name in in_query:
            if name in given:
                raise InvalidRequest.of(f"query.{name}", "was also sent as a part of the form; send it once")
        where = "query" if "options" in in_query else "form"
        return _details(where, given | in_query, filename=self._filename, media_type=self._media_type)

    def _is_path(self) -> bool:
        """Tell whether the part `file` is what `-F file=mails.csv`, without the @, makes of a path."""
        return (
            not self._filename
            and 0 < self._bytes < MAX_PATH_BYTES
            and not any(end in self._begin for end in LINE_ENDS)
            and not self._begin.lstrip().startswith((b"{", *PACKED))
        )

    def _on_part_begin(self) -> None:
        self._parts += 1
        if self._parts > self.most_parts:
            raise MalformedRequest(f"the multipart body has more than {self.most_parts} parts")
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
        elif name in self.fields and name not in self._fields:
            self._field = self._fields[name] = bytearray()
        else:
            raise InvalidRequest.of("form", f"takes each of these parts once: file, {', '.join(self.fields)}")

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._field is None:
            self._file.append(data[start:end])
        elif len(self._field) + end - start > MAX_FIELD_BYTES:
            raise InvalidRequest.of("form", f"a text part may have at most {MAX_FIELD_BYTES} bytes")
        else:
            self._field += data[start:end]

    def _on_end(self) -> None:
        self._ended = True


def _in_query(query: QueryParams) -> dict[str, str]:
    """Return what the query says about a file; raises `InvalidRequest` for what it cannot say."""
    for name, _ in query.multi_items():
        if name not in FIELDS:
            raise InvalidRequest.of(
                "query",
                f"takes {', '.join(FIELDS)}; options of the format are a JSON object in `options`: "
                'options={"header":false}',
            )
    return dict(query)


def _text(field: str, value: bytearray) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest.of(field, "is not UTF-8") from None


def _details(where: str, given: dict[str, str], *, filename: str | None, media_type: str | None) -> UploadDetails:
    options = _options(where, given["options"]) if given.get("options") else {}
    if not isinstance(options, dict):
        raise InvalidRequest.of(f"{where}.options", "should be a JSON object")
    return UploadDetails.of(where, given, options, filename, media_type)


def _options(where: str, text: str) -> Any:
    try:
        return parse_json(text.encode(), f"{where}.options")
    except InvalidJson as problem:
        if where == "form" and text.startswith("{") and not text.rstrip().endswith("}"):
            hint = "it seems to be cut off: curl's -F ends a value at a `;`, its --form-string sends all of it"
            raise InvalidJson.of(f"{where}.options", f"{problem.errors[0].message}; {hint}") from None
        raise

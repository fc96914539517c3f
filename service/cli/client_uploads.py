"""Sends big files in parts, which go on where they were cut off: a small client of the TUS protocol.

Nothing is kept on this machine. An upload that was cut off is found again in the list of the service, by what it says
of the file: name, options, size, and a fingerprint of its content; also one of which all had arrived, be it a data set
by then or not. Whoever has seen the data set strikes the upload off that list, so that the same file may be sent twice.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from service.cli.client import (
    BusyError,
    ClientError,
    ConflictError,
    Connection,
    NotFoundError,
    UnreachableError,
    file_name,
)

TUS = {"Tus-Resumable": "1.0.0"}
RESUMABLE_BYTES = 32 << 20
"""A smaller file is sent at once."""
PIECE_BYTES = 1 << 20
FINGERPRINT_BYTES = 1 << 20
"""Of the beginning and of the end of a file, that tell it from another one of the same size."""
FAILURES = 10
"""How often in a row the line may break without that anything has arrived."""
LONGEST_PAUSE = 30.0

UploadProgress = Callable[[str, int], None]
"""Is told what happens, and how many bytes the service has."""


def upload_in_parts(
    client: Connection,
    file: Path,
    *,
    name: str | None = None,
    format: str | None = None,
    options: Mapping[str, Any] | None = None,
    progress: UploadProgress,
) -> Any:
    """Send a file as a new data set, or what is missing of it, wait until it has been read, and return the data set.

    Raises
    ------
    ClientError
        If the line stays broken, or no data set can be made of the file.
    """
    with file.open("rb") as content:
        size = content.seek(0, 2)
        given = {
            "filename": file_name(file),
            "name": name,
            "format": format,
            "fingerprint": _fingerprint(content, size),
        }
        metadata = {key: value for key, value in given.items() if value is not None}
        if options:
            metadata["options"] = json.dumps(dict(options))
        upload = _find(client, metadata, size)
        if upload is not None:
            dataset = _complete(client, upload, content, size, progress)
            if dataset is not None and dataset["sha256"] == _sha256(content):
                return dataset
            # It is gone, or the file has changed where the fingerprint does not see it.
            if dataset is not None and upload["status"] == "receiving":  # half of the one and half of the other
                client.delete(f"/datasets/{dataset['id']}")
        return _complete(client, _begin(client, metadata, size), content, size, progress)


def _complete(client: Connection, upload: Any, content: IO[bytes], size: int, progress: UploadProgress) -> Any:
    """Send what is missing of an upload, and return what it becomes; None if that data set was deleted meanwhile."""
    path = f"/uploads/{upload['id']}"
    if upload["status"] == "receiving":
        _send(client, path, content, upload["received"], size, progress)
    now = client.get(path)
    for found in client.looks("/uploads", now):
        progress("reading", size)
        now = found or now
    if now["status"] == "failed":
        raise ClientError.of(now["error"])
    dataset = None
    if now["dataset_id"] is not None:
        with suppress(NotFoundError):
            dataset = client.get(f"/datasets/{now['dataset_id']}")
    with suppress(ClientError):  # it is struck off when it expires, then
        client.delete(path, headers=TUS)
    return dataset


def _fingerprint(content: IO[bytes], size: int) -> str:
    digest = hashlib.sha256()
    for position in (0, max(0, size - FINGERPRINT_BYTES)):
        content.seek(position)
        digest.update(content.read(FINGERPRINT_BYTES))
    return digest.hexdigest()


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file, as the data set of it has it."""
    with file.open("rb") as content:
        return _sha256(content)


def _sha256(content: IO[bytes]) -> str:
    content.seek(0)
    digest = hashlib.sha256()
    while piece := content.read(PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()


def _find(client: Connection, metadata: Mapping[str, str], size: int) -> Any:
    """Return the upload of this file that is to go on, if there is one; the furthest, if there are several."""
    same = (each for each in client.items("/uploads") if each["bytes"] == size and each["metadata"] == metadata)
    alive = [each for each in same if each["status"] != "failed"]
    return max(alive, key=lambda each: (each["status"] != "receiving", each["received"]), default=None)


def _begin(client: Connection, metadata: Mapping[str, str], size: int) -> Any:
    pairs = [f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in metadata.items()]
    headers = TUS | {"Upload-Length": str(size), "Upload-Metadata": ",".join(pairs)}
    return client.send("POST", "/uploads", headers=headers).json()


def _send(client: Connection, path: str, content: IO[bytes], offset: int, size: int, progress: UploadProgress) -> None:
    """Send the bytes from `offset` on; where the line breaks, ask what has arrived and go on there."""
    failures = 0
    while offset < size:
        pause = 0.0
        try:
            _patch(client, path, content, offset, size, progress)
            return
        except (UnreachableError, ConflictError) as error:  # a conflict: what was on its way arrived after the question
            broken: ClientError = error
        except BusyError as error:
            broken, pause = error, error.seconds
        failures += 1
        if failures > FAILURES:
            raise broken
        progress("waiting", offset)
        time.sleep(min(LONGEST_PAUSE, max(pause, 0.5 * 2**failures)))
        try:
            arrived = int(client.send("HEAD", path, headers=TUS).headers["Upload-Offset"])
        except (UnreachableError, BusyError):
            continue
        failures = 0 if arrived > offset else failures
        offset = arrived


def _patch(client: Connection, path: str, content: IO[bytes], offset: int, size: int, progress: UploadProgress) -> None:
    content.seek(offset)

    def pieces() -> Iterator[bytes]:
        sent = offset
        while sent < size:
            piece = content.read(min(PIECE_BYTES, size - sent))
            if not piece:
                raise ClientError("the file has become shorter while it was sent")
            yield piece
            sent += len(piece)
            progress("sending", sent)

    headers = TUS | {"Content-Type": "application/offset+octet-stream", "Content-Length": str(size - offset)}
    client.send("PATCH", path, headers=headers | {"Upload-Offset": str(offset)}, content=pieces())

"""Send a file in parts, as clients of the tus protocol do."""

from __future__ import annotations

import base64

import httpx
from api_support import CSV

TUS = {"Tus-Resumable": "1.0.0"}
BYTES = TUS | {"Content-Type": "application/offset+octet-stream"}


def encoded(**values: str) -> str:
    return ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in values.items())


def begin(client: httpx.Client, size: int = len(CSV), **metadata: str) -> str:
    metadata = metadata or {"filename": "mails.csv"}
    response = client.post(
        "/uploads", headers=TUS | {"Upload-Length": str(size), "Upload-Metadata": encoded(**metadata)}
    )
    assert response.status_code == 201, response.text
    assert response.headers["tus-resumable"] == "1.0.0"
    assert response.headers["upload-expires"].endswith("GMT")
    return response.headers["location"]


def send(client: httpx.Client, path: str, offset: int, data: bytes) -> httpx.Response:
    return client.patch(path, content=data, headers=BYTES | {"Upload-Offset": str(offset)})

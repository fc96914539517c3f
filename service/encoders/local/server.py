"""Serves an encoder in a folder as OpenAI's API does: ``python -m service.encoders.local.server FOLDER PORT [HOST]``.

`PREFSVM_ENCODER_KEY` holds the bearer token that is asked for, if any is. Texts are neither logged nor kept.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import os
import sys
from pathlib import Path
from typing import Any, Final

import orjson
import uvicorn
from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from service.encoders.local.folder import EncoderFolderError, read_installed, renamed
from service.encoders.local.onnx_encoder import OnnxEncoder, passes
from service.isolation import hide_secrets, write_only_below
from service.json_sizes import has_more_values_than

MOST_BODY_BYTES: Final = 64 << 20
MOST_TEXTS: Final = 2_048
FORMATS: Final = ("float", "base64")


class _RefusedError(Exception):
    """A request that is not answered with vectors; the text says why, and quotes nothing of it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class EmbeddingsApi:
    """What is answered.

    Parameters
    ----------
    encoder : OnnxEncoder
    key : str or None
        Without one, anybody is answered who reaches it.
    """

    def __init__(self, encoder: OnnxEncoder, key: str | None) -> None:
        self._encoder = encoder
        self._key = key
        self._turn = asyncio.Lock()
        """Passes through the model follow each other in the order in which they were asked for, so that one short text
        waits for one pass of a long request and not for all of them."""

    def app(self) -> Starlette:
        """Return it as an application of ASGI."""
        routes = [
            Route("/v1/embeddings", self.embeddings, methods=["POST"]),
            Route("/v1/models", self.models),
            Route("/health", lambda _: Response(status_code=200)),
        ]
        return Starlette(routes=routes)

    async def models(self, request: Request) -> Response:
        """Tell the name of the one model."""
        try:
            self._let_in(request)
        except _RefusedError as refused:
            return _error(refused)
        return _json({"object": "list", "data": [{"id": self._encoder.folder.name, "object": "model"}]})

    async def embeddings(self, request: Request) -> Response:
        """Answer texts with their vectors."""
        try:
            self._let_in(request)
            texts, form = self._asked(await _body(request))
            tokens = await to_thread.run_sync(self._encoder.tokens, texts)
            made: list[Any] = [None] * len(texts)
            for places in passes(tokens):
                async with self._turn:
                    if await request.is_disconnected():
                        return Response(status_code=499)
                    some = [tokens[place] for place in places]
                    vectors = await to_thread.run_sync(self._encoder.vectors, some)
                for place, vector in zip(places, vectors, strict=True):
                    made[place] = base64.b64encode(vector.tobytes()).decode() if form == "base64" else vector
        except _RefusedError as refused:
            return _error(refused)
        except ClientDisconnect:
            return Response(status_code=499)
        data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(made)]
        used = sum(map(len, tokens))
        usage = {"prompt_tokens": used, "total_tokens": used}
        return _json({"object": "list", "data": data, "model": self._encoder.folder.name, "usage": usage})

    def _let_in(self, request: Request) -> None:
        if self._key is None:
            return
        shown = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(shown.encode("latin-1", "replace"), self._key.encode()):
            raise _RefusedError(401, "no key, or another one, was sent as a bearer token")

    def _asked(self, body: bytes) -> tuple[list[str], str]:
        if has_more_values_than(2 * MOST_TEXTS, body):
            raise _RefusedError(400, f"the body holds more values than {MOST_TEXTS} texts need")
        try:
            asked = orjson.loads(body)
        except ValueError:
            raise _RefusedError(400, "the body is no JSON") from None
        if not isinstance(asked, dict):
            raise _RefusedError(400, "the body is no JSON object")
        name = self._encoder.folder.name
        if asked.get("model") != name:
            raise _RefusedError(404, f"there is no such model here; expected {name!r}")
        texts = [asked["input"]] if isinstance(asked.get("input"), str) else asked.get("input")
        if not isinstance(texts, list) or not 1 <= len(texts) <= MOST_TEXTS:
            raise _RefusedError(400, f"input must be a text or a list of 1 to {MOST_TEXTS} texts")
        if not all(isinstance(text, str) for text in texts):
            raise _RefusedError(400, "input must hold texts only")
        if asked.get("dimensions", self._encoder.dimensions) != self._encoder.dimensions:
            raise _RefusedError(400, f"dimensions: the vectors of {name!r} have {self._encoder.dimensions}")
        form = asked.get("encoding_format", "float")
        if form not in FORMATS:
            raise _RefusedError(400, f"encoding_format must be one of {', '.join(FORMATS)}")
        return texts, form


async def _body(request: Request) -> bytes:
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > MOST_BODY_BYTES:
            raise _RefusedError(413, f"the body is longer than {MOST_BODY_BYTES} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _json(value: Any, status: int = 200) -> Response:
    made = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(made, status_code=status, media_type="application/json")


def _error(refused: _RefusedError) -> Response:
    return _json({"error": {"message": str(refused), "type": "invalid_request_error"}}, refused.status)


def main() -> None:
    """Load the encoder and serve it until SIGTERM."""
    if not 3 <= len(sys.argv) <= 4:
        sys.exit("usage: python -m service.encoders.local.server FOLDER PORT [HOST]")
    folder, port, host = Path(sys.argv[1]), int(sys.argv[2]), (*sys.argv[3:], "127.0.0.1")[0]
    hide_secrets()
    key = os.environ.pop("PREFSVM_ENCODER_KEY", "") or None
    write_only_below([])  # of what a model of strangers' making could do
    try:
        installed, _ = read_installed(folder)
        installed = renamed(installed, os.environ.get("PREFSVM_ENCODER_MODEL"))
        encoder = OnnxEncoder(installed, len(os.sched_getaffinity(0)))
    except EncoderFolderError as error:
        sys.exit(str(error))
    app = EmbeddingsApi(encoder, key).app()
    uvicorn.run(app, host=host, port=port, log_level="warning", access_log=False, timeout_graceful_shutdown=2)


if __name__ == "__main__":
    main()

"""A small encoder of texts that speaks as OpenAI's does; a text becomes what its runs of characters come to."""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from solver.features import EncoderIdentity
from solver.features.encoded import PROBES

DIMENSIONS = 48
MODEL = "test/trigrams-48"
KEY = "sk-not-to-be-seen"


def vector(text: str, salt: str = "") -> np.ndarray:
    """Hashed runs of three characters, brought to length 1: like texts have like vectors."""
    made = np.zeros(DIMENSIONS)
    padded = f"  {text.lower()} "
    for start in range(len(padded) - 2):
        code = zlib.crc32((salt + padded[start : start + 3]).encode())
        made[code % DIMENSIONS] += 1 if code & (1 << 20) else -1
    made[zlib.crc32((salt + text).encode()) % DIMENSIONS] += 0.25
    return (made / max(1e-9, np.linalg.norm(made))).astype(np.float32)


class Trigrams:
    """The same encoder in this process; what it was asked for is kept."""

    def __init__(self, salt: str = "", model: str = MODEL) -> None:
        self.salt, self.model = salt, model
        self.asked: list[str] = []

    def identity(self) -> EncoderIdentity:
        return EncoderIdentity(self.model, PROBES, self.encode(PROBES))

    def encode(self, texts: Any) -> np.ndarray:
        self.asked += texts
        return np.stack([vector(text, self.salt) for text in texts])


class EncoderServer:
    """What the encoder does, for a test to change.

    Attributes
    ----------
    mode : str
        `ok`, or what `_Handler` knows of.
    salt : str
        Another one makes other vectors.
    turns : bool
        Whether it becomes another one with the first text that is no probe.
    failures : int
        Requests that `mode` still concerns, -1 for all.
    released : threading.Event
        Until it is set, nothing is answered in the mode `held`.
    texts : list of str
        All that were sent.
    """

    def __init__(self, port: int = 0) -> None:
        self.mode, self.salt, self.failures, self.seconds = "ok", "", -1, 0.0
        self.turns = False
        self.released = threading.Event()
        self.texts: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        handler = type("Handler", (_Handler,), {"encoder": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def be(self, mode: str, failures: int = -1) -> None:
        self.mode, self.failures = mode, failures

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    encoder: EncoderServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_POST(self) -> None:
        encoder = self.encoder
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        encoder.bodies.append(body)
        encoder.texts += body["input"]
        encoder.keys.append(self.headers.get("Authorization"))
        if encoder.turns and not set(body["input"]) <= set(PROBES):
            encoder.salt = "another one by now"
        mode = encoder.mode if encoder.failures else "ok"
        if mode != "ok" and encoder.failures > 0:
            encoder.failures -= 1
        data = [
            {"object": "embedding", "index": i, "embedding": [float(x) for x in vector(text, encoder.salt)]}
            for i, text in enumerate(body["input"])
        ]
        status, headers = 200, {}
        if mode == "slow":
            time.sleep(encoder.seconds)
        elif mode == "held":
            encoder.released.wait(60)
        elif mode == "error":
            status = 500
        elif mode == "refuse":
            status = 401
        elif mode == "busy":
            status, headers = 429, {"Retry-After": "1"}
        elif mode == "redirect":
            status, headers = 307, {"Location": f"{encoder.url}/elsewhere"}
        elif mode == "fewer":
            data = data[1:]
        elif mode == "twice":
            data[-1]["index"] = 0
        elif mode == "shorter":
            data[-1]["embedding"] = data[-1]["embedding"][1:]
        elif mode == "backwards":
            data = data[::-1]
        answer = json.dumps({"object": "list", "data": data, "model": body["model"]})
        if mode == "nan":
            answer = answer.replace('"embedding": [', '"embedding": [NaN, ', 1)
        elif mode == "null":
            answer = answer.replace('"embedding": [', '"embedding": [null, ', 1)
        elif mode == "infinite":
            answer = answer.replace('"embedding": [', '"embedding": [1e39, ', 1)
        elif mode == "no json":
            answer = "<html>"
        if status != 200:
            answer = json.dumps({"error": {"message": f"cannot encode {body['input'][0]}"}})
        raw = answer.encode()
        blanks = 300 if mode == "huge" else 0  # MiB, never in memory at once
        try:
            self.send_response(status)
            for name, value in {**headers, "Content-Type": "application/json"}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(raw) + (blanks << 20)))
            self.end_headers()
            self.wfile.write(raw)
            for _ in range(blanks):
                self.wfile.write(b" " * (1 << 20))
        except OSError:  # whoever asked has hung up
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def encoder_server(port: int = 0) -> Iterator[EncoderServer]:
    """Run an encoder until the block ends."""
    server = EncoderServer(port)
    try:
        yield server
    finally:
        server.close()

"""Logs as one JSON object a line, with the request id and without anything that was sent."""

from __future__ import annotations

import logging
import re
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType

import orjson

from service.access.keys import PREFIX

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Id of the request that this code runs for; empty outside of one."""


_KEY_SECRET = re.compile(rf"({PREFIX}[0-9A-Za-z]{{8}})_[0-9A-Za-z]+")
_PASSWORD = re.compile(r"(\w://[^\s:/@\"]*:)[^\s/@\"]+@")


def stack_of(trace: TracebackType | None, frames: int = 30) -> list[str]:
    """Return where an exception came from, innermost last, without its message, which may hold data."""
    return [f"{f.filename}:{f.lineno} {f.name}" for f in traceback.extract_tb(trace)[-frames:]]


def hide_secrets(text: str) -> str:
    """Return a text without the secrets of API keys and the passwords in addresses that somebody put into it."""
    # Few texts can hold one at all, and to look for a substring is a hundred times as fast.
    if PREFIX in text:
        text = _KEY_SECRET.sub(r"\1_***", text)
    return _PASSWORD.sub(r"\1***@", text) if "://" in text else text


class JsonFormatter(logging.Formatter):
    """Writes time, level, logger, message, request id and what the caller put under ``extra={"fields": {…}}``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of JSON."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request_id.get():
            line["request_id"] = request_id.get()
        line.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[0] is not None:
            # The message of an exception may hold data; its type and place are enough to find the defect.
            line["error"] = record.exc_info[0].__qualname__
            line["stack"] = stack_of(record.exc_info[2])
        return hide_secrets(orjson.dumps(line, default=str).decode())


class RequestRecord(logging.LogRecord):
    """What is logged of every request: that it was served, and `fields`.

    The rest of a record (place in the source, thread, process) is the same for all: no line shows it, and to look it up
    for each request, as `logging.Logger.info` does, costs as much as a third of a prediction.
    """

    LOGGER = "prefsvm.access"
    _SAME = vars(logging.LogRecord(LOGGER, logging.INFO, "", 0, "request", (), None))

    def __init__(self, fields: Mapping[str, object]) -> None:
        vars(self).update(self._SAME, created=time.time(), fields=fields)


class StandardErrorHandler(logging.Handler):
    """Writes lines as bytes: through the text stream, one costs twice as much.

    Those of requests are written by a thread, many at once: whoever answers requests must not wait until a disk that
    has much to do takes a line, nor for Python's lock after each. If the process is killed, the last ones are lost.
    """

    PAUSE_SECONDS = 0.05

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[bytes] = deque()
        self._some_wait = threading.Event()
        self._writing = threading.Lock()
        threading.Thread(target=self._write_on, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or leave it to the thread."""
        try:
            self._lines.append(self.format(record).encode() + b"\n")
            if not isinstance(record, RequestRecord):
                self.flush()
            elif not self._some_wait.is_set():
                self._some_wait.set()
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        """Write all lines that wait."""
        with self._writing:
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            if lines:
                sys.stderr.buffer.write(b"".join(lines))
                sys.stderr.buffer.flush()

    def _write_on(self) -> None:
        while True:
            self._some_wait.wait()
            time.sleep(self.PAUSE_SECONDS)
            self._some_wait.clear()
            with suppress(OSError, ValueError):  # nobody reads them any more
                self.flush()


def configure_logging(level: int = logging.INFO) -> None:
    """Send the logs of the whole process to standard error as JSON."""
    handler = StandardErrorHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # What no line shows need not be looked up for each (see "Optimization" in the documentation of logging).
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None
    # One line a request is written by `service.api.context`; uvicorn's would hold the query string.
    logging.getLogger("uvicorn.access").disabled = True

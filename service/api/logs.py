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
from queue import SimpleQueue
from types import TracebackType

import orjson

from service.access.keys import PREFIX

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Id of the request that this code runs for; empty outside of one."""


_KEY_SECRET = re.compile(rf"({PREFIX}[0-9A-Za-z]{{8}})_[0-9A-Za-z]+")
_PASSWORD = re.compile(r"(\w://[^\s:/@\"]*:)[^\s/@\"]+@")
MOST_FRAMES = 30


def stack_of(trace: TracebackType | None) -> list[str]:
    """Return where an exception came from, innermost last, without its message, which may hold data."""
    return [f"{f.filename}:{f.lineno} {f.name}" for f in traceback.extract_tb(trace)[-MOST_FRAMES:]]


def hide_secrets(text: str) -> str:
    """Return a text without the secrets of API keys and the passwords in addresses that somebody put into it."""
    # Few texts can hold one at all, and to look for a substring is a hundred times as fast.
    if PREFIX in text:
        text = _KEY_SECRET.sub(r"\1_***", text)
    return _PASSWORD.sub(r"\1***@", text) if "://" in text else text


class JsonFormatter(logging.Formatter):
    """Writes time, level, logger, message, request id and what the caller put under ``extra={"fields": {…}}``."""

    _second = (-1, "")
    """The second of the last line and its text, which is that of most lines that follow."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of JSON."""
        line: dict[str, object] = {
            "time": self._time(record.created),
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

    def _time(self, created: float) -> str:
        """Return seconds since 1970 in the form of ISO 8601, with milliseconds."""
        seconds, milliseconds = divmod(int(created * 1000), 1000)
        known, text = self._second
        if known != seconds:
            text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            self._second = seconds, text
        return f"{text}.{milliseconds:03d}+00:00"


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

    Nobody waits for a lock here while holding one: a finaliser may log at any moment, also in the middle of `_write`.
    """

    PAUSE_SECONDS = 0.05
    MOST_WAITING = 100_000
    """Lines that wait at most, some 30 MB; those of further requests are counted instead, until somebody reads."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[bytes] = deque()
        self._dropped = 0
        # of all that can wake a thread, only this may be used in a finaliser
        self._some_wait: SimpleQueue[None] = SimpleQueue()
        self._writing = threading.Lock()
        threading.Thread(target=self._write_on, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or leave it to the thread."""
        try:
            is_of_request = isinstance(record, RequestRecord)
            if is_of_request and len(self._lines) >= self.MOST_WAITING:
                self._dropped += 1
                return
            self._lines.append(self.format(record).encode() + b"\n")
            if is_of_request or not self._writing.acquire(blocking=False):
                if self._some_wait.empty():
                    self._some_wait.put(None)
                return
            try:
                self._write()
            finally:
                self._writing.release()
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        """Write all lines that wait, unless the thread has been at it for a second."""
        if self._writing.acquire(timeout=1.0):
            try:
                self._write()
            finally:
                self._writing.release()

    def _write(self) -> None:
        lines = []
        with suppress(IndexError):
            while True:
                lines.append(self._lines.popleft())
        if self._dropped:
            lines.append(orjson.dumps({"level": "WARNING", "message": f"{self._dropped} lines were dropped"}) + b"\n")
            self._dropped = 0
        if lines:
            sys.stderr.buffer.write(b"".join(lines))
            sys.stderr.buffer.flush()

    def _write_on(self) -> None:
        while True:
            self._some_wait.get()
            time.sleep(self.PAUSE_SECONDS)
            with suppress(OSError, ValueError):  # nobody reads them any more
                self.flush()


def configure_logging() -> None:
    """Send the logs of the whole process to standard error as JSON."""
    handler = StandardErrorHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # What no line shows need not be looked up for each (see "Optimization" in the documentation of logging).
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None
    # One line a request is written by `service.api.context`; uvicorn's would hold the query string.
    logging.getLogger("uvicorn.access").disabled = True

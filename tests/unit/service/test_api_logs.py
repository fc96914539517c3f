"""Who writes to the log does not wait for whoever takes it."""

from __future__ import annotations

import io
import json
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from service.api.logs import JsonFormatter, RequestRecord, StandardErrorHandler

LINES = 5000
"""Far more than a pipe holds."""


@contextmanager
def standard_error() -> Iterator[io.BufferedReader]:
    """Yield the end that reads what is written to standard error. No fixture: pytest would take the place back."""
    reading, writing = os.pipe()
    with open(reading, "rb") as reader, open(writing, "w") as writer, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stderr", writer)
        yield reader


def test_requests_are_served_although_nobody_takes_their_lines() -> None:
    handler = StandardErrorHandler()
    handler.setFormatter(JsonFormatter())

    def serve() -> None:
        for number in range(LINES):
            handler.handle(RequestRecord({"number": number}))

    serving = threading.Thread(target=serve, daemon=True)
    with standard_error() as pipe:
        serving.start()
        serving.join(40)
        assert not serving.is_alive()
        assert [json.loads(pipe.readline())["number"] for _ in range(LINES)] == list(range(LINES))


def test_other_lines_are_written_at_once_and_in_order() -> None:
    handler = StandardErrorHandler()
    handler.setFormatter(JsonFormatter())
    with standard_error() as pipe:
        handler.handle(RequestRecord({}))
        handler.handle(logging.LogRecord("prefsvm", logging.INFO, "", 0, "ended", (), None))
        os.set_blocking(pipe.fileno(), False)
        assert [json.loads(pipe.readline())["message"] for _ in range(2)] == ["request", "ended"]


def test_a_finaliser_may_log_while_lines_are_written() -> None:
    """The garbage collector runs when it likes, also in the thread that writes, which must not wait for itself."""
    handler = StandardErrorHandler()
    handler.setFormatter(JsonFormatter())

    def log_amid_writing() -> None:
        with handler._writing:
            handler.handle(logging.LogRecord("asyncio", logging.ERROR, "", 0, "never retrieved", (), None))

    logging_ = threading.Thread(target=log_amid_writing, daemon=True)
    with standard_error() as pipe:
        logging_.start()
        logging_.join(40)
        assert not logging_.is_alive()
        assert json.loads(pipe.readline())["message"] == "never retrieved"


def test_lines_that_nobody_takes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StandardErrorHandler, "MOST_WAITING", 10)
    handler = StandardErrorHandler()
    handler.setFormatter(JsonFormatter())
    with standard_error() as pipe:
        with handler._writing:
            for number in range(15):
                handler.handle(RequestRecord({"number": number}))
        written = [json.loads(pipe.readline()) for _ in range(11)]
    assert [line["number"] for line in written[:-1]] == list(range(10))
    assert written[-1]["message"] == "5 lines were dropped"


def test_a_line_tells_its_time_to_the_millisecond_whichever_line_was_before() -> None:
    formatter = JsonFormatter()
    for created in (1764334799.999, 1764334800.0, 1764334800.25, 1764334799.5, 0.001, 1709164800.0625):
        record = RequestRecord({})
        record.created = created
        told = json.loads(formatter.format(record))["time"]
        assert told == datetime.fromtimestamp(created, UTC).isoformat(timespec="milliseconds")

"""Whoever waits for a job, a batch, an audit or an upload looks on while the API is away, and not for ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from service.cli import client as client_module
from service.cli.client import Connection, UnreachableError

RUNNING, DONE = {"id": "job_1", "status": "running"}, {"id": "job_1", "status": "succeeded"}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the API says in turn; the last of it again and again. A second passes with each look."""
    said: list[Any] = []
    clock = iter(range(10**6))

    def get(_: Connection, path: str) -> Any:
        assert path == "/jobs/job_1"
        found = said.pop(0) if len(said) > 1 else said[0]
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(Connection, "get", get)
    monkeypatch.setattr(client_module.time, "sleep", lambda _: None)
    monkeypatch.setattr(client_module.time, "monotonic", lambda: float(next(clock)))
    return said


def looks(timeout: float | None = None) -> Iterator[Any]:
    return Connection("http://127.0.0.1:1").looks("/jobs", RUNNING, timeout)


def test_the_end_is_the_last_look(answers: list[Any]) -> None:
    answers += [RUNNING, UnreachableError("away"), DONE]
    assert list(looks()) == [RUNNING, None, DONE]


def test_nobody_waits_for_ever_for_an_answer(answers: list[Any]) -> None:
    answers += [RUNNING, UnreachableError("away")]
    seen = looks()
    assert next(seen) == RUNNING
    for _ in range(20):
        assert next(seen) is None
    with pytest.raises(UnreachableError):
        list(seen)


def test_a_timeout_says_what_goes_on(answers: list[Any]) -> None:
    answers += [RUNNING]
    with pytest.raises(TimeoutError, match="job_1 is running after 30 s, and goes on"):
        list(looks(30.0))

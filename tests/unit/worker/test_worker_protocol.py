from __future__ import annotations

import base64
import json
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.faults import parse
from service.identifiers import new_id
from service.settings import Settings
from worker.children import child_environment
from worker.protocol import JobSpec, Reporter, storable
from worker.transport import frame_for, id_in
from worker.watch import describe_exit

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_whatever_a_report_holds_can_be_stored(value: Any) -> None:
    made = storable(value)
    text = json.dumps(made, allow_nan=False, ensure_ascii=False)
    text.encode()  # no lone surrogate is left
    assert "\0" not in "".join(_texts(made))
    assert storable(made) == made


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)


def test_numbers_of_numpy_become_plain_ones() -> None:
    value = {"a": np.float64(1.5), "b": np.int64(2), "c": np.array([[1.0, np.nan]]), "d": np.bool_(True), "e": (1,)}
    assert storable(value) == {"a": 1.5, "b": 2, "c": [[1.0, None]], "d": True, "e": [1]}
    with pytest.raises(TypeError, match="a report holds a object, which JSON cannot say"):
        storable({"x": object()})


def test_a_job_comes_through_the_line_as_it_was() -> None:
    job = JobSpec("job_1", 2, {"target": "a\nb", "x": [1.5, None]}, "table", "key", "/blobs", "/scratch")
    line = job.to_line()
    assert line.count(b"\n") == 1
    assert JobSpec.from_line(line) == job


def test_the_reporter_writes_phases_and_rounds_and_seldom_more() -> None:
    reading, writing = os.pipe()
    reporter = Reporter(writing)
    lines: list[dict[str, Any]] = []
    with os.fdopen(reading) as file:
        thread = threading.Thread(target=lambda: lines.extend(json.loads(line) for line in file))
        thread.start()
        for _ in range(1000):
            assert not reporter.progress("training", 0.5)
        reporter.progress("training", 0.6, {"round": 1})
        reporter.progress("encoding", 0.3)  # how far a job is never goes back
        reporter.progress("evaluating", 7.0)
        reporter.ask_to_stop()
        assert reporter.progress("evaluating", 0.9)
        os.close(writing)
        thread.join(40)
    assert len(lines) < 50
    assert lines[0] == {"type": "progress", "phase": "training", "progress": 0.5, "details": {}}
    assert {"type": "progress", "phase": "training", "progress": 0.6, "details": {"round": 1}} in lines
    assert {"type": "progress", "phase": "encoding", "progress": 0.6, "details": {}} in lines
    assert {"type": "progress", "phase": "evaluating", "progress": 1.0, "details": {}} in lines


@pytest.mark.parametrize(
    ("status", "code", "says"),
    [
        (-signal.SIGKILL, "process_killed", "killed by signal 9 (SIGKILL); the system may have run out of memory"),
        (-signal.SIGSEGV, "process_killed", "killed by signal 11 (SIGSEGV)"),
        (3, "process_died", "ended without a result (status 3)"),
        (None, "process_died", "ended without a result"),
    ],
)
def test_how_a_process_ended_is_told(status: int | None, code: str, says: str) -> None:
    found, message = describe_exit(status)
    assert found == code
    assert message.startswith("the process of the job ")
    assert says in message


def test_the_environment_of_a_child() -> None:
    ours = [f"PREFSVM_{name.upper()}" for name in Settings.model_fields]
    theirs = ["PGPASSWORD", "DATABASE_URL", "OPENAI_API_KEY", "REDISCLI_AUTH", "AWS_SECRET_ACCESS_KEY", "anything"]
    given = {**dict.fromkeys([*ours, *theirs], "password"), "PATH": "/bin", "OMP_NUM_THREADS": "7"}
    made = child_environment(given, slots=1000, online=False)
    assert "password" not in made.values()
    # The keys of an object store are for those who read from one.
    online = child_environment(given, slots=1000, online=True)
    assert [name for name, value in online.items() if value == "password"] == ["AWS_SECRET_ACCESS_KEY"]
    assert made["PATH"] == "/bin"
    assert made["OPENBLAS_NUM_THREADS"] == "1"  # a share of the processors, at least one
    assert made["OMP_NUM_THREADS"] == "7"  # what the operator says counts


def test_a_doorbell_is_read_and_made_alike() -> None:
    job_id = new_id("job")
    assert id_in(frame_for(job_id)) == job_id


def _body(value: Any) -> dict[str, Any]:
    return {"body": base64.b64encode(json.dumps(value).encode()).decode()}


@pytest.mark.parametrize(
    "frame",
    [
        None, 5, "text", [], {}, {"body": None}, {"body": 5}, {"body": "é"}, {"body": "!"}, _body(None), _body([]),
        _body([["x"], {}, {}]), _body([["job_" + "0" * 32], {"a": 1}, {}]), _body([["job_" + "0" * 32] * 2, {}, {}]),
        _body([[["job_" + "0" * 32]], {}, {}]), _body([["job_" + "0" * 32 + "\n"], {}, {}]),
        _body([[{"job_" + "0" * 32: 1}], {}, {}]),
    ],
)  # fmt: skip
def test_what_is_no_doorbell_is_none(frame: Any) -> None:
    assert id_in(frame) is None


@given(JSON)
def test_no_frame_whatever_raises(value: Any) -> None:
    assert id_in(value) is None
    assert id_in({"body": value}) is None
    assert id_in(_body(storable(value))) is None


def test_fault_plans() -> None:
    assert parse("") == {}
    assert parse("after_claim:exit:2,before_ring:stall") == {("after_claim", 2): "exit", ("before_ring", 1): "stall"}
    for wrong in ("after_claim", "after_claim:explode", "after_claim:exit:0", "after_claim:exit:x"):
        with pytest.raises(ValueError, match="PREFSVM_FAULT"):
            parse(wrong)

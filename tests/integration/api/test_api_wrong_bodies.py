"""Bodies that are wrong from end to end: for every call that takes JSON, saying so costs little memory and time."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import httpx
import orjson
import psutil
import pytest
from api_support import api_process, store_dataset, store_model

BODY_BYTES = 1_000_000
QUICK_BODY_BYTES = 250_000
MOST_BYTES = 50_000_000
MOST_SECONDS = 0.3
"""What a megabyte of them may cost. Before this was looked at, that were 400 MB and 2 s."""
WRONG: dict[str, list[Any]] = {
    "numbers": [1],
    "texts": ["x"],
    "lists": [[]],
    "objects": [{}],
    "nulls": [None],
    "true": [True],
    "objects of lists": [{"a": []}],
    "lists of numbers": [[1]],
    "mixed": [1, "x", [], {}, None, True, {"a": {"b": []}}],
}
NESTED: Any = []
for _ in range(100):  # orjson writes 254
    NESTED = [NESTED]


class Bodies:
    """What is wrong, so many bytes of it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.lists = {kind: self.many(items) for kind, items in WRONG.items()}
        self.unknown_keys = {f"k{number}": 1 for number in range(size * 9 // 100)}

    def many(self, items: list[Any]) -> list[Any]:
        """Return as many of these as make a body."""
        return list(islice(cycle(items), self.size * len(items) // len(orjson.dumps(items))))


def resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def good(schema: dict[str, Any], document: dict[str, Any]) -> Any:
    """Return some value that has the form of a schema: what is wrong below it must not be hidden by what is above."""
    schema = resolved(schema, document)
    if schema.get("examples"):
        return schema["examples"][0]
    for word in ("const", "default"):
        if word in schema:
            return schema[word]
    if "enum" in schema:
        return schema["enum"][0]
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return good(schema[word][0], document)
    if schema.get("type") == "object":
        required = schema.get("required", [])
        return {name: good(schema["properties"][name], document) for name in required}
    least = schema.get("exclusiveMinimum", schema.get("minimum", 0))
    return {"array": [], "number": least + 0.5, "integer": least + 1, "boolean": True}.get(schema.get("type"), "x")


def wrong_values(
    schema: dict[str, Any], document: dict[str, Any], bodies: Bodies, depth: int = 0
) -> Iterator[tuple[str, Any]]:
    """Yield values for a place of a body, wrong at the place or anywhere below it, each with what is wrong."""
    schema = resolved(schema, document)
    if depth <= 1 and (depth == 0 or schema.get("type") not in ("array", "object")):
        yield "a list", bodies.lists["lists"]
    if depth == 0:
        yield "levels", bodies.many([NESTED])
    for word in ("anyOf", "oneOf"):
        for choice in schema.get(word, []):
            if resolved(choice, document).get("type") in ("array", "object"):
                yield from wrong_values(choice, document, bodies, depth + 1)
    if schema.get("type") == "array":
        for kind, items in bodies.lists.items():
            yield f"a list of {kind}", items
        for kind, item in wrong_values(schema.get("items", {}), document, bodies, depth + 1):
            yield f"item: {kind}", [item]
    elif schema.get("type") == "object":
        base = good(schema, document)
        yield "unknown fields", base | bodies.unknown_keys
        yield "unknown fields of text", base | dict.fromkeys(bodies.unknown_keys, "x")
        for name, below in schema.get("properties", {}).items():
            for kind, value in wrong_values(below, document, bodies, depth + 1):
                yield f"{name}: {kind}", base | {name: value}
        if isinstance(schema.get("additionalProperties"), dict):
            for kind, value in wrong_values(schema["additionalProperties"], document, bodies, depth + 1):
                yield f"value: {kind}", {"a": value}


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Yield id, method, path and schema of every call that takes a body of JSON."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {})
            if "application/json" in content:
                yield operation["operationId"], method, path, content["application/json"]["schema"]


def start_peak_anew(process: psutil.Process) -> int:
    """Forget the largest resident size of a process; returns the present one."""
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")
    return int(process.memory_info().rss)


def peak_of(process: psutil.Process) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


def seconds_of(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@pytest.mark.parametrize(
    ("size", "every"), [(QUICK_BODY_BYTES, 5), pytest.param(BODY_BYTES, 1, marks=pytest.mark.slow)]
)
def test_a_megabyte_of_wrong_items_costs_little(settings, database, tmp_path, size, every):
    """Of every call with a body of JSON in the document, at every place of its schema, or at each fifth of them.

    Five and the nine kinds of lists have no factor in common: each kind has its turn. A quarter of a megabyte may cost
    half of what a megabyte may: what a process does besides is not so little any more.
    """
    bodies, least = Bodies(size), 0.5 if size < BODY_BYTES else 1.0
    model, dataset = store_model(database, tmp_path), store_dataset(database)
    ids = {"model_id": model, "name": model, "version": model, "dataset_id": dataset["id"]}
    worst: dict[str, tuple[float, float, str]] = {}
    with api_process(settings, tmp_path / "log") as (client, running):
        process = psutil.Process(running.pid)
        document = client.get("/openapi.json").json()
        walked = set()
        for identifier, method, path, schema in operations(document):
            walked.add(identifier)
            where = path.format_map(
                {name: ids.get(name, "x") for name in ("job_id", "batch_id", "audit_id", "project_id")} | ids
            )
            for kind, value in islice(wrong_values(schema, document, bodies), None, None, every):
                if isinstance(value, dict) and "model" in value and identifier in ("predict", "chooseOperatingPoint"):
                    value = value | ({"model": model} if isinstance(value["model"], str) else {})
                raw = orjson.dumps(value)
                allowed = max(least, len(raw) / BODY_BYTES)
                for _ in range(3):  # a busy machine makes one dear, but not each time
                    before, used = start_peak_anew(process), seconds_of(process)
                    answer = client.request(method, where, content=raw, headers={"content-type": "application/json"})
                    took, grown = seconds_of(process) - used, peak_of(process) - before
                    assert answer.status_code < 500, (identifier, kind, answer.text)
                    if took <= MOST_SECONDS * allowed and grown <= MOST_BYTES * allowed:
                        break
                else:
                    worst[f"{identifier}, {kind}"] = (round(took, 2), grown // 1_000_000, answer.text[:100])
        assert walked == {
            operation["operationId"]
            for methods in document["paths"].values()
            for operation in methods.values()
            if "application/json" in operation.get("requestBody", {}).get("content", {})
        }
    assert worst == {}


@pytest.mark.parametrize("mib", [2, pytest.param(32, marks=pytest.mark.slow)])
def test_many_wrong_rows_cost_what_their_json_does(settings, database, tmp_path, mib):
    """32 MiB had taken 12.7 GB, and no other call was answered for a minute."""
    raw = b'{"model":"fz","rows":[' + b"[]," * ((mib << 20) // 3 - 20) + b"[]]}"
    with api_process(settings, tmp_path / "log") as (client, running):
        process = psutil.Process(running.pid)
        for wrong in (raw, raw.replace(b"rows", b"texts"), b"[" * (mib << 19) + b"]" * (mib << 19)):
            before, used = start_peak_anew(process), seconds_of(process)
            answer = client.post("/predict", content=wrong, headers={"content-type": "application/json"})
            assert answer.status_code == 422
            assert peak_of(process) - before < mib * 41e6
            assert seconds_of(process) - used < mib  # half of what it had taken


def test_four_clients_that_repeat_wrong_bodies_leave_room_for_others(settings, tmp_path):
    """`/healthz` had taken 10 s beside them: processor seconds of the service, as a neighbour may have the cores."""
    wrong = Bodies(BODY_BYTES)
    bodies = [
        orjson.dumps({"model": "fz", "texts": wrong.lists["numbers"]}),
        orjson.dumps({"model": "fz", "rows": wrong.lists["lists"]}),
        orjson.dumps({"model": "fz"} | wrong.unknown_keys),
        orjson.dumps({"alias": "fz", "rows": [{}], "labels": wrong.lists["numbers"]}),
    ]
    over = threading.Event()
    answered: list[int] = []

    def repeat(url: httpx.URL, body: bytes) -> None:
        path = "/feedback" if body.startswith(b'{"alias"') else "/predict"
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
            while not over.is_set():
                answered.append(
                    client.post(path, content=body, headers={"content-type": "application/json"}).status_code
                )

    with api_process(settings, tmp_path / "log") as (client, running):
        process = psutil.Process(running.pid)
        threads = [threading.Thread(target=repeat, args=(client.base_url, body)) for body in bodies]
        for thread in threads:
            thread.start()
        took = []
        try:
            while len(took) < 10 or len(answered) < 12:
                used = seconds_of(process)
                assert client.get("/healthz").status_code == 200
                took.append(seconds_of(process) - used)
        finally:
            over.set()
            for thread in threads:
                thread.join(60)
    assert set(answered) <= {422, 429, 503}
    assert statistics.median(took) < 2

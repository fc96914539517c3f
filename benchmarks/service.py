"""Speed of predicting over HTTP on this machine, as ratios within one run and as processor time of the server.

Prints a table and writes it as JSON. Bars (issue "The service, complete"), for a model of 1,000 support vectors (RBF)
and 50 features:

* ``POST /predict``, one row: at most 2.2 × the processor time of a bare FastAPI JSON hello under the same uvicorn
  settings (in turn, the median of 25 pairs);
* 100 rows: at least 45,000 rows a second of one core, scores equal to the library's to 1e-12;
* at 25 % of its own highest rate, while a training runs: 99 % of the answers within 25 ms, ``/healthz`` within 50 ms;
* a batch: at least 0.8 × the rows a second of the decision function called directly;
* 1,000 models at random with a cache of 256 MB: resident memory within that and 100 MB;
* 20 jobs a second that do nothing;
* the local stack: 3 s from an empty folder to the first 200 of ``/readyz``; at rest at most 1 % of a core, and 250 MB
  for API and worker;
* a model of 500 MB, stored and fetched: the API grows by at most 64 MB, reading it takes at most 1.2 × its size.

Run it with ``make benchmarks`` on an otherwise idle machine (by hand: ``python -P``, since this file would hide the
package ``service``). Choose parts by name: ``python -P benchmarks/service.py --only predict``.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import hashlib
import io
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from service.db.session import Database
from service.db.tables import DEFAULT_PROJECT, ModelChunkRow, ModelRow
from service.identifiers import new_id
from service.local.stack import Stack, local_stack
from service.settings import Settings
from solver.decision import DecisionState
from solver.evaluation import Sigmoid
from solver.features import Column, Table, TableFeatures
from solver.model_file import Model, write_model

MB = 1_000_000
VECTORS, FEATURES = 1000, 50
NAMES = [f"x{j}" for j in range(FEATURES)]
ROUNDS = 25
CONNECTIONS = 8
PARTS = ["predict", "under-load", "batch", "cache", "jobs", "start", "idle", "model-500mb"]

HELLO = """
import socket, sys, uvicorn
from fastapi import FastAPI
from service.app import server_config
app = FastAPI()

@app.get("/hello")
async def hello():
    return {"hello": "world"}

config = server_config(app, host="127.0.0.1", port=int(sys.argv[1]))
config.http = "httptools"  # without our limits on what is read, which cost something too
uvicorn.Server(config).run()
"""
NO_OP_RUNNER = '''
from pathlib import Path
from worker.protocol import MODEL_FILE, Result

REPORT = {
    "algorithm": "none", "params": {}, "objective": {}, "status": "met", "status_reason": "", "threshold": 0.0,
    "classes": {"negative": "no", "positive": "yes"}, "timings": {"training": 0.0}, "calibration": None, "test": None,
    "rows": {"total": 0, "labelled": 0, "positive": 0, "negative": 0, "unlabelled": 0},
}

def warm_up(tell):
    """Nothing to load."""

def start_threads():
    """There are none."""

def numerics():
    return ""

def run(job, reporter):
    Path(job.scratch, MODEL_FILE).write_bytes(b"model")
    return Result("none", {}, REPORT)
'''


LARGE_MODEL_RUNNER = '''
import os
from pathlib import Path
from worker.protocol import MODEL_FILE, Result

REPORT = {
    "algorithm": "none", "params": {}, "objective": {}, "status": "met", "status_reason": "", "threshold": 0.0,
    "classes": {"negative": "no", "positive": "yes"}, "timings": {"training": 0.0}, "calibration": None, "test": None,
    "rows": {"total": 0, "labelled": 0, "positive": 0, "negative": 0, "unlabelled": 0},
}

def warm_up(tell):
    """Nothing to load."""

def start_threads():
    """There are none."""

def numerics():
    return ""

def run(job, reporter):
    os.link(os.environ["PREFSVM_JOB_RUNNER_MODEL"], Path(job.scratch, MODEL_FILE))
    return Result("svm", {}, REPORT)
'''
READ_MODEL = """
import sys
from pathlib import Path
from solver.model_file import read_model

def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024

before = peak()
model = read_model(sys.argv[1])
print(peak() - before)
"""


@dataclass
class Row:
    """One line of the table."""

    name: str
    value: float
    unit: str
    bar: float
    at_most: bool
    note: str = ""

    def print(self) -> None:
        met = self.value <= self.bar if self.at_most else self.value >= self.bar
        sign = "<=" if self.at_most else ">="
        print(
            f"{self.name:<58}{self.value:12,.2f} {self.unit:<7}bar {sign} {self.bar:,g}: {'met' if met else 'MISSED'}"
        )
        if self.note:
            print(f"    {self.note}")


# -- what is measured -------------------------------------------------------------------------------------------------


def rbf_model(generator: np.random.Generator, vectors: int = VECTORS) -> Model:
    values = generator.normal(size=(vectors, FEATURES))
    table = Table({name: Column(name, "number", values[:, j]) for j, name in enumerate(NAMES)})
    features = TableFeatures().fit(table)
    X, _ = features.transform(table)
    decision = DecisionState(
        kind="rbf",
        gamma=1 / FEATURES,
        degree=3,
        coef0=0.0,
        support_vectors=np.asarray(X),
        dual_coef=generator.normal(size=vectors),
        intercept=0.1,
        threshold=0.2,
        probability=Sigmoid(1.5, 0.1),
    )
    return Model("svm", {"C": 1.0}, {"kind": "f1"}, ("ham", "spam"), decision, features)


def store(database: Database, model: Model, folder: Path) -> str:
    """Write a model as a worker does, and return its id."""
    path = folder / "model"
    write_model(path, model)
    raw = path.read_bytes()
    model_id = new_id("mdl")
    with database.transaction() as session:
        row = ModelRow(
            project_id=DEFAULT_PROJECT,
            id=model_id,
            algorithm=model.algorithm,
            manifest=model.manifest,
            report={"status": "met"},
            bytes=len(raw),
            sha256=hashlib.sha256(raw).hexdigest(),
        )
        session.add(row)
        session.flush()
        for seq, start in enumerate(range(0, len(raw), 1 << 20)):
            session.add(ModelChunkRow(model_id=model_id, seq=seq, data=raw[start : start + (1 << 20)]))
    return model_id


def process_of(stack: Stack, module: str) -> psutil.Process:
    for process in psutil.Process(stack.pid).children(recursive=True):
        if module in " ".join(process.cmdline()):
            return process
    raise RuntimeError(f"no process of {module} among the children of the stack")


def processes_of(stack: Stack) -> list[psutil.Process]:
    supervisor = psutil.Process(stack.pid)
    return [supervisor, *supervisor.children(recursive=True)]


def spent_by(processes: Iterable[psutil.Process]) -> dict[psutil.Process, float]:
    """Processor seconds of each of the processes that there still are."""
    spent = {}
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            spent[process] = processor_seconds(process)
    return spent


def wait_for_rest(stack: Stack) -> None:
    """Wait until the stack is idle, a process for the next job ready: as it is when somebody comes."""
    for _ in range(120):
        before = spent_by(processes_of(stack))
        time.sleep(1)
        after = spent_by(processes_of(stack))
        if before.keys() == after.keys() and sum(after.values()) - sum(before.values()) < 0.1:
            return
    raise RuntimeError("the stack does not come to rest")


@contextmanager
def hello_server() -> Iterator[tuple[str, int, psutil.Process]]:
    """Serve a bare FastAPI application as the product's is served."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-P", "-c", HELLO, str(port)])
    try:
        for _ in range(1200):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        yield "127.0.0.1", port, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(20)


# -- a client that costs little ---------------------------------------------------------------------------------------


def request_bytes(method: str, path: str, body: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


class Connection:
    """One kept-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, host: str, port: int) -> Connection:
        return cls(*await asyncio.open_connection(host, port))

    async def ask(self, request: bytes) -> bytes:
        """Return the body of the answer, which must be a 200."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        length = head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0]
        return await self._reader.readexactly(int(length))

    @property
    def ended(self) -> bool:
        """Whether the server has closed it."""
        return self._reader.at_eof()

    def close(self) -> None:
        self._writer.close()


async def fixed_rate(host: str, port: int, request: bytes, rate: float, seconds: float) -> list[float]:
    """Send requests at a fixed rate, answered or not; return the seconds from when each was due to its answer."""
    free = [await Connection.open(host, port) for _ in range(64)]
    latencies: list[float] = []
    begun = time.perf_counter()

    async def one(due: float) -> None:
        connection = free.pop()
        if connection.ended:  # the server closes those on which nothing is asked for five seconds
            connection.close()
            connection = await Connection.open(host, port)
        await connection.ask(request)
        latencies.append(time.perf_counter() - due)
        free.append(connection)

    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * seconds)):
            due = begun + number / rate
            pause = due - time.perf_counter()
            if pause > 0:
                await asyncio.sleep(pause)
            while not free:
                await asyncio.sleep(0.001)
            group.create_task(one(due))
    for connection in free:
        connection.close()
    return latencies


async def healthz(host: str, port: int, seconds: float) -> list[float]:
    """Ask for ``/healthz`` ten times a second."""
    connection = await Connection.open(host, port)
    latencies = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        begun = time.perf_counter()
        await connection.ask(request_bytes("GET", "/healthz"))
        latencies.append(time.perf_counter() - begun)
        await asyncio.sleep(0.1)
    connection.close()
    return latencies


def processor_seconds(process: psutil.Process) -> float:
    """What a process has taken, by the kernel's clock of it: that counts nanoseconds, /proc hundredths of a second."""
    clock = ctypes.c_int()
    try:
        if ctypes.CDLL(None).clock_getcpuclockid(process.pid, ctypes.byref(clock)):
            raise psutil.NoSuchProcess(process.pid)
        return time.clock_gettime(clock.value)
    except OSError:  # it ended in between
        raise psutil.NoSuchProcess(process.pid) from None


def cost(process: psutil.Process, host: str, port: int, request: bytes, total: int) -> tuple[float, float]:
    """Processor seconds of the server a request, and requests a second; who is answered asks again at once."""

    async def measure() -> tuple[float, float]:
        opened = [await Connection.open(host, port) for _ in range(CONNECTIONS)]
        for connection in opened:  # what it takes to accept a connection is no part of a request
            await connection.ask(request)

        async def work(connection: Connection) -> None:
            for _ in range(total // CONNECTIONS):
                await connection.ask(request)

        before, begun = processor_seconds(process), time.perf_counter()
        await asyncio.gather(*map(work, opened))
        spent, seconds = processor_seconds(process) - before, time.perf_counter() - begun
        for connection in opened:
            connection.close()
        done = total // CONNECTIONS * CONNECTIONS
        return spent / done, done / seconds

    return asyncio.run(measure())


def quantile(values: list[float], share: float) -> float:
    return float(np.quantile(values, share, method="higher"))


# -- the parts --------------------------------------------------------------------------------------------------------


class Bench:
    """A running stack with one model in it."""

    def __init__(self, stack: Stack, folder: Path, quick: bool) -> None:
        self.stack, self.folder, self.quick = stack, folder, quick
        self.generator = np.random.default_rng(0)
        self.api = process_of(stack, "service.app")
        address = httpx.URL(stack.url)
        assert address.port is not None
        self.host, self.port = address.host, address.port
        self.client = httpx.Client(base_url=stack.url, timeout=120)
        # as a worker: the API may not write models
        url = Settings(database_url=process_of(stack, "worker.main").environ()["PREFSVM_DATABASE_URL"]).database_url
        assert url is not None
        self.database = Database(url)
        self.model = rbf_model(self.generator)
        self.model_id = store(self.database, self.model, folder)

    def close(self) -> None:
        self.client.close()
        self.database.close()

    def body(self, rows: int, model: str | None = None) -> bytes:
        values = self.generator.normal(size=(rows, FEATURES)).round(6).tolist()
        named = [dict(zip(NAMES, row, strict=True)) for row in values]
        return json.dumps({"model": model or self.model_id, "rows": named}, separators=(",", ":")).encode()

    def answer(self, response: httpx.Response) -> Any:
        assert not response.is_error, response.text
        return response.json()

    def wait(self, path: str, pause: float = 0.02) -> Any:
        while (job := self.answer(self.client.get(path)))["status"] in ("queued", "running"):
            time.sleep(pause)
        assert job["status"] == "succeeded", job
        return job


def predict(bench: Bench) -> list[Row]:
    one, hundred = bench.body(1), bench.body(100)
    rows = json.loads(hundred)["rows"]
    X = np.array([list(row.values()) for row in rows])
    table = Table({name: Column(name, "number", X[:, j].copy()) for j, name in enumerate(NAMES)})
    expected = bench.model.predict(table)
    answered = bench.answer(
        bench.client.post("/predict", content=hundred, headers={"Content-Type": "application/json"})
    )["predictions"]
    scores = np.array([made["score"] for made in answered])
    difference = float(np.max(np.abs(scores - expected.scores) / np.abs(expected.scores)))
    assert [made["label"] for made in answered] == expected.labels
    total = 400 if bench.quick else 1200
    costs: dict[str, list[tuple[float, float]]] = {"hello": [], "one": [], "hundred": []}
    with hello_server() as (host, port, process):
        hello = request_bytes("GET", "/hello")
        cost(process, host, port, hello, 4000)
        cost(bench.api, bench.host, bench.port, request_bytes("POST", "/predict", one), 4000)
        # Many short pairs: what else the machine does spoils some, and the median is of the others.
        for _ in range(ROUNDS):
            costs["hello"].append(cost(process, host, port, hello, total))
            for name, body, count in (("one", one, total), ("hundred", hundred, total // 8)):
                request = request_bytes("POST", "/predict", body)
                costs[name].append(cost(bench.api, bench.host, bench.port, request, count))
    spent = {name: statistics.median(pair[0] for pair in pairs) for name, pairs in costs.items()}
    rates = {name: statistics.median(pair[1] for pair in pairs) for name, pairs in costs.items()}
    ratios = [one[0] / hello[0] for one, hello in zip(costs["one"], costs["hello"], strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    return [
        Row(
            "predict, 1 row: processor time / hello's",
            statistics.median(ratios),
            "x",
            2.2,
            True,
            f"{spent['one'] * 1e6:.0f} against {spent['hello'] * 1e6:.0f} µs; {ROUNDS} ratios {min(ratios):.2f} to "
            f"{max(ratios):.2f}, half of them {low:.2f} to {high:.2f}; {rates['one']:,.0f} and {rates['hello']:,.0f} "
            "requests/s with the client beside it",
        ),
        Row(
            "predict, 100 rows: rows a second of one core",
            100 / spent["hundred"],
            "rows/s",
            45_000,
            False,
            f"{spent['hundred'] * 1e3:.2f} ms a request of {len(hundred) / 1000:.0f} kB",
        ),
        Row("  scores: largest relative difference to the library's", difference, "", 1e-12, True),
    ]


def training_body(bench: Bench, rows: int) -> dict[str, Any]:
    """Upload rows and return a training on them: for minutes, if there are many."""
    X = bench.generator.normal(size=(rows, 30))
    noise = bench.generator.normal(size=rows)
    label = np.where(X[:, 0] * X[:, 1] + X[:, 2] + noise > 0, "yes", "no")
    table = pa.table({**{f"x{j}": X[:, j] for j in range(30)}, "label": label})
    file = io.BytesIO()
    pq.write_table(table, file)
    dataset = bench.answer(bench.client.post("/datasets", files={"file": ("rows.parquet", file.getvalue())}))
    return {
        "dataset": dataset["id"],
        "target": "label",
        "positive": "yes",
        "algorithm": "svm",
        "objective": {"kind": "f1"},
        "params": {"C": 1000.0, "gamma": 1.0},
    }


def under_load(bench: Bench) -> list[Row]:
    request = request_bytes("POST", "/predict", bench.body(1))
    seconds = 5.0 if bench.quick else 60.0
    _, highest = cost(bench.api, bench.host, bench.port, request, 4000)
    job = bench.answer(bench.client.post("/train", json=training_body(bench, 100_000)))
    while bench.answer(bench.client.get(f"/jobs/{job['id']}"))["phase"] != "training":
        time.sleep(0.1)

    async def both() -> tuple[list[float], list[float]]:
        return await asyncio.gather(
            fixed_rate(bench.host, bench.port, request, highest / 4, seconds), healthz(bench.host, bench.port, seconds)
        )

    latencies, health = asyncio.run(both())
    still = bench.answer(bench.client.get(f"/jobs/{job['id']}"))["status"]
    assert still == "running", f"the training was {still} before the measurement ended"
    bench.client.post(f"/jobs/{job['id']}/cancel")
    note = (
        f"p50 {quantile(latencies, 0.5) * 1e3:.1f}, p99.9 {quantile(latencies, 0.999) * 1e3:.1f} ms at "
        f"{highest / 4:,.0f} of {highest:,.0f} requests/s for {seconds:.0f} s, {len(latencies):,} answers, no errors"
    )
    return [
        Row(
            "predict at 25 % of its rate beside a training: p99", quantile(latencies, 0.99) * 1e3, "ms", 25, True, note
        ),
        Row("  /healthz meanwhile: longest", max(health) * 1e3, "ms", 50, True, f"{len(health)} calls"),
    ]


def batch(bench: Bench) -> list[Row]:
    count = 50_000 if bench.quick else 500_000
    values = bench.generator.normal(size=(count, FEATURES))
    file = io.BytesIO()
    pq.write_table(pa.table({name: values[:, j] for j, name in enumerate(NAMES)}), file)
    dataset = bench.answer(bench.client.post("/datasets", files={"file": ("rows.parquet", file.getvalue())}))
    assert bench.model.features is not None
    X, _ = bench.model.feature_matrix(
        Table({name: Column(name, "number", values[:, j]) for j, name in enumerate(NAMES)})
    )
    rates: dict[str, list[float]] = {"direct": [], "csv": [], "parquet": [], "jsonl": []}
    for _ in range(2 if bench.quick else 3):
        wait_for_rest(bench.stack)
        begun = time.perf_counter()
        bench.model.decision.decision_function(X)
        rates["direct"].append(count / (time.perf_counter() - begun))
        for form in ("csv", "parquet", "jsonl"):
            wait_for_rest(bench.stack)
            body = {"model": bench.model_id, "dataset": dataset["id"], "format": form}
            made = bench.answer(bench.client.post("/batches", json=body))
            done = bench.wait(f"/batches/{made['id']}", pause=0.25)  # each look takes processor time from the job
            started, finished = (datetime.fromisoformat(done[name]) for name in ("started_at", "finished_at"))
            rates[form].append(count / (finished - started).total_seconds())
    medians = {name: statistics.median(values) for name, values in rates.items()}
    note = ", ".join(f"{name} {rate:,.0f}" for name, rate in medians.items())
    ratios = [made / direct for made, direct in zip(rates["csv"], rates["direct"], strict=True)]
    # Both may use all cores: the function by the threads of BLAS, the job by deciding on blocks side by side.
    return [
        Row(
            "batch to CSV: rows/s / the decision function's",
            statistics.median(ratios),
            "x",
            0.8,
            False,
            f"rows/s: {note}; start to finish of jobs of {count:,} rows",
        )
    ]


def cache(folder: Path, quick: bool) -> list[Row]:
    """1,000 models, more than the cache holds, asked at random."""
    cap, count, asked = 256 * MB, 100 if quick else 1000, 2000 if quick else 20_000
    with local_stack(folder / "cache", environment={"PREFSVM_MODEL_CACHE_BYTES": str(cap)}) as stack:
        bench = Bench(stack, folder, quick)
        models = [store(bench.database, rbf_model(bench.generator, 500), folder) for _ in range(count)]
        before = bench.api.memory_info().rss

        async def ask() -> tuple[list[float], int]:
            connections = [await Connection.open(bench.host, bench.port) for _ in range(4)]
            body = json.loads(bench.body(1))
            latencies, peak = [], 0

            async def work(connection: Connection, seed: int) -> None:
                nonlocal peak
                generator = np.random.default_rng(seed)
                # Few are asked often, as in life, or nearly every look-up would be a miss.
                for number in generator.zipf(1.3, asked // len(connections)) % count:
                    request = request_bytes("POST", "/predict", json.dumps({**body, "model": models[number]}).encode())
                    begun = time.perf_counter()
                    await connection.ask(request)
                    latencies.append(time.perf_counter() - begun)
                    peak = max(peak, bench.api.memory_info().rss)

            for model_id in models:  # each once, so that the cache is full
                await connections[0].ask(
                    request_bytes("POST", "/predict", json.dumps({**body, "model": model_id}).encode())
                )
                peak = max(peak, bench.api.memory_info().rss)
            await asyncio.gather(*(work(connection, seed) for seed, connection in enumerate(connections)))
            return latencies, peak

        latencies, peak = asyncio.run(ask())
        bench.close()
    return [
        Row(
            f"cache of 256 MB, {count:,} models: growth of resident memory",
            (peak - before) / MB,
            "MB",
            356,
            True,
            f"p50 {quantile(latencies, 0.5) * 1e3:.1f}, p99 {quantile(latencies, 0.99) * 1e3:.1f} ms, with misses",
        )
    ]


def no_op_jobs(folder: Path, quick: bool) -> list[Row]:
    """Jobs that do nothing, each in a process of its own."""
    count = 40 if quick else 400
    parts = folder / "parts"
    parts.mkdir()
    (parts / "no_op_runner.py").write_text(NO_OP_RUNNER)
    path = os.pathsep.join(filter(None, [str(parts), os.environ.get("PYTHONPATH")]))
    environment = {"PREFSVM_JOB_RUNNER": "no_op_runner", "PYTHONPATH": path, "PREFSVM_WORKER_SLOTS": "2"}
    with local_stack(folder / "jobs", environment=environment) as stack:
        bench = Bench(stack, folder, quick)
        body = {**training_body(bench, 100), "max_seconds": 60}
        jobs = [bench.answer(bench.client.post("/train", json=body)) for _ in range(count)]
        for job in jobs:
            last = bench.wait(f"/jobs/{job['id']}")
        created, finished = datetime.fromisoformat(jobs[0]["created_at"]), datetime.fromisoformat(last["finished_at"])
        bench.close()
    rate = count / (finished - created).total_seconds()
    return [
        Row("jobs that do nothing, 2 slots", rate, "jobs/s", 20, False, f"{count} jobs, first accepted to last done")
    ]


def start(folder: Path, quick: bool) -> list[Row]:
    """The local stack, from an empty folder and from one that was used, to the first 200 of ``/readyz``."""
    seconds: dict[str, list[float]] = {"empty": [], "used": []}
    for number in range(2 if quick else 5):
        for name, taken in seconds.items():
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            command = [sys.executable, "-P", "-m", "service.cli.main", "serve", "--port", str(port)]
            begun = time.perf_counter()
            with (folder / f"start-{name}.log").open("ab") as log:
                process = subprocess.Popen(
                    [*command, "--data-dir", str(folder / f"start-{number}")], stdout=log, stderr=log
                )
            try:
                while not _is_ready(port):
                    assert process.poll() is None, (folder / f"start-{name}.log").read_text()
                    time.sleep(0.02)
                taken.append(time.perf_counter() - begun)
            finally:
                process.terminate()
                process.wait(60)
    notes = {name: f"{min(taken):.2f} to {max(taken):.2f} s" for name, taken in seconds.items()}
    return [
        Row(f"serve, from {name} folder to ready", statistics.median(seconds[key]), "s", 3, True, notes[key])
        for key, name in (("empty", "an empty"), ("used", "a used"))
    ]


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def idle(folder: Path, quick: bool) -> list[Row]:
    """What the local stack takes when nobody asks for anything."""
    seconds = 10 if quick else 60
    with local_stack(folder / "idle") as stack:
        wait_for_rest(stack)
        before = spent_by(processes_of(stack))
        time.sleep(seconds)
        after = spent_by(before)
        shares: dict[str, float] = {}
        memory: dict[str, float] = {}
        for process, spent in after.items():
            name = _name_of(process)
            shares[name] = shares.get(name, 0.0) + 100 * (spent - before[process]) / seconds
            memory[name] = memory.get(name, 0.0) + process.memory_info().rss / MB
    listed = ", ".join(f"{name} {share:.2f}" for name, share in sorted(shares.items(), key=lambda item: -item[1]))
    resident = ", ".join(f"{name} {size:.0f}" for name, size in sorted(memory.items(), key=lambda item: -item[1]))
    return [
        Row("idle: all processes together, of one core", sum(shares.values()), "%", 1, True, f"{listed}; {seconds} s"),
        Row("idle: the busiest kind of process, of one core", max(shares.values()), "%", 1, True),
        Row("idle: resident memory of API and worker", memory["API"] + memory["worker"], "MB", 250, True, resident),
    ]


def _name_of(process: psutil.Process) -> str:
    command = " ".join(process.cmdline())
    names = {
        "service.app": "API", "worker.main": "worker", "worker.forkserver": "processes for jobs",
        "service.dispatcher": "dispatcher", "service.cli.main": "supervisor", "postgres": "Postgres",
    }  # fmt: skip
    return next((name for word, name in names.items() if word in command), process.name())


def large_model(folder: Path, quick: bool) -> list[Row]:
    """A model of 500 MB: a job leaves it, it is stored, fetched over HTTP, and read by a process of its own."""
    size = 50 * MB if quick else 500 * MB
    model = folder / "large-model"
    write_model(model, rbf_model(np.random.default_rng(0), size // (8 * (FEATURES + 1))))
    size = model.stat().st_size
    command = [sys.executable, "-P", "-c", READ_MODEL, str(model)]
    read = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    parts = folder / "large-parts"
    parts.mkdir()
    (parts / "large_runner.py").write_text(LARGE_MODEL_RUNNER)
    path = os.pathsep.join(filter(None, [str(parts), os.environ.get("PYTHONPATH")]))
    environment = {
        "PREFSVM_JOB_RUNNER": "large_runner", "PREFSVM_JOB_RUNNER_MODEL": str(model), "PYTHONPATH": path,
    }  # fmt: skip
    with local_stack(folder / "large", environment=environment) as stack:
        bench = Bench(stack, folder, quick)
        watched = {"API": bench.api, "worker": process_of(stack, "worker.main")}
        body = training_body(bench, 100)
        with watched_memory(watched) as growth:
            job = bench.wait(f"/jobs/{bench.answer(bench.client.post('/train', json=body))['id']}", pause=0.1)
            for _ in range(2):
                digest = hashlib.sha256()
                with bench.client.stream("GET", f"/models/{job['model_id']}/export") as answer:
                    for piece in answer.iter_bytes():
                        digest.update(piece)
                assert digest.digest() == hashlib.file_digest(model.open("rb"), "sha256").digest()
        bench.close()
    return [
        Row(
            f"model of {size / MB:.0f} MB, stored and fetched twice: growth of the API",
            growth["API"] / MB,
            "MB",
            64,
            True,
            f"the worker that stores it grows by {growth['worker'] / MB:.0f} MB",
        ),
        Row("  memory of the process that reads it / its size", read / size, "x", 1.2, True),
    ]


@contextmanager
def watched_memory(processes: dict[str, psutil.Process]) -> Iterator[dict[str, float]]:
    """Yield by how many bytes the resident memory of each process has grown at most; known when the block has ended."""
    before = {name: process.memory_info().rss for name, process in processes.items()}
    growth = dict.fromkeys(processes, 0.0)
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.02):
            for name, process in processes.items():
                growth[name] = max(growth[name], process.memory_info().rss - before[name])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield growth
    finally:
        stop.set()
        watcher.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS)
    parser.add_argument("--quick", action="store_true", help="fewer requests: for trying it out")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    chosen = arguments.only or PARTS
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="prefsvm-benchmark-") as name:
        folder = Path(name)
        shared: dict[str, Callable[[Bench], list[Row]]] = {
            "predict": predict,
            "under-load": under_load,
            "batch": batch,
        }
        if set(chosen) & set(shared):
            with local_stack(folder / "data") as stack:
                bench = Bench(stack, folder, arguments.quick)
                for part, measure in shared.items():
                    if part in chosen:
                        rows += measure(bench)
                bench.close()
        alone: dict[str, Callable[[Path, bool], list[Row]]] = {
            "cache": cache,
            "jobs": no_op_jobs,
            "start": start,
            "idle": idle,
            "model-500mb": large_model,
        }
        for part, measure_alone in alone.items():
            if part in chosen:
                rows += measure_alone(folder, arguments.quick)
    for row in rows:
        row.print()
    if arguments.only or arguments.quick:
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    result = {
        "date": datetime.now().date().isoformat(),
        "cores": psutil.cpu_count(),
        "rows": [vars(row) for row in rows],
    }
    (arguments.out / "service.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()

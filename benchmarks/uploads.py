"""Memory of the API while big files arrive at once, by ``POST /datasets`` and in parts, and how fast it answers others.

The bytes are random and called Parquet, so that they are refused as soon as they have arrived: this measures the way
into the store; `benchmarks/ingest.py` measures the reader.

`python -P benchmarks/uploads.py --megabytes 2048 --at-once 4` from the root of the repository.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx
import psutil

from service.local.stack import Stack, local_stack

MIB = 1 << 20
BLOCK = os.urandom(MIB)
TUS = {"Tus-Resumable": "1.0.0"}


def api_process(stack: Stack) -> psutil.Process:
    for process in psutil.Process(stack.pid).children(recursive=True):
        if "service.app" in " ".join(process.cmdline()):
            return process
    raise RuntimeError("no API process among the children of the stack")


def blocks(megabytes: int) -> Iterator[bytes]:
    for _ in range(megabytes):
        yield BLOCK


def post(url: str, megabytes: int, with_length: bool) -> None:
    headers = {"Content-Type": "application/vnd.apache.parquet"}
    if with_length:
        headers["Content-Length"] = str(megabytes * MIB)
    answer = httpx.post(f"{url}/datasets", content=blocks(megabytes), headers=headers, timeout=1800, trust_env=False)
    assert answer.status_code == 422, answer.text


def in_parts(url: str, megabytes: int, _: bool) -> None:
    with httpx.Client(base_url=url, timeout=1800, trust_env=False) as client:
        headers = TUS | {"Upload-Length": str(megabytes * MIB), "Upload-Metadata": "format cGFycXVldA=="}
        path = client.post("/uploads", headers=headers).headers["location"]
        headers = TUS | {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
        answer = client.patch(path, headers=headers, content=blocks(megabytes))
        assert answer.status_code == 204, answer.text
        while client.get(path).json()["status"] == "received":
            time.sleep(0.2)
        assert client.get(path).json()["error"]["code"] == "malformed"


def measure(stack: Stack, send: Callable[[str, int, bool], None], megabytes: int, at_once: int) -> None:
    api = api_process(stack)
    before = peak = api.memory_info().rss
    waits: list[float] = []
    stop = threading.Event()

    def watch() -> None:
        nonlocal peak
        with httpx.Client(base_url=stack.url, timeout=60, trust_env=False) as client:
            while not stop.wait(0.05):
                peak = max(peak, api.memory_info().rss)
                begun = time.perf_counter()
                client.get("/healthz")
                waits.append(time.perf_counter() - begun)

    watcher = threading.Thread(target=watch)
    watcher.start()
    begun = time.perf_counter()
    # Processes of their own: whoever watches would wait for Python's lock in the midst of threads that send.
    with ProcessPoolExecutor(at_once, multiprocessing.get_context("spawn")) as pool:
        for sent in [pool.submit(send, stack.url, megabytes, i % 2 == 0) for i in range(at_once)]:
            sent.result()
    seconds = time.perf_counter() - begun
    stop.set()
    watcher.join()
    waits.sort()
    grown = (peak - before) / MIB
    median, late = 1000 * statistics.median(waits), 1000 * waits[int(0.99 * len(waits))]
    print(
        f"{send.__name__}: {at_once} x {megabytes} MiB in {seconds:.0f} s; API grew by {grown:.1f} MiB "
        f"({grown / at_once:.1f} each; bar 16); healthz median {median:.0f} ms, p99 {late:.0f} ms (bar 100), "
        f"of {len(waits)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=2048)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--ways", nargs="+", default=["post", "in_parts"], choices=["post", "in_parts"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, local_stack(Path(folder, "data")) as stack:
        for warm_up in (post, in_parts):
            warm_up(stack.url, 4, True)
        for way in arguments.ways:
            measure(stack, {"post": post, "in_parts": in_parts}[way], arguments.megabytes, arguments.at_once)


if __name__ == "__main__":
    main()

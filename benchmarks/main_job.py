"""Speed and memory of the service on this machine, measured from outside over HTTP.

Prints a table and writes it as JSON. Bars (issue "The main job, end to end"):

* first job accepted in under 4 s from a warm ``prefsvm serve`` (environment and data folder exist);
* overhead of a job, created to finished minus the time inside fit, under 0.5 s on the demo data;
* a 600 MB CSV upload with the API process growing by less than 64 MB.

Run it with ``make benchmarks`` on an otherwise idle machine (by hand: ``python -P``, since the benchmark of the solver
beside this file would hide the package ``solver``).
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil

from service.local.stack import Stack, local_stack
from solver.examples import POSITIVE, TARGET, breast_tumours

MB = 1_000_000


def answer(response: httpx.Response) -> Any:
    assert not response.is_error, response.text
    return response.json()


def upload_tumours(client: httpx.Client) -> dict[str, Any]:
    csv = breast_tumours().training_csv
    return answer(client.post("/datasets", files={"file": ("tumours.csv", csv, "text/csv")}))


def submit(client: httpx.Client, dataset: dict[str, Any]) -> dict[str, Any]:
    body = {"dataset": dataset["id"], "target": TARGET, "positive": POSITIVE, "algorithm": "psvm"}
    return answer(client.post("/train", json={**body, "objective": {"kind": "recall", "target": 0.95}}))


def wait(client: httpx.Client, job: dict[str, Any]) -> dict[str, Any]:
    while job["status"] in ("queued", "running"):
        time.sleep(0.02)
        job = answer(client.get(f"/jobs/{job['id']}"))
    assert job["status"] == "succeeded", job
    return job


def first_job(data_dir: Path, runs: int) -> list[float]:
    """Seconds from starting ``prefsvm serve`` on an existing data folder to the 202 of the first job."""
    seconds = []
    for _ in range(runs):
        begun = time.perf_counter()
        with local_stack(data_dir) as stack, httpx.Client(base_url=stack.url, timeout=60) as client:
            submit(client, upload_tumours(client))
            seconds.append(time.perf_counter() - begun)
    return seconds


def overheads(client: httpx.Client, runs: int) -> list[float]:
    """Seconds from created to finished, in the database's time, minus the time inside fit."""
    dataset = upload_tumours(client)
    seconds = []
    for _ in range(runs):
        job = wait(client, submit(client, dataset))
        report = answer(client.get(f"/models/{job['model_id']}"))["report"]
        created, finished = (datetime.fromisoformat(job[key]) for key in ("created_at", "finished_at"))
        seconds.append((finished - created).total_seconds() - report["timings"]["training"])
        time.sleep(2)  # let the next warm spare get ready, as it would between two people's jobs
    return seconds


def csv_blocks(total: int) -> Iterator[bytes]:
    """Yield a CSV of `total` bytes or a little more: 20 number columns and a label."""
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(2000, 20)).round(6)
    block = "".join(",".join(map(str, row)) + f",{'yes' if row[0] > 0 else 'no'}\n" for row in rows.tolist()).encode()
    header = (",".join(f"x{i}" for i in range(20)) + ",label\n").encode()
    yield header
    sent = len(header)
    while sent < total:
        yield block
        sent += len(block)


def api_process(stack: Stack) -> psutil.Process:
    for process in psutil.Process(stack.pid).children(recursive=True):
        if "service.app" in " ".join(process.cmdline()):
            return process
    raise RuntimeError("no API process among the children of the stack")


def big_upload(stack: Stack, client: httpx.Client, size: int) -> dict[str, float]:
    """Upload `size` bytes of CSV while watching the resident memory of the API and of all its children."""
    api = api_process(stack)
    before = api.memory_info().rss
    peak = {"api": before, "reader": 0}
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.05):
            peak["api"] = max(peak["api"], api.memory_info().rss)
            for child in api.children(recursive=True):
                try:
                    peak["reader"] = max(peak["reader"], child.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    begun = time.perf_counter()
    try:
        dataset = answer(
            client.post("/datasets", content=csv_blocks(size), headers={"Content-Type": "text/csv"}, timeout=900)
        )
    finally:
        stop.set()
        watcher.join()
    return {
        "seconds": time.perf_counter() - begun,
        "rows": dataset["rows"],
        "bytes": dataset["bytes"],
        "api_growth_mb": (peak["api"] - before) / MB,
        "reader_peak_mb": peak["reader"] / MB,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--upload-mb", type=int, default=600)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="prefsvm-benchmark-") as folder:
        data_dir = Path(folder) / "data"
        with local_stack(data_dir) as stack, httpx.Client(base_url=stack.url, timeout=60) as client:
            wait(client, submit(client, upload_tumours(client)))  # everything compiled and warm
            overhead = overheads(client, arguments.runs)
            upload = big_upload(stack, client, arguments.upload_mb * MB)
        first = first_job(data_dir, arguments.runs)
    result = {
        "date": datetime.now().date().isoformat(),
        "cores": psutil.cpu_count(),
        "first_job_seconds": first,
        "overhead_seconds": overhead,
        "upload": upload,
    }

    def line(name: str, values: list[float], bar: float, unit: str) -> None:
        median = statistics.median(values)
        verdict = "met" if median < bar else "MISSED"
        spread = f"({min(values):.2f} to {max(values):.2f})"
        print(f"{name:<52}{median:8.2f} {unit:<3}{spread}  bar < {bar:g} {unit}: {verdict}")

    line("serve, warm, to first job accepted", first, 4, "s")
    line("job overhead: created to finished minus fit", overhead, 0.5, "s")
    line(f"API growth, {upload['bytes'] / MB:.0f} MB CSV upload", [upload["api_growth_mb"]], 64, "MB")
    print(
        f"{'  the upload itself':<52}{upload['seconds']:8.2f} s   {upload['rows']:,} rows, "
        f"{upload['bytes'] / MB / upload['seconds']:.0f} MB/s, reader process peak {upload['reader_peak_mb']:.0f} MB"
    )
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "main_job.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()

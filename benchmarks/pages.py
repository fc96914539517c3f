"""How long the pages take where there is much: a million rows, 500 models, 10,000 events of a job.

Each page is asked for by one client on the machine of the server, the first time by itself: in a process that has shown
one small page before. Where others want the processors, too, times say little: beside them stand how many times as long
as ``/healthz`` in the same run a page takes, and the processor time of the API process. With a Chromium (Debian's
``chromium``) the longest task of each page in the browser is told, with the handle of a model moved along its curve and
a million rows scrolled through, and how much a first load of it takes over the line.

`python -P benchmarks/pages.py [--rows N] [--folder F]` from the root of the repository; a folder is kept for next time.
Writes `benchmarks/results/pages.md`.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(1, str(Path(__file__).parents[1] / "tests" / "ui"))

import httpx
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from browser import Tab, chromium, program
from sqlalchemy import create_engine, text

from service.local.stack import Stack, local_stack
from service.settings import Settings

BAR_MS, TASK_MS, FIRST_LOAD = 300, 100, 250_000
"""What a page of the server, and a task in the browser, may take; bytes of a first load, packed."""
RESULTS = Path(__file__).parent / "results" / "pages.md"
MODELS, EVENTS, COLUMNS, LABELLED = 500, 10_000, 20, 400
TIMES = 9
COPY_MODELS = """
INSERT INTO models (id, project_id, job_id, dataset_id, algorithm, manifest, report, bytes, sha256, created_at)
SELECT 'mdl_' || lpad(to_hex(n), 32, '0'), project_id, NULL, dataset_id, algorithm, manifest, report, bytes, sha256,
    created_at - n * interval '1 minute' FROM models, generate_series(1, :count) n WHERE id = :model
ON CONFLICT DO NOTHING
"""
MORE_EVENTS = """
INSERT INTO job_events (job_id, attempt, kind, data)
SELECT :job, 1, 'round', jsonb_build_object('phase', 'training', 'round', n, 'progress', 0.5, 'f1', 0.5,
    'precision', 0.5, 'recall', 0.5) FROM generate_series(1, :count) n
"""
LONGEST = """
new Promise((done) => setTimeout(() => done(Math.max(0, ...(window.tasks ?? []))), 400))
"""
OBSERVE = (
    "window.tasks = [];"
    "new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((each) => each.duration)))"
    ".observe({type: 'longtask', buffered: true});"
)
MOVE = """
(async () => {
  const handle = document.getElementById('handle');
  for (let at = 0; at < Number(handle.max); at += 5) {
    handle.value = at;
    handle.dispatchEvent(new Event('input'));
    await new Promise(requestAnimationFrame);
  }
})()
"""


def table(path: Path, rows: int) -> None:
    """Write rows of two classes, of which few have a label."""
    rng = np.random.default_rng(0)
    truth = rng.random(rows) < 0.3
    values = {f"column {at}": rng.normal(size=rows) + truth * (at < 5) for at in range(COLUMNS)}
    labels = np.where(truth, "yes", "no").astype(object)
    labels[rng.permutation(rows)[LABELLED:]] = None
    pq.write_table(pa.table({**values, "label": pa.array(labels, pa.string())}), path)


def done(client: httpx.Client, path: str) -> None:
    while (found := client.get(path).json())["status"] in ("queued", "running", "preparing"):
        time.sleep(0.5)
    assert found["status"] in ("succeeded", "open"), found


def prepare(client: httpx.Client, rows: int, folder: Path) -> None:
    """Upload, train twice, and answer some rows."""
    file = folder / "rows.parquet"
    table(file, rows)
    with file.open("rb") as content:
        dataset = client.post("/datasets", files={"file": (file.name, content)}).raise_for_status().json()["id"]
    body = {
        **{"dataset": dataset, "target": "label", "positive": "yes", "alias": "many"},
        "objective": {"kind": "precision", "target": 0.8},
    }
    job = client.post("/train", json=body).raise_for_status().json()["id"]
    done(client, f"/jobs/{job}")
    asked = {"model": "many", "dataset": dataset, "objective": {"kind": "precision", "target": 0.8}}
    done(client, f"/audits/{client.post('/audits', json=asked).raise_for_status().json()['id']}")
    queue = client.get("/models/many/queue?n=100").json()["items"]
    answers = {"numbers": [row["row"] for row in queue], "labels": ["yes"] * len(queue)}
    client.post("/feedback", json={"alias": "many", "dataset": dataset, **answers}).raise_for_status()
    done(client, f"/jobs/{client.post('/aliases/many/retrain').raise_for_status().json()['id']}")
    rows = [row["content"] for row in client.get("/models/many/queue?n=100").json()["items"]]
    client.post("/predict", json={"model": "many", "rows": rows}).raise_for_status()


def multiply(client: httpx.Client, stack: Stack) -> None:
    """Make many models and events of what there is."""
    if client.get("/models?limit=100").json()["next_cursor"] is not None:
        return
    model, job = client.get("/aliases/many").json()["model_id"], client.get("/jobs").json()["items"][-1]["id"]
    worker = next(
        each for each in psutil.Process(stack.pid).children(recursive=True) if "worker.main" in " ".join(each.cmdline())
    )
    engine = create_engine(str(Settings(database_url=worker.environ()["PREFSVM_DATABASE_URL"]).database_url))
    with engine.begin() as session:
        session.execute(text(COPY_MODELS), {"model": model, "count": MODELS})
        session.execute(text(MORE_EVENTS), {"job": job, "count": EVENTS})
    engine.dispose()


def pages(client: httpx.Client) -> dict[str, str]:
    """Return the addresses of the pages by what they are."""
    dataset = client.get("/datasets").json()["items"][-1]
    job = client.get("/jobs").json()["items"][-1]["id"]
    return {
        "home": "/ui",
        "data": "/ui/datasets",
        "data set": f"/ui/datasets/{dataset['id']}",
        "row": f"/ui/datasets/{dataset['id']}/rows/{dataset['rows'] - 1}",
        "data set, last rows": f"/ui/datasets/{dataset['id']}?from={dataset['rows'] - 30}",
        "train": f"/ui/datasets/{dataset['id']}/train?target=label&positive=yes",
        "jobs": "/ui/jobs",
        "job": f"/ui/jobs/{job}",
        "models": "/ui/models",
        "model": "/ui/models/many",
        "model, mistakes": "/ui/models/many/mistakes",
        "model, a look": "/ui/models/many?kind=recall&target=90",
        "try": "/ui/models/many/try",
        "try a row": f"/ui/models/many/try?dataset={dataset['id']}&row={dataset['rows'] - 1}",
        "label": "/ui/models/many/label",
        "label, the next rows": "/ui/models/many/label?part=rows",
        "audit": f"/ui/audits/{client.get('/audits').json()['items'][0]['id']}",
        "settings": "/ui/settings",
        "keys": "/ui/keys",
        "report": "/models/many/report.html",
    }


def api_process(stack: Stack) -> psutil.Process:
    family = psutil.Process(stack.pid).children(recursive=True)
    return next(each for each in family if "service.app" in " ".join(each.cmdline()))


def loaded_bytes(tab: Tab, url: str) -> int:
    """Return how much comes over the line for a page of which the browser has nothing."""
    tab.send("Network.setCacheDisabled", cacheDisabled=True)
    tab.events.clear()
    tab.open(url)
    tab.run("new Promise((done) => setTimeout(done, 500))")
    tab.send("Network.setCacheDisabled", cacheDisabled=False)
    ended = [each["params"] for each in tab.events if each["method"] == "Network.loadingFinished"]
    return int(sum(each["encodedDataLength"] for each in ended))


def timed(client: httpx.Client, path: str) -> float:
    started = time.perf_counter()
    client.get(path).raise_for_status()
    return 1000 * (time.perf_counter() - started)


def answer_times(client: httpx.Client, count: int = 10) -> list[float]:
    """Answer rows as the page to label does, and return how long each answer took, in milliseconds."""
    queue = client.get(f"/models/many/queue?n={count}").json()
    spent = []
    for row in queue["items"]:
        body = {"alias": "many", "dataset": queue["dataset"], "numbers": [row["row"]], "labels": ["yes"]}
        started = time.perf_counter()
        kept = client.post("/feedback", json=body | {"drawn": row["drawn"]}).raise_for_status().json()["id"]
        spent.append(1000 * (time.perf_counter() - started))
        client.delete(f"/feedback/{kept}").raise_for_status()
    return spent


def form_times(client: httpx.Client, count: int = 10) -> list[float]:
    """Likewise by forms, as a browser without scripts does: the page is loaded again after each answer."""
    spent = []
    for _ in range(count):
        form = client.get("/ui/models/many/label").text.partition('class="ask"')[2].partition("</form>")[0]
        fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))
        started = time.perf_counter()
        shown = client.post("/ui/models/many/label", data=fields | {"label": "yes"}, follow_redirects=True)
        spent.append(1000 * (time.perf_counter() - started))
        client.delete(f"/feedback/{shown.raise_for_status().url.params['last']}").raise_for_status()
    return spent


SCROLL = """
(async () => {
  const box = document.getElementById('all-rows');
  for (let at = 0; at < 60; at += 1) {
    box.scrollTop += at < 40 ? 300 : box.scrollHeight / 25;
    await new Promise((done) => setTimeout(done, 30));
  }
})()
"""


def longest_task(tab: Tab, url: str) -> float:
    tab.open(url)
    if "/models/many" in url and tab.run("document.getElementById('handle') !== null"):
        tab.until("document.querySelector('.uplot') !== null")
        tab.run(MOVE)
    if tab.run("document.getElementById('all-rows') !== null"):
        tab.run(SCROLL)
    return float(tab.run(LONGEST))


def main() -> None:
    """Measure, and say which pages take longer than they may."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with ExitStack() as opened:
        folder = given.folder or Path(opened.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        folder.mkdir(parents=True, exist_ok=True)
        with local_stack(folder / "data") as stack, httpx.Client(base_url=stack.url, **QUIET) as client:
            if not client.get("/datasets").json()["items"]:
                prepare(client, given.rows, folder)
            multiply(client, stack)
        # Started anew, so that the first time of each page is that of a process that has done nothing yet.
        stack = opened.enter_context(local_stack(folder / "data"))
        client = opened.enter_context(httpx.Client(base_url=stack.url, **QUIET))
        tab = None
        if program() is not None:
            profile = Path(opened.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
            tab = opened.enter_context(chromium(profile))()
            tab.send("Page.addScriptToEvaluateOnNewDocument", source=OBSERVE)
            tab.resize(1280)
        timed(client, "/ui/keys")  # behind the first page the process loads what the others need
        time.sleep(3)
        lines = list(measured(client, stack, tab))
    told = [
        f"{os.cpu_count()} processors, {given.rows:,} rows, {MODELS} models, {EVENTS:,} events; "
        f"load average {' '.join(f'{each:.1f}' for each in os.getloadavg())}",
        "",
        "| page | first ms | median | slowest | median / healthz | processor ms | longest task ms | first load KB |",
        "|---|---|---|---|---|---|---|---|",
        *(line.row for line in lines),
        "",
        f"Over {BAR_MS} ms, {TASK_MS} ms in the browser, or {FIRST_LOAD // 1000} KB: "
        f"{', '.join(line.name for line in lines if line.is_over) or 'none'}.",
    ]
    print("\n".join(told))
    RESULTS.write_text("\n".join(["# Pages (`python -P benchmarks/pages.py`)", "", *told]) + "\n")


@dataclass(frozen=True)
class Line:
    """What was measured of a page."""

    name: str
    times: list[float]
    healthz: float
    processor: float | None = None
    task: float | None = None
    loaded: int | None = None

    @property
    def is_over(self) -> bool:
        return max(self.times) > BAR_MS or (self.task or 0) > TASK_MS or (self.loaded or 0) > FIRST_LOAD

    @property
    def row(self) -> str:
        first, *others = self.times
        median = statistics.median(others)
        parts = [self.name, *(f"{each:.0f}" for each in (first, median, max(others))), f"{median / self.healthz:.1f}"]
        known = (self.processor, self.task, None if self.loaded is None else self.loaded / 1000)
        return f"| {' | '.join([*parts, *('' if each is None else f'{each:.0f}' for each in known)])} |"


def measured(client: httpx.Client, stack: Stack, tab: Tab | None) -> Iterator[Line]:
    """Yield what each page takes, and answers to rows."""
    api = api_process(stack)
    for name, path in {"healthz": "/healthz", **pages(client)}.items():
        first = timed(client, path)
        before = sum(api.cpu_times()[:2])
        others = [timed(client, path) for _ in range(TIMES)]
        processor = 1000 * (sum(api.cpu_times()[:2]) - before) / TIMES
        healthz = statistics.median(timed(client, "/healthz") for _ in range(TIMES))
        task, loaded = None, None
        if tab is not None and path.startswith("/ui"):
            task, loaded = longest_task(tab, stack.url + path), loaded_bytes(tab, stack.url + path)
        yield Line(name, [first, *others], healthz, processor, task, loaded)
    for name, spent in (("an answer", answer_times(client)), ("an answer by form", form_times(client))):
        yield Line(name, spent, healthz)


QUIET: dict[str, Any] = {"trust_env": False, "timeout": 600}

if __name__ == "__main__":
    main()

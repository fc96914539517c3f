"""Do answers tell, by the time they take, whether an id that is not the caller's belongs to somebody?

One project has a thing of each kind. Another asks, with every GET of the OpenAPI document that names something and with
``POST /predict``, for those ids and for ones that were never given, in random order. Written are the medians, by how
much they differ, and how often the answer to a foreign id took longer than that to an unknown one (50 %: nothing can be
told), with the probability that chance alone does that (Mann-Whitney).

`python -P benchmarks/foreign_ids.py --requests 2000` from the root of the repository.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx
from scipy.stats import mannwhitneyu

from service.access.keys import ApiKey
from service.identifiers import new_id
from service.local.stack import local_stack

CSV = b"age,job,label\n" + b"".join(b"%d,%s,%s\n" % (i, (b"a", b"b")[i % 2], (b"x", b"y")[i % 2]) for i in range(60))
ROW = {"age": 3, "job": "a"}
NEVER_GIVEN: dict[str, Callable[[], str]] = {
    "dataset_id": lambda: new_id("ds"),
    "job_id": lambda: new_id("job"),
    "batch_id": lambda: new_id("job"),
    "model_id": lambda: new_id("mdl"),
    "version": lambda: new_id("mdl"),
    "name": lambda: f"alias-{new_id('mdl')[-12:]}",
    "upload_id": lambda: new_id("up"),
    "webhook_id": lambda: new_id("wh"),
    "project_id": lambda: new_id("prj"),
}
PLAIN = {"kind": "pr"}


def fill(client: httpx.Client) -> dict[str, str]:
    """Make a thing of each kind; returns their ids by the names of parameters."""

    def make(method: str, path: str, **arguments: object) -> dict[str, str]:
        answer = client.request(method, path, **arguments)  # type: ignore[arg-type]
        answer.raise_for_status()
        return dict(answer.json())

    dataset = make("POST", "/datasets", files={"file": ("a.csv", CSV)})
    body = {"dataset": dataset["id"], "target": "label", "positive": "x", "algorithm": "svm"}
    job = make("POST", "/train", json=body | {"objective": {"kind": "f1"}, "alias": "ours"})
    while job["status"] in ("queued", "running"):
        time.sleep(0.2)
        job = make("GET", f"/jobs/{job['id']}")
    batch = make("POST", "/batches", json={"model": "ours", "dataset": dataset["id"]})
    webhook = make("POST", "/webhooks", json={"url": "https://example.com/"})
    parts = {"Tus-Resumable": "1.0.0", "Upload-Length": "9", "Upload-Metadata": "format Y3N2"}
    upload = make("POST", "/uploads", headers=parts)
    return {
        "dataset_id": dataset["id"],
        "job_id": job["id"],
        "batch_id": batch["id"],
        "model_id": job["model_id"],
        "version": job["model_id"],
        "name": "ours",
        "upload_id": upload["id"],
        "webhook_id": webhook["id"],
    }


def seconds(client: httpx.Client, method: str, path: str, ids: dict[str, str]) -> float:
    """Ask once, and return how long that took."""
    arguments: dict[str, object] = {}
    if method == "POST":
        arguments["json"] = {"model": ids["model_id"], "rows": [ROW]}
    if path.startswith("/uploads"):
        arguments["headers"] = {"Tus-Resumable": "1.0.0"}
    url = path.format(**PLAIN, **ids)
    began = time.perf_counter()
    answer = client.request(method, url, **arguments)  # type: ignore[arg-type]
    took = time.perf_counter() - began
    assert answer.status_code == 404, (method, path, answer.status_code, answer.text)
    return took


def measure(client: httpx.Client, method: str, path: str, foreign: dict[str, str], requests: int) -> tuple[str, float]:
    """Return a line of the table, and by how much the medians differ."""
    took: dict[bool, list[float]] = {True: [], False: []}
    order = [True, False] * (requests // 2)
    random.shuffle(order)
    # One unknown id, as there is one foreign one: what is asked for the first time takes longer on the way, too.
    unknown = {name: never() for name, never in NEVER_GIVEN.items()}
    for is_foreign in [True, False] * 20 + order:
        ids = foreign if is_foreign else unknown
        took[is_foreign].append(seconds(client, method, path, ids))
    theirs, nobodys = took[True][20:], took[False][20:]
    medians = [1e3 * statistics.median(each) for each in (theirs, nobodys)]
    test = mannwhitneyu(theirs, nobodys)
    longer = test.statistic / (len(theirs) * len(nobodys))
    difference = medians[0] / medians[1] - 1
    figures = f"{medians[0]:.2f} | {medians[1]:.2f} | {difference:+.1%} | {longer:.1%} | {test.pvalue:.2f}"
    return f"| {method} {path} | {figures} |", difference


def main() -> None:
    """Start a stack of our own, measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2000, help="for each operation, half of them for foreign ids")
    arguments = parser.parse_args()
    random.seed(0)
    bootstrap = ApiKey.new().text
    environment = {"PREFSVM_KEYS_REQUIRED": "true", "PREFSVM_BOOTSTRAP_KEY": bootstrap}

    def client_of(key: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=stack.url, headers=headers, timeout=60, trust_env=False)

    with tempfile.TemporaryDirectory() as folder, local_stack(Path(folder, "data"), environment=environment) as stack:
        with client_of(bootstrap) as operator:
            clients, projects = [], []
            none = {"requests_per_second": None}
            for name in ("theirs", "asking"):
                projects.append(operator.post("/projects", json={"name": name, "limits": none}).json()["id"])
                body = {"name": name, "scopes": ["read", "write", "admin"], "project": projects[-1]}
                clients.append(client_of(operator.post("/keys", json=body).json()["key"]))
        with clients[0] as owner, clients[1] as asking:
            foreign = fill(owner) | {"project_id": projects[0]}
            paths = asking.get("/openapi.json").json()["paths"]
            asked = [("GET", path) for path, methods in paths.items() if "get" in methods and _names_something(path)]
            print("| operation | foreign, ms | unknown, ms | difference | foreign took longer | p |")
            print("|---|---|---|---|---|---|")
            differences = []
            for method, path in [*asked, ("POST", "/predict")]:
                line, difference = measure(asking, method, path, foreign, arguments.requests)
                differences.append(abs(difference))
                print(line, flush=True)
            print(f"\nLargest difference of medians: {max(differences):.1%} of {len(differences)} operations")


def _names_something(path: str) -> bool:
    return bool(set(re.findall(r"{(\w+)}", path)) - set(PLAIN))


if __name__ == "__main__":
    main()

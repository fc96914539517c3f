"""What columns cost: few rows of very many numbers, as genes are, from the upload to a prediction over HTTP.

    python -P benchmarks/wide.py --columns 2500 5000 10000 20000 --rows 120

For each width a CSV and a Parquet file of the same numbers, of which 20 columns tell the label, are uploaded, trained
(`svm`), and decided on; then everything that names columns is asked for. Seconds, and bytes of each answer. The last
line of each step says how it grows: 1 is as the columns do.
"""

from __future__ import annotations

import argparse
import io
import math
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from service.local.stack import local_stack

TELLING = 20
SHIFT = 1.5


def rows_of(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(columns)
    values = rng.normal(size=(rows, columns)).round(4)
    labels = np.arange(rows) % 2
    values[:, :TELLING] += SHIFT * labels[:, None]
    return values, np.where(labels, "ill", "well")


def csv_of(values: np.ndarray, labels: np.ndarray) -> bytes:
    out = io.StringIO()
    out.write(",".join([*(f"GENE{j}_at" for j in range(values.shape[1])), "label"]) + "\n")
    for row, label in zip(values, labels, strict=True):
        out.write(",".join(map(repr, row.tolist())) + f",{label}\n")
    return out.getvalue().encode()


def parquet_of(values: np.ndarray, labels: np.ndarray) -> bytes:
    names = [*(f"GENE{j}_at" for j in range(values.shape[1])), "label"]
    out = io.BytesIO()
    pq.write_table(pa.table([*(pa.array(values[:, j]) for j in range(values.shape[1])), pa.array(labels)], names), out)
    return out.getvalue()


class Steps:
    """Times what is asked of the API."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self.seconds: dict[str, float] = {}
        self.bytes: dict[str, int] = {}

    def __call__(self, step: str, method: str, path: str, **how: object) -> httpx.Response:
        began = time.perf_counter()
        answer = self.client.request(method, path, **how)  # type: ignore[arg-type]
        self.seconds[step], self.bytes[step] = time.perf_counter() - began, len(answer.content)
        assert answer.is_success, f"{step}: {answer.status_code} {answer.text[:500]}"
        print(f"  {step}: {self.seconds[step]:.2f} s, {self.bytes[step]} bytes", file=sys.stderr)
        return answer


def run(client: httpx.Client, form: str, rows: int, columns: int) -> Steps:
    step = Steps(client)
    values, labels = rows_of(rows, columns)
    body = (csv_of if form == "csv" else parquet_of)(values, labels)
    alias = f"genes-{form}-{columns}"
    dataset = step("upload", "POST", "/datasets", content=body, params={"format": form, "name": alias}).json()
    asked = {"dataset": dataset["id"], "target": "label", "positive": "ill", "objective": {"kind": "f1"},
             "algorithm": "svm", "alias": alias}  # fmt: skip
    step("dry run", "POST", "/train", params={"dry_run": True}, json=asked)
    began = time.perf_counter()
    job = step("train, the call", "POST", "/train", json=asked).json()
    while (found := client.get(f"/jobs/{job['id']}").json())["status"] in ("queued", "running"):
        time.sleep(0.05)
    step.seconds["train"] = time.perf_counter() - began
    print(f"  train: {step.seconds['train']:.2f} s", file=sys.stderr)
    assert found["status"] == "succeeded", found["error"]
    model = f"/models/{found['model_id']}"
    one = dict(zip((f"GENE{j}_at" for j in range(columns)), values[0].tolist(), strict=True))
    step("predict, cold", "POST", "/predict", json={"model": alias, "rows": [one]})
    made = step("predict a row", "POST", "/predict", json={"model": alias, "rows": [one]}).json()
    assert made["predictions"][0]["label"] in ("ill", "well")
    step("predict ten rows", "POST", "/predict", json={"model": alias, "rows": [one] * 10})
    batch = step(
        "batch, the call", "POST", "/batches", json={"model": alias, "dataset": dataset["id"], "format": "csv"}
    )
    began = time.perf_counter()
    while client.get(f"/batches/{batch.json()['id']}").json()["status"] in ("queued", "running"):
        time.sleep(0.05)
    step.seconds["batch"] = time.perf_counter() - began
    for name, path in (
        ("data set", f"/datasets/{dataset['id']}"),
        ("data sets", "/datasets"),
        ("page of the data set", f"/ui/datasets/{dataset['id']}"),
        ("model", model),
        ("page of the model", f"/ui{model}"),
        ("models", "/models"),
        ("page of the job", f"/ui/jobs/{job['id']}"),
        ("card", f"{model}/card"),
        ("drift", f"/models/{alias}/drift"),
        ("model file", f"{model}/export"),
        ("onnx", f"{model}/export?format=onnx"),
    ):
        try:
            step(name, "GET", path)
        except (AssertionError, httpx.HTTPError) as error:
            print(f"{name}: {error}"[:300])
    return step


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--columns", type=int, nargs="+", default=[2_500, 5_000, 10_000, 20_000])
    parser.add_argument("--rows", type=int, default=120)
    parser.add_argument("--forms", nargs="+", default=["csv", "parquet"])
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        local_stack(Path(folder)) as stack,
        httpx.Client(base_url=stack.url, timeout=600, trust_env=False) as client,
    ):
        run(client, "csv", arguments.rows, 50)  # what is loaded or compiled once is
        for form in arguments.forms:
            found = {columns: run(client, form, arguments.rows, columns) for columns in arguments.columns}
            first, last = found[min(found)], found[max(found)]
            growth = math.log(max(found) / min(found)) if len(found) > 1 else 1.0
            print(f"\n{form}, {arguments.rows} rows: seconds (bytes) at {', '.join(map(str, found))} columns; growth")
            for step in last.seconds:
                told = [
                    f"{each.seconds[step]:.2f} ({each.bytes.get(step, 0)})"
                    for each in found.values()
                    if step in each.seconds
                ]
                power = math.log(last.seconds[step] / first.seconds[step]) / growth if step in first.seconds else 0
                print(f"{step:24} {', '.join(told)}; {power:.2f}")


if __name__ == "__main__":
    main()

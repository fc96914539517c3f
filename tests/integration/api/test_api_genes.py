"""120 rows of 20,000 numbers, as genes are, from the upload to a prediction."""

from __future__ import annotations

import io
import resource

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from api_support import train_body
from worker_bench import Bench

ROWS, COLUMNS, TELLING = 120, 20_000, 20


def file_of(form: str, values: np.ndarray, labels: list[str]) -> bytes:
    names = [*(f"GENE{j}_at" for j in range(values.shape[1])), "label"]
    if form == "csv":
        lines = [",".join([*map(repr, row.tolist()), label]) for row, label in zip(values, labels, strict=True)]
        return "\n".join([",".join(names), *lines]).encode()
    sink = io.BytesIO()
    pq.write_table(pa.table([*map(pa.array, values.T), pa.array(labels)], names), sink)
    return sink.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_genes_are_learned_within_a_minute(client: httpx.Client, trainer: Bench, form: str) -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(ROWS, COLUMNS)).round(4)
    is_ill = np.arange(ROWS) % 2 == 1
    values[is_ill, :TELLING] += 1.5
    labels = ["spam" if ill else "ham" for ill in is_ill]
    answer = client.post("/datasets", params={"format": form}, content=file_of(form, values, labels), timeout=120)
    assert answer.status_code == 201, answer.text[:500]
    body = train_body(answer.json(), alias="genes", algorithm="svm", objective={"kind": "f1"}, params={})
    job_id = client.post("/train", json=body).json()["id"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert trainer.supervisor.run(job_id) == "succeeded", client.get(f"/jobs/{job_id}/events").text[-800:]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert 0.1 < seconds < 60, "of processor time, which the child that trains has taken"
    rows = [dict(zip((f"GENE{j}_at" for j in range(COLUMNS)), row.tolist(), strict=True)) for row in values[:10]]
    made = client.post("/predict", json={"model": "genes", "rows": rows}).json()["predictions"]
    assert np.mean([(each["label"] == "spam") == ill for each, ill in zip(made, is_ill, strict=False)]) > 0.8
    # what people look at stays small, whatever the number of columns
    dataset, model = answer.json()["id"], client.get(f"/jobs/{job_id}").json()["model_id"]
    for path in (f"/ui/datasets/{dataset}", f"/ui/models/{model}", f"/ui/jobs/{job_id}", f"/models/{model}/card"):
        assert len(client.get(path).content) < 200_000, path
    for path in ("/datasets", "/models", "/jobs"):
        assert len(client.get(path).content) < 20_000, path

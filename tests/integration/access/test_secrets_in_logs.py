"""In no log of any process: keys, addresses with a token in them, and what was sent."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from secrets import token_hex
from typing import Any

import httpx
import pytest

from service.access.keys import ApiKey
from service.local.stack import local_stack


class Planted:
    """Words that occur nowhere else, by what they are."""

    def __init__(self) -> None:
        self.words: dict[str, str] = {}

    def __call__(self, what: str) -> str:
        return self.words.setdefault(what, f"zq{token_hex(6)}")

    def found_in(self, text: str) -> list[str]:
        lowered = text.lower()
        return [what for what, word in self.words.items() if word.lower() in lowered]


def wait_for_job(client: httpx.Client, job_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + 300
    while (job := client.get(f"/jobs/{job_id}").json())["status"] in ("queued", "running"):
        assert time.monotonic() < deadline, job
        time.sleep(0.1)
    return job


def rows(planted: Planted) -> bytes:
    """Return a table of which every word is planted."""
    labels = [planted("positive label"), planted("negative label")]
    values = [planted("value"), planted("other value")]
    lines = [f"age,{planted('column')},{planted('target column')}"]
    lines += [f"{20 + i % 37},{values[i % 3 % 2]},{labels[i % 2]}" for i in range(80)]
    return "\n".join(lines).encode()


@pytest.mark.slow
def test_twenty_planted_secrets_are_in_no_log(short_dir: Path) -> None:
    planted = Planted()
    bootstrap = ApiKey.new()
    planted.words["bootstrap key"] = bootstrap.secret
    with local_stack(short_dir / "data", environment={"PREFSVM_BOOTSTRAP_KEY": bootstrap.text}) as stack:
        owner = {"Authorization": f"Bearer {bootstrap.text}"}
        made = httpx.post(
            f"{stack.url}/keys", headers=owner, json={"name": "test", "scopes": ["read", "write", "admin"]}, timeout=30
        ).json()["key"]
        planted.words["key"] = made.split("_")[2][:-6]
        headers = {"Authorization": f"Bearer {made}"}
        with httpx.Client(base_url=stack.url, headers=headers, timeout=60, trust_env=False) as client:
            refused = work(client, planted)
        answers = "".join(answer.text + str(answer.headers) for answer in refused)
    logs = {path.name: path.read_text(errors="replace") for path in (short_dir / "data" / "logs").iterdir()}
    assert {"api.log", "dispatcher.log", "postgres.log"} <= set(logs)
    assert any("job_" in text for name, text in logs.items() if "worker" in name)
    assert len(planted.words) >= 20
    assert {name: found for name, text in logs.items() if (found := planted.found_in(text))} == {}
    assert len(refused) >= 10
    keys = ("bootstrap key", "key", "wrong key", "secret of the webhook", "token in a webhook")
    assert set(planted.found_in(answers)) & set(keys) == set()


def work(client: httpx.Client, planted: Planted) -> list[httpx.Response]:
    """Do what people do, well and wrongly, with planted words; returns the answers to what was wrong."""
    column, target = planted("column"), planted("target column")
    sent = client.post(
        "/datasets", files={"file": (f"{planted('file name')}.csv", rows(planted))}, params={"name": planted("name")}
    )
    assert sent.status_code == 201, sent.text
    training = {
        "dataset": sent.json()["id"],
        "target": target,
        "positive": planted("positive label"),
        "objective": {"kind": "recall", "target": 0.9},
        "algorithm": "svm",
        "alias": "current",
    }
    webhook = client.post("/webhooks", json={"url": f"https://nobody.invalid/hook?{planted('token in a webhook')}"})
    assert webhook.status_code == 201, webhook.text
    planted.words["secret of the webhook"] = webhook.json()["secret"].removeprefix("whsec_")
    job = wait_for_job(
        client,
        client.post("/train", json=training, headers={"Idempotency-Key": planted("idempotency key")}).json()["id"],
    )
    assert job["status"] == "succeeded", job
    row = {"age": 30, column: planted("value at predict"), planted("column at predict"): planted("more at predict")}
    good = [
        client.post("/predict", json={"model": "current", "rows": [row]}, params={planted("parameter"): "1"}),
        client.post("/feedback", json={"alias": "current", "rows": [{"age": 31, column: planted("corrected")}],
                                       "labels": [planted("positive label")]}),
        client.post("/batches", json={"model": "current", "dataset": training["dataset"]}),
        client.post("/audits", json={"model": "current", "dataset": training["dataset"],
                                     "objective": {"kind": "recall", "target": 0.9}}),
    ]  # fmt: skip
    assert all(answer.is_success for answer in good), [answer.text for answer in good]
    metadata = base64.b64encode(planted("name of an upload").encode()).decode()
    tus = {"Tus-Resumable": "1.0.0", "Upload-Length": "4", "Upload-Metadata": f"filename {metadata}"}
    mail = f"From: {planted('sender')}@example.org\nSubject: {planted('subject')}\n\n{planted('text of a mail')}"
    wrong = ApiKey.new()
    planted.words["wrong key"] = wrong.secret
    not_numbers = json.dumps({"model": "current", "rows": [{"age": planted("no number")}]})
    client.post("/uploads", headers=tus)
    refused = [
        client.post("/train", json=training | {"positive": planted("unknown label")}),
        client.post("/train", json=training | {"params": {"kernel": planted("kernel")}}),
        client.post("/train", json=training | {planted("unknown field"): 1}),
        client.post("/predict", content=not_numbers, headers={"Content-Type": "application/json"}),
        client.post("/predict", json={"model": "current", "messages": [mail]}),
        client.post("/predict", json={"model": planted("model"), "rows": [row]}),
        client.post("/datasets", files={"file": ("a.npz", planted("bytes").encode())}),
        client.post("/datasets", files={"file": ("a.csv", f"a,b\n1,{planted('cell')}\n1\n{chr(0)}".encode())}),
        client.get(f"/jobs/{planted('id')}", headers={"Cookie": planted("cookie"), "Referer": planted("referer")}),
        client.get("/jobs", headers={"Authorization": f"Bearer {wrong.text}"}),
        client.get("/jobs", headers={"Authorization": f"Basic {planted('password')}"}),
        client.put("/aliases/other", json={"model": planted("model of an alias")}),
    ]
    assert all(answer.is_client_error for answer in refused), [(a.request.url, a.status_code) for a in refused]
    # A training that fails in the worker: one class only.
    lines = rows(planted).splitlines()
    single = b"\n".join([lines[0], *lines[1::2]])
    alone = client.post("/datasets", files={"file": ("one.csv", single)}).json()["id"]
    failed = client.post("/train", json=training | {"dataset": alone, "alias": None})
    if failed.status_code == 202:
        wait_for_job(client, failed.json()["id"])
    return refused

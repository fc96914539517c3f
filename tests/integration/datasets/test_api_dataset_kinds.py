"""What a data set's columns are, and how that is corrected."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

from api_support import CSV, blob_files, problem, train_body, upload

from service.ingest import run


def kinds(dataset: dict) -> dict[str, str]:
    return {column["name"]: column["kind"] for column in dataset["columns"]}


def test_profile(client):
    made = upload(client, b"zip,label\n01234,spam\n10115,ham\n10115,ham\n,ham\n")
    assert made["duplicate_rows"] == 1
    assert made["dropped_rows"] == 0
    zip_, label = made["columns"]
    assert (zip_["kind"], zip_["missing"], zip_["distinct"], zip_["leading_zeros"]) == ("category", 1, 2, True)
    assert label["values"] == {"ham": 3, "spam": 1}
    assert (label["constant"], label["distinct_capped"]) == (False, False)


def test_kinds_are_corrected_until_a_job_has_used_them(client, settings):
    made = upload(client, CSV, options='{"missing": ["?"]}')
    assert kinds(made) == {"age": "number", "job": "category", "label": "category"}
    path = f"/datasets/{made['id']}"
    changed = client.patch(path, json={"columns": {"age": "category", "job": "text"}})
    assert changed.status_code == 200, changed.text
    assert kinds(changed.json()) == {"age": "category", "job": "text", "label": "category"}
    assert changed.json()["options"] == {"missing": ["?"], "columns": {"age": "category", "job": "text"}}
    again = client.patch(path, json={"columns": {"age": "number"}}).json()
    assert kinds(again) == {"age": "number", "job": "text", "label": "category"}
    assert client.get(path).json() == again
    assert len(blob_files(settings)) == 2
    for body, status in (
        ({"columns": {"nosuch": "text"}}, 422),
        ({"columns": {"job": "number"}}, 422),
        ({"columns": {"job": "colour"}}, 422),
        ({"columns": {}}, 422),
        ({}, 422),
        ({"columns": {"job": "text"}, "name": "x"}, 422),
    ):
        response = client.patch(path, json=body)
        assert response.status_code == status, (body, response.text)
    assert client.get(path).json() == again
    assert len(blob_files(settings)) == 2
    assert client.post("/train", json=train_body(made)).status_code == 202
    used = client.patch(path, json={"columns": {"job": "category"}})
    assert used.status_code == 409
    assert used.json()["type"] == "urn:prefsvm:problem:dataset-used"
    assert client.patch("/datasets/ds_" + "0" * 32, json={"columns": {"a": "text"}}).status_code == 404


def test_a_column_that_was_left_out_is_told_from_one_that_never_was(client):
    rows = [{"age": i * 7 % 23, "tags": {"n": i}, "label": "spam" if i % 2 else "ham"} for i in range(40)]
    made = upload(client, "\n".join(map(json.dumps, rows)).encode(), "mails.jsonl")
    assert list(kinds(made)) == ["age", "label"]
    assert list(made["left_out"]) == ["tags"]
    reason = "the column was left out of the data set when the file was read: it holds lists or objects"
    for changes, field in (
        ({"target": "tags"}, "body.target"),
        ({"features": {"include": ["age", "tags"]}}, "body.features.include.1"),
        ({"features": {"kinds": {"tags": "text"}}}, "body.features.kinds.tags"),
        ({"features": {"exclude": ["tags"]}}, "body.features.exclude.0"),
    ):
        refused = problem(client.post("/train", json=train_body(made, **changes)), 422, "invalid-request")
        assert refused["errors"][0]["field"] == field
        assert refused["errors"][0]["message"].startswith(reason)
    refused = problem(
        client.patch(f"/datasets/{made['id']}", json={"columns": {"tags": "text"}}), 422, "unreadable-dataset"
    )
    assert "lists or objects" in refused["detail"]
    assert client.post("/train", json=train_body(made)).status_code == 202


def test_an_upload_that_has_changed_is_not_read_again(client, settings):
    made = upload(client, CSV)
    files = [Path(settings.blob_location, name) for name in blob_files(settings)]
    stored = next(path for path in files if path.read_bytes() == CSV)
    stored.write_bytes(CSV.replace(b"1", b"2", 1))
    response = client.patch(f"/datasets/{made['id']}", json={"columns": {"age": "category"}})
    assert response.json()["type"] == "urn:prefsvm:problem:damaged-dataset"
    stored.unlink()
    gone = problem(
        client.patch(f"/datasets/{made['id']}", json={"columns": {"age": "category"}}), 500, "damaged-dataset"
    )
    assert gone["detail"] == "the stored upload is gone; upload the file again"
    assert client.get(f"/datasets/{made['id']}").json() == made


def test_a_reader_that_is_killed_is_started_once_more_and_then_not_held_against_the_file(
    client, settings, monkeypatch, tmp_path
):
    monkeypatch.setattr(run, "CHILD", ("-c", "import os; os.kill(os.getpid(), 9)"))
    response = client.post("/datasets", files={"file": ("x.csv", CSV)})
    assert response.status_code == 503, response.text
    assert response.json()["type"] == "urn:prefsvm:problem:reader-lost"
    assert response.headers["Retry-After"] == "30"
    assert blob_files(settings) == []
    begun = tmp_path / "begun"
    once = f"""
import os, pathlib, runpy
begun = pathlib.Path({str(begun)!r})
if not begun.exists():
    begun.touch()
    os.kill(os.getpid(), 9)
runpy.run_module('service.ingest.child', run_name='__main__')
"""
    monkeypatch.setattr(run, "CHILD", ("-c", once))
    assert upload(client, CSV)["rows"] > 0, "the second reader has read it"
    assert begun.exists()


def test_the_date_of_mails_is_no_feature_unless_somebody_asks(client):
    mail = "From x@y.org Mon Jan  1\nDate: Fri, 27 Nov 2026 10:00:00 +0100\nSubject: spam {}\n\nbody {}\n\n"
    with tarfile.open(fileobj=(packed := io.BytesIO()), mode="w") as tar:
        for i in range(20):
            raw = mail.format(i, i).encode()
            entry = tarfile.TarInfo(f"{'spam' if i % 2 else 'ham'}/{i}.eml")
            entry.size = len(raw)
            tar.addfile(entry, io.BytesIO(raw))
    answer = client.post("/datasets", files={"file": ("mails.tar", packed.getvalue())})
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert any(warning.startswith("column 'date' takes part in a training only if") for warning in made["warnings"])

    def excluded(**features) -> list[str]:
        job = client.post("/train", json=train_body(made, features=features, algorithm="svm", params={})).json()
        return job["request"]["features"]["exclude"]

    assert excluded() == ["file", "thread", "date"]
    assert excluded(exclude=["to"]) == ["to", "file", "thread", "date"]
    assert excluded(exclude=["date"]) == ["date", "file", "thread"]
    assert excluded(kinds={"date": "date"}) == ["file", "thread"]
    assert excluded(include=["date", "body"]) == ["file", "thread"]
    for column in ("file", "thread"):
        asked = train_body(made, features={"include": ["body", column]}, algorithm="svm", params={})
        refused = client.post("/train", json=asked)
        assert refused.status_code == 422
        assert "it is no feature" in refused.json()["detail"]


def test_a_sparse_matrix_has_no_kinds(client):
    made = upload(client, b"1 1:2\n-1 2:3\n", "a.svm")
    assert client.patch(f"/datasets/{made['id']}", json={"columns": {"features": "text"}}).status_code == 422

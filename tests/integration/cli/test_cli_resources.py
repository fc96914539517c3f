"""The commands for data sets, jobs, models, aliases and webhooks, against the real application."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import time

import httpx
import pytest
from api_support import CSV, api_client, store_dataset, store_model, tiny_model, train_body, upload
from sqlalchemy import select
from typer.testing import CliRunner

from service.cli import client_uploads
from service.cli.client import Connection
from service.cli.main import app
from service.db.tables import FeedbackRow, JobEventRow, JobRow, ModelRow
from solver.model_file import read_model

pytestmark = pytest.mark.usefixtures("read_here")


@pytest.fixture
def prefsvm(client, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # as where a program reads; pytest's own workers have it

    def run(*arguments: object, code: int = 0) -> str:
        done = CliRunner().invoke(app, [*map(str, arguments), "--url", str(client.base_url)])
        assert done.exit_code == code, done.output
        return done.output

    return run


def test_datasets(prefsvm, client):
    made = upload(client)["id"]
    assert made in prefsvm("datasets", "list")
    assert re.search(r"job +category", prefsvm("datasets", "show", made))
    assert re.search(r"job +text", prefsvm("datasets", "correct", made, "--kind", "job=text"))
    assert "'job' is not column=kind" in prefsvm("datasets", "correct", made, "--kind", "job", code=2)
    assert "is deleted" in prefsvm("datasets", "delete", made)
    assert "no data set has this id" in prefsvm("datasets", "show", made, code=1)


def test_jobs_are_followed_to_their_end_and_tried_again(prefsvm, client, database):
    job = client.post("/train", json=train_body(store_dataset(database))).json()["id"]
    measures = {"precision": 2 / 3, "round": 3, "parts": {"tuning": [1e-9 / 3, True]}}
    with database.transaction() as session:
        session.add(JobEventRow(job_id=job, attempt=0, kind="round", data=measures))
    client.post(f"/jobs/{job}/cancel")
    said = prefsvm("follow", job).splitlines()
    assert [line.split()[1] for line in said] == ["queued", "round", "finished"]
    assert {"precision=0.666667", "round=3"} <= set(said[1].split())
    assert "parts={tuning: [3.33333e-10, True]}" in said[1]
    assert prefsvm("jobs", "show", job) == prefsvm("jobs", job)
    again = prefsvm("retry", job).strip()
    assert client.get(f"/jobs/{again}").json()["status"] == "queued"
    assert "no job has this id" in prefsvm("follow", "job_0", code=1)


def test_models_are_taken_away(prefsvm, client, database, tmp_path):
    model = store_model(database, tmp_path, made := tiny_model())
    prefsvm("aliases", "set", "spam-filter", model)
    for form in ("safetensors", "onnx", "libsvm"):
        prefsvm("export", "spam-filter", "--format", form, "--out", tmp_path / f"model.{form}")
    assert read_model(tmp_path / "model.safetensors").decision.threshold == made.decision.threshold
    assert (tmp_path / "model.libsvm").read_text().startswith("svm_type c_svc")
    assert b"ai.onnx" in (tmp_path / "model.onnx").read_bytes()
    assert prefsvm("card", model).startswith("# ")
    prefsvm("curve", model, "roc", "--out", tmp_path / "roc.png")
    prefsvm("curve", model, "cost", "--out", tmp_path / "cost.svg")
    assert (tmp_path / "roc.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "cost.svg").read_bytes()
    assert json.loads(prefsvm("curve", model))["kind"] == "pr"
    refused = prefsvm("curve", model, "--out", tmp_path / "pr.pdf", code=2)
    assert all(word in refused for word in (".pdf", ".svg", ".png", ".json"))
    assert "no alias this name" in prefsvm("export", "nobody", code=1)
    assert "points at this model" in prefsvm("models", model, "--delete", code=1)


def test_drift(prefsvm, client, database, tmp_path):
    model = store_model(database, tmp_path)
    assert re.search(r"rows +0 *\n", prefsvm("drift", model))
    rows = [{"age": 20, "job": "clerk"}, {"age": 50, "job": "pilot"}]
    assert client.post("/predict", json={"model": model, "rows": rows}).status_code == 200
    shown = ""
    for _ in range(400):  # figures are written every few seconds
        shown = prefsvm("drift", model)
        if re.search(r"rows +2 *\n", shown):
            break
        time.sleep(0.1)
    assert re.search(r"unseen values in job +50%", shown), shown


def test_a_threshold_is_chosen_and_applied(prefsvm, client, database, tmp_path):
    model = store_model(database, tmp_path)
    said = prefsvm("threshold", model, "--objective", "recall=1", "--apply")
    outcome = r"reached on the \d+ calibration rows, too few to promise it"
    assert re.match(rf"threshold \S+ for recall 100%: {outcome}, in use now", said)
    assert re.search(r"called positive +\d+", said)
    assert re.search(r"recall +1\.000", said)
    assert len(client.get(f"/models/{model}/operating-points").json()["items"]) == 1
    assert re.search(r"recall 100% +open \(chance under 1%\)", prefsvm("threshold", model))
    assert re.search(r"cost of a row +\d", prefsvm("threshold", model, "--objective", "cost=5:1"))
    said = prefsvm("threshold", model, "--objective", "recall=0.5", "--confidence", "0.9")
    assert re.match(r"threshold \S+ for recall 50% with confidence 90%: not certified at confidence 90%", said)
    with database.transaction() as session:
        kept = session.get(ModelRow, model)
        kept.report = kept.report | {
            "test": kept.report["calibration"],
            "refit": {"labelled": 20, "measured": 10, "method": "lapsvm"},
        }
    shown = prefsvm("models", "show", model)
    assert shown == prefsvm("models", model)
    assert re.search(r"calibration +test, of lapsvm, as trained", shown)
    assert re.search(r"called positive", shown)
    assert "for recall 100%" in prefsvm("threshold", model, "--at", -2, "--apply")
    assert re.search(r"-2 picked +recall 100%", prefsvm("threshold", model))
    prefsvm("threshold", model, "--apply", code=2)
    prefsvm("threshold", model, "--objective", "magic", code=2)
    assert "is deleted" in prefsvm("models", model, "--delete")
    assert client.get(f"/models/{model}").status_code == 404


def test_aliases(prefsvm, database, tmp_path):
    first, second = store_model(database, tmp_path), store_model(database, tmp_path)
    prefsvm("aliases", "set", "spam-filter", first)
    assert second in prefsvm("aliases", "set", "spam-filter", second)
    assert first in prefsvm("aliases", "rollback", "spam-filter")
    assert first in prefsvm("aliases", "list")
    moves = prefsvm("aliases", "show", "spam-filter").splitlines()[-3:]
    assert [(first in line, "rollback" in line) for line in moves] == [(True, True), (False, False), (True, False)]
    assert "no model before this one" in prefsvm("aliases", "rollback", "spam-filter", code=1)
    assert "is deleted" in prefsvm("aliases", "delete", "spam-filter")
    assert "no alias has this name" in prefsvm("aliases", "show", "spam-filter", code=1)


def test_webhooks(prefsvm, client, database):
    made, secret = prefsvm("webhooks", "create", "https://example.com/hook").split()[2:4]
    assert made.startswith("wh_")
    assert secret.startswith("whsec_")
    listed = prefsvm("webhooks", "list")
    assert made in listed
    assert secret not in listed
    job = client.post("/train", json=train_body(store_dataset(database))).json()["id"]
    client.post(f"/jobs/{job}/cancel")
    assert re.search(rf"{job} +cancelled", prefsvm("webhooks", "deliveries", made))
    prefsvm("webhooks", "delete", made)
    assert made not in prefsvm("webhooks", "list")


@pytest.fixture
def big_file(tmp_path, monkeypatch):
    """A file that counts as a big one, and small pieces of it."""
    monkeypatch.setattr(client_uploads, "RESUMABLE_BYTES", 100)
    monkeypatch.setattr(client_uploads, "PIECE_BYTES", 100)
    path = tmp_path / "mails.csv"
    path.write_bytes(CSV)
    return path


def test_a_big_file_goes_on_where_it_was_cut_off(prefsvm, client, big_file, monkeypatch):
    sent: list[int] = []
    send = Connection.send

    def counted(self, method, path, **content):
        if method == "PATCH":
            sent.append(int(content["headers"]["Upload-Offset"]))
            content["content"] = interrupted(content["content"]) if len(sent) == 1 else content["content"]
        return send(self, method, path, **content)

    def interrupted(pieces):
        yield from itertools.islice(pieces, 3)
        time.sleep(0.3)  # as much as has been sent arrives
        raise KeyboardInterrupt

    monkeypatch.setattr(Connection, "send", counted)
    assert "the same command again sends the rest" in prefsvm("upload", big_file, "--missing", "?", code=130)
    listed = prefsvm("uploads", "list", "--status", "receiving")
    for _ in range(800):  # the service notices that the line is cut
        if f"300 of {len(CSV)}" in listed:
            break
        time.sleep(0.05)
        listed = prefsvm("uploads", "list", "--status", "receiving")
    assert re.search(rf"up_\w+ +receiving +300 of {len(CSV)} .* mails.csv", listed)
    # Another way to read it is another upload.
    assert "label" in prefsvm("upload", big_file)
    assert "label" in prefsvm("upload", big_file, "--missing", "?")
    assert sent == [0, 0, 300]
    datasets = client.get("/datasets").json()["items"]
    assert [each["sha256"] for each in datasets] == [hashlib.sha256(CSV).hexdigest()] * 2
    assert client.get(f"/datasets/{datasets[0]['id']}").json()["options"] == {"missing": ["?"]}
    assert "receiving" not in prefsvm("uploads", "list")


@pytest.fixture
def patches(monkeypatch):
    """The offsets from which parts of files were sent."""
    sent: list[int] = []
    send = Connection.send

    def noted(self, method, path, **content):
        if method == "PATCH":
            sent.append(int(content["headers"]["Upload-Offset"]))
        return send(self, method, path, **content)

    monkeypatch.setattr(Connection, "send", noted)
    return sent


def end_before_the_answer(prefsvm, big_file, monkeypatch):
    """Send all of a file, and end before it is known what it became."""
    with monkeypatch.context() as patch:
        get = Connection.get

        def interrupted(self, path):
            if path.startswith("/uploads/up_"):
                raise KeyboardInterrupt
            return get(self, path)

        patch.setattr(Connection, "get", interrupted)
        prefsvm("upload", big_file, code=130)


def test_a_file_of_which_all_had_arrived_is_not_sent_again(prefsvm, client, big_file, patches, monkeypatch):
    end_before_the_answer(prefsvm, big_file, monkeypatch)
    said = prefsvm("upload", big_file)
    (dataset,) = client.get("/datasets").json()["items"]
    assert dataset["id"] in said
    assert patches == [0]
    # That is done with: whoever asks for it once more wants another one.
    assert dataset["id"] not in prefsvm("upload", big_file)
    assert patches == [0, 0]
    assert len(client.get("/datasets").json()["items"]) == 2


def test_a_file_that_has_changed_since_is_sent_anew(prefsvm, client, big_file, patches, monkeypatch):
    monkeypatch.setattr(client_uploads, "FINGERPRINT_BYTES", 50)
    end_before_the_answer(prefsvm, big_file, monkeypatch)
    big_file.write_bytes(changed := CSV[:200] + CSV[200:].replace(b"clerk", b"baker", 1))
    assert len(changed) == len(CSV)
    prefsvm("upload", big_file)
    assert patches == [0, 0]
    assert [each["sha256"] for each in client.get("/datasets").json()["items"]] == [
        hashlib.sha256(content).hexdigest() for content in (changed, CSV)
    ]


def test_a_file_whose_data_set_was_deleted_is_sent_anew(prefsvm, client, big_file, patches, monkeypatch):
    end_before_the_answer(prefsvm, big_file, monkeypatch)
    for _ in range(4000):
        if found := client.get("/datasets").json()["items"]:
            break
        time.sleep(0.01)
    client.delete(f"/datasets/{found[0]['id']}")  # maybe before the upload knows that it is read
    assert "60 rows" in prefsvm("upload", big_file)
    assert patches == [0, 0]


def test_a_line_that_breaks_is_mended(prefsvm, big_file, monkeypatch):
    monkeypatch.setattr(client_uploads, "LONGEST_PAUSE", 0.01)
    send, sent, asked = Connection.send, [], []

    def broken(pieces):
        yield from itertools.islice(pieces, 2)
        time.sleep(0.2)
        raise httpx.WriteError("the line breaks")

    def breaking(self, method, path, **content):
        if method == "PATCH":
            sent.append(int(content["headers"]["Upload-Offset"]))
            content["content"] = broken(content["content"]) if len(sent) < 4 else content["content"]
        answer = send(self, method, path, **content)
        if method == "HEAD":
            asked.append(answer.headers["Upload-Offset"])
            if len(asked) == 1:
                answer.headers["Upload-Offset"] = "0"  # what was on its way arrives after the question
        return answer

    monkeypatch.setattr(Connection, "send", breaking)
    assert "60 rows" in prefsvm("upload", big_file)
    assert len(sent) >= 4


def test_a_big_file_that_cannot_be_read(prefsvm, big_file):
    big_file.write_bytes(CSV + b"1\n")
    assert "line 62: a row of 1 values; expected 3" in prefsvm("upload", big_file, code=1)
    failed = re.search(r"(up_\w+) .*failed.*a row of 1 values", prefsvm("uploads", "list", "--status", "failed"))
    assert failed is not None
    assert "a row of 1 values" in prefsvm("uploads", "show", failed[1])
    assert "is deleted" in prefsvm("uploads", "delete", failed[1])
    assert "no upload has this id" in prefsvm("uploads", "delete", failed[1], code=1)


def test_who_has_waited_enough_is_told_that_the_job_goes_on(prefsvm, client, database, monkeypatch):
    dataset = store_dataset(database)["id"]
    get = Connection.get

    def interrupted(self, path):
        raise KeyboardInterrupt if path.startswith("/jobs/") else get(self, path)

    monkeypatch.setattr(Connection, "get", interrupted)
    said = prefsvm("train", dataset, "--target", "label", "--objective", "f1", "--positive", "spam", "--wait", code=130)
    assert re.search(r"(job_\w+) goes on; prefsvm jobs \1 shows it, with --cancel it ends", said)
    assert client.get("/jobs").json()["items"][0]["status"] == "queued"


def test_batches(prefsvm, client, database, tmp_path):
    model, dataset = store_model(database, tmp_path), store_dataset(database)["id"]
    refused = prefsvm("batch", model, dataset, "--out", tmp_path / "answers.xlsx", code=2)
    assert all(word in refused for word in (".xlsx", ".csv", ".parquet", ".jsonl", "--format"))
    batch = prefsvm("batch", model, dataset).strip()
    assert re.search(rf"{batch} +queued", prefsvm("batches", "list"))
    assert "only one that succeeded has a result" in prefsvm("batches", "result", batch, code=1)
    assert re.search(rf"{batch} +cancelled", prefsvm("batches", "cancel", batch))
    assert re.search(rf"{batch} +cancelled", prefsvm("batches", "show", batch))
    result = {"blob_key": "none", "bytes": 1, "sha256": "0", "rows": 3, "labels": {"ham": 1, "spam": 2}, "warnings": []}
    with database.transaction() as session:
        job = session.get_one(JobRow, batch)
        job.status, job.result = "succeeded", result
    assert "3 rows: 1 ham, 2 spam" in prefsvm("batches", "show", batch)
    assert "no batch has this id" in prefsvm("batches", "show", "job_0", code=1)


def test_how_the_service_does(prefsvm, settings):
    said = prefsvm("status")
    assert re.search(r"database +ok", said)
    assert re.search(r"worker +not ok +no worker listens", said)
    assert "prefsvm_database_up 1.0" in prefsvm("metrics")
    with api_client(settings, broker_url="redis://127.0.0.1:1/0") as without_broker:
        done = CliRunner().invoke(app, ["status", "--url", str(without_broker.base_url)])
    assert done.exit_code == 1
    assert re.search(r"broker +not ok +does not answer", done.output)
    assert "not ready" in done.output


def test_a_training_is_tried_without_being_asked_for(prefsvm, client, database):
    dataset = store_dataset(database)["id"]
    train = ("train", dataset, "--target", "label", "--objective", "f1", "--positive", "spam", "--dry-run")
    assert "would be taken: about" in prefsvm(*train, "--include", "age")
    assert "the data set has no such column" in prefsvm(*train, "--include", "nothing", code=1)
    assert client.get("/jobs").json()["items"] == []


def test_feedback_and_shadows(prefsvm, database, tmp_path):
    first, second = (store_model(database, tmp_path) for _ in range(2))
    prefsvm("aliases", "set", "spam-filter", first)
    assert second in prefsvm("aliases", "set", "spam-filter", first, "--shadow", second)
    assert "0 of 0 rows differ" in prefsvm("aliases", "shadow", "spam-filter")
    assert second not in prefsvm("aliases", "set", "spam-filter", first, "--shadow", "none")
    assert "no shadow" in prefsvm("aliases", "shadow", "spam-filter", code=1)
    file = tmp_path / "right.csv"
    file.write_text("age,job,right\n39,clerk,ham\n40,,spam\n")
    sent = prefsvm("feedback", "add", "spam-filter", str(file), "--label", "right").split()[-1]
    listed = prefsvm("feedback", "list", "spam-filter")
    assert sent in listed
    assert "1 ham, 1 spam" in listed
    assert "1 ham, 1 spam" in prefsvm("feedback", "show", sent)
    file.write_text("age;job;right\n39,5;-;ham\n")
    options = ("--label", "right", "--missing", "-", "--decimal", ",")
    assert "note: read with ';'" in prefsvm("feedback", "add", "spam-filter", str(file), *options)
    with database.transaction() as session:
        content = session.scalars(select(FeedbackRow.content).order_by(FeedbackRow.seq.desc())).first()
    assert json.loads(content) == {"rows": [{"age": 39.5, "job": None}], "labels": ["ham"], "meant": {}}
    assert "no column 'label'" in prefsvm("feedback", "add", "spam-filter", str(file), code=1)
    assert "no alias" in prefsvm("feedback", "add", "nobodys", str(file), "--label", "right", code=1)
    assert "deleted; train with" in prefsvm("retrain", "spam-filter", code=1)
    # the two labels are a thousand rows and a request apart: nothing of the file is sent
    rows = "".join(f"k{row},ham\n" for row in range(1000))
    file.write_text(f"key,label\n{rows}k7,spam\n")
    before = prefsvm("feedback", "list")
    dataset = store_dataset(database)["id"]
    refused = prefsvm("feedback", "add", "spam-filter", str(file), "--dataset", dataset, code=1)
    assert "gives key 'k7' the labels 'ham' and 'spam'" in refused
    assert prefsvm("feedback", "list") == before
    assert "is deleted" in prefsvm("feedback", "delete", sent)
    assert sent not in prefsvm("feedback", "list")


def test_a_row_beyond_the_first_thousand_is_named_by_its_line(prefsvm, database, tmp_path):
    prefsvm("aliases", "set", "spam-filter", store_model(database, tmp_path))
    lines = ["age,job,label", *(f"{row % 90},clerk,{('ham', 'spam')[row % 2]}" for row in range(1500))]
    lines[1201] = "many,clerk,ham"
    file = tmp_path / "right.csv"
    file.write_text("\n".join(lines))
    refused = prefsvm("feedback", "add", "spam-filter", str(file), code=1)
    assert "line 1202: column 'age'" in refused
    # the first thousand is kept, and the way back is said
    (kept,) = re.findall(r"prefsvm feedback delete (fb_\w+)", refused)
    assert kept in prefsvm("feedback", "list")
    assert "is deleted" in prefsvm("feedback", "delete", kept)
    assert "line 1202: column 'age'" in prefsvm("predict", "spam-filter", str(file), code=1)
    lines[1201], lines[3] = lines[3], "many,clerk,ham"
    file.write_text("\n".join(lines))
    refused = prefsvm("feedback", "add", "spam-filter", str(file), code=1)
    assert "line 4: column 'age'" in refused
    assert "take it back" not in refused


def test_a_file_is_uploaded_by_train_and_not_twice(prefsvm, client, tmp_path):
    file = tmp_path / "people.csv"
    file.write_bytes(CSV)
    asked = ("train", file, "--target", "job", "--objective", "f1", "--positive", "a", "--dry-run")
    prefsvm(*asked, code=1)  # there is no such class; the file is there all the same
    assert len(client.get("/datasets").json()["items"]) == 1
    said = prefsvm(*asked, code=1)
    made = client.get("/datasets").json()["items"]
    assert len(made) == 1
    assert f"is there as {made[0]['id']}" in said
    prefsvm(*asked, "--missing", "unknown", "--delimiter", ",", code=1)
    made = client.get("/datasets").json()["items"]  # the newest first
    assert len(made) == 2
    assert made[0]["options"] == {"delimiter": ",", "missing": ["unknown"]}
    assert "how a file is read" in prefsvm("train", made[0]["id"], *asked[2:], "--no-header", code=2)
    assert "there is no file nothing.csv" in prefsvm("train", "nothing.csv", *asked[2:], code=1)


def test_ids_are_shortened_as_with_git(prefsvm, client):
    first, second = upload(client)["id"], upload(client, b"x,y\n1,2\n3,4\n", "second.csv")["id"]
    alike = next(n for n in range(len(first)) if first[n] != second[n])
    assert second in prefsvm("datasets", "show", second[: alike + 1])
    assert second in prefsvm("datasets", "show", "@last")
    said = prefsvm("datasets", "show", first[:alike], code=1)
    assert f"several ids begin with {first[:alike]}" in said
    assert first in said
    assert second in said
    assert "no data set has this id" in prefsvm("datasets", "show", "ds_ffffff", code=1)
    assert "there is none yet in jobs" in prefsvm("jobs", "show", "@last", code=1)


def test_tables_fit_eighty_columns_and_keep_ids(prefsvm, client, database, tmp_path, monkeypatch):
    stored = store_dataset(database)
    dataset = stored["id"]
    job = client.post("/train", json=train_body(stored) | {"alias": "spam-filter"}).json()["id"]
    model = store_model(database, tmp_path, tiny_model())
    prefsvm("aliases", "set", "a-rather-long-name-of-an-alias", model)
    monkeypatch.setenv("COLUMNS", "80")
    batch = prefsvm("batch", model, dataset).strip()
    shown = ("jobs", job), ("models", model), ("datasets", dataset), ("batches", batch), ("batches", model)
    for table, whole in ((prefsvm(command), whole) for command, whole in (*shown, ("aliases", model))):
        assert whole in table
        assert max(map(len, table.splitlines())) <= 80
        assert not re.search(r"\d{4}-\d\d-\d\d\n", table), "times stay whole"
    monkeypatch.delenv("COLUMNS")
    assert "→ spam-filter: " in prefsvm("jobs")


def test_groups_list_and_ids_show_and_the_address_stands_anywhere(prefsvm, client, database, tmp_path):
    dataset = upload(client)["id"]
    model = store_model(database, tmp_path)
    prefsvm("aliases", "set", "spam-filter", "@last")
    assert prefsvm("datasets") == prefsvm("datasets", "list")
    assert prefsvm("datasets", dataset) == prefsvm("datasets", "show", "@last") == prefsvm("datasets", "@last")
    assert prefsvm("models") == prefsvm("models", "list")
    for group in ("batches", "uploads", "aliases", "feedback", "webhooks", "keys", "projects"):
        assert prefsvm(group) == prefsvm(group, "list")
    for before in (["--url", str(client.base_url)], [f"--url={client.base_url}"]):
        for words in (["models"], ["datasets"], ["datasets", "list"], ["aliases", "show", "spam-filter"]):
            done = CliRunner().invoke(app, [*before, *words])
            assert done.exit_code == 0, done.output
            assert done.output == prefsvm(*words)
    shown = prefsvm("models", "@last").splitlines()
    assert shown[0] == model
    assert shown[1].endswith(" → spam-filter")
    assert f"{dataset} is deleted" in prefsvm("datasets", "delete", "@last")
    assert "at least four characters behind the _, not mdl_0" in prefsvm("aliases", "set", "x", "mdl_0", code=1)
    assert "at least four characters" not in prefsvm("aliases", "set", "x", "mdl_ffffff", code=1)
    prefsvm("aliases", "set", "another", "spam-filter")
    assert client.get("/aliases/another").json()["model_id"] == model


def test_what_is_wrong_is_called_as_the_option_that_said_it(prefsvm, database, tmp_path):
    dataset = store_dataset(database)["id"]
    train = ("train", dataset, "--target", "label", "--objective", "f1", "--dry-run")
    assert "Invalid request: --positive: is required" in prefsvm(*train, code=1)
    asked = ("--positive", "spam", "--exclude", "a", "--kind", "b=text", "--missing-values", "never")
    said = prefsvm(*train, *asked, code=1)
    assert "--missing-values: " in said
    said = prefsvm(*train, *asked[:-2], code=1)
    assert "--exclude: the data set has no such column" in said
    assert "--kind b: the data set has no such column" in said
    for content, words in ((b"", "the file is empty"), (b"a,b\n", "no rows below the column names")):
        file = tmp_path / "empty.csv"
        file.write_bytes(content)
        said = prefsvm("upload", file, code=1)
        assert words in said
        assert "curl" not in said


def test_train_says_how_a_file_is_to_be_read(prefsvm, client, tmp_path):
    file = tmp_path / "people.txt"
    file.write_bytes(CSV)
    train = ("train", file, "--target", "label", "--objective", "f1", "--positive", "spam", "--dry-run")
    prefsvm(*train, "--format", "csv", "--kind", "age=category")
    (made,) = client.get("/datasets").json()["items"]
    assert client.get(f"/datasets/{made['id']}").json()["options"] == {"columns": {"age": "category"}}
    # The same kinds are the same data set; without any, what was said before is used, and said.
    assert "is there as" in prefsvm(*train, "--kind", "age=category")
    assert f"is there as {made['id']}, 'age' read as category" in prefsvm(*train)
    assert len(client.get("/datasets").json()["items"]) == 1
    prefsvm(*train, "--format", "csv", "--kind", "age=number")
    assert len(client.get("/datasets").json()["items"]) == 2

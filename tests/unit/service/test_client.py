"""What the command line makes of its arguments, of CSV files, and of the answers of a service."""

from __future__ import annotations

import io
import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from pydantic import TypeAdapter, ValidationError
from typer.testing import CliRunner

from prefsvm.client import Client, ServiceWarning, _rows_from
from service.cli import client
from service.cli.client import ClientError, parse_objective, parse_params
from service.cli.csv_rows import PLAIN_NUMBER, PREDICT_ROWS, CsvRows, CsvStyle, Piece, cell, lone_quote
from service.cli.main import app
from service.ingest import numbers
from service.ingest.options import FORMATS
from service.models.objectives import ObjectiveBody
from solver.algorithms import ALGORITHMS


def of_two_rows(places: str) -> ClientError:
    """What a request of some rows is answered with where two of them are wrong."""
    errors = [{"field": f"body.{places}.{row}", "message": "column 'rows.7': expected text"} for row in (0, 3)]
    return ClientError.of({"title": "The rows do not fit", "detail": "", "errors": errors})


@pytest.mark.parametrize("places", ["rows", "labels", "keys"])
def test_each_row_of_a_file_is_named_by_its_line(places: str) -> None:
    piece = Piece([["a"]] * 4, [2, 3, 5, 6])
    said = "The rows do not fit: line 2: column 'rows.7': expected text\n  line 6: column 'rows.7': expected text"
    with pytest.raises(ClientError) as caught, piece.errors_by_line():
        raise of_two_rows(places)
    assert str(caught.value) == said


def test_each_row_of_a_list_is_named_by_its_place_in_all_of_it() -> None:
    with (
        pytest.raises(ClientError, match=r"rows\[2000\]: column 'rows.7'.*\n  rows\[2003\]: column 'rows.7'"),
        _rows_from(2000),
    ):
        raise of_two_rows("rows")


@pytest.mark.parametrize("number", ["nan", "inf"])
def test_a_number_that_no_request_can_say_is_refused_in_words(number: str) -> None:
    with (
        client.Connection("http://127.0.0.1:9") as service,
        pytest.raises(ClientError, match="a number is nan or infinite"),
    ):
        service.post("/train", {"objective": parse_objective(f"precision={number}")})


@pytest.mark.parametrize(
    ("text", "objective"),
    [
        ("recall=0.95", {"kind": "recall", "target": 0.95}),
        ("precision=1", {"kind": "precision", "target": 1.0}),
        ("precision_recall=0.9:0.8", {"kind": "precision_recall", "precision": 0.9, "recall": 0.8}),
        ("f1", {"kind": "f1"}),
        ("f_beta=2", {"kind": "f_beta", "beta": 2.0}),
        ("cost=5:1", {"kind": "cost", "false_negative": 5.0, "false_positive": 1.0}),
        ("ham_loss=0.001", {"kind": "ham_loss", "at_most": 0.001}),
        ("false_positive_rate=0.02", {"kind": "false_positive_rate", "at_most": 0.02}),
    ],
)
def test_objectives(text, objective):
    assert parse_objective(text) == objective


@pytest.mark.parametrize(
    "text", ["", "recall", "recall=", "recall=high", "f1=0.5", "f1=", "cost=5", "cost=1:2:3", "auc"]
)
def test_what_is_no_objective_names_the_known_forms(text):
    with pytest.raises(ValueError, match="is none of precision="):
        parse_objective(text)


def test_a_confidence_goes_with_a_target():
    assert parse_objective("ham_loss=0.01", 0.9) == {"kind": "ham_loss", "at_most": 0.01, "confidence": 0.9}
    assert parse_objective("recall=0.9", 0.95) == {"kind": "recall", "target": 0.9, "confidence": 0.95}
    both = parse_objective("precision_recall=0.9:0.8", 0.95, "strict")
    assert both == {
        "kind": "precision_recall",
        "precision": 0.9,
        "recall": 0.8,
        "confidence": 0.95,
        "certificate": "strict",
    }
    with pytest.raises(ValueError, match="a certificate goes with a confidence"):
        parse_objective("recall=0.9", None, "strict")
    with pytest.raises(ValueError, match="a confidence goes with"):
        parse_objective("f1", 0.95)


def test_parameters_are_json_where_they_can_be():
    assert parse_params(["C=10", "gamma=scale", "shrinking=true", "name=a=b"]) == {
        "C": 10,
        "gamma": "scale",
        "shrinking": True,
        "name": "a=b",
    }
    with pytest.raises(ValueError, match="'C' has no '='"):
        parse_params(["C"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("39", 39),
        ("-4", -4),
        ("0", 0),
        ("0.5", "0.5"),
        (".5", ".5"),
        ("1e3", "1e3"),
        ("clerk", "clerk"),
        ("01234", "01234"),
        ("+1", "+1"),
        ("1_000", "1_000"),
        ("nan", "nan"),
        ("inf", "inf"),
        ("1e999", "1e999"),
        ("9" * 400, "9" * 400),
        ("9" * 5000, "9" * 5000),
        ("0x10", "0x10"),
    ],
)
def test_cells(text, value):
    found = cell(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("kind", ["category", "text", "date"])
def test_cells_of_columns_that_are_no_numbers_stay_texts(kind):
    assert [cell(text, kind) for text in ("", "1.50", "7", "x")] == [None, "1.50", "7", "x"]
    assert cell("1.50", "number") == "1.50"  # as the model reads it, to which it may be 150


def test_cells_with_a_decimal_comma():
    given = ("", "1,5", "-2", "1.5", "1,2,3", "x,y", "1,5e2")
    assert [cell(text, None, ",") for text in given] == [None, 1.5, -2, "1.5", "1,2,3", "x,y", 150.0]
    assert cell("1,5", "text", ",") == "1,5"


def test_numbers_are_what_they_are_to_an_upload():
    assert f"^{PLAIN_NUMBER.pattern}$" == numbers.PLAIN_NUMBER


# --- against a stand-in that gives written answers -------------------------------------------------------------------


class StandIn(ThreadingHTTPServer):
    """Answers each call with what `answers` has for its method and path, a list's items one after the other."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), StandInHandler)
        self.answers: dict[str, Any] = {}
        self.bodies: list[bytes] = []


class StandInHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, StandIn)
        self.server.bodies.append(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        answer = self.server.answers.get(f"{self.command} {self.path}", (404, {"title": "No", "detail": self.path}))
        if callable(answer):
            answer = answer(json.loads(self.server.bodies[-1]))
        if isinstance(answer, list):
            answer = answer.pop(0)
        status, body, *headers = answer if isinstance(answer, tuple) else (200, answer)
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in dict(*headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with StandIn() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        server.answers["GET /models/mdl_1"] = {"columns": []}
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def prefsvm(stand_in: StandIn) -> Callable[..., Result]:
    """Runs a command against the stand-in."""

    def run(*arguments: object) -> Result:
        url = f"http://127.0.0.1:{stand_in.server_port}"
        return CliRunner().invoke(app, list(map(str, arguments)), env={"PREFSVM_URL": url, "COLUMNS": None})

    return run


def predicts(probability: float | None = None) -> Callable[[dict[str, Any]], Any]:
    def answer(body: dict[str, Any]) -> Any:
        if any(row.get("a") == "bad" for row in body["rows"]):
            return 422, {"title": "Invalid request", "detail": "no"}
        one = {"label": "yes", "score": 0.5, "probability": probability}
        return {"predictions": [one for _ in body["rows"]], "warnings": []}

    return answer


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    path.write_text("a,b\n1,x\n2,y\n")
    return path


def test_what_a_newer_service_says_besides_is_left_out(stand_in: StandIn) -> None:
    row = {"row": 7, "content": {"a": "1"}, "label": None, "score": 0.5, "probability": None, "key": None, "since": 1}
    stand_in.answers |= {
        "GET /audits/aud_1/next?n=10&after=0": {"items": [row | {"position": 3}]},
        "GET /models/mdl_1/queue?purpose=improve&n=20": {
            "dataset": "ds_1", "warnings": [], "items": [row | {"drawn": "random", "reason": "it is odd"}],
        },
    }  # fmt: skip
    with Client(f"http://127.0.0.1:{stand_in.server_port}", "key") as service:
        assert [(each.row, each.position) for each in service.audit_rows("aud_1")] == [(7, 3)]
        assert [(each.row, each.dataset) for each in service.queue("mdl_1")] == [(7, "ds_1")]


def test_waiting_says_what_the_report_warns_of_and_not_again_what_the_request_did(stand_in: StandIn) -> None:
    job = {
        "id": "job_1", "status": "succeeded", "phase": None, "progress": 1.0, "model_id": "mdl_1",
        "warnings": ["column 'id' is left out"],
    }  # fmt: skip
    told = ["column 'id' is left out", "column 'age' is left out: 40 different texts", "few labels", "few labels"]
    report = {
        "algorithm": "svm", "status": "met", "threshold": 0.0, "classes": {"positive": "yes"}, "warnings": told,
    }  # fmt: skip
    stand_in.answers |= {
        "POST /train": job,
        "GET /jobs/job_1": job,
        "GET /models/mdl_1": {"id": "mdl_1", "report": report, "status": "met", "threshold": 0.0},
    }
    with Client(f"http://127.0.0.1:{stand_in.server_port}", "key") as service:
        with pytest.warns(ServiceWarning) as first:
            begun = service.train("ds_1", target="y", objective="f1")
        with pytest.warns(ServiceWarning) as then:
            assert service.wait(begun).id == "mdl_1"
        with pytest.warns(ServiceWarning) as unheard:
            service.wait("job_1")
    assert [str(each.message) for each in first] == told[:1]
    assert [str(each.message) for each in then] == told[1:3]
    assert [str(each.message) for each in unheard] == told[:3]
    assert {each.filename for each in (*first, *then, *unheard)} == {__file__}


DECIDED = {"predictions": [{"label": "spam", "score": 0.5, "probability": None}], "warnings": []}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mail", "Subject: You won\n"),
        ("mail.txt", "Return-Path: <a@b.example>\nSubject: x\n\nFrom here on, it goes\nup, down\n"),
        (
            "0001.bfc8",
            "From a@b.example Thu Aug 22 12:36:23 2002\nReturn-Path: <a@b.example>\n\nHello\n\nFrom here on\n",
        ),
        ("mail.eml", "any text"),
    ],
)
def test_a_mail_is_known_by_what_stands_in_it(prefsvm, stand_in, tmp_path: Path, name: str, content: str) -> None:
    stand_in.answers["POST /predict?model=mdl_1"] = DECIDED
    file = tmp_path / name
    file.write_text(content)
    done = prefsvm("predict", "mdl_1", file)
    assert (done.exit_code, done.stdout) == (0, "spam 0.5\n")
    assert stand_in.bodies[-1] == content.encode()


def test_several_mails_are_a_data_set(prefsvm, tmp_path: Path) -> None:
    file = tmp_path / "inbox"
    file.write_text(2 * "From a@b.example Thu Aug 22 12:36:23 2002\nSubject: x\n\nHello\n\n")
    refused = prefsvm("predict", "mdl_1", file)
    assert refused.exit_code == 2
    assert "several mails" in re.sub(r"\s+", " ", refused.output)


def test_one_line_that_is_no_header_for_the_model_is_refused(prefsvm, stand_in, tmp_path: Path) -> None:
    stand_in.answers["GET /models/mdl_1"] = {"columns": [{"name": "age", "kind": "number"}]}
    file = tmp_path / "rows.csv"
    file.write_text("Subject: You won\n")
    refused = prefsvm("predict", "mdl_1", file)
    assert refused.exit_code == 1
    assert "missing columns: 'age'" in re.sub(r"\s+", " ", refused.output)
    file.write_text("age,name\n")
    done = prefsvm("predict", "mdl_1", file)
    assert (done.exit_code, done.stdout) == (0, "age,name,prefsvm_label,prefsvm_score\n")
    assert "no row below" in done.stderr


def a_job(**changes: Any) -> dict[str, Any]:
    return {
        "id": "job_1", "status": "running", "phase": "training", "progress": 0.4, "model_id": None, "error": None,
        "created_at": "2026-11-01T12:00:00Z", "started_at": "2026-11-01T12:00:02.5Z", "finished_at": None,
        "cancel_requested_at": None, "request": {"dataset": None, "objective": {"kind": "f1"}},
    } | changes  # fmt: skip


def test_a_job_that_is_cancelled_says_so_and_one_that_has_ended_when(prefsvm, stand_in) -> None:
    stand_in.answers["POST /jobs/job_1/cancel"] = a_job(cancel_requested_at="2026-11-01T12:00:04Z")
    assert "cancelling 40%" in prefsvm("jobs", "job_1", "--cancel").stdout
    stand_in.answers["GET /jobs/job_1"] = a_job()
    running = prefsvm("jobs", "job_1").stdout
    assert "running 40%" in running
    assert "ended" not in running
    stand_in.answers["GET /jobs/job_1"] = a_job(status="cancelled", finished_at="2026-11-01T12:01:04Z")
    said = "ended 2026-11-01 12:01:04, 61.5 s after its start, 64.0 s after it was asked for"
    assert said in prefsvm("jobs", "show", "job_1").stdout
    stand_in.answers["GET /jobs/job_1"] = a_job(status="cancelled", started_at=None, finished_at="2026-11-01T12:00:04Z")
    assert "ended 2026-11-01 12:00:04, 4.0 s after it was asked for" in prefsvm("jobs", "job_1").stdout
    stand_in.answers["GET /jobs?limit=1"] = {"items": [a_job()]}
    assert "job_1" in prefsvm("jobs", "--limit", 1).stdout


def test_a_job_is_told_with_the_promise_of_its_own_objective(prefsvm, stand_in) -> None:
    """Another threshold was applied since: its promise was said of the objective of the training."""
    asked, applied = parse_objective("precision=0.95"), parse_objective("recall=0.9")
    promises = [{"level": each, "chance": 0.3} for each in ("open", "proven")]
    listed = {"id": "mdl_1", "objective": applied, "status": "met", "promise": promises[1]}
    stand_in.answers["GET /jobs"] = {
        "items": [a_job(status="succeeded", model_id="mdl_1", request={"dataset": None, "objective": asked})]
    }
    stand_in.answers["GET /models"] = {"items": [listed]}
    trained = {"objective": asked, "status": "cannot_certify", "promise": promises[0]}
    stand_in.answers["GET /models/mdl_1"] = listed | {"report": trained}
    said = prefsvm("jobs").stdout
    assert "precision 95%: open (chance 30%)" in said
    assert "proven" not in said


@pytest.mark.parametrize(
    ("word", "ways"),
    [
        ("cancel", "there is prefsvm jobs … --cancel and prefsvm batches cancel"),
        ("rollback", "there is prefsvm aliases rollback"),
        ("bogus", "No such command 'bogus'"),
    ],
)
def test_a_word_that_is_no_command_names_where_it_is_one(prefsvm, word: str, ways: str) -> None:
    refused = prefsvm(word, "job_1")
    assert refused.exit_code == 2
    assert ways in re.sub(r"[\s│]+", " ", refused.output)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"kind": "precision", "target": 90}, "should be a number above 0 and up to 1: 0.9 for 90 %"),
        ({"kind": "precision_recall", "precision": 0.9, "recall": "high"}, "should be a number above 0 and up to 1"),
        ("precision=0.9", 'should be an object such as {"kind": "precision", "target": 0.9}, not a text'),
    ],
)
def test_an_objective_that_is_written_in_another_way_is_told_how(sent: object, said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(ObjectiveBody).validate_python(sent)
    assert [error["msg"].startswith(said) for error in refused.value.errors()] == [True]


def test_predictions_may_replace_their_own_input(prefsvm, stand_in, table):
    stand_in.answers["POST /predict"] = predicts()
    assert prefsvm("predict", "mdl_1", table, "--out", table).exit_code == 0
    assert table.read_text() == "a,b,prefsvm_label,prefsvm_score\n1,x,yes,0.5\n2,y,yes,0.5\n"
    assert [path.name for path in table.parent.iterdir()] == ["in.csv"]


@pytest.mark.parametrize("bad_row", [0, PREDICT_ROWS])
def test_a_failed_prediction_leaves_the_old_file(prefsvm, stand_in, tmp_path, bad_row):
    stand_in.answers["POST /predict"] = predicts()
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("a\n" + bad_row * "1\n" + "bad\n")
    out.write_text("old")
    failed = prefsvm("predict", "mdl_1", source, "--out", out)
    assert failed.exit_code == 1
    assert out.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out.csv"]


def test_no_header_before_the_first_answer(prefsvm, stand_in, table):
    stand_in.answers["POST /predict"] = (422, {"title": "Invalid request", "detail": "no"})
    failed = prefsvm("predict", "mdl_1", table)
    assert failed.exit_code == 1
    assert failed.stdout == ""
    stand_in.answers["POST /predict"] = predicts()
    assert prefsvm("predict", "mdl_1", table).stdout.startswith("a,b,prefsvm_label,prefsvm_score\n1,x,")


@pytest.mark.parametrize(
    ("text", "out", "note"),
    [
        ("a;b\n1;x,y\n2;z\n", "a;b;prefsvm_label;prefsvm_score\n1;x,y;yes;0.5\n2;z;yes;0.5\n", "read with ';'"),
        ("sep=|\r\na|b\r\n1|x\r\n", "a|b|prefsvm_label|prefsvm_score\n1|x|yes|0.5\n", ""),
        ("\ufeff\na\tb\n1\tx\n", "a\tb\tprefsvm_label\tprefsvm_score\n1\tx\tyes\t0.5\n", "read with a tab"),
        ("a,b;c\n1,x;y\n2,z\n", "a,b;c,prefsvm_label,prefsvm_score\n1,x;y,yes,0.5\n2,z,yes,0.5\n", ""),
    ],
)
def test_the_delimiter_is_told_by_the_first_lines_as_of_uploads(prefsvm, stand_in, table, text, out, note):
    stand_in.answers["POST /predict"] = predicts()
    table.write_bytes(text.encode())
    done = prefsvm("predict", "mdl_1", table)
    assert done.stdout == out
    assert done.stderr.startswith(f"note: {note}" if note else "")
    assert bool(done.stderr) == bool(note)
    table.write_text("a;b\n1;2;3\n")
    assert "line 2 has 3 cells, the header has 2" in prefsvm("predict", "mdl_1", table).stderr


def test_what_is_read_from_a_pipe_is_whole(stand_in, prefsvm, tmp_path):
    stand_in.answers["POST /predict"] = predicts()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    rows = "".join(f"{number};x\n" for number in range(20_000))  # more than is looked at for the delimiter
    writer = threading.Thread(target=pipe.write_text, args=("a;b\n" + rows,))
    writer.start()
    lines = prefsvm("predict", "mdl_1", pipe).stdout.splitlines()
    writer.join()
    assert lines[1:] == [f"{number};x;yes;0.5" for number in range(20_000)]


def test_a_file_without_rows_has_a_header_still(prefsvm, table):
    table.write_text("a,b\n")
    assert prefsvm("predict", "mdl_1", table).stdout == "a,b,prefsvm_label,prefsvm_score\n"


def test_a_place_that_cannot_be_written_is_named(prefsvm, stand_in, table, tmp_path):
    stand_in.answers["POST /predict"] = predicts()
    for place in (tmp_path, tmp_path / "none" / "out.csv"):
        failed = prefsvm("predict", "mdl_1", table, "--out", place)
        assert failed.exit_code == 1
        assert f"{place} cannot be written" in failed.stderr


MEASURES = {
    "n": 40,
    "true_positives": 9,
    "false_positives": 1,
    "true_negatives": 26,
    "false_negatives": 4,
    "confidence": 0.95,
    "precision": {"value": 0.9, "low": 0.8, "high": 0.95},
    "recall": {"value": 0.7, "low": 0.6, "high": 0.8},
    "f1": None,
}


def a_model(objective: dict[str, Any], status: str = "met", **report: Any) -> dict[str, Any]:
    trained = {"objective": objective, "status": status, "status_reason": "", "threshold": 0.25}
    trained |= {"algorithm": "psvm", "classes": {"negative": "no", "positive": "yes"}, "warnings": []}
    rows = {"total": 100, "labelled": 40, "positive": 13, "negative": 27, "unlabelled": 60}
    trained |= {"params": {}, "rows": rows}
    named = {"id": "mdl_1", "dataset_id": None, "aliases": ["spam"]}
    return {**named, "operating_point": None, "report": trained | {"calibration": MEASURES, "test": None} | report}


@pytest.mark.parametrize(
    ("objective", "status", "said"),
    [
        ("recall=0.9", "met", "psvm, objective recall 90%: met on the 40 calibration rows"),
        ("recall=0.9", "preference_unmet", "psvm, objective recall 90%: not reached on the 40 calibration rows"),
        ("f1", "met", "psvm, objective best F1"),
        ("f_beta=2", "met", "psvm, objective best F-beta, beta 2"),
        ("ham_loss=0.001", "met", "psvm, objective ham loss at most 0.1%: met on the 40 calibration rows"),
        ("cost=5:1", "met", "psvm, objective lowest cost, false negative 5, false positive 1"),
        ("f1", "stopped", "psvm, objective best F1: stopped early, the best so far"),
    ],
)
def test_what_a_model_reached_is_no_promise(prefsvm, stand_in, objective, status, said):
    stand_in.answers["GET /models/mdl_1"] = a_model(parse_objective(objective), status)
    lines = prefsvm("models", "mdl_1").stdout.splitlines()
    assert lines[:3] == ["mdl_1", "trained on a data set that is deleted → spam", said]


def test_what_can_be_relied_on_is_said_once(prefsvm, stand_in):
    sentence = "10 labelled rows called 'spam' are too few to promise precision 95%."
    promise = {"level": "open", "chance": 0.4, "confidence": 0.95, "bounds": {"precision": 0.6}, "sentence": sentence}
    stand_in.answers["GET /models/mdl_1"] = a_model(
        parse_objective("precision=0.95"), "cannot_certify", promise=promise, status_reason=sentence
    )
    said = prefsvm("models", "mdl_1").stdout
    assert "precision 95%: reached on the 40 calibration rows, too few to promise it" in said
    assert said.count(sentence) == 1


def test_what_was_missed_is_said_once(prefsvm, stand_in):
    sentence = "The labelled rows reach precision 90%, where precision 95% was asked."
    promise = {"level": "missed", "chance": 0.1, "confidence": 0.95, "bounds": {"precision": 0.6}, "sentence": sentence}
    reason = "The calibration rows reach only precision 90% where 95% was asked."
    asked = parse_objective("precision=0.95")
    stand_in.answers["GET /models/mdl_1"] = a_model(asked, "preference_unmet", promise=promise, status_reason=reason)
    said = prefsvm("models", "mdl_1").stdout
    assert sentence in said
    assert reason not in said


def test_checked_rows_are_said_with_their_command_and_what_they_proved(prefsvm, stand_in):
    promise = {
        "level": "open", "chance": 0.749, "confidence": 0.9, "bounds": {"precision": 0.6}, "sentence": "Check.",
        "needs": {"random_labels": 500, "checked_rows": 46},
    }  # fmt: skip
    asked = parse_objective("precision=0.95", 0.9)
    model = a_model(asked, "cannot_certify", promise=promise)
    model |= {"dataset_id": "ds_1", "status": "cannot_certify", "threshold": 0.25, "promise": promise, "audits": []}
    stand_in.answers |= {"GET /models/mdl_1": model, "GET /datasets/ds_1": {"name": "mails.csv"}}
    audit = "the audit: prefsvm audit mdl_1 ds_1 --objective precision=0.95 --confidence 0.9\n"
    assert audit in prefsvm("models", "mdl_1").stdout
    proven = {"id": "aud_1", "sentence": "proven after 46 rows", "in_use": True}
    model["audits"] = [proven, proven | {"id": "aud_2", "in_use": False}]
    said = prefsvm("models", "mdl_1").stdout
    assert "aud_1: proven after 46 rows\naud_2: proven after 46 rows; by a threshold that is not in use\n" in said
    assert audit not in said
    # What it has proven comes first, and what the labels say is said as that.
    said = prefsvm("models", "mdl_1").stdout
    assert "\nCheck.\n" in said
    model["proven_by"] = "aud_1"
    assert "\nfrom the labels alone: Check.\n" in prefsvm("models", "mdl_1").stdout
    del model["proven_by"]
    with Client(f"http://127.0.0.1:{stand_in.server_port}") as service:
        found = service.model("mdl_1")
    assert (found.status, found.promise, found.audits) == ("cannot_certify", promise, model["audits"])


@pytest.mark.parametrize(
    ("level", "status", "said"),
    [
        ("likely", "met", "recall 90%: likely (chance 75%)"),
        ("open", "cannot_certify", "recall 90%: open (chance 75%)"),
        ("proven", "met", "recall 90%: proven"),
        ("missed", "preference_unmet", "recall 90%: missed"),
        ("likely", "stopped", "recall 90%: stopped early, the best so far"),
        (None, "met", "recall 90%: met on the calibration rows"),
    ],
)
def test_a_list_says_how_far_each_model_can_be_relied_on(prefsvm, stand_in, level, status, said):
    named = {"id": "mdl_1", "dataset_id": None, "algorithm": "svm", "aliases": [], "created_at": "2026-11-01T12:30:00Z"}
    promise = {"level": level, "chance": 0.7512}
    listed = {**named, "objective": parse_objective("recall=0.9"), "status": status, "promise": promise}
    stand_in.answers["GET /models"] = {"items": [listed], "next_cursor": None}
    assert prefsvm("models").stdout.splitlines()[-1].rstrip().endswith(f"deleted: {said}")
    listed["proven_by"] = "aud_1"
    assert prefsvm("models").stdout.splitlines()[-1].rstrip().endswith("deleted: recall 90%: proven by aud_1")


@pytest.mark.parametrize(
    ("status", "said"),
    [("met", "certified at confidence 95%"), ("cannot_certify", "not certified at confidence 95%")],
)
def test_a_certificate_is_called_one(prefsvm, stand_in, status, said):
    stand_in.answers["GET /models/mdl_1"] = a_model(parse_objective("recall=0.9", 0.95), status)
    line = prefsvm("models", "mdl_1").stdout.splitlines()[2]
    assert line == f"psvm, objective recall 90% with confidence 95%: {said}"


def test_a_cost_is_shown_where_it_was_the_objective(prefsvm, stand_in):
    cost = {"cost": {"value": 0.3, "low": 0.2, "high": 0.4}}
    stand_in.answers["GET /models/mdl_1"] = a_model(parse_objective("cost=5:1"), calibration=MEASURES | cost)
    shown = prefsvm("models", "mdl_1").stdout
    assert "cost of a row" in shown
    assert "0.300 (0.200 to 0.400)" in shown
    stand_in.answers["GET /models/mdl_1"] = a_model(parse_objective("f1"), calibration=MEASURES | {"cost": None})
    assert "cost" not in prefsvm("models", "mdl_1").stdout


def test_the_point_in_use_is_shown_of_what_an_alias_points_at(prefsvm, stand_in):
    model = a_model(parse_objective("recall=0.9"), test=MEASURES)
    model["operating_point"] = {
        "objective": parse_objective("precision=0.95"),
        "threshold": 0.5,
        "status": "preference_unmet",
        "status_reason": "The calibration rows reach only precision 90%.",
        "calibration": MEASURES | {"n": 41},
        "created_at": "2026-11-01T12:30:00Z",
    }
    stand_in.answers["GET /models/spam"] = model
    lines = prefsvm("models", "spam").stdout.splitlines()
    assert lines[2:6] == [
        "psvm, objective precision 95%: not reached on the 41 calibration rows",
        "The calibration rows reach only precision 90%.",
        "threshold 0.5 on the score for 'yes'",
        "applied 2026-11-01 12:30; trained for recall 90%, threshold 0.25",
    ]
    assert re.match(r" +calibration +test, as trained", lines[6])
    assert re.match(r"rows +41 +40", lines[7])
    assert re.match(r"called positive +10 +10", lines[8])
    assert re.match(r"precision +0\.900", lines[9])


def test_what_auto_took_is_said_first(prefsvm, stand_in):
    judge = {"mode": "safe", "returned": "lapsvm", "log_loss": 0.4, "sharpness": 0.5, "methods": []}
    judge["sentence"] = "It is lapsvm."
    stand_in.answers["GET /models/mdl_1"] = a_model(parse_objective("f1"), judge=judge)
    assert "note: It is lapsvm." in prefsvm("models", "mdl_1").stdout


@pytest.mark.parametrize(
    ("objective", "measured"),
    [
        ("f1", "F1 +0.062"),
        ("cost=5:1", "cost of a row -0.062"),
        ("recall=0.9", "F1 minus the shortfall from the target"),
    ],
)
def test_a_model_without_the_unlabelled_rows_says_so(prefsvm, stand_in, objective, measured):
    comparison = {
        "mode": "safe",
        "returned": "no_unlabelled",
        "gain": 0.062,
        "standard_error": 0.05,
        "low": 0,
        "high": 1,
    }
    stand_in.answers["GET /models/mdl_1"] = a_model(parse_objective(objective), comparison=comparison)
    shown = prefsvm("models", "mdl_1").stdout
    assert f"note: the unlabelled rows did not help enough ({measured}" in shown
    assert "standard error 0.05): this is the same method without them (--param mode=method keeps it)" in shown
    stand_in.answers["GET /models/mdl_1"] = a_model(
        parse_objective(objective), comparison=comparison | {"returned": "method"}
    )
    assert "note:" not in prefsvm("models", "mdl_1").stdout


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        ({"detail": "no model has this id"}, "Bad: no model has this id"),
        (
            {"detail": "body.seed: too large", "errors": [{"field": "body.seed", "message": "too large"}]},
            "Bad: seed: too large",
        ),
        (
            {
                "detail": "body.seed: too large (and 1 more)",
                "errors": [{"field": "body.seed", "message": "too large"}, {"field": "body", "message": "is bad"}],
            },
            "Bad: seed: too large\n  is bad",
        ),
        ({"detail": "too few values", "line": 7}, "Bad: line 7: too few values"),
        ({"detail": "line 7 has too few values", "line": 7}, "Bad: line 7 has too few values"),
    ],
)
def test_a_problem_is_said_once(prefsvm, stand_in, problem, said):
    stand_in.answers["GET /models"] = (422, {"title": "Bad", **problem})
    assert prefsvm("models").stderr == f"prefsvm: {said}\n"


def test_options_of_an_upload(prefsvm, stand_in, table):
    stand_in.answers["POST /datasets"] = {"id": "ds_1", "columns": [], "rows": 2, "warnings": []}
    options = ("--delimiter", ";", "--missing", "NA", "--missing", "?", "--encoding", "cp1252")
    assert prefsvm("upload", table, *options).exit_code == 0
    assert b'{"delimiter": ";", "encoding": "cp1252", "missing": ["NA", "?"]}' in stand_in.bodies[0]
    assert prefsvm("upload", table).exit_code == 0
    assert b"options" not in stand_in.bodies[1]


def test_what_is_no_file_of_some_size_is_not_uploaded(prefsvm, tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    assert "write it into a file first" in prefsvm("upload", tmp_path / "pipe.csv").output


def test_a_file_name_that_is_no_utf_8_is_sent_as_well_as_it_goes(prefsvm, stand_in, table):
    odd = Path(os.fsdecode(os.fsencode(table.parent) + b"/b\xff.csv"))
    odd.write_text(table.read_text())
    stand_in.answers["POST /datasets"] = {"id": "ds_1", "columns": [], "rows": 2, "warnings": []}
    client.Connection(f"http://127.0.0.1:{stand_in.server_port}").upload(odd)
    assert 'filename="b\ufffd.csv"'.encode() in stand_in.bodies[-1]


def test_options_of_quotes_and_of_the_first_line_reach_the_upload(prefsvm, stand_in, table):
    stand_in.answers["POST /datasets"] = {"id": "ds_1", "columns": [], "rows": 2, "warnings": []}
    assert prefsvm("upload", table, "--quote", "none", "--escape", "\\", "--no-header", "--decimal", ",").exit_code == 0
    assert b'{"escape": "\\\\", "header": false, "decimal": ",", "quote": null}' in stand_in.bodies[0]


@pytest.mark.parametrize(
    ("text", "options", "rows"),
    [
        ('a,b\n"x, ""y""\nz",1\n', {}, [['x, "y"\nz', "1"]]),
        ('a,b\n"x,1\ny"z,2\n', {"quote": None}, [['"x', "1"], ['y"z', "2"]]),
        ('a,b\n"x \\"y\\"",\\N\nu\\,v,2\n', {"escape": "\\"}, [['x "y"', ""], ["u,v", "2"]]),
        ("a,b\n1,x,\n2,,\n", {}, [["1", "x"], ["2", ""]]),
        ("a,b,\n1,x,\n", {}, [["1", "x"]]),
        (" a ;b\n1;x\n", {}, [["1", "x"]]),
    ],
)
def test_rows_are_those_of_an_upload(text, options, rows):
    read = CsvRows(io.StringIO(text, newline=""), CsvStyle(**options), {"a": "text", "b": "text"})
    assert read.header == ["a", "b"]
    assert [row for piece in read.pieces() for row in piece.rows] == rows


def test_lines_whose_breaks_are_escaped_count_as_in_an_upload():
    text = "a,b\nx\\\ny,1\nz\\nz,2\nx\\\r\ny,3\nx,4\n"
    read = CsvRows(io.StringIO(text, newline=""), CsvStyle(escape="\\"), {"a": "text", "b": "text"})
    assert [line for piece in read.pieces() for line in piece.lines] == [2, 4, 5, 7]


def test_a_first_line_of_values_is_a_row_where_the_model_has_no_such_names():
    text = "3.25,-1,yes\n" + "1.5,-2,no\n4.5,2,yes\n" * 5
    read = CsvRows(io.StringIO(text), CsvStyle(), {"f0": "number", "f1": "number"})
    assert (read.header, len(next(read.pieces()).rows)) == (["f0", "f1", "f2"], 11)
    assert "--header" in read.warnings[0]
    named = CsvRows(io.StringIO(text), CsvStyle(header=True), {})
    assert (named.header, len(next(named.pieces()).rows)) == (["3.25", "-1", "yes"], 10)


def test_a_quote_that_does_not_close_a_value_names_its_line():
    with pytest.raises(client.ClientError, match=r"line 2: .*--quote none"):
        list(CsvRows(io.StringIO('a,b\n"x,1\ny"z,2\n'), CsvStyle(), {"a": "text"}).pieces())


def test_a_lone_quote_is_read_as_uploads_read_it(tmp_path):
    file = tmp_path / "texts.csv"
    lines = [f"text {i},{i % 2}" for i in range(40)]
    lines[5] = '"lone,1'
    file.write_text("\n".join(["a,b", *lines]))
    assert lone_quote(file, "utf-8-sig", CsvStyle()) == 7
    assert lone_quote(file, "utf-8-sig", CsvStyle(quote='"')) is None
    lines[6] = "one,more,1"  # without quotes no row either
    file.write_text("\n".join(["a,b", *lines]))
    assert lone_quote(file, "utf-8-sig", CsvStyle()) is None
    file.write_text('a,b\n"x, ""y""\nz",1\n')
    assert lone_quote(file, "utf-8-sig", CsvStyle()) is None


def test_two_columns_of_one_name_make_no_rows(prefsvm, stand_in, tmp_path):
    file = tmp_path / "twice.csv"
    file.write_text("age,job,age,label\n39,clerk,40,ham\n")
    for command in (("predict", "mdl_1", file), ("feedback", "add", "mdl_1", file)):
        done = prefsvm(*command)
        assert done.exit_code == 1
        assert "have the same name 'age'" in done.output


@pytest.mark.parametrize(
    ("name", "given", "delimiter"), [("a.csv", (";",), ";"), ("a.csv", ("\\t",), "\t"), ("a.tsv", (), "\t")]
)
def test_predictions_of_other_delimiters_with_missing_values_and_a_probability(
    prefsvm, stand_in, tmp_path, name, given, delimiter
):
    stand_in.answers["POST /predict"] = predicts(0.75)
    source = tmp_path / name
    source.write_text(f"a{delimiter}b\n1{delimiter}NA\n")
    done = prefsvm("predict", "mdl_1", source, "--missing", "NA", *(("--delimiter", *given) if given else ()))
    assert done.stdout.replace(delimiter, ",") == (
        "a,b,prefsvm_label,prefsvm_score,prefsvm_probability\n1,NA,yes,0.5,0.75\n"
    )
    assert json.loads(stand_in.bodies[-1])["rows"] == [{"a": 1, "b": None}]
    assert prefsvm("predict", "mdl_1", source, "--delimiter", "ab").exit_code == 2


def test_train_says_what_columns_are_and_what_becomes_of_missing_values(prefsvm, stand_in):
    stand_in.answers["POST /train"] = {"id": "job_1", "warnings": ["3 different labels"]}
    asked = ("--kind", "zip=category", "--kind", "note=text", "--missing-values", "drop", "--text", "words=2")
    said = prefsvm("train", "ds_1", "--target", "y", "--objective", "f1", "--exclude", "id", *asked)
    assert (said.exit_code, said.stdout, said.stderr) == (0, "job_1\n", "note: 3 different labels\n")
    assert json.loads(stand_in.bodies[-1])["features"] == {
        "include": None,
        "exclude": ["id"],
        "kinds": {"zip": "category", "note": "text"},
        "missing": "drop",
        "text": {"words": 2},
    }
    assert prefsvm("train", "ds_1", "--target", "y", "--objective", "f1", "--kind", "zip").exit_code == 2


def test_train_takes_labels_from_another_file(prefsvm, stand_in, table):
    stand_in.answers["POST /train"] = {"id": "job_1", "warnings": []}
    stand_in.answers["GET /datasets?limit=100"] = {"items": [], "next_cursor": None}
    stand_in.answers["POST /datasets"] = {"id": "ds_2", "columns": [], "rows": 2, "warnings": []}
    asked = ("--target", "y", "--objective", "f1", "--key", "id", "--keep-labels", "9")
    said = prefsvm("train", "ds_1", *asked, "--labels-from", "ds_3", "--labels-key", "patient")
    assert (said.exit_code, said.stdout) == (0, "job_1\n"), said.output
    body = json.loads(stand_in.bodies[-1])
    assert (body["dataset"], body["key"]) == ("ds_1", "id")
    assert body["labels"] == {"dataset": "ds_3", "key": "patient", "keep": 9}
    said = prefsvm("train", "ds_1", *asked, "--labels-from", table, "--delimiter", ";")
    assert said.exit_code == 2, "how a file is read is said with the data"
    said = prefsvm("train", "ds_1", *asked, "--labels-from", table)
    assert said.exit_code == 0, said.output
    assert json.loads(stand_in.bodies[-1])["labels"] == {"dataset": "ds_2", "keep": 9}
    assert "no file nothing.csv" in prefsvm("train", "ds_1", *asked, "--labels-from", "nothing.csv").output


def test_a_mail_is_predicted_as_it_came_in(prefsvm, stand_in, tmp_path):
    mail = tmp_path / "one.EML"
    mail.write_bytes(b"Subject: \xe9\r\n\r\nhello\r\n")
    decided = {"label": "spam", "score": 0.5, "probability": None}
    stand_in.answers["POST /predict?model=spam%20filter"] = {"predictions": [decided], "warnings": ["odd"]}
    said = prefsvm("predict", "spam filter", mail)
    assert (said.exit_code, said.stdout, said.stderr) == (0, "spam 0.5\n", "note: odd\n")
    assert stand_in.bodies[-1] == mail.read_bytes()


def test_texts_are_predicted_from_the_command_line(prefsvm, stand_in, table, tmp_path):
    decided = [{"label": "no", "score": -0.5, "probability": 0.25}, {"label": "yes", "score": 2.0, "probability": 0.75}]
    stand_in.answers["POST /predict"] = {"predictions": decided, "warnings": ["odd"]}
    said = prefsvm("predict", "mdl_1", "--text", "one, two", "--text", "")
    assert (said.exit_code, said.stdout, said.stderr) == (0, "no -0.5 0.25\nyes 2.0 0.75\n", "note: odd\n")
    assert json.loads(stand_in.bodies[-1]) == {"model": "mdl_1", "texts": ["one, two", ""]}
    assert prefsvm("predict", "mdl_1", "--text", "one", "--out", tmp_path / "out").exit_code == 0
    assert (tmp_path / "out").read_text() == "no -0.5 0.25\nyes 2.0 0.75\n"
    for wrong in ([], [table, "--text", "one"]):
        said = prefsvm("predict", "mdl_1", *wrong)
        assert (said.exit_code, "either a file, or --text" in said.stderr) == (2, True), said.output


def test_texts_are_predicted_from_python(stand_in: StandIn) -> None:
    stand_in.answers["POST /predict"] = {"predictions": [{"label": "no", "score": -0.5}], "warnings": []}
    with Client(f"http://127.0.0.1:{stand_in.server_port}", "key") as service:
        assert service.predict("sms", ["win a prize"])[0].label == "no"
        assert json.loads(stand_in.bodies[-1]) == {"model": "sms", "texts": ["win a prize"]}
        with pytest.raises(TypeError, match="to predict, a list of texts"):
            service.predict("sms", "win a prize")
        with pytest.raises(TypeError, match=r"rows\[1\] is a dict, and the first one a text"):
            service.predict("sms", ["win", {"a": 1}])
        with pytest.raises(TypeError, match=r"rows\[1\] is a str; expected a dictionary"):
            service.predict("sms", [{"a": 1}, "win"])
        assert service.predict("sms", []) == []


def test_a_batch_of_a_file_uploads_it_once(prefsvm, stand_in, table):
    stand_in.answers["GET /datasets?limit=100"] = {"items": [], "next_cursor": None}
    stand_in.answers["POST /datasets"] = {"id": "ds_2", "rows": 2, "warnings": []}
    stand_in.answers["POST /batches"] = {"id": "job_1"}
    said = prefsvm("batch", "mdl_1", table)
    assert (said.exit_code, said.stdout) == (0, "job_1\n"), said.output
    assert json.loads(stand_in.bodies[-1]) == {"model": "mdl_1", "dataset": "ds_2", "format": "csv"}
    assert "there is no file nothing.csv" in prefsvm("batch", "mdl_1", "nothing.csv").stderr
    assert "is a folder; one of mails can be packed: tar czf" in prefsvm("batch", "mdl_1", table.parent).stderr
    assert "there is no file mine; a data set is named by its id" in prefsvm("batch", "mdl_1", "mine").stderr
    assert "there is no file mine; a text is given by --text" in prefsvm("predict", "mdl_1", "mine").stderr


@pytest.mark.parametrize(("kind", "listing"), [("model", "models"), ("alias", "aliases"), ("feedback", "feedback")])
def test_what_is_not_there_is_looked_for_in_a_list(prefsvm, stand_in, kind, listing):
    problem = {"type": f"urn:prefsvm:problem:{kind}-not-found", "title": "No such thing", "detail": "it is not there"}
    stand_in.answers["GET /aliases/mine?limit=20"] = (404, problem)
    said = prefsvm("aliases", "mine")
    assert (said.exit_code, said.stderr.strip()) == (
        1,
        f"prefsvm: No such thing: it is not there; prefsvm {listing} lists what there is",
    )


def test_predict_sends_what_the_columns_of_the_model_are(prefsvm, stand_in, tmp_path):
    stand_in.answers["GET /models/mdl_1"] = {
        "columns": [
            {"name": "zip", "kind": "category"},
            {"name": "age", "kind": "number"},
            {"name": "note", "kind": "text"},
        ]
    }
    stand_in.answers["POST /predict"] = predicts()
    source = tmp_path / "in.csv"
    source.write_text(f"zip,age,note,extra\n10,39,{'long ' * 40_000},7\n")
    assert prefsvm("predict", "mdl_1", source).exit_code == 0
    assert json.loads(stand_in.bodies[-1])["rows"] == [{"zip": "10", "age": 39, "note": "long " * 40_000, "extra": 7}]


def test_the_help_names_the_algorithms_and_formats():
    shown = CliRunner().invoke(app, ["train", "--help"], env={"COLUMNS": "200"}).stdout
    words = set(re.findall(r"[\w-]+", shown))
    assert words >= {*ALGORITHMS, *FORMATS}


@pytest.mark.parametrize("command", ["serve", "upload", "train", "jobs", "models", "predict", "example"])
def test_the_help_has_no_holes(command):
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    assert not re.search(r" \.\s", shown.stdout)


def test_the_bar_of_a_failed_job_is_not_full(prefsvm, stand_in):
    stand_in.answers["POST /train"] = {"id": "job_1", "status": "queued", "warnings": []}
    stand_in.answers["GET /jobs/job_1"] = {
        "id": "job_1",
        "status": "failed",
        "progress": 0.3,
        "phase": "training",
        "error": {"code": "out_of_memory", "message": "there was not enough memory"},
    }
    failed = prefsvm("train", "ds_1", "--target", "y", "--objective", "f1", "--wait")
    assert failed.exit_code == 1
    assert "the job ended as failed: there was not enough memory" in failed.stderr
    assert " 30 %" in failed.stderr
    assert "100 %" not in failed.stderr


def busy(status: int, kind: str, seconds: str = "0") -> tuple[Any, ...]:
    problem = {"type": f"urn:prefsvm:problem:{kind}", "title": "Busy", "detail": "not now"}
    return status, problem, {"Retry-After": seconds}


def test_who_is_turned_away_comes_again(prefsvm, stand_in, table):
    stand_in.answers["GET /jobs"] = [busy(503, "away"), busy(429, "too-many-requests"), {"items": []}]
    assert prefsvm("jobs").exit_code == 0
    stand_in.answers["POST /predict"] = [busy(429, "too-many-requests"), predicts()({"rows": [{}, {}]})]
    assert prefsvm("predict", "mdl_1", table).exit_code == 0


def test_events_are_followed_to_the_last_one(prefsvm, stand_in, monkeypatch):
    """A stream that ends before it is taken up again: the service was stopped, or wants to see the key again."""
    monkeypatch.setattr(client.time, "sleep", lambda _: None)

    def stream(number: int, kind: str) -> bytes:
        event = {"id": number, "kind": kind, "data": {}, "created_at": "2026-11-01T12:00:00Z"}
        return f"retry: 1\n\nid: {number}\nevent: {kind}\ndata: {json.dumps(event)}\n\n".encode()

    path = "GET /jobs/job_1/events"
    stand_in.answers[path] = [(200, stream(1, "queued")), (200, b""), busy(503, "away"), (200, stream(2, "finished"))]
    done = prefsvm("follow", "job_1")
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["queued", "finished"]
    stand_in.answers[path] = [(200, stream(1, "queued")), (204, b"")]
    assert prefsvm("follow", "job_1").exit_code == 0
    stand_in.answers[path] = 200, b""
    assert "the events end before the job does" in prefsvm("follow", "job_1").stderr


def test_what_may_have_been_begun_is_not_done_twice(prefsvm, stand_in, monkeypatch):
    """Nor does anybody wait for longer than a minute."""
    stand_in.answers["POST /jobs/job_1/retry"] = [busy(503, "away", "7"), busy(429, "queue-full", "30")]
    for seconds in (7, 30):
        failed = prefsvm("retry", "job_1")
        assert (failed.exit_code, failed.stderr) == (1, f"prefsvm: Busy: not now (try again in {seconds} s)\n")
    stand_in.answers["GET /jobs"] = [busy(503, "away", "61")]
    assert "try again in 61 s" in prefsvm("jobs").stderr


def test_wrong_addresses_and_keys(prefsvm, stand_in):
    for url in ("http://127.0.0.1:1", "http://", "ftp://127.0.0.1", "127.0.0.1:8000"):
        failed = prefsvm("jobs", "--url", url)
        assert (failed.exit_code, failed.stderr[:9]) == (1, "prefsvm: "), failed.output
        assert url in failed.stderr
    stand_in.answers["GET /jobs"] = 401, {}
    assert "asks for an API key; set PREFSVM_API_KEY to one that is neither revoked" in prefsvm("jobs").stderr


def test_vectors_are_lists_tuples_or_arrays_and_many_of_them_go_in_several_requests(stand_in, monkeypatch):
    def answer(body):
        decided = {"label": "yes", "score": 0.5, "probability": None}
        return {"predictions": [decided] * len(body["rows"]), "warnings": []}

    stand_in.answers["POST /predict"] = answer
    monkeypatch.setattr("prefsvm.client.PREDICT_NUMBERS", 50)
    with Client(f"http://127.0.0.1:{stand_in.server_port}") as service:
        kinds = [[0.5, 2], (0.5, 2), np.array([0.5, 2], dtype=np.float32)]
        assert len(service.predict("mdl_1", [{"vec": vector} for vector in kinds])) == 3
        assert json.loads(stand_in.bodies[-1])["rows"] == [{"vec": [0.5, 2]}] * 3
        asked = len(stand_in.bodies)
        assert len(service.predict("mdl_1", ({"vec": np.zeros(10)} for _ in range(12)))) == 12
        assert [len(json.loads(body)["rows"]) for body in stand_in.bodies[asked:]] == [5, 5, 2]
        for bad in ([0.5, float("nan")], [0.5, None], [0.5, "x"], [[0.5], [2]], np.array([0.5, np.inf])):
            with pytest.raises(ValueError, match=r"rows\[1\], column 'vec'"):
                service.predict("mdl_1", [{"vec": [0.5, 2]}, {"vec": bad}])
        with pytest.raises(TypeError, match="a vector"):
            service.predict("mdl_1", [{"vec": np.zeros((2, 2))}])

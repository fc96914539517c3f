"""What commands print: for people in a terminal, and for programs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli.looking import answers, write_rows
from service.cli.main import _write_decisions, app
from service.cli.models import feedback_words
from service.cli.queue import _print
from solver.report import FeedbackReport


@pytest.mark.parametrize("terminal", [True, False])
def test_a_decision_is_told_in_words_to_people_only(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    decided = {"label": "spam", "score": -0.4281891223754258, "probability": 0.18751499587953735}
    answer = {"predictions": [decided, {"label": "ham", "score": 2.0, "probability": None}], "warnings": []}
    _write_decisions(None, answer, None)
    words = "spam  score -0.428  probability 0.19\nham  score 2\n"
    assert capsys.readouterr().out == (words if terminal else "spam -0.4281891223754258 0.18751499587953735\nham 2.0\n")


def test_a_form_that_is_written_as_an_option_is_led_to_the_file() -> None:
    said = CliRunner().invoke(app, ["curve", "mdl_1", "--svg", "f"], env={"COLUMNS": "200"})
    assert said.exit_code == 2
    assert "There is no option --svg: --out FILE.svg" in said.output


@pytest.mark.parametrize("ending", [".ods", ".pq", ".ndjson", ".xlsx", ".gz"])
def test_files_whose_rows_predict_does_not_read_are_led_to_a_batch(ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"rows{ending}"
    file.write_bytes(b"PK")
    said = CliRunner().invoke(app, ["predict", "mdl_1", str(file)], env={"COLUMNS": "400"})
    assert said.exit_code == 2
    assert f"not {ending}: prefsvm batch mdl_1" in said.output


def test_columns_of_a_row_that_is_looked_at_have_names_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    content = {"row": 1.5, "score": 2.5, "score_": 3.5, "text": "=1"}
    with file.open("w", newline="") as sink:
        write_rows([{"row": 7, "key": None, "score": 0.5, "content": content}], ("score",), sink)
    assert file.read_text().splitlines() == ["row,answer,score,row_,score_,score__,text", "7,,0.5,1.5,2.5,3.5,'=1"]
    file.write_text(file.read_text().replace("7,,", "7,y,"))
    assert [(each.row, each.label) for [each] in answers(file, ("ham", "spam"), "prefsvm queue")] == [(7, "spam")]


def test_a_queue_has_a_line_a_row_at_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = "call now to claim your prize of a thousand pounds before it is too late, really"
    reasons = (
        "drawn at random: sent as such",
        "the model is least sure of rows like it",
        "it is unlike any row",
        "it is close to a row",
    )
    items = [
        {
            **{"row": n, "key": None, "label": "spam", "probability": 0.625, "content": {"text": f"{n} {text}"}},
            **{"drawn": "chosen" if n else "random", "reason": reason},
        }
        for n, reason in enumerate(reasons)
    ]
    model = {"report": {"classes": {"positive": "spam"}}, "threshold_probability": 0.61}
    _print({"purpose": "improve", "items": items}, model)
    title, head, *lines = capsys.readouterr().out.splitlines()
    assert title == "rows to label next; 'spam' is said from a probability of 0.61 on"
    assert head.split() == ["holds", "called", "probability", "why", "row"]
    for n, word in enumerate(("random", "unsure", "new", "close")):
        assert lines[n].startswith(f"{n} call now to claim your prize")
        assert lines[n].split()[-4:] == ["spam", "0.62", word, str(n)]
        assert lines[4 + n].startswith(f"{word}: ")
    assert max(map(len, lines)) <= 80
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    _print({"purpose": "suspicious", "items": [items[0] | {"label": "ham"}]}, model)
    assert "ham    0.38" in capsys.readouterr().out
    _print({"purpose": "improve", "items": []}, model)


def test_feedback_tells_first_labels_from_changed_ones() -> None:
    told = FeedbackReport(
        rows=40, added=0, relabelled=40, newly_labelled=38, confirmed=0, superseded=0, held_out=0, refused=[]
    )
    assert feedback_words(told).startswith("feedback: 40 rows sent: 38 got a first label, 2 another label, 0 had it ")
    assert "40 got a label" in feedback_words(replace(told, newly_labelled=None))

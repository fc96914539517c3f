"""What commands print: for people in a terminal, and for programs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli.looking import answers, write_rows
from service.cli.main import _write_decisions, app


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


def test_columns_of_a_row_that_is_looked_at_have_names_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    content = {"row": 1.5, "score": 2.5, "score_": 3.5, "text": "=1"}
    with file.open("w", newline="") as sink:
        write_rows([{"row": 7, "key": None, "score": 0.5, "content": content}], ("score",), sink)
    assert file.read_text().splitlines() == ["row,answer,score,row_,score_,score__,text", "7,,0.5,1.5,2.5,3.5,'=1"]
    file.write_text(file.read_text().replace("7,,", "7,y,"))
    assert [(each.row, each.label) for [each] in answers(file, ("ham", "spam"), "prefsvm queue")] == [(7, "spam")]

"""What commands print: for people in a terminal, and for programs."""

from __future__ import annotations

import sys

import pytest
from typer.testing import CliRunner

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

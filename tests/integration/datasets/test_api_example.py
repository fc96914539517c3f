"""The example: its file, and what its rows are in truth, of which no other data set has anything."""

from __future__ import annotations

import hashlib
from pathlib import Path

import httpx
from typer.testing import CliRunner

from service.cli.main import app
from service.datasets.example import ROWS, truth_of
from service.datasets.schemas import Dataset


def test_what_its_rows_are_is_told_with_the_file(client: httpx.Client, tmp_path: Path) -> None:
    file = client.get("/example/tumours.csv")
    assert file.headers["content-type"].startswith("text/csv")
    told = client.get("/example").json()
    assert told["sha256"] == hashlib.sha256(file.content).hexdigest()
    made = client.post("/datasets", files={"file": ("mine.csv", file.content)}).raise_for_status().json()
    assert (made["sha256"], made["rows"]) == (told["sha256"], ROWS)
    given = [line.rpartition(",")[2] for line in file.text.splitlines()[1:]]
    assert file.text.splitlines()[0].endswith(f",{told['target']}")
    assert len(told["truth"]) == len(given)
    assert {truth for label, truth in zip(given, told["truth"], strict=True) if label != truth and label} == set()
    assert sum(label == "" for label in given) == ROWS - 39
    assert set(told["truth"]) == {told["positive"], "benign"}
    assert truth_of(Dataset.model_validate(made)) == told["truth"]
    other = client.post("/datasets", files={"file": ("tumours.csv", file.content + b"\n")}).raise_for_status().json()
    assert other["rows"] == ROWS
    assert truth_of(Dataset.model_validate(other)) is None
    written = [str(tmp_path / name) for name in ("tumours.csv", "test.json", "truth.csv")]
    done = CliRunner().invoke(app, ["example", *written[:2], "--truth", written[2]])
    assert done.exit_code == 0, done.output
    assert Path(written[0]).read_bytes() == file.content
    lines = Path(written[2]).read_text().splitlines()
    assert lines == ["row,diagnosis", *(f"{row},{label}" for row, label in enumerate(told["truth"]))]

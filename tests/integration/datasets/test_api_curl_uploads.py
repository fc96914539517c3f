"""What a new user of curl sends instead of a file: each is answered with the cure in one sentence. By the real curl."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from api_support import CSV

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
TEXT_CSV = ("-H", "Content-Type: text/csv")


@pytest.fixture
def curl(client, tmp_path):
    (tmp_path / "x.csv").write_bytes(CSV)

    def ask(path: str, *arguments: str) -> dict[str, Any]:
        done = subprocess.run(
            ["curl", "-s", "-q", f"{client.base_url}{path}", *arguments],
            cwd=tmp_path,
            capture_output=True,
            timeout=30,
            check=True,
        )
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    return ask


@pytest.mark.parametrize(
    ("path", "arguments", "status", "cure"),
    [
        ("/datasets", ("-d", "@x.csv"), 415, "-F file=@FILE"),
        ("/datasets", ("-d", "@x.csv", *TEXT_CSV), 422, "--data-binary @FILE"),
        ("/datasets?options=%7B%22header%22%3Afalse%7D", ("-d", "@x.csv", *TEXT_CSV), 422, "--data-binary @FILE"),
        ("/datasets", ("-T", "x.csv"), 405, "-F file=@FILE"),
        ("/datasets/", ("-T", "x.csv"), 405, "-F file=@FILE"),
        ("/datasets", ("-F", "file=x.csv"), 422, "-F file=@FILE"),
        ("/datasets", ("-F", "file=x.csv", "-F", "format=csv"), 422, "-F file=@FILE"),
        ("/datasets?header=false", ("-F", "file=@x.csv"), 422, "JSON object in `options`"),
        ("/datasets?name=a", ("-F", "file=@x.csv", "-F", "name=b"), 422, "send it once"),
    ],
)
def test_the_cure_is_named(curl, path, arguments, status, cure):
    answer = curl(path, *arguments)
    assert answer["status"] == status, answer
    assert cure in answer["detail"]


def test_what_is_right_is_taken(curl, tmp_path: Path):
    """A part without a name of a file may hold a table, and the query may speak of a form."""
    for path, arguments in {
        "/datasets?name=a.csv": ("--data-binary", "@x.csv", *TEXT_CSV),
        "/datasets?name=b.csv&format=csv": ("-F", "file=<x.csv"),
        "/datasets?format=csv&options=%7B%22header%22%3Afalse%7D": ("-F", "file=@x.csv", "-F", "name=c"),
    }.items():
        answer = curl(path, *arguments)
        assert "id" in answer, answer
    assert (answer["name"], answer["rows"], answer["options"]) == ("c", 61, {"header": False})
    (tmp_path / "row.jsonl").write_text('{"a": 1}')
    assert curl("/datasets?format=jsonl", "-F", "file=<row.jsonl")["rows"] == 1

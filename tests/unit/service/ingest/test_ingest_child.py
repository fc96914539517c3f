"""The child process: its limits, its crashes, and its end."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from service.ingest import run
from service.ingest.errors import IngestError
from service.ingest.profile import ColumnProfile
from service.ingest.run import IngestResult, ingest
from service.settings import Settings

MIB = 1 << 20


def read(folder: Path, data: bytes, format: str, options: dict[str, Any] | None = None, **changes: Any) -> IngestResult:
    path = folder / "upload"
    path.write_bytes(data)
    return asyncio.run(ingest(Settings(**changes), path, format, options or {}, output=folder / "out"))


def refusal(folder: Path, data: bytes, format: str, **changes: Any) -> IngestError:
    with pytest.raises(IngestError) as caught:
        read(folder, data, format, **changes)
    assert {each.name for each in folder.iterdir()} == {"upload"}, "nothing stays behind"
    return caught.value


def test_a_table(tmp_path: Path) -> None:
    result = read(tmp_path, b"a,b\n1,x\n2,y\n", "csv")
    assert (result.layout, result.rows, result.warnings) == ("table", 2, [])
    assert result.columns[0] == {
        "name": "a", "kind": "number", "missing": 0, "distinct": 2, "min": 1.0, "max": 2.0, "constant": False,
        "values": {"1": 1, "2": 1},
    }  # fmt: skip
    assert pq.read_table(tmp_path / "out").to_pydict() == {"a": [1, 2], "b": ["x", "y"]}
    assert result.cpu_seconds > 0
    assert result.peak_memory_bytes < 256 * MIB
    assert {each.name for each in tmp_path.iterdir()} == {"upload", "out"}
    json.dumps(result.columns, allow_nan=False)


def test_all_that_a_profile_may_hold_comes_through() -> None:
    """The API reads the answer by a list of its own: a field that is missing there makes no answer of a good one."""
    assert set(run._Column.model_fields) == {field.name for field in dataclasses.fields(ColumnProfile)}


def test_refusals_come_through_whole(tmp_path: Path) -> None:
    error = refusal(tmp_path, b"a,b\n1,x\nsecret\n", "csv")
    assert (error.code, error.line, error.column) == ("ragged", 3, None)
    error = refusal(tmp_path, b"x,x\n1,x\n", "csv")
    assert (error.code, error.line, error.column) == ("bad_column_name", 1, "x")


def test_options_are_checked_without_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    path = tmp_path / "upload"
    path.write_bytes(b"a\n1\n")
    for format, options in (
        ("xlsb", {}),
        ("csv", {"colour": 1}),
        ("csv", {"delimiter": "ab"}),
        ("csv", {"delimiter": '"'}),
        ("csv", {"delimiter": "\n"}),
        ("csv", {"delimiter": "é"}),
        ("csv", {"delimiter": 7}),
        ("csv", {"header": 1}),
        ("csv", {"encoding": "zlib"}),
        ("csv", {"encoding": "rot13"}),
        ("csv", {"encoding": "a\0b"}),
        ("csv", {"encoding": None}),
        ("csv", {"missing": "NA"}),
        ("csv", {"missing": ["a\nb"]}),
        ("csv", {"missing": ["\ud800"]}),
        ("csv", {"missing": ["x"] * 101}),
        ("csv", {"columns": {"a": "colour"}}),
        ("csv", {"decimal": "x"}),
        ("csv", {"columns": ["a"]}),
        ("svmlight", {"zero_based": 0}),
        ("svmlight", {"delimiter": ","}),
        ("npz", {"header": True}),
    ):
        with pytest.raises(IngestError) as caught:
            asyncio.run(ingest(Settings(), path, format, options, output=tmp_path / "out"))
        assert caught.value.code == "bad_option", options


def test_the_child_gets_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFSVM_DATABASE_URL", "postgresql://u:secret@db/x")
    script = (
        "import json, os; leaks = [name for name, value in os.environ.items() if 'secret' in value];"
        "print(json.dumps({'error': {'code': 'malformed', 'message': f'{leaks}'}}))"
    )
    monkeypatch.setattr(run, "CHILD", ("-c", script))
    assert refusal(tmp_path, b"", "csv").message == "[]"


def test_time_limit(tmp_path: Path) -> None:
    data = b"a,b\n" + b"1,x\n" * 2_000_000
    before = children()
    started = time.monotonic()
    error = refusal(tmp_path, data, "csv", ingest_seconds=0.05)
    assert error.code == "timeout"
    assert time.monotonic() - started < 30
    assert children() == before


def test_memory_limit(tmp_path: Path) -> None:
    data = b"a,b\n" + b"1,x\n" * 2_000_000
    for mib in (64, 250):  # too little to load the libraries, and too little for them to work with
        error = refusal(tmp_path, data, "csv", ingest_memory_bytes=mib * MIB)
        assert error.code in ("out_of_memory", "crashed"), mib
        assert "memory" in error.message


def test_cancelling_ends_the_child(tmp_path: Path) -> None:
    path = tmp_path / "upload"
    os.mkfifo(path)  # nobody writes to it, so reading it never ends
    before = children()

    async def cancel() -> None:
        task = asyncio.create_task(ingest(Settings(), path, "csv", {}, output=tmp_path / "out"))
        while children() == before:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert children() == before
    assert {each.name for each in tmp_path.iterdir()} == {"upload"}


def test_the_child_dies_with_its_parent(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "upload")  # nobody writes to it, so reading it never ends
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import asyncio, pathlib, sys;"
            "from service.settings import Settings; from service.ingest.run import ingest;"
            "folder = pathlib.Path(sys.argv[1]);"
            "asyncio.run(ingest(Settings(), folder / 'upload', 'csv', {}, output=folder / 'out'))",
            str(tmp_path),
        ]
    )
    try:
        deadline = time.monotonic() + 120
        while (
            not (children := psutil.Process(parent.pid).children())
            or "service.ingest.child" not in children[0].cmdline()
        ):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(0.5)  # until the child has asked for the signal
    finally:
        parent.kill()
        parent.wait()
    (child,) = children
    child.wait(timeout=40)
    assert not child.is_running()


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("import os; os.abort()", "crashed"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGXCPU)", "timeout"),
        ("raise SystemExit(3)", "crashed"),
        ("pass", "crashed"),
        ("print('{')", "crashed"),
        ("print('{}')", "crashed"),
        ("print('x' * 70_000_000)", "crashed"),
        ('print(\'{"result": {"layout": "table", "rows": "many"}}\')', "crashed"),
        ('print(\'{"error": {"code": "made_up", "message": "x"}}\')', "crashed"),
    ],
)
def test_nothing_is_believed_of_a_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, code: str
) -> None:
    monkeypatch.setattr(run, "CHILD", ("-c", script))
    assert refusal(tmp_path, b"a\n1\n", "csv").code == code


def test_a_child_that_somebody_kills_says_nothing_about_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "CHILD", ("-c", "import os; os.kill(os.getpid(), 9)"))
    with pytest.raises(run.ReadingChildKilledError):
        read(tmp_path, b"a\n1\n", "csv")
    assert {each.name for each in tmp_path.iterdir()} == {"upload"}, "nothing stays behind"


def test_the_limit_of_processor_time_does_not_look_like_a_kill_from_outside() -> None:
    code = (
        "from service.ingest.child import _limit;"
        "_limit({'seconds': 0, 'memory_bytes': 1 << 32, 'limits': {'max_bytes': 1}})\nwhile True: pass"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=120)
    assert done.returncode == -signal.SIGXCPU


def test_start_of_the_child_is_quick(tmp_path: Path) -> None:
    """Most of what a small upload costs is loading; nothing of the web or the database is loaded."""
    code = (
        "import sys; from pathlib import Path; import service.ingest.child;"
        "from service.ingest.limits import ReadingLimits;"
        "from service.ingest.reader import read_upload;"
        "read_upload(Path(sys.argv[1]), 'csv', {}, ReadingLimits(10**9, 10, 10, 10, 10**3, 10**5), Path(sys.argv[2]));"
        "print(*sys.modules)"
    )
    (tmp_path / "in").write_bytes(b"a\n1\n")
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "in", tmp_path / "out"], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {
        "pydantic",
        "fastapi",
        "sqlalchemy",
        "psycopg",
        "scipy",
        "pandas",
        "sklearn",
        "numba",
        "pydoc",
    }
    assert "service.blobs.store" not in done.stdout.split()
    # of the solver, only how values are written, what texts are, what may be chosen, and how memory is measured
    assert {name for name in done.stdout.split() if name.startswith("solver.")} == {
        "solver.choices", "solver.kinds", "solver.labels", "solver.peak_memory", "solver.reading",
        "solver.single_bytes",
    }  # fmt: skip
    assert read(tmp_path, b"a\n1\n", "csv").cpu_seconds < 4


def children() -> set[int]:
    """Living children of this process; the servers of other tests may be among them."""
    return {child.pid for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE}

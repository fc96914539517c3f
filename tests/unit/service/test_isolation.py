"""Processes that read what strangers have sent have no way to the network, where the kernel lets us take it."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.ingest import run
from service.ingest.errors import IngestError
from service.ingest.run import ingest
from service.settings import Settings
from worker.children import ChildFactory

REACH = """
import encodings.idna, json, os, socket
def reached():
    try:
        socket.create_connection(("127.0.0.1", PORT), timeout=5).close()
        return True
    except OSError:
        return False
"""
LEAVE = """
import ctypes
from pathlib import Path
from service.isolation import leave_network
if USER:
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as a program that was started by that user
before = reached()
if not leave_network():
    raise SystemExit(4)
made = Path(FOLDER, str(os.getpid()))
made.touch()
capabilities = [line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")]
print(json.dumps([before, reached(), os.getuid(), made.stat().st_uid, capabilities[0] == "0" * 16]))
"""


@pytest.fixture
def port() -> Iterator[int]:
    """A port of this machine that takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def leave(port: int, user: int, folder: Path) -> list[object]:
    """Let a process leave the network, and return whether it could reach the port before and afterwards, and more."""
    script = REACH.replace("PORT", str(port)) + LEAVE.replace("USER", str(user)).replace("FOLDER", repr(str(folder)))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode == 4:
        pytest.skip("the kernel, or the container, does not let this user make namespaces")
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def test_a_process_leaves_the_network(port: int, tmp_path: Path) -> None:
    before, after, user, owner, _ = leave(port, 0, tmp_path)
    assert (before, after) == (True, False)
    assert user == owner == os.geteuid()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_so_does_one_of_an_ordinary_user(port: int, short_dir: Path) -> None:
    user = 65534
    os.chown(short_dir, user, user)
    # Files are still those of the user; and whoever is nobody outside is nobody of power inside.
    assert leave(port, user, short_dir) == [True, False, user, user, True]


HIDE = """
import ctypes, os, subprocess, sys
from service.isolation import hide_secrets
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as a program that was started by that user
look = ["/bin/sh", "-c", "cat /proc/$PPID/environ | tr '\\\\0' '\\\\n' | grep -c ^SECRET="]
for _ in range(2):
    print(subprocess.run(look, capture_output=True, text=True, env={}).stdout.strip())
    hide_secrets()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_children_cannot_read_the_secrets_of_their_parent() -> None:
    environment = {**os.environ, "SECRET": "4711"}
    done = subprocess.run([sys.executable, "-c", HIDE], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "0"]


def has_landlock() -> bool:
    return ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) > 0


CONFINE = """
import os, sys, threading
from pathlib import Path
from service.isolation import write_only_below
inside, outside = Path(sys.argv[1], "inside"), Path(sys.argv[1], "outside")
kept = open(outside / "open", "w")
print(write_only_below([inside]))
def tried(what):
    try:
        what()
    except OSError as error:
        return type(error).__name__
    return "done"
def thread(what):
    said = []
    one = threading.Thread(target=lambda: said.append(tried(what)))
    one.start()
    one.join()
    return said[0]
print(*(thread(what) for what in (
    lambda: (inside / "new").write_text("x"),
    lambda: (inside / "new").rename(inside / "renamed"),
    lambda: (outside / "cache.nbi").read_text(),
    lambda: Path("/dev/null").write_text("x"),
    lambda: (kept.write("x"), kept.close()),
    lambda: (outside / "cache.nbi").write_text("x"),
    lambda: os.truncate(outside / "cache.nbi", 0),
    lambda: (outside / "cache.nbi").unlink(),
    lambda: (inside / "renamed").rename(outside / "cache.nbi"),
    lambda: (outside / "folder").mkdir(),
)))
"""


def test_what_is_confined_writes_nowhere_else(tmp_path: Path) -> None:
    for name in ("inside", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside" / "cache.nbi").write_text("compiled")
    done = subprocess.run([sys.executable, "-c", CONFINE, str(tmp_path)], capture_output=True, text=True, check=True)
    confined, *said = done.stdout.split()
    assert confined == str(has_landlock())
    if not has_landlock():
        pytest.skip("this kernel, or this container, has no Landlock")
    assert said[:5] == ["done"] * 5
    assert set(said[5:]) <= {"PermissionError", "OSError"}
    assert (tmp_path / "outside" / "cache.nbi").read_text() == "compiled"


def test_jobs_of_a_worker_cannot_write_where_compiled_code_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that they are forked from writes there, before there is a job."""
    (tmp_path / "scratch").mkdir()
    runner = (
        "from contextlib import suppress\n"
        "from pathlib import Path\n"
        f"cache = Path({str(tmp_path)!r}, 'cache')\n"
        "def warm_up(tell): cache.write_text('compiled')\n"
        "def start_threads():\n"
        "    with suppress(OSError):\n"
        "        cache.write_text('changed')\n"
        "def numerics(): return cache.read_text()\n"
    )
    (tmp_path / "writing.py").write_text(runner)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for writable, found in ((None, "changed"), (tmp_path / "scratch", "compiled")):
        if writable and not has_landlock():
            pytest.skip("this kernel, or this container, has no Landlock")
        factory = ChildFactory("writing", 1, False, writable)
        child = factory.make()
        try:
            said = [child.read(30) for _ in range(2)]
            assert said[1] is not None
            assert said[1]["numerics"] == found
        finally:
            child.end()
            factory.end()


def test_whoever_starts_everything_hides_the_key_of_the_first_admin(tmp_path: Path) -> None:
    code = (
        "import ctypes, sys\n"
        "from service.cli.main import app\n"
        "from service.local.serve import LocalStack\n"
        "LocalStack.run = lambda self: print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))\n"
        f"app(['serve', '--data-dir', {str(tmp_path)!r}])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"]  # what `hide_secrets` says to the kernel


def test_the_reader_of_uploads_is_cut_off(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave(port, 0, tmp_path)  # or skip
    script = REACH.replace("PORT", str(port)) + (
        "from service.ingest import child\n"
        "def answer(request):\n"
        "    return {'error': {'code': 'malformed', 'message': str(reached())}}\n"
        "child._answer = answer\n"
        "child.main()\n"
    )
    assert said_by_the_reader(script, tmp_path, monkeypatch) == "False"


def said_by_the_reader(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have an upload read by this script, and return the error that it tells."""
    monkeypatch.setattr(run, "CHILD", ("-c", script))
    (folder / "upload").touch()
    with pytest.raises(IngestError) as said:
        asyncio.run(ingest(Settings(), folder / "upload", "csv", {}, output=folder / "out"))
    return said.value.message


def test_the_reader_of_uploads_changes_no_file_but_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_landlock():
        pytest.skip("this kernel, or this container, has no Landlock")
    script = f"""
from pathlib import Path
from service.ingest import child
def tried(path):
    try:
        path.write_text("changed")
    except OSError as error:
        return type(error).__name__
    return "done"
def answer(request):
    said = [tried(Path(request["output"])), tried(Path({str(tmp_path)!r}, "cache.nbi")), tried(Path(request["path"]))]
    return {{"error": {{"code": "malformed", "message": " ".join(said)}}}}
child._answer = answer
child.main()
"""
    (tmp_path / "cache.nbi").write_text("compiled")
    assert said_by_the_reader(script, tmp_path, monkeypatch) == "done PermissionError PermissionError"
    assert (tmp_path / "cache.nbi").read_text() == "compiled"


@pytest.mark.parametrize("online", [False, True])
def test_the_child_of_a_worker_is_cut_off(
    online: bool, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(port, 0, tmp_path)  # or skip
    runner = (
        REACH.replace("PORT", str(port))
        + "def warm_up(tell): pass\ndef start_threads(): assert reached() is ONLINE\ndef numerics(): return ''\n"
    )
    (tmp_path / "reaching.py").write_text(runner.replace("ONLINE", str(online)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    factory = ChildFactory("reaching", 1, online)
    child = factory.make()
    try:
        said = [child.read(30) for _ in range(2)]
        assert [message and message["type"] for message in said] == ["started", "ready"]
    finally:
        child.end()
        factory.end()

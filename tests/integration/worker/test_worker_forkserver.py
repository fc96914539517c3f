"""Children are forked from a process that is warm, and are the worker's own all the same."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from worker_bench import ROOT, is_over, wait_for

from worker.children import Child, ChildFactory

RUNNER = """
import os
import time
from pathlib import Path

os.register_at_fork(after_in_child=lambda: time.sleep(float(os.environ.get("PREFSVM_JOB_RUNNER_PAUSE", 0))))

def note(what):
    with Path(os.environ["PREFSVM_JOB_RUNNER_NOTE"]).open("a") as file:
        file.write(f"{what} {os.getpid()} {os.environ['OMP_NUM_THREADS']}\\n")

def warm_up(tell):
    note("warm")
    if "PREFSVM_JOB_RUNNER_COMPILES" in os.environ:
        tell(0.5)
        tell(0.75)

def start_threads():
    note("threads")

def numerics():
    return "none"
"""


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the runner writes which process it is in, and how many threads it may use there."""
    (tmp_path / "noting_runner.py").write_text(RUNNER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PREFSVM_JOB_RUNNER_NOTE", str(tmp_path / "note"))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    return tmp_path / "note"


@pytest.fixture
def make(note: Path) -> Iterator[Callable[[], Child]]:
    factory = ChildFactory("noting_runner", 1, online=False)
    made: list[Child] = []

    def make() -> Child:
        child = factory.make()
        made.append(child)
        while said(child)["type"] != "ready":
            pass
        return child

    make.factory = factory  # type: ignore[attr-defined]
    yield make
    for child in made:
        child.end()
    factory.end()


def said(child: Child) -> dict[str, Any]:
    message = child.read(20)
    assert message is not None
    return message


def server_of(make: Callable[[], Child]) -> psutil.Process:
    return psutil.Process(make.factory._server.pid)  # type: ignore[attr-defined]


def test_what_takes_long_is_done_once(make: Callable[[], Child], note: Path) -> None:
    children = [make(), make()]
    server = server_of(make)
    # On one thread, which is all that outlives a fork; each child has its own.
    assert note.read_text().splitlines() == [
        f"warm {server.pid} 1", *(f"threads {child.pid} 3" for child in children)
    ]  # fmt: skip
    for child in children:
        assert psutil.Process(child.pid).ppid() == os.getpid()
        assert os.getpgid(child.pid) == os.getsid(child.pid) == child.pid
    assert server.children() == []


def test_it_says_how_much_is_compiled(make: Callable[[], Child], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFSVM_JOB_RUNNER_COMPILES", "1")
    make()
    assert make.factory.compiled() == 0.75  # type: ignore[attr-defined]
    server = server_of(make)
    server.kill()
    wait_for(lambda: server.status() == psutil.STATUS_ZOMBIE)
    monkeypatch.delenv("PREFSVM_JOB_RUNNER_COMPILES")
    make()
    assert make.factory.compiled() == 0.0  # type: ignore[attr-defined]


def test_jobs_give_way_to_requests(make: Callable[[], Child]) -> None:
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    child = make()
    assert {process.nice() for process in (server_of(make), psutil.Process(child.pid))} == {min(19, priority + 10)}


def test_where_there_is_a_gpu_each_makes_itself_ready(
    make: Callable[[], Child], note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.children.NVIDIA_CONTROL", Path("/dev/null"))
    children = [make(), make()]
    assert note.read_text().splitlines() == [
        line for child in children for line in (f"warm {child.pid} 1", f"threads {child.pid} 3")
    ]


def test_children_outlive_what_they_were_forked_from(make: Callable[[], Child]) -> None:
    child = make()
    server = server_of(make)
    server.kill()
    wait_for(lambda: server.status() == psutil.STATUS_ZOMBIE)
    assert child.exit_status(0.2) is None
    assert make().exit_status(0.0) is None
    assert server_of(make).pid != server.pid


def test_one_that_dies_while_it_forks_leaves_nothing(
    make: Callable[[], Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who forks a child and ends comes to the worker as an orphan, too, if the fork server is not there any more."""
    monkeypatch.setenv("PREFSVM_JOB_RUNNER_PAUSE", "0.5")
    make()
    server = server_of(make)
    asked = make.factory.make()  # type: ignore[attr-defined]
    wait_for(server.children)
    server.kill()
    while said(asked)["type"] != "ready":  # it is none the worse for it
        pass
    asked.end()
    monkeypatch.delenv("PREFSVM_JOB_RUNNER_PAUSE")
    make()
    assert [each.pid for each in psutil.Process().children() if os.getpgid(each.pid) == server.pid] == []


def test_a_child_that_cannot_be_made_leaves_no_pipe(make: Callable[[], Child]) -> None:
    make()
    opened = len(os.listdir("/proc/self/fd"))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Descriptors are numbered from the lowest that is free: one is left for each try, of the four that it needs.
    for left in range(4):
        lowest = [os.open(os.devnull, os.O_RDONLY) for _ in range(left + 1)]
        for descriptor in lowest:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest[-1], limits[1]))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                make.factory.make()  # type: ignore[attr-defined]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert len(os.listdir("/proc/self/fd")) == opened


def test_how_a_child_ended_is_known_and_it_is_gone(make: Callable[[], Child]) -> None:
    children = [make(), make()]
    os.kill(children[0].pid, signal.SIGSEGV)
    assert children[0].exit_status(10) == -signal.SIGSEGV
    for child in children:
        child.end()
        assert not Path(f"/proc/{child.pid}").exists()


WORKER = """
import sys, time
from worker.children import ChildFactory
factory = ChildFactory("noting_runner", 1, online=False)
child = factory.make()
while child.read(20)["type"] != "ready":
    pass
print(child.pid, factory._server.pid, flush=True)
time.sleep(60)
"""


def test_nothing_outlives_the_worker(note: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{note.parent}"}
    worker = subprocess.Popen([sys.executable, "-P", "-c", WORKER], stdout=subprocess.PIPE, env=environment)
    assert worker.stdout is not None
    child, server = map(int, worker.stdout.readline().split())
    assert psutil.Process(child).ppid() == worker.pid
    worker.kill()
    worker.communicate()

    wait_for(lambda: is_over(child) and is_over(server), 40)

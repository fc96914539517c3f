"""Check a root file system that scripts/run_dockerfile.py built, as docker-compose.yml would run it.

Called by scripts/check_clean_root.sh as root, in namespaces of its own without a way to the outside:
``check_image.py IMAGE CONFIG SERVERS``. IMAGE is mounted read-only; SERVERS is a Debian root with Postgres, Redis and
the files of ``deploy/``. The processes run as the image's user, without capabilities, with the secrets and roles that
``deploy/`` makes, and do the main job over HTTP.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

COMMANDS = {
    "migrate": ["prefsvm", "migrate"],
    "api": ["python", "-m", "prefsvm.service.app"],
    "dispatcher": ["python", "-m", "prefsvm.service.dispatcher"],
    "worker": ["python", "-m", "prefsvm.worker.main"],
}
"""Those of docker-compose.yml; tests/unit/service/test_deploy_files.py compares them."""

CHROOT = shutil.which("chroot") or "/usr/sbin/chroot"
"""By its path: the image's own PATH, with which it is started, does not lead there."""

READ_ONLY = """
import os, pathlib
for place in ("/", "/opt/prefsvm", "/etc", "/usr/bin"):
    try:
        pathlib.Path(place, "written").touch()
    except OSError:
        continue
    raise SystemExit(f"{place} can be written")
for place in ("/tmp", os.environ["PREFSVM_DATA_DIR"]):
    (pathlib.Path(place) / "written").touch()
status = pathlib.Path("/proc/self/status").read_text()
assert os.getuid() == 10001 and "CapEff:\\t0000000000000000" in status and "NoNewPrivs:\\t1" in status, status
"""

MAIN_JOB = """
import os, sys, time
import httpx
from prefsvm.solver.examples import breast_tumours
tumours = breast_tumours(0)
url = "http://127.0.0.1:8000"
assert httpx.get(url + "/models").status_code == 401
client = httpx.Client(base_url=url, timeout=120, headers={"Authorization": "Bearer " + os.environ["PREFSVM_API_KEY"]})
def answer(response):
    assert response.is_success, (response.status_code, response.text)
    return response.json()
dataset = answer(client.post("/datasets", files={"file": ("tumours.csv", tumours.training_csv, "text/csv")}))
begun = time.monotonic()
job = answer(client.post("/train", json={"dataset": dataset["id"], "target": "diagnosis", "positive": "malignant",
    "algorithm": "psvm", "objective": {"kind": "recall", "target": 0.95}, "seed": 0}))
while job["status"] in ("queued", "running"):
    time.sleep(0.2)
    job = answer(client.get("/jobs/" + job["id"]))
    assert time.monotonic() - begun < 300, job
assert job["status"] == "succeeded", job
predicted = answer(client.post("/predict", json={"model": job["model_id"], "rows": tumours.test_rows}))["predictions"]
said = [p["label"] for p, label in zip(predicted, tumours.test_labels, strict=True) if label == "malignant"]
print(f"{time.monotonic() - begun:.1f} s, {said.count('malignant')} of {len(said)} malignant test rows found")
assert said.count("malignant") > 0.85 * len(said)
"""


class Image:
    """The built root and how processes are started in it."""

    def __init__(self, root: Path, config: dict[str, Any]) -> None:
        self.root = root
        self.config = config

    def command(self, words: list[str]) -> list[str]:
        uid, _, gid = self.config["user"].partition(":")
        return [
            *(CHROOT, str(self.root), "env", f"--chdir={self.config['directory']}"),
            *("setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs"),
            *("--bounding-set=-all", "--inh-caps=-all", *words),
        ]

    def start(self, words: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
        with log.open("wb") as output:
            return subprocess.Popen(
                self.command(words),
                env={**self.config["environment"], **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def run(self, words: list[str], environment: dict[str, str] | None = None) -> str:
        ended = subprocess.run(
            self.command(words),
            env={**self.config["environment"], **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if ended.returncode != 0:
            raise SystemExit(f"{words[:3]} ended with {ended.returncode}:\n{ended.stdout[-4000:]}")
        return ended.stdout.strip()


def read_environment(file: Path) -> dict[str, str]:
    """Read an ``env_file`` of the compose file."""
    pairs = (line.partition("=") for line in file.read_text().splitlines() if line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}


def wait(what: str, seconds: float, condition: Callable[[], bool]) -> float:
    """Wait until `condition` holds; returns the seconds that it took."""
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > seconds:
            raise SystemExit(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.2)
    return time.monotonic() - begun


def succeeds(words: list[str], environment: dict[str, str]) -> bool:
    """Whether a command ends with 0."""
    return subprocess.run(words, env=environment, capture_output=True, check=False).returncode == 0


def start_servers(servers: Path) -> list[subprocess.Popen[bytes]]:
    """Start Postgres and Redis as the compose file's images do."""
    path = "/usr/lib/postgresql/15/bin:/usr/bin:/bin"
    environment = {"PATH": path, "LC_ALL": "C.UTF-8", "POSTGRES_USER": "postgres", "POSTGRES_DB": "prefsvm"}

    def as_user(user: str, *words: str) -> list[str]:
        return [CHROOT, str(servers), "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *words]

    for name, user in (("pgdata", "postgres"), ("data", "redis"), ("run/postgresql", "postgres")):
        (servers / name).mkdir(exist_ok=True)
        subprocess.run([CHROOT, servers, "chown", f"{user}:", f"/{name}"], check=True)
    postgres = ["initdb", "--pgdata=/pgdata", "--username=postgres", "--auth-host=scram-sha-256", "--auth-local=trust"]
    subprocess.run(
        as_user("postgres", *postgres, "--pwfile=/run/secrets/postgres_password"),
        env=environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    started = [
        subprocess.Popen(as_user("postgres", "postgres", "-D", "/pgdata", "-c", "listen_addresses=127.0.0.1"),
                         env=environment, stderr=(servers / "postgres.log").open("wb")),
        subprocess.Popen(as_user("redis", "redis-server", "/deploy/redis.conf", "--dir", "/data"),
                         env=environment, stdout=(servers / "redis.log").open("wb")),
    ]  # fmt: skip
    ready = as_user("postgres", "pg_isready", "--host=127.0.0.1")
    wait("Postgres", 60, lambda: succeeds(ready, environment))
    subprocess.run(as_user("postgres", "createdb", "--username=postgres", "prefsvm"), env=environment, check=True)
    subprocess.run(as_user("postgres", "/deploy/postgres/10-roles.sh"), env=environment, check=True)
    ping = as_user("redis", "sh", "-c", "redis-cli ping | grep -q PONG")
    wait("Redis", 60, lambda: succeeds(ping, environment))
    return started


def check(image: Image, servers: Path, logs: Path) -> None:
    """Run all checks; ends the process with a message at the first that fails."""
    image.run(["python", "-c", READ_ONLY])
    print("ok  read-only tree, uid 10001, no capabilities, no new privileges")
    print("ok  " + image.run(["prefsvm", "version"]))
    image.run(["python", "-c", "import importlib.util as u; assert u.find_spec('pip') is None"])

    start_servers(servers)
    print("ok  Postgres with its roles, Redis with its users")
    secrets = servers / "run/secrets"
    print("ok  " + (image.run(COMMANDS["migrate"], read_environment(secrets / "migrate.env")) or "migrated"))
    key = (secrets / "bootstrap_key").read_text()
    environments = {name: read_environment(secrets / f"{name}.env") for name in COMMANDS if name != "migrate"}
    environments["api"]["PREFSVM_BOOTSTRAP_KEY"] = key
    processes = {
        name: image.start(COMMANDS[name], environment, logs / f"{name}.log")
        for name, environment in environments.items()
    }
    try:
        healthcheck = image.command(image.config["healthcheck"])
        seconds = wait("health check of the API", 60, lambda: succeeds(healthcheck, image.config["environment"]))
        print(f"ok  API healthy after {seconds:.1f} s")
        dispatcher = image.command(["python", "-m", "prefsvm.service.healthcheck"])
        wait(
            "health check of the dispatcher",
            60,
            lambda: succeeds(dispatcher, {**image.config["environment"], **environments["dispatcher"]}),
        )
        print("ok  dispatcher healthy")
        for attempt in ("first", "second"):
            print(f"ok  {attempt} job: " + image.run(["python", "-c", MAIN_JOB], {"PREFSVM_API_KEY": key}))
        forkserver = [CHROOT, str(image.root), "sh", "-c", "grep -qs 'worker[.]forkserver' /proc/[0-9]*/cmdline"]
        wait("health check of the worker", 60, lambda: succeeds(forkserver, image.config["environment"]))
        print("ok  worker healthy")
        for name, process in processes.items():
            process.send_signal(signal.SIGTERM)
            begun = time.monotonic()
            status = process.wait(60)
            print(f"ok  {name} stopped in {time.monotonic() - begun:.1f} s with status {status}")
    except BaseException:
        for name in processes:
            print(f"--- {name}\n" + "\n".join((logs / f"{name}.log").read_text().splitlines()[-20:]))
        raise


def main() -> None:
    """Run the checks of the command line."""
    root, config, servers = sys.argv[1:]
    os.environ.pop("PYTHONPATH", None)
    logs = Path(servers) / "logs"
    logs.mkdir()
    check(Image(Path(root), json.loads(config)), Path(servers), logs)


if __name__ == "__main__":
    main()

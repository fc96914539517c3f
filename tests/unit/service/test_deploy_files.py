"""The Dockerfile, the compose file and the files of deploy/, checked without a container engine.

scripts/check_clean_root.sh goes further and runs the Dockerfile's steps and the whole stack; it needs root and minutes.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import kombu
import psycopg
import pytest
import redis
import yaml
from nginx_proxy import free_port, nginx_before, wait_for_port

from service.access.keys import ApiKey
from service.app import CONNECTIONS
from service.db import migrate
from service.db.roles import API, ROLES, SYSTEM
from service.dispatcher import Doorbells
from service.jobs.doorbell import QUEUE
from service.local.servers import PostgresServer, find_redis
from service.readiness import broker_client
from service.settings import Settings

ROOT = Path(__file__).resolve().parents[3]
OURS = {"migrate", "api", "dispatcher", "worker", "worker-gpu", "mail"}


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


run_dockerfile = load_script("run_dockerfile")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
STAGES = {stage.name: stage for stage in run_dockerfile.parse((ROOT / "Dockerfile").read_text())}


def default(value: str) -> str:
    """Resolve ``${NAME:-default}`` as compose does when NAME is not set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)


def size(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([kmg]?)b?", default(text).lower()).groups()  # type: ignore[union-attr]
    return int(number) << {"": 0, "k": 10, "m": 20, "g": 30}[unit]


# --- Makefile --------------------------------------------------------------------------------------------------------


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with what installing needs, and locks that name one package."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "requirements").mkdir()
    for name in ("Makefile", "scripts/install.sh"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("local", "build", "dev"):
        lock = tmp_path / "requirements" / f"{name}.lock"
        lock.write_text(f"numpy==2.0.0 --hash=sha256:{'0' * 64}\n")
        os.utime(lock, (1, 1))
    return tmp_path


def make(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "PIP_"))}
    environment["PIP_NO_INDEX"] = "1"
    command = ["make", f"PYTHON={sys.executable}", *arguments]
    return subprocess.run(command, cwd=clone, capture_output=True, text=True, env=environment, check=False)


def test_each_goal_installs_what_it_needs(clone: Path) -> None:
    for goal, lock in (("demo", "local"), ("serve", "local"), ("test", "dev"), ("lint", "dev"), ("audit", "dev")):
        assert f"scripts/install.sh {lock}\n" in make(clone, "--dry-run", goal).stdout
    (clone / ".venv").mkdir()
    (clone / ".venv/local").touch()
    assert "install.sh" not in make(clone, "--dry-run", "demo").stdout
    assert "install.sh dev" in make(clone, "--dry-run", "test").stdout
    (clone / ".venv/dev").touch()
    assert "install.sh" not in make(clone, "--dry-run", "demo", "test").stdout
    os.utime(clone / "requirements/local.lock")
    os.utime(clone / ".venv/local", (1, 1))
    assert "install.sh local" in make(clone, "--dry-run", "demo").stdout


@pytest.mark.parametrize("goal", ["local", "dev"])
def test_a_torn_installation_leaves_no_stamp_and_says_why(clone: Path, goal: str) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", clone / ".venv"], check=True)
    (clone / ".venv/left").touch()
    if goal == "dev":
        (clone / ".venv/local").touch()
    done = make(clone, f".venv/{goal}")
    assert done.returncode != 0
    assert done.stdout.startswith(f"Installing what requirements/{goal}.lock")
    assert "numpy==2.0.0" in done.stderr
    assert not (clone / ".venv/local").exists()
    assert not (clone / ".venv/dev").exists()
    # The tools come on top of what is there; all else is made anew.
    assert (clone / ".venv/left").exists() == (goal == "dev")


def test_what_builds_the_wheel_is_of_the_same_version_in_every_lock() -> None:
    def pins(name: str) -> dict[str, str]:
        text = (ROOT / "requirements" / f"{name}.lock").read_text()
        return dict(re.findall(r"^([a-z0-9._-]+)==([^ ;]+)", text, flags=re.MULTILINE))

    build = pins("build")
    for name in ("local", "dev"):
        assert {package: pins(name).get(package, version) for package, version in build.items()} == build


# --- docker-compose.yml ----------------------------------------------------------------------------------------------


def test_compose_file_follows_the_compose_specification() -> None:
    schema = json.loads((ROOT / "tests/data/compose-spec/compose-spec.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(COMPOSE)] == []
    broken = {**COMPOSE, "services": {"api": {"image": "prefsvm:cpu", "mem_limits": "1g"}}}
    assert not validator.is_valid(broken)


@pytest.mark.parametrize("name", SERVICES)
def test_service_is_limited_and_hardened(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert "privileged" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert size(service["mem_limit"]) > 0
    assert service["pids_limit"] > 0
    assert name in OURS or service["user"] not in ("", "root", "0", "0:0")
    assert name == "redis" or any(mount.startswith("/tmp:size=") for mount in service["tmpfs"])  # noqa: S108
    if name == "migrate":
        assert service["healthcheck"] == {"disable": True}
        assert service["restart"] == "no"
    else:
        assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")
        assert service["restart"] == "unless-stopped"


def test_only_the_proxy_is_published_and_on_loopback_only() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert set(published) == {"proxy", "mail"}
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)
    assert SERVICES["mail"]["profiles"] == ["mail"]
    internal = {name for name, network in COMPOSE["networks"].items() if network.get("internal")}
    assert internal == {"backend", "frontend"}
    assert SERVICES["api"]["networks"] == ["backend", "frontend"]
    # Who reads what strangers have sent has no way out; the proxy is published, and the dispatcher sends webhooks.
    outside = {name for name, service in SERVICES.items() if not set(service["networks"]) <= internal}
    assert outside == {"proxy", "dispatcher", "mail"}
    # A port can't be published on an internal network.
    assert set(SERVICES["mail"]["networks"]) == {"backend", "mail"}
    assert COMPOSE["networks"]["mail"] == {"driver_opts": {"com.docker.network.bridge.enable_ip_masquerade": "false"}}
    assert "backend" not in SERVICES["proxy"]["networks"]


def test_services_start_in_order() -> None:
    needed = {
        "postgres": {"condition": "service_healthy"},
        "redis": {"condition": "service_healthy"},
        "migrate": {"condition": "service_completed_successfully"},
    }
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    for name in OURS - {"migrate"}:
        assert SERVICES[name]["depends_on"] == needed
    assert SERVICES["proxy"]["depends_on"] == {"api": {"condition": "service_healthy"}}


def test_no_secret_is_written_in_the_compose_file() -> None:
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            assert not re.search("(PASSWORD|SECRET|TOKEN|URL)$", variable), f"{name}: {variable}={value}"
            assert "://" not in value
        for file in service.get("env_file", []):
            assert file.startswith("deploy/secrets/")
    assert all(secret["file"].startswith("deploy/secrets/") for secret in COMPOSE["secrets"].values())
    assert "/deploy/secrets/" in (ROOT / ".gitignore").read_text().splitlines()
    patterns = run_dockerfile.read_ignore((ROOT / ".dockerignore").read_text())
    assert run_dockerfile.ignored("deploy/secrets/api.env", patterns)
    # Each process has a role of Postgres of its own; the schema is changed by that of the migrations only.
    for name in OURS:
        assert SERVICES[name]["env_file"] == [f"deploy/secrets/{name.removesuffix('-gpu')}.env"]
    # Whoever runs jobs needs no key of the API.
    assert [name for name in SERVICES if "bootstrap_key" in SERVICES[name].get("secrets", [])] == ["api"]


def test_files_and_volumes_that_services_mount_exist() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (ROOT / source).is_file() if source.startswith("./") else source in COMPOSE["volumes"]
        assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"])
    assert all("data:/var/lib/prefsvm" in SERVICES[name]["volumes"] for name in ("api", "worker", "worker-gpu"))


@pytest.mark.parametrize("name", sorted(OURS))
def test_our_services_run_what_the_image_has(name: str) -> None:
    service = SERVICES[name]
    target = service["build"]["target"]
    assert target in STAGES
    assert service["image"] == f"prefsvm:{target}"
    command = service["command"]
    if command[0] == "prefsvm":
        scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
        assert "prefsvm" in scripts
    else:
        assert command[:2] == ["python", "-m"]
        assert importlib.util.find_spec(command[2].removeprefix("prefsvm.")) is not None


def test_the_mail_filter_starts_as_the_compose_file_says_and_its_health_is_told(tmp_path: Path) -> None:
    """Without Postgres, as after a start of the host: mails are passed on meanwhile."""
    service, port = SERVICES["mail"], free_port()
    environment = {key: default(value) for key, value in service["environment"].items()}
    inside = environment["PREFSVM_MAIL_LISTEN"].rpartition(":")[2]
    assert service["ports"] == [f"127.0.0.1:${{PREFSVM_PUBLISHED_MAIL_PORT:-783}}:{inside}"]
    environment["PREFSVM_MAIL_LISTEN"] = f"127.0.0.1:{port}"
    environment |= {"PREFSVM_DATABASE_URL": "postgresql+psycopg://u@127.0.0.1:1/x", "HOME": str(tmp_path)}
    environment |= {"PREFSVM_MAIL_KEY": ApiKey.new().text, "PREFSVM_KEYS_REQUIRED": "true", "PATH": os.environ["PATH"]}
    module = service["command"][2].removeprefix("prefsvm.")
    kind, *check = service["healthcheck"]["test"]
    assert (kind, check[0]) == ("CMD", "python")
    check = [sys.executable, *(word.replace(f":{inside}/", f":{port}/") for word in check[1:])]
    with subprocess.Popen([sys.executable, "-m", module], cwd=ROOT, env=environment) as process:
        try:
            wait_for_port(port, process)
            assert subprocess.run(check, check=False, timeout=30).returncode == 0
            with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
                connection.sendall(b"CHECK SPAMC/1.5\r\nContent-length: 4\r\n\r\na\n\nb")
                assert b"Spam: False ; 0.0 / 5.0" in connection.recv(1000)
        finally:
            process.terminate()
    assert process.returncode == 0
    assert subprocess.run(check, check=False, capture_output=True, timeout=30).returncode != 0


def test_clean_root_check_runs_the_commands_of_the_compose_file() -> None:
    commands = load_script("check_image").COMMANDS
    assert commands == {name: SERVICES[name]["command"] for name in commands}
    assert set(commands) == OURS - {"worker-gpu", "mail"}


def test_variables_are_settings() -> None:
    known = {f"PREFSVM_{name.upper()}" for name in Settings.model_fields}
    used = {variable for name in OURS for variable in SERVICES[name].get("environment", {})}
    for stage in STAGES.values():
        for instruction in stage.instructions:
            used |= set(re.findall(r"\b(PREFSVM_\w+)=", instruction.rest)) if instruction.name == "ENV" else set()
    assert {"PREFSVM_HOST", "PREFSVM_WORKER_SLOTS"} <= used
    assert used <= known


@pytest.mark.parametrize("name", ["worker", "worker-gpu"])
def test_worker_has_the_memory_that_its_jobs_may_use(name: str) -> None:
    environment = {key: int(default(value)) for key, value in SERVICES[name]["environment"].items()}
    assert environment["PREFSVM_JOB_MEMORY_BYTES"] == Settings.model_fields["job_memory_bytes"].default
    jobs = environment["PREFSVM_WORKER_SLOTS"] * environment["PREFSVM_JOB_MEMORY_BYTES"]
    assert size(SERVICES[name]["mem_limit"]) >= jobs + (1 << 30)


def test_api_has_the_memory_that_uploads_and_models_may_use() -> None:
    settings = Settings()
    uploads = settings.ingest_slots * settings.ingest_memory_bytes
    assert size(SERVICES["api"]["mem_limit"]) >= uploads + settings.model_cache_bytes


# --- Dockerfile ------------------------------------------------------------------------------------------------------


def test_image_runs_as_a_numbered_user_and_starts_without_a_shell() -> None:
    runtime = {instruction.name: instruction.rest for instruction in STAGES["runtime"].instructions}
    assert runtime["USER"] == "10001:10001"
    assert run_dockerfile.exec_form(runtime["CMD"]) == SERVICES["api"]["command"]
    assert run_dockerfile.exec_form(runtime["HEALTHCHECK"].partition("CMD ")[2])[0] == "python"
    for target in ("cpu", "cuda"):
        assert STAGES[target].image == "runtime"
        assert not {"USER", "CMD", "RUN"} & {instruction.name for instruction in STAGES[target].instructions}
    assert list(STAGES)[-1] == "cpu"  # what a build without --target gives


def test_every_package_of_the_image_is_locked() -> None:
    installs = 0
    for stage in STAGES.values():
        for instruction in stage.instructions:
            for line in re.findall(r"pip (?:install|wheel)[^&]*", instruction.rest):
                installs += 1
                assert "--require-hashes" in line or "--no-deps" in line, line
    assert installs == 6


def test_the_build_context_has_what_is_copied() -> None:
    patterns = run_dockerfile.read_ignore((ROOT / ".dockerignore").read_text())
    copied = 0
    for stage in STAGES.values():
        for instruction in stage.instructions:
            words = instruction.rest.split()
            if instruction.name != "COPY" or words[0].startswith("--from="):
                continue
            for source in words[:-1]:
                for cuda in ("12", "13"):
                    name = source.replace("${CUDA}", cuda)
                    copied += 1
                    assert (ROOT / name).exists(), name
                    assert not run_dockerfile.ignored(name, patterns), name
    assert copied > 0
    assert run_dockerfile.ignored("service/__pycache__/app.cpython-311.pyc", patterns)
    assert run_dockerfile.ignored(".git/config", patterns)


@pytest.mark.parametrize(
    ("text", "message"),
    [("RUN true\n", "before the first FROM"), ("FROM debian\n", "expected FROM image AS name")],
)
def test_dockerfile_reader_refuses_what_it_does_not_know(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_dockerfile.parse(text)


def test_images_are_pinned_by_digest_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a registry that is not there: its answer is the digit that the file ``digit`` holds, 64 times."""
    for name in ("Dockerfile", "docker-compose.yml"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(f"#!/bin/sh\nprintf 'sha256:'; for i in $(seq 64); do cat {tmp_path}/digit; done\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{docker.parent}:{os.environ['PATH']}")
    for digit in "12":
        (tmp_path / "digit").write_text(digit)
        subprocess.run([sys.executable, ROOT / "scripts/pin_images.py", tmp_path], check=True, capture_output=True)
        pinned = f"@sha256:{digit * 64}"
        stages = run_dockerfile.parse((tmp_path / "Dockerfile").read_text())
        bases = {stage.image for stage in stages} - {stage.name for stage in stages}
        services = yaml.safe_load((tmp_path / "docker-compose.yml").read_text())["services"].values()
        images = {service["image"] for service in services if "image" in service} | bases
        assert all(image.endswith(pinned) for image in images if not image.startswith("prefsvm:")), images
        assert sum(image.endswith(pinned) for image in images) >= 4
    (tmp_path / "digit").write_text("x")
    before = (tmp_path / "Dockerfile").read_text()
    assert subprocess.run([sys.executable, ROOT / "scripts/pin_images.py", tmp_path], capture_output=True).returncode
    assert (tmp_path / "Dockerfile").read_text() == before


# --- deploy/ ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deploy") / "secrets"
    subprocess.run([ROOT / "deploy/make_secrets.sh", folder], check=True, capture_output=True)
    return folder


def test_secrets_are_what_the_compose_file_asks_for(secrets: Path) -> None:
    asked = {Path(file).name for service in SERVICES.values() for file in service.get("env_file", [])}
    asked |= {Path(secret["file"]).name for secret in COMPOSE["secrets"].values()}
    assert {file.name for file in secrets.iterdir()} == asked
    assert secrets.stat().st_mode & 0o777 == 0o700
    passwords = {file.name.partition("_")[0]: file.read_text() for file in secrets.glob("*_password")}
    assert len(set(passwords.values())) == 6
    assert all(re.fullmatch("[0-9a-f]{48}", password) for password in passwords.values())
    holders = {"migrate": {"owner"}, "api": {"api", "system"}, "dispatcher": {"dispatcher"}, "worker": {"worker"}}
    for name, roles in holders.items():
        text = (secrets / f"{name}.env").read_text()
        assert {role for role, password in passwords.items() if password in text} == roles
        assert {role for role in passwords if f"//prefsvm_{role}:" in text} == roles
        assert ("PREFSVM_BROKER_URL=" in text) == (name != "migrate")
    assert ApiKey.parse((secrets / "bootstrap_key").read_text()) is not None


def test_secrets_are_never_replaced(secrets: Path) -> None:
    before = {file.name: file.read_text() for file in secrets.iterdir()}
    again = subprocess.run([ROOT / "deploy/make_secrets.sh", secrets], check=False, capture_output=True, text=True)
    assert again.returncode == 1
    assert "is there already" in again.stderr
    assert {file.name: file.read_text() for file in secrets.iterdir()} == before


def test_roles_of_postgres(
    secrets: Path, postgres_server: PostgresServer, empty_database_url: str, tmp_path: Path
) -> None:
    name = empty_database_url.partition("?")[0].rpartition("/")[2]
    assert postgres_server.binaries is not None
    environment = {
        "PATH": f"{postgres_server.binaries.folder}:/usr/bin:/bin",
        "PGHOST": str(postgres_server.run),
        "POSTGRES_USER": "postgres",
        "POSTGRES_DB": name,
        "PREFSVM_SECRETS": str(secrets),
    }
    for _ in range(2):  # the second time, as for an installation that is there already
        subprocess.run([ROOT / "deploy/postgres/10-roles.sh"], env=environment, check=True)
    superuser = postgres_server.url(name, "postgres")
    migrate.upgrade(f"{superuser}&options=-crole%3Dprefsvm_owner")
    with psycopg.connect(superuser.replace("+psycopg", "")) as connection:
        found = connection.execute("SELECT rolname FROM pg_authid WHERE rolcanlogin AND rolpassword IS NOT NULL")
        assert {role for (role,) in found} == {"prefsvm_owner", *ROLES}
        found = connection.execute("SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public'")
        assert found.fetchall() == [("prefsvm_owner",)]
    for role, projects in ((API, 0), (SYSTEM, 1)):
        with psycopg.connect(postgres_server.url(name, role).replace("+psycopg", "")) as connection:
            assert connection.execute("SELECT count(*) FROM projects").fetchone() == (projects,)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("CREATE TEMPORARY TABLE new (id int)")


@pytest.fixture(scope="module")
def production_redis(secrets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server with the production configuration, on a port of its own; yields the address of worker.env."""
    folder = tmp_path_factory.mktemp("redis")
    port = free_port()
    changes = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--aclfile", f"{secrets}/redis_users"]
    server = subprocess.Popen([find_redis().program, ROOT / "deploy/redis.conf", *changes], stdout=subprocess.DEVNULL)
    address = re.search("PREFSVM_BROKER_URL=(.*)", (secrets / "worker.env").read_text())[1]  # type: ignore[index]
    address = address.replace("@redis:6379", f"@127.0.0.1:{port}")
    try:
        wait_for_port(port, server)
        yield address
    finally:
        server.terminate()
        server.wait(40)


def test_broker_keeps_its_queue_and_never_evicts(production_redis: str) -> None:
    with redis.Redis.from_url(production_redis, decode_responses=True) as client:
        facts = client.info()
    assert facts["maxmemory_policy"] == "noeviction"
    assert facts["maxmemory"] == 256 << 20
    assert facts["aof_enabled"] == 1


def test_dispatcher_and_worker_may_do_their_work_on_the_broker(production_redis: str) -> None:
    bells = Doorbells(production_redis)
    bells.ring("job_019f0000-0000-7000-8000-000000000000")
    assert bells.outstanding() == 1
    # As a Celery worker takes it: BRPOP, the keys of unacknowledged messages, and the Lua lock around their restoring.
    with kombu.Connection(production_redis) as connection:
        queue = connection.SimpleQueue(QUEUE)
        message = queue.get(timeout=60)
        assert message.headers["task"] == "prefsvm.train"
        connection.default_channel.qos.restore_visible()
        message.ack()
        queue.close()
    assert bells.outstanding() == 0
    bells.reset()


def test_the_api_sees_who_listens_on_the_broker(production_redis: str) -> None:
    with broker_client(production_redis) as client:
        assert any(entry["cmd"] == "client|list" for entry in client.client_list())


@pytest.mark.parametrize("command", ["CONFIG GET *", "FLUSHALL", "SHUTDOWN", "KEYS *", "GET other", "ACL LIST"])
def test_broker_user_may_do_no_more(production_redis: str, command: str) -> None:
    with (
        redis.Redis.from_url(production_redis) as client,
        pytest.raises(redis.exceptions.NoPermissionError),
    ):
        client.execute_command(*command.split())


def test_broker_lets_strangers_ping_only(production_redis: str) -> None:
    port = int(production_redis.split(":")[-1].split("/")[0])
    with redis.Redis("127.0.0.1", port) as anonymous:
        assert anonymous.ping()
        with pytest.raises(redis.exceptions.NoPermissionError):
            anonymous.llen(QUEUE)


class Upstream(BaseHTTPRequestHandler):
    """Stands for the API: says how many bytes it got."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        body = str(len(self.rfile.read(int(self.headers.get("Content-Length", 0))))).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A real nginx with the production configuration in front of `Upstream`; yields its port."""
    upstream = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    try:
        with nginx_before(upstream.server_address[1], tmp_path_factory.mktemp("nginx")) as port:
            yield port
    finally:
        upstream.shutdown()
        upstream.server_close()


def ask(port: int, request: bytes, seconds: float) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as client:
        client.sendall(request)
        return client.recv(1 << 16)


def test_no_handful_of_addresses_has_all_connections() -> None:
    """Half a dozen that hold as many as they may leave some, also for the health check beside the proxy."""
    text = (ROOT / "deploy/nginx.conf").read_text()
    (of_an_address,) = set(re.findall(r"^\s*limit_conn address (\d+);", text, flags=re.MULTILINE))
    assert set(re.findall(r"^\s*limit_conn_zone (\S+)", text, flags=re.MULTILINE)) == {"$binary_remote_addr", "$sender"}
    assert 6 * int(of_an_address) + 100 <= CONNECTIONS


def test_proxy_lets_large_uploads_through_and_nothing_else_that_large(proxy: int) -> None:
    head = "POST {} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {}\r\n\r\n"
    large = 34 << 20
    for path in ("/datasets", "/uploads/up_1"):
        answer = ask(proxy, head.format(path, large).encode() + bytes(large), 30)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(str(large).encode())
    assert ask(proxy, head.format("/predict", large).encode(), 30).startswith(b"HTTP/1.1 413 ")
    assert ask(proxy, head.format("/predict", 3).encode() + b"abc", 30).endswith(b"3")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begun", "limit"),
    [(b"GET /healthz HT", 10), (b"POST /predict HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\nab", 30)],
    ids=["headers", "body"],
)
def test_proxy_ends_clients_that_dawdle(proxy: int, begun: bytes, limit: float) -> None:
    started = time.monotonic()
    assert ask(proxy, begun, limit + 10) in (b"", b"HTTP/1.1 408 Request Time-out\r\n")
    assert limit - 1 <= time.monotonic() - started <= limit + 5


# --- docs ------------------------------------------------------------------------------------------------------------


def test_production_page_names_every_setting_with_its_default() -> None:
    page = (ROOT / "docs/production.md").read_text()
    rows = dict(re.findall(r"^\| `(PREFSVM_\w+)` \| ([^|]*) \|", page, flags=re.MULTILINE))
    assert set(rows) == {f"PREFSVM_{name.upper()}" for name in Settings.model_fields}
    for name, field in Settings.model_fields.items():
        written = rows[f"PREFSVM_{name.upper()}"].strip().strip("`")
        if isinstance(field.default, int | float) and not isinstance(field.default, bool):
            number, _, unit = written.replace(",", "").partition(" ")
            factor = {"": 1, "MiB": 1 << 20, "GiB": 1 << 30, "s": 1, "h": 3600}[unit]
            assert float(number) * factor == field.default, name


SLOW_PIP = """#!/bin/bash
case "$*" in
  *require-hashes*)
    echo "Ignoring colorama: markers don't match your environment"
    for name in a b c d; do echo "Collecting $name"; sleep 0.35; done
    echo "Installing collected packages: a, b, c, d"
    for name in a b c d; do mkdir -p .venv/lib/$name.dist-info; sleep 0.35; done ;;
  *"-m venv"*)
    mkdir -p .venv/bin .venv/lib
    ln -sf "$(type -P true)" .venv/bin/python ;;
esac
"""
"""Stands for Python: it fetches and unpacks four of five packages, a third of a second each."""


def test_the_count_of_an_installation_only_rises(clone: Path) -> None:
    names = ("a", "b", "c", "d", "colorama")
    (clone / "requirements/local.lock").write_text("".join(f"{name}==1 --hash=sha256:{'0' * 64}\n" for name in names))
    (clone / "requirements/build.lock").write_text("")
    python = clone / "python"
    python.write_text(SLOW_PIP)
    python.chmod(0o755)
    ours, theirs = os.openpty()  # on a terminal each step is shown
    subprocess.run(
        ["scripts/install.sh", "local"], cwd=clone, env={**os.environ, "PYTHON": str(python)}, stdout=theirs, check=True
    )
    os.close(theirs)
    said = os.read(ours, 1 << 16).decode()
    os.close(ours)
    shown = [int(each) for each in re.findall(r"(\d+) %: ", said)]
    assert shown == sorted(shown)
    assert len(set(shown)) > 5
    assert shown[-1] == 95
    # There is no other count beside it, of packages that come, go, and are needed elsewhere.
    assert re.findall(r"\d+", re.sub(r"\d+ %: |\(?\d+ s|\x1b\[K", "", said)) == []

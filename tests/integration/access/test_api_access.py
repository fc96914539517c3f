"""Who gets in, and to what: the rows API1 to API5 of docs/security.md, over every operation of the document."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from access_support import (
    UNKNOWN_IDS,
    Tenant,
    bearer,
    fill,
    make_key,
    make_tenant,
    operations,
    rows_of_all_tables,
    speak_tus,
)
from api_support import api_client, store_dataset, train_body
from pydantic import SecretStr
from sqlalchemy import event, text
from sqlalchemy.engine import Connection, Engine
from typer.testing import CliRunner

from service.access import authenticator
from service.access.caller import LOCAL
from service.access.keys import ApiKey
from service.access.schemas import CreateProject, LimitsBody
from service.access.service import ProjectService
from service.cli import main as cli
from service.db.session import Database
from service.db.tables import DEFAULT_PROJECT, JobRow
from service.identifiers import new_id
from service.jobs.claims import Claim, JobClaims
from service.jobs.dispatching import JobDispatching
from service.jobs.repository import JobRepository
from service.settings import Settings

OPEN = {"getHealth", "getReadiness", "getServerLive", "getServerReady"}
"""What needs no key."""
SCOPES = {
    "read": {
        "describeUploads",
        "exportModel",
        "getAudit",
        "getAuditRows",
        "getBatch",
        "getBatchResult",
        "getAlias",
        "getAliasShadow",
        "getDataset",
        "getDatasetHistograms",
        "getDatasetRows",
        "getExample",
        "getExampleFile",
        "getFeedback",
        "getInferenceModel",
        "getInferenceModelReady",
        "getInferenceModelVersion",
        "getInferenceModelVersionReady",
        "getJob",
        "getLimits",
        "getModel",
        "getModelCard",
        "getModelCurve",
        "getModelDrift",
        "getModelQueue",
        "getModelReport",
        "getModelThresholds",
        "getUpload",
        "getUploadOffset",
        "getServerMetadata",
        "infer",
        "inferVersion",
        "listAliases",
        "listAudits",
        "listBatches",
        "listDatasets",
        "listFeedback",
        "listJobEvents",
        "listWebhookDeliveries",
        "listWebhooks",
        "listJobs",
        "listModels",
        "listOperatingPoints",
        "listUploads",
        "predict",
    },
    "write": {
        "addFeedback",
        "answerAudit",
        "appendToUpload",
        "cancelBatch",
        "cancelJob",
        "chooseOperatingPoint",
        "correctDataset",
        "createAudit",
        "createBatch",
        "createDataset",
        "createUpload",
        "deleteAlias",
        "deleteAliasShadow",
        "deleteAudit",
        "deleteDataset",
        "deleteFeedback",
        "deleteModel",
        "deleteUpload",
        "putAlias",
        "retrainAlias",
        "retryJob",
        "createWebhook",
        "deleteWebhook",
        "rollbackAlias",
        "sealAudit",
        "train",
    },
    "admin": {"createKey", "getProject", "listKeys", "listProjects", "revokeKey", "rotateKey"},
}
"""What a key of any project may do with this one scope."""
DEFAULT_PROJECT_SCOPES = {"read": {"getMetrics"}, "admin": {"changeProject", "createProject"}}
"""What a key may do with this scope only if it is of the default project."""
NAMES_NOTHING = {
    "createWebhook": "makes a webhook of the caller's own",
    "createDataset": "makes a data set of the caller's own",
    "createProject": "names nothing that is there",
    "createUpload": "makes an upload of the caller's own",
    "describeUploads": "tells of the service only",
    "getExample": "is the same for everybody",
    "getExampleFile": "is the same for everybody",
    "getServerMetadata": "tells of the service only",
}
"""Operations without anything of another project in them, and why: they stay out of the walk with foreign ids."""
TABLES_WITH_A_PROJECT = """
    SELECT table_name FROM information_schema.columns WHERE column_name = 'project_id' AND table_schema = 'public'
"""
SECRETS = {"secret_sha256", "lease_until", "worker", "blob_key", "columnar_key", "dispatched_at"}
"""Names of columns that no answer may show."""


@dataclass
class World:
    client: httpx.Client
    database: Database
    ours: Tenant
    theirs: Tenant


@pytest.fixture
def world(settings: Settings, database: Database, short_dir: Path) -> Iterator[World]:
    """Two projects, of which the first has one thing of each kind; keys are required."""
    with api_client(settings, keys_required=True) as client:
        client.event_hooks["request"].append(speak_tus)
        ours, theirs = make_tenant(database, "ours"), make_tenant(database, "theirs")
        fill(client, database, short_dir, ours)
        yield World(client, database, ours, theirs)


def told(answer: httpx.Response) -> dict[str, Any]:
    """Return what an answer says, without what is different in each."""
    body = answer.json() if answer.content else {}
    return {"status": answer.status_code} | {name: value for name, value in body.items() if name != "request_id"}


def test_every_operation_is_in_the_lists_above(settings: Settings) -> None:
    listed = [*OPEN, *(o for scopes in (SCOPES, DEFAULT_PROJECT_SCOPES) for ids in scopes.values() for o in ids)]
    with api_client(settings) as client:
        assert sorted(listed) == sorted(operation.id for operation in operations(client))


def test_foreign_ids_are_like_unknown_ones_in_every_operation(world: World) -> None:
    before = rows_of_all_tables(world.database)
    walked = 0
    for operation in operations(world.client):
        if operation.id in OPEN or operation.id in NAMES_NOTHING:
            continue
        foreign = world.client.request(**operation.request(world.ours.ids, world.theirs.headers()))
        unknown = world.client.request(**operation.request(UNKNOWN_IDS, world.theirs.headers()))
        if operation.id.startswith("list") and not operation.parameters:
            things = {world.theirs.project_id, *(key.rpartition("_")[0] for key in world.theirs.keys.values())}
            assert {item["id"] for item in foreign.json()["items"]} <= things, operation.id
        elif operation.id == "getLimits":
            assert foreign.json()["usage"] == {"queued_jobs": 0, "running_jobs": 0, "stored_bytes": 0}
        else:
            assert told(foreign) == told(unknown), operation.id
            if "model_id" in operation.parameters:
                aliased = world.ours.ids | {"model_id": world.ours.ids["name"]}
                by_alias = world.client.request(**operation.request(aliased, world.theirs.headers()))
                assert told(by_alias) == told(unknown), operation.id
            in_path = operation.parameters and operation.id not in ("putAlias", "changeProject")
            expected = {404} if in_path else {403, 404, 422}
            assert foreign.status_code in expected, (operation.id, foreign.text)
            walked += 1
    assert rows_of_all_tables(world.database) == before
    assert walked > 20
    # The same calls do something for those whose ids they are: the walk does not pass because they are wrong.
    for operation in sorted(operations(world.client), key=lambda each: (each.method == "DELETE", -len(each.path))):
        if operation.id not in OPEN | {"getMetrics", "createProject", "changeProject"}:
            mine = world.client.request(**operation.request(world.ours.ids, world.ours.headers()))
            # The model is in use, the data set too, and the alias has nothing to go back to.
            assert mine.status_code < 300 or mine.status_code == 409, (operation.id, mine.text)


def test_the_same_names_in_two_projects(world: World, short_dir: Path) -> None:
    """Aliases and idempotency keys are a project's own: one cannot be taken, moved, or read, by another."""
    fill(world.client, world.database, short_dir, world.theirs)
    for tenant in (world.ours, world.theirs):
        answer = world.client.post(
            "/predict", json={"model": "ours", "rows": [{"age": 30, "job": "cook"}]}, headers=tenant.headers()
        )
        assert answer.json()["model"] == tenant.ids["model_id"]
        job = world.client.post(
            "/train",
            json=train_body({"id": tenant.ids["dataset_id"]}),
            headers=tenant.headers() | {"Idempotency-Key": "first"},
        )
        assert job.status_code == 202, job.text
        assert world.client.get(f"/jobs/{job.json()['id']}", headers=tenant.headers()).status_code == 200


def test_every_operation_with_every_scope(world: World) -> None:
    default = make_tenant(world.database, "", DEFAULT_PROJECT)
    wrong = []
    for operation in operations(world.client):
        assert operation.described.get("security", []) == [
            {"apiKey": [scope]}
            for scopes in (SCOPES, DEFAULT_PROJECT_SCOPES)
            for scope, ids in scopes.items()
            if operation.id in ids
        ]
        without = world.client.request(**operation.request(UNKNOWN_IDS)).status_code
        assert (without == 401) is (operation.id not in OPEN), operation.id
        for tenant in (world.theirs, default):
            for scope in ("read", "write", "admin"):
                allowed = SCOPES[scope] | OPEN
                if tenant is default:
                    allowed = allowed | DEFAULT_PROJECT_SCOPES.get(scope, set())
                answer = world.client.request(**operation.request(UNKNOWN_IDS, tenant.headers(scope)))
                if (answer.status_code != 403) is not (operation.id in allowed) or answer.status_code >= 500:
                    wrong.append((operation.id, tenant.project_id, scope, answer.status_code))
    assert wrong == []


def test_fields_that_nobody_may_set_are_refused(world: World) -> None:
    extra = {"project_id": DEFAULT_PROJECT, "status": "succeeded", "attempt": 9, "owner": "me", "created_at": "now"}
    tried = 0
    for operation in operations(world.client):
        request = operation.request(world.ours.ids, world.ours.headers())
        if operation.id in ("infer", "inferVersion"):
            continue  # they make nothing, and clients of that protocol send fields of their own
        for name, value in extra.items() if "json" in request else ():
            changed = request | {"json": request["json"] | {name: value}}
            answer = world.client.request(**changed)
            assert answer.status_code in (422, 403), (operation.id, name)
            if answer.status_code == 422:
                assert name in {error["field"].rpartition(".")[2] for error in answer.json()["errors"]}
                tried += 1
    assert tried >= 30


def test_answers_show_what_the_document_says_and_nothing_of_the_inside(world: World) -> None:
    document = world.client.get("/openapi.json").json()
    checked = 0
    for operation in operations(world.client):
        content = operation.described["responses"].get("200", {}).get("content", {})
        if operation.method != "GET" or "application/json" not in content or operation.id in OPEN:
            continue
        answer = world.client.request(**operation.request(world.ours.ids, world.ours.headers()))
        if operation.id == "getModelQueue":  # the model of this world was stored without what a queue needs
            assert answer.json()["type"] == "urn:prefsvm:problem:no-queue"
            continue
        assert answer.status_code == 200, operation.id
        schema = content["application/json"]["schema"] | {"components": document["components"]}
        jsonschema.Draft202012Validator(schema).validate(answer.json())
        assert not SECRETS & set(_names(answer.json())), operation.id
        checked += 1
    assert checked >= 10


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        for below in value.values():
            yield from _names(below)
    elif isinstance(value, list):
        for below in value:
            yield from _names(below)


def test_what_is_no_live_key_is_refused(
    settings: Settings, database: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert authenticator.KEY_CACHE_SECONDS <= 5
    monkeypatch.setattr(authenticator, "KEY_CACHE_SECONDS", 1.0)
    bootstrap = ApiKey.new()
    with (
        caplog.at_level("DEBUG"),
        api_client(settings, keys_required=True, bootstrap_key=SecretStr(bootstrap.text)) as client,
    ):
        assert client.get("/models").status_code == 401
        made = client.post("/keys", json={"name": "a", "scopes": ["read"]}, headers=bearer(bootstrap.text))
        assert made.status_code == 201, made.text
        key = made.json()["key"]
        assert client.get("/models", headers=bearer(key)).status_code == 200
        assert client.get("/models", headers={"Authorization": f"bearer  {key}"}).status_code == 200
        other = ApiKey.new()
        wrong_secret = ApiKey(made.json()["id"], other.secret).text
        expired = make_key(database, DEFAULT_PROJECT, "read", expires_in_days=1e-9)
        seconds = []
        for headers in (
            [("Authorization", "Bearer")],
            [("Authorization", f"Bearer {other.text}")],
            [("Authorization", f"Bearer {wrong_secret}")],
            [("Authorization", f"Bearer {key[:-1]}")],
            [("Authorization", f"Bearer {key.lower()}")],
            [("Authorization", f"Bearer {key}x")],
            [("Authorization", f"Basic {key}")],
            [("Authorization", key)],
            [("Authorization", f"Bearer {expired}")],
            [("Authorization", f"Bearer {key}"), ("Authorization", f"Bearer {key}")],
            [("Authorization", f"Bearer {key}"), ("Authorization", f"Bearer {other.text}")],
            [("Authorization", "Bearer " + "x" * 60_000)],
            [("Authorization", b"Bearer \xff\xfe")],
            [("Cookie", f"key={key}"), ("X-API-Key", key)],
        ):
            started = time.process_time()  # of client and service, which are one process here
            answer = client.get("/models", headers=headers)
            assert answer.status_code == 401, headers
            seconds.append(time.process_time() - started)
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
            assert answer.json()["type"] == "urn:prefsvm:problem:unauthorized"
        assert statistics.median(seconds) < 0.1
        assert client.get("/models", params={"key": key, "api_key": key, "access_token": key}).status_code == 401
        # Paths that do not exist are not told apart either, and no body is read.
        assert client.post("/nothing", content=b"x" * 1000).status_code == 401

        # A key is not used by whoever knows no more than its id.
        unused = client.post("/keys", json={"name": "b", "scopes": ["read"]}, headers=bearer(bootstrap.text)).json()
        assert client.get("/models", headers=bearer(ApiKey(unused["id"], other.secret).text)).status_code == 401
        listed = {item["id"]: item for item in client.get("/keys", headers=bearer(bootstrap.text)).json()["items"]}
        assert listed[unused["id"]]["last_used_at"] is None
        assert listed[made.json()["id"]]["last_used_at"] is not None

        # Wrong keys are only listened to so often, the right one always.
        statuses = [client.get("/models", headers=bearer(ApiKey.new().text)) for _ in range(20)]
        assert statuses[-1].status_code == 429
        assert 1 <= int(statuses[-1].headers["Retry-After"]) <= 60
        assert client.get("/models", headers=bearer(key)).status_code == 200
        assert client.get("/models", headers=bearer(bootstrap.text)).status_code == 200

        assert client.delete(f"/keys/{made.json()['id']}", headers=bearer(bootstrap.text)).status_code == 204
        asked = time.monotonic()
        deadline = asked + 2
        while (answer := client.get("/models", headers=bearer(key))).status_code == 200:
            assert asked < deadline, "a revoked key works for longer than it is remembered"
            time.sleep(0.2)
            asked = time.monotonic()
        assert answer.status_code in (401, 429)  # this address has sent many wrong keys

    secrets = [made.json()["key"], ApiKey.parse(key).secret, bootstrap.text, bootstrap.secret]  # type: ignore[union-attr]
    dump = str(rows_of_all_tables(database))
    assert made.json()["id"] in dump
    ours = [record for record in caplog.records if not record.name.startswith("http")]  # those are the client's
    logged = "\n".join(f"{record.getMessage()} {vars(record)}" for record in ours)
    assert made.json()["id"] in logged
    assert [secret for secret in secrets if secret in dump or secret in logged] == []


def test_rotation(world: World) -> None:
    admin = world.ours.headers("admin")
    old = world.client.post("/keys", json={"name": "mail", "scopes": ["read"], "expires_in_days": 10}, headers=admin)
    rotate = f"/keys/{old.json()['id']}/rotate"
    # A slip must not leave a leaked key alive for the usual day.
    assert world.client.post(f"{rotate}?grace_hours=0", headers=admin).status_code == 422
    assert world.client.post(rotate, json={"grace_seconds": 0}, headers=admin).status_code == 422
    rotated = time.monotonic()
    new = world.client.post(f"{rotate}?grace_seconds=2", headers=admin)
    assert new.status_code == 201
    assert world.client.get("/limits", headers=bearer(new.json()["key"])).status_code == 200
    still = world.client.get("/limits", headers=bearer(old.json()["key"])).status_code
    assert still == 200 or time.monotonic() - rotated > 2  # a busy machine may have asked too late
    assert new.json()["scopes"] == ["read"]
    assert new.json()["name"] == "mail"
    assert new.json()["expires_at"] > old.json()["expires_at"]
    time.sleep(max(0.0, rotated + 2.1 - time.monotonic()))
    assert world.client.get("/limits", headers=bearer(old.json()["key"])).status_code == 401
    assert world.client.get("/limits", headers=bearer(new.json()["key"])).status_code == 200
    again = world.client.post(f"/keys/{old.json()['id']}/rotate", headers=admin)
    assert again.status_code == 409
    shown = {key["id"]: key for key in world.client.get("/keys", headers=admin).json()["items"]}
    assert shown[new.json()["id"]]["last_used_at"] >= new.json()["created_at"]
    assert "key" not in shown[new.json()["id"]]


def test_creates_that_are_sent_twice_make_one_thing(world: World) -> None:
    operator = make_tenant(world.database, "", DEFAULT_PROJECT).headers("admin")

    def post(path: str, headers: dict[str, str], body: dict[str, Any] | None = None) -> httpx.Response:
        return world.client.post(path, json=body, headers=headers | {"Idempotency-Key": "once"})

    project = post("/projects", operator, {"name": "mail"})
    again = post("/projects", operator, {"name": "mail"})
    assert (again.status_code, again.content) == (project.status_code, project.content) == (201, project.content)
    assert again.headers["location"] == project.headers["location"]
    assert post("/projects", operator, {"name": "other"}).status_code == 409
    # Nobody can show the text of a key again: who lost the answer learns which one to revoke.
    for admin in (operator, world.ours.headers("admin")):
        made = post("/keys", admin, {"name": "mail", "scopes": ["read"]}).json()["id"]
        refused = post("/keys", admin, {"name": "mail", "scopes": ["read"]})
        assert (refused.status_code, refused.json()["type"]) == (409, "urn:prefsvm:problem:idempotency-conflict")
        assert made in refused.json()["detail"]
        rotated = post(f"/keys/{made}/rotate", admin).json()["id"]
        assert rotated in post(f"/keys/{made}/rotate", admin).json()["detail"]
        assert {made, rotated} <= {key["id"] for key in world.client.get("/keys", headers=admin).json()["items"]}
        names = [key["name"] for key in world.client.get("/keys", headers=admin).json()["items"]]
        assert names.count("mail") == 2


def test_an_admin_of_a_project_makes_no_keys_for_others(world: World) -> None:
    body = {"name": "a", "scopes": ["read"], "project": DEFAULT_PROJECT}
    assert world.client.post("/keys", json=body, headers=world.ours.headers("admin")).status_code == 404
    with world.database.transaction() as session:
        held = session.execute(text("SELECT count(*) FROM api_keys WHERE project_id = :id"), {"id": DEFAULT_PROJECT})
        assert held.scalar_one() == 0


def test_without_keys_on_loopback_other_names_and_other_sites_are_refused(settings: Settings) -> None:
    with api_client(settings, allowed_hosts="mail.example") as client:
        assert client.get("/models").status_code == 200
        for host in ("evil.example", "127.0.0.1.evil.example", "", "[::2]"):
            answer = client.get("/models", headers={"Host": host})
            assert answer.status_code == 400, host
        for host in ("localhost:8000", "[::1]:1", "mail.example"):
            assert client.get("/models", headers={"Host": host}).status_code == 200, host
        page = {"Origin": "https://evil.example"}
        assert client.post("/datasets", files={"file": ("a.csv", b"a,b\n")}, headers=page).status_code == 403
        assert client.get("/models", headers={"Origin": "null"}).status_code == 403
        assert client.get("/models", headers={"Origin": str(client.base_url)}).status_code == 200
        # A key that is sent must be right, though none is needed.
        assert client.get("/models", headers=bearer(ApiKey.new().text)).status_code == 401


def test_headers_methods_and_pages(settings: Settings) -> None:
    with api_client(settings, docs=False) as client:
        answer = client.get("/models")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "Server" not in answer.headers
        origin = {"Origin": str(client.base_url), "Access-Control-Request-Method": "POST"}
        for answer in (client.get("/models", headers=origin), client.options("/models", headers=origin)):
            assert not [name for name in answer.headers if name.startswith("access-control")]
        assert client.request("TRACE", "/models").status_code == 405
        assert client.get("/docs").status_code == 404
        assert client.get("/openapi.json").status_code == 404


def test_limits(settings: Settings, database: Database, short_dir: Path) -> None:
    with api_client(settings, keys_required=True, bootstrap_key=SecretStr(ApiKey.new().text)) as client:
        operator = bearer(make_key(database, DEFAULT_PROJECT, "admin"))
        limits = {"requests_per_second": None, "queued_jobs": 2, "running_jobs": 1, "stored_bytes": 2000}
        project = client.post("/projects", json={"name": "small", "limits": limits}, headers=operator).json()
        key = bearer(make_key(database, project["id"], "read", "write"))
        dataset = store_dataset(database, project_id=project["id"])
        statuses = [client.post("/train", json=train_body(dataset), headers=key).status_code for _ in range(3)]
        assert statuses == [202, 202, 429]
        shown = client.get("/limits", headers=key).json()
        assert shown["limits"] == limits
        assert shown["usage"]["queued_jobs"] == 2
        # Too large by what it says, and too large by what comes.
        files = {"file": ("a.csv", b"age,label\n" + b"1,2\n" * 500)}
        for headers in (key, key | {"Idempotency-Key": "x"}):
            answer = client.post("/datasets", files=files, headers=headers)
            assert answer.status_code == 403
            assert answer.json()["type"] == "urn:prefsvm:problem:storage-quota-exceeded"
        tus = key | {"Tus-Resumable": "1.0.0", "Upload-Metadata": "format Y3N2"}
        room = limits["stored_bytes"] - shown["usage"]["stored_bytes"]
        begun = [client.post("/uploads", headers=tus | {"Upload-Length": str(n)}) for n in (room + 1, room, 1)]
        assert [answer.status_code for answer in begun] == [403, 201, 403]
        assert client.delete(begun[1].headers["Location"], headers=tus).status_code == 204
        assert client.get("/limits", headers=key).json()["usage"] == shown["usage"]
        again = client.post("/projects", json={"name": "small"}, headers=operator)
        assert again.json()["type"] == "urn:prefsvm:problem:project-exists"
        # The limits of one project are nothing to another.
        slow = {"limits": {"requests_per_second": 0.1, "queued_jobs": None}}
        assert client.patch(f"/projects/{project['id']}", json=slow, headers=operator).status_code == 200
        fresh = bearer(make_key(database, project["id"], "read"))
        answers = [client.get("/limits", headers=fresh) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 429, 429]
        assert int(answers[-1].headers["Retry-After"]) >= 1
        assert client.get("/projects", headers=operator).status_code == 200


def test_command_line(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap = ApiKey.new()
    with api_client(settings, keys_required=True, bootstrap_key=SecretStr(bootstrap.text)) as client:
        monkeypatch.setenv("PREFSVM_URL", str(client.base_url))

        def prefsvm(*arguments: str, key: str = bootstrap.text) -> str:
            done = CliRunner().invoke(cli.app, arguments, env={"PREFSVM_API_KEY": key, "COLUMNS": "200"})
            assert done.exit_code == 0, done.output
            return done.stdout

        refused = CliRunner().invoke(cli.app, ["keys", "list"])
        assert refused.exit_code == 1
        assert "set PREFSVM_API_KEY" in refused.stderr
        project = prefsvm("projects", "create", "mail", "--limit", "queued_jobs=3", "--limit", "stored_bytes=none")
        arguments = ("keys", "create", "reader", "--project", project.strip(), "--scope", "admin", "--scope", "read")
        key = prefsvm(*arguments).strip()
        listed = prefsvm("keys", "list", key=key)
        assert ApiKey.parse(key) is not None
        assert key[:12] in listed
        assert "admin read" in listed
        usage = prefsvm("projects", "usage", key=key)
        assert re.search(r"queued_jobs +0 +3", usage)
        assert re.search(r"stored_bytes +0 +no limit", usage)
        prefsvm("projects", "limit", project.strip(), "--limit", "queued_jobs=4")
        assert re.search(r"mail .* 4 ", prefsvm("projects", "list"))
        assert re.search(r"mail .* 4 ", prefsvm("projects", "show", project.strip()))
        new = prefsvm("keys", "rotate", key[:12], "--grace", "60", key=key).strip()
        assert prefsvm("jobs", key=new) is not None
        assert "is revoked" in prefsvm("keys", "revoke", new[:12], key=key)


@pytest.mark.parametrize(("tries", "quota"), [(40, 20), pytest.param(200, 100, marks=pytest.mark.slow)])
def test_many_at_once_get_no_more_than_the_quota(
    settings: Settings, database: Database, tries: int, quota: int
) -> None:
    with api_client(settings, keys_required=True) as client:
        limits = LimitsBody(queued_jobs=quota, requests_per_second=None)
        project = ProjectService(database, database).create(LOCAL, CreateProject(name="small", limits=limits)).id
        key = bearer(make_key(database, project, "write"))
        body = train_body(store_dataset(database, project_id=project))
        # Together, but for those few that might be beyond the connections that the service takes.
        connections = httpx.Limits(max_connections=190)
        with (
            httpx.Client(base_url=client.base_url, limits=connections, timeout=60, trust_env=False) as many,
            ThreadPoolExecutor(tries) as pool,
        ):
            answers = list(pool.map(lambda _: many.post("/train", json=body, headers=key), range(tries)))
    statuses = [answer.status_code for answer in answers]
    assert (statuses.count(202), statuses.count(429)) == (quota, tries - quota)
    assert {answer.json()["type"] for answer in answers if answer.status_code == 429} == {
        "urn:prefsvm:problem:queue-full"
    }
    with database.transaction() as session:
        assert session.execute(text("SELECT count(*) FROM jobs")).scalar_one() == quota


def test_no_more_jobs_of_a_project_run_than_may(database: Database) -> None:
    limits = LimitsBody(running_jobs=2)
    project = ProjectService(database, database).create(LOCAL, CreateProject(name="small", limits=limits)).id
    claims_of_workers, dispatching = JobClaims(30), JobDispatching(30, 15)
    jobs = {}
    with database.transaction() as session:
        for owner in (project, DEFAULT_PROJECT):
            jobs[owner] = [new_id("job") for _ in range(5)]
            for job_id in jobs[owner]:
                row = JobRow(id=job_id, project_id=owner, max_attempts=3, request={}, max_seconds=60)
                JobRepository(session, owner).enqueue(row)

    def claim(job_id: str) -> Claim | None:
        with database.transaction() as session:
            return claims_of_workers.claim(session, job_id)

    def due() -> set[str]:
        with database.transaction() as session:
            bells = dispatching.due_for_dispatch(session, 100)
            dispatching.mark_dispatched(session, bells)
            return {bell.job_id for bell in bells}

    bells = due()
    assert bells == {*jobs[project], *jobs[DEFAULT_PROJECT]}
    claims: list[Claim] = []
    with ThreadPoolExecutor(10) as pool:
        while bells:  # one may let another job run, whose project runs fewer, and is rung again
            claims += [claim for claim in pool.map(claim, bells) if claim is not None]
            bells = due()
    ours = [claim for claim in claims if claim.project_id == project]
    assert len(ours) == 2
    assert {claim.job_id for claim in claims} - set(jobs[project]) == set(jobs[DEFAULT_PROJECT])
    assert len(claims) == 7
    with database.transaction() as session:
        assert claims_of_workers.finish_failed(session, ours[0], {"code": "x", "message": "x"})
    # Those that were turned away are rung for again at once, not after `redispatch_seconds`.
    assert due() == set(jobs[project]) - {claim.job_id for claim in ours}


def test_every_query_of_a_call_names_the_project(world: World) -> None:
    """One that forgets it may still give the right answer today, because another one was asked before it.

    Rows may be read back by their id in the transaction that made them.
    """
    with world.database.transaction() as session:
        owned = set(session.scalars(text(TABLES_WITH_A_PROJECT)).all()) - {"api_keys"}  # the key says the project
    parts = {"job_events", "model_chunks", "operating_points"}
    assert {"datasets", "jobs", "models", "aliases"} <= owned
    tables = "|".join(sorted(owned | parts))
    seen, forgetful = 0, set()

    def look(connection: Connection, _: object, statement: str, *__: object) -> None:
        nonlocal seen
        if made := re.match(r"INSERT INTO (\w+)", statement):
            connection.info.setdefault("made", set()).add(made[1])
        elif "SKIP LOCKED" in statement or statement.startswith("UPDATE uploads SET claimed_until=(now()"):
            return  # work of all projects that the process looks for by itself, and claims that the clock left behind
        elif found := re.search(rf"(FROM|JOIN|UPDATE) ({tables})\b", statement):
            seen += 1
            _, _, condition = statement.partition("WHERE")
            reads_back = statement.startswith("SELECT") and found[2] in connection.info.get("made", ())
            if not re.search(r"\bproject_id = ", condition) and not reads_back:
                forgetful.add(statement)

    def forget(connection: Connection) -> None:
        connection.info.pop("made", None)

    listeners = {"before_cursor_execute": look, "commit": forget, "rollback": forget}
    for name, listener in listeners.items():
        event.listen(Engine, name, listener)
    try:
        called = [o for o in operations(world.client) if o.id not in OPEN | DEFAULT_PROJECT_SCOPES["read"]]
        later = [o for o in called if o.method == "DELETE" and o.id != "deleteFeedback"]  # which goes with its alias
        for operation in [o for o in called if o not in later]:
            for ids in (world.ours.ids, UNKNOWN_IDS):
                world.client.request(**operation.request(ids, world.ours.headers()))
        with world.database.transaction() as session:  # now no job uses anything any more, and no alias after the first
            ended = text("UPDATE jobs SET status = 'cancelled', finished_at = now() WHERE project_id = :id")
            session.execute(ended, {"id": world.ours.project_id})
        order = ["deleteAliasShadow", "deleteAlias"]  # what they point at is in use until then
        for operation in sorted(later, key=lambda each: order.index(each.id) if each.id in order else len(order)):
            answer = world.client.request(**operation.request(world.ours.ids, world.ours.headers()))
            assert answer.status_code == 204, answer.text
    finally:
        for name, listener in listeners.items():
            event.remove(Engine, name, listener)
    assert forgetful == set()
    assert seen > 50

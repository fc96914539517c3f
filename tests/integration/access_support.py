"""Helpers of the access tests: two projects that must not see each other, and every operation of the document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from api_support import CSV, store_model, train_body
from sqlalchemy import text

from service.access.caller import LOCAL, Scope
from service.access.schemas import CreateKey, CreateProject
from service.access.service import KeyService, ProjectService
from service.db.session import Database
from service.db.tables import AuditItemRow, AuditRow
from service.identifiers import new_id


@dataclass
class Tenant:
    """A project with one thing of each kind."""

    project_id: str
    keys: dict[str, str]
    """Text of its keys, by scope; ``all`` has every scope."""
    ids: dict[str, str] = field(default_factory=dict)
    """A value for each parameter in a path that names something of a project."""

    def headers(self, key: str = "all") -> dict[str, str]:
        return bearer(self.keys[key])


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def speak_tus(request: httpx.Request) -> None:
    """Add to a request of a resumable upload what its protocol wants: a hook for the client."""
    if request.url.path.startswith("/uploads"):
        request.headers.update({"Tus-Resumable": "1.0.0", "Upload-Length": "1000", "Upload-Offset": "0"})
        request.headers.update({"Upload-Metadata": "format Y3N2", "Content-Type": "application/offset+octet-stream"})


def make_key(database: Database, project_id: str, *scopes: Scope, **changes: Any) -> str:
    """Return the text of a new key."""
    body = CreateKey(name="test", scopes=list(scopes), project=project_id, **changes)
    return KeyService(database, database).create(LOCAL, body).key


def make_tenant(database: Database, name: str, project_id: str | None = None) -> Tenant:
    """Make a project without limits (or take one), and keys of it."""
    if project_id is None:
        nothing = {"requests_per_second": None, "queued_jobs": None, "running_jobs": None, "stored_bytes": None}
        project_id = ProjectService(database, database).create(LOCAL, CreateProject(name=name, limits=nothing)).id
    keys = {scope: make_key(database, project_id, scope) for scope in ("read", "write", "admin")}
    keys["all"] = make_key(database, project_id, "read", "write", "admin")
    return Tenant(project_id, keys)


def fill(client: httpx.Client, database: Database, folder: Path, tenant: Tenant) -> None:
    """Give a project one thing of each kind."""
    # With its bytes, which some calls show.
    dataset = client.post("/datasets", files={"file": ("mails.csv", CSV)}, headers=tenant.headers()).json()
    job = client.post("/train", json=train_body(dataset), headers=tenant.headers()).json()
    model = store_model(database, folder, project_id=tenant.project_id)
    aliased = {"model": model, "shadow": store_model(database, folder, project_id=tenant.project_id)}
    for path, body in ((f"/models/{model}/operating-points", {"apply": True}), ("/aliases/ours", aliased)):
        method = "PUT" if "aliases" in path else "POST"
        client.request(method, path, json=body, headers=tenant.headers()).raise_for_status()
    batch = client.post("/batches", json={"model": model, "dataset": dataset["id"]}, headers=tenant.headers()).json()
    asked = {"model": model, "dataset": dataset["id"], "objective": {"kind": "recall", "target": 0.9}}
    audit = client.post("/audits", json=asked, headers=tenant.headers()).json()
    draw_rows(database, audit["id"])
    upload = client.post("/uploads", headers=tenant.headers()).json()
    corrected = {"alias": "ours", "rows": [{"age": 39, "job": "clerk"}], "labels": ["ham"]}
    feedback = client.post("/feedback", json=corrected, headers=tenant.headers()).json()
    webhook = client.post("/webhooks", json={"url": "https://example.com/"}, headers=tenant.headers()).json()
    tenant.ids |= {
        "webhook_id": webhook["id"],
        "feedback_id": feedback["id"],
        "upload_id": upload["id"],
        "batch_id": batch["id"],
        "audit_id": audit["id"],
        "version": model,
        "dataset_id": dataset["id"],
        "job_id": job["id"],
        "model_id": model,
        "name": "ours",
        "key_id": tenant.keys["read"].rpartition("_")[0],
        "project_id": tenant.project_id,
    }


def draw_rows(database: Database, audit_id: str) -> None:
    """Write what a worker draws for an audit: row 7, for which the model says spam."""
    stratum = {"called": True, "rows": 20, "share": 1.0}
    pool = {
        **{"rows": 20, "called_positive": 20, "labelled": 40, "drawn": 1, "threshold": 0.25},
        **{"positive": "spam", "negative": "ham", "warnings": [], "strata": [stratum], "meant": {}},
    }
    with database.transaction() as session:
        audit = session.get_one(AuditRow, audit_id)
        audit.pool = pool
        item = AuditItemRow(audit_id=audit_id, position=1, row=7, stratum=0, score=1.0, content=b'{"age": 27}')
        session.add(item)


UNKNOWN_IDS = {
    "webhook_id": new_id("wh"),
    "feedback_id": new_id("fb"),
    "upload_id": new_id("up"),
    "batch_id": new_id("job"),
    "audit_id": new_id("aud"),
    "version": new_id("mdl"),
    "dataset_id": new_id("ds"),
    "job_id": new_id("job"),
    "model_id": new_id("mdl"),
    "name": "nobodys",
    "key_id": "pfs_00000000",
    "project_id": new_id("prj"),
}
"""Ids of the right form of which there is nothing. A path parameter that is not here nor below fails the tests."""
INPUTS = [
    {"name": "age", "shape": [1], "datatype": "FP64", "data": [39]},
    {"name": "job", "shape": [1], "datatype": "BYTES", "data": ["clerk"]},
]
PLAIN_PARAMETERS = {"kind": "pr"}
"""Parameters in a path that name nothing of a project."""


def bodies(ids: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Return the arguments of httpx for a good body of each operation that takes one, with these ids in it."""
    return {
        "createDataset": {"files": {"file": ("a.csv", CSV)}},
        "createKey": {"json": {"name": "new", "scopes": ["read"], "project": ids["project_id"]}},
        "createProject": {"json": {"name": "new"}},
        "changeProject": {"json": {"limits": {"queued_jobs": 7}}},
        "train": {"json": train_body({"id": ids["dataset_id"]})},
        "addFeedback": {
            "json": {"alias": ids["name"], "rows": [{"age": 39, "job": "clerk"}], "labels": ["ham"]},
        },
        "createWebhook": {"json": {"url": "https://example.com/"}},
        "cancelJob": {"json": {"keep_best": True}},
        "appendToUpload": {"content": b"a,b\n"},
        "correctDataset": {"json": {"columns": {"age": "category"}}},
        "infer": {"json": {"inputs": INPUTS}},
        "inferVersion": {"json": {"inputs": INPUTS}},
        "createAudit": {
            "json": {
                "model": ids["model_id"],
                "dataset": ids["dataset_id"],
                "objective": {"kind": "precision", "target": 0.9},
            }
        },
        "answerAudit": {"json": {"rows": [7], "labels": ["ham"]}},
        "sealAudit": {"json": {"alias": ids["name"]}},
        "createBatch": {"json": {"model": ids["model_id"], "dataset": ids["dataset_id"]}},
        "chooseOperatingPoint": {"json": {"objective": {"kind": "f1"}, "apply": True}},
        "putAlias": {"json": {"model": ids["model_id"]}},
        "predict": {"json": {"model": ids["model_id"], "rows": [{"age": 39, "job": "clerk"}]}},
    }


@dataclass(frozen=True)
class Operation:
    """One operation of the OpenAPI document."""

    id: str
    method: str
    path: str
    described: dict[str, Any]

    @property
    def parameters(self) -> list[str]:
        return re.findall(r"{(\w+)}", self.path)

    def request(self, ids: dict[str, str], headers: dict[str, str] | None = None) -> dict[str, Any]:
        """Return the arguments of ``httpx.Client.request`` for a good call that names these ids."""
        values = PLAIN_PARAMETERS | ids
        missing = [name for name in self.parameters if name not in values]
        assert not missing, f"access_support.py does not know what {missing} of {self.path} name: say so there"
        body = bodies(ids).get(self.id, {})
        required = self.described.get("requestBody", {}).get("required", False)
        assert body or not required, f"access_support.py has no body for {self.id}: add one"
        return {"method": self.method, "url": self.path.format(**values), "headers": headers or {}, **body}


def operations(client: httpx.Client) -> list[Operation]:
    """Return every operation of the document that the service gives."""
    return [
        Operation(described["operationId"], method.upper(), path, described)
        for path, methods in client.get("/openapi.json").json()["paths"].items()
        for method, described in methods.items()
    ]


def rows_of_all_tables(database: Database) -> dict[str, list[str]]:
    """Return every row of the database as text, but for when a key was used last."""
    with database.transaction() as session:
        tables = session.scalars(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")).all()
        return {table: list(_rows(session, table)) for table in tables}


def _rows(session: Any, table: str) -> Iterator[str]:
    yield from session.scalars(text(f"SELECT (to_jsonb(t) - 'last_used_at')::text FROM {table} t ORDER BY 1"))

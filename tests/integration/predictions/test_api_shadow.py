"""A shadow decides on what its alias answers, and has no say in it."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from api_support import api_client, store_model, text_model, tiny_model
from sqlalchemy import text
from worker_bench import wait_for

from service.blobs.store import BlobStore
from service.db.session import Database
from service.predictions import shadow as shadow_module
from service.retention import Keeper
from service.settings import Settings

ROWS = [{"age": age, "job": "clerk"} for age in (20, 30, 50, 60)]


@pytest.fixture
def models(database: Database, tmp_path: Path) -> tuple[str, str]:
    """Ids of a model, and of one that calls everything spam."""
    return store_model(database, tmp_path), store_model(database, tmp_path, tiny_model(threshold=-1e6))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_module, "FLUSH_SECONDS", 0.05)


def predict(client: httpx.Client, rows: list[dict[str, Any]] = ROWS) -> dict[str, Any]:
    answer = client.post("/predict", json={"model": "filter", "rows": rows})
    assert answer.status_code == 200, answer.text
    return answer.json()


def compared(client: httpx.Client, enough: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Predict until the figures of the shadow are as wanted, and return them."""
    found: dict[str, Any] = {}

    def look() -> bool:
        found.clear()
        found.update(client.get("/aliases/filter/shadow?limit=100").json())
        return enough(found)

    wait_for(look, 40)
    return found


def known(client: httpx.Client) -> None:
    """Wait until the process knows of the shadow: it looks at the first prediction by an alias, which counts too."""
    predict(client, ROWS[:1])
    wait_for(lambda: client.get("/aliases/filter/shadow").json()["rows"] == 1, 40)


def settled(client: httpx.Client) -> None:
    """Wait until all that was put by is written."""
    seen = [-1]

    def look() -> bool:
        time.sleep(0.25)
        seen.append(client.get("/aliases/filter/shadow").json()["rows"])
        return seen[-1] == seen[-2]

    wait_for(look, 40)


def test_a_shadow_is_given_taken_and_promoted(settings: Settings, database: Database, models: tuple[str, str]) -> None:
    model, other = models
    with api_client(settings) as client:

        def put(**body: Any) -> httpx.Response:
            return client.put("/aliases/filter", json=body)

        assert put(model=model).json()["shadow_id"] is None
        assert client.get("/aliases/filter/shadow").json()["type"] == "urn:prefsvm:problem:no-shadow"
        assert client.get("/aliases/other/shadow").json()["type"] == "urn:prefsvm:problem:alias-not-found"
        assert put(model=model, shadow=other).json()["shadow_id"] == other
        assert put(model=model).json()["shadow_id"] == other  # nothing was said of it
        assert client.get("/aliases").json()["items"][0]["shadow_id"] == other
        assert client.get("/aliases/filter/shadow").json() | {"rows": 0, "since": None, "latest": []} == (
            client.get("/aliases/filter/shadow").json()
        )
        for wrong in (model, "mdl_" + 32 * "0", "x"):
            refused = put(model=model, shadow=wrong)
            assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "body.shadow")
        in_use = client.delete(f"/models/{other}")
        assert (in_use.status_code, in_use.json()["type"]) == (409, "urn:prefsvm:problem:model-in-use")
        keeper = Keeper(
            settings.model_copy(update={"retain_models_days": 0}), database, BlobStore(settings.blob_location)
        )
        assert keeper.sweep() == {}
        # The shadow takes over, and the history knows what was before.
        assert put(model=other).json() | {"updated_at": None} == {
            "name": "filter", "model_id": other, "shadow_id": None, "updated_at": None
        }  # fmt: skip
        assert client.post("/aliases/filter/rollback").json()["model_id"] == model
        assert put(model=model, shadow=other).json()["shadow_id"] == other
        assert put(model=model, shadow=None).json()["shadow_id"] is None
        # For clients that cannot send null.
        assert put(model=model, shadow=other).json()["shadow_id"] == other
        assert client.delete("/aliases/filter/shadow").status_code == 204
        assert client.get("/aliases/filter").json()["shadow_id"] is None
        assert client.delete("/aliases/filter/shadow").json()["type"] == "urn:prefsvm:problem:no-shadow"
        assert client.delete("/aliases/other/shadow").json()["type"] == "urn:prefsvm:problem:alias-not-found"
        assert client.delete(f"/models/{other}").status_code == 204


@pytest.mark.usefixtures("quick")
def test_it_decides_on_the_same_rows_and_the_answer_is_the_models(
    settings: Settings, models: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    model, other = models
    caplog.set_level(logging.INFO)
    with api_client(settings) as client:
        client.put("/aliases/filter", json={"model": model})
        alone = predict(client)
        client.put("/aliases/filter", json={"model": model, "shadow": other})
        known(client)
        before = client.get("/aliases/filter/shadow").json()
        assert predict(client) == alone
        found = compared(client, lambda now: now["rows"] >= before["rows"] + 4)
        assert [each["label"] for each in alone["predictions"]] == ["ham", "ham", "spam", "spam"]
        assert found["rows"] - before["rows"] == 4
        assert found["disagreements"] - before["disagreements"] == 2
        assert {(each["label"], each["shadow_label"]) for each in found["pairs"]} == {("ham", "spam"), ("spam", "spam")}
        assert (found["model_id"], found["shadow_id"], found["dropped"], found["failed"]) == (model, other, 0, 0)
        second, first = found["latest"][:2]
        assert first["row_sha256"] == hashlib.sha256(orjson.dumps(ROWS[0], option=orjson.OPT_SORT_KEYS)).hexdigest()
        assert (first["label"], first["shadow_label"], second["label"]) == ("ham", "spam", "ham")
        assert first["score"] == alone["predictions"][0]["score"] == first["shadow_score"]
        # It is what the model itself meets that counts as its drift.
        assert client.get(f"/models/{other}/drift").json()["rows"] == 0
        # By its id a model answers alone.
        client.post("/predict", json={"model": model, "rows": ROWS})
    lines = [record for record in caplog.records if record.message == "a shadow disagreed"]
    assert lines
    assert set(lines[0].__dict__["fields"]) == {
        "project_id", "alias", "model_id", "shadow_id", "rows", "disagreements"
    }  # fmt: skip
    assert "clerk" not in caplog.text


@pytest.mark.usefixtures("quick")
def test_what_does_not_fit_a_shadow_fails_no_answer(
    settings: Settings, database: Database, models: tuple[str, str], tmp_path: Path
) -> None:
    texts = store_model(database, tmp_path, text_model(("body",)))
    with api_client(settings) as client:
        client.put("/aliases/filter", json={"model": models[0], "shadow": texts})
        predict(client)
        wait_for(lambda: bool(predict(client)) and client.get("/aliases/filter/shadow").json()["failed"] >= 4, 40)
        client.put("/aliases/filter", json={"model": texts, "shadow": models[0]})
        body = {"model": "filter", "texts": ["see you at the meeting"]}
        assert client.post("/predict", json=body).status_code == 200
        wait_for(
            lambda: (
                client.post("/predict", json=body).is_success
                and client.get("/aliases/filter/shadow").json()["failed"] >= 1
            ),
            20,
        )
        assert client.get("/aliases/filter/shadow").json()["rows"] == 0


@pytest.mark.usefixtures("quick")
def test_rows_are_dropped_and_counted_when_it_is_behind(
    settings: Settings, models: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with api_client(settings) as client:
        client.put("/aliases/filter", json={"model": models[0], "shadow": models[1]})
        known(client)
        monkeypatch.setattr(shadow_module, "MAX_WAITING_BYTES", 10)
        before = client.get("/aliases/filter/shadow").json()["dropped"]
        predict(client)
        compared(client, lambda now: now["dropped"] == before + 4)
        monkeypatch.undo()
        monkeypatch.setattr(shadow_module, "FLUSH_SECONDS", 0.05)
        monkeypatch.setattr(shadow_module, "MAX_ROWS", 3)
        predict(client)
        compared(client, lambda now: now["dropped"] == before + 5)


@pytest.mark.usefixtures("quick")
def test_only_the_last_disagreements_are_kept(
    settings: Settings, database: Database, models: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.models.shadows.KEPT", 5)
    with api_client(settings) as client:
        client.put("/aliases/filter", json={"model": models[0], "shadow": models[1]})
        known(client)
        for _ in range(3):
            predict(client, [ROWS[0]] * 4)
        found = compared(client, lambda now: now["disagreements"] >= 13)
        assert len(found["latest"]) == 5
        with database.transaction() as session:
            assert session.scalar(text("SELECT count(*) FROM shadow_disagreements")) == 5
        client.put("/aliases/filter", json={"model": models[0], "shadow": None})
        assert client.delete(f"/models/{models[1]}").status_code == 204
        with database.transaction() as session:
            assert session.scalar(text("SELECT count(*) FROM shadow_disagreements")) == 0

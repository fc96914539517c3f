"""``POST /predict`` answers on its shortcut as it would on FastAPI's way."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from api_support import api_client, store_model
from fastapi import FastAPI

from service.api.predict_shortcut import Application
from service.db.session import Database
from service.settings import Settings


def test_answers_and_errors_are_those_of_the_longer_way(
    settings: Settings, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = store_model(database, tmp_path)
    bodies = [
        {"model": model, "rows": [{"age": 30, "job": "cook"}]},
        {"model": model, "rows": [{}]},
        {"model": "nobody", "rows": [{}]},
        {"model": model, "rows": 1},
        {"model": model, "texts": ["a"]},
    ]

    def ask() -> list[tuple[int, set[str], dict[str, object]]]:
        with api_client(settings) as client:
            answers: list[httpx.Response] = [client.post("/predict", json=body) for body in bodies]
            answers.append(client.post("/predict", content=b"{", headers={"Content-Type": "application/json"}))
            answers.append(client.post("/predict", content=b"{}", headers={"Content-Type": "text/plain"}))
            answers.append(client.get("/predict"))
        return [(a.status_code, set(a.headers), a.json() | {"request_id": None}) for a in answers]

    short = ask()
    monkeypatch.setattr(Application, "__call__", FastAPI.__call__)
    assert short == ask()
    assert [status for status, _, _ in short] == [200, 422, 404, 422, 422, 422, 415, 405]

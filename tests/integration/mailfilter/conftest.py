"""A small model of mails under the name that the filter asks for, and the filter before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_support import api_client, store_model, text_model
from mail_support import Door, mail_door

from service.db.session import Database
from service.settings import Settings


@pytest.fixture(scope="module")
def model() -> Any:
    return text_model(("subject", "body"))


@pytest.fixture
def api(settings: Settings, database: Database, tmp_path: Path, model: Any) -> Iterator[httpx.Client]:
    with api_client(settings) as client:
        client.put("/aliases/spam-filter", json={"model": store_model(database, tmp_path, model)})
        yield client


@pytest.fixture
def door(settings: Settings, api: httpx.Client) -> Iterator[Door]:
    with mail_door(settings) as opened:
        yield opened

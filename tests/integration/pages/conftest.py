"""A service that the tests of a file share: to start one takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_support import api_client, upload
from pages_support import Place

from service.db.session import Database
from service.settings import Settings


@pytest.fixture(scope="module")
def place(module_settings: Settings, module_dir: Path) -> Iterator[Place]:
    """A service with a data set, whose names and lists the tests of a file share."""
    database = Database(str(module_settings.database_url))
    with api_client(module_settings) as client:
        yield Place(client, database, module_dir, upload(client)["id"])
    database.close()

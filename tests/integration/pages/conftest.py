"""A service that the tests of a file share: to start one takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_support import api_client, reading_here, upload
from pages_support import Place

from service.db.session import Database
from service.settings import Settings


@pytest.fixture(scope="module")
def place(module_settings: Settings, module_dir: Path) -> Iterator[Place]:
    """A service with a data set, whose names and lists the tests of a file share."""
    database = Database(str(module_settings.database_url))
    with api_client(module_settings) as client:
        with pytest.MonkeyPatch.context() as patch:
            reading_here(patch)
            dataset = upload(client)["id"]
        yield Place(client, database, module_dir, dataset)
    database.close()

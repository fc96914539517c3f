"""Lists of wide things: a page costs by its items, not by the columns that each of them has."""

from __future__ import annotations

import json

import httpx
import psutil
import pytest
from api_support import api_process, store_dataset, store_model
from sqlalchemy import text
from test_api_wrong_bodies import peak_of, seconds_of, start_peak_anew

from service.datasets import repository
from service.datasets.repository import DatasetRepository, with_columns
from service.db.session import Database
from service.db.tables import DEFAULT_PROJECT, JobRow
from service.identifiers import new_id

WIDE = 9000
ITEMS = 12


def processor_seconds_of_models(client: httpx.Client, database: Database, limit: int) -> float:
    """Return what ten pages of models cost Postgres, which unpacks their reports: a neighbour may have the cores."""
    with database.transaction() as session:
        found = session.execute(text("SELECT pid FROM pg_stat_activity WHERE datname = current_database()"))
        backends = [psutil.Process(pid) for (pid,) in found if pid is not None]
    before = [seconds_of(backend) for backend in backends]
    for _ in range(10):
        assert client.get("/models", params={"limit": limit}).status_code == 200
    return sum(map(seconds_of, backends)) - sum(before)


def test_a_page_of_wide_things_is_as_small_as_one_of_narrow_ones(settings, database, tmp_path):
    """A page of 100 data sets of 9,000 columns had 210 MB."""
    for _ in range(ITEMS):
        store_dataset(database)
        store_model(database, tmp_path)
    names = [f"gene_{number}" for number in range(WIDE)]
    request = {"dataset": "x", "objective": {"kind": "f1"}, "features": {"include": ["age"]}}
    with database.transaction() as session:
        for _ in range(ITEMS):
            row = JobRow(id=new_id("job"), project_id=DEFAULT_PROJECT, max_attempts=3, max_seconds=60, request=request)
            session.add(row)
    paths = ("/datasets", "/models", "/jobs")
    with api_process(settings, tmp_path / "log") as (client, running):
        process = psutil.Process(running.pid)
        narrow = {path: len(client.get(path, params={"limit": 100}).content) for path in paths}
        columns = json.dumps([{"name": name, "kind": "number", "min": 0.5, "max": 1.5} for name in names])
        with database.transaction() as session:
            for change in (
                "UPDATE datasets SET columns = CAST(:columns AS jsonb)",
                "UPDATE models SET report = jsonb_set(report, '{columns}', CAST(:columns AS jsonb))",
                "UPDATE jobs SET request = jsonb_set(request, '{features,include}', CAST(:columns AS jsonb))",
            ):
                session.execute(text(change), {"columns": columns})
        for path in paths:
            before = start_peak_anew(process)
            answer = client.get(path, params={"limit": 100})
            assert len(answer.json()["items"]) == ITEMS
            assert len(answer.content) < 1.1 * narrow[path], path
            assert peak_of(process) - before < 10_000_000, path
        first, whole = (processor_seconds_of_models(client, database, limit) for limit in (1, ITEMS))
        assert first < whole / 2
        one = client.get("/datasets", params={"limit": 1}).json()["items"][0]
        assert one["column_count"] == WIDE
        assert len(client.get(f"/datasets/{one['id']}").json()["columns"]) == WIDE
        job = client.get("/jobs", params={"limit": 1}).json()["items"][0]
        assert job["request"] == {"dataset": "x", "objective": {"kind": "f1"}}
        assert len(client.get(f"/jobs/{job['id']}").json()["request"]["features"]["include"]) == WIDE


def test_columns_are_compared_in_time_that_grows_with_their_number(database: Database) -> None:
    """A data set of 20,000 columns took 26 s of Postgres, each time that somebody opened the page to try a model."""
    names = [f"gene_{number}" for number in range(19_998)] + ['a "name"', "{ä,\\u0041}"]
    other, fitting = store_dataset(database)["id"], store_dataset(database)["id"]
    columns = json.dumps([{"name": name, "kind": "number", "min": 0.5, "max": 1.5} for name in [*names[::-1], "label"]])
    with database.transaction() as session:
        session.execute(
            text("UPDATE datasets SET columns = CAST(:columns AS jsonb) WHERE id = :id"),
            {"columns": columns, "id": fitting},
        )
    for wanted, found in ((names, [fitting]), ([*names, "no such column"], []), (["label"], [fitting, other])):
        with database.transaction() as session:
            session.execute(text("SET LOCAL statement_timeout = '5s'"))
            rows = DatasetRepository(session, DEFAULT_PROJECT).summaries(None, 20, with_columns(wanted))
        assert [row.id for row in rows] == found


@pytest.mark.parametrize("bound", ["MOST_LOOKED_AT", "MOST_BYTES_LOOKED_AT"])
def test_a_page_looks_at_so_many_columns_and_says_where_it_goes_on(bound, client, database, tmp_path, monkeypatch):
    fitting = store_dataset(database)["id"]
    with database.transaction() as session:
        for _ in range(3):
            other = store_dataset(database)["id"]
            session.execute(text("UPDATE datasets SET columns = '[]' WHERE id = :id"), {"id": other})
    monkeypatch.setattr(repository, bound, 2)
    asked = {"fits": store_model(database, tmp_path), "limit": 20}
    pages = [client.get("/datasets", params=asked).json()]
    while pages[-1]["next_cursor"] is not None:
        assert len(pages) < 9
        pages.append(client.get("/datasets", params=asked | {"cursor": pages[-1]["next_cursor"]}).json())
    assert len(pages) > 1
    assert [each["id"] for page in pages for each in page["items"]] == [fitting]

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
        told = [
            client.get(f"/datasets/{one['id']}", params={"columns_from": first}).json()["columns"]
            for first in range(0, WIDE, 1000)
        ]
        assert [column["name"] for part in told for column in part] == names
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


def test_what_is_told_of_an_upload_of_very_many_columns_is_bounded(settings, database, tmp_path):
    """Six rows of 50,000 columns were answered by 19 MB, for which the API took 900 MB."""
    names = ["label", *(f"gene_{number}" for number in range(20_000))]
    values = ("\n" + ",".join([("ham", "spam")[row % 2], *[str(row)] * 20_000]) for row in (3, 1, 4, 1, 5, 9))
    with api_process(settings, tmp_path / "log") as (client, running):
        process = psutil.Process(running.pid)
        before = start_peak_anew(process)
        made = client.post("/datasets", params={"format": "csv"}, content=",".join(names) + "".join(values), timeout=60)
        assert made.status_code == 201
        assert peak_of(process) - before < 120_000_000
        path = f"/datasets/{made.json()['id']}"
        rows = client.get(f"{path}/rows", params={"limit": 3})  # it loads what reads Parquet
        before = start_peak_anew(process)
        answers = [made, client.get(path), rows, client.get(f"{path}/rows"), client.get(f"{path}/histograms")]
        assert peak_of(process) - before < 30_000_000
        assert [answer.status_code for answer in answers] == [201, 200, 200, 200, 200]
        assert max(len(answer.content) for answer in answers) < 500_000
        for told in (answer.json() for answer in answers[:2]):
            assert told["column_count"] == len(names)
            assert [column["name"] for column in told["columns"]] == names[:1000]
        assert list(rows.json()["items"][0]) == names[:1000]
        assert [each["column"] for each in answers[4].json()["columns"]] == names[1:1000]
        last = client.get(path, params={"columns_from": 20_000}).json()["columns"]
        assert [column["name"] for column in last] == names[-1:]
        assert client.get(path, params={"columns_from": 20_001}).json()["columns"] == []
        named = {"column": [names[-1], names[5]]}
        answer = client.get(f"{path}/rows", params=named)
        assert answer.status_code == 200, answer.text
        assert answer.json()["items"][0] == {names[-1]: 3, names[5]: 3}
        spread = client.get(f"{path}/histograms", params=named).json()["columns"]
        assert [each["column"] for each in spread] == [names[5], names[-1]]
        assert client.get(f"{path}/rows", params={"column": ["gene_1", "gene_20000"]}).status_code == 422

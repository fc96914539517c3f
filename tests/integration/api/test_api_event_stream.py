"""``GET /jobs/{id}/events`` as server-sent events, on the real application."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest
from api_support import counts, store_dataset, train_body
from worker_bench import wait_for

from service.db.session import Database
from service.jobs import feed
from service.jobs.claims import Claim, Event, JobClaims
from service.settings import Settings

STREAM = {"Accept": "text/event-stream"}
JOBS = JobClaims(30)


def new_job(client: httpx.Client, database: Database) -> str:
    return client.post("/train", json=train_body(store_dataset(database))).json()["id"]


def claimed(database: Database, job_id: str) -> Claim:
    with database.transaction() as session:
        claim = JOBS.claim(session, job_id)
    assert claim is not None
    return claim


def report(database: Database, claim: Claim, fraction: float) -> None:
    with database.transaction() as session:
        event = Event("progress", {"phase": "training", "progress": fraction})
        assert JOBS.record_progress(session, claim, "training", fraction, [event])


def fail(database: Database, claim: Claim) -> None:
    with database.transaction() as session:
        assert JOBS.finish_failed(session, claim, {"code": "one_class", "message": "no"})


def parsed(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """Events of a stream, as a browser reads them; a comment is an event without fields."""
    fields: dict[str, str] = {}
    for line in lines:
        if line.startswith(":"):
            yield {}
        elif line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield fields
            fields = {}


def test_the_events_come_live_and_the_stream_ends_with_the_last_one(client: httpx.Client, database: Database) -> None:
    job_id = new_job(client, database)
    with client.stream("GET", f"/jobs/{job_id}/events", headers=STREAM) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        events = parsed(response.iter_lines())
        assert next(events)["event"] == "queued"
        claim = claimed(database, job_id)
        assert next(events)["event"] == "started"
        for step in range(3):
            report(database, claim, step / 10)
            event = next(events)  # the job goes on, so this one has not waited for its end
            assert json.loads(event["data"])["data"]["progress"] == step / 10
        fail(database, claim)
        rest = list(events)
    assert [event["event"] for event in rest] == ["finished"]
    page = client.get(f"/jobs/{job_id}/events").json()["items"]
    with client.stream("GET", f"/jobs/{job_id}/events", headers=STREAM) as response:
        again = list(parsed(response.iter_lines()))
    assert [json.loads(event["data"]) for event in again] == page
    assert [int(event["id"]) for event in again] == [event["id"] for event in page]


def test_who_was_cut_off_goes_on_where_it_was(client: httpx.Client, database: Database) -> None:
    job_id = new_job(client, database)
    claim = claimed(database, job_id)
    with client.stream("GET", f"/jobs/{job_id}/events", headers=STREAM) as response:
        events = parsed(response.iter_lines())
        last = [next(events), next(events)][-1]["id"]
    report(database, claim, 0.5)
    fail(database, claim)
    with client.stream("GET", f"/jobs/{job_id}/events", headers={**STREAM, "Last-Event-ID": last}) as response:
        rest = list(parsed(response.iter_lines()))
    assert [event["event"] for event in rest] == ["progress", "finished"]
    # A browser connects again after each end, until it is told that there is nothing more.
    done = client.get(f"/jobs/{job_id}/events", headers={**STREAM, "Last-Event-ID": rest[-1]["id"]})
    assert (done.status_code, done.content) == (204, b"")


def test_who_names_an_event_that_is_not_there_hears_of_the_end_all_the_same(
    client: httpx.Client, database: Database
) -> None:
    job_id = new_job(client, database)
    claim = claimed(database, job_id)
    late = {**STREAM, "Last-Event-ID": "9999999999"}
    with client.stream("GET", f"/jobs/{job_id}/events", headers=late) as response:
        fail(database, claim)
        assert [event["event"] for event in parsed(response.iter_lines())][-1] == "finished"


def test_what_is_wrong_is_said_before_the_stream_begins(client: httpx.Client, database: Database) -> None:
    job_id = new_job(client, database)
    unknown = client.get(f"/jobs/job_{'0' * 32}/events", headers=STREAM)
    assert (unknown.status_code, unknown.headers["content-type"]) == (404, "application/problem+json")
    for number in ("x", "-1", str(2**63)):
        wrong = client.get(f"/jobs/{job_id}/events", headers={**STREAM, "Last-Event-ID": number})
        assert wrong.status_code == 422, number
    assert client.get(f"/jobs/{job_id}/events", headers={"Accept": "text/html"}).status_code == 406
    both = client.get(f"/jobs/{job_id}/events", headers={"Accept": "text/event-stream;q=0.5, application/json"})
    assert both.json()["items"]


def test_nobody_follows_for_ever_and_a_defect_does_not_end_the_feed(
    client: httpx.Client, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "LONGEST_SECONDS", 0.3)
    job_id = new_job(client, database)
    look = feed.events_after
    broken = [True]

    def failing(*arguments: Any) -> Any:
        if broken:
            broken.pop()
            raise ValueError("a defect")
        return look(*arguments)

    monkeypatch.setattr(feed, "events_after", failing)
    with client.stream("GET", f"/jobs/{job_id}/events", headers=STREAM) as answer:
        list(parsed(answer.iter_lines()))  # ends although the job has not
    monkeypatch.setattr(feed, "LONGEST_SECONDS", 60)
    with client.stream("GET", f"/jobs/{job_id}/events", headers=STREAM) as answer:
        assert next(parsed(answer.iter_lines()))["event"] == "queued"
    assert not broken


def test_a_quiet_stream_says_that_it_is_there(
    client: httpx.Client, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.jobs.service.KEEP_ALIVE_SECONDS", 0.2)
    job_id = new_job(client, database)
    with client.stream("GET", f"/jobs/{job_id}/events", headers=STREAM) as response:
        events = parsed(response.iter_lines())
        assert [bool(next(events)) for _ in range(3)].count(False) >= 2


def test_a_hundred_listeners_cost_no_connection_and_no_thread_each(
    client: httpx.Client, settings: Settings, database: Database
) -> None:
    jobs = [new_job(client, database) for _ in range(4)]
    claims = [claimed(database, job_id) for job_id in jobs]
    connected = []

    async def listen(number: int, go_on: asyncio.Event) -> list[str]:
        kinds = []
        async with (
            httpx.AsyncClient(base_url=client.base_url, timeout=60, trust_env=False) as own,
            own.stream("GET", f"/jobs/{jobs[number % 4]}/events", headers=STREAM) as response,
        ):
            async for line in response.aiter_lines():
                if line.startswith("event: "):
                    kinds.append(line.removeprefix("event: "))
                    if len(kinds) == 2:
                        connected.append(number)
                        if len(connected) == 100:
                            go_on.set()
        return kinds

    def connections() -> int:
        address = str(settings.database_url).replace("+psycopg", "")
        with psycopg.connect(address) as connection:
            found = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
            return int(found.fetchone()[0])  # type: ignore[index]

    async def everybody() -> list[list[str]]:
        go_on = asyncio.Event()
        listeners = [asyncio.create_task(listen(number, go_on)) for number in range(100)]
        await asyncio.wait_for(go_on.wait(), 40)
        threads, open_connections = threading.active_count(), await asyncio.to_thread(connections)
        await asyncio.sleep(1.2)
        assert threading.active_count() <= threads + 1
        assert await asyncio.to_thread(connections) <= open_connections
        assert open_connections < 30
        answer = await asyncio.to_thread(client.get, "/healthz")
        assert answer.status_code == 200
        for claim in claims:
            fail(database, claim)
        return await asyncio.wait_for(asyncio.gather(*listeners), 40)

    heard = asyncio.run(everybody())
    assert heard == [["queued", "started", "finished"]] * 100
    feed = client.get(f"/jobs/{jobs[0]}/events").json()
    assert len(feed["items"]) == 3
    assert counts(database, "job_events") == [12]


def test_more_than_enough_listeners_are_told_so(
    client: httpx.Client, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.jobs.feed.MOST_FOLLOWERS", 1)
    job_id = new_job(client, database)
    with client.stream("GET", f"/jobs/{job_id}/events", headers=STREAM) as response:
        events = parsed(response.iter_lines())
        assert next(events)["event"] == "queued"
        full = client.get(f"/jobs/{job_id}/events", headers=STREAM)
        assert (full.status_code, full.headers["retry-after"]) == (503, "5")
    # Who hangs up makes room.
    claim = claimed(database, job_id)
    fail(database, claim)
    wait_for(lambda: client.get(f"/jobs/{job_id}/events", headers=STREAM).status_code == 200)


def test_many_who_come_at_once_are_no_more_than_may_be(
    client: httpx.Client, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.jobs.feed.MOST_FOLLOWERS", 5)
    path = f"/jobs/{new_job(client, database)}/events"
    limits = httpx.Limits(max_connections=None)

    async def everybody() -> list[int]:
        all_answered = asyncio.Event()
        answers: list[int] = []

        async def listen(http: httpx.AsyncClient) -> None:
            async with http.stream("GET", path, headers=STREAM) as response:
                answers.append(response.status_code)
                if len(answers) == 40:
                    all_answered.set()
                await all_answered.wait()

        async with httpx.AsyncClient(base_url=client.base_url, timeout=30, limits=limits) as http:
            await asyncio.wait_for(asyncio.gather(*(listen(http) for _ in range(40))), 40)
        return answers

    assert sorted(asyncio.run(everybody())) == [200] * 5 + [503] * 35

"""``GET /metrics``: Prometheus can read it, and the figures follow what happens."""

from __future__ import annotations

import pytest
from api_support import api_client, set_status, store_dataset, store_model, train_body
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text

ROW = {"age": 20, "job": "clerk"}


def scrape(client):
    """Return the samples by name and labels, read by Prometheus's own parser."""
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def test_jobs_by_status_and_the_age_of_the_oldest(client, database):
    assert scrape(client)[("prefsvm_jobs", ("status", "queued"))] == 0
    data = store_dataset(database)
    jobs = [client.post("/train", json=train_body(data)).json()["id"] for _ in range(3)]
    set_status(database, jobs[0], "running")
    set_status(database, jobs[1], "succeeded")
    with database.transaction() as session:
        session.execute(
            text("UPDATE jobs SET started_at = finished_at - interval '7 seconds' WHERE status = 'succeeded'")
        )
        session.execute(text("UPDATE jobs SET created_at = now() - interval '90 seconds' WHERE status = 'queued'"))
    figures = scrape(client)
    for status, count in {"queued": 1, "running": 1, "succeeded": 1, "failed": 0, "cancelled": 0}.items():
        assert figures[("prefsvm_jobs", ("status", status))] == count
    assert 90 <= figures[("prefsvm_oldest_queued_job_seconds",)] < 150
    assert figures[("prefsvm_job_seconds_sum", ("status", "succeeded"))] == pytest.approx(7)
    # The next scrape does not count it again.
    assert scrape(client)[("prefsvm_job_seconds_count", ("status", "succeeded"))] == 1


def test_seconds_inside_the_algorithm(client, database, tmp_path):
    scrape(client)  # jobs that end from now on count
    data = store_dataset(database)
    for timings in ('{"reading": 1.0, "training": 2.5}', "{}"):
        job = client.post("/train", json=train_body(data)).json()["id"]
        model = store_model(database, tmp_path, job_id=job)
        with database.transaction() as session:
            noted = "UPDATE models SET report = report || jsonb_build_object('timings', CAST(:timings AS jsonb))"
            session.execute(text(f"{noted} WHERE id = :id"), {"timings": timings, "id": model})
        set_status(database, job, "succeeded")
    for _ in range(2):  # the second one counts nothing again
        figures = scrape(client)
        assert figures[("prefsvm_job_seconds_count", ("status", "succeeded"))] == 2
        assert figures[("prefsvm_fit_seconds_count", ("algorithm", "svm"))] == 1
        assert figures[("prefsvm_fit_seconds_sum", ("algorithm", "svm"))] == 2.5


def test_predictions_and_their_cache(client, database, tmp_path):
    model = store_model(database, tmp_path)
    for _ in range(3):
        assert client.post("/predict", json={"model": model, "rows": [ROW]}).status_code == 200
    client.post("/predict", json={"model": "nobody", "rows": [ROW]})
    figures = scrape(client)

    def answered(status: str) -> float:
        labels = (("method", "POST"), ("route", "/predict"), ("status", status))
        return figures[("prefsvm_http_request_seconds_count", *labels)]

    assert (answered("200"), answered("404")) == (3, 1)
    assert figures[("prefsvm_model_cache_models",)] == 1
    assert figures[("prefsvm_model_cache_bytes",)] > 0
    assert figures[("prefsvm_model_cache_requests_total", ("result", "miss"))] == 1
    assert figures[("prefsvm_model_cache_requests_total", ("result", "hit"))] == 2


def test_callers_cannot_make_series(client):
    for number in range(5):
        client.request(f"METHOD{number}", f"/nowhere/{number}")
        client.request("X" * (number + 3), f"/models/mdl_{number}")
        client.get(f"/models/mdl_{number}")
    series = [dict(key[1:]) for key in scrape(client) if key[0] == "prefsvm_http_request_seconds_count"]
    assert {labels["route"] for labels in series} <= {"other", "/models/{model_id}", "/metrics"}
    assert {labels["method"] for labels in series} <= {"other", "GET"}


def test_without_a_database_the_rest_is_told(settings):
    with api_client(settings, database_url="postgresql+psycopg://nobody@127.0.0.1:1/none") as client:
        figures = scrape(client)
    assert figures[("prefsvm_database_up",)] == 0
    assert ("prefsvm_jobs", ("status", "queued")) not in figures
    assert ("process_resident_memory_bytes",) in figures

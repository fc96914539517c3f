"""Figures for Prometheus: ``GET /metrics`` renders them.

Figures of requests and of the model cache are this process's own. Figures of jobs are read from Postgres when somebody
scrapes, so every API process tells the same: take their maximum over the processes, not their sum.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from sqlalchemy import text

from service.db.session import AWAY, Database

REQUEST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
FIT_SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 3600.0, 14400.0, 86400.0)
JOB_SECONDS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 3600.0, 14400.0, 86400.0)
STATUSES = ("queued", "running", "succeeded", "failed", "cancelled")
METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
OTHER = "other"
"""Label of what callers may choose freely: a route or method that does not exist must not make a new series."""

JOBS_BY_STATUS = text("SELECT status, count(*) FROM jobs GROUP BY status")
OLDEST_QUEUED = text(
    "SELECT coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 FROM jobs WHERE status = 'queued'"
)
NOW = text("SELECT now()")
ENDED_SINCE = text(
    """
    SELECT jobs.status, extract(epoch FROM jobs.finished_at - jobs.started_at)::float8, jobs.finished_at,
           models.algorithm, (models.report #>> '{timings,training}')::float8
      FROM jobs LEFT JOIN models ON models.job_id = jobs.id
     WHERE jobs.finished_at > :since AND jobs.started_at IS NOT NULL
     ORDER BY jobs.finished_at
    """
)


class CacheFigures(Protocol):
    """What the cache of decision functions tells."""

    hits: int
    misses: int
    nbytes: int

    def __len__(self) -> int: ...


class Metrics:
    """All figures of one API process.

    Parameters
    ----------
    database : Database
        Asked on every scrape.
    models : CacheFigures
        The model cache of ``POST /predict``.
    """

    def __init__(self, database: Database, models: CacheFigures) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        self._requests = Histogram(
            "prefsvm_http_request_seconds",
            "Time to answer, by route; POST /predict among them",
            ["method", "route", "status"],
            buckets=REQUEST_SECONDS,
            registry=self._registry,
        )
        self._series: dict[tuple[str, str, str], Histogram] = {}
        """Those of `_requests`, which takes longer to find one."""
        self._registry.register(_ModelCache(models))
        self._registry.register(_Jobs(database))

    def observe_request(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count one request; `route` is the template of its path, None if there is no such route."""
        key = (method if method in METHODS else OTHER, route or OTHER, str(status))
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = self._requests.labels(*key)
        series.observe(seconds)

    def render(self) -> bytes:
        """Return the text of Prometheus. Asks Postgres: call it in a thread."""
        return generate_latest(self._registry)


class _ModelCache(Collector):
    def __init__(self, models: CacheFigures) -> None:
        self._models = models

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("prefsvm_model_cache_models", "Decision functions kept ready", len(self._models))
        memory = "Memory of the decision functions that are kept ready"
        yield GaugeMetricFamily("prefsvm_model_cache_bytes", memory, self._models.nbytes)
        asked = CounterMetricFamily("prefsvm_model_cache_requests", "Look-ups in the model cache", labels=["result"])
        asked.add_metric(["hit"], self._models.hits)
        asked.add_metric(["miss"], self._models.misses)
        yield asked


class _Jobs(Collector):
    """Jobs as Postgres has them; a scrape while it is away gets ``prefsvm_database_up 0`` and the other figures."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._scraping = threading.Lock()
        self._since: datetime | None = None
        self._seconds = Histogram(
            "prefsvm_job_seconds",
            "Time from the last start of a job to its end, for jobs that ended while this process watched",
            ["status"],
            buckets=JOB_SECONDS,
            registry=None,  # collected below, after it was brought up to date
        )
        self._fits = Histogram(
            "prefsvm_fit_seconds",
            "Time inside the algorithm, without reading, features, evaluation and storing, of the same jobs",
            ["algorithm"],
            buckets=FIT_SECONDS,
            registry=None,
        )

    def describe(self) -> Iterator[Metric]:
        # Or registering would ask Postgres for the names.
        return iter(())

    def collect(self) -> Iterator[Metric]:
        up = "prefsvm_database_up", "1 if Postgres answered this scrape"
        try:
            with self._scraping:  # or two scrapes would count the same job
                counts, oldest = self._look()
        except AWAY:
            yield GaugeMetricFamily(*up, 0)
            return
        yield GaugeMetricFamily(*up, 1)
        jobs = GaugeMetricFamily("prefsvm_jobs", "Jobs that Postgres holds, by status", labels=["status"])
        for status in STATUSES:
            jobs.add_metric([status], counts.get(status, 0))
        yield jobs
        age = "Age of the oldest queued job; 0 if there is none"
        yield GaugeMetricFamily("prefsvm_oldest_queued_job_seconds", age, oldest)
        yield from self._seconds.collect()
        yield from self._fits.collect()

    def _look(self) -> tuple[dict[str, int], float]:
        with self._database.transaction() as session:
            counts = {str(status): int(count) for status, count in session.execute(JOBS_BY_STATUS)}
            oldest = float(session.scalar(OLDEST_QUEUED) or 0)
            if self._since is None:
                self._since = session.scalar(NOW)
            ended = session.execute(ENDED_SINCE, {"since": self._since}).all()
            for status, seconds, finished_at, algorithm, fit_seconds in ended:
                self._seconds.labels(status).observe(seconds)
                if fit_seconds is not None:
                    self._fits.labels(algorithm).observe(fit_seconds)
                self._since = finished_at
        return counts, oldest

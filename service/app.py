"""The HTTP front end: `create_app` wires it, ``python -m service.app`` runs it."""

from __future__ import annotations

import gc
import importlib.metadata
import resource
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache, partial
from types import FrameType
from typing import Any

import uvicorn
from anyio import create_task_group, sleep, to_thread
from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp

from service.access.authenticator import Authenticator
from service.access.bootstrap import check_reachable, read_bootstrap_key
from service.access.schemas import Retention
from service.access.service import KeyService, ProjectService
from service.access.sessions import Sessions
from service.api.access import OPEN_PATHS, check_routes
from service.api.audits import audits_router
from service.api.batches import batches_router
from service.api.context import RequestContext
from service.api.datasets import datasets_router
from service.api.docs import docs_router, start_router
from service.api.example import example_router
from service.api.feedback import feedback_router
from service.api.gate import Gate, plain_refusal
from service.api.health import health_router
from service.api.http_protocol import HttpProtocol
from service.api.inference import inference_router
from service.api.jobs import jobs_router
from service.api.keys import keys_router, projects_router
from service.api.logs import configure_logging
from service.api.models import aliases_router, models_router
from service.api.openapi import describe
from service.api.predict_shortcut import Application, ShortcutRoute
from service.api.predictions import predictions_router
from service.api.problem import add_handlers
from service.api.resumable_uploads import resumable_uploads_router
from service.api.webhooks import webhooks_router
from service.audits.service import AuditService
from service.batches.service import BatchService
from service.blobs.store import BlobStore
from service.datasets.looking import LookingService
from service.datasets.resumable import ResumableUploads
from service.datasets.service import DatasetService
from service.db.session import STATEMENT_SECONDS, Database
from service.encoders.configuration import encoder_config
from service.feedback.service import FeedbackService
from service.isolation import hide_secrets
from service.jobs.feed import EventFeed
from service.jobs.service import JobService
from service.labelling.service import QueueService
from service.memory import settle
from service.metrics import Metrics
from service.models.exports import ExportService
from service.models.service import AliasService, ModelService
from service.orphans import OrphanSweeper
from service.pages.router import Pages, make_pages
from service.pages.services import Services
from service.predictions.budget import RequestBudget
from service.predictions.service import PredictionService
from service.readiness import Readiness, until_migrated
from service.retention import Keeper, sweep_forever
from service.settings import ConfigurationError, Settings
from service.telemetry import Telemetry, telemetry
from service.webhooks.service import WebhookService
from solver.kernels.parallel import single_threaded_blas

CONNECTIONS = 600
"""That one process has at a time. uvicorn has no time limit for slow senders: this bounds what they can hold, in file
descriptors above all (1,024 is a usual limit). A proxy ends them: docs/production.md."""
OTHER_FILES = 128
"""Descriptors for everything else: connections to Postgres, blobs, files of readers, libraries."""
VERSION = importlib.metadata.version("prefsvm")
DAY = 24 * 3600.0
CYCLES_SECONDS = 60.0
LEFTOVER_SECONDS = DAY
"""Older unfinished uploads in the blob store, and older blobs without a row, belong to processes that were killed."""
DESCRIPTION = """Trains classifiers from few labelled and many unlabelled examples, so that they meet a precision or
recall target or the lowest cost, and serves them. Errors are RFC 9457 problems; lists are paged by cursor; creates take
an `Idempotency-Key`."""


def create_app(settings: Settings) -> FastAPI:
    """Wire the application. Nothing is global: two applications in one process share nothing.

    Parameters
    ----------
    settings : Settings
        `database_url` must be set, and the database at this version's migration.

    Returns
    -------
    FastAPI
        Closes its connections when its lifespan ends.
    """
    if settings.database_url is None:
        raise ValueError("PREFSVM_DATABASE_URL is not set; `prefsvm serve` starts a Postgres of its own and sets it")
    # For callers, and for what is done for nobody in particular.
    database = Database(
        settings.database_url, application_name="prefsvm-api", one_project=True, statement_seconds=STATEMENT_SECONDS
    )
    all_projects = settings.system_database_url or settings.database_url
    system = Database(all_projects, pool_size=4, application_name="prefsvm-api")
    blobs = BlobStore(settings.blob_location)
    spans = telemetry(settings.otlp_endpoint, "prefsvm-api")
    feed = EventFeed(system)
    predictions = PredictionService(database, settings)
    authenticator = _authenticator(settings, system)
    services = _services(
        settings, database, system, blobs, feed, predictions, _sessions(settings, system, authenticator)
    )
    resumable = ResumableUploads(database, system, blobs, settings, services.datasets)
    app = Application(
        title="prefsvm",
        version=VERSION,
        description=DESCRIPTION,
        lifespan=partial(_lifespan, settings, database, system, blobs, spans, feed, resumable, predictions),
        redirect_slashes=False,
        docs_url=None,
        openapi_url="/openapi.json" if settings.docs else None,
        redoc_url=None,
    )
    app.state.max_body_bytes = settings.max_body_bytes
    app.state.body_budget = RequestBudget(settings.predict_memory_bytes)
    app.state.feed = feed
    readiness = Readiness(database, system, settings.broker_url)
    metrics = Metrics(system, predictions.cache)
    predict = predictions_router(predictions, settings.max_body_bytes)
    pages = None
    if settings.ui:
        pages = make_pages(services, has_docs=settings.docs, secure=not settings.on_loopback)
    for router in (
        predict,
        resumable_uploads_router(resumable),
        *_routers(settings, services, database, blobs),
        inference_router(predictions, readiness),
        health_router(readiness, metrics),
        *([start_router(has_pages=settings.ui, has_docs=settings.docs)] if settings.ui or settings.docs else []),
        *([docs_router(has_pages=settings.ui)] if settings.docs else []),
        *([] if pages is None else [pages.router]),
    ):
        app.router.routes.extend(router.routes)
    add_handlers(app)
    check_routes(app, () if pages is None else pages.open_paths)
    app.state.pages = None if pages is None else pages.room
    gate = _gate(settings, authenticator, services.sessions, pages)
    context = partial(RequestContext, observe=metrics.observe_request, spans=spans)
    app.add_middleware(gate)
    app.add_middleware(context)
    (predict_route,) = predict.routes
    app.shortcut = context(gate(ShortcutRoute(predict_route)))

    app.openapi = cache(partial(describe, app))  # type: ignore[method-assign]
    return app


def _services(
    settings: Settings,
    database: Database,
    system: Database,
    blobs: BlobStore,
    feed: EventFeed,
    predictions: PredictionService,
    sessions: Sessions | None,
) -> Services:
    """Return what both the API's calls and the pages use."""
    return Services(
        datasets=DatasetService(database, blobs, settings),
        looking=LookingService(database, blobs),
        jobs=JobService(database, settings, feed),
        models=ModelService(database, predictions.forget),
        aliases=AliasService(database, predictions.forget),
        audits=AuditService(database, settings),
        predictions=predictions,
        queue=QueueService(database, blobs),
        feedback=FeedbackService(database, blobs, settings),
        keys=KeyService(database, system),
        projects=ProjectService(database, system, _retention(settings)),
        webhooks=WebhookService(database, settings),
        sessions=sessions,
        encoder=settings.encoder_model,
    )


def _retention(settings: Settings) -> Retention:
    """Return how long things are kept, as people are told."""
    return Retention(**{name: getattr(settings, f"retain_{name}") for name in Retention.model_fields})


def _routers(settings: Settings, services: Services, database: Database, blobs: BlobStore) -> tuple[APIRouter, ...]:
    """Return the calls on resources, with the services that only they use."""
    return (
        datasets_router(services.datasets, services.looking),
        example_router(),
        keys_router(services.keys),
        projects_router(services.projects),
        jobs_router(services.jobs),
        feedback_router(services.feedback),
        webhooks_router(services.webhooks),
        batches_router(BatchService(database, blobs, settings)),
        audits_router(services.audits),
        models_router(services.models, ExportService(database), services.queue),
        aliases_router(services.aliases),
    )


@asynccontextmanager
async def _lifespan(
    settings: Settings,
    database: Database,
    system: Database,
    blobs: BlobStore,
    spans: Telemetry | None,
    feed: EventFeed,
    resumable: ResumableUploads,
    predictions: PredictionService,
    _: FastAPI,
) -> AsyncIterator[None]:
    """Run what goes on beside the requests, and close the connections in the end."""

    async def keep_house() -> None:
        await until_migrated(system)
        async with create_task_group() as tasks:
            tasks.start_soon(sweep_forever, Keeper(settings, system, blobs), settings.retention_seconds)
            tasks.start_soon(sweep_forever, OrphanSweeper(system, blobs, LEFTOVER_SECONDS), DAY)
            tasks.start_soon(resumable.read_forever)

    await to_thread.run_sync(blobs.sweep, LEFTOVER_SECONDS)
    async with predictions.running(), create_task_group() as background:
        background.start_soon(keep_house)
        background.start_soon(feed.run)
        background.start_soon(collect_young_cycles)
        yield
        background.cancel_scope.cancel()
    if spans is not None:
        await to_thread.run_sync(spans.close)
    database.close()
    system.close()


def _authenticator(settings: Settings, system: Database) -> Authenticator:
    bootstrap_key = read_bootstrap_key(settings)
    return Authenticator(system, keys_required=settings.keys_are_required, bootstrap_key=bootstrap_key)


def _sessions(settings: Settings, system: Database, authenticator: Authenticator) -> Sessions | None:
    """Return what keeps sessions of pages, where there are pages and somebody has to sign in."""
    if not (settings.ui and settings.keys_are_required):
        return None
    return Sessions(system, authenticator, settings.ui_session_seconds)


def _gate(
    settings: Settings, authenticator: Authenticator, sessions: Sessions | None, pages: Pages | None
) -> Callable[[ASGIApp], Gate]:
    return partial(
        Gate,
        authenticator=authenticator,
        open_paths=OPEN_PATHS if pages is None else (*OPEN_PATHS, *pages.open_paths),
        allowed_hosts=settings.host_names,
        sessions=sessions,
        refusal=plain_refusal if pages is None else pages.room.refuse,
    )


def most_connections() -> int:
    """Return how many connections this process may have: `CONNECTIONS`, or as many as its descriptors allow."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        CONNECTIONS if descriptors == resource.RLIM_INFINITY else max(16, min(CONNECTIONS, descriptors - OTHER_FILES))
    )


def server_config(app: FastAPI, **address: Any) -> uvicorn.Config:
    """Return how the application is served, wherever: ``host`` and ``port``, or ``uds``; and behind whom."""
    return uvicorn.Config(
        app,
        **address,
        http=HttpProtocol,
        # Else uvicorn would answer handshakes of WebSockets itself, before the gate.
        ws="none",
        limit_concurrency=most_connections(),
        # Longer than clients keep an idle connection (httpx: 5 s), so that they close it and none sends into one that
        # is being closed here: at 5 s one in 90,000 predictions of a soak was lost so.
        timeout_keep_alive=15,
        timeout_graceful_shutdown=10,
        server_header=False,
        access_log=False,
        log_config=None,
    )


class ApiServer(uvicorn.Server):
    """Ends event streams when it is told to stop: they would keep it waiting for as long as it has patience."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take note of a signal."""
        feed: EventFeed = self.config.app.state.feed  # type: ignore[union-attr]
        feed.close()
        super().handle_exit(sig, frame)


def collect_garbage_seldom() -> None:
    """Spare each request its part in Python's search for cycles: it makes next to none (measured: 8 % of a prediction).

    What is loaded by now stays for good, and is not searched any more.
    """
    settle()
    gc.set_threshold(10_000, 20, 50)


async def collect_young_cycles() -> None:
    """Collect the cycles of the last minute: by their number alone they would lie about for thousands of requests."""
    while True:
        await sleep(CYCLES_SECONDS)
        gc.collect(1)


def main() -> None:
    """Serve until SIGTERM or SIGINT, with settings from the environment."""
    hide_secrets()
    settings = Settings()
    try:
        check_reachable(settings)
        encoder_config(settings)
    except ConfigurationError as error:
        sys.exit(f"prefsvm: {error}")
    configure_logging()
    # Predictions are small products, several at once: threads of BLAS would only spin (measured: 9 × the CPU).
    with single_threaded_blas():
        address = {"host": settings.host, "port": settings.port, "forwarded_allow_ips": settings.trusted_proxies}
        server = ApiServer(server_config(create_app(settings), **address))
        collect_garbage_seldom()
        server.run()


if __name__ == "__main__":
    main()

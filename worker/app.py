"""The Celery side of the worker: one task, whose message is a doorbell that names a job and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from celery import Celery
from kombu.entity import Queue

from service.jobs.doorbell import QUEUE, TASK, celery_settings
from service.settings import Settings
from worker import transport
from worker.fairness import SlotBell


def create_app(settings: Settings, run: Callable[[str], object]) -> Celery:
    """Return the Celery application of a worker.

    Parameters
    ----------
    settings : Settings
        `broker_url` must be set.
    run : callable
        Called with the id of a job that somebody rang for. It must do nothing if there is no such job to be had:
        doorbells are lost, doubled, late and forged.
    """
    if settings.broker_url is None:
        raise ValueError("PREFSVM_BROKER_URL must be set")
    transport.install()
    app = Celery("prefsvm", set_as_current=False)
    app.conf.update(
        celery_settings(settings.broker_url),
        task_queues=[Queue(QUEUE, routing_key=QUEUE)],  # type: ignore[no-untyped-call]
        worker_concurrency=settings.worker_slots,
        worker_pool="threads",
        worker_disable_prefetch=True,
    )
    bell = SlotBell()
    app.steps["consumer"].add(bell.consumer_step())

    @app.task(name=TASK, ignore_result=True)  # type: ignore[untyped-decorator]
    def train(job_id: str) -> None:
        try:
            run(job_id)
        finally:
            bell.ring()

    return app

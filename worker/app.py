"""The Celery side of the worker: two tasks, whose message is a doorbell that names a job or a part of one."""

from __future__ import annotations

from collections.abc import Callable

from celery import Celery
from celery.worker import state

from service.jobs.doorbell import PART_TASK, TASK, celery_settings
from service.settings import Settings
from worker import transport
from worker.slot_wakeup import SlotWakeup


def create_app(
    settings: Settings, run: Callable[[str], object], run_part: Callable[[str], object], wakeup: SlotWakeup
) -> Celery:
    """Return the Celery application of a worker.

    Parameters
    ----------
    settings : Settings
        `broker_url` must be set.
    run : callable
        Called with the id of a job that somebody rang for. It must do nothing if there is no such job to be had:
        doorbells are lost, doubled, late and forged.
    run_part : callable
        The same for the id of a part of a job that another worker runs.
    wakeup : SlotWakeup
        Wakes the event loop of the worker.
    """
    if settings.broker_url is None:
        raise ValueError("PREFSVM_BROKER_URL must be set")
    transport.install()
    # Celery keeps the last 1,000 tasks that succeeded (400 bytes each) for an option that is off here.
    state.successful_requests.maxlen = 1
    app = Celery("prefsvm", set_as_current=False)
    app.conf.update(
        celery_settings(settings.broker_url),
        worker_concurrency=settings.worker_slots,
        worker_pool="threads",
        worker_disable_prefetch=True,
    )
    app.steps["consumer"].add(wakeup.consumer_step())

    def add_task(name: str, work: Callable[[str], object]) -> None:
        @app.task(name=name, ignore_result=True)  # type: ignore[untyped-decorator]
        def task(row_id: str) -> None:
            try:
                work(row_id)
            finally:
                wakeup.wake()

    add_task(TASK, run)
    add_task(PART_TASK, run_part)

    return app

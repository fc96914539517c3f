"""What dispatcher and worker agree on about Celery: names and settings, as plain data.

A message is a doorbell: it carries the id of a job, or of a part of one, and nothing else. Nobody reads Celery's state;
the row is the truth.
"""

from __future__ import annotations

from typing import Any

TASK = "prefsvm.train"
QUEUE = "prefsvm"
PART_TASK = "prefsvm.part"
PART_QUEUE = "prefsvm-parts"
"""Doorbells for parts of running jobs are apart from those for jobs, which the dispatcher counts."""
CHANNEL = "prefsvm_jobs"
"""Postgres notification channel: "some row waits for the dispatcher"."""


def celery_settings(broker_url: str) -> dict[str, Any]:
    """Return the Celery settings of both sides.

    Recovery is the job row's work, not the broker's: messages are acknowledged before the job runs (a late
    acknowledgement would only add doubled and endlessly redelivered messages), there is no result backend, and nothing
    but JSON is read.

    Parameters
    ----------
    broker_url : str
        ``redis://…``, ``rediss://…`` or ``redis+socket://…``.
    """
    return {
        "broker_url": broker_url,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        # By default redis-py waits for ever on a frozen server, and so would a publisher.
        "broker_transport_options": {"socket_timeout": 5, "socket_connect_timeout": 2, "health_check_interval": 10},
        "task_queues": {name: {"routing_key": name} for name in (QUEUE, PART_QUEUE)},
        "task_default_queue": QUEUE,
        "task_create_missing_queues": False,
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_acks_late": False,
        "task_ignore_result": True,
        "task_store_errors_even_if_ignored": False,
        "task_publish_retry": False,
        "result_backend": None,
        "worker_prefetch_multiplier": 1,
        "worker_enable_remote_control": False,
        "worker_send_task_events": False,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_hijack_root_logger": False,
        "enable_utc": True,
    }

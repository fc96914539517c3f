"""kombu's Redis transport, behind a check of everything that comes out of the broker.

Whoever can write to the broker can put any bytes there. kombu 5.7 and Celery 5.7 decode them without a guard: one line
that is not JSON ends the worker, and one with a valid frame but an odd body uses up its prefetch credit, after which it
is deaf. So nothing but an id is taken from a message; Celery gets a frame that is made here. To drop a message loses
nothing: doorbells are rung again.
"""

from __future__ import annotations

import base64
import json
import logging
from queue import Empty
from typing import Any
from uuid import uuid4

from kombu.transport import TRANSPORT_ALIASES, redis

from service.identifiers import is_id
from service.jobs.doorbell import PART_QUEUE, PART_TASK, QUEUE, TASK

log = logging.getLogger("prefsvm.worker")


def id_in(frame: Any) -> str | None:
    """Return the id of a job or a part in a decoded message, or None if it is not exactly a doorbell."""
    try:
        (args, kwargs, _) = json.loads(base64.b64decode(frame["body"], validate=True))
        (row_id,) = args
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    if kwargs != {} or not isinstance(row_id, str) or not (is_id(row_id, "job") or is_id(row_id, "part")):
        return None
    return row_id


def frame_for(row_id: str) -> dict[str, Any]:
    """Return the message of Celery's protocol 2, as kombu keeps it in Redis, that rings for a job or a part."""
    task, queue = (PART_TASK, PART_QUEUE) if is_id(row_id, "part") else (TASK, QUEUE)
    body = json.dumps([[row_id], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}])
    number = str(uuid4())
    return {
        "body": base64.b64encode(body.encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"lang": "py", "task": task, "id": number, "root_id": number, "retries": 0, "ignore_result": True},
        "properties": {
            "correlation_id": number,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": queue},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": str(uuid4()),
        },
    }


class Channel(redis.Channel):
    """Drops what is not JSON."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[no-untyped-call]
        except (ValueError, TypeError, RecursionError) as error:
            log.warning("an unreadable doorbell was ignored (%s)", type(error).__name__)
            raise Empty from error


class Transport(redis.Transport):
    """Redis transport that takes nothing but ids from messages."""

    Channel = Channel

    def _deliver(self, message: Any, queue: Any) -> None:
        row_id = id_in(message)
        if row_id is None:
            log.warning("a doorbell that names no job was ignored")
            return
        super()._deliver(frame_for(row_id), queue)  # type: ignore[no-untyped-call]


def install() -> None:
    """Make this the transport of ``redis://``, ``rediss://`` and ``redis+socket://`` addresses in this process."""
    for scheme in ("redis", "rediss"):
        TRANSPORT_ALIASES[scheme] = f"{__name__}:Transport"

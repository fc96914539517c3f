"""Sends what is in the outbox of webhooks: at least once each, again after a failure, and gives up in the end.

It runs as a thread of the dispatcher's process with a database connection of its own. It may be killed at any moment:
a message that was taken and not marked is taken again when its lease has run out, under the same ``webhook-id``.
"""

from __future__ import annotations

import logging
import random
import ssl
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from service.db.session import AWAY, TROUBLE, Database, trouble_of
from service.faults import fault
from service.webhooks.addresses import parse_destination
from service.webhooks.errors import AddressRefusedError
from service.webhooks.outbox import AGAIN_SECONDS, LEASE_SECONDS, SPREAD, Message, Outbox
from service.webhooks.post import PostError, body_of, post, signed_headers

log = logging.getLogger("prefsvm.webhooks")

POLL_SECONDS = 0.5
SLOTS = 8
"""Webhooks that are sent to at the same time; to one of them always one message after the other."""
PROJECT_SLOTS = 2
"""Messages of one project that are taken at a time, and under way when none is taken more: others' do not wait long
behind addresses that never answer."""
GONE = 410
"""The receiver wants to hear no more."""


class WebhookSender:
    """Sends until it is stopped.

    Parameters
    ----------
    database : Database
        Of its own; two connections are enough.
    allow_private : bool
        See `Settings.webhook_private`.
    tls : ssl.SSLContext, optional
        Tests hand in one that trusts their certificate.
    again_seconds : sequence of float, optional
        See `AGAIN_SECONDS`.
    lease_seconds : float, optional
        See `LEASE_SECONDS`.
    poll_seconds : float, optional
        How often it looks for messages; whoever knows that there are some may `wake` it.
    """

    def __init__(
        self,
        database: Database,
        *,
        allow_private: bool,
        tls: ssl.SSLContext | None = None,
        again_seconds: tuple[float, ...] = AGAIN_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._database = database
        self._allow_private = allow_private
        self._tls = tls or ssl.create_default_context()
        self._again_seconds = again_seconds
        self._lease_seconds = lease_seconds
        self._poll_seconds = poll_seconds
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._busy: dict[str, str] = {}
        """Webhooks that are sent to now, with their projects."""
        self._done = threading.Event()

    def stop(self) -> None:
        """Make `run` return once what is being sent has been sent."""
        self._stopping.set()
        self.wake()

    def wake(self) -> None:
        """Have it look for messages now."""
        self._done.set()

    def run(self) -> None:
        """Send what is due, through restarts of Postgres."""
        away = False
        with ThreadPoolExecutor(SLOTS, thread_name_prefix="webhook") as pool:
            while not self._stopping.is_set():
                self._done.clear()
                try:
                    taken = self._take()
                except TROUBLE as error:
                    if not away:
                        log.warning(trouble_of(error))
                    away, taken = True, []
                else:
                    away = False
                for message in taken:
                    pool.submit(self._deliver, message)
                self._done.wait(self._poll_seconds)

    def _take(self) -> list[Message]:
        with self._lock:
            busy = dict(self._busy)
        if len(busy) >= SLOTS:
            return []
        crowded = [project for project, count in Counter(busy.values()).items() if count >= PROJECT_SLOTS]
        with self._database.transaction() as session:
            outbox = Outbox(session, self._lease_seconds)
            if not outbox.has_due():
                return []
            taken = outbox.take(busy, SLOTS - len(busy), crowded=crowded, most_of_project=PROJECT_SLOTS)
        with self._lock:
            self._busy |= {message.webhook_id: message.project_id for message in taken}
        return taken

    def _deliver(self, message: Message) -> None:
        try:
            error, final = self._attempt(message)
            fault("webhook_after_send")
            self._mark(message, error, final)
        except AWAY as away:
            # Its lease runs out, and it is sent again.
            log.warning("%s: what became of it could not be noted (%s)", message.id, type(away).__name__)
        except Exception:  # one message must not end the thread of all others
            log.exception("%s: unexpected error", message.id)
        finally:
            with self._lock:
                self._busy.pop(message.webhook_id, None)
            self._done.set()

    def _attempt(self, message: Message) -> tuple[str, bool]:
        """Send once. Returns what went wrong (empty: nothing), and whether there is no use in trying again."""
        try:
            destination = parse_destination(message.url, allow_private=self._allow_private)
            body = body_of(message)
            headers = signed_headers(message, body, time.time())
            status = post(destination, body, headers, self._tls, allow_private=self._allow_private)
        except (AddressRefusedError, PostError) as error:
            return str(error), False
        if 200 <= status < 300:
            return "", False
        return f"the answer was {status}", status == GONE

    def _mark(self, message: Message, error: str, final: bool) -> None:
        with self._database.transaction() as session:
            outbox = Outbox(session, self._lease_seconds)
            if not error:
                outbox.delivered(message)
                return
            again = None
            if not final and message.attempt <= len(self._again_seconds):
                pause = self._again_seconds[message.attempt - 1]
                again = pause * (1 + SPREAD * random.random())  # noqa: S311 (no secret)
            outbox.failed(message, error, again)
        if again is None:
            log.warning("%s: given up after %d attempts: %s", message.id, message.attempt, error)

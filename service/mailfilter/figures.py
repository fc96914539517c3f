"""Figures of the mail filter for Prometheus, and its lines in the log: what was said, and never of which mail."""

from __future__ import annotations

import logging

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from service.mailfilter.filtering import ALLOWED_BY
from service.mailfilter.verdict import MailVerdict

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)

log = logging.getLogger("prefsvm.mail")


class Figures:
    """All figures of one process of the mail filter."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        self._mails = Counter("prefsvm_mails", "Mails by what was said of them", ["door", "verdict"], registry=registry)
        self._unknown = Counter(
            "prefsvm_mails_unknown", "Mails of which nothing could be said, by reason", ["reason"], registry=registry
        )
        self._seconds = Histogram(
            "prefsvm_mail_seconds",
            "Time from a mail's last byte to its verdict",
            buckets=SECONDS,
            registry=registry,
        )
        self._learned = Counter(
            "prefsvm_mails_learned",
            "Mails that were sent to be learned, by result and by who said what they are",
            ["result", "source"],
            registry=registry,
        )
        self._last_learned = Gauge(
            "prefsvm_mail_last_learned_timestamp_seconds", "When a mail was learned last", registry=registry
        )
        self.connections = Gauge("prefsvm_mail_connections", "Open connections of mail software", registry=registry)
        self._refused = Counter(
            "prefsvm_mail_connections_refused", "Connections beyond those that may be open", registry=registry
        )

    def note(self, door: str, verdict: MailVerdict, size: int, seconds: float) -> None:
        """Count a mail that was decided on, and log it."""
        self._mails.labels(door, verdict.kind).inc()
        self._seconds.observe(seconds)
        level = logging.INFO
        if verdict.reason is not None:
            self._unknown.labels(verdict.reason).inc()
            level = logging.WARNING
        log.log(
            level,
            "door=%s verdict=%s reason=%s points=%.1f bytes=%d truncated=%s seconds=%.3f model=%s",
            *(door, verdict.kind, verdict.reason or "-", verdict.shown if verdict.model else 0.0),
            *(size, verdict.truncated, seconds, verdict.model or "-"),
        )

    def note_learned(self, door: str, result: str, source: str, reason: str = "-") -> None:
        """Count a mail that was sent to be learned, or forgotten, and log it."""
        self._learned.labels(result, source if source in ALLOWED_BY else "other").inc()
        if result == "learned":
            self._last_learned.set_to_current_time()
        log.info("door=%s learned=%s reason=%s", door, result, reason)

    def note_refused(self) -> None:
        """Count a connection for which there was no room."""
        self._refused.inc()

    def render(self) -> bytes:
        """Return the text of Prometheus."""
        return generate_latest(self._registry)

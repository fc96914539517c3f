"""Traces for OpenTelemetry, where ``PREFSVM_OTLP_ENDPOINT`` names a collector; otherwise nothing is loaded.

Spans carry routes, statuses and ids of jobs, never what was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol


class Span(Protocol):
    """The part of OpenTelemetry's span that is used here."""

    def update_name(self, name: str) -> None:
        """Give the span the name that is known only afterwards."""

    def set_attribute(self, key: str, value: str | int | float | bool) -> None:
        """Note a fact."""


class TelemetryNotInstalledError(RuntimeError):
    """A collector is configured, but OpenTelemetry is not installed."""


class Telemetry:
    """Sends spans to a collector over OTLP and HTTP, in a thread of its own.

    Parameters
    ----------
    endpoint : str
        Base address of the collector, such as ``http://collector:4318``.
    service_name : str
        Which process this is: ``prefsvm-api``, ``prefsvm-worker``.

    Raises
    ------
    TelemetryNotInstalledError
        Without the extra ``otel``.
    """

    def __init__(self, endpoint: str, service_name: str) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            raise TelemetryNotInstalledError(
                "PREFSVM_OTLP_ENDPOINT is set, but OpenTelemetry is not installed: pip install 'prefsvm[otel]'"
            ) from error
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": service_name}), shutdown_on_exit=False
        )
        exporter = OTLPSpanExporter(endpoint=endpoint.rstrip("/") + "/v1/traces", timeout=5)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("prefsvm")
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def span(self, name: str, headers: Mapping[str, str] | None = None) -> Iterator[Span]:
        """Open a span; it goes on the trace that the ``traceparent`` of `headers` names, if there is one."""
        parent = self._propagator.extract(dict(headers or {}))
        # An exception's message may hold data.
        with self._tracer.start_as_current_span(
            name, context=parent, record_exception=False, set_status_on_exception=False
        ) as span:
            yield span

    def close(self) -> None:
        """Send what is left, and stop."""
        self._provider.shutdown()


def telemetry(endpoint: str | None, service_name: str) -> Telemetry | None:
    """Return what sends the spans of this process, or None if nobody collects them."""
    return None if endpoint is None else Telemetry(endpoint, service_name)


def traced_job(spans: Telemetry | None, run: Callable[[str], str | None]) -> Callable[[str], Any]:
    """Return `run` (a job id to how its attempt ended) with a span around each call."""
    if spans is None:
        return run

    def traced(job_id: str) -> None:
        with spans.span("job") as span:
            span.set_attribute("prefsvm.job.id", job_id)
            span.set_attribute("prefsvm.job.outcome", run(job_id) or "not claimed")

    return traced

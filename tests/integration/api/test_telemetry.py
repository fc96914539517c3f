"""Traces reach a collector over a real socket, and hold routes and ids but nothing that was sent."""

from __future__ import annotations

import gzip
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from api_support import api_client, store_model
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from service.telemetry import Telemetry, TelemetryNotInstalledError, telemetry, traced_job

TRACE = "0af7651916cd43dd8448eb211c80319c"


class Collector(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.bodies: list[bytes] = []
        self.address = f"http://127.0.0.1:{self.server_port}"

    def spans(self):
        return [
            (span, {a.key: a.value for a in span.attributes})
            for body in self.bodies
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class Receiver(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
        assert self.path == "/v1/traces"
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector():
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_requests_are_traced_on_the_callers_trace(settings, database, tmp_path, collector):
    model = store_model(database, tmp_path)
    body = {"model": model, "rows": [{"age": 20, "job": "planted-secret"}]}
    with api_client(settings, otlp_endpoint=collector.address) as client:
        headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
        assert client.post("/predict", json=body, headers=headers).status_code == 200
        assert client.get(f"/models/{model}?planted-secret=1").status_code in (200, 422)
        client.get("/planted-secret")
    spans = {span.name: (span, attributes) for span, attributes in collector.spans()}
    span, attributes = spans["POST /predict"]
    assert span.trace_id.hex() == TRACE
    assert attributes["http.response.status_code"].int_value == 200
    assert attributes["http.route"].string_value == "/predict"
    assert {"GET /models/{model_id}", "GET"} <= set(spans)
    assert not any(b"planted-secret" in body for body in collector.bodies)


def test_jobs_are_traced(collector):
    spans = Telemetry(collector.address, "prefsvm-worker")
    traced_job(spans, lambda job_id: "succeeded" if job_id == "job_1" else None)("job_1")
    with pytest.raises(ValueError, match="planted"):
        traced_job(spans, lambda _: (_ for _ in ()).throw(ValueError("planted-secret")))("job_2")
    spans.close()
    told = {a["prefsvm.job.id"].string_value: a for _, a in collector.spans()}
    assert told["job_1"]["prefsvm.job.outcome"].string_value == "succeeded"
    assert "prefsvm.job.outcome" not in told["job_2"]
    assert not any(b"planted-secret" in body for body in collector.bodies)


def test_without_a_collector_nothing_is_loaded_or_wrapped():
    assert telemetry(None, "prefsvm-api") is None
    assert traced_job(None, run := str.upper) is run


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(TelemetryNotInstalledError, match=r"prefsvm\[otel\]"):
        telemetry("http://127.0.0.1:1", "prefsvm-api")

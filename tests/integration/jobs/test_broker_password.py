"""The broker wants a password that nobody here has: said by /readyz, and it costs no request and no job."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis
from api_support import api_client, store_dataset, train_body
from worker_bench import Stack, wait_for

from service.db.session import Database
from service.jobs.doorbell import QUEUE
from service.local.servers import RedisServer
from service.settings import Settings


@pytest.mark.slow
def test_a_wrong_password_at_start(
    settings: Settings, database: Database, own_broker: RedisServer, tmp_path: Path
) -> None:
    with_broker = settings.model_copy(update={"broker_url": own_broker.url})
    admin = redis.Redis(unix_socket_path=str(own_broker.socket))
    admin.config_set("requirepass", "secret")
    stack = Stack(with_broker, database, tmp_path)
    try:
        dispatcher = stack.start_dispatcher()
        with api_client(with_broker) as client:
            ready = client.get("/readyz")
            assert ready.status_code == 503
            assert "broker" in ready.text
            assert "secret" not in ready.text
            job = client.post("/train", json=train_body(store_dataset(database)))
            assert job.status_code == 202, job.text
            wait_for(lambda: b"the broker does not answer" in stack.log_of(dispatcher), 40)
            assert dispatcher.poll() is None
            admin.config_set("requirepass", "")
            wait_for(lambda: admin.llen(QUEUE) == 1, 40)
            assert client.get("/readyz").json()["checks"]["broker"]["ok"] is True
    finally:
        stack.close()
        admin.close()

"""What of Celery and kombu is used that nobody promises: an upgrade that drops or renames it fails here first."""

from __future__ import annotations

import importlib
import inspect
import operator
import os
import tomllib
import warnings
from pathlib import Path

import pytest
from celery.app.defaults import DEFAULTS
from celery.platforms import check_privileges
from kombu.transport import TRANSPORT_ALIASES, redis
from packaging.requirements import Requirement
from packaging.version import Version

from service.jobs.doorbell import celery_settings
from worker import transport
from worker.main import ignore_noise

# module, name in it, its parameters
CALLED = [
    ("kombu.transport.redis", "Channel._brpop_read", ["self", "options"]),
    ("kombu.transport.redis", "Transport._deliver", ["self", "message", "queue"]),
    ("kombu.asynchronous.hub", "Hub.add_reader", ["self", "fds", "callback", "args"]),
    ("kombu.asynchronous.hub", "Hub.remove", ["self", "fd"]),
    ("kombu.asynchronous.hub", "Hub.call_later", ["self", "delay", "callback", "args"]),
    ("kombu.connection", "Connection.collect", ["self", "socket_timeout"]),
    ("celery.bootsteps", "StartStopStep.start", ["self", "parent"]),
    ("celery.bootsteps", "StartStopStep.stop", ["self", "parent"]),
    ("celery.worker.consumer.tasks", "Tasks.start", ["self", "c"]),
]


@pytest.mark.parametrize(("module", "name", "parameters"), CALLED, ids=lambda value: str(value))
def test_what_is_called_or_overridden(module: str, name: str, parameters: list[str]) -> None:
    part = operator.attrgetter(name)(importlib.import_module(module))
    assert list(inspect.signature(part).parameters) == parameters


def test_what_comes_out_of_the_broker_goes_through_what_is_overridden() -> None:
    assert "'BRPOP': self._brpop_read" in inspect.getsource(redis.Channel.__init__)
    assert "self.connection._deliver(" in inspect.getsource(redis.Channel._brpop_read)
    assert issubclass(transport.Channel, redis.Channel)
    assert redis.Transport.Channel is redis.Channel


def test_addresses_of_redis_are_a_table() -> None:
    assert {scheme: TRANSPORT_ALIASES[scheme].split(":")[0] for scheme in ("redis", "rediss")} in (
        dict.fromkeys(("redis", "rediss"), "kombu.transport.redis"),
        dict.fromkeys(("redis", "rediss"), "worker.transport"),  # a test before this one has installed it
    )


def test_a_worker_waits_with_brpop() -> None:
    # `service.readiness` counts those whose last command it was
    assert "'BRPOP'" in inspect.getsource(redis.Channel._brpop_start)


def test_celery_remembers_tasks_that_succeeded_in_a_set_with_a_length() -> None:
    from celery.app import trace
    from celery.worker import state

    assert state.successful_requests is trace.successful_requests
    assert isinstance(state.successful_requests.maxlen, int)
    assert trace.logger.name == "celery.app.trace"


def test_a_worker_without_a_free_slot_asks_for_nothing() -> None:
    from celery.worker.consumer.tasks import Tasks

    assert "worker_disable_prefetch" in inspect.getsource(Tasks.start)
    assert "channel.qos" in inspect.getsource(Tasks.start)
    assert callable(redis.QoS.can_consume)
    assert transport.Transport.driver_type == "redis"


def test_settings_are_known() -> None:
    ours = {*celery_settings("redis://"), "worker_concurrency", "worker_pool", "worker_disable_prefetch"}
    assert ours <= set(DEFAULTS)


def test_versions_are_those_that_this_was_tested_with() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    ranges = {it.name: it.specifier for it in map(Requirement, project["optional-dependencies"]["server"])}
    for name in ("celery", "kombu"):
        assert ranges[name].contains(Version("5.7.0"))
        assert not ranges[name].contains(Version("5.8.0"))


def test_the_log_of_a_worker_of_root_is_not_warned_of_pickles(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("getuid", "geteuid", "getgid", "getegid"):
        monkeypatch.setattr(os, name, lambda: 0)
    accepted = celery_settings("redis://")["accept_content"]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        check_privileges(accepted)
        assert said  # what it would say
        said.clear()
        ignore_noise()
        check_privileges(accepted)
        assert said == []

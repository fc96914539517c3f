"""Settings with which nothing could work are refused when they are read, by name."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from service.settings import Settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lease_seconds", "0"),
        ("lease_seconds", "-5"),
        ("redispatch_seconds", "nan"),
        ("job_max_seconds", "inf"),
        ("retain_jobs_days", "nan"),
        ("shutdown_grace_seconds", "-1"),
        ("worker_slots", "0"),
        ("ingest_slots", "0"),
        ("max_attempts", "0"),
        ("max_body_bytes", "-1"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"PREFSVM_{name.upper()}", value)
    with pytest.raises(ValidationError) as caught:
        Settings()
    assert [error["loc"] for error in caught.value.errors()] in ([(name,)], [(f"PREFSVM_{name.upper()}",)])


def test_a_pause_of_nothing_and_a_cache_of_nothing_are_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SHUTDOWN_GRACE_SECONDS", "STOP_GRACE_SECONDS", "MODEL_CACHE_BYTES", "MAX_FEEDBACK_ROWS"):
        monkeypatch.setenv(f"PREFSVM_{name}", "0")
    settings = Settings()
    assert (settings.shutdown_grace_seconds, settings.model_cache_bytes) == (0, 0)

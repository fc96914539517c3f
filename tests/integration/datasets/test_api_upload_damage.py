"""Damaged files over HTTP: each is taken or refused with a reason, and the API keeps its memory and its manners."""

from __future__ import annotations

import collections
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from api_support import api_process
from damage_runner import WHOLE, damaged

MIB = 1 << 20


@pytest.mark.fuzz
@pytest.mark.timeout(1800)
def test_damaged_uploads(settings, tmp_path):
    each = 50
    with api_process(settings, tmp_path / "log") as (client, process):
        api = psutil.Process(process.pid)

        def send(case: tuple[str, int]) -> int:
            format, number = case
            answer = client.post("/datasets", files={"file": ("x", damaged(format, number))}, data={"format": format})
            if answer.status_code != 201:
                body = answer.json()
                assert answer.headers["content-type"] == "application/problem+json"
                assert body["status"] == answer.status_code
                assert body["type"].startswith("urn:prefsvm:problem:")
            return answer.status_code

        cases = [(format, number) for number in range(each) for format in WHOLE]
        for case in cases[:20]:
            send(case)
        before = api.memory_info().rss
        with ThreadPoolExecutor(2) as pool:
            statuses = collections.Counter(pool.map(send, cases))
        grown = api.memory_info().rss - before
        print(dict(statuses), f"API grew by {grown / MIB:.1f} MiB")
        assert set(statuses) <= {201, 422}
        assert statuses[422] > len(cases) // 4
        assert grown < 50 * MIB

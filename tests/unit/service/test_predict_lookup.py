"""What a name means is remembered for a moment only; bodies share a budget."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from service.errors import Busy
from service.models.errors import ModelNotFound
from service.models.repository import ModelFile
from service.predictions.budget import BYTES_A_BYTE, HeldMemory, RequestBudget
from service.predictions.lookup import MAX_NAMES, ModelLookup


class Postgres:
    """Stands in for the query: counts questions, answers when it may."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.threshold = 0.0
        self.may_answer = threading.Event()
        self.may_answer.set()

    def find(self, project_id: str, name: str) -> ModelFile:
        threshold = self.threshold
        self.asked.append((project_id, name))
        self.may_answer.wait(40)
        if name == "nobody":
            raise ModelNotFound("no such model")
        return ModelFile(project_id, f"mdl_{name}", "0", 1, threshold)


def test_an_answer_is_used_for_so_long_and_no_longer():
    async def run() -> None:
        postgres = Postgres()
        lookup = ModelLookup(postgres.find, fresh_seconds=0.2)
        assert lookup.recall("p", "a") is None
        first = await lookup.find("p", "a")
        assert lookup.recall("p", "a") is first
        assert lookup.recall("other", "a") is None
        postgres.threshold = 1.0
        asked_at = time.monotonic()
        asked = asked_at
        while lookup.recall("p", "a") is first:
            assert asked < asked_at + 0.2
            await asyncio.sleep(0.01)
            asked = time.monotonic()
        assert (await lookup.find("p", "a")).threshold == 1.0
        for _ in range(2):
            with pytest.raises(ModelNotFound):
                await lookup.find("p", "nobody")
        assert postgres.asked == [("p", "a"), ("p", "a"), ("p", "nobody"), ("p", "nobody")]

    asyncio.run(run())


def test_a_change_is_not_answered_with_what_was_asked_before_it():
    async def run() -> None:
        postgres = Postgres()
        lookup = ModelLookup(postgres.find, fresh_seconds=60)
        postgres.may_answer.clear()
        waiting = [asyncio.create_task(lookup.find("p", "a")) for _ in range(20)]
        while not postgres.asked:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert len(postgres.asked) == 1  # one question for all who wait
        postgres.threshold = 1.0
        lookup.forget()
        after = asyncio.create_task(lookup.find("p", "a"))
        await asyncio.sleep(0.05)
        waiting[0].cancel()
        postgres.may_answer.set()
        assert {file.threshold for file in await asyncio.gather(*waiting[1:])} == {0.0}
        assert (await after).threshold == 1.0
        assert lookup.recall("p", "a") is await after
        assert len(postgres.asked) == 2

    asyncio.run(run())


def test_many_names_do_not_grow_memory():
    async def run() -> None:
        lookup = ModelLookup(Postgres().find, fresh_seconds=60)
        lookup._known.update(
            {("p", str(number)): (0.0, ModelFile("p", "m", "0", 1, None)) for number in range(MAX_NAMES)}
        )
        await lookup.find("p", "one more")
        assert len(lookup._known) == 1
        assert lookup._asking._tasks == {}

    asyncio.run(run())


def test_bodies_share_a_budget():
    budget = RequestBudget(100 * BYTES_A_BYTE)
    with HeldMemory(budget) as first, HeldMemory(budget) as second:
        first.grow(60)
        second.grow(40)
        first.grow(50)  # it has that
        with pytest.raises(Busy) as refused:
            second.grow(41)
        assert refused.value.headers == {"Retry-After": "1"}
        assert budget.taken == 100 * BYTES_A_BYTE
        with pytest.raises(Busy), HeldMemory(budget) as third:
            third.grow(1)
    assert budget.taken == 0
    with HeldMemory(budget) as alone:
        alone.grow(1000)  # larger than all of it, but the only one
        with pytest.raises(Busy), HeldMemory(budget) as other:
            other.grow(1)
    assert budget.taken == 0

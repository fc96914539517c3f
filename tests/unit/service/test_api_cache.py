"""The cache of decision functions: budget, order of leaving, one load for all who wait."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from service.predictions.cache import ByteCache


@dataclass(frozen=True)
class Item:
    name: str
    nbytes: int


def test_least_recently_used_leaves_first_and_the_budget_holds():
    async def run() -> None:
        cache: ByteCache[Item] = ByteCache(100)
        loads: list[str] = []

        async def get(name: str, size: int = 40) -> Item:
            async def load() -> Item:
                loads.append(name)
                return Item(name, size)

            return await cache.get(name, load)

        await get("a")
        await get("b")
        await get("a")
        await get("c")
        assert (len(cache), cache.nbytes) == (2, 80)
        await get("a")
        assert loads == ["a", "b", "c"]
        await get("b")
        assert loads == ["a", "b", "c", "b"]
        big = await get("big", 101)
        assert big.nbytes == 101
        assert (len(cache), cache.nbytes) == (2, 80)
        for number in range(1000):
            await get(str(number), number % 60)
            assert cache.nbytes <= 100

    asyncio.run(run())


def test_one_load_for_all_who_wait_even_if_the_first_gives_up():
    async def run() -> None:
        cache: ByteCache[Item] = ByteCache(100)
        loads = 0
        gate = asyncio.Event()

        async def load() -> Item:
            nonlocal loads
            loads += 1
            await gate.wait()
            return Item("a", 1)

        waiting = [asyncio.create_task(cache.get("a", load)) for _ in range(5)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        gate.set()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(answers[0], asyncio.CancelledError)
        assert len(set(map(id, answers[1:]))) == 1
        assert loads == 1

    asyncio.run(run())


def test_an_error_is_not_kept():
    async def run() -> None:
        cache: ByteCache[Item] = ByteCache(100)

        async def fail() -> Item:
            raise LookupError

        async def work() -> Item:
            return Item("a", 1)

        with pytest.raises(LookupError):
            await cache.get("a", fail)
        assert (await cache.get("a", work)).name == "a"

    asyncio.run(run())

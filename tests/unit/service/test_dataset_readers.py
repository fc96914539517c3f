"""Slots of readers: a project with many files leaves room for others."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from service.datasets.readers import Readers
from service.ingest.run import ingest
from service.settings import Settings


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_one_file_of_another_project_does_not_wait_for_four_long_ones() -> None:
    async def run() -> None:
        readers = Readers(2)
        end = asyncio.Event()
        begun: list[str] = []

        async def read(project: str, *, long: bool) -> None:
            async with readers.slot(project):
                begun.append(project)
                if long:
                    await end.wait()

        long_ones = [asyncio.create_task(read("a", long=True)) for _ in range(4)]
        await settle()
        assert begun == ["a"], "the other slot is left for others"
        await asyncio.wait_for(read("b", long=False), 40)
        end.set()
        await asyncio.gather(*long_ones)
        assert begun == ["a", "b", "a", "a", "a"]

    asyncio.run(run())


def test_a_free_slot_goes_to_the_project_that_has_the_fewest() -> None:
    async def run() -> None:
        readers = Readers(3)
        begun: list[str] = []
        ends = {name: asyncio.Event() for name in ("a1", "a2", "a3", "b1", "c1", "b2")}

        async def read(name: str) -> None:
            async with readers.slot(name[0]):
                begun.append(name)
                await ends[name].wait()

        tasks = {}
        for name in ends:
            tasks[name] = asyncio.create_task(read(name))
            await settle()
        assert begun == ["a1", "a2", "b1"]
        ends["a1"].set()
        await settle()
        assert begun[3:] == ["c1"], "which has none; the third of a came earlier"
        tasks["a3"].cancel()
        ends["a2"].set()
        await settle()
        assert begun[4:] == ["b2"]
        for end in ends.values():
            end.set()
        await asyncio.gather(*tasks.values(), return_exceptions=True)

    asyncio.run(run())


def test_a_small_file_beside_four_wide_ones_does_not_wait_for_any_of_them(tmp_path: Path) -> None:
    """With processes that read files: 700 bytes of another project have been read before the first wide file has."""
    wide, small = tmp_path / "wide", tmp_path / "small"
    pq.write_table(pa.table([pa.nulls(3000, pa.float64())] * 3000, names=[f"g{j}" for j in range(3000)]), wide)
    small.write_bytes(b"a,b\n" + b"1.5,x\n" * 116)

    async def run() -> None:
        readers = Readers(2)
        ended: list[str] = []

        async def read(project: str, path: Path, format: str, output: str) -> None:
            async with readers.slot(project):
                await ingest(Settings(), path, format, {}, output=tmp_path / output)
            ended.append(output)

        long_ones = [asyncio.create_task(read("a", wide, "parquet", f"wide{j}")) for j in range(4)]
        await settle()
        await read("b", small, "csv", "small")
        assert ended == ["small"]
        for task in long_ones:
            task.cancel()
        await asyncio.gather(*long_ones, return_exceptions=True)

    asyncio.run(run())


def test_who_is_cancelled_while_waiting_or_reading_holds_nothing() -> None:
    async def run() -> None:
        readers = Readers(1)

        async def read() -> None:
            async with readers.slot("a"):
                await asyncio.Event().wait()

        first, second, third = (asyncio.create_task(read()) for _ in range(3))
        await settle()
        third.cancel()  # while it waits
        await settle()
        first.cancel()
        await asyncio.sleep(0)  # it has given its slot to the second one, which does not know yet
        second.cancel()
        await asyncio.gather(first, second, third, return_exceptions=True)
        async with asyncio.timeout(5), readers.slot("b"):
            pass

    asyncio.run(run())

"""What encoding costs beside the encoder grows as the texts do: many, long, all different or all the same.

Counted are calls of functions, which do not depend on the machine and its load.
"""

from __future__ import annotations

import asyncio
import cProfile
import pstats
from collections.abc import Callable, Sequence

import numpy as np
import orjson
import pytest
from encoder_server import DIMENSIONS, MODEL

from service.encoders.client import HttpEncoder
from service.encoders.configuration import EncoderConfig
from solver.features import EncoderIdentity
from solver.features.encoded import MAX_ENCODED_CHARACTERS, PROBES, EncodedTexts, encoder_text
from solver.features.vectors import VectorArray

FEW, TIMES = 500, 4
MOST_GROWTH = 1.25 * TIMES


class Counting:
    """An encoder that costs next to nothing, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def identity(self) -> EncoderIdentity:
        return EncoderIdentity(MODEL, PROBES, np.eye(len(PROBES), DIMENSIONS, dtype=np.float32))

    def encode(self, texts: Sequence[str]) -> VectorArray:
        self.asked += texts
        return np.random.default_rng(0).normal(size=(len(texts), DIMENSIONS)).astype(np.float32)


def calls(work: Callable[[], object]) -> int:
    profile = cProfile.Profile()
    profile.runcall(work)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def fit(texts: list[str | None]) -> Counting:
    encoder = Counting()
    EncodedTexts.fit([{"note": texts}], encoder, 1.0, [])
    return encoder


@pytest.mark.parametrize(
    "texts_of",
    [
        lambda rows: [f"text {i}" for i in range(rows)],
        lambda rows: ["always the same"] * rows,
        lambda rows: [f"text {i % 7}" for i in range(rows)],
        lambda rows: [None] * (rows - 1) + ["one"],
    ],
    ids=["different", "equal", "few different", "missing"],
)
def test_rows_cost_as_they_are_many(texts_of: Callable[[int], list[str | None]]) -> None:
    few, many = texts_of(FEW), texts_of(TIMES * FEW)
    assert calls(lambda: fit(many)) < MOST_GROWTH * calls(lambda: fit(few))
    asked = fit(many).asked
    assert sorted(asked) == sorted({text for text in many if text is not None})  # each once


def test_a_long_text_costs_what_its_beginning_costs() -> None:
    long = "word " * 2_000_000
    found = encoder_text([long])
    assert found is not None
    assert len(found) <= MAX_ENCODED_CHARACTERS
    short, all_of_it = calls(lambda: encoder_text(["word"])), calls(lambda: encoder_text([long] * 3))
    assert all_of_it < 10 * short
    # however it is sent: blanks before it, and characters of several bytes
    assert encoder_text([" " * 3_000_000 + "end"]) == "end"
    assert encoder_text(["é" * 3_000_000]) == "é" * MAX_ENCODED_CHARACTERS


def test_requests_cost_as_the_texts_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []

    async def answered(_: HttpEncoder, body: bytes, count: int) -> bytes:
        sent.append(count)
        vector = [0.5] * DIMENSIONS
        assert len(orjson.loads(body)["input"]) == count
        return orjson.dumps({"data": [{"index": i, "embedding": vector} for i in range(count)]})

    monkeypatch.setattr(HttpEncoder, "_post", answered)

    def ask(texts: list[str]) -> None:
        async def encode() -> None:
            async with HttpEncoder(EncoderConfig("http://127.0.0.1:1/v1/embeddings", MODEL, batch=16)) as encoder:
                assert len(await encoder.encode(texts, 0.0)) == len(texts)

        asyncio.run(encode())

    ask(["warm"])
    sent.clear()
    few = calls(lambda: ask([f"text {i}" for i in range(FEW)]))
    assert sum(sent) == FEW
    assert len(sent) == -(-FEW // 16)
    many = calls(lambda: ask([f"text {i}" for i in range(TIMES * FEW)]))
    assert many < MOST_GROWTH * few
    long = calls(lambda: ask(["x" * MAX_ENCODED_CHARACTERS] * FEW))
    assert long < 1.5 * few

"""Vectors of texts that are kept: found again by encoder and text, within a budget, and for their own project alone."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from sqlalchemy import func, select, text, update

from service.blobs.store import BlobStore
from service.db.session import Database
from service.db.tables import DEFAULT_PROJECT, ProjectRow, TextEncoderRow, TextVectorRow
from service.encoders.repository import ROW_BYTES, VectorCache
from service.retention import Keeper
from service.settings import Settings
from solver.features import encoded

DIMENSIONS = 16
TEXTS = ("a", "b", "c")
RNG = np.random.default_rng(0)
PROBES = [RNG.normal(size=DIMENSIONS).astype("<f4") for _ in TEXTS]
OTHER = "prj_" + 32 * "1"


def packed(arrays: list[np.ndarray]) -> list[bytes]:
    return [array.astype("<f4").tobytes() for array in arrays]


def some(count: int, first: int = 0) -> dict[bytes, bytes]:
    return {
        hashlib.sha256(str(first + i).encode()).digest(): np.full(DIMENSIONS, first + i, dtype="<f4").tobytes()
        for i in range(count)
    }


@pytest.fixture
def other_project(database: Database) -> str:
    with database.transaction() as session:
        session.add(ProjectRow(id=OTHER, name="other"))
    return OTHER


def encoder_id(database: Database, probes: list[np.ndarray], project: str = DEFAULT_PROJECT, keep: bool = True) -> str:
    with database.transaction() as session:
        found = VectorCache(session, project).encoder("m", TEXTS, packed(probes), keep=keep)
    return found or ""


def count(database: Database) -> int:
    with database.transaction() as session:
        return session.scalar(select(func.count()).select_from(TextVectorRow)) or 0


def test_an_encoder_is_known_by_what_it_makes(database: Database, other_project: str) -> None:
    assert len(encoded.PROBES) == 3
    assert encoder_id(database, PROBES, keep=False) == ""
    first = encoder_id(database, PROBES)
    assert encoder_id(database, [probe * 1.001 for probe in PROBES]) == first
    assert encoder_id(database, PROBES, other_project) != first
    with database.transaction() as session:
        VectorCache(session, DEFAULT_PROJECT).keep(first, some(4))
        assert VectorCache(session, DEFAULT_PROJECT).find(first, list(some(6))) == some(4)
        assert VectorCache(session, other_project).find(first, list(some(6))) == {}
    assert encoder_id(database, [probe * 1.5 for probe in PROBES], keep=False) == ""
    assert count(database) == 4
    second = encoder_id(database, [PROBES[0], PROBES[1], PROBES[2] * 1.5])
    assert second != first
    assert count(database) == 0  # what the encoder before made has gone with it
    assert encoder_id(database, [np.append(probe, 0) for probe in PROBES]) not in (first, second)
    with database.transaction() as session:
        VectorCache(session, DEFAULT_PROJECT).keep(first, some(4))  # of one that is not there any more
    assert count(database) == 0


def test_the_ones_that_were_of_use_the_longest_ago_go(database: Database, other_project: str) -> None:
    mine, theirs = encoder_id(database, PROBES), encoder_id(database, PROBES, other_project)
    with database.transaction() as session:
        cache = VectorCache(session, DEFAULT_PROJECT)
        cache.keep(mine, some(60))
        cache.keep(mine, some(60))  # the same again
        VectorCache(session, other_project).keep(theirs, some(100))
        old = (
            update(TextVectorRow)
            .where(TextVectorRow.sha256.in_(list(some(30))))
            .values(used_at=func.now() - text("interval '3 days'"))
        )
        session.execute(old)
    with database.transaction() as session:
        cache = VectorCache(session, DEFAULT_PROJECT)
        assert len(cache.find(mine, list(some(10)))) == 10  # of use again
        each = 4 * DIMENSIONS + ROW_BYTES
        assert cache.evict(60 * each) == 0
        assert cache.evict(50 * each) == 15
        left = cache.find(mine, list(some(60)))
        assert len(left) == 45
        assert set(some(10)) <= set(left)
        assert set(some(30, first=30)) <= set(left)
        assert cache.evict(0) == 45
        assert cache.evict(0) == 0
    assert count(database) == 100


def test_retention_takes_vectors_that_were_of_no_use_for_long(database: Database, settings: Settings) -> None:
    mine = encoder_id(database, PROBES)
    with database.transaction() as session:
        VectorCache(session, DEFAULT_PROJECT).keep(mine, some(8))
        session.execute(
            update(TextVectorRow)
            .where(TextVectorRow.sha256.in_(list(some(3))))
            .values(used_at=func.now() - text("interval '9 days'"))
        )
    keeper = settings.model_copy(update={"retain_datasets_days": 7.0})
    assert Keeper(keeper, database, BlobStore(settings.blob_location)).sweep() == {"text_vectors": 3}
    assert count(database) == 5
    with database.transaction() as session:
        assert session.scalar(select(func.count()).select_from(TextEncoderRow)) == 1

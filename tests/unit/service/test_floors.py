"""No lock may hold a version with a hole that we know of."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

LOCKS = sorted((Path(__file__).parents[3] / "requirements").glob("*.lock"))

# package: (first version without the hole, the hole)
FLOORS = {
    "python-multipart": (
        "0.0.32",
        "GHSA-v9pg-7xvm-68hf negative Content-Length; CVE-2026-42561 part headers",
    ),
    "starlette": ("1.3.1", "CVE-2026-54283 form limits ignored; CVE-2025-62727 Range; CVE-2025-54121 event loop"),
    "fastapi": ("0.109.1", "CVE-2024-24762 Content-Type ReDoS"),
    "celery": ("5.7", "CVE-2021-23727; workers deaf after a reconnect (celery#10502)"),
    "kombu": ("5.7", "messages lost and workers deaf after a reconnect (kombu#2492, #2498, #2629)"),
    "redis": ("6.4", "CVE-2023-28858, CVE-2023-28859 answers mixed up between callers"),
    "pyarrow": ("14.0.1", "CVE-2023-47248 code execution"),
    "psycopg": ("3.2.4", "notifications lost between two waits for them, which slows jobs down (psycopg#962)"),
    "orjson": ("3.9.15", "CVE-2024-27454 unbounded recursion"),
    "alembic": ("1.15", "oldest that our migrations were run with"),
}


@pytest.mark.parametrize("package", FLOORS)
def test_installed_version(package):
    floor, hole = FLOORS[package]
    assert Version(version(package)) >= Version(floor), hole


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_locked_versions(lock):
    pinned = dict(re.findall(r"^([a-z0-9-]+)==([^\s;\\]+)", lock.read_text(), flags=re.MULTILINE))
    if lock.stem != "build":  # hatchling alone, for the image
        assert set(FLOORS) <= set(pinned)
    for package in FLOORS.keys() & pinned.keys():
        floor, hole = FLOORS[package]
        assert Version(pinned[package]) >= Version(floor), f"{package}: {hole}"


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_locks_name_no_registry_and_hash_everything(lock):
    text = lock.read_text()
    assert "://" not in text
    assert "--index-url" not in text
    assert "--find-links" not in text
    requirements = re.findall(r"^[a-z0-9-]+==.*(?:\n    .*)*", text, flags=re.MULTILINE)
    assert requirements
    assert all("--hash=sha256:" in requirement for requirement in requirements)


def test_no_cupy_without_a_gpu_extra():
    for lock in LOCKS:
        assert ("cupy" in lock.read_text()) == lock.stem.startswith("gpu-"), lock.name

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from service.blobs import store as store_module
from service.blobs.store import BlobExistsError, BlobNotFoundError, BlobStat, BlobStore, InvalidKeyError


@pytest.fixture(params=["folder", "file address", "remote"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlobStore]:
    if request.param == "remote":
        yield BlobStore(f"memory://{tmp_path.name}/blobs")
        fsspec.filesystem("memory").store.clear()
    else:
        prefix = "file://" if request.param == "file address" else ""
        yield BlobStore(f"{prefix}{tmp_path}/deep/blobs")


def put(store: BlobStore, key: str, data: bytes) -> None:
    with store.writer(key) as out:
        out.write(data[: len(data) // 2])
        out.write(data[len(data) // 2 :])


def test_a_blob_comes_back(store: BlobStore) -> None:
    data = os.urandom(3 << 20)
    put(store, "uploads/blob_1", data)
    with store.open("uploads/blob_1") as file:
        assert file.read(10) == data[:10]
        assert file.read() == data[10:]
    assert store.stat("uploads/blob_1") == BlobStat("uploads/blob_1", len(data))
    with store.local_path("uploads/blob_1") as path:
        assert path.read_bytes() == data
    store.delete("uploads/blob_1")
    store.delete("uploads/blob_1")
    for call in (store.open, store.stat, lambda key: store.local_path(key).__enter__()):
        with pytest.raises(BlobNotFoundError):
            call("uploads/blob_1")


def test_an_empty_blob_is_a_blob(store: BlobStore) -> None:
    put(store, "empty", b"")
    assert store.stat("empty").bytes == 0


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failed_write_leaves_nothing(store: BlobStore, error: type[BaseException], tmp_path: Path) -> None:
    def fail() -> None:
        with store.writer("a/b") as out:
            out.write(b"half")
            raise error

    with pytest.raises(error):
        fail()
    with pytest.raises(BlobNotFoundError):
        store.stat("a/b")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    put(store, "a/b", b"whole")
    assert store.stat("a/b").bytes == 5


def test_keys_are_written_once(store: BlobStore, tmp_path: Path) -> None:
    put(store, "a", b"first")
    with pytest.raises(BlobExistsError):
        put(store, "a", b"second")
    (tmp_path / "file").write_bytes(b"third")
    with pytest.raises(BlobExistsError):
        store.put_file("a", tmp_path / "file")
    with store.open("a") as file:
        assert file.read() == b"first"


@pytest.mark.parametrize(
    "key",
    [
        *("", "/", "/a", "a/", "a//b", "..", "../a", "a/../b", "a/..", ".hidden", "a/.unfinished/b"),
        *("A", "a b", "a\0", "a\n", "é", "a\\b", "a" * 513),
    ],
)
def test_keys_lead_nowhere_else(store: BlobStore, key: str) -> None:
    for call in (store.open, store.stat, store.delete, store.writer, store.local_path):
        with pytest.raises(InvalidKeyError):
            call(key)
    with pytest.raises(InvalidKeyError):
        store.put_file(key, Path("/nonexistent"))


def test_put_file_moves(store: BlobStore) -> None:
    with store.scratch() as folder:
        assert list(folder.iterdir()) == []
        (folder / "made").write_bytes(b"x" * 100)
        store.put_file("columnar/c", folder / "made")
        assert not (folder / "made").exists()
        (folder / "rest").write_bytes(b"y")
    assert not folder.exists()
    assert store.stat("columnar/c").bytes == 100


def test_put_file_from_another_file_system(tmp_path: Path) -> None:
    elsewhere = Path("/dev/shm")  # noqa: S108 (a file system, not a file)
    if not elsewhere.is_dir() or elsewhere.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs /dev/shm as a file system of its own")
    store = BlobStore(str(tmp_path))
    path = elsewhere / f"prefsvm-test-{os.getpid()}"
    path.write_bytes(b"x" * 100)
    try:
        store.put_file("a", path)
        assert not path.exists()
    finally:
        path.unlink(missing_ok=True)
    assert store.stat("a").bytes == 100


def test_only_the_owner_can_look(tmp_path: Path) -> None:
    store = BlobStore(str(tmp_path / "blobs"))
    put(store, "uploads/a", b"x")
    with store.scratch() as folder:
        (folder / "b").write_bytes(b"y")
        store.put_file("uploads/b", folder / "b")
    for path in (tmp_path / "blobs").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    assert (tmp_path / "blobs").stat().st_mode & 0o077 == 0


def test_a_blob_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    store = BlobStore(str(tmp_path))
    with store.writer("a") as out:
        out.write(b"x" * (1 << 20))
        with pytest.raises(BlobNotFoundError):
            store.stat("a")
    assert store.stat("a").bytes == 1 << 20


def test_sweep_removes_what_killed_writers_left(tmp_path: Path) -> None:
    store = BlobStore(str(tmp_path))
    put(store, "kept", b"x")
    unfinished = tmp_path / store_module.UNFINISHED
    (unfinished / "old").write_bytes(b"x")
    (unfinished / "old-folder").mkdir()
    (unfinished / "old-folder" / "file").write_bytes(b"x")
    (unfinished / "young").write_bytes(b"x")
    long_ago = time.time() - 7200
    for name in ("old", "old-folder"):
        os.utime(unfinished / name, (long_ago, long_ago))
    assert store.sweep(3600) == 2
    assert [path.name for path in unfinished.iterdir()] == ["young"]
    assert store.stat("kept").bytes == 1
    assert BlobStore("memory://swept").sweep(0) == 0

"""Compiled code is made by several processes, once, and kept whole."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

MODULE = """
import numpy as np
from numba import njit

@njit(cache=True)
def doubled(x):
    return x + x

def piece(dtype):
    def run():
        assert doubled(dtype(2)) == 4
        with open("ran", "a") as file:
            file.write(f"{os.getpid()}\\n")
    return run

import os
NAMES = ("int8", "int16", "int32", "int64", "float32", "float64", "uint8", "uint16")
PIECES = [piece(getattr(np, name)) for name in NAMES]
"""
LOAD = """
import os
from contextlib import suppress

from compiled import PIECES, doubled
from worker.compiling import load
told = []

load(PIECES[:FIRST], PIECES[FIRST:], told.append)
print(os.getpid(), len(doubled.stats.cache_hits), len(doubled.stats.cache_misses), *told)
with suppress(ChildProcessError):
    while os.waitpid(-1, 0):
        pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "compiled.py").write_text(MODULE)
    return tmp_path


def load(folder: Path, before: str = "", first: int = 8) -> list[str]:
    path = os.pathsep.join([str(folder), str(Path(__file__).resolve().parents[3])])
    environment = {**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    code = f"FIRST = {first}\n{before}{LOAD}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_processes_of_their_own_compile_and_this_one_loads(folder: Path) -> None:
    pid, hits, misses, *told = load(folder)
    assert (hits, misses) == ("8", "8"), "each was refused once, and then there"
    assert [float(share) for share in told] == [each / 8 for each in range(9)]
    ran = (folder / "ran").read_text().split()
    assert ran.count(pid) == 8
    assert len(ran) == 16
    assert len(list((folder / "cache").rglob("*.nbc"))) == 8, "no file of one took the number of another"
    _, hits, misses, *told = load(folder)
    assert (hits, misses, told) == ("8", "0", [])


def test_later_pieces_are_compiled_in_the_background(folder: Path) -> None:
    _, hits, misses, *told = load(folder, first=2)
    assert (hits, misses, told) == ("2", "8", ["0.0", "0.5", "1.0"])
    assert load(folder)[1:] == ["8", "0"]


def test_two_cold_workers_that_share_a_cache_load_no_code_of_other_types(folder: Path) -> None:
    """Whoever takes a number takes his time to write it into the index, and two workers begin at once."""
    slow = (
        "import time\n"
        "from numba.core.caching import IndexDataCacheFile as File\n"
        "save = File._save_index\n"
        "File._save_index = lambda *arguments: (time.sleep(0.2), save(*arguments))\n"
    )
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda _: load(folder, before=slow)[1], range(2))
    assert list(found) == ["8", "8"], "none was lost, or written over by another"


def test_what_a_process_that_dies_has_left_is_compiled_here(folder: Path) -> None:
    dying = "import os, worker.compiling\nworker.compiling._work = lambda *_: os._exit(9)\n"
    _, hits, misses, *told = load(folder, before=dying)
    assert (hits, misses, told) == ("0", "8", ["0.0"])
    assert load(folder)[1:] == ["8", "0"]


def test_all_compiled_code_is_imported_before_a_job() -> None:
    # a job may not write where Numba keeps code, and Numba refuses to import there what it could not keep
    root = Path(__file__).resolve().parents[3]
    compiled = {
        ".".join(path.relative_to(root).with_suffix("").parts)
        for path in (root / "solver").rglob("*.py")
        if "@njit(" in path.read_text()
    }
    code = "import sys, worker.fit; print(*sys.modules)"
    imported = subprocess.check_output([sys.executable, "-c", code], cwd=root, text=True).split()
    assert len(compiled) > 4
    assert compiled <= set(imported)

"""Ranges shared by threads: all done once, by whoever has time, with errors and callers kept apart."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from solver.kernels import parallel


@pytest.fixture(autouse=True)
def _three_threads(monkeypatch):
    monkeypatch.setattr(parallel, "thread_count", lambda: 3)


def covered(n, step, body=lambda: None):
    """How often each place was part of a range, and which threads took ranges."""
    count, names = np.zeros(n, np.int64), set()

    def note(start, stop):
        assert start % step == 0
        count[start:stop] += 1
        names.add(threading.current_thread())
        body()

    parallel.for_ranges(note, n, step, work=1.0)
    return count, names


@pytest.mark.parametrize(("n", "step"), [(0, 4), (1, 4), (4, 4), (1003, 16), (12, 1)])
def test_every_place_is_covered_once(n, step):
    for _ in range(20):
        count, _ = covered(n, step)
        assert np.all(count == 1)


def test_threads_help():
    together, known = threading.Barrier(3), threading.local()

    def meet():
        if not hasattr(known, "met"):  # the first range of each waits for those of the others
            known.met = together.wait(60)

    _, names = covered(12, 1, body=meet)
    assert len(names) == 3


def test_little_work_stays_where_it_is():
    names = set()
    parallel.for_ranges(lambda *_: names.add(threading.current_thread()), 12, 1, work=1e-5)
    assert names == {threading.current_thread()}


def test_a_range_inside_a_range_is_not_split_again():
    inner, helped = [], threading.Event()

    def body(start, stop):
        if threading.current_thread() is not threading.main_thread():
            parallel.for_ranges(lambda s, e: inner.append((s, e)), 100, 1, work=1.0)
            helped.set()
        helped.wait(60)

    parallel.for_ranges(body, 12, 1, work=1.0)
    assert inner
    assert set(inner) == {(0, 100)}


@pytest.mark.parametrize("where", ["caller", "helper"])
def test_an_error_reaches_the_caller(where):
    def body(start, stop):
        time.sleep(0.02)
        if (threading.current_thread() is threading.main_thread()) == (where == "caller"):
            raise ValueError(where)

    with pytest.raises(ValueError, match=where):
        parallel.for_ranges(body, 120, 1, work=1.0)
    assert np.all(covered(100, 1)[0] == 1)


def test_callers_in_several_threads():
    results = {}

    def call(name):
        results[name] = [bool(np.all(covered(500, 3)[0] == 1)) for _ in range(30)]

    threads = [threading.Thread(target=call, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(map(all, results.values()))


def test_nobody_waits_for_helpers_that_come_late(monkeypatch):
    """A neighbour may have the other core for long."""
    late, done, waited = parallel._Ranges.help, threading.Event(), []

    def help_late(ranges):
        if not done.wait(60):
            waited.append(ranges)
        late(ranges)

    monkeypatch.setattr(parallel._Ranges, "help", help_late)
    count, _ = covered(100, 1)
    done.set()
    assert waited == []
    assert np.all(count == 1)


def test_a_forked_process_has_helpers_of_its_own():
    code = """
import os, threading, time
from solver.kernels import parallel
parallel.thread_count = lambda: 3
def names():
    found = set()
    def body(start, stop):
        found.add(threading.current_thread())
        time.sleep(0.02)
    parallel.for_ranges(body, 12, 1, work=1.0)
    return len(found)
assert names() == 3
child = os.fork()
if child == 0:
    os._exit(0 if names() == 3 else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_process_that_was_forked_from_one_of_a_single_thread_starts_its_own():
    code = """
import os
import numpy as np
from threadpoolctl import threadpool_info
from solver.kernels import parallel
def blas():
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]
def seen():
    seen = np.zeros(1000)
    parallel.for_ranges(lambda start, stop: seen.__setitem__(slice(start, stop), 1.0), 1000, 1, work=1.0)
    return seen.all()
assert (parallel.thread_count(), set(blas())) == (1, {1})
if os.fork() == 0:
    os.environ.update(OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="3")
    parallel.start_threads()
    as_asked = (parallel.thread_count(), set(blas())) == (min(2, len(os.sched_getaffinity(0))), {3})
    A = np.random.default_rng(0).normal(size=(600, 600))
    os._exit(0 if as_asked and seen() and np.isfinite(A @ A).all() and set(blas()) == {3} else 1)
assert os.wait()[1] == 0
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=environment)

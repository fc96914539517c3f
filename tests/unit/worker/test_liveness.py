"""A child that says nothing and does nothing is told from one that works, waits or was frozen with its supervisor."""

from __future__ import annotations

from worker.liveness import Liveness


class Times:
    """The clock and the processor time of a child, as the test sets them."""

    def __init__(self) -> None:
        self.now = self.used = 0.0
        self.liveness = Liveness(300.0, lambda: self.used, lambda: self.now)

    def goes(self, seconds: float, used: float = 0.0, step: float = 0.2) -> bool:
        """Let time pass, with so much work in a second, and look as often as the supervisor does."""
        hung = False
        for _ in range(int(seconds / step)):
            self.now += step
            self.used += used * step
            hung = hung or self.liveness.is_hung()
        return hung


def test_no_word_and_no_work_is_hung() -> None:
    times = Times()
    assert not times.goes(299)
    assert times.goes(2)


def test_who_looks_now_and_then_for_what_never_comes_is_hung() -> None:
    assert Times().goes(310, used=0.0003)


def test_work_is_none_however_little_is_heard_of_it() -> None:
    assert not Times().goes(3000, used=1.0)
    assert not Times().goes(3000, used=0.01)


def test_a_burst_of_work_begins_the_wait_anew() -> None:
    times = Times()
    assert not times.goes(290)
    times.used += 0.5
    assert not times.goes(290)
    assert times.goes(20)


def test_a_word_begins_the_wait_anew() -> None:
    times = Times()
    assert not times.goes(290)
    times.liveness.heard()
    assert not times.goes(290)
    assert times.goes(20)


def test_who_was_frozen_with_its_supervisor_is_not_hung() -> None:
    times = Times()
    assert not times.goes(100)
    times.now += 100_000
    assert not times.liveness.is_hung()
    assert not times.goes(190)
    assert times.goes(20)

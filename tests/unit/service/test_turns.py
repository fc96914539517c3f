"""One piece of slow work at a time; few wait, and who comes after them is told to come again."""

from __future__ import annotations

import threading

import pytest

from service.errors import Busy
from service.models import service as models_service
from service.models.service import ModelService
from service.turns import Turns


def test_one_works_few_wait_and_others_are_told_to_come_again() -> None:
    turns = Turns(most_waiting=1)
    done: list[str] = []
    waits = threading.Event()

    def second() -> None:
        waits.set()
        with turns.take():
            done.append("second")

    with turns.take():
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(10)
        while turns._places._value:  # until it has its place
            pass
        with pytest.raises(Busy, match="try again"), turns.take():
            pytest.fail("there was no place")
        assert done == []
        done.append("first")
    thread.join(10)
    assert done == ["first", "second"]
    with pytest.raises(ZeroDivisionError), turns.take():
        raise ZeroDivisionError
    with turns.take():
        done.append("third")


def test_rules_are_chosen_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes a processor for long holds the turn; what asks the database does not."""
    service = ModelService(Nothing())  # type: ignore[arg-type]
    held: list[bool] = []

    def chosen_by(*_: object) -> dict[str, object]:
        held.append(service._choosing._turn.locked())
        raise Busy

    monkeypatch.setattr(models_service, "chosen_by", chosen_by)
    monkeypatch.setattr(models_service, "wanted_objective", lambda *_: object())
    monkeypatch.setattr(models_service.MulticlassReport, "from_dict", lambda _: None)
    monkeypatch.setattr(models_service, "ModelFileRepository", lambda *_: Nothing())
    stored = dict.fromkeys(models_service._OF_A_POINT)
    with pytest.raises(Busy):
        service._choose_rule("prj", "mdl", stored, None)  # type: ignore[arg-type]
    assert held == [True]
    assert not service._choosing._turn.locked()


class Nothing:
    """A database, or what is in it."""

    def transaction(self) -> Nothing:
        return self

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None

    def left_out(self, _: str) -> bytes:
        return b""

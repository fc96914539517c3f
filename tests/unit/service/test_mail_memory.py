"""A mail that is not kept holds no memory that others need."""

from __future__ import annotations

from service.mailfilter.inbound import IncomingMail
from service.predictions.budget import HeldMemory, RequestBudget


def test_a_mail_that_is_crowded_out_lets_the_others_in() -> None:
    budget = RequestBudget(100)
    with HeldMemory(budget, 1) as one, HeldMemory(budget, 1) as other:
        kept, crowded = IncomingMail(one), IncomingMail(other)
        kept.add(b"a" * 50)
        crowded.add(b"b" * 40)
        crowded.add(b"b" * 40)
        assert crowded.is_crowded_out
        assert budget.taken == 50
        crowded.add(b"b" * 40)
        kept.add(b"a" * 50)
        assert kept.is_whole
        assert kept.raw() == b"a" * 100
    assert budget.taken == 0

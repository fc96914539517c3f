"""What is told of an audit with a model: of the threshold that decides, where several were tried."""

from __future__ import annotations

import pytest

from service.db.tables import AuditRow
from service.locales import locale_of, localized_sentence, read_in
from service.models.verdicts import told_verdict, verdict_words

CALLED = {3.0: 40, 2.0: 60, 1.0: 90}


def tried(threshold: float, standing: str, bound: float) -> dict[str, object]:
    return {"threshold": threshold, "standing": standing, "bound": bound, "estimate": bound, "decided_after": 50}


@pytest.fixture
def audit() -> AuditRow:
    verdicts = [tried(3.0, "proven", 0.97), tried(2.0, "proven", 0.95), tried(1.0, "refuted", 0.5)]
    thresholds = [{"threshold": each, "called_positive": called} for each, called in CALLED.items()]
    pool = {"rows": 200, "positive": "spam", "threshold": 3.0, "called_positive": 40, "thresholds": thresholds}
    objective = {"kind": "precision", "target": 0.9}
    verdict = verdicts[1] | {"tried": verdicts}
    return AuditRow(objective=objective, confidence=0.95, pool=pool, verdict=verdict, answered=60)


@pytest.mark.parametrize(
    ("in_use", "spoken_of", "standing", "goes_on"),
    [(3.0, 3.0, "proven", False), (2.0, 2.0, "proven", True), (1.0, 1.0, "refuted", False), (0.0, 2.0, "proven", True)],
)
def test_the_threshold_that_decides_is_spoken_of(
    audit: AuditRow, in_use: float, spoken_of: float, standing: str, *, goes_on: bool
) -> None:
    told = told_verdict(audit, in_use, None)
    assert told is not None
    assert (told["threshold"], told["standing"]) == (spoken_of, standing)
    said = verdict_words(audit, told)
    assert said is not None
    begins = f"{standing} after 50 rows: of the {CALLED[spoken_of]} unlabelled rows that the model calls 'spam' by the"
    assert said.startswith(f"{begins} threshold {spoken_of:g}, at least 90%")
    assert ("the next threshold, 1, is refuted" in said) == goes_on


def test_what_people_call_a_class_is_not_written_as_a_number_is(audit: AuditRow) -> None:
    assert audit.pool is not None
    audit.pool = audit.pool | {"positive": "1.5"}
    said = verdict_words(audit)
    assert said is not None
    with read_in(locale_of("de")):
        told = localized_sentence(said)
    assert "calls '1.5' by" in told
    assert "at least 90\u00a0% are '1.5'" in told


def test_nothing_is_told_before_the_first_answer(audit: AuditRow) -> None:
    audit.verdict = None
    assert told_verdict(audit, 2.0, None) is None
    assert verdict_words(audit) is None

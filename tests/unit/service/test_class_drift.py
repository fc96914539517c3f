"""How often each of several classes is said: what stands for a rule, and which of many classes a page shows."""

from __future__ import annotations

import json

from service.models.class_drift import OF_TRAINING, rule_number
from service.models.schemas import ClassesDrift, ClassShare
from service.pages.class_figures import MOST_IN_A_MATRIX, drifted

RULE = {"weights": [1.0, 0.1 + 0.2, 1e-5], "least": [-1.0, 0.5, -1.0], "never": []}


def test_a_rule_has_a_number_of_its_own_however_it_was_stored() -> None:
    number = rule_number(RULE)
    assert number == rule_number(json.loads(json.dumps(dict(reversed(RULE.items())))))
    others = [rule_number(RULE | {"never": [0]}), rule_number(RULE | {"weights": [1.0, 0.3, 1e-5]}), OF_TRAINING, 0.0]
    assert len({number, *others}) == 5
    assert number == int(number) < 2**53
    assert rule_number(None) == OF_TRAINING


def test_of_many_classes_those_are_shown_that_changed_most() -> None:
    shares = [0.01 * (place % 2) for place in range(30)]
    classes = [
        ClassShare(label=str(place), rows=0, share=share, low=0, high=1, calibration=0.001 * place, training=0.5)
        for place, share in enumerate(shares)
    ]
    figures = ClassesDrift(
        model_id="mdl_1", days=30, rows=9, outside_range_share=0, rows_by_rule=9, undecided_share=0,
        undecided_calibration=0, classes=classes, unseen=[], by_day=[], unknown=[],
    )  # fmt: skip
    shown = drifted(figures, "3")
    assert len(shown.classes) == MOST_IN_A_MATRIX
    changes = [abs((each.share or 0) - (each.calibration or 0)) for each in shown.classes]
    assert changes == sorted(changes, reverse=True)
    assert changes[0] == 0.028
    assert shown.picture is None
    few = figures.model_copy(update={"classes": classes[:20]})
    assert drifted(few, "3").classes == classes[:20]

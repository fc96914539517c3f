"""What is decided on the event loop is quick, also where numbers are sent as text."""

from __future__ import annotations

import numpy as np

from service.predictions.deciding import ReadyModel
from solver.decision import DecisionState
from solver.features import Column, Table, TableFeatures
from solver.model_file import Model


def test_numbers_that_are_sent_as_text_count_as_many_rows() -> None:
    rng = np.random.default_rng(0)
    table = Table({f"c{j}": Column(f"c{j}", "number", rng.normal(size=50)) for j in range(10)})
    features = TableFeatures().fit(table)
    state = DecisionState(
        kind="linear",
        gamma=1.0,
        degree=1,
        coef0=0.0,
        support_vectors=np.ones((1, features.n_features)),
        dual_coef=np.ones(1),
        intercept=0.0,
        threshold=0.0,
        probability=None,
    )
    ready = ReadyModel("mdl", Model("svm", {}, {"kind": "f1"}, ("a", "b"), state, features), None)  # type: ignore[arg-type]
    numbers = [{f"c{j}": 0.5 for j in range(10)}] * ready.quick_rows
    assert ready.cost_of(numbers) == len(numbers) == ready.quick_rows
    one_text = [*numbers[1:], {f"c{j}": "0.5" for j in range(10)}]
    assert ready.cost_of(one_text) > ready.quick_rows
    assert ready.cost_of([one_text[-1]]) <= ready.quick_rows

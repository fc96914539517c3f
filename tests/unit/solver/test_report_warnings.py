"""Of a table of very many columns a report does not say the same of each."""

from __future__ import annotations

import numpy as np

from solver.features import Column, Table
from solver.report import MOST_OF_A_KIND, few_of_a_kind
from solver.training import TrainingRequest, train


def test_the_same_of_many_columns_is_said_of_the_first() -> None:
    odd = ["it's", 'a "name"', "both ' and \"", "back\\slash"]
    names = [*odd, *(f"gene{j}" for j in range(100))]
    warnings = ["first", *(f"column {name!r} is constant" for name in names), "column 'x' is odd", "last"]
    kept = few_of_a_kind(warnings)
    same = [f"column {name!r} is constant" for name in names[:MOST_OF_A_KIND]]
    more = f"{len(names) - MOST_OF_A_KIND} more like this: column … is constant"
    assert kept == ["first", *same, "column 'x' is odd", "last", more]
    few = warnings[: MOST_OF_A_KIND + 1]
    assert few_of_a_kind(few) == few


def test_a_report_stays_small_however_many_columns_hold_nothing() -> None:
    rng = np.random.default_rng(0)
    labels = np.where(np.arange(60) % 2, "ill", "well").astype(object)
    columns = {"told": Column("told", "number", rng.normal(size=60) + (labels == "ill"))}
    columns |= {f"gene{j}": Column(f"gene{j}", "number", np.ones(60)) for j in range(300)}
    trained = train(Table(columns), labels, TrainingRequest(positive="ill"))
    assert len(trained.report.warnings) < 2 * MOST_OF_A_KIND
    assert any(each.startswith("280 more like this: ") for each in trained.report.warnings)

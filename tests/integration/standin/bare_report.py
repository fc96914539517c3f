"""A report that says next to nothing, for jobs that train nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from solver.report import Classes, Report, RowCounts


def bare_report(**changes: Any) -> Report:
    report = Report(
        algorithm="svm", params={}, objective={"kind": "f1"}, status="met", status_reason="", threshold=0.0,
        classes=Classes("no", "yes"), rows=RowCounts(total=0, labelled=0, positive=0, negative=0, unlabelled=0),
        calibration=None, test=None,
    )  # fmt: skip
    return replace(report, **changes)

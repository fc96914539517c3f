"""The report of several classes to send: what may be long is cut, what people wrote is text, nothing runs or loads."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from service.models.class_html_report import MOST_CLASSES, MOST_CONFUSED, html_report_of_classes
from service.models.repository import Origin
from service.models.schemas import MulticlassModel
from solver.classes_report import MulticlassReport
from solver.multiclass import figures_of

HOSTILE = '<script src="https://evil.example/x"></script>'

PROMISE = {"level": "missed", "chance": None, "confidence": 0.95, "bounds": {}, "sentence": ""}


def no_curve(_label: str) -> None:
    """Return that nothing was kept."""


def model_of(classes: list[str], **changes: Any) -> MulticlassModel:
    """A model of which everything is known that a report may say."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, len(classes), 40 * len(classes))
    said = np.where(rng.random(len(codes)) < 0.7, codes, rng.integers(-1, len(classes), len(codes)))
    figures = figures_of(codes, said, classes)
    warnings = [f"{HOSTILE} {'word ' * 300}"] * 40
    report = {
        "algorithm": "svm", "scheme": "one_vs_one", "params": {}, "objective": {"kind": "macro_f1"},
        "status": "met", "status_reason": "", "classes": classes,
        "rows": {"total": 90, "labelled": 80, "by_class": [1] * len(classes), "unlabelled": 10, "test": 9},
        "calibration": figures.to_dict(), "test": figures.to_dict(),
        "controls": {"majority": {"calibration": figures.to_dict()}, "plain_svm": {"calibration": figures.to_dict()}},
        "floors": [{"label": each, "measure": "recall", "target": 0.9, "met": False} for each in classes],
        "promise": PROMISE | {"sentence": HOSTILE * 99},
        "warnings": warnings,
        "columns": [{"name": f"{HOSTILE}{place}", "kind": "number", "length": None} for place in range(400)],
    }  # fmt: skip
    whole = MulticlassReport.from_dict(report | changes)
    return MulticlassModel(
        id="mdl_1", job_id=None, dataset_id=None, algorithm="svm", objective=whole.objective, status="met",
        threshold=None, aliases=[HOSTILE], bytes=1, sha256="0", created_at=datetime(2026, 1, 1, tzinfo=UTC),
        columns=whole.columns, report=whole,
    )  # fmt: skip


@pytest.mark.parametrize("count", [3, 100])
def test_what_is_long_is_cut_and_what_people_wrote_is_text(count: int) -> None:
    classes = [f"{HOSTILE}{number}{'n' * 200}" for number in range(count)]
    html = html_report_of_classes(model_of(classes), Origin(None, HOSTILE, None), no_curve)
    assert "<script" not in html
    assert "n" * 100 not in html
    cut = html_report_of_classes(
        model_of(classes, promise=PROMISE | {"sentence": f"Of {classes[0]!r} too few are known."}),
        Origin(None, HOSTILE, None),
        no_curve,
    )
    assert "too few are known." in cut  # a long name does not take away what is said of it
    assert "n" * 100 not in cut
    assert html.count('<meta http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;;') == 1
    assert html.count("were said to be") == (0 if count == 3 else MOST_CONFUSED)
    assert html.count("evil.example") < 120
    assert len(html) < 60_000
    shown = html.split("Each class, on left-out rows")[1].split("</table>")[0]
    assert shown.count("<tr>") == 1 + min(count, MOST_CLASSES)


def test_a_report_without_figures_says_so() -> None:
    bare = model_of(["a", "b", "c"], calibration=None, test=None, controls={}, promise=None, floors=[], warnings=[])
    html = html_report_of_classes(bare, Origin(None, None, None), no_curve)
    assert "Nothing was measured that could be promised." in html
    assert "What it reached" not in html

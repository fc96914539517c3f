"""Dates → days, weekday, month and hour, whatever way they are written."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from numpy.typing import NDArray

from solver.features import BadValue, Column, FeatureError, StateError, Table, TableFeatures
from solver.features.dates import FORMATS, ISO, SHORT_YEARS, guess_format, may_have_short_years


def dates(*values: str | None) -> Table:
    return Table({"when": Column("when", "text", np.array([*values, None], dtype=object)[:-1])})


def features_of(data: Table, **arguments: object) -> tuple[TableFeatures, dict[str, NDArray[np.float64]]]:
    fitted = TableFeatures(**arguments).fit(data)  # type: ignore[arg-type]
    arrays, meta = fitted.state()
    assert {name: array.dtype.name for name, array in arrays.items()} == TableFeatures.array_types(meta)
    again = TableFeatures.from_state(arrays, json.loads(json.dumps(meta)))
    X, _ = again.transform(data)
    assert isinstance(X, np.ndarray)
    assert X.tobytes() == np.asarray(fitted.transform(data)[0]).tobytes()
    return again, {name: X[:, j] for j, name in enumerate(again.feature_names)}


def test_the_parts_of_a_date() -> None:
    # a Sunday, a Monday, a Wednesday
    features, X = features_of(dates("2026-11-01T06:00:00Z", "2026-11-02T18:00:00+02:00", "2026-12-30 00:30:00"))
    assert features.columns == [{"name": "when", "kind": "date"}]
    written = (datetime(2026, 11, 1, 6), datetime(2026, 11, 2, 16), datetime(2026, 12, 30, 0, 30))
    days = np.array([moment.replace(tzinfo=UTC).timestamp() / 86400 for moment in written])
    np.testing.assert_allclose(X["when day"], (days - days.mean()) / days.std(), rtol=1e-9)
    for name, place in (
        ("weekday", np.array([6, 0, 2]) / 7),
        ("month", np.array([10, 10, 11]) / 12),
        ("hour", np.array([6, 18, 0.5]) / 24),  # as it was written
    ):
        np.testing.assert_allclose(X[f"when {name} (sine)"], np.sin(2 * math.pi * place), atol=1e-12)
        np.testing.assert_allclose(X[f"when {name} (cosine)"], np.cos(2 * math.pi * place), atol=1e-12)


def test_parts_that_never_vary_are_left_out_and_missing_dates_are_indicated() -> None:
    values = [f"2026-11-{day:02}" for day in range(2, 23, 7)]  # Mondays of one month
    features, X = features_of(dates(*values, None))
    assert features.feature_names == ["when day", "when is missing"]
    np.testing.assert_array_equal(X["when is missing"], [0, 0, 0, 1])
    assert X["when day"][3] == 0
    imputed, _ = features_of(dates(*values, None), missing="impute")
    assert imputed.feature_names == ["when day"]
    with pytest.raises(FeatureError, match="no column is left"):
        TableFeatures(kinds={"when": "date"}).fit(dates("2026-11-02", "2026-11-02"))


def test_what_is_no_date_is_refused_or_counts_as_missing_and_is_said() -> None:
    features, _ = features_of(dates("2026-11-02", "2026-11-10", "2026-12-24"))
    sent = dates("2026-11-02", "Christmas", None, "9999-12-31", "0001-01-01T00:00+14:00")
    with pytest.raises(BadValue, match="row 1, column 'when': expected a date such as 2026-11-28"):
        features.transform(sent)
    X, counts = features.transform(sent, refuse_unreadable=False)
    assert counts.unreadable == {"when": 1}
    assert counts.missing == {"when": 1}
    assert any("no date that can be read" in warning for warning in counts.warnings())
    assert np.isfinite(np.asarray(X)).all()
    np.testing.assert_array_equal(np.asarray(X)[1], np.zeros(features.n_features))


def test_iso_dates_are_read_whatever_the_fitted_ones_looked_like() -> None:
    features, _ = features_of(dates("03.10.2024", "14.10.2024", "24.12.2024"))
    X, counts = features.transform(dates("2024-10-03"))
    assert counts.unreadable == {}
    np.testing.assert_array_equal(np.asarray(X), features.transform(dates("03.10.2024"))[0])


@pytest.mark.parametrize("date_format", [each for each in FORMATS if "since" not in each])
def test_every_format_is_recognised_and_gives_the_same_features(date_format: str) -> None:
    moments = [datetime(2026, 1, 3, 5, 7) + timedelta(days=9 * i, hours=5 * i) for i in range(30)]
    if date_format != ISO and "%H" not in date_format:
        moments = [moment.replace(hour=0, minute=0) for moment in moments]
    written = [m.isoformat() if date_format == ISO else m.strftime(date_format) for m in moments]
    short = "%y" in date_format
    assert guess_format(written) == (None if short else date_format)
    assert may_have_short_years(written) == short
    X = features_of(dates(*written), kinds={"when": "date"} if short else {})[1]
    iso = features_of(dates(*(moment.isoformat() for moment in moments)))[1]
    assert X.keys() == iso.keys()
    for name, values in X.items():
        np.testing.assert_array_equal(values, iso[name])


@pytest.mark.parametrize(
    "values",
    [
        ["03/04/2026", "05/06/2026"],  # day or month first?
        ["2026-11-02", "2026-13-02"],
        ["2026-11-02", "soon"],
        ["1.2.3.4", "1.2.3.5"],
        ["01-02-03", "01-02-04"],
        ["12-34", "56-78"],
        ["2026", "2027"],
        ["28.11.26", "29.11.26"],  # or a version
    ],
)
def test_what_may_be_something_else_is_no_date(values: list[str]) -> None:
    assert guess_format(values) is None


def test_years_of_two_digits_turn_at_69_and_that_is_said() -> None:
    values = ["28.11.69", "28.11.68", "01.02.99", "01.02.00"]
    fitted = TableFeatures(kinds={"when": "date"}).fit(dates(*values))
    assert fitted.warnings == [f"column 'when' has dates whose years have two digits; {SHORT_YEARS}"]
    long = features_of(dates("28.11.1969", "28.11.2068", "01.02.1999", "01.02.2000"))[1]
    assert features_of(dates(*values), kinds={"when": "date"})[1]["when day"].tolist() == long["when day"].tolist()


def test_told_that_a_column_holds_dates_most_values_must_be_some() -> None:
    features, _ = features_of(dates("2026-11-02", "2026-11-10", "soon"), kinds={"when": "date"})
    assert features.columns[0]["kind"] == "date"
    with pytest.raises(FeatureError, match="no dates"):
        TableFeatures(kinds={"when": "date"}).fit(dates("2026-11-02", "soon", "later"))
    with pytest.raises(FeatureError, match="day may as well be the month"):
        TableFeatures(kinds={"when": "date"}).fit(dates("03/04/2026", "05/06/2026"))


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("date_format", np.array([99], dtype=np.uint8)),
        ("date_scale", np.array([0.0])),
        ("date_mean", np.array([])),
        ("date_parts", np.array([16], dtype=np.uint8)),
        ("date_parts", np.array([0], dtype=np.uint8)),
        ("date_indicator", np.array([2], dtype=np.uint8)),
        ("date_ends", np.array([3], dtype=np.int64)),
    ],
)
def test_lying_state_is_refused(part: str, value: NDArray[np.generic]) -> None:
    arrays, meta = TableFeatures().fit(dates("2026-11-02", "2026-11-10", "2026-12-24")).state()
    with pytest.raises(StateError):
        TableFeatures.from_state({**arrays, part: value}, meta)

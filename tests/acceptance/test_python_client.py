"""`prefsvm.Client` against a running service."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import prefsvm
from service.local.stack import local_stack


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with local_stack(tmp_path_factory.mktemp("python") / "data") as stack:
        yield stack.url


@pytest.fixture
def client(url: str) -> Iterator[prefsvm.Client]:
    with prefsvm.Client(url) as opened:
        yield opened


def frame(rows: int = 80) -> pd.DataFrame:
    draws = np.random.default_rng(3)
    size = draws.normal(size=rows)
    return pd.DataFrame(
        {
            "size": size,
            "count": draws.integers(0, 5, rows),
            "seen": draws.random(rows) < 0.5,
            "zip": [f"0{number}" for number in draws.integers(1, 5, rows)],
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(draws.integers(0, 50, rows), unit="D"),
            "label": np.where(size > 0, "yes", "no"),
        },
        index=np.arange(rows) + 1000,
    )


def test_a_frame_goes_in_and_a_frame_comes_out(client: prefsvm.Client) -> None:
    rows = frame()
    dataset = client.upload(rows, name="frame")
    assert (dataset.name, dataset.rows, dataset.columns) == ("frame", 80, tuple(rows.columns))
    seen: list[float] = []
    job = client.train(dataset, target="label", positive="yes", objective="f1", algorithm="svm")
    with pytest.warns(prefsvm.ServiceWarning, match="column 'size' alone tells the label"):
        model = client.wait(job, progress=lambda state: seen.append(state.progress))
    assert model.algorithm == "svm"
    assert seen == sorted(seen)
    assert seen[-1] == 1
    answers = client.predict(model, rows.drop(columns="label"))
    assert list(answers.index) == list(rows.index)
    assert (answers["label"] == rows["label"]).mean() > 0.9
    again = client.predict(model.id, rows.drop(columns="label").to_dict("records"))
    assert [each.score for each in again] == list(answers["score"])
    assert client.predict(model, rows.iloc[:0]).empty


def test_labels_come_from_another_frame(client: prefsvm.Client) -> None:
    rows = frame().assign(ticket=[f"r{number}" for number in range(80)])
    answers = rows[["ticket", "label"]].sample(60, random_state=1).rename(columns={"ticket": "who"})
    with pytest.warns(prefsvm.ServiceWarning, match="as keys do"):
        unlabelled, labels = client.upload(rows.drop(columns="label")), client.upload(answers)
    job = client.train(
        unlabelled,
        target="label",
        positive="yes",
        objective="f1",
        algorithm="svm",
        key="ticket",
        labels_from=labels,
        labels={"key": "who"},
    )
    with pytest.warns(prefsvm.ServiceWarning) as told:
        report = client.wait(job).report
    assert any("does not learn from the 20 unlabelled rows" in str(each.message) for each in told)
    assert (report["rows"]["labelled"], report["rows"]["unlabelled"]) == (60, 20)
    assert report["labels"]["unmatched"] == 0


def test_what_goes_wrong_is_a_tree(client: prefsvm.Client) -> None:
    with pytest.raises(prefsvm.NotFoundError) as missing:
        client.model("nobody")
    assert missing.value.status == 404
    assert missing.value.problem is not None
    assert isinstance(missing.value, prefsvm.ClientError)
    dataset = client.upload([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
    with pytest.raises(prefsvm.RefusedError, match="no such column"):
        client.train(dataset, target="c", positive="x", objective="f1")
    with prefsvm.Client("http://127.0.0.1:9") as nobody, pytest.raises(prefsvm.UnreachableError):
        nobody.model("x")


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (float("inf"), r"rows\[1\], column 'a': infinite"),
        (Decimal("0.12345678901234567890"), "more digits"),
        (b"x", r"rows\[1\], column 'a': bytes"),
        ({1}, r"rows\[1\], column 'a': set"),
        ([1, None], r"rows\[1\], column 'a': expected a vector of finite numbers"),
    ],
)
def test_a_value_that_json_has_not_is_refused_and_named(client: prefsvm.Client, value: object, error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        client.upload([{"a": 1}, {"a": value}])


def test_values_of_pandas_and_python_are_sent_as_what_they_are() -> None:
    from prefsvm.client import _clean_rows

    rows = pd.DataFrame({"n": [1, None], "t": ["01", None], "d": [pd.Timestamp("2026-01-02"), pd.NaT]})
    rows["i"] = pd.array([1, pd.NA], dtype="Int64")
    assert list(_clean_rows(rows)) == [
        {"n": 1.0, "t": "01", "d": "2026-01-02T00:00:00", "i": 1},
        {"n": None, "t": None, "d": None, "i": None},
    ]
    one = {"x": np.float32(0.5), "b": np.True_, "n": np.int8(3), "d": date(2026, 1, 2), "c": Decimal("1.5"), "v": False}
    assert list(_clean_rows([one])) == [{"x": 0.5, "b": True, "n": 3, "d": "2026-01-02", "c": 1.5, "v": False}]
    with pytest.raises(ValueError, match="two columns have the same name"):
        list(_clean_rows(pd.DataFrame([[1, 2]], columns=["a", "a"])))

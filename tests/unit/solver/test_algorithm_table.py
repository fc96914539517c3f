"""Every algorithm by name: the table says what the constructor says, and training by it gives a whole model."""

import inspect
import json

import numpy as np
import pytest

from solver.algorithms import ALGORITHMS, ParamError, validate_params
from solver.features import Column, Table
from solver.model_file import read_model, write_model
from solver.report import Report
from solver.training import TrainingError, TrainingRequest, train

GIVEN_BY_TRAINING = {"objective", "positive", "unlabeled", "random_state", "callback", "max_seconds"}


def partly_labelled(n=120, labelled=60, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.4
    truth[:6] = [True, False] * 3
    labels = np.array(["spam" if t else "ham" for t in truth], dtype=object)
    labels[labelled:] = None
    columns = {
        name: Column(name, "number", rng.normal(size=n) + 1.5 * shift * truth)
        for name, shift in (("a", 1.0), ("b", -1.0), ("c", 0.0))
    }
    return Table(columns), labels


@pytest.mark.parametrize("name", ALGORITHMS)
def test_table_agrees_with_the_constructor(name):
    signature = inspect.signature(ALGORITHMS[name].load()).parameters
    defaults = {key: parameter.default for key, parameter in signature.items() if key not in GIVEN_BY_TRAINING}
    # the service returns the method's model only where it is shown to help; a library user gets the method asked for
    if "mode" in defaults and name != "auto":
        assert defaults["mode"] == "method"
        defaults["mode"] = "safe"
    if defaults["kernel"] == "rbf":
        defaults["kernel"] = "auto"  # of a table with texts it makes linear
    assert validate_params(name, {}) == defaults


OBJECTIVES = (
    {"kind": "recall", "target": 0.8},
    {"kind": "cost", "false_negative": 5.0, "false_positive": 1.0},
    {"kind": "precision", "target": 0.6, "confidence": 0.8},
)
# Each algorithm has one of the objectives among the quick tests.
TRAININGS = [
    pytest.param(
        name,
        objective,
        id=f"{name}-{objective['kind']}",
        marks=[] if number % len(OBJECTIVES) == place else pytest.mark.slow,
    )
    for number, name in enumerate(ALGORITHMS)
    for place, objective in enumerate(OBJECTIVES)
]


@pytest.mark.parametrize(("name", "objective"), TRAININGS)
def test_trains_by_name(name, objective, tmp_path):
    table, labels = partly_labelled()
    request = TrainingRequest(algorithm=name, objective=objective, positive="spam", test_fraction=0.2, seed=1)
    trained = train(table, labels, request)
    report = trained.report
    assert Report.from_dict(json.loads(json.dumps(report.to_dict(), allow_nan=False))) == report
    assert report.algorithm == name
    assert report.status in ("met", "cannot_certify", "preference_unmet")
    assert report.test.n == 12
    assert {"no_unlabelled", "plain_svm"} <= report.controls.keys()
    assert all(control.test.n == 12 for control in report.controls.values())
    assert ("all_positive" in report.controls) == (objective["kind"] == "cost")
    if ALGORITHMS[name].needs_unlabelled:
        assert report.comparison.mode == "safe"
    probabilities = trained.model.predict(table).probabilities
    assert probabilities.shape == (120,)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    path = tmp_path / "model"
    write_model(path, trained.model)
    again = read_model(path).predict(table)
    assert np.array_equal(again.scores, trained.model.predict(table).scores)
    assert np.array_equal(again.probabilities, probabilities)


@pytest.mark.parametrize(
    ("name", "params", "wrong"),
    [
        ("cs4vm", {"C": 1.0}, "C"),
        ("cs4vm", {"false_negative": 0}, "false_negative"),
        ("mean-s3vm", {"positive_share": 1.0}, "positive_share"),
        ("tsvm", {"C_unlabeled": -1}, "C_unlabeled"),
        ("ramp-tsvm", {"ramp": 0.1}, "ramp"),
        ("lapsvm", {"n_neighbors": 0}, "n_neighbors"),
        ("cluster", {"clusters": 1}, "clusters"),
        ("cluster", {"space": "auto"}, "space"),
        ("gmm", {"ridge": 0}, "ridge"),
        ("gmm", {"solver": "auto"}, "solver"),
        ("self-training", {"added_share": "wide"}, "added_share"),
    ],
)
def test_wrong_parameter_is_named(name, params, wrong):
    with pytest.raises(ParamError) as caught:
        validate_params(name, params)
    assert caught.value.name == wrong


@pytest.mark.parametrize("name", [name for name, spec in ALGORITHMS.items() if spec.needs_unlabelled])
def test_unlabelled_rows_are_asked_for(name):
    table, labels = partly_labelled(labelled=120)
    request = TrainingRequest(algorithm=name, objective={"kind": "f1"}, positive="spam")
    with pytest.raises(TrainingError) as caught:
        train(table, labels, request)
    assert caught.value.code == "no_unlabelled"

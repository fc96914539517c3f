"""An algorithm is declared once: a class and an entry of the list are all that training, checks and estimate need."""

import inspect
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pytest
from sklearn.base import clone

import prefsvm
from solver import estimators
from solver.algorithms import ALGORITHMS, SHARED, AlgorithmSpec, ParamError, validate_params
from solver.costs import Beside, Cost
from solver.estimate import estimate_training
from solver.estimators import parameters
from solver.estimators._base import ThresholdClassifier
from solver.estimators._choosing import Learned
from solver.estimators.parameters import CostParameters
from solver.features import Column, Table
from solver.parameters import Domain, choice, integer, number
from solver.training import TrainingRequest, train

Side = Literal["left", "right"]
CLASSIFIERS = [getattr(estimators, name) for name in estimators.__all__ if not name.startswith("OneVs")]

TINY = AlgorithmSpec(
    "tiny",
    "The SVM with a larger C.",
    f"{__name__}:Tiny",
    Cost(solves=7, on_all_rows=False, beside=lambda size, params: Beside(params["times"] * size.rows, 5 << 20)),
    (
        *SHARED,
        number("times", 2.0, 0.5, 10, Domain(0, 100), "What C is multiplied by."),
        integer("repeats", 1, 1, 3, "How often."),
        choice("side", Side, "left", "Makes no difference."),
    ),
    needs_unlabelled=False,
)


@dataclass(kw_only=True, eq=False, repr=False)
class Tiny(CostParameters, ThresholdClassifier):
    """The SVM with a larger C."""

    declaration: ClassVar = TINY

    times: float = TINY.defaults["times"]
    repeats: int = TINY.defaults["repeats"]
    side: Side = TINY.defaults["side"]

    def _learn(self, run, plan, objective, rule):
        del objective, rule
        model, scores = self._learn_supervised(run, plan)
        return Learned(model, scores, model, scores)

    def _labelled_cost(self, run):
        return self.times * super()._labelled_cost(run)


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(ALGORITHMS, "tiny", TINY)


def rows(n=80):
    rng = np.random.default_rng(0)
    truth = rng.random(n) < 0.4
    return rng.normal(size=(n, 2)) + 1.5 * truth[:, None], truth


@pytest.mark.usefixtures("tiny")
def test_the_entry_is_checked_and_trained_by_name():
    assert validate_params("tiny", {"times": 3})["times"] == 3.0
    for wrong in ({"times": 11}, {"repeats": 0}, {"side": "top"}, {"margin": 1}):
        with pytest.raises(ParamError) as caught:
            validate_params("tiny", wrong)
        assert [caught.value.name] == list(wrong)
    X, truth = rows()
    table = Table({name: Column(name, "number", X[:, k]) for k, name in enumerate(("a", "b"))})
    labels = np.where(truth, "spam", "ham").astype(object)
    request = TrainingRequest(algorithm="tiny", params={"times": 3}, objective={"kind": "f1"}, positive="spam", seed=1)
    report = train(table, labels, request).report
    assert report.algorithm == "tiny"
    assert report.params["times"] == 3.0


@pytest.mark.usefixtures("tiny")
def test_what_it_costs_is_estimated():
    def of(**params):
        return estimate_training(
            rows=1000, labelled=100, features=5, matrix_bytes=40_000, algorithm="tiny",
            params=validate_params("tiny", params),
        )  # fmt: skip

    assert of(times=10).seconds == pytest.approx(of().seconds + 8 * 1000)
    assert of().bytes == of(times=10).bytes > 480 << 20


def test_a_constructor_in_the_manner_of_scikit_learn_comes_of_it():
    made = Tiny(times=50, C=2.0)
    assert repr(made) == "Tiny(C=2.0, times=50)"
    assert clone(made).get_params() == made.get_params()
    assert made.get_params().keys() == inspect.signature(Tiny).parameters.keys()
    X, truth = rows()
    for wrong in ({"times": 100.0}, {"times": "many"}, {"repeats": 1.5}, {"side": "top"}, {"kernel": "auto"}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}' parameter of Tiny"):
            Tiny(**wrong).fit(X, truth)
    larger, same = Tiny(times=3, random_state=0).fit(X, truth), estimators.SVM(C=3, solver="exact", random_state=0)
    assert np.array_equal(larger.decision_function(X), same.fit(X, truth).decision_function(X))


def test_the_declarations_load_no_third_party_module():
    code = (
        "import sys, solver.algorithms; print([each for each in ('numpy', 'scipy', 'sklearn') if each in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


@pytest.mark.parametrize("cls", CLASSIFIERS, ids=lambda cls: cls.__name__)
def test_every_parameter_is_documented(cls):
    names = set()
    for each in (cls, *cls.__mro__[1:]):
        if each is cls or each.__module__ == parameters.__name__ or "LabelMean" in each.__name__:
            text = inspect.cleandoc(each.__doc__ or "")
            for section in re.findall(r"^(?:Other )?Parameters\n-+\n((?:.+\n?)+)", text, re.MULTILINE):
                for line in re.findall(r"^\S.*", section, re.MULTILINE):
                    names |= set(line.partition(" : ")[0].split(", "))
    assert names == set(inspect.signature(cls).parameters)
    assert "solver.estimators.parameters" in cls.__doc__


def test_every_algorithm_can_be_imported_by_its_name():
    assert set(prefsvm.__all__) >= set(estimators.__all__)
    for name, spec in ALGORITHMS.items():
        assert spec.estimator.partition(":")[2] in estimators.__all__
        assert spec.load().declaration is spec, name

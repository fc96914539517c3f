"""Classifiers from few labelled and many unlabelled rows, to a requirement.

``prefsvm.PSVM`` and its siblings have scikit-learn's interface and need no server. They are imported when they are
first asked for, since they take SciPy and Numba along.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solver.estimators import (
        CS4VM,
        PSVM,
        SVM,
        TSVM,
        AugmentedClassifier,
        BayesianSets,
        ClusterSVM,
        GaussianMixtureClassifier,
        IterativeBayesianSets,
        LaplacianSVM,
        MeanS3VM,
        OneVsOne,
        OneVsRest,
        RampTSVM,
        RocSVM,
        SelfTraining,
        SpyBayesianSets,
        SpyEM,
    )

_ESTIMATORS = (
    *("AugmentedClassifier", "BayesianSets", "CS4VM", "ClusterSVM", "GaussianMixtureClassifier"),
    *("IterativeBayesianSets", "LaplacianSVM", "MeanS3VM", "OneVsOne", "OneVsRest", "PSVM", "RampTSVM", "RocSVM"),
    *("SVM", "SelfTraining", "SpyBayesianSets", "SpyEM", "TSVM"),
)
_MODULES = dict.fromkeys(_ESTIMATORS, "solver.estimators")
"""Where each name comes from."""

__all__ = [
    "CS4VM",
    "PSVM",
    "SVM",
    "TSVM",
    "AugmentedClassifier",
    "BayesianSets",
    "ClusterSVM",
    "GaussianMixtureClassifier",
    "IterativeBayesianSets",
    "LaplacianSVM",
    "MeanS3VM",
    "OneVsOne",
    "OneVsRest",
    "RampTSVM",
    "RocSVM",
    "SelfTraining",
    "SpyBayesianSets",
    "SpyEM",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for, once."""
    if name == "__version__":
        from importlib.metadata import version

        return version("prefsvm")
    if name not in _MODULES:
        raise AttributeError(f"module 'prefsvm' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

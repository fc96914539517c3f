"""Classifiers from few labelled and many unlabelled rows, to a requirement.

``prefsvm.PSVM`` and its siblings have scikit-learn's interface and need no server; `prefsvm.Client` talks to one. Each
is imported when it is first asked for: the estimators take SciPy and Numba along, the client takes neither.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prefsvm.client import (
        Audit,
        AuditRow,
        Client,
        Dataset,
        Job,
        JobFailedError,
        Model,
        Prediction,
        QueuedRow,
        ServiceWarning,
    )
    from service.cli.client import (
        AccessError,
        BusyError,
        ClientError,
        ConflictError,
        NotFoundError,
        RefusedError,
        UnreachableError,
    )
    from solver.estimators import (
        CS4VM,
        PSVM,
        SVM,
        TSVM,
        AugmentedClassifier,
        AutoClassifier,
        BayesianSets,
        BiasedSVM,
        ClusterSVM,
        GaussianMixtureClassifier,
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
    from solver.model_file import load_model, save_model

_ESTIMATORS = (
    *(
        "AugmentedClassifier",
        "AutoClassifier",
        "BayesianSets",
        "BiasedSVM",
        "CS4VM",
        "ClusterSVM",
        "GaussianMixtureClassifier",
    ),
    *("LaplacianSVM", "MeanS3VM", "OneVsOne", "OneVsRest", "PSVM", "RampTSVM", "RocSVM"),
    *("SVM", "SelfTraining", "SpyBayesianSets", "SpyEM", "TSVM"),
)
_FILES = ("load_model", "save_model")
_CLIENT = (
    "Audit",
    "AuditRow",
    "Client",
    "Dataset",
    "Job",
    "JobFailedError",
    "Model",
    "Prediction",
    "QueuedRow",
    "ServiceWarning",
)
_ERRORS = (
    *("AccessError", "BusyError", "ClientError", "ConflictError", "NotFoundError", "RefusedError", "UnreachableError"),
)
_MODULES = (
    dict.fromkeys(_ESTIMATORS, "solver.estimators")
    | dict.fromkeys(_FILES, "solver.model_file")
    | dict.fromkeys(_CLIENT, "prefsvm.client")
    | dict.fromkeys(_ERRORS, "service.cli.client")
)
"""Where each name comes from."""

__all__ = [
    "CS4VM",
    "PSVM",
    "SVM",
    "TSVM",
    "AccessError",
    "Audit",
    "AuditRow",
    "AugmentedClassifier",
    "AutoClassifier",
    "BayesianSets",
    "BiasedSVM",
    "BusyError",
    "Client",
    "ClientError",
    "ClusterSVM",
    "ConflictError",
    "Dataset",
    "GaussianMixtureClassifier",
    "Job",
    "JobFailedError",
    "LaplacianSVM",
    "MeanS3VM",
    "Model",
    "NotFoundError",
    "OneVsOne",
    "OneVsRest",
    "Prediction",
    "QueuedRow",
    "RampTSVM",
    "RefusedError",
    "RocSVM",
    "SelfTraining",
    "ServiceWarning",
    "SpyBayesianSets",
    "SpyEM",
    "UnreachableError",
    "load_model",
    "save_model",
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

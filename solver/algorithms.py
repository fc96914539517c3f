"""The algorithms by name, with their parameters as plain data: what a form, a schema or a check needs to know.

Nothing here imports an estimator; `AlgorithmSpec.load` does when it is to train.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

AUTO: Final = "auto"
"""Stands for `svm`, whatever rows there are: on average no method with unlabelled rows is better."""


class ParamError(ValueError):
    """A parameter (or the algorithm itself, then `name` is ``"algorithm"``) that cannot be used.

    Attributes
    ----------
    name : str
        Which parameter.
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


@dataclass(frozen=True)
class Parameter:
    """One parameter of an algorithm.

    Attributes
    ----------
    name : str
        As the estimator's constructor calls it.
    type : {"number", "integer", "choice"}
    default
        In force where the caller says nothing.
    help : str
        One sentence for the user.
    minimum, maximum : float, optional
        Bounds of a number or integer, inclusive.
    choices : tuple of str
        The texts that are allowed; a number may have some beside its range.
    nullable : bool
        Whether null (None) is allowed.
    """

    name: str
    type: Literal["number", "integer", "choice"]
    default: Any
    help: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    nullable: bool = False

    @property
    def expected(self) -> str:
        """What a value may be, in words."""
        kinds = []
        if self.type != "choice":
            kind = "a number" if self.type == "number" else "a whole number"
            kinds.append(f"{kind} from {self.minimum:g} to {self.maximum:g}")
        kinds += [repr(choice) for choice in self.choices]
        if self.nullable:
            kinds.append("null")
        return " or ".join(kinds)

    def check(self, value: Any) -> Any:
        """The value in its canonical form (whole floats become integers where those are asked for).

        Raises
        ------
        ParamError
        """
        if value is None and self.nullable:
            return None
        if isinstance(value, str) and value in self.choices:
            return value
        if self.type != "choice" and type(value) in (int, float) and abs(value) < math.inf:
            whole = self.type == "integer"
            low, high = self.minimum, self.maximum
            if (
                (low is None or value >= low)
                and (high is None or value <= high)
                and not (whole and value != int(value))
            ):
                return int(value) if whole else float(value)
        raise ParamError(self.name, f"{self.name} must be {self.expected}")


@dataclass(frozen=True)
class AlgorithmSpec:
    """One algorithm.

    Attributes
    ----------
    name, summary : str
    estimator : str
        Where its class is, as ``module:Class``.
    uses_unlabelled : bool
        Whether it learns from unlabelled rows; it then needs some.
    parameters : tuple of Parameter
    """

    name: str
    summary: str
    estimator: str
    uses_unlabelled: bool
    parameters: tuple[Parameter, ...]

    def load(self) -> Any:
        """Import the estimator's class."""
        module, _, name = self.estimator.partition(":")
        return getattr(importlib.import_module(module), name)


_SHARED: Final = (
    Parameter("C", "number", 1.0, "Cost of a margin error.", 1e-6, 1e9),
    Parameter(
        "kernel",
        "choice",
        AUTO,
        "Kernel function; auto is linear where texts are features, else rbf.",
        choices=(AUTO, "rbf", "linear", "poly", "sigmoid"),
    ),
    Parameter(
        "gamma",
        "number",
        "scale",
        "Factor in the kernel; scale is 1 / (features · variance), auto is 1 / features.",
        1e-12,
        1e9,
        ("scale", "auto"),
    ),
    Parameter("degree", "integer", 3, "Degree of the poly kernel.", 1, 10),
    Parameter("coef0", "number", 0.0, "Constant in the poly and sigmoid kernels.", -1e6, 1e6),
    Parameter(
        "class_weight",
        "choice",
        None,
        "balanced weighs the classes' margin errors by the inverse of their share.",
        choices=("balanced",),
        nullable=True,
    ),
    Parameter(
        "threshold_rule",
        "choice",
        "f1max",
        "How the threshold is chosen on calibration rows; zero is the plain SVM.",
        choices=("f1max", "paper", "lcb", "fixed-sequence", "zero"),
    ),
    Parameter(
        "labeled_split",
        "choice",
        "xfit",
        "Calibration scores: of left-out folds, of a left-out half, or of the training rows (optimistic).",
        choices=("xfit", "part", "full"),
    ),
    Parameter(
        "tune",
        "choice",
        "none",
        "Choose C (and gamma) by cross-validation on the labelled rows for the objective.",
        choices=("none", "C", "C-gamma"),
    ),
    Parameter("tol", "number", 1e-3, "Largest violation of the optimality conditions.", 1e-8, 1.0),
    Parameter("max_iter", "integer", -1, "Most iterations of each solver call; -1: no limit.", -1, 1e15),
    Parameter(
        "cache_size",
        "number",
        None,
        "Megabytes of kernel rows kept; null leaves it to the solver.",
        1,
        1 << 20,
        nullable=True,
    ),
    Parameter("device", "choice", "auto", "Where kernel rows are computed.", choices=("auto", "cpu", "cuda")),
)

SOLVER: Final = Parameter(
    "solver",
    "choice",
    "auto",
    "lowrank approximates the kernel, for very many rows; auto takes it where exact does not fit into memory or time.",
    choices=("auto", "exact", "lowrank"),
)
MODE: Final = Parameter(
    "mode",
    "choice",
    "safe",
    "Which model is returned: the method's, or that without unlabelled rows unless the method is shown to be better.",
    choices=("method", "safe", "balanced", "bold"),
)
_SEMI_SUPERVISED: Final = (*_SHARED, MODE)
_C_UNLABELED: Final = Parameter(
    "C_unlabeled",
    "number",
    None,
    "Cost of a margin error of an unlabelled row; null takes C times labelled per unlabelled rows.",
    1e-9,
    1e9,
    nullable=True,
)
_SHARE: Final = (
    Parameter(
        "positive_share",
        "number",
        None,
        "Share of positives among the unlabelled rows; null takes that of the labelled ones.",
        1e-6,
        1 - 1e-6,
        nullable=True,
    ),
    Parameter(
        "prior_strength",
        "number",
        None,
        "How many labelled rows positive_share is worth; null takes it as it is.",
        0,
        1e9,
        nullable=True,
    ),
)
_LABEL_MEANS: Final = (
    Parameter("C1", "number", 1.0, "Cost of a margin error of a labelled row.", 1e-6, 1e9),
    Parameter("C2", "number", 0.1, "Cost of a margin error of an unlabelled row.", 1e-9, 1e9),
    *_SHARE,
    Parameter(
        "means",
        "choice",
        "alternating",
        "Where the labels of unlabelled rows come from; tsvm was measured to be better for most data.",
        choices=("alternating", "tsvm"),
    ),
    Parameter("kernel", "choice", "linear", "Kernel function.", choices=("rbf", "linear", "poly", "sigmoid")),
    *(parameter for parameter in _SEMI_SUPERVISED if parameter.name not in ("C", "kernel", "tune")),
)

ALGORITHMS: Final[dict[str, AlgorithmSpec]] = {
    spec.name: spec
    for spec in (
        AlgorithmSpec(
            "svm",
            "Support vector machine on the labelled rows, with a threshold for the objective.",
            "solver.estimators:SVM",
            uses_unlabelled=False,
            parameters=(*_SHARED, SOLVER),
        ),
        AlgorithmSpec(
            "psvm",
            "Support vector machine that labels unlabelled rows step by step under a precision or recall preference.",
            "solver.estimators:PSVM",
            uses_unlabelled=True,
            parameters=(
                *_SEMI_SUPERVISED,
                SOLVER,
                Parameter(
                    "soft_labels",
                    "choice",
                    "inc",
                    "inc keeps a label once given, rec gives all anew each round.",
                    choices=("inc", "rec"),
                ),
                Parameter(
                    "negative_rule",
                    "choice",
                    "ratio",
                    "Which unlabelled rows become negative.",
                    choices=("ratio", "meanneg", "npv"),
                ),
                Parameter("C_soft", "number", 0.1, "Cost of given labels as a multiple of C.", 1e-6, 1e3),
                Parameter("max_add", "integer", None, "Most rows labelled in a round.", 1, 1e12, nullable=True),
                Parameter("max_rounds", "integer", 50, "Most rounds.", 1, 1000),
            ),
        ),
        AlgorithmSpec(
            "cs4vm",
            "Cost-sensitive semi-supervised SVM by label means; the costs are those of a cost objective.",
            "solver.estimators:CS4VM",
            uses_unlabelled=True,
            parameters=(
                *_LABEL_MEANS,
                Parameter(
                    "false_negative",
                    "number",
                    None,
                    "Cost of missing a positive row; null takes the objective's cost, or 1.",
                    1e-6,
                    1e6,
                    nullable=True,
                ),
                Parameter(
                    "false_positive",
                    "number",
                    None,
                    "Cost of a false alarm; null takes the objective's cost, or 1.",
                    1e-6,
                    1e6,
                    nullable=True,
                ),
                Parameter(
                    "cost_shift",
                    "number",
                    0.0,
                    "Adds this times ln(false_negative / false_positive) to every score.",
                    -10,
                    10,
                ),
            ),
        ),
        AlgorithmSpec(
            "mean-s3vm",
            "Semi-supervised SVM by label means.",
            "solver.estimators:MeanS3VM",
            uses_unlabelled=True,
            parameters=_LABEL_MEANS,
        ),
        AlgorithmSpec(
            "tsvm",
            "Transductive SVM: switches the labels of unlabelled rows until the margin is widest.",
            "solver.estimators:TSVM",
            uses_unlabelled=True,
            parameters=(*_SEMI_SUPERVISED, SOLVER, _C_UNLABELED, *_SHARE),
        ),
        AlgorithmSpec(
            "ramp-tsvm",
            "Transductive SVM with the ramp loss, by the concave-convex procedure.",
            "solver.estimators:RampTSVM",
            uses_unlabelled=True,
            parameters=(
                *_SEMI_SUPERVISED,
                _C_UNLABELED,
                *_SHARE,
                Parameter("ramp", "number", -0.3, "The loss of an unlabelled row is flat below this score.", -0.999, 0),
            ),
        ),
        AlgorithmSpec(
            "lapsvm",
            "Laplacian SVM: scores vary little between neighbouring rows.",
            "solver.estimators:LaplacianSVM",
            uses_unlabelled=True,
            parameters=(
                *_SEMI_SUPERVISED,
                Parameter("n_neighbors", "integer", 6, "Neighbours of a row in the graph.", 1, 1000),
                Parameter("manifold_weight", "number", 0.1, "How much neighbours pull each other.", 0, 1e6),
            ),
        ),
        AlgorithmSpec(
            "cluster",
            "SVM that learns unlabelled rows with the labels on which clusterings by k-means agree.",
            "solver.estimators:ClusterSVM",
            uses_unlabelled=True,
            parameters=(
                *_SEMI_SUPERVISED,
                SOLVER,
                Parameter(
                    "clusters",
                    "integer",
                    "ensemble",
                    "How many; ensemble lets several numbers vote, loo takes the best for left-out labelled rows.",
                    2,
                    200,
                    ("ensemble", "loo"),
                ),
                Parameter(
                    "space",
                    "choice",
                    "input",
                    "Where k-means runs: on the features, or on kernel principal components that tell classes apart.",
                    choices=("input", "kernel-pca"),
                ),
                Parameter(
                    "scaling",
                    "choice",
                    "auto",
                    "Whether k-means sees columns of equal variance; auto: where they are dense.",
                    choices=("auto", "standard", "none"),
                ),
                Parameter(
                    "empty",
                    "choice",
                    "nearest",
                    "A cluster without labelled rows takes the label of the nearest one, or does not vote.",
                    choices=("nearest", "drop"),
                ),
                Parameter("C_soft", "number", 1.0, "Cost of rows on which all agree as a multiple of C.", 1e-6, 1e3),
            ),
        ),
        AlgorithmSpec(
            "gmm",
            "One Gaussian a class, fitted to labelled and unlabelled rows by expectation maximisation.",
            "solver.estimators:GaussianMixtureClassifier",
            uses_unlabelled=True,
            parameters=(
                *_SEMI_SUPERVISED,
                Parameter(
                    "covariance",
                    "choice",
                    "tied",
                    "One for both classes, one each, one each of independent columns, or one each drawn to tied.",
                    choices=("tied", "full", "diag", "shrunk"),
                ),
                Parameter(
                    "unlabeled_weight", "number", 1.0, "What an unlabelled row counts beside a labelled one.", 1e-9, 1
                ),
                Parameter(
                    "ridge", "number", 0.1, "Added to the variance of each column, of columns of variance 1.", 1e-9, 1e3
                ),
                Parameter("max_rounds", "integer", 200, "Most rounds.", 1, 1000),
            ),
        ),
        AlgorithmSpec(
            "self-training",
            "SVM that adds the unlabelled rows it is sure of with its own labels.",
            "solver.estimators:SelfTraining",
            uses_unlabelled=True,
            parameters=(
                *_SEMI_SUPERVISED,
                SOLVER,
                Parameter(
                    "margin", "number", 1.0, "A row is added when its score is at least this far from 0.", 0, 1e6
                ),
                Parameter("max_add", "integer", None, "Most rows of a class added in a round.", 1, 1e12, nullable=True),
                Parameter("max_rounds", "integer", 50, "Most rounds.", 1, 1000),
                Parameter("C_soft", "number", 1.0, "Cost of added rows as a multiple of C.", 1e-6, 1e3),
            ),
        ),
        AlgorithmSpec(
            "augment",
            "SVM that adds the unlabelled rows that one class claims as its own and the other one does not.",
            "solver.estimators:AugmentedClassifier",
            uses_unlabelled=True,
            parameters=(
                *_SEMI_SUPERVISED,
                SOLVER,
                Parameter(
                    "augmenter",
                    "choice",
                    "bayesian-sets",
                    "What ranks the unlabelled rows for each class.",
                    choices=("bayesian-sets", "spy-em", "roc-svm"),
                ),
                Parameter(
                    "cut_off",
                    "choice",
                    "prior",
                    "How many rows a class claims: its share, the augmenter's own choice, or as many as Spy-EM finds.",
                    choices=("prior", "own", "spy-em"),
                ),
                Parameter("claim_factor", "number", 0.5, "Part of that number that is claimed.", 1e-6, 1),
                *_SHARE,
                Parameter("c", "number", 50.0, "Strength of the prior of Bayesian Sets.", 1e-6, 1e6),
                Parameter(
                    "length_exponent",
                    "number",
                    2.0,
                    "Scores of Bayesian Sets are divided by this power of the row's length; 2: by a text's terms.",
                    0,
                    4,
                ),
                Parameter("C_soft", "number", 0.1, "Cost of claimed rows as a multiple of C.", 1e-6, 1e3),
            ),
        ),
        AlgorithmSpec(
            "bayesian-sets",
            "Ranks rows by how well they go together with the positive ones, compared with all rows (Bayesian Sets).",
            "solver.estimators:SpyBayesianSets",
            uses_unlabelled=True,
            parameters=(
                *_SEMI_SUPERVISED,
                Parameter(
                    "c",
                    "number",
                    "spies",
                    "Strength of the prior; spies takes the one that ranks left-out positive rows highest.",
                    1e-6,
                    1e6,
                    ("spies",),
                ),
                Parameter(
                    "cut",
                    "choice",
                    "lee-liu",
                    "Where score 0 is: two rules for left-out positive rows, or the positives' share of labelled rows.",
                    choices=("lee-liu", "prior", "share"),
                ),
            ),
        ),
        AlgorithmSpec(
            "spy-em",
            "Naive Bayes from positive and unlabelled rows, by spies and expectation maximisation.",
            "solver.estimators:SpyEM",
            uses_unlabelled=True,
            parameters=(
                *_SEMI_SUPERVISED,
                Parameter("spies", "number", 0.1, "Share of the positive rows that are spies.", 1e-6, 1 - 1e-6),
                Parameter(
                    "noise",
                    "number",
                    0.15,
                    "A reliable negative scores no higher than this share of the rows in noise_of.",
                    0,
                    1,
                ),
                Parameter(
                    "noise_of",
                    "choice",
                    "spies",
                    "Which rows noise is a share of.",
                    choices=("spies", "unlabelled"),
                ),
                Parameter(
                    "labels",
                    "choice",
                    "soft",
                    "Whether a row belongs to both classes by its posterior, or to the likelier one alone.",
                    choices=("soft", "hard"),
                ),
            ),
        ),
        AlgorithmSpec(
            "roc-svm",
            "SVM on positive rows and on negatives found by Rocchio's rule and by one SVM after another.",
            "solver.estimators:RocSVM",
            uses_unlabelled=True,
            parameters=(
                *_SEMI_SUPERVISED,
                SOLVER,
                Parameter("clusters", "integer", 10, "Of reliable negatives, each looked at by itself.", 1, 1000),
                Parameter(
                    "scope",
                    "choice",
                    "reliable",
                    "Rows that the look at clusters may take: what Rocchio's rule has found, or any.",
                    choices=("reliable", "unlabelled"),
                ),
            ),
        ),
    )
}
"""By name. `AUTO` is no entry of its own."""


def validate_params(algorithm: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Check parameters and fill in the defaults.

    Parameters
    ----------
    algorithm : str
        A key of `ALGORITHMS`, or ``"auto"``.
    params : mapping

    Returns
    -------
    dict
        All parameters of the algorithm.

    Raises
    ------
    ParamError
        For the first one that is wrong; it names it and what was expected.
    """
    spec = ALGORITHMS.get("svm" if algorithm == AUTO else algorithm)
    if spec is None:
        raise ParamError("algorithm", f"algorithm must be one of {', '.join((AUTO, *ALGORITHMS))}")
    known = {parameter.name for parameter in spec.parameters}
    for name in params:
        if name not in known:
            raise ParamError(str(name), f"{algorithm} has no such parameter; it has {', '.join(sorted(known))}")
    return {
        parameter.name: parameter.check(params.get(parameter.name, parameter.default)) for parameter in spec.parameters
    }

"""The algorithms, each declared once: what it is, its parameters, what it costs.

Who checks a request, makes an estimate, draws a form or writes the pages reads it here, and the estimators take their
constructors' defaults and checks from it. Nothing here imports an estimator or a third-party module;
`AlgorithmSpec.load` imports the estimator when it is to train.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from solver import choices
from solver.costs import Cost, clusterings, deformation, gaussians, judged
from solver.parameters import (
    ANY,
    AUTO,
    BETWEEN_0_AND_1,
    NOT_NEGATIVE,
    POSITIVE,
    Domain,
    ParamError,
    Parameter,
    choice,
    integer,
    number,
)

__all__ = ["ALGORITHMS", "AUTO", "POSITIVES_ONLY", "AlgorithmSpec", "ParamError", "Parameter", "validate_params"]


FEWEST_RULER_ROWS: Final = 100
"""Unlabelled rows without which scores of several models cannot be ranked, and a certificate is not cross-fitted."""


@dataclass(frozen=True)
class AlgorithmSpec:
    """One algorithm.

    Attributes
    ----------
    name, summary : str
    estimator : str
        Where its class is, as `module:Class`.
    cost : Cost
        What a training costs.
    parameters : tuple of Parameter
    needs_unlabelled : bool
        Whether it learns from unlabelled rows and cannot do without.
    can_cross_certify : bool
        Whether nothing but the threshold is chosen by left-out scores, so that they may test it.
    needs_negatives : bool
        Whether it cannot learn where no negative row is labelled.
    """

    name: str
    summary: str
    estimator: str
    cost: Cost
    parameters: tuple[Parameter, ...]
    needs_unlabelled: bool = True
    can_cross_certify: bool = True
    needs_negatives: bool = True

    def load(self) -> Any:
        """Import the estimator's class."""
        module, _, name = self.estimator.partition(":")
        return getattr(importlib.import_module(module), name)

    def certificate(self, unlabelled: int) -> choices.Certificate:
        """What a confidence is tested by, with so many unlabelled rows: all labelled rows, or half of them."""
        return "cross_fitted" if self.can_cross_certify and unlabelled >= FEWEST_RULER_ROWS else "strict"

    @property
    def defaults(self) -> dict[str, Any]:
        """Those of the estimator's constructor, by parameter."""
        return {each.name: each.python_default for each in self.parameters}


# A table: what a parameter may be on one line, what it does on the next one.
# fmt: off

C: Final = number("C", 1.0, 1e-6, 1e9, POSITIVE, "Cost of a margin error.")
TUNE: Final = choice("tune", choices.Tune, "none",
    "Choose C (and gamma) by cross-validation on the labelled rows for the objective. Rows that measure have no say: a "
    "fold has the C and gamma that the other folds' scores choose, up to 2,000 labelled rows by models that have "
    "not seen it.")
SOLVER: Final = choice("solver", choices.EngineName, "auto",
    "lowrank approximates the kernel, for very many rows; auto takes it where exact does not fit into memory or time.")
MODE: Final = choice("mode", choices.Mode, "safe",
    "Which model is returned: the method's, or that without unlabelled rows unless the method is shown to be better.",
    python_default="method")
KERNEL: Final = choice("kernel", choices.KernelName, AUTO,
    "Kernel function; auto is linear where texts are features, else rbf.", python_default="rbf", replaced=AUTO)
# of all algorithms, beside the kernel
_OF_ALL: Final = (
    number("gamma", "scale", 1e-12, 1e9, POSITIVE,
        "Factor in the kernel; scale is 1 / (features · variance), auto is 1 / features.", beside=choices.GammaRule),
    integer("degree", 3, 1, 10, "Degree of the poly kernel."),
    number("coef0", 0.0, -1e6, 1e6, ANY, "Constant in the poly and sigmoid kernels."),
    choice("class_weight", choices.ClassWeight, None,
        "balanced weighs the classes' margin errors by the inverse of their share."),
    choice("threshold_rule", choices.ThresholdRule, "auto",
        "How the threshold is chosen on calibration rows: auto evens out the chance in few of them, and for a target "
        "takes one by which it is likely to hold; f1max is the best on them, zero is the plain SVM."),
    choice("labeled_split", choices.LabeledSplit, "xfit",
        "Calibration scores: of left-out folds, of a left-out half, or of the training rows (optimistic)."),
)
_LIMITS: Final = (
    number("tol", 1e-3, 1e-8, 1.0, POSITIVE, "Largest violation of the optimality conditions."),
    integer("max_iter", -1, -1, 1e15, "Most iterations of each solver call; -1: no limit."),
    number("cache_size", None, 1, 1 << 20, POSITIVE, "Megabytes of kernel rows kept; null leaves it to the solver."),
    choice("device", choices.DeviceChoice, "auto", "Where kernel rows are computed."),
)
SHARED: Final = (C, KERNEL, *_OF_ALL, TUNE, *_LIMITS)
"""Of nearly all algorithms, as the page lists them."""
SEMI_SUPERVISED: Final = (*SHARED, MODE)
_C_UNLABELED: Final = number("C_unlabeled", None, 1e-9, 1e9, POSITIVE,
    "Cost of a margin error of an unlabelled row; null takes C times labelled per unlabelled rows.")
SHARE: Final = (
    number("positive_share", None, 1e-6, 1 - 1e-6, BETWEEN_0_AND_1,
        "Share of positives among the unlabelled rows; null takes that of the labelled ones."),
    number("prior_strength", None, 0, 1e9, NOT_NEGATIVE,
        "How many labelled rows positive_share is worth; null takes it as it is."),
)
KNOWN_SHARE: Final = number("positive_share", None, 1e-6, 1 - 1e-6, BETWEEN_0_AND_1,
    "Share of positives among the unlabelled rows, where no negative row is labelled; null estimates it.")
_LABEL_MEANS: Final = (
    number("C1", 1.0, 1e-6, 1e9, POSITIVE, "Cost of a margin error of a labelled row."),
    number("C2", 0.1, 1e-9, 1e9, POSITIVE, "Cost of a margin error of an unlabelled row."),
    *SHARE,
    choice("means", choices.Means, "alternating",
        "Where the labels of unlabelled rows come from; tsvm was measured to be better for most data."),
    choice("kernel", choices.KernelName, "linear", "Kernel function."),
    *_OF_ALL,
    *_LIMITS,
    MODE,
)

_LIST: Final = (
    AlgorithmSpec(
        AUTO,
        "svm, or another method where labelled and unlabelled rows show it to be better.",
        "solver.estimators:AutoClassifier",
        Cost(solves=4, on_all_rows=False, beside=judged),
        (
            *SHARED,
            SOLVER,
            KNOWN_SHARE,
            choice("mode", choices.JudgeMode, "safe",
                "How much better than svm another method must be on left-out rows: safe asks for 1.64 standard errors, "
                "balanced for one, bold for a half."),
        ),
        needs_unlabelled=False,
        needs_negatives=False,
    ),
    AlgorithmSpec(
        "svm",
        "Support vector machine on the labelled rows, with a threshold for the objective.",
        "solver.estimators:SVM",
        Cost(solves=4, on_all_rows=False),
        (*SHARED, SOLVER),
        needs_unlabelled=False,
    ),
    AlgorithmSpec(
        "psvm",
        "Support vector machine that labels unlabelled rows step by step under a precision or recall preference.",
        "solver.estimators:PSVM",
        Cost(solves=8),
        (
            *SEMI_SUPERVISED,
            SOLVER,
            choice("soft_labels", choices.SoftLabels, "inc",
                "inc keeps a label once given, rec gives all anew each round."),
            choice("negative_rule", choices.NegativeRule, "ratio", "Which unlabelled rows become negative."),
            number("C_soft", 0.1, 1e-6, 1e3, POSITIVE, "Cost of given labels as a multiple of C."),
            integer("max_add", None, 1, 1e12, "Most rows labelled in a round."),
            integer("max_rounds", 50, 1, 1000, "Most rounds."),
        ),
        can_cross_certify=False,  # a round is chosen by them
    ),
    AlgorithmSpec(
        "cs4vm",
        "Cost-sensitive semi-supervised SVM by label means; the costs are those of a cost objective.",
        "solver.estimators:CS4VM",
        Cost(solves=30),
        (
            *_LABEL_MEANS,
            number("false_negative", None, 1e-6, 1e6, POSITIVE,
                "Cost of missing a positive row; null takes the objective's cost, or 1."),
            number("false_positive", None, 1e-6, 1e6, POSITIVE,
                "Cost of a false alarm; null takes the objective's cost, or 1."),
            number("cost_shift", 0.0, -10, 10, ANY,
                "Adds this times ln(false_negative / false_positive) to every score."),
        ),
    ),
    AlgorithmSpec(
        "mean-s3vm", "Semi-supervised SVM by label means.", "solver.estimators:MeanS3VM", Cost(solves=30), _LABEL_MEANS
    ),
    AlgorithmSpec(
        "tsvm",
        "Transductive SVM: switches the labels of unlabelled rows until the margin is widest.",
        "solver.estimators:TSVM",
        Cost(solves=60),
        (*SEMI_SUPERVISED, SOLVER, _C_UNLABELED, *SHARE),
    ),
    AlgorithmSpec(
        "ramp-tsvm",
        "Transductive SVM with the ramp loss, by the concave-convex procedure.",
        "solver.estimators:RampTSVM",
        Cost(solves=150),
        (
            *SEMI_SUPERVISED,
            _C_UNLABELED,
            *SHARE,
            number("ramp", -0.3, -0.999, 0, Domain(-1, 0, "right"),
                "The loss of an unlabelled row is flat below this score."),
        ),
    ),
    AlgorithmSpec(
        "lapsvm",
        "Laplacian SVM: scores vary little between neighbouring rows.",
        "solver.estimators:LaplacianSVM",
        Cost(solves=30, beside=deformation),
        (
            *SEMI_SUPERVISED,
            integer("n_neighbors", 6, 1, 1000, "Neighbours of a row in the graph."),
            number("manifold_weight", 0.1, 0, 1e6, NOT_NEGATIVE, "How much neighbours pull each other."),
        ),
    ),
    AlgorithmSpec(
        "cluster",
        "SVM that learns unlabelled rows with the labels on which clusterings by k-means agree.",
        "solver.estimators:ClusterSVM",
        Cost(solves=12, beside=clusterings),
        (
            *SEMI_SUPERVISED,
            SOLVER,
            integer("clusters", "ensemble", 2, 200,
                "How many; ensemble lets several numbers vote, loo takes the best for left-out labelled rows.",
                beside=choices.Clusters),
            choice("space", choices.Space, "input",
                "Where k-means runs: on the features, or on kernel principal components that tell classes apart."),
            choice("scaling", choices.Scaling, "auto",
                "Whether k-means sees columns of equal variance; auto: where they are dense."),
            choice("empty", choices.Empty, "nearest",
                "A cluster without labelled rows takes the label of the nearest one, or does not vote."),
            number("C_soft", 1.0, 1e-6, 1e3, POSITIVE, "Cost of rows on which all agree as a multiple of C."),
        ),
    ),
    AlgorithmSpec(
        "gmm",
        "One Gaussian a class, fitted to labelled and unlabelled rows by expectation maximisation.",
        "solver.estimators:GaussianMixtureClassifier",
        Cost(solves=4, on_all_rows=False, beside=gaussians),
        (
            *SEMI_SUPERVISED,
            choice("covariance", choices.Covariance, "tied",
                "One for both classes, one each, one each of independent columns, or one each drawn to tied."),
            number("unlabeled_weight", 1.0, 1e-9, 1, POSITIVE, "What an unlabelled row counts beside a labelled one."),
            number("ridge", 0.1, 1e-9, 1e3, Domain(1e-9, closed="left"),
                "Added to the variance of each column, of columns of variance 1."),
            integer("max_rounds", 200, 1, 1000, "Most rounds."),
        ),
    ),
    AlgorithmSpec(
        "self-training",
        "SVM that adds the unlabelled rows it is surest of with its own labels.",
        "solver.estimators:SelfTraining",
        Cost(solves=12),
        (
            *SEMI_SUPERVISED,
            SOLVER,
            *SHARE,
            number("added_share", 0.1, 1e-6, 1, POSITIVE,
                "Share of the unlabelled rows that is added in a round, the surest ones of each class."),
            integer("max_rounds", 10, 1, 1000, "Most rounds."),
            number("C_soft", 0.1, 1e-6, 1e3, POSITIVE, "Cost of added rows as a multiple of C."),
        ),
    ),
    AlgorithmSpec(
        "augment",
        "SVM that adds the unlabelled rows that one class claims as its own and the other one does not.",
        "solver.estimators:AugmentedClassifier",
        Cost(solves=12),
        (
            *SEMI_SUPERVISED,
            SOLVER,
            choice("augmenter", choices.Augmenter, "bayesian-sets", "What ranks the unlabelled rows for each class."),
            choice("cut_off", choices.CutOff, "prior",
                "How many rows a class claims: its share, the augmenter's own choice, or as many as Spy-EM finds."),
            number("claim_factor", 0.5, 1e-6, 1, Domain(0, 1, closed="right"), "Part of that number that is claimed."),
            *SHARE,
            number("c", 50.0, 1e-6, 1e6, POSITIVE, "Strength of the prior of Bayesian Sets."),
            number("length_exponent", 2.0, 0, 4, NOT_NEGATIVE,
                "Scores of Bayesian Sets are divided by this power of the row's length; 2: by a text's terms."),
            number("C_soft", 0.1, 1e-6, 1e3, POSITIVE, "Cost of claimed rows as a multiple of C."),
        ),
    ),
    AlgorithmSpec(
        "bayesian-sets",
        "Ranks rows by how well they go together with the positive ones, compared with all rows (Bayesian Sets).",
        "solver.estimators:SpyBayesianSets",
        Cost(solves=30, on_all_rows=False, passes=150),
        (
            *SEMI_SUPERVISED,
            KNOWN_SHARE,
            number("c", "spies", 1e-6, 1e6, POSITIVE,
                "Strength of the prior; spies takes the one that ranks left-out positive rows highest.",
                beside=choices.Spies),
            choice("cut", choices.CutRule, "lee-liu",
                "Where score 0 is: two rules for left-out positive rows, or the positives' share of labelled rows."),
        ),
        needs_negatives=False,
    ),
    AlgorithmSpec(
        "spy-em",
        "Naive Bayes from positive and unlabelled rows, by spies and expectation maximisation.",
        "solver.estimators:SpyEM",
        Cost(solves=30, on_all_rows=False, passes=600),
        (
            *SEMI_SUPERVISED,
            KNOWN_SHARE,
            number("spies", 0.1, 1e-6, 1 - 1e-6, BETWEEN_0_AND_1, "Share of the positive rows that are spies."),
            number("noise", 0.15, 0, 1, Domain(0, 1, closed="both"),
                "A reliable negative scores no higher than this share of the rows in noise_of."),
            choice("noise_of", choices.NoiseOf, "spies", "Which rows noise is a share of."),
            choice("labels", choices.PosteriorLabels, "soft",
                "Whether a row belongs to both classes by its posterior, or to the likelier one alone."),
        ),
        needs_negatives=False,
    ),
    AlgorithmSpec(
        "roc-svm",
        "SVM on positive rows and on negatives found by Rocchio's rule and by one SVM after another.",
        "solver.estimators:RocSVM",
        Cost(solves=30),
        (
            *SEMI_SUPERVISED,
            SOLVER,
            KNOWN_SHARE,
            integer("clusters", 10, 1, 1000, "Of reliable negatives, each looked at by itself."),
            choice("scope", choices.ClusterScope, "reliable",
                "Rows that the look at clusters may take: what Rocchio's rule has found, or any."),
        ),
        needs_negatives=False,
    ),
    AlgorithmSpec(
        "biased-svm",
        "SVM of the positive rows against the unlabelled ones, of which an error costs less.",
        "solver.estimators:BiasedSVM",
        Cost(solves=6),
        (
            *SEMI_SUPERVISED,
            SOLVER,
            KNOWN_SHARE,
            number("unlabeled_factor", 1.0, 1e-6, 1e6, POSITIVE,
                "What unlabelled rows weigh together, as a multiple of what positive rows weigh together."),
        ),
        needs_negatives=False,
    ),
)

# fmt: on

ALGORITHMS: Final[dict[str, AlgorithmSpec]] = {spec.name: spec for spec in _LIST}
"""By name."""
POSITIVES_ONLY: Final = "biased-svm"
"""What `auto` takes where no negative row is labelled; benchmarks/positives.py lays it beside the others."""


def validate_params(algorithm: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Check parameters and fill in the defaults.

    Parameters
    ----------
    algorithm : str
        A key of `ALGORITHMS`.
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
    spec = ALGORITHMS.get(algorithm)
    if spec is None:
        raise ParamError("algorithm", f"algorithm must be one of {', '.join(ALGORITHMS)}")
    known = {parameter.name for parameter in spec.parameters}
    for name in params:
        if name not in known:
            raise ParamError(str(name), f"{algorithm} has no such parameter; it has {', '.join(sorted(known))}")
    return {
        parameter.name: parameter.check(params.get(parameter.name, parameter.default)) for parameter in spec.parameters
    }

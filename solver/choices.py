"""The texts that parameters may be, for the declarations of parameters and for code that reads them.

Nothing here imports anything but names of types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

FALSE_POSITIVE_KINDS: Final = ("false_positive_rate", "ham_loss")
"""Kinds of objectives that limit the share of negative rows that are called positive: one thing in two words."""
TARGET_KINDS: Final = ("precision", "recall", "precision_recall", *FALSE_POSITIVE_KINDS)
"""Kinds that are reached or not, and that a confidence goes with."""

SHARES_OF_OBJECTIVES: Final = ("target", "at_most", "precision", "recall", "confidence")
"""What an objective of a model names that is a share, and said in percent."""

PROMISE_CONFIDENCE: Final = 0.95
"""Level of the bounds of promises and audits where the objective names none."""

MOST_CLASSES: Final = 100
"""That one model tells apart: each is a problem of its own, which is trained six times."""

FEWEST_OF_A_CLASS: Final = 2
"""Labelled rows of each class that a training needs."""

MAX_ENCODED_DIMENSIONS: Final = 8_192
"""Numbers of a vector that an encoder makes of a text."""
SAME_WITHIN: Final = 0.02
"""An encoder makes the same vectors if they differ by no more than this share of their length.

Other processors and libraries, weights in fewer bits and other batches change a vector by less: with the weights of
all-MiniLM-L6-v2 by .0014 in float16, .011 in bfloat16, 1e-6 in other batches.
"""

Scheme = Literal["one_vs_rest", "one_vs_one"]
DEFAULT_SCHEME: Final[Scheme] = "one_vs_one"
"""Measured to be better, see `benchmarks/results/classes.md`."""
ThresholdRule = Literal["auto", "f1max", "paper", "lcb", "fixed-sequence", "zero"]
LabeledSplit = Literal["xfit", "part", "full"]
Certificate = Literal["cross_fitted", "strict"]
PromiseLevel = Literal["proven", "likely", "open", "missed"]
AliasPolicy = Literal["if_not_worse", "if_met", "always"]
KernelName = Literal["rbf", "linear", "poly", "sigmoid"]
GammaRule = Literal["scale", "auto"]
ClassWeight = Literal["balanced"]
Tune = Literal["none", "C", "C-gamma"]
DeviceChoice = Literal["auto", "cpu", "cuda"]
EngineName = Literal["auto", "exact", "lowrank"]
Mode = Literal["method", "safe", "balanced", "bold"]
JudgeMode = Literal["safe", "balanced", "bold"]

SoftLabels = Literal["inc", "rec"]
NegativeRule = Literal["ratio", "meanneg", "npv"]
Means = Literal["alternating", "tsvm"]
Clusters = Literal["ensemble", "loo"]
Space = Literal["input", "kernel-pca"]
Scaling = Literal["auto", "standard", "none"]
Empty = Literal["nearest", "drop"]
Covariance = Literal["tied", "full", "diag", "shrunk"]
Augmenter = Literal["bayesian-sets", "spy-em", "roc-svm"]
CutOff = Literal["prior", "own", "spy-em"]
Spies = Literal["spies"]
CutRule = Literal["lee-liu", "prior", "share"]
NoiseOf = Literal["spies", "unlabelled"]
PosteriorLabels = Literal["soft", "hard"]
ClusterScope = Literal["reliable", "unlabelled"]


def is_of_classes(objective: Mapping[str, Any]) -> bool:
    """Whether an objective is one of three classes and more."""
    return objective.get("kind") in ("macro_f1", "accuracy") or objective.get("costs") is not None


def rate_name(kind: str) -> str:
    """Return what a false positive rate is called where an objective of this kind asked for it."""
    return "ham loss" if kind == "ham_loss" else "false positive rate"

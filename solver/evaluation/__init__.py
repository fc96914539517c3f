"""Measures with intervals, operating curves and splits, shared by every estimator and by the service."""

from solver.evaluation.counts import ConfusionCounts, confusion
from solver.evaluation.curves import OperatingCurve
from solver.evaluation.intervals import (
    WORTH_FOR_INTERVALS,
    clopper_pearson_lower,
    f1_interval,
    wilson,
)
from solver.evaluation.measures import measures
from solver.evaluation.probability import Sigmoid, brier_score, fit_sigmoid, reliability_curve
from solver.evaluation.significance import PairedDifference, paired_bootstrap
from solver.evaluation.splits import stratified_folds, stratified_halves

__all__ = [
    "WORTH_FOR_INTERVALS",
    "ConfusionCounts",
    "OperatingCurve",
    "PairedDifference",
    "Sigmoid",
    "brier_score",
    "clopper_pearson_lower",
    "confusion",
    "f1_interval",
    "fit_sigmoid",
    "measures",
    "paired_bootstrap",
    "reliability_curve",
    "stratified_folds",
    "stratified_halves",
    "wilson",
]

"""Measures with intervals, operating curves and splits, shared by every estimator and by the service."""

from solver.evaluation.counts import ConfusionCounts, confusion
from solver.evaluation.curves import OperatingCurve
from solver.evaluation.intervals import clopper_pearson, clopper_pearson_lower, f1_bootstrap, wilson
from solver.evaluation.measures import measures
from solver.evaluation.splits import stratified_folds, stratified_halves

__all__ = [
    "ConfusionCounts",
    "OperatingCurve",
    "clopper_pearson",
    "clopper_pearson_lower",
    "confusion",
    "f1_bootstrap",
    "measures",
    "stratified_folds",
    "stratified_halves",
    "wilson",
]

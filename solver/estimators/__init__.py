"""The classifiers, one algorithm a file, with scikit-learn's estimator interface."""

from solver.estimators.psvm import PSVM
from solver.estimators.svm import SVM

__all__ = ["PSVM", "SVM"]

"""The classifiers, one algorithm a file, with scikit-learn's estimator interface."""

from solver.estimators.augmented import AugmentedClassifier
from solver.estimators.auto import AutoClassifier
from solver.estimators.bayesian_sets import BayesianSets, SpyBayesianSets
from solver.estimators.biased_svm import BiasedSVM
from solver.estimators.cluster import ClusterSVM
from solver.estimators.cs4vm import CS4VM, MeanS3VM
from solver.estimators.gaussian_mixture import GaussianMixtureClassifier
from solver.estimators.laplacian import LaplacianSVM
from solver.estimators.multiclass import OneVsOne, OneVsRest
from solver.estimators.psvm import PSVM
from solver.estimators.ramp_tsvm import RampTSVM
from solver.estimators.roc_svm import RocSVM
from solver.estimators.self_training import SelfTraining
from solver.estimators.spy_em import SpyEM
from solver.estimators.svm import SVM
from solver.estimators.tsvm import TSVM

__all__ = [
    "CS4VM",
    "PSVM",
    "SVM",
    "TSVM",
    "AugmentedClassifier",
    "AutoClassifier",
    "BayesianSets",
    "BiasedSVM",
    "ClusterSVM",
    "GaussianMixtureClassifier",
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

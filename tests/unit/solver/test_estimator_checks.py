"""scikit-learn's own checks on every estimator."""

from unittest import SkipTest

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from solver.estimators import (
    CS4VM,
    PSVM,
    SVM,
    TSVM,
    AugmentedClassifier,
    BayesianSets,
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

ONE_WEIGHTED_ROW = {
    "check_sample_weight_equivalence_on_dense_data": "one row of a class with weight 3 is one labelled row, not three",
    "check_sample_weight_equivalence_on_sparse_data": "one row of a class with weight 3 is one labelled row, not three",
}
AMBIGUOUS = {
    **ONE_WEIGHTED_ROW,
    "check_classifiers_classes": "labels -1 and +1: -1 may mark unlabelled rows, so unlabeled= has to say",
}
THRESHOLD = {
    **AMBIGUOUS,
    "check_classifiers_train": "expects the decision at 0; here predict compares with threshold_",
    "check_class_weight_classifiers": "expects the weights to move the decision; the threshold serves F1 afterwards",
}
ALONE = {"threshold_rule": "zero", "labeled_split": "full"}


def failures(estimator, expected):
    failed = {}
    for checked, check in estimator_checks_generator(estimator, legacy=True, mark=None):
        name = check.func.__name__
        try:
            check(checked)
        except SkipTest:
            continue
        except Exception as error:
            if name not in expected:
                failed[name] = repr(error)
    return failed


def test_scikit_learn_checks_of_the_svm():
    assert failures(SVM(**ALONE), ONE_WEIGHTED_ROW) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (SVM(), THRESHOLD),
        (PSVM(), THRESHOLD),
        (PSVM.paper(), THRESHOLD),
        *((method(), THRESHOLD) for method in (CS4VM, MeanS3VM, TSVM, RampTSVM, LaplacianSVM, SelfTraining)),
        *((method(**ALONE), AMBIGUOUS) for method in (TSVM, RampTSVM, LaplacianSVM, SelfTraining)),
        *((method(), THRESHOLD) for method in (ClusterSVM, GaussianMixtureClassifier)),
        *((method(**ALONE), AMBIGUOUS) for method in (ClusterSVM, GaussianMixtureClassifier)),
        (ClusterSVM(space="kernel-pca", clusters=4), THRESHOLD),
        (GaussianMixtureClassifier(covariance="full"), THRESHOLD),
        *((method(), THRESHOLD) for method in (BayesianSets, SpyBayesianSets, SpyEM, RocSVM)),
        *((method(**ALONE), AMBIGUOUS) for method in (SpyBayesianSets, SpyEM, RocSVM)),
        (AugmentedClassifier(), THRESHOLD),
        (AugmentedClassifier(**ALONE), AMBIGUOUS),
        (OneVsOne(SVM(**ALONE)), AMBIGUOUS),
        (OneVsRest(SVM(**ALONE)), AMBIGUOUS),
        *((method(SVM(random_state=0), objective="macro_f1"), THRESHOLD) for method in (OneVsOne, OneVsRest)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_scikit_learn_checks_of_all(estimator, expected):
    assert failures(estimator, expected) == {}

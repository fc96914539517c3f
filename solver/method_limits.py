"""Which rows `auto` judges by, and how large clusterings and covariances may become; for estimates too."""

from __future__ import annotations

from typing import Final

# with fewer unlabelled rows, or more labelled ones, `auto` is the SVM
FEWEST_UNLABELLED: Final = 50
JUDGED_LABELLED: Final = 500
# with less time for all of a training too
JUDGING_SECONDS: Final = 30.0
# unlabelled rows that it learns from
JUDGED_UNLABELLED: Final = 2_000
# likewise where one method is favoured, and tried alone
FAVOURED_UNLABELLED: Final = 4_000
# centres of clusters are found on as many rows; all others are placed among them
CLUSTERED_ROWS: Final = 10_000
# the same for kernel principal components
PROJECTED_ROWS: Final = 1_000
MOST_CLUSTERS: Final = 200
# of all centres together: with many features fewer clusters are looked for
MOST_CENTRE_VALUES: Final = 1 << 21
# a covariance has a value for each pair of them
MOST_GAUSSIAN_FEATURES: Final = 2048
# sparse rows of fewer are made dense where a covariance is sought, as features of fewer columns are dense anyway
SPARSE_FEATURES: Final = 512


def numbers_of_clusters(labelled: int, rows: int, features: int) -> list[int]:
    """The grid of k: 2, 4, 6, 10, 16, half as many as labelled rows and as many, as far as that is allowed."""
    most = most_clusters(rows, features)
    return sorted({max(2, min(k, most)) for k in (2, 4, 6, 10, 16, labelled // 2, labelled)})


def most_clusters(rows: int, features: int) -> int:
    """How many are allowed."""
    return min(rows, MOST_CLUSTERS, max(2, MOST_CENTRE_VALUES // max(1, features)))


def auto_is_svm(labelled: int, unlabelled: int, seconds: float | None) -> bool:
    """Whether `auto` tries no method beside the SVM, with so many rows and so many seconds (None: any)."""
    return (
        unlabelled < FEWEST_UNLABELLED
        or labelled > JUDGED_LABELLED
        or (seconds is not None and seconds < JUDGING_SECONDS)
    )

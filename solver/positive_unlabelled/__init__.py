"""Learning from positive and unlabelled rows: plain functions, which the estimators are made of.

All take the matrix of all rows and the numbers of the positive and of the unlabelled ones, so that nothing is copied.
"""

from solver.planes import Plane
from solver.positive_unlabelled.bayesian_sets import Items, Ranked, rank_by_set, rank_by_spies
from solver.positive_unlabelled.roc import Grown, grow_negatives, reliable_negatives
from solver.positive_unlabelled.spies import Cut, SpyRanks, retained_share, spy_ranks
from solver.positive_unlabelled.spy_em import Separated, spy_em

__all__ = [
    "Cut",
    "Grown",
    "Items",
    "Plane",
    "Ranked",
    "Separated",
    "SpyRanks",
    "grow_negatives",
    "rank_by_set",
    "rank_by_spies",
    "reliable_negatives",
    "retained_share",
    "spy_em",
    "spy_ranks",
]

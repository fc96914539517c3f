"""More than two classes, as plain functions on arrays: probabilities, objectives, rules, figures and the decision."""

from solver.multiclass.calibration import Calibration, calibrate
from solver.multiclass.coupling import coupled, normalised
from solver.multiclass.decision import ClassesDecision, ProblemScores, SharedExpansion
from solver.multiclass.figures import ClassesReport, figures_of
from solver.multiclass.objective import MOST_CLASSES, ClassObjective, ClassObjectiveError
from solver.multiclass.problems import Scheme, pairs_of, two_class_problems, votes
from solver.multiclass.rule import UNDECIDED, ClassRule, choose_rule

__all__ = [
    "MOST_CLASSES",
    "UNDECIDED",
    "Calibration",
    "ClassObjective",
    "ClassObjectiveError",
    "ClassRule",
    "ClassesDecision",
    "ClassesReport",
    "ProblemScores",
    "Scheme",
    "SharedExpansion",
    "calibrate",
    "choose_rule",
    "coupled",
    "figures_of",
    "normalised",
    "pairs_of",
    "two_class_problems",
    "votes",
]

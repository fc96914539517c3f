"""More than two classes, as plain functions on arrays: probabilities, objectives, rules, figures and the decision."""

from solver.multiclass.calibration import Calibration, calibrate, calibrate_own
from solver.multiclass.choosing import LeftOutError, LeftOutProbabilities
from solver.multiclass.coupling import coupled, normalised
from solver.multiclass.decision import ClassesDecision, ProblemScores, SharedExpansion
from solver.multiclass.figures import ClassesReport, figures_of
from solver.multiclass.left_out import LeftOutProblemScores
from solver.multiclass.objective import MOST_CLASSES, ClassObjective, ClassObjectiveError, with_classes_called
from solver.multiclass.problems import (
    OwnRows,
    Scheme,
    each_two_class_problem,
    number_of_problems,
    own_rows,
    pairs_of,
    two_class_problems,
    votes,
)
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
    "LeftOutError",
    "LeftOutProbabilities",
    "LeftOutProblemScores",
    "OwnRows",
    "ProblemScores",
    "Scheme",
    "SharedExpansion",
    "calibrate",
    "calibrate_own",
    "choose_rule",
    "coupled",
    "each_two_class_problem",
    "figures_of",
    "normalised",
    "number_of_problems",
    "own_rows",
    "pairs_of",
    "two_class_problems",
    "votes",
    "with_classes_called",
]

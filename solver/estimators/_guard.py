"""Whether the unlabelled rows helped: the method against the same labels without them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from solver.choices import Mode
from solver.evaluation.significance import PairedDifference, paired_bootstrap
from solver.operating_point import Objective
from solver.report import ComparisonReport
from solver.typing import BoolArray, FloatArray

# the standard error is then right to 3 %
_DRAWS: Final = 500
# the gain, in standard errors, that the method must exceed to be returned instead of the control
_NEEDED_GAIN: Final[dict[str, float]] = {"method": -np.inf, "safe": 1.64, "balanced": 1.0, "bold": 0.0}


@dataclass(frozen=True)
class Comparison:
    """The method against the control without unlabelled rows, on the same calibration rows.

    Attributes
    ----------
    mode : str
        What was asked for.
    returned : str
        `method` or `no_unlabelled`.
    difference : PairedDifference
        Of the objective's utility.
    """

    mode: Mode
    returned: Literal["method", "no_unlabelled"]
    difference: PairedDifference

    def report(self) -> ComparisonReport:
        """What the report says of it."""
        return ComparisonReport(mode=self.mode, returned=self.returned, **vars(self.difference))


def compare(
    truth: FloatArray,
    method: BoolArray,
    control: BoolArray,
    objective: Objective,
    mode: Mode,
) -> Comparison:
    """Decide which of two decisions is returned.

    Parameters
    ----------
    truth : float64 array of shape (n,)
        +1 and -1.
    method, control : bool arrays of shape (n,)
        Which rows each predicts positive.
    objective : Objective
    mode : str
        `safe`: the method must be better by more than 1.64 standard errors; `balanced`: by more than one; `bold`: by
        anything; `method`: it is returned whatever the comparison says.
    """
    difference = difference_between(truth, method, control, objective)
    needed = _NEEDED_GAIN[mode] * difference.standard_error if mode != "method" else -np.inf
    return Comparison(mode, "method" if difference.gain > needed else "no_unlabelled", difference)


def difference_between(
    truth: FloatArray, first: BoolArray, second: BoolArray, objective: Objective
) -> PairedDifference:
    """How much more the first decision is worth to the objective."""
    return paired_bootstrap(truth, first, second, objective.utilities, draws=_DRAWS)


def wins(challenger: PairedDifference) -> bool:
    """Whether a difference says "better": by more than one standard error, or with an interval that is all above 0.

    The one does not follow from the other where samples of few rows make a skew distribution.
    """
    return challenger.gain > 0 and (challenger.gain > challenger.standard_error or challenger.low > 0)

"""Whether another method than the SVM is to be believed: by left-out labels, and by the unlabelled rows.

Left-out labelled rows say what a method does to rows that the labels reach; few of them are a noisy judge. The
unlabelled rows say two things more: whether the method's threshold parts them more sharply than that of the SVM, and
whether it ranks them as the SVM does, so that it corrects and does not invent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from solver.choices import JudgeMode
from solver.estimators._expansion import Expansion
from solver.evaluation.probability import Sigmoid, fit_sigmoid
from solver.report import JudgedMethod, Judgement
from solver.typing import FloatArray

NEEDED: Final[dict[JudgeMode, float]] = {"safe": 1.64, "balanced": 1.0, "bold": 0.5}
"""How many standard errors the log loss on left-out labelled rows must be better by."""
LEAST_CORRELATION: Final = 0.9
"""Of the ranks of the unlabelled rows, by the method and by the SVM."""
FAVOURED_CORRELATION: Final = 0.8
"""The same of a method that is favoured."""


@dataclass(frozen=True)
class Candidate:
    """A trained method and what it says of rows that have not trained it, or have no label.

    Attributes
    ----------
    name : str
    model : Expansion
    scores : float64 array
        Of the calibration rows, left out.
    unlabelled : float64 array
        Of the unlabelled rows.
    threshold : float
        For the objective.
    """

    name: str
    model: Expansion
    scores: FloatArray
    unlabelled: FloatArray
    threshold: float


def judge(truth: FloatArray, control: Candidate, candidates: Sequence[Candidate], mode: JudgeMode) -> Judgement:
    """Say which candidate is believed, if any: of those that pass the tests the one of the least log loss.

    Parameters
    ----------
    truth : float64 array
        +1 and -1 of the calibration rows.
    control : Candidate
        The SVM without unlabelled rows.
    candidates : sequence of Candidate
    mode : str
        See `NEEDED`.
    """
    sharpness = _sharpness(control)

    def passes(each: JudgedMethod) -> bool:
        is_better = each.gain > max(0.0, NEEDED[mode] * each.standard_error)
        return is_better and each.sharpness > sharpness and each.rank_correlation > LEAST_CORRELATION

    judged = [_measured(truth, control, candidate) for candidate in candidates]
    judged = [replace(each, passes=passes(each)) for each in judged]
    best = max((each for each in judged if each.passes), key=lambda each: each.gain, default=None)
    judgement = _judgement(truth, control, judged, best, mode)
    return replace(judgement, sentence=_sentence(judgement, best))


def judge_favoured(truth: FloatArray, control: Candidate, favoured: Candidate, mode: JudgeMode) -> Judgement:
    """Say whether anything speaks against a method that is better than the SVM as a rule on data of this kind.

    It is taken unless its log loss on left-out labelled rows is worse by more than a standard error, or it does not
    part the unlabelled rows more sharply, or ranks them otherwise than the SVM. The first two are so where positive
    rows have another share of the labelled rows than of the unlabelled ones. For the rest see `judge`; the thresholds
    are those for F1 here, as those of other objectives may lie where few rows are.
    """
    told = _measured(truth, control, favoured)
    is_no_worse = told.gain > -told.standard_error and told.sharpness > _sharpness(control)
    told = replace(told, passes=is_no_worse and told.rank_correlation > FAVOURED_CORRELATION)
    judgement = _judgement(truth, control, [told], told if told.passes else None, mode)
    return replace(judgement, sentence=_sentence_of_favoured(judgement, told))


def _measured(truth: FloatArray, control: Candidate, candidate: Candidate) -> JudgedMethod:
    """A method beside the SVM; whether it passes is not said yet."""
    loss = _losses(truth, control.scores)
    gains = loss - _losses(truth, candidate.scores)
    return JudgedMethod(
        method=candidate.name,
        log_loss=float(np.mean(loss)) - float(np.mean(gains)),
        gain=float(np.mean(gains)),
        standard_error=float(np.std(gains, ddof=1) / np.sqrt(len(gains))),
        sharpness=_sharpness(candidate),
        rank_correlation=rank_correlation(candidate.unlabelled, control.unlabelled),
        passes=False,
    )


def _judgement(
    truth: FloatArray, control: Candidate, judged: list[JudgedMethod], taken: JudgedMethod | None, mode: JudgeMode
) -> Judgement:
    """What was measured, and what is taken, without words."""
    return Judgement(
        mode=mode,
        returned=control.name if taken is None else taken.method,
        log_loss=float(np.mean(_losses(truth, control.scores))),
        sharpness=_sharpness(control),
        methods=judged,
        sentence="",
    )


def _sentence(judgement: Judgement, best: JudgedMethod | None) -> str:
    if best is None:
        tried = ", ".join(each.method for each in judgement.methods)
        return f"The model is svm: beside it {tried} were tried, and none was shown to be better."
    return (
        f"The model is {best.method}, not svm: on left-out labelled rows its log loss is {best.log_loss:.3f}, svm's "
        f"{judgement.log_loss:.3f} (gain {best.gain:.3f}, standard error {best.standard_error:.3f}); it parts the "
        f"unlabelled rows more sharply ({_apart(best.sharpness, judgement.sharpness)}) and ranks them alike "
        f"({best.rank_correlation:.2f})."
    )


def _sentence_of_favoured(judgement: Judgement, told: JudgedMethod) -> str:
    figures = (
        f"on left-out labelled rows its log loss is {told.log_loss:.3f}, svm's {judgement.log_loss:.3f} (gain "
        f"{told.gain:.3f}, standard error {told.standard_error:.3f}); the sharpness with which it parts the unlabelled "
        f"rows is {_apart(told.sharpness, judgement.sharpness)}; the ranks that both give them have a correlation of "
        f"{told.rank_correlation:.2f}"
    )
    if told.passes:
        return (
            f"The model is {told.method}, which is better than svm on data of this kind as a rule, and nothing speaks "
            f"against it here: {figures}."
        )
    return (
        f"The model is svm. {told.method}, which is better on data of this kind as a rule, was tried, and is not taken "
        f"here: {figures}."
    )


def _apart(value: float, of_svm: float | None) -> str:
    """Return both with as many digits as they need to differ."""
    digits = next((n for n in range(2, 9) if f"{value:.{n}f}" != f"{of_svm:.{n}f}"), 9)
    return f"{value:.{digits}f}, svm {of_svm:.{digits}f}"


def _losses(truth: FloatArray, scores: FloatArray) -> FloatArray:
    """Log loss of each row under the sigmoid that fits them."""
    sigmoid: Sigmoid = fit_sigmoid(scores, truth)
    losses: FloatArray = np.logaddexp(0, -truth * (sigmoid.slope * scores + sigmoid.offset))
    return losses


def _sharpness(candidate: Candidate) -> float:
    """Share of the variance of the unlabelled rows' scores that lies between both sides of the threshold."""
    scores = candidate.unlabelled
    above = scores > candidate.threshold
    variance = float(np.var(scores))
    if above.all() or not above.any() or variance == 0:
        return 0.0
    share = float(np.mean(above))
    return share * (1 - share) * float(scores[above].mean() - scores[~above].mean()) ** 2 / variance


def rank_correlation(first: FloatArray, second: FloatArray) -> float:
    """Spearman's; 0 where one of them has but one value."""
    ranks = [_ranks(first), _ranks(second)]
    deviations = [each - each.mean() for each in ranks]
    norm = float(np.sqrt(np.sum(deviations[0] ** 2) * np.sum(deviations[1] ** 2)))
    return float(np.sum(deviations[0] * deviations[1])) / norm if norm > 0 else 0.0


def _ranks(values: FloatArray) -> FloatArray:
    """Mean rank of each value among equals."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: FloatArray = (last - (counts - 1) / 2)[place]
    return ranks

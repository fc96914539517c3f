"""How the draws of an audit are shared among strata, and what is bet on them.

Rows of a stratum are alike to the model: it says which share of them is positive. Whoever doubts the statement that is
to be proved says other shares, any by which it does not hold. Of these those are least favourable that the draws can
hardly tell from the model's. They follow from the shares of the draws, and a game follows: draws where they tell the
two apart, until no stratum tells more than another. The bet that grows fastest is then known, too: of each draw, the
ratio of what both say of it (the reverse information projection). It is a bet on the value of the draw beside the one
expected in its stratum, so what stratum a draw comes from, which is chance and tells nothing, costs nothing.

All of this is what the model believes. Where it is wrong, audits take longer; a part of the capital is bet otherwise,
so that they do not take for ever. No proof becomes false, whatever is bet.

References
----------
Grünwald, de Heide and Koolen, "Safe testing", JRSSB 2024. Garivier and Kaufmann, "Optimal best arm identification with
fixed confidence", COLT 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from solver.typing import FloatArray

# so many rows are thought to be otherwise than the model says, in each stratum
_DOUBT: Final = 0.1
# of the draws, so many go where values differ most, whatever the game says
_SPREAD: Final = 0.03
# what a row tells at most, in nats
_MOST_TOLD: Final = 20.0
_NEVER: Final = 1e-12
_HALVINGS: Final = 45
# of the failures that the statement allows, what is hoped for at most: else there is nothing to prove
_ROOM: Final = 0.85
_SUREST: Final = 1e-5
_LEAST: Final = 1e-6
# how much is kept of a bet that loses all it can
_KEPT: Final = (0.02, 0.95)
# parts of the capital: if the model is right, if it fails more often; what is left asks it nothing (kept, part)
_BELIEVED: Final = (0.85, 0.05)
_UNBELIEVING: Final = ((0.1, 0.5), (0.3, 0.3), (0.7, 0.2))


@dataclass(frozen=True)
class WeightedBet:
    """A part of the capital, and what it is bet on in every draw."""

    weight: float
    """Of the capital."""
    kept: float
    """Of it, where a draw has the value that speaks most against the statement."""
    expected: tuple[float, ...]
    """Of each stratum, the mean value of its rows that the bet reckons with."""


@dataclass(frozen=True)
class Outcomes:
    """What is known of strata before any draw.

    Parameters
    ----------
    rows : float array of shape (strata,)
    positive : float array of shape (strata,)
        Share of the rows that the model thinks positive.
    yes, no : float arrays of shape (strata,)
        Value of a row that is positive, and of one that is not.
    losses : float array of shape (strata,)
        How far below zero the value of a row can be.
    """

    rows: FloatArray
    positive: FloatArray
    yes: FloatArray
    no: FloatArray
    losses: FloatArray

    def total(self, positive: FloatArray) -> float:
        """Return the sum of all values if so many rows are positive."""
        return float((self.rows * (positive * self.yes + (1 - positive) * self.no)).sum())

    def hoped(self) -> Outcomes:
        """Return the outcomes with shares that are neither 0 nor 1, and by which the statement holds with some room."""
        positive = (self.rows * self.positive + _DOUBT) / (self.rows + 2 * _DOUBT)
        return replace(self, positive=self._failing(positive, _ROOM))

    def between(self) -> Outcomes:
        """Return them with more failures: half of the room that there is for them is taken."""
        failures = self._failures(self.positive)
        allowed = self.total(self.positive) + failures
        return replace(self, positive=self._scaled(self.positive, 0.5 * (1 + allowed / failures)))

    def spread(self) -> FloatArray:
        """Return the shares of draws by which values differ least (Neyman)."""
        found: FloatArray = self.rows * np.sqrt(self.positive * self.yes**2 + (1 - self.positive) * self.no**2)
        shares: FloatArray = found / found.sum()
        return shares

    def _failing(self, positive: FloatArray, part: float) -> FloatArray:
        """Return the shares with fewer failures, where they are more than this part of those that may be."""
        failures = self._failures(positive)
        allowed = self.total(positive) + failures
        if failures <= part * allowed:
            return positive
        return self._scaled(positive, max(part * allowed, 0.01 * failures) / failures)

    def _failures(self, positive: FloatArray) -> float:
        """Return what rows that can fail take from the sum, beside what they would add if none did."""
        bad = np.where(self.yes < self.no, positive, 1 - positive)
        return float((self.rows * bad * np.abs(self.yes - self.no))[self.losses > 0].sum())

    def _scaled(self, positive: FloatArray, factor: float) -> FloatArray:
        """Return the shares with so many times the failures."""
        fails_yes = (self.losses > 0) & (self.yes < self.no)
        fails_no = (self.losses > 0) & (self.yes > self.no)
        scaled = np.where(fails_yes, positive * factor, np.where(fails_no, 1 - (1 - positive) * factor, positive))
        return np.clip(scaled, _SUREST, 1 - _SUREST)


def least_favourable(outcomes: Outcomes, shares: FloatArray) -> tuple[FloatArray, float]:
    """Return the shares of positive rows by which the statement just fails that draws tell least from the model's.

    Parameters
    ----------
    outcomes : Outcomes
        By whose shares the statement holds.
    shares : float array of shape (strata,)
        Of the draws, all positive.

    Returns
    -------
    positive : float array of shape (strata,)
    multiplier : float
        Of the constraint: what the bet multiplies a value with.
    """
    pull = outcomes.rows * (outcomes.yes - outcomes.no) / shares
    low, high = 0.0, 1.0 / float(np.max(outcomes.losses * outcomes.rows / shares))
    while outcomes.total(_pulled(outcomes.positive, pull * high)) > 0:
        low, high = high, 2 * high
        if high > 1e12:
            break
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if outcomes.total(_pulled(outcomes.positive, pull * middle)) > 0:
            low = middle
        else:
            high = middle
    return _pulled(outcomes.positive, pull * high), high


def _pulled(positive: FloatArray, pull: FloatArray) -> FloatArray:
    """Return the share θ with pull = (p - θ) / (θ (1 - θ)), which lies below p where the pull is positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        root = ((1 + pull) - np.sqrt((1 + pull) ** 2 - 4 * pull * positive)) / (2 * pull)
    found: FloatArray = np.where(np.abs(pull) < 1e-9, positive, root)
    clipped: FloatArray = np.clip(found, 1e-12, 1 - 1e-12)
    return clipped


def information(positive: FloatArray, other: FloatArray) -> FloatArray:
    """Return what a row of each stratum tells of `positive` against `other`: Kullback-Leibler divergence."""
    told: FloatArray = positive * np.log(positive / other) + (1 - positive) * np.log((1 - positive) / (1 - other))
    return told


def best_shares(outcomes: Outcomes) -> FloatArray:
    """Return the shares of the draws by which the statement is proved with fewest, if the model is right.

    Then a draw from each stratum tells equally much, and what that is, is found by halving an interval: from it follow
    the least favourable shares of positive rows, and from these how often each stratum is drawn from.
    """
    low, high = 0.0, _MOST_TOLD
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if outcomes.total(_told_by(outcomes, middle)) > 0 else (low, middle)
    other = _told_by(outcomes, high)
    apart = np.abs(outcomes.positive - other)
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = outcomes.rows * np.abs(outcomes.yes - outcomes.no) * other * (1 - other) / apart
    shares: FloatArray = np.where(outcomes.yes == outcomes.no, 0.0, np.nan_to_num(wanted, posinf=0.0))
    shares = np.maximum(shares / shares.sum(), _LEAST)
    normed: FloatArray = shares / shares.sum()
    return normed


def _told_by(outcomes: Outcomes, told: float) -> FloatArray:
    """Return other shares of positive rows, nearer to failing, against which a row of each stratum tells so much."""
    inner = outcomes.positive.copy()
    outer = np.where(outcomes.yes > outcomes.no, _NEVER, 1 - _NEVER)
    for _ in range(_HALVINGS):
        middle = (inner + outer) / 2
        enough = information(outcomes.positive, middle) > told
        inner, outer = np.where(enough, inner, middle), np.where(enough, middle, outer)
    return inner


def allocate(outcomes: Sequence[Outcomes]) -> tuple[FloatArray, tuple[tuple[WeightedBet, ...], ...]]:
    """Return how the draws are shared among strata, and the bets on each of several statements about them.

    Parameters
    ----------
    outcomes : sequence of Outcomes
        Of each statement, for the same strata.

    Returns
    -------
    shares : float array of shape (strata,)
    bets : tuple of tuple of WeightedBet
    """
    rows = outcomes[0].rows
    # where all rows are called positive, a recall cannot fail
    hoped = [each.hoped() if each.losses.any() else None for each in outcomes]
    wanted = [(1 - _SPREAD) * best_shares(each) + _SPREAD * each.spread() for each in hoped if each is not None]
    shares: FloatArray = np.mean(wanted, axis=0) if wanted else rows / rows.sum()
    return shares, tuple(
        (*(() if each is None else _believed_bets(each, shares)), *_other_bets(len(rows), each is None))
        for each in hoped
    )


def _believed_bets(outcomes: Outcomes, shares: FloatArray) -> tuple[WeightedBet, ...]:
    """Return the bets that grow fastest if the model is right, and if it fails more often than it thinks."""
    weights = outcomes.rows / shares
    made = []
    for weight, believed in zip(_BELIEVED, (outcomes, outcomes.between()), strict=True):
        other, multiplier = least_favourable(believed, shares)
        expected = other * outcomes.yes + (1 - other) * outcomes.no
        worst = ((outcomes.losses + expected) * weights).max() - (outcomes.rows * expected).sum()
        kept = float(np.clip(1 - multiplier * worst, *_KEPT))
        made.append(WeightedBet(weight, kept, tuple(expected.tolist())))
    return tuple(made)


def _other_bets(strata: int, alone: bool) -> tuple[WeightedBet, ...]:
    """Return the bets that ask the model nothing."""
    share = 1.0 if alone else 1 - sum(_BELIEVED)
    return tuple(WeightedBet(share * part, kept, (0.0,) * strata) for kept, part in _UNBELIEVING)

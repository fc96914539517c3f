"""Where the draws of an audit go, and what is bet on them.

A row *fails* if it has the lower of the two values that it can have: a positive row that is not called so, of a recall.
Rows of a stratum are alike to the model: it says which share of them fails. Whoever doubts the statement that is to be
proved says that more fail than that. What the doubter adds is best hidden among rows that nobody has looked at yet, in
each stratum so many that the draws can hardly tell. A game follows. In its equilibrium the doubter hides `hidden` rows
of each stratum from the first draw to the last, and draws go where they find that out. In a stratum of which R rows are
left, the doubter then says that a share θ = f + hidden / R fails, where the model says f. It is best drawn from in such
a way that the log-odds of θ rise as fast as what a failure takes from the sum, in all strata by the same clock, until
one more row tells equally much in each. So shares of draws follow from what is left. A stratum in which nothing can be
hidden, since it pays to look at all of it, is drawn from first, together with the others.

The bet that grows fastest is then known, too: of each draw, the ratio of what both say of it (the reverse information
projection). It is a bet on the value of the draw beside the one expected in its stratum, so what stratum a draw comes
from, which is chance and tells nothing, costs nothing.

All of this is what the model believes, and none of it depends on an answer. Where the model is wrong, audits take
longer; a part of the capital is bet otherwise, so that they do not take for ever. No proof becomes false, whatever is
bet and drawn.

References
----------
Grünwald, de Heide and Koolen, "Safe testing", JRSSB 2024. Garivier and Kaufmann, "Optimal best arm identification with
fixed confidence", COLT 2016. Waudby-Smith and Ramdas, "Confidence sequences for sampling without replacement",
NeurIPS 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import expit, logit

from solver.typing import BoolArray, FloatArray

# so many rows are thought to be otherwise than the model says, in each stratum
_DOUBT: Final = 0.01
# of the draws, so many go where values differ most, whatever the game says
_SPREAD: Final = 0.03
# of the draws, so many go to strata of which all rows are looked at, as long as there are any left
_TO_TAKEN: Final = 0.9
# a stratum is looked at whole if no more than this part of its failures could be hidden there besides, or no more than
# this part of its rows were left in the end
_TAKEN: Final = 1e-3
_FEW_LEFT: Final = 0.1
_NEVER: Final = 1e-12
_HALVINGS: Final = 45
# of the interval in which a plan is looked for, on a scale of logarithms
_HALVINGS_OF_PLANS: Final = 22
# places at which what the draws of a stratum tell is summed up
_PLACES: Final = 40
# of the failures that the statement allows, what is hoped for at most: else there is nothing to prove
_ROOM: Final = 0.72
_SUREST: Final = 1e-5
_LEAST: Final = 1e-6
# of what could be hidden among the rows that are left, at most this part is thought to be
_HIDDEN_AT_MOST: Final = 0.98
# parts of the capital: if the model is right, and if more fail than it says (failures, times; part)
_BELIEVED: Final = ((1.0, 0.85), (1.3, 0.05))
# what is left of it is bet without the model (kept, part)
_UNBELIEVING: Final = ((0.1, 0.5), (0.3, 0.3), (0.7, 0.2))


@dataclass(frozen=True)
class WeightedBet:
    """A part of the capital, and what it is bet on in every draw, whatever is left."""

    weight: float
    """Of the capital."""
    kept: float
    """Of it, where a draw has the value that speaks most against the statement."""
    expected: tuple[float, ...]
    """Of each stratum, the mean value of its rows that the bet reckons with."""


@dataclass(frozen=True)
class BelievedBet:
    """A part of the capital, bet as is best if so many rows fail; it follows what is left."""

    weight: float
    """Of the capital."""
    failing: tuple[float, ...]
    """Of each stratum, the share of its rows that fail."""
    multipliers: tuple[float, ...]
    """Of each phase of the draws, what the value of a draw beside the expected one is multiplied with."""


@dataclass(frozen=True)
class Outcomes:
    """What is known of strata before any draw.

    Parameters
    ----------
    rows : float array of shape (strata,)
    failing : float array of shape (strata,)
        Share of the rows that the model thinks have the lower value.
    best : float array of shape (strata,)
        The higher value.
    loss : float array of shape (strata,)
        What the lower one lacks to it: 0 where both are the same.
    harmful : bool array of shape (strata,)
        Whether the lower value is below zero: whether what fails there can undo the statement by itself.
    """

    rows: FloatArray
    failing: FloatArray
    best: FloatArray
    loss: FloatArray
    harmful: BoolArray

    def room(self) -> float:
        """Return the sum of all values if so many rows fail: how much more may fail."""
        return float((self.rows * (self.best - self.failing * self.loss)).sum())

    def hoped(self) -> Outcomes:
        """Return the outcomes with shares that are neither 0 nor 1, and by which the statement holds with some room."""
        failing = (self.rows * self.failing + _DOUBT) / (self.rows + 2 * _DOUBT)
        found = replace(self, failing=np.clip(failing, _SUREST, 1 - _SUREST))
        failures = found.failures()
        allowed = found.room() + failures
        if failures <= _ROOM * allowed:
            return found
        return found.scaled(max(_ROOM * allowed, 0.01 * failures) / failures)

    def failures(self) -> float:
        """Return what rows that can do harm take from the sum, beside what they would add if none failed."""
        return float((self.rows * self.failing * self.loss)[self.harmful].sum())

    def scaled(self, factor: float) -> Outcomes:
        """Return the outcomes with so many times the failures that can do harm."""
        scaled = np.where(self.harmful, self.failing * factor, self.failing)
        return replace(self, failing=np.clip(scaled, _SUREST, 1 - _SUREST))

    def spread(self, left: FloatArray) -> FloatArray:
        """Return the shares of draws by which values differ least (Neyman), if so many rows are left."""
        worst = self.best - self.loss
        found: FloatArray = left * np.sqrt((1 - self.failing) * self.best**2 + self.failing * worst**2)
        shares: FloatArray = found / found.sum() if found.any() else left / left.sum()
        return shares


def information(share: FloatArray, other: FloatArray) -> FloatArray:
    """Return what a row tells of `share` against `other`, of the same outcome: Kullback-Leibler divergence."""
    told: FloatArray = share * np.log(share / other) + (1 - share) * np.log((1 - share) / (1 - other))
    return told


def hidden_failures(outcomes: Outcomes, nats: float) -> tuple[FloatArray, FloatArray]:
    """Return how many rows more fail in each stratum, of those that are left, to whoever doubts most cleverly.

    Parameters
    ----------
    outcomes : Outcomes
        By whose shares the statement holds.
    nats : float
        What all draws together are to tell.

    Returns
    -------
    hidden : float array of shape (strata,)
        0 of strata that are looked at whole. Together they take as much from the sum as undoes the statement.
    left : float array of shape (strata,)
        Rows that nobody has looked at in the end, where that is done best.
    """
    low, high = 1e-8, 5.0
    for _ in range(_HALVINGS_OF_PLANS):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if _told_in_all(outcomes, *_hidden_until(outcomes, middle)) < nats else (low, middle)
    return _hidden_until(outcomes, high)


def doubts(outcomes: Outcomes, nats: float) -> FloatArray:
    """Return the hidden failures by which draws are shared: 0 of a stratum of which hardly a row would be left."""
    hidden, left = hidden_failures(outcomes, nats)
    return np.where(left <= _FEW_LEFT * outcomes.rows, 0.0, hidden)


def _hidden_until(outcomes: Outcomes, told: float) -> tuple[FloatArray, FloatArray]:
    """Return the hidden failures and the rows left, if draws end where one more tells so much in each stratum."""
    last = _told_by(outcomes.failing, told)
    odds, room = logit(last), outcomes.room()

    def hidden(clock: float) -> FloatArray:
        more: FloatArray = outcomes.rows * np.maximum(expit(odds - outcomes.loss * clock) - outcomes.failing, 0.0)
        return np.where(outcomes.loss > 0, more, 0.0)

    low, high = 0.0, 100.0 / float(outcomes.loss.max())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if (outcomes.loss * hidden(middle)).sum() > room else (low, middle)
    found = hidden(high)
    return found, found / (last - outcomes.failing)


def _told_by(failing: FloatArray, told: float) -> FloatArray:
    """Return higher shares of failures, against which a row of each stratum tells so much."""
    inner, outer = failing.copy(), np.full_like(failing, 1 - _NEVER)
    for _ in range(_HALVINGS):
        middle = (inner + outer) / 2
        enough = information(failing, middle) > told
        inner, outer = np.where(enough, inner, middle), np.where(enough, middle, outer)
    return outer


def _told_in_all(outcomes: Outcomes, hidden: FloatArray, left: FloatArray) -> float:
    """Return what the draws tell of each stratum until so many rows are left, together."""
    some = hidden > 0
    rows, end = outcomes.rows[some, None], left[some, None]
    places = rows * (end / rows) ** ((np.arange(_PLACES) + 0.5) / _PLACES)
    failing = outcomes.failing[some, None]
    told = information(failing, np.minimum(failing + hidden[some, None] / places, 1 - _NEVER))
    return float((told * places * np.log(rows / end)).sum() / _PLACES)


def shares_of_draws(outcomes: Outcomes, hidden: FloatArray, left: FloatArray) -> FloatArray:
    """Return from which strata the next rows are best drawn, if so many rows of each are left.

    Parameters
    ----------
    outcomes : Outcomes
    hidden : float array of shape (strata,)
        As of `doubts`.
    left : float array of shape (strata,)
        At least one of them is positive.

    Returns
    -------
    float array of shape (strata,)
        Positive where rows are left, else 0; together 1.
    """
    taken = hidden <= _TAKEN * outcomes.rows * outcomes.failing
    doubted = np.clip(outcomes.failing + hidden / np.maximum(left, 1.0), 0.0, _HIDDEN_AT_MOST)
    with np.errstate(divide="ignore", invalid="ignore"):
        telling = np.where(taken, 0.0, outcomes.loss * left**2 * doubted * (1 - doubted) / hidden)
    spread = outcomes.spread(left)
    shares = (1 - _SPREAD) * telling / telling.sum() + _SPREAD * spread if telling.any() else spread
    first = np.where(taken & (outcomes.loss > 0), left, 0.0)
    if first.any():
        shares = _TO_TAKEN * first / first.sum() + (1 - _TO_TAKEN) * shares
    shares = np.where(left > 0, np.maximum(shares, _LEAST), 0.0)
    normed: FloatArray = shares / shares.sum()
    return normed


def least_favourable(
    outcomes: Outcomes, left: FloatArray, shares: FloatArray, room: float
) -> tuple[FloatArray, FloatArray]:
    """Return the shares of failures by which the statement just fails that the next draws tell least from the model's.

    Parameters
    ----------
    outcomes : Outcomes
    left, shares : float arrays of shape (phases, strata)
        Rows that are left at the beginning of each phase, and the shares of its draws.
    room : float
        What more failures take from the sum, in all.

    Returns
    -------
    failing : float array of shape (phases, strata)
    multipliers : float array of shape (phases,)
        Of the constraint: what the bet multiplies a value with.
    """
    weights = np.where(left > 0, left / np.maximum(shares, _NEVER), 0.0) * outcomes.loss
    most = (left * outcomes.loss * (1 - outcomes.failing)).sum(axis=1)
    wanted = np.minimum(room, _HIDDEN_AT_MOST * most)

    def short(multipliers: FloatArray) -> BoolArray:
        more = pulled(outcomes.failing, weights * multipliers[:, None]) - outcomes.failing
        enough: BoolArray = (left * outcomes.loss * more).sum(axis=1) < wanted
        return enough

    low, high = np.zeros(len(left)), np.full(len(left), 1e-6)
    while short(high).any() and high.max() < 1e12:
        high = np.where(short(high), 4 * high, high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        few = short(middle)
        low, high = np.where(few, middle, low), np.where(few, high, middle)
    return pulled(outcomes.failing, weights * high[:, None]), high


def pulled(failing: FloatArray, pull: FloatArray) -> FloatArray:
    """Return the share θ with pull = (θ - f) / (θ (1 - θ)), which lies above f."""
    with np.errstate(divide="ignore", invalid="ignore"):
        root = ((pull - 1) + np.sqrt((1 - pull) ** 2 + 4 * pull * failing)) / (2 * pull)
    found: FloatArray = np.clip(np.where(pull < 1e-9, failing, root), _NEVER, 1 - _NEVER)
    return found


def believed_bets(outcomes: Outcomes, left: FloatArray, shares: FloatArray) -> tuple[BelievedBet, ...]:
    """Return the bets that grow fastest if the model is right, and if more rows fail than it thinks.

    Parameters
    ----------
    outcomes : Outcomes
    left, shares : float arrays of shape (phases, strata)
        As of `least_favourable`.
    """
    made = []
    for times, weight in _BELIEVED:
        believed = outcomes if times == 1 else outcomes.scaled(times)
        room = believed.room()
        if room > 0:
            _, multipliers = least_favourable(believed, left, shares, room)
            made.append(BelievedBet(weight, tuple(believed.failing.tolist()), tuple(multipliers.tolist())))
    return tuple(made)


def unbelieving_bets(strata: int, believed: Sequence[BelievedBet]) -> tuple[WeightedBet, ...]:
    """Return the bets that ask the model nothing, with the capital that others leave."""
    share = 1 - sum(bet.weight for bet in believed)
    return tuple(WeightedBet(share * part, kept, (0.0,) * strata) for kept, part in _UNBELIEVING)

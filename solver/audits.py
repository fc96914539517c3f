"""Audits: proving a target of a model on the rows of one pool, by looking at few of them.

The statement is about the rows of the pool as they are, not about rows to come: rows are drawn from it without
replacement, each with a known probability, and somebody says what they are. Nothing is assumed of the scores: they only
decide where it is worth while to look, so a bad model makes an audit longer and never a proof false.

Each statement says that a sum over the pool is not negative:

=========  ============================  =====================================================
precision  sum of (y / t - 1) over what is called positive
recall     sum of y (called / t - 1)
cost       sum of (t - cost of the decision)
false +    sum of (1 - y) (t - called)
=========  ============================  =====================================================

A draw of row i with probability q_i gives the value g_i / q_i, whose mean is the sum over the rows that are left. If
the sum over all is negative, that mean is at most minus what was drawn before; against this `solver.evaluation.betting`
bets. Divided by the probabilities, rows of a part that is drawn seldom weigh much, and one such row that is a failure
undoes many others. So every part is drawn from often enough, and the draws that are left go where they tell most; from
each value that is subtracted which is expected of its part, and what that adds on average is known
(`solver.audit_allocation`). Where they go changes with what is left of the parts, in phases, and never with an answer.

Several thresholds are tried in an order that is fixed before anybody looks: each is proved at the whole confidence, and
none behind one that is not. The first that does not hold is proved with a probability of at most 1 - confidence, and
nothing behind it counts (fixed-sequence testing).

References
----------
Waudby-Smith and Ramdas, "Confidence sequences for sampling without replacement", NeurIPS 2020. Shekhar, Xu, Lipton,
Liang and Ramdas, "Risk-limiting financial audits via weighted sampling without replacement", UAI 2023. Westfall and
Krishen, "Optimally weighted, fixed sequence and gatekeeper multiple testing procedures", JSPI 2001.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from solver.audit_allocation import (
    BelievedBet,
    Outcomes,
    WeightedBet,
    believed_bets,
    doubts,
    pulled,
    shares_of_draws,
    unbelieving_bets,
)
from solver.choices import FALSE_POSITIVE_KINDS
from solver.evaluation.betting import BETS_ON_FEW, BETS_ON_MANY, Bets, log_capital
from solver.typing import BoolArray, FloatArray, IndexArray

AuditedMeasure = Literal["precision", "recall", "false_positive_rate", "cost"]
Standing = Literal["proven", "refuted", "open"]

# The pool is cut into parts on both sides of the threshold, the smallest nearest to it. A part and those nearer to the
# threshold hold this many times the rows of the nearer ones.
_PARTS: Final = 20
_GROWTH: Final = 1 / 0.7
# After so many draws the shares are computed again from what is left: a fewest, and relative to the draws before.
_PHASE: Final = (16, 0.05)
# what all draws together are to tell, in nats: that is what a proof at 0.95 takes, and a little for bets that fail
_NATS: Final = 3.15
# digits with which a share of draws is stored
_DIGITS: Final = 7
# A bet by the model keeps at least this part of the capital, whatever the next draw is.
_MARGIN: Final = 0.02
# relative accuracy of a bound, which is rounded to the safe side
_EXACTNESS: Final = 1e-4
# for all but precision, of audits that were drawn before `solver.audit_allocation` was there
BETS_ON_WEIGHTED: Final = Bets((0.03, 0.1, 0.3, 0.7), (0.15, 0.6, 0.2, 0.05))
NOT_ANSWERED: Final = -1
# what a draw brings at least on average if the statement is false, in units of the worst
_SMALLEST: Final = 1e-12
# as many rows called positive as by the model's threshold, times these, where thresholds are looked for
_PARTS_CALLED: Final = (0.5, 0.7, 0.85, 1.2, 1.5, 2.0)
# audits that are tried to say how long one takes: an odd number, of which the middle one is told
_TRIED_AUDITS: Final = 15
# of a higher recall, hits would tell next to nothing, and so few would be drawn that nobody could estimate it
_NEARLY_ALL: Final = 0.98


@dataclass(frozen=True)
class AuditTarget:
    """What is to be proved.

    Parameters
    ----------
    kind : str
        `precision`: of the rows that are called positive, at least the share `target` is. `recall`: of the rows that
        are positive, at least the share `target` is called so. `false_positive_rate`: of the rows that are not
        positive, at most the share `target` is called so. `cost`: wrong decisions cost at most `target` a row.
    target : float
        A share in (0, 1], or a cost above 0.
    false_negative, false_positive : float
        What a wrong decision costs.
    """

    kind: AuditedMeasure
    target: float
    false_negative: float = 1.0
    false_positive: float = 1.0

    def values(self, positive: BoolArray, called: BoolArray, target: float) -> FloatArray:
        """Return what rows add to the sum that is not negative if the statement with this target holds."""
        if self.kind == "precision":
            return called * (positive / target - 1.0)
        if self.kind == "recall":
            return positive * (called / target - 1.0)
        if self.kind == "false_positive_rate":
            return ~positive * (target - called)
        return target - np.where(called, ~positive * self.false_positive, positive * self.false_negative)

    def losses(self, called: BoolArray) -> FloatArray:
        """Return how far below zero the value of a row can be at most, whatever the target."""
        if self.kind == "precision":
            return called.astype(np.float64)
        if self.kind == "recall":
            return (~called).astype(np.float64)
        if self.kind == "false_positive_rate":
            return called.astype(np.float64)
        return np.where(called, self.false_positive, self.false_negative)

    def gains(self, called: BoolArray, target: float) -> FloatArray:
        """Return how far above zero the value of a row can be at most."""
        if self.kind == "cost":
            return np.full(len(called), target)
        if self.kind == "false_positive_rate":
            return ~called * target
        return called * (1.0 / target - 1.0)


def target_of(objective: Mapping[str, Any]) -> AuditTarget:
    """Return what an objective in the words of requests asks for."""
    if objective["kind"] == "cost":
        costs = (objective["false_negative"], objective["false_positive"])
        return AuditTarget("cost", objective["at_most"], *costs)
    if objective["kind"] in FALSE_POSITIVE_KINDS:
        return AuditTarget("false_positive_rate", objective["at_most"])
    return AuditTarget(objective["kind"], objective["target"])


@dataclass(frozen=True)
class Stratum:
    """Rows of the pool that are drawn with equal probability."""

    called: int
    """By how many of the thresholds, from the lowest on, they are called positive: 0 or 1 where there is one."""
    rows: int
    share: float
    """Of the draws of the first phase, as long as each stratum has rows left; otherwise relative to the others that
    have."""


@dataclass(frozen=True)
class Phase:
    """Draws that go to the strata with the same shares."""

    start: int
    """Number of the first one."""
    shares: tuple[float, ...]
    """Of the strata; those in which no row is left have none."""


Bet = WeightedBet | BelievedBet


@dataclass(frozen=True)
class Draws:
    """The order in which rows of a pool are to be looked at, fixed before anybody looks at one."""

    strata: tuple[Stratum, ...]
    stratum: IndexArray
    """Of each draw."""
    row: IndexArray
    """Of each draw, as a place in the pool."""
    bets: tuple[tuple[Bet, ...], ...] = ()
    """Of each threshold, from the lowest on. None: those that were made before they were written down."""
    phases: tuple[Phase, ...] = ()
    """None: all draws go by the shares of the strata."""

    def plan(self) -> dict[str, Any]:
        """Return strata, phases and bets, JSON-ready."""
        return {
            "strata": [asdict(stratum) for stratum in self.strata],
            "bets": [[asdict(bet) for bet in bets] for bets in self.bets],
            "phases": [asdict(phase) for phase in self.phases],
        }

    def all_phases(self) -> tuple[Phase, ...]:
        """Return the phases, or the only one."""
        return self.phases or (Phase(0, tuple(each.share for each in self.strata)),)

    @classmethod
    def of_plan(cls, plan: Mapping[str, Any], stratum: Sequence[int], row: Sequence[int]) -> Draws:
        """Return draws from what `plan` has given."""
        return cls(
            strata=tuple(Stratum(int(each["called"]), each["rows"], each["share"]) for each in plan["strata"]),
            stratum=np.array(stratum, dtype=np.int64),
            row=np.array(row, dtype=np.int64),
            bets=tuple(tuple(_bet_of(bet) for bet in bets) for bets in plan.get("bets", [])),
            phases=tuple(Phase(each["start"], tuple(each["shares"])) for each in plan.get("phases", [])),
        )


def _bet_of(kept: Mapping[str, Any]) -> Bet:
    if "failing" in kept:
        return BelievedBet(kept["weight"], tuple(kept["failing"]), tuple(kept["multipliers"]))
    return WeightedBet(kept["weight"], kept["kept"], tuple(kept["expected"]))


@dataclass(frozen=True)
class Verdict:
    """What the answers so far say."""

    standing: Standing
    bound: float
    """What is proved at the confidence, whatever the target: precision or recall is at least this, a false positive
    rate or a cost at most."""
    estimate: float | None
    """The value itself, as far as the answers tell; None without any answer that counts."""
    decided_at: int | None
    """Number of draws after which it was proved or refuted."""


def draw_rows(
    probabilities: FloatArray,
    called: BoolArray | IndexArray,
    target: AuditTarget,
    most: int,
    seed: int,
    thresholds: int = 1,
) -> Draws:
    """Decide which rows are looked at, and in which order.

    Parameters
    ----------
    probabilities : float array of shape (rows,)
        Of being positive, as the model says. They need not be right.
    called : bool or int array of shape (rows,)
        Whether the model calls a row positive; by how many of the thresholds, where there are several.
    target : AuditTarget
    most : int
        Draws, at most; there are fewer where fewer rows can tell anything.
    seed : int
    thresholds : int, default 1

    Raises
    ------
    ValueError
        If no row tells anything: precision, where none is called positive.
    """
    rng = np.random.default_rng(seed)
    levels = np.asarray(called, dtype=np.int64)
    members = _parts(probabilities, levels, target, thresholds)
    if not members:
        raise ValueError("no row is called positive")
    sizes = np.array([len(part) for part in members])
    of_part = np.array([levels[part[0]] for part in members])
    most = min(most, int(sizes.sum()))
    orders = [rng.permutation(part)[::-1] for part in members]
    phases: tuple[Phase, ...] = ()
    bets: tuple[tuple[Bet, ...], ...]
    if target.kind == "precision":
        shares = _shares_of_called(sizes, of_part, thresholds)
        stratum = _strata_drawn(rng.random(most), sizes, shares)
        bets = tuple(_without_expectations(BETS_ON_MANY, len(sizes)) for _ in range(thresholds))
    else:
        positive = np.array([probabilities[part].mean() for part in members])
        outcomes = [_outcomes(sizes, positive, of_part > place, target) for place in range(thresholds)]
        stratum, phases, bets = _draws_in_phases(rng.random(most), sizes, outcomes)
        shares = np.array(phases[0].shares)
    strata = tuple(
        Stratum(int(level), int(size), float(share)) for level, size, share in zip(of_part, sizes, shares, strict=True)
    )
    row = np.empty(len(stratum), dtype=np.int64)
    for which, order in enumerate(orders):
        mine = stratum == which
        row[mine] = order[: np.count_nonzero(mine)]
    return Draws(strata, stratum, row, bets, phases)


def _shares_of_called(sizes: IndexArray, levels: IndexArray, thresholds: int) -> FloatArray:
    """Return how the draws of a precision are shared: each row that a threshold calls positive tells as much of it."""
    within = [np.where(levels > place, sizes.astype(np.float64), 0.0) for place in range(thresholds)]
    shares: FloatArray = np.mean([each / each.sum() for each in within if each.any()], axis=0)
    return shares


def _outcomes(sizes: IndexArray, positive: FloatArray, called: BoolArray, target: AuditTarget) -> Outcomes | None:
    """Return what the model thinks of the strata; None where the statement cannot fail, as nothing does harm."""
    best, loss, lower_if_positive = _values_of_strata(called, target)
    failing = np.where(lower_if_positive, positive, 1 - positive)
    harmful = target.losses(called) > 0
    found = Outcomes(sizes.astype(np.float64), failing, best, loss, harmful)
    return found.hoped() if (harmful & (loss > 0)).any() else None


def _values_of_strata(called: BoolArray, target: AuditTarget) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return the higher value of a row of each stratum, what the lower one lacks, and whether positive rows have it."""
    # of a higher recall, hits would tell next to nothing
    aim = min(target.target, _NEARLY_ALL) if target.kind == "recall" else target.target
    yes, no = (target.values(np.full(len(called), answer), called, aim) for answer in (True, False))
    return np.maximum(yes, no), np.abs(yes - no), yes < no


def _draws_in_phases(
    numbers: FloatArray, sizes: IndexArray, outcomes: Sequence[Outcomes | None]
) -> tuple[IndexArray, tuple[Phase, ...], tuple[tuple[Bet, ...], ...]]:
    """Return the stratum of each draw, by which shares it was drawn, and what is bet, one list a threshold."""
    doubted = [(each, doubts(each, _NATS)) for each in outcomes if each is not None and each.room() > 0]
    left, phases, stratum = sizes.copy(), [], np.empty(len(numbers), dtype=np.int64)
    lefts, start = [], 0
    while start < len(numbers):
        shares = _rounded(_shares_together(doubted, left.astype(np.float64)))
        phases.append(Phase(start, tuple(shares.tolist())))
        lefts.append(left.astype(np.float64))
        end = min(start + max(_PHASE[0], int(_PHASE[1] * start)), len(numbers))
        stratum[start:end] = _strata_drawn(numbers[start:end], left, shares)
        left = left - np.bincount(stratum[start:end], minlength=len(left))
        start = end
    by_phase, shares_by_phase = np.array(lefts), np.array([phase.shares for phase in phases])
    bets: list[tuple[Bet, ...]] = []
    for each in outcomes:
        believed = () if each is None else believed_bets(each, by_phase, shares_by_phase)
        bets.append((*believed, *unbelieving_bets(len(sizes), believed)))
    return stratum, tuple(phases), tuple(bets)


def _shares_together(doubted: Sequence[tuple[Outcomes, FloatArray]], left: FloatArray) -> FloatArray:
    """Return the shares of draws that serve all thresholds alike."""
    wanted = [shares_of_draws(each, hidden, left) for each, hidden in doubted] or [left / left.sum()]
    shares: FloatArray = np.mean(wanted, axis=0)
    return shares


def _rounded(shares: FloatArray) -> FloatArray:
    """Return the shares as they are kept: the draws go by these, so nothing is lost."""
    return np.array([float(f"{share:.{_DIGITS}g}") for share in shares.tolist()])


def _strata_drawn(numbers: FloatArray, sizes: IndexArray, shares: FloatArray) -> IndexArray:
    """Return the stratum of each draw: by the shares of those that have rows left."""
    stratum = np.empty(len(numbers), dtype=np.int64)
    left, done = sizes.copy(), 0
    while done < len(numbers):
        open_shares = np.cumsum(np.where(left > 0, shares, 0.0))
        found = np.searchsorted(open_shares, numbers[done:] * open_shares[-1], side="right")
        # until a stratum has no row left
        places = [np.flatnonzero(found == which) for which in range(len(left))]
        ends = [int(at[some - 1]) for at, some in zip(places, left.tolist(), strict=True) if 0 < some <= len(at)]
        n = min(ends) + 1 if ends else len(found)
        stratum[done : done + n] = found[:n]
        left -= np.bincount(found[:n], minlength=len(left))
        done += n
    return stratum


def _parts(probabilities: FloatArray, levels: IndexArray, target: AuditTarget, thresholds: int) -> list[IndexArray]:
    """Split the pool at the thresholds, and beyond them by how sure the model is; the unsure parts are small."""
    parts = []
    for level in range(thresholds, -1, -1):
        rows = np.flatnonzero(levels == level)
        # where no row can be a failure, all are alike; so are those of a precision, which is drawn uniformly
        can_fail = target.kind != "precision" and target.losses(np.array([level > 0])).any()
        whole = not can_fail or 0 < level < thresholds
        if target.kind == "precision" and level == 0:
            continue
        if whole:
            order, ends = rows, np.array([len(rows)])
        else:
            order = rows[np.argsort(probabilities[rows] if level else -probabilities[rows], kind="stable")]
            ends = np.unique(np.ceil(len(rows) / _GROWTH ** np.arange(_PARTS - 1, -1, -1)).astype(np.int64))
        starts = np.concatenate([[0], ends[:-1]])
        parts += [order[start:end] for start, end in zip(starts, ends, strict=True) if end > start]
    return parts


def _without_expectations(bets: Bets, strata: int) -> tuple[WeightedBet, ...]:
    return tuple(
        WeightedBet(weight, kept, (0.0,) * strata) for kept, weight in zip(bets.kept, bets.weights, strict=True)
    )


def judge(
    draws: Draws, answers: Sequence[int] | IndexArray, target: AuditTarget, confidence: float, threshold: int = 0
) -> Verdict:
    """Say what the answers prove of one threshold.

    Parameters
    ----------
    draws : Draws
    answers : sequence of int, one a draw
        1 if the row is positive, 0 if it is not, -1 if nobody has said. Draws count up to the last one that has an
        answer; one before it without any counts as what speaks against the verdict, so nothing is won by leaving
        it out.
    target : AuditTarget
    confidence : float
        Each verdict is false with a probability of at most ``1 - confidence``, whenever one looks.
    threshold : int, default 0
        Its place among those of the audit, from the lowest on.

    Returns
    -------
    Verdict
    """
    path = _Path.of(draws, np.asarray(answers), target, threshold)
    needed = -np.log1p(-confidence)
    safe, best = (0.0, 1.0) if target.kind in ("precision", "recall") else (_dearest(path), 0.0)
    if path.draws == 0:
        return Verdict("open", safe, None, None)
    standing, decided = _decided(path, needed)
    return Verdict(standing, _bound(path, safe, best, needed), path.estimate(), decided)


def decided_at(
    draws: Draws, answers: Sequence[int] | IndexArray, target: AuditTarget, confidence: float
) -> tuple[Standing, int | None]:
    """Return the verdict of `judge`, and after how many draws it was there, without the bound, which takes longer."""
    return _decided(_Path.of(draws, np.asarray(answers), target), -np.log1p(-confidence))


def answers_expected(
    draws: Draws, probabilities: FloatArray, target: AuditTarget, confidence: float, seed: int
) -> int | None:
    """After how many answers there is a verdict if the model's probabilities are right, before there is an answer.

    It is the median of some audits whose answers are drawn by these probabilities; it decides nothing.

    Parameters
    ----------
    draws : Draws
        Of one threshold.
    probabilities : float array of shape (draws,)
        Of the row of each draw to be positive, as the model says.
    target, confidence
        As of `judge`.
    seed : int

    Returns
    -------
    int or None
        None: there may be no verdict even when all rows that are drawn have an answer.
    """
    numbers = np.random.default_rng(seed).random((_TRIED_AUDITS, len(draws.row)))
    ends = [decided_at(draws, (row < probabilities).astype(np.int64), target, confidence)[1] for row in numbers]
    middle = sorted(len(draws.row) + 1 if end is None else end for end in ends)[_TRIED_AUDITS // 2]
    return None if middle > len(draws.row) else middle


def _decided(path: _Path, needed: float) -> tuple[Standing, int | None]:
    proof, disproof = (find(path.target.target, needed) for find in (path.first_proof, path.first_disproof))
    # the earlier one stands: once somebody was told a verdict, it does not change
    if proof is not None and (disproof is None or proof <= disproof):
        return "proven", proof + 1
    return ("open", None) if disproof is None else ("refuted", disproof + 1)


def alike_drawn(draws: Draws, answers: Sequence[int] | IndexArray, pool: int) -> BoolArray:
    """Say which of the draws are a sample of the pool in which each row has the same chance.

    An audit draws rows of some strata more often than others, at known rates. Of each stratum so many are left out, by
    chance, that all rates are as the lowest one. Rows that could not be drawn make that rate zero: of an audit of a
    precision, which draws only from what is called positive, no row is in the sample unless all rows are called so.
    Behind a draw without an answer none is either: somebody has passed it over.

    Parameters
    ----------
    draws : Draws
    answers : sequence of int, one a draw
        As of `judge`.
    pool : int
        Rows that the statement is about.

    Returns
    -------
    bool array of shape (draws,)
        It depends on no answer but by where the answers end.
    """
    kept = np.zeros(len(draws.row), dtype=bool)
    unanswered = np.flatnonzero(np.asarray(answers) == NOT_ANSWERED)
    n = int(unanswered[0]) if len(unanswered) else len(kept)
    sizes = np.array([each.rows for each in draws.strata], dtype=np.float64)
    if n == 0 or sizes.sum() < pool:
        return kept
    rates = _rates(sizes, draws.all_phases(), n)
    numbers = np.random.default_rng(draws.row[:8].tolist()).random(n)
    kept[:n] = numbers < (rates.min() / rates)[draws.stratum[:n]]
    return kept


def _rates(sizes: FloatArray, phases: Sequence[Phase], draws: int) -> FloatArray:
    """Return the probability of a row of each stratum to be among so many draws; of none is it more than 1."""
    left = sizes.copy()
    ends = [phase.start for phase in phases[1:]]
    for phase, end in zip(phases, [*ends, draws], strict=True):
        wanted = min(end, draws) - phase.start
        if wanted > 0:
            left -= _taken(left, np.array(phase.shares), wanted)
    rates: FloatArray = 1 - left / sizes
    return rates


def _taken(left: FloatArray, shares: FloatArray, draws: int) -> FloatArray:
    """Return how many rows so many draws take of each stratum on average, and of none more than are left."""
    low, high = 0.0, 1.0
    draws = min(draws, left[shares > 0].sum())
    while np.minimum(high * shares, left).sum() < draws * (1 - 1e-9):
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(middle * shares, left).sum() < draws else (low, middle)
    taken: FloatArray = np.minimum(high * shares, left)
    return taken


def thresholds_around(scores: FloatArray, threshold: float, kind: AuditedMeasure, known: FloatArray) -> list[float]:
    """Return thresholds for an audit to try, in an order in which those come first that are likelier to hold.

    For a precision or a false positive rate the highest comes first, for a recall the lowest: the best of those that
    hold is then the last one that is proven. For a cost the model's own comes first, and then those beside it.

    Parameters
    ----------
    scores : float array of shape (rows,)
        Of the pool.
    threshold : float
        The model's own.
    kind : str
    known : float array
        Candidates, such as those of the model's curve, of which the nearest ones are taken. May be empty.

    Returns
    -------
    list of float
        No two alike, at least one, the model's own among them.
    """
    ordered = np.sort(scores)
    called = int(np.count_nonzero(scores > threshold))
    found = {float(threshold)}
    for part in _PARTS_CALLED:
        place = len(ordered) - round(part * called)
        if not 0 < place < len(ordered):
            continue
        wanted = (ordered[place - 1] + ordered[place]) / 2
        nearest = float(known[np.argmin(np.abs(known - wanted))]) if len(known) else float(wanted)
        if np.count_nonzero(scores > nearest):
            found.add(nearest)
    if kind == "cost":
        return sorted(found, key=lambda each: (abs(int(np.count_nonzero(scores > each)) - called), each))
    return sorted(found, reverse=kind != "recall")


def rows_to_prove(target: float, rate: float, confidence: float, most: int) -> int | None:
    """How many rows of a large pool prove a precision if the share `rate` is right; None if more than `most`.

    The errors are taken to be spread evenly. So it is for an audit, which may be looked at after each row: without an
    error 62 for 0.95 at 0.95, where a test of a number that is fixed beforehand takes 59.
    """
    right = 1.0 - np.diff(np.floor((1 - rate) * np.arange(most + 1) + 0.5))
    evidence = log_capital(right / target, np.ones(most), BETS_ON_MANY)
    enough = np.flatnonzero(evidence >= -np.log1p(-confidence))
    return int(enough[0]) + 1 if len(enough) else None


def judge_in_order(
    draws: Draws,
    answers: Sequence[int] | IndexArray,
    target: AuditTarget,
    confidence: float,
    order: Sequence[int],
) -> list[Verdict]:
    """Say what the answers prove of thresholds that are tried in a fixed order: up to the first that is not proven.

    Parameters
    ----------
    draws, answers, target
        As of `judge`.
    confidence : float
        That any of the thresholds is proven and does not hold has a probability of at most ``1 - confidence``,
        whenever one looks.
    order : sequence of int
        Places of thresholds, from the lowest on, in the order in which they are tried.

    Returns
    -------
    list of Verdict
        At least one. The last one is not proven, or all are.
    """
    found: list[Verdict] = []
    for place in order:
        found.append(judge(draws, answers, target, confidence, place))
        if found[-1].standing != "proven":
            break
    return found


def _dearest(path: _Path) -> float:
    """Return what a row costs at most; a false positive rate is at most 1."""
    if path.target.kind == "false_positive_rate":
        return 1.0
    return float(path.target.losses(path.strata_called).max())


def _bound(path: _Path, safe: float, best: float, needed: float) -> float:
    """Return the strictest target that the answers prove, between `safe`, which is so anyway, and `best`.

    The evidence falls as the target becomes stricter, so the interval is halved; its safe end is returned.
    """
    if path.first_proof(best, needed) is not None:
        return best
    while abs(best - safe) > _EXACTNESS * max(abs(safe), 1e-3):
        middle = (safe + best) / 2
        safe, best = (middle, best) if path.first_proof(middle, needed) is not None else (safe, middle)
    return safe


@dataclass(frozen=True)
class _Stake:
    """What one bet puts on each draw."""

    weight: float
    """Of the capital."""
    offsets: FloatArray
    """What is added to the value of a draw: what its stratum is expected to lack to the mean."""
    worst: FloatArray
    """How far below zero a draw can be at most."""
    unit: FloatArray
    margin: FloatArray
    """What is kept besides: the more, the less is bet."""


@dataclass(frozen=True)
class _Path:
    """Draws up to the last answer, with what each would have weighed."""

    target: AuditTarget
    called: BoolArray
    """Of each draw."""
    weights: FloatArray
    """1 / probability of each draw."""
    answers: IndexArray
    worst_weights: FloatArray
    """Of each draw, per stratum, the weight of a row that could have been drawn; 0 where none is left."""
    left: FloatArray
    """Rows that are left of each stratum after each draw."""
    strata_called: BoolArray
    stratum: IndexArray
    """Of each draw."""
    sizes: FloatArray
    """Rows of each stratum, before any draw."""
    open_shares: FloatArray
    """Of each draw, per stratum, its probability."""
    phase: IndexArray
    """Of each draw."""
    stakes: tuple[_Stake, ...]
    """Of the bets on the statement."""

    @classmethod
    def of(cls, draws: Draws, answers: IndexArray, target: AuditTarget, threshold: int = 0) -> _Path:
        answered = np.flatnonzero(answers != NOT_ANSWERED)
        n = int(answered[-1]) + 1 if len(answered) else 0
        stratum = draws.stratum[:n]
        sizes = np.array([each.rows for each in draws.strata], dtype=np.float64)
        strata_called = np.array([each.called > threshold for each in draws.strata])
        drawn = np.zeros((n + 1, len(sizes)))
        np.cumsum(stratum[:, None] == np.arange(len(sizes)), axis=0, out=drawn[1:])
        left = sizes - drawn
        phases = draws.all_phases()
        phase = np.searchsorted([each.start for each in phases], np.arange(n), side="right") - 1
        shares = np.array([each.shares for each in phases])[phase]
        open_shares = np.where(left[:-1] > 0, shares, 0.0)
        open_shares /= np.maximum(open_shares.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        with np.errstate(divide="ignore", invalid="ignore"):
            weights = np.where(left[:-1] > 0, left[:-1] / open_shares, 0.0)
        path = cls(
            target=target,
            called=strata_called[stratum],
            weights=weights[np.arange(n), stratum],
            answers=answers[:n],
            worst_weights=weights,
            left=left[1:],
            strata_called=strata_called,
            stratum=stratum,
            sizes=sizes,
            open_shares=open_shares,
            phase=phase,
            stakes=(),
        )
        bets = draws.bets[threshold] if draws.bets else _bets_of_before(target, len(sizes))
        losses = target.losses(strata_called)
        return replace(path, stakes=tuple(path._stake(bet, losses) for bet in bets))

    @property
    def draws(self) -> int:
        return len(self.answers)

    def first_proof(self, aim: float, needed: float) -> int | None:
        """Return the draw by which the statement with the target `aim` was proved."""
        enough = (self._for_it(aim) >= needed).nonzero()[0]
        return int(enough[0]) if len(enough) else None

    def first_disproof(self, aim: float, needed: float) -> int | None:
        """Return the draw by which its contrary was."""
        enough = (self._against_it(aim) >= needed).nonzero()[0]
        return int(enough[0]) if len(enough) else None

    def _for_it(self, aim: float) -> FloatArray:
        """Return the evidence for the statement after each draw: a logarithm, infinite where it is certain."""
        values = self._values(aim, against=True)
        floor = self._lowest(aim)
        sums = np.cumsum(values)
        evidence = self._evidence(values, sums, self.stakes)
        certain = sums + self.left @ floor >= -_tolerance(sums)
        return np.where(certain, np.inf, evidence)

    def _against_it(self, aim: float) -> FloatArray:
        values = -self._values(aim, against=False)
        gains = self.target.gains(self.strata_called, aim)
        sums = np.cumsum(values)
        bets = _without_expectations(BETS_ON_FEW, len(self.sizes))
        evidence = self._evidence(values, sums, [self._stake(bet, gains) for bet in bets])
        certain = sums - self.left @ gains > _tolerance(sums)
        return np.where(certain, np.inf, evidence)

    def _evidence(self, values: FloatArray, sums: FloatArray, stakes: Sequence[_Stake]) -> FloatArray:
        """Bet against the sum over all being negative."""
        before: FloatArray = np.concatenate([[0.0], sums[:-1]])
        drawn = values * self.weights
        capitals = []
        for stake in stakes:
            won = stake.margin + np.maximum(stake.worst + drawn + stake.offsets, 0.0)
            fair = stake.margin + np.maximum(stake.worst - before, _SMALLEST * stake.unit)
            with np.errstate(divide="ignore"):
                capitals.append(np.log(stake.weight) + np.cumsum(np.log(won) - np.log(fair)))
        together: FloatArray = np.logaddexp.reduce(capitals, axis=0)
        return together

    def _stake(self, bet: Bet, losses: FloatArray) -> _Stake:
        """Return what is put on each draw, where a row takes at most `losses` from the sum.

        A draw is worth its value beside the one expected of its stratum. The mean of that is the sum over the rows that
        are left, and so, if the statement is false, at most minus the sum of those before.
        """
        expected = self._expected(bet)
        of_strata = self.worst_weights * expected
        mean = (self.open_shares * of_strata).sum(axis=1)
        offsets = mean - of_strata[np.arange(self.draws), self.stratum]
        lost = np.where(self.worst_weights > 0, self.worst_weights * losses + of_strata, -np.inf)
        worst = np.maximum(lost.max(axis=1, initial=-np.inf) - mean, 0.0)
        unit = np.where(worst > 0, worst, 1.0)
        if isinstance(bet, WeightedBet):
            margin = unit * bet.kept / (1 - bet.kept)
        else:
            multipliers = np.array(bet.multipliers)[self.phase]
            margin = np.maximum(1 / multipliers - mean - worst, _MARGIN * unit)
        return _Stake(bet.weight, offsets, worst, unit, margin)

    def _expected(self, bet: Bet) -> FloatArray:
        """Return the mean value of the rows of each stratum that the bet reckons with, of each draw or of all."""
        if isinstance(bet, WeightedBet):
            return np.array(bet.expected)
        best, loss, _ = _values_of_strata(self.strata_called, self.target)
        starts = np.flatnonzero(np.diff(self.phase, prepend=-1))
        weights = self.worst_weights[starts] * loss
        multipliers = np.array(bet.multipliers)[self.phase[starts]]
        failing = pulled(np.array(bet.failing), weights * multipliers[:, None])
        by_phase: FloatArray = best - loss * failing
        return by_phase[self.phase]

    def _values(self, aim: float, *, against: bool) -> FloatArray:
        """Return the value of each draw; where nobody has answered, the one that speaks against (or for) it."""
        values = self.target.values(self.answers == 1, self.called, aim)
        open_ = self.answers == NOT_ANSWERED
        if open_.any():
            either = [self.target.values(np.full(self.draws, answer), self.called, aim) for answer in (False, True)]
            values = np.where(open_, np.minimum(*either) if against else np.maximum(*either), values)
        return values

    def _lowest(self, aim: float) -> FloatArray:
        """Return the lowest value of a row of each stratum."""
        n = len(self.strata_called)
        return np.minimum(
            *(self.target.values(np.full(n, answer), self.strata_called, aim) for answer in (False, True))
        )

    def estimate(self) -> float | None:
        """Return the value that the answers give: each speaks for an equal share of the rows of its stratum.

        So it is the value itself once all rows have an answer.
        """
        known = self.answers != NOT_ANSWERED
        positive, called, stratum = self.answers[known] == 1, self.called[known], self.stratum[known]
        weights = (self.sizes / np.maximum(np.bincount(stratum, minlength=len(self.sizes)), 1))[stratum]
        if self.target.kind == "cost":
            costs = np.where(called, ~positive * self.target.false_positive, positive * self.target.false_negative)
            return float((costs * weights).sum() / weights.sum())
        among = {"precision": called, "recall": positive}.get(self.target.kind, ~positive)
        counted = called & (~positive if self.target.kind == "false_positive_rate" else positive)
        total = (among * weights).sum()
        return float((weights * counted).sum() / total) if total > 0 else None


def _bets_of_before(target: AuditTarget, strata: int) -> tuple[WeightedBet, ...]:
    return _without_expectations(BETS_ON_MANY if target.kind == "precision" else BETS_ON_WEIGHTED, strata)


def _tolerance(sums: FloatArray) -> FloatArray:
    """Return what a sum may be off by rounding."""
    return 1e-9 * np.maximum(np.abs(sums), 1.0)

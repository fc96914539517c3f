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
undoes many others. So every part is drawn from often enough (a floor), and the draws that are left go where values
differ most.

References
----------
Waudby-Smith and Ramdas, "Confidence sequences for sampling without replacement", NeurIPS 2020. Shekhar, Xu, Lipton,
Liang and Ramdas, "Risk-limiting financial audits via weighted sampling without replacement", UAI 2023.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from solver.choices import FALSE_POSITIVE_KINDS
from solver.evaluation.betting import BETS_ON_FEW, BETS_ON_MANY, Bets, log_capital
from solver.typing import BoolArray, FloatArray, IndexArray

AuditedMeasure = Literal["precision", "recall", "false_positive_rate", "cost"]
Standing = Literal["proven", "refuted", "open"]

# shares of the draws that are spread by what a failure weighs, from which the plan chooses
_FLOORS: Final = (0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
# parts of one side: the 1/512 nearest to the threshold, the next as many, twice as many, and so on
_PARTS: Final = 10
# how exactly a bound is found, relative to it; it is rounded to the safe side
_EXACTNESS: Final = 1e-4
# for all but precision, whose draws differ in weight
BETS_ON_WEIGHTED: Final = Bets((0.03, 0.1, 0.3, 0.7), (0.15, 0.6, 0.2, 0.05))
NOT_ANSWERED: Final = -1
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
            return positive / target - 1.0
        if self.kind == "recall":
            return positive * (called / target - 1.0)
        if self.kind == "false_positive_rate":
            return ~positive * (target - called)
        return target - np.where(called, ~positive * self.false_positive, positive * self.false_negative)

    def losses(self, called: BoolArray) -> FloatArray:
        """Return how far below zero the value of a row can be at most, whatever the target."""
        if self.kind == "precision":
            return np.ones(len(called))
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

    called: bool
    """Whether the model calls them positive."""
    rows: int
    share: float
    """Of the draws, as long as each stratum has rows left; otherwise relative to the others that have."""


@dataclass(frozen=True)
class Draws:
    """The order in which rows of a pool are to be looked at, fixed before anybody looks at one."""

    strata: tuple[Stratum, ...]
    stratum: IndexArray
    """Of each draw."""
    row: IndexArray
    """Of each draw, as a place in the pool."""


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


def draw_rows(probabilities: FloatArray, called: BoolArray, target: AuditTarget, most: int, seed: int) -> Draws:
    """Decide which rows are looked at, and in which order.

    Parameters
    ----------
    probabilities : float array of shape (rows,)
        Of being positive, as the model says. They need not be right.
    called : bool array of shape (rows,)
        Whether the model calls a row positive.
    target : AuditTarget
    most : int
        Draws, at most; there are fewer where fewer rows can tell anything.
    seed : int

    Raises
    ------
    ValueError
        If no row tells anything: precision, where none is called positive.
    """
    rng = np.random.default_rng(seed)
    members = _parts(probabilities, called, target)
    if not members:
        raise ValueError("no row is called positive")
    shares = _shares(
        np.array([len(part) for part in members], dtype=np.float64),
        np.array([probabilities[part].mean() for part in members]),
        np.array([called[part[0]] for part in members]),
        target,
    )
    strata = tuple(
        Stratum(bool(called[part[0]]), len(part), float(share)) for part, share in zip(members, shares, strict=True)
    )
    orders = [rng.permutation(part) for part in members]
    left = np.array([len(part) for part in members])
    draws = min(most, int(left.sum()))
    stratum = np.empty(draws, dtype=np.int64)
    row = np.empty(draws, dtype=np.int64)
    for place, number in enumerate(rng.random(draws).tolist()):
        open_shares = np.cumsum(np.where(left > 0, shares, 0.0))
        which = int(np.searchsorted(open_shares, number * open_shares[-1], side="right"))
        left[which] -= 1
        stratum[place], row[place] = which, orders[which][left[which]]
    return Draws(strata, stratum, row)


def _parts(probabilities: FloatArray, called: BoolArray, target: AuditTarget) -> list[IndexArray]:
    """Split the pool by what is called positive, and each side by how sure that is; the unsure parts are small."""
    if target.kind == "precision":
        rows = np.flatnonzero(called)
        return [rows] if len(rows) else []
    parts = []
    for side in (True, False):
        rows = np.flatnonzero(called == side)
        # where no row can be a failure, all are alike
        if not target.losses(np.array([side])).any():
            order = rows
            ends = np.array([len(rows)])
        else:
            order = rows[np.argsort(probabilities[rows] if side else -probabilities[rows], kind="stable")]
            ends = np.unique(np.ceil(len(rows) * 0.5 ** np.arange(_PARTS - 1, -1, -1)).astype(np.int64))
        starts = np.concatenate([[0], ends[:-1]])
        parts += [order[start:end] for start, end in zip(starts, ends, strict=True) if end > start]
    return parts


def _shares(rows: FloatArray, positive: FloatArray, called: BoolArray, target: AuditTarget) -> FloatArray:
    """Return how the draws are shared among strata, of which the model thinks that so many are positive.

    Of several mixtures of a floor, by what a failure weighs, and the shares that make values differ least (Neyman), the
    one is taken by which the capital grows fastest if the model is right.
    """
    positive = np.clip(positive, 1e-4, 1 - 1e-4)
    losses = target.losses(called)
    aim = min(target.target, _NEARLY_ALL) if target.kind == "recall" else target.target
    yes, no = (target.values(np.full(len(called), answer), called, aim) for answer in (True, False))
    spread = rows * np.sqrt(positive * yes**2 + (1 - positive) * no**2)
    floor = rows * losses
    best: FloatArray = rows / rows.sum()
    best_growth = -np.inf
    if not floor.any():  # a recall, where all rows are called positive
        return best
    for part in _FLOORS:
        shares: FloatArray = part * floor / floor.sum() + (1 - part) * spread / spread.sum()
        weights = rows / shares
        worst = (losses * weights).max()
        for kept in BETS_ON_WEIGHTED.kept:
            size = 1 / kept - 1
            outcomes = ((positive, yes), (1 - positive, no))
            growth = sum(
                float((shares * chance * np.log1p(size * (1 + value * weights / worst))).sum())
                for chance, value in outcomes
            ) - np.log1p(size)
            if growth > best_growth:
                best, best_growth = shares, growth
    return best


def judge(draws: Draws, answers: Sequence[int] | IndexArray, target: AuditTarget, confidence: float) -> Verdict:
    """Say what the answers prove.

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

    Returns
    -------
    Verdict
    """
    path = _Path.of(draws, np.asarray(answers), target)
    needed = -np.log1p(-confidence)
    safe, best = (0.0, 1.0) if target.kind in ("precision", "recall") else (_dearest(draws, target), 0.0)
    if path.draws == 0:
        return Verdict("open", safe, None, None)
    proof, disproof = path.first_proof(target.target, needed), path.first_disproof(target.target, needed)
    # the earlier one stands: once somebody was told a verdict, it does not change
    standing: Standing = "open"
    decided = None
    if proof is not None and (disproof is None or proof <= disproof):
        standing, decided = "proven", proof + 1
    elif disproof is not None:
        standing, decided = "refuted", disproof + 1
    return Verdict(standing, _bound(path, safe, best, needed), path.estimate(), decided)


def rows_to_prove(target: float, rate: float, confidence: float, most: int) -> int | None:
    """How many rows of a large pool prove a precision if the share `rate` is right; None if more than `most`.

    The errors are taken to be spread evenly. So it is for an audit, which may be looked at after each row: without an
    error 62 for 0.95 at 0.95, where a test of a number that is fixed beforehand takes 59.
    """
    right = 1.0 - np.diff(np.floor((1 - rate) * np.arange(most + 1) + 0.5))
    evidence = log_capital(right / target, np.ones(most), BETS_ON_MANY)
    enough = np.flatnonzero(evidence >= -np.log1p(-confidence))
    return int(enough[0]) + 1 if len(enough) else None


def _dearest(draws: Draws, target: AuditTarget) -> float:
    """Return what a row costs at most; a false positive rate is at most 1."""
    if target.kind == "false_positive_rate":
        return 1.0
    return float(target.losses(np.array([stratum.called for stratum in draws.strata])).max())


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

    @classmethod
    def of(cls, draws: Draws, answers: IndexArray, target: AuditTarget) -> _Path:
        answered = np.flatnonzero(answers != NOT_ANSWERED)
        n = int(answered[-1]) + 1 if len(answered) else 0
        stratum = draws.stratum[:n]
        sizes = np.array([each.rows for each in draws.strata], dtype=np.float64)
        shares = np.array([each.share for each in draws.strata])
        strata_called = np.array([each.called for each in draws.strata])
        drawn = np.zeros((n + 1, len(sizes)))
        np.cumsum(stratum[:, None] == np.arange(len(sizes)), axis=0, out=drawn[1:])
        left = sizes - drawn
        open_shares = np.where(left[:-1] > 0, shares, 0.0)
        open_shares /= np.maximum(open_shares.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        with np.errstate(divide="ignore", invalid="ignore"):
            weights = np.where(left[:-1] > 0, left[:-1] / open_shares, 0.0)
        return cls(
            target=target,
            called=strata_called[stratum],
            weights=weights[np.arange(n), stratum],
            answers=answers[:n],
            worst_weights=weights,
            left=left[1:],
            strata_called=strata_called,
            stratum=stratum,
            sizes=sizes,
        )

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
        losses = self.target.losses(self.strata_called)
        floor = self._lowest(aim)
        sums = np.cumsum(values)
        evidence = self._evidence(values, sums, (self.worst_weights * losses).max(axis=1), self._bets())
        certain = sums + self.left @ floor >= -_tolerance(sums)
        return np.where(certain, np.inf, evidence)

    def _against_it(self, aim: float) -> FloatArray:
        values = -self._values(aim, against=False)
        gains = self.target.gains(self.strata_called, aim)
        sums = np.cumsum(values)
        evidence = self._evidence(values, sums, (self.worst_weights * gains).max(axis=1), BETS_ON_FEW)
        certain = sums - self.left @ gains > _tolerance(sums)
        return np.where(certain, np.inf, evidence)

    def _evidence(self, values: FloatArray, sums: FloatArray, worst: FloatArray, bets: Bets) -> FloatArray:
        """Bet against the sum over all being negative, where a draw loses at most `worst`."""
        before: FloatArray = np.concatenate([[0.0], sums[:-1]])
        unit = np.where(worst > 0, worst, 1.0)
        payoffs = np.maximum((worst + values * self.weights) / unit, 0.0)
        return log_capital(payoffs, (worst - before) / unit, bets)

    def _bets(self) -> Bets:
        return BETS_ON_MANY if self.target.kind == "precision" else BETS_ON_WEIGHTED

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


def _tolerance(sums: FloatArray) -> FloatArray:
    """Return what a sum may be off by rounding."""
    return 1e-9 * np.maximum(np.abs(sums), 1.0)

"""Audits on made-up pools whose truth is known: how often a proof is false, and how many labels one takes.

    python -P benchmarks/audits.py --out benchmarks/results/audits.json   # and audits.md, for reading

Six models, from one that guesses to one whose probabilities are far off, each with four kinds of statements that are
just not so: a proof at any moment counts as false. Then what proofs of true statements cost, beside a plain random
sample with the same bets. Only made-up rows: the claims are about sampling, and hold whatever the rows are.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.special import expit, logit

from solver.audit_allocation import Outcomes, hidden_failures
from solver.audits import AuditedMeasure, AuditTarget, decided_at, draw_rows, judge_in_order, thresholds_around
from solver.evaluation.betting import BETS_ON_MANY, log_capital
from solver.typing import BoolArray, FloatArray

AUDITS: Final = 400
CONFIDENCE: Final = 0.95
COSTS: Final = {"false_negative": 5.0, "false_positive": 1.0}
MOST: Final[dict[AuditedMeasure, int]] = {"precision": 1500, "recall": 2500, "false_positive_rate": 1500, "cost": 1500}


class Pool(NamedTuple):
    """Rows, what a model says of them, and what they are."""

    positive: BoolArray
    called: BoolArray
    probabilities: FloatArray


class Model(NamedTuple):
    """How well scores tell the classes apart, and what is wrong with the probabilities."""

    rows: int
    prior: float
    distance: float
    """Between the means of the scores of the classes, in standard deviations."""
    recall: float
    """At its threshold."""
    stretch: float = 1.0
    """Of the log-odds: above 1 the model is too sure of itself, below 0 it has them upside down."""

    def pool(self, rng: np.random.Generator) -> Pool:
        positive = rng.random(self.rows) < self.prior
        scores = rng.normal(size=self.rows) + self.distance * positive
        odds = logit(self.prior) + self.distance * scores - self.distance**2 / 2
        threshold = np.quantile(scores[positive], 1 - self.recall)
        return Pool(positive, scores > threshold, expit(self.stretch * odds))


MODELS: Final = {
    "good": Model(10_000, 0.05, 4.0, 0.93),
    "middling": Model(10_000, 0.2, 2.5, 0.9),
    "weak": Model(10_000, 0.1, 1.0, 0.8),
    "guessing": Model(5_000, 0.3, 0.0, 0.5),
    "too sure": Model(10_000, 0.05, 3.0, 0.9, 3.0),
    "upside down": Model(3_000, 0.1, 2.0, 0.85, -1.0),
}


def truth(pool: Pool, kind: AuditedMeasure) -> float:
    """Return the value that is audited."""
    hits = int((pool.positive & pool.called).sum())
    if kind == "precision":
        return hits / int(pool.called.sum())
    if kind == "recall":
        return hits / int(pool.positive.sum())
    false_negatives, false_positives = int(pool.positive.sum()) - hits, int(pool.called.sum()) - hits
    if kind == "false_positive_rate":
        return false_positives / int((~pool.positive).sum())
    return (COSTS["false_negative"] * false_negatives + COSTS["false_positive"] * false_positives) / len(pool.positive)


def just_beyond(pool: Pool, kind: AuditedMeasure) -> AuditTarget:
    """Return the easiest statement that is not so."""
    value = truth(pool, kind)
    if kind == "cost":
        return AuditTarget(kind, value - 0.5 / len(pool.positive), **COSTS)
    if kind == "false_positive_rate":
        return AuditTarget(kind, value - 0.5 / int((~pool.positive).sum()))
    among = pool.called if kind == "precision" else pool.positive
    return AuditTarget(kind, value + 0.5 / int(among.sum()))


def audit(pool: Pool, target: AuditTarget, most: int, seed: int) -> tuple[str, int]:
    """Carry out an audit; return the verdict, and after how many labels it was there (`most` where it was not)."""
    draws = draw_rows(pool.probabilities, pool.called, target, most, seed)
    standing, decided = decided_at(draws, pool.positive[draws.row].astype(np.int64), target, CONFIDENCE)
    return standing, decided or most


def false_proofs(model: Model, kind: AuditedMeasure, audits: int = AUDITS, seed: int = 0) -> int:
    """Count the audits that prove at some moment what is just not so."""
    rng = np.random.default_rng([seed, *kind.encode()])
    false = 0
    for number in range(audits):
        pool = model.pool(rng)
        false += audit(pool, just_beyond(pool, kind), MOST[kind], number)[0] == "proven"
    return false


def false_in_order(model: Model, kind: AuditedMeasure, audits: int = 200, seed: int = 0) -> int:
    """Count the audits that try several thresholds in order and prove of one of them what is not so."""
    rng = np.random.default_rng([seed, 1, *kind.encode()])
    false = 0
    for number in range(audits):
        pool = model.pool(rng)
        scores = logit(np.clip(pool.probabilities, 1e-15, 1 - 1e-15))
        own = float(scores[pool.called].min() - 1e-9)
        thresholds = thresholds_around(scores, own, kind, np.empty(0))
        by = [Pool(pool.positive, scores > threshold, pool.probabilities) for threshold in thresholds]
        # the third of them is the first that does not hold, by the least that there is
        target = just_beyond(by[2], kind)
        levels = np.searchsorted(np.sort(thresholds), scores)
        draws = draw_rows(pool.probabilities, levels, target, MOST[kind], number, len(thresholds))
        order = [sorted(thresholds).index(threshold) for threshold in thresholds]
        verdicts = judge_in_order(draws, pool.positive[draws.row].astype(np.int64), target, CONFIDENCE, order)
        sign = -1 if kind in ("cost", "false_positive_rate") else 1
        holds = [sign * truth(each, kind) >= sign * target.target for each in by]
        false += any(verdict.standing == "proven" and not held for verdict, held in zip(verdicts, holds, strict=False))
    return false


def proven_share(right: float, within: int, target: float = 0.95) -> float:
    """Return how many audits prove a precision within so many labels, exactly, where each row is right by chance.

    The capital depends on how many rows were wrong, and not on which: of those with the same number of labels, the
    shares that have been wrong so often, without a proof so far, are carried along.
    """
    enough = np.array([labels_needed(wrong, within, target) for wrong in range(within + 1)])
    open_, proven = np.zeros(within + 1), 0.0
    open_[0] = 1.0
    for labels in range(1, within + 1):
        open_[1:] = open_[1:] * right + open_[:-1] * (1 - right)
        open_[0] *= right
        done = enough <= labels
        proven += float(open_[done].sum())
        open_[done] = 0.0
    return proven


def labels_needed(wrong: int, most: int, target: float = 0.95) -> int:
    """Return how many labels prove a precision if so many of them are wrong; ``most + 1`` where they are more."""
    right = np.ones(most)
    right[:wrong] = 0.0
    capital = log_capital(right / target, np.ones(most), BETS_ON_MANY)
    there = np.flatnonzero(capital >= -np.log1p(-CONFIDENCE))
    return int(there[0]) + 1 if len(there) else most + 1


class Cost(NamedTuple):
    """Labels that proofs take: means, and the median."""

    audit: float
    audit_median: float
    random: float
    random_median: float
    proven: float
    """Share of the audits that end with a proof."""
    least: float
    """What nobody can do without."""
    least_by_strata: float
    """What nobody can do without who is told how many rows of each stratum fail, and not which."""


def recall_labels(model: Model, target: float = 0.9, audits: int = 60, seed: int = 0) -> Cost:
    """Compare an audit of the recall with a random sample of the pool, of which only positive rows say something."""
    rng = np.random.default_rng(seed)
    ours, others, least, by_strata, proofs = [], [], [], [], 0
    for number in range(audits):
        pool = model.pool(rng)
        standing, labels = audit(pool, AuditTarget("recall", target), len(pool.positive), number)
        proofs += standing == "proven"
        ours.append(labels)
        others.append(_by_random(pool, target, rng))
        least.append(_least(pool, target))
        by_strata.append(_least_by_strata(pool, target))
    return Cost(
        audit=float(np.mean(ours)),
        audit_median=float(np.median(ours)),
        random=float(np.mean(others)),
        random_median=float(np.median(others)),
        proven=proofs / audits,
        least=float(np.mean(least)),
        least_by_strata=float(np.mean(by_strata)),
    )


def _least(pool: Pool, target: float) -> float:
    """Return how many rows one has to look at who knows all hits and misses, but has to prove that these are all.

    So many misses more would undo the recall, and they may be any of the rows that are not called positive.
    """
    hits = int((pool.positive & pool.called).sum())
    room = hits * (1 / target - 1) - int((pool.positive & ~pool.called).sum())
    return float((1 - (1 - CONFIDENCE) ** (1 / room)) * np.count_nonzero(~pool.called))


def _least_by_strata(pool: Pool, target: float) -> float:
    """Return how many rows one has to look at who knows how many of each stratum fail, but not which.

    Of two pools, this one and one in which just as many more fail as undo the recall, hidden in the strata as well as
    can be, the draws have to tell log(1 / 0.05) on average, for a proof that is false in one of twenty.
    """
    recall = AuditTarget("recall", target)
    draws = draw_rows(pool.probabilities, pool.called, recall, len(pool.positive), 0)
    called = np.array([stratum.called > 0 for stratum in draws.strata])
    rows = np.bincount(draws.stratum).astype(np.float64)
    positive = np.bincount(draws.stratum, pool.positive[draws.row]) / rows
    hit, miss = 1 / target - 1, 1.0
    loss = np.where(called, hit, miss)
    failing = np.clip(np.where(called, 1 - positive, positive), 1e-6, 1 - 1e-6)
    known = Outcomes(rows, failing, np.where(called, hit, 0.0), loss, ~called)
    _, left = hidden_failures(known, -float(np.log1p(-CONFIDENCE)))
    return float((rows - left).sum())


def _by_random(pool: Pool, target: float, rng: np.random.Generator) -> int:
    """Return how many labels a random sample takes to prove a recall, the whole pool at most.

    Of its rows those say something that are positive; how many of these there are in the pool, nobody knows.
    """
    order = rng.permutation(len(pool.positive))
    hit = pool.called[order][pool.positive[order]]
    capital = log_capital(hit / target, np.ones(len(hit)), BETS_ON_MANY)
    there = np.flatnonzero(capital >= -np.log1p(-CONFIDENCE))
    return int(np.flatnonzero(pool.positive[order])[there[0]]) + 1 if len(there) else len(order)


def cost_labels(model: Model, slack: float, audits: int = 60) -> tuple[float, float]:
    """Return the mean number of labels that prove a cost of `slack` times the true one, and how many audits do."""
    rng = np.random.default_rng(5)
    taken, proofs = [], 0
    for number in range(audits):
        pool = model.pool(rng)
        target = AuditTarget("cost", slack * truth(pool, "cost"), **COSTS)
        standing, labels = audit(pool, target, len(pool.positive), number)
        proofs += standing == "proven"
        taken.append(labels)
    return float(np.mean(taken)), proofs / audits


def measure(say: Callable[[str], None]) -> dict[str, Any]:
    """Run everything."""
    found: dict[str, Any] = {"audits": AUDITS, "confidence": CONFIDENCE, "false_proofs": {}, "recall": {}, "cost": {}}
    for name, model in MODELS.items():
        for kind in MOST:
            found["false_proofs"][f"{name}, {kind}"] = count = false_proofs(model, kind)
            say(f"{name}, {kind}: {count} of {AUDITS} false")
    found["all_right"] = labels_needed(0, 100)
    found["precision"] = {f"{right} in {n}": proven_share(right, n) for right, n in PRECISION}
    say(json.dumps(found["precision"]))
    for rows, distance in ((10_000, 3.0), (10_000, 4.0), (50_000, 4.0)):
        for recall in (0.93, 0.95, 0.97):
            cost = recall_labels(Model(rows, 0.05, distance, recall))
            found["recall"][f"{rows} rows, distance {distance:g}, recall {recall:g}"] = cost._asdict()
            say(f"{rows} {distance} {recall}: {cost}")
    for slack in (1.25, 1.5, 2.0):
        found["cost"][f"{slack:g} times the true one"] = cost_labels(MODELS["good"], slack)
        say(f"cost {slack}: {found['cost'][f'{slack:g} times the true one']}")
    return found


def table(found: dict[str, Any]) -> str:
    """Return the figures for reading."""
    lines = [
        f"Proofs of statements that are just not so, at any moment, of {found['audits']} audits at "
        f"{found['confidence']:g}:",
        "",
        "| model | " + " | ".join(MOST) + " |",
        "|---|" + "---|" * len(MOST),
        *(
            f"| {name} | " + " | ".join(str(found["false_proofs"][f"{name}, {kind}"]) for kind in MOST) + " |"
            for name in MODELS
        ),
        "",
        f"Precision of 0.95: all right, {found['all_right']} labels; "
        + "; ".join(f"{case} labels, {share:.1%}" for case, share in found["precision"].items()),
        "",
        "| recall of 0.9, 5 % positive | audit: mean, median | random sample: mean, median | ratio "
        "| least by strata | least |",
        "|---|---|---|---|---|---|",
    ]
    for case, cost in found["recall"].items():
        ratio = cost["audit"] / cost["random"]
        lines.append(
            f"| {case} | {cost['audit']:,.0f}, {cost['audit_median']:,.0f} | {cost['random']:,.0f}, "
            f"{cost['random_median']:,.0f} | {ratio:.2f} | {cost['least_by_strata']:,.0f} | {cost['least']:,.0f} |"
        )
    lines += ["", "| cost at most | labels in the mean | proven |", "|---|---|---|"]
    lines += [f"| {case} | {labels:,.0f} | {proven:.0%} |" for case, (labels, proven) in found["cost"].items()]
    return "\n".join([*lines, ""])


PRECISION: Final = ((0.995, 120), (0.995, 200), (0.99, 300), (0.985, 300))


def main() -> None:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=None, help="JSON file for the figures")
    arguments = parser.parse_args()
    found = measure(lambda line: print(line, file=sys.stderr, flush=True))
    if arguments.out is None:
        print(table(found), end="")
    else:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")
        arguments.out.with_suffix(".md").write_text(table(found))


if __name__ == "__main__":
    main()

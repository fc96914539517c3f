"""What an audit proves: exactly, on pools so small that every order of draws can be walked through."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from solver.audit_allocation import (
    BelievedBet,
    Outcomes,
    believed_bets,
    hidden_failures,
    information,
    least_favourable,
    shares_of_draws,
    unbelieving_bets,
)
from solver.audits import (
    AuditTarget,
    Draws,
    Phase,
    Stratum,
    _Path,
    alike_drawn,
    answers_expected,
    draw_rows,
    judge,
    judge_in_order,
    thresholds_around,
)
from solver.evaluation.betting import BETS_ON_FEW, BETS_ON_MANY, Bets, log_capital

PRECISION = AuditTarget("precision", 0.95)
RECALL = AuditTarget("recall", 0.9)
COST = AuditTarget("cost", 0.2, false_negative=5.0, false_positive=1.0)


def all_called(rows: int, most: int = 400, target: AuditTarget = PRECISION) -> Draws:
    return draw_rows(np.full(rows, 0.9), np.ones(rows, dtype=bool), target, most, seed=1)


def answered(draws: Draws, *answers: int) -> list[int]:
    return [*answers, *([-1] * (len(draws.row) - len(answers)))]


# --- bets ------------------------------------------------------------------------------------------------------------


def test_all_on_one_bet_is_a_power():
    capital = log_capital(np.ones(10) / 0.95, np.ones(10), Bets((0.0,), (1.0,)))
    np.testing.assert_allclose(capital, -np.arange(1, 11) * np.log(0.95), rtol=1e-12)


def test_a_bet_of_everything_is_lost_with_one_failure_and_the_others_go_on():
    alone = log_capital(np.array([1.0, 0.0, 1.0]), np.ones(3), Bets((0.0,), (1.0,)))
    assert np.isfinite(alone[0])
    assert np.isneginf(alone[1:]).all()
    both = log_capital(np.array([1.0, 0.0, 1.0]), np.ones(3), Bets((0.0, 0.5), (0.5, 0.5)))
    np.testing.assert_allclose(both[2], np.log(0.5 * 0.5))


@pytest.mark.parametrize("bets", [BETS_ON_MANY, BETS_ON_FEW])
def test_without_an_edge_the_capital_stays_the_same_on_average(bets: Bets):
    mean = 0.7
    expected = 0.0
    for outcome in itertools.product((0.0, 1.0), repeat=8):
        chance = math.prod(mean if won else 1 - mean for won in outcome)
        capital = log_capital(np.array(outcome) / mean, np.ones(8), bets)[-1]
        expected += chance * np.exp(capital)
    assert expected == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ("kept", "weights"), [((0.5,), (0.5, 0.5)), ((1.0,), (1.0,)), ((-0.1,), (1.0,)), ((0.5, 0.2), (1.2, -0.2))]
)
def test_what_is_no_way_to_share_is_refused(kept: tuple[float, ...], weights: tuple[float, ...]):
    with pytest.raises(ValueError, match="bet"):
        Bets(kept, weights)


# --- precision -------------------------------------------------------------------------------------------------------


def test_sixty_two_right_rows_prove_a_precision_of_95_percent():
    draws = all_called(1_000_000 // 10)
    assert judge(draws, answered(draws, *[1] * 61), PRECISION, 0.95).standing == "open"
    verdict = judge(draws, answered(draws, *[1] * 62), PRECISION, 0.95)
    assert (verdict.standing, verdict.decided_at, verdict.estimate) == ("proven", 62, 1.0)
    assert 0.95 <= verdict.bound < 0.951


def test_how_long_an_audit_takes_is_told_before_it_begins():
    draws = all_called(2000)
    assert answers_expected(draws, np.ones(400), PRECISION, 0.95, seed=1) == 62
    assert answers_expected(draws, np.full(400, 0.5), PRECISION, 0.95, seed=1) < 20  # refuted soon
    assert answers_expected(draws, np.full(400, 0.95), PRECISION, 0.95, seed=1) is None  # just at the target
    longer = answers_expected(draws, np.full(400, 0.995), PRECISION, 0.95, seed=1)
    assert 62 <= longer <= 150


def test_a_small_pool_takes_fewer_rows():
    draws = all_called(60)
    verdict = judge(draws, answered(draws, *[1] * len(draws.row)), PRECISION, 0.95)
    assert verdict.standing == "proven"
    assert verdict.decided_at is not None
    assert verdict.decided_at < 45


def test_the_last_rows_of_a_pool_prove_what_can_no_longer_fail():
    draws = all_called(10, target=AuditTarget("precision", 0.8))
    target = AuditTarget("precision", 0.8)
    # two wrong ones of ten are what it allows: with all others seen, whatever the confidence
    verdict = judge(draws, [1, 0, 1, 1, 1, 0, 1, 1, 1, 1], target, 0.999)
    assert (verdict.standing, verdict.decided_at, verdict.bound) == ("proven", 10, pytest.approx(0.8, abs=2e-4))
    assert judge(draws, [1, 0, 1, 1, 1, 0, 1, 1, 1, 0], target, 0.999).standing == "refuted"


def test_what_is_far_below_is_refuted_soon():
    rng = np.random.default_rng(0)
    draws = all_called(10_000)
    verdict = judge(draws, (rng.random(400) < 0.8).astype(int), PRECISION, 0.95)
    assert verdict.standing == "refuted"
    assert verdict.decided_at is not None
    assert verdict.decided_at < 100
    assert verdict.estimate is not None
    assert verdict.estimate - 0.1 < verdict.bound < verdict.estimate


def test_a_verdict_stands_although_later_answers_are_against_it():
    draws = all_called(100_000)
    verdict = judge(draws, answered(draws, *[1] * 62, *[0] * 100), PRECISION, 0.95)
    assert (verdict.standing, verdict.decided_at) == ("proven", 62)
    assert verdict.bound >= 0.95


@pytest.mark.parametrize("target", [PRECISION, RECALL, COST])
def test_leaving_rows_out_wins_nothing(target: AuditTarget):
    rng = np.random.default_rng(3)
    positive = rng.random(3000) < 0.3
    called = positive ^ (rng.random(3000) < 0.05)
    draws = draw_rows(np.where(called, 0.9, 0.05), called, target, 300, seed=2)
    right = positive[draws.row].astype(int)
    whole = _Path.of(draws, right, target)
    gaps = np.where(rng.random(300) < 0.2, -1, right)
    gaps[-1] = right[-1]
    holed = _Path.of(draws, gaps, target)
    for aim in (target.target, 0.8 * target.target):
        assert (holed._for_it(aim) <= whole._for_it(aim) + 1e-9).all()
        assert (holed._against_it(aim) <= whole._against_it(aim) + 1e-9).all()


# --- every order of draws --------------------------------------------------------------------------------------------


def orders(draws: Draws, members: list[list[int]], length: int):
    """Yield every order of rows that could be drawn, as strata and rows, with its probability."""
    phases = draws.all_phases()

    def go(left, strata, rows, chance):
        if len(rows) == length:
            yield strata, rows, chance
            return
        shares = [phase for phase in phases if phase.start <= len(rows)][-1].shares
        open_ = sum(share for share, some in zip(shares, left, strict=True) if some)
        for number, some in enumerate(left):
            for row in some:
                rest = [[r for r in part if r != row] for part in left]
                yield from go(rest, [*strata, number], [*rows, row], chance * shares[number] / open_ / len(some))

    yield from go(members, [], [], 1.0)


def outcomes_of(strata: tuple[Stratum, ...], positive: list[float], target: AuditTarget) -> Outcomes:
    called = np.array([stratum.called > 0 for stratum in strata])
    yes, no = (target.values(np.full(len(strata), answer), called, target.target) for answer in (True, False))
    rows, thought = np.array([stratum.rows for stratum in strata], dtype=float), np.array(positive)
    failing = np.where(yes < no, thought, 1 - thought)
    return Outcomes(rows, failing, np.maximum(yes, no), np.abs(yes - no), target.losses(called) > 0)


def bets_of(strata: tuple[Stratum, ...], positive: list[float], target: AuditTarget, phases: tuple[Phase, ...]):
    """What is bet by who believes these shares of positive rows, one list a threshold."""
    given = outcomes_of(strata, positive, target).hoped()
    shares = np.array([phase.shares for phase in phases])
    believed = believed_bets(given, np.tile(given.rows, (len(phases), 1)), shares)
    return ((*believed, *unbelieving_bets(len(strata), believed)),)


CALLED = np.array([True, True, True, True, False, False, False])


def just_beyond(kind: str, truth: np.ndarray) -> tuple[AuditTarget, AuditTarget] | None:
    """Return the easiest statement that is not so, and the hardest that is; None where there is no such value."""
    hits = int((truth & CALLED).sum())
    if kind == "false_positive_rate":
        false, negative = int((~truth & CALLED).sum()), int((~truth).sum())
        if not 0 < false < negative:
            return None
        return AuditTarget(kind, false / negative - 0.01), AuditTarget(kind, false / negative)
    if kind == "cost":
        costs = {"false_negative": 2.0, "false_positive": 1.0}
        value = (2 * int((truth & ~CALLED).sum()) + int((~truth & CALLED).sum())) / 7
        return (
            None if value < 0.1 else (AuditTarget("cost", value - 0.01, **costs), AuditTarget("cost", value, **costs))
        )
    among = 4 if kind == "precision" else int(truth.sum())
    if among == 0 or hits == 0:
        return None
    return AuditTarget(kind, hits / among + 0.01), AuditTarget(kind, hits / among)  # type: ignore[arg-type]


@pytest.mark.parametrize("bets", ["of before", "believed"])
@pytest.mark.parametrize("kind", ["precision", "recall", "false_positive_rate", "cost"])
def test_no_proof_of_what_is_not_so_is_worth_its_price(kind: str, bets: str):
    """On average over all orders the capital does not grow if what it is bet on is not so: to any decimal."""
    strata = (Stratum(True, 4, 1.0),)
    members = [[0, 1, 2, 3]]
    if kind != "precision":
        strata = (Stratum(True, 1, 0.2), Stratum(True, 3, 0.3), Stratum(False, 2, 0.4), Stratum(False, 1, 0.1))
        members = [[0], [1, 2, 3], [4, 5], [6]]
    of_strata = np.array([stratum.share for stratum in strata])
    # the draws go elsewhere in each phase
    phases = tuple(Phase(start, tuple((of_strata**power).tolist())) for start, power in ((0, 1.0), (1, 0.3), (2, 2.0)))
    plan = Draws(strata, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), (), phases)
    # as if the model thought so: it need not be right
    thought = {4: [0.9], 7: [0.6, 0.9, 0.3, 0.1]}[sum(stratum.rows for stratum in strata)]
    every = list(orders(plan, members, 3))
    assert sum(chance for _, _, chance in every) == pytest.approx(1.0)
    looked_at, most = 0, 0.0
    for number in range(0, 128, 11):
        truth = np.array([number >> row & 1 for row in range(7)], dtype=bool)
        targets = just_beyond(kind, truth)
        if targets is None:
            continue
        looked_at += 1
        # which row of its stratum has given an answer is nothing that a bet knows
        chances: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
        for stratum, rows, chance in every:
            chances[tuple(stratum), tuple(truth[rows].astype(int).tolist())] += chance
        believed = {target: bets_of(strata, thought, target, phases) for target in targets if target.target <= 1}
        for target, side in zip(targets, ("_for_it", "_against_it"), strict=True):
            if target.target > 1:
                continue
            expected = np.zeros(3)
            for (stratum, answers), chance in chances.items():
                of_bets = believed[target] if bets == "believed" else ()
                made = Draws(strata, np.array(stratum), np.arange(3), of_bets, phases)
                path = _Path.of(made, np.array(answers), target)
                expected += chance * np.exp(getattr(path, side)(target.target))
            assert (expected <= 1 + 1e-9).all(), (truth, target, side)
            most = max(most, expected[-1])
    assert looked_at >= 8
    assert most > 0.9  # it is no empty claim: where it matters, the capital does not melt away either


# --- draws -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [PRECISION, RECALL, COST])
def test_draws_come_of_the_seed_and_name_each_row_once(target: AuditTarget):
    rng = np.random.default_rng(0)
    probabilities = rng.random(500)
    called = probabilities > 0.6
    draws, again, other = (draw_rows(probabilities, called, target, 10_000, seed) for seed in (4, 4, 5))
    np.testing.assert_array_equal(draws.row, again.row)
    assert not np.array_equal(draws.row, other.row)
    assert len(set(draws.row.tolist())) == len(draws.row)
    expected = called.sum() if target.kind == "precision" else 500
    assert len(draws.row) == expected  # the pool is no larger
    assert sum(stratum.rows for stratum in draws.strata) == expected
    assert sum(stratum.share for stratum in draws.strata) == pytest.approx(1.0)
    for number, row in zip(draws.stratum, draws.row, strict=True):
        assert draws.strata[number].called == called[row]


def test_unsure_rows_are_drawn_more_often_and_no_part_is_forgotten():
    rng = np.random.default_rng(0)
    probabilities = 0.5 * rng.random(20_000) ** 8
    called = rng.random(20_000) < 0.05
    probabilities[called] = 0.9
    draws = draw_rows(probabilities, called, RECALL, 100, 0)
    often = [stratum.share / stratum.rows for stratum in draws.strata if not stratum.called]
    assert often == sorted(often, reverse=True)
    assert often[0] > 4 * often[-1]
    assert often[-1] > 0.3 / 20_000


def test_a_recall_of_one_draws_hits_too():
    probabilities = np.linspace(0, 1, 100)
    called = probabilities > 0.8
    target = AuditTarget("recall", 1.0)
    draws = draw_rows(probabilities, called, target, 1000, 0)
    assert len(draws.row) == 100
    verdict = judge(draws, called[draws.row].astype(int), target, 0.95)
    assert (verdict.standing, verdict.estimate, verdict.bound) == ("proven", 1.0, 1.0)
    one_missed = called[draws.row].astype(int)
    one_missed[np.flatnonzero(~called[draws.row])[-1]] = 1
    assert judge(draws, one_missed, target, 0.95).standing == "refuted"


def test_nothing_called_positive_is_no_pool_for_a_precision():
    with pytest.raises(ValueError, match="no row is called positive"):
        draw_rows(np.full(5, 0.1), np.zeros(5, dtype=bool), PRECISION, 10, 0)


def test_where_all_is_called_positive_recall_is_certain():
    draws = all_called(50, target=RECALL)
    verdict = judge(draws, answered(draws, 1), RECALL, 0.95)
    assert (verdict.standing, verdict.bound) == ("proven", 1.0)


# --- where to draw, and what to bet ----------------------------------------------------------------------------------


def outcomes(target: AuditTarget = RECALL) -> Outcomes:
    strata = tuple(Stratum(called, rows, 0.25) for called, rows in ((1, 500), (0, 500), (0, 2000), (0, 7000)))
    return outcomes_of(strata, [0.9, 0.02, 0.001, 0.0002], target)


def test_least_favourable_shares_just_fail_and_tell_least():
    """No other shares by which the statement fails are harder to tell from the model's."""
    given = outcomes()
    shares = np.array([0.1, 0.3, 0.2, 0.4])
    found, multipliers = least_favourable(given, given.rows[None], shares[None], given.room())
    assert given.room() > 0
    assert replace(given, failing=found[0]).room() == pytest.approx(0, abs=1e-6)
    assert multipliers[0] > 0
    told = float((shares * information(given.failing, found[0])).sum())
    rng = np.random.default_rng(0)
    tried = 0
    while tried < 200:
        other = np.clip(found[0] * np.exp(rng.normal(0, 0.3, 4)), 1e-9, 0.999)
        if replace(given, failing=other).room() <= 0:
            tried += 1
            assert (shares * information(given.failing, other)).sum() >= told - 1e-12


def told_by(given: Outcomes, nats: float, share_of) -> float:
    """What draws tell of the doubter's best, whoever hides as much in each stratum from first to last; of how many."""
    left, told, draws = given.rows.copy(), 0.0, 0
    while told < nats:
        shares = share_of(left)
        found, _ = least_favourable(given, left[None], shares[None], given.room())
        told += 10 * float((shares * information(given.failing, found[0])).sum())
        left = np.maximum(left - 10 * shares, 0.0)
        draws += 10
    return draws


def test_draws_go_where_they_tell_most_until_the_end():
    """With fewer draws than any others they tell what they are to tell, and as they were planned."""
    given = outcomes().hoped()
    hidden, left = hidden_failures(given, 3.0)
    assert (hidden * given.loss).sum() == pytest.approx(given.room(), rel=1e-3)
    planned = float((given.rows - left).sum())
    taken = told_by(given, 3.0, lambda rows: shares_of_draws(given, hidden, rows))
    assert planned <= taken <= 1.06 * planned
    for others in (given.rows, np.sqrt(given.rows), given.rows * np.sqrt(given.failing)):
        assert told_by(given, 3.0, lambda rows, others=others: np.where(rows > 0, others, 0) / others.sum()) > taken


def test_a_stratum_that_pays_to_be_seen_whole_is_drawn_from_first():
    strata = tuple(Stratum(called, rows, 0.25) for called, rows in ((1, 500), (0, 100), (0, 2000), (0, 7000)))
    given = outcomes_of(strata, [0.95, 0.3, 0.001, 0.0002], RECALL).hoped()
    hidden, left = hidden_failures(given, 3.0)
    assert hidden[1] == pytest.approx(0, abs=1e-6)
    assert left[1] == pytest.approx(0, abs=1e-6)
    assert shares_of_draws(given, hidden, given.rows)[1] >= 0.75
    assert shares_of_draws(given, hidden, np.array([500.0, 0.0, 2000.0, 7000.0]))[1] == 0


@pytest.mark.parametrize("positive", [[0.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.5, 0.5]])
@pytest.mark.parametrize("target", [RECALL, COST, AuditTarget("false_positive_rate", 0.05)])
def test_whatever_a_model_says_there_is_a_plan(target: AuditTarget, positive: list[float]):
    called = np.repeat([True, False, False, False], [50, 50, 200, 700])
    draws = draw_rows(np.repeat(positive, [50, 50, 200, 700]), called, target, 300, 0)
    assert sum(stratum.share for stratum in draws.strata) == pytest.approx(1.0)
    assert all(stratum.share > 0 for stratum in draws.strata)
    assert sum(bet.weight for bet in draws.bets[0]) == pytest.approx(1.0)
    for bet in draws.bets[0]:
        if isinstance(bet, BelievedBet):
            assert np.isfinite(bet.multipliers).all()
            assert all(0 < share < 1 for share in bet.failing)
        else:
            assert 0 < bet.kept < 1
    assert [phase.start for phase in draws.phases][:2] == [0, 16]
    assert judge(draws, np.zeros(300, dtype=int), target, 0.95).bound >= 0


def test_a_plan_is_kept_as_json():
    rng = np.random.default_rng(0)
    probabilities = rng.random(500)
    draws = draw_rows(probabilities, probabilities > 0.6, RECALL, 100, 3)
    again = Draws.of_plan(json.loads(json.dumps(draws.plan())), draws.stratum.tolist(), draws.row.tolist())
    assert (again.strata, again.bets, again.phases) == (draws.strata, draws.bets, draws.phases)
    assert len(draws.phases) > 3
    answers = (probabilities[draws.row] > 0.5).astype(int)
    assert judge(again, answers, RECALL, 0.95) == judge(draws, answers, RECALL, 0.95)
    # an audit that was drawn before the bets were written down, with a truth value for `called`
    old = {"strata": [{"called": True, "rows": 10, "share": 0.5}, {"called": False, "rows": 10, "share": 0.5}]}
    assert Draws.of_plan(old, [0], [3]).strata == (Stratum(1, 10, 0.5), Stratum(0, 10, 0.5))
    assert judge(Draws.of_plan(old, [0], [3]), [1], RECALL, 0.95).standing == "open"


# --- several thresholds ----------------------------------------------------------------------------------------------


def scored(rows: int, seed: int, share: float = 0.2, distance: float = 2.5):
    """Which rows are positive, their scores and probabilities."""
    rng = np.random.default_rng(seed)
    positive = rng.random(rows) < share
    scores = rng.normal(size=rows) + distance * positive
    return positive, scores, expit(np.log(share / (1 - share)) + distance * scores - distance**2 / 2)


def value_of(kind: str, positive: np.ndarray, called: np.ndarray) -> float:
    if kind == "cost":
        return float(np.where(called, ~positive * 1.0, positive * 5.0).mean())
    if kind == "false_positive_rate":
        return float((~positive & called).sum() / (~positive).sum())
    return float((positive & called).sum() / (called if kind == "precision" else positive).sum())


@pytest.mark.parametrize("kind", ["precision", "recall", "false_positive_rate", "cost"])
def test_of_several_thresholds_the_best_that_holds_is_proven(kind: str):
    positive, scores, probabilities = scored(8000, 0)
    thresholds = thresholds_around(scores, 1.5, kind, np.empty(0))  # type: ignore[arg-type]
    values = [value_of(kind, positive, scores > each) for each in thresholds]
    if kind == "cost":
        target = AuditTarget("cost", 1.4 * values[0], false_negative=5.0, false_positive=1.0)
    else:
        assert values == sorted(values, reverse=kind != "false_positive_rate")
        target = AuditTarget(kind, (values[2] + 3 * values[3]) / 4)  # type: ignore[arg-type]
    levels = np.searchsorted(np.sort(thresholds), scores)
    draws = draw_rows(probabilities, levels, target, 8000, 1, len(thresholds))
    assert len(draws.bets) == len(thresholds)
    order = [sorted(thresholds).index(each) for each in thresholds]
    found = judge_in_order(draws, positive[draws.row].astype(int), target, 0.95, order)
    for place, verdict in enumerate(found):
        is_share = kind in ("precision", "recall")
        holds = values[place] >= target.target if is_share else values[place] <= target.target
        assert verdict.standing == ("proven" if holds else "refuted")
        assert verdict.estimate == pytest.approx(values[place])  # all rows that tell anything have an answer
    assert all(verdict.standing == "proven" for verdict in found[:-1])
    assert len(found) >= 2
    early = judge_in_order(draws, answered(draws, *positive[draws.row[:40]].astype(int)), target, 0.95, order)
    assert early[-1].standing == "open"  # behind which nothing is tried
    assert all(verdict.standing == "proven" for verdict in early[:-1])


@pytest.mark.parametrize("kind", ["precision", "recall", "cost"])
def test_with_one_threshold_nothing_is_otherwise(kind: str):
    positive, scores, probabilities = scored(3000, 1)
    target = {"precision": PRECISION, "recall": RECALL, "cost": COST}[kind]
    alone = draw_rows(probabilities, scores > 1.5, target, 500, 0)
    among = draw_rows(probabilities, np.searchsorted([1.5], scores), target, 500, 0, 1)
    assert (alone.strata, alone.bets, alone.row.tolist()) == (among.strata, among.bets, among.row.tolist())
    answers = positive[alone.row].astype(int)
    assert judge_in_order(among, answers, target, 0.95, [0]) == [judge(alone, answers, target, 0.95)]


def test_thresholds_are_of_the_curve_where_there_is_one():
    _, scores, _ = scored(2000, 2)
    known = np.linspace(-1, 4, 26)
    for kind in ("precision", "recall", "cost"):
        found = thresholds_around(scores, 1.5, kind, known)  # type: ignore[arg-type]
        assert len(found) == len(set(found)) >= 4
        assert {round(each, 9) for each in found} <= {round(each, 9) for each in [*known.tolist(), 1.5]}
        assert 1.5 in found
        assert all(np.count_nonzero(scores > each) for each in found)
    assert thresholds_around(scores, 99.0, "precision", known) == [99.0]


# --- answers that become calibration rows ----------------------------------------------------------------------------


@pytest.mark.parametrize("target", [RECALL, COST])
def test_of_the_answers_a_sample_at_one_rate_is_found(target: AuditTarget):
    """What is drawn to tell much is no sample of the pool; what is left of it then is, as exactly as one can draw."""
    positive, scores, probabilities = scored(4000, 3)
    near = np.abs(scores - 1.5) < 0.3  # where it is hard to tell
    shares, raw, sizes = [], [], []
    for seed in range(40):
        draws = draw_rows(probabilities, scores > 1.5, target, 800, seed)
        alike = alike_drawn(draws, positive[draws.row].astype(int), 4000)
        sizes.append(int(alike.sum()))
        raw.append(near[draws.row].mean())
        found = draws.row[alike]
        shares.append((near[found].mean(), scores[found].mean()))
    errors = np.std(shares, axis=0) / math.sqrt(len(shares))
    assert (np.abs(np.mean(shares, axis=0) - (near.mean(), scores.mean())) < 3 * errors).all()
    assert abs(np.mean(raw) - near.mean()) > 6 * errors[0]
    assert np.median(sizes) > 150
    assert min(sizes) > 50


def test_which_answers_are_such_a_sample_follows_from_no_answer():
    positive, scores, probabilities = scored(4000, 4)
    draws = draw_rows(probabilities, scores > 1.5, RECALL, 600, 0)
    right = positive[draws.row].astype(int)
    alike = alike_drawn(draws, right, 4000)
    np.testing.assert_array_equal(alike, alike_drawn(draws, 1 - right, 4000))
    holed = right.copy()
    holed[200] = -1  # behind a row that was passed over none counts
    assert not alike_drawn(draws, holed, 4000)[200:].any()
    np.testing.assert_array_equal(
        alike_drawn(draws, holed, 4000), alike_drawn(draws, [*right[:200], *[-1] * 400], 4000)
    )
    # of rows that could not be drawn, nothing is known
    precision = draw_rows(probabilities, scores > 1.5, PRECISION, 600, 0)
    assert not alike_drawn(precision, positive[precision.row].astype(int), 4000).any()
    assert not alike_drawn(draws, np.full(600, -1), 4000).any()


# --- verdicts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["recall", "cost"])
def test_bound_and_verdict_say_the_same(kind: str):
    rng = np.random.default_rng(8)
    positive = rng.random(8000) < 0.1
    probabilities = np.clip(np.where(positive, 0.7, 0.1) + 0.15 * rng.normal(size=8000), 0, 1)
    called = probabilities > 0.45
    found = {"recall": (positive & called).sum() / positive.sum(), "cost": (positive != called).mean()}[kind]
    easy, hard = (0.85, 1.02) if kind == "recall" else (1.6, 0.98)
    for slack, standings in ((easy, {"proven"}), (hard, {"open", "refuted"})):
        target = AuditTarget(kind, min(slack * found, 0.999))  # type: ignore[arg-type]
        draws = draw_rows(probabilities, called, target, 3000, 0)
        for answers in (300, 1000, 3000):
            verdict = judge(draws, answered(draws, *positive[draws.row[:answers]].astype(int)), target, 0.95)
            reached = verdict.bound >= target.target if kind == "recall" else verdict.bound <= target.target
            assert reached == (verdict.standing == "proven")
        assert verdict.standing in standings
        assert verdict.estimate == pytest.approx(found, rel=0.5)


@pytest.mark.parametrize("kind", ["recall", "cost"])
def test_the_estimate_is_the_value_itself_once_all_is_answered(kind: str):
    rng = np.random.default_rng(9)
    positive = rng.random(3000) < 0.2
    probabilities = np.clip(np.where(positive, 0.6, 0.2) + 0.2 * rng.normal(size=3000), 0, 1)
    called = probabilities > 0.5
    found = {"recall": (positive & called).sum() / positive.sum(), "cost": (positive != called).mean()}[kind]
    target = AuditTarget(kind, float(found))  # type: ignore[arg-type]
    draws = draw_rows(probabilities, called, target, 3000, 0)
    answers = positive[draws.row].astype(int)
    assert judge(draws, answers, target, 0.95).estimate == pytest.approx(found)
    half = judge(draws, answered(draws, *answers[:1500]), target, 0.95).estimate
    assert half == pytest.approx(found, rel=0.1)


def test_without_an_answer_nothing_is_said():
    for target, bound in ((PRECISION, 0.0), (COST, 1.0)):
        draws = all_called(100, target=target)
        verdict = judge(draws, answered(draws), target, 0.95)
        assert (verdict.standing, verdict.bound, verdict.estimate, verdict.decided_at) == ("open", bound, None, None)

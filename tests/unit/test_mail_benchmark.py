"""What `benchmarks/mail.py` compares with what: the corpus is cleaned, copies go, and no method sees a label twice."""

from __future__ import annotations

import io
import itertools
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import mail as mail_benchmark
from benchmarks import mail_cautious, mail_peers
from benchmarks.mail import decided, drawn, ranked, split
from benchmarks.mail_corpus import CUT, load
from solver.evaluation import OperatingCurve

HEAD = "Received: from a by b; {date}\nDelivered-To: you\nX-Spam-Flag: YES\nList-Id: <ilug>\nDate: {date}\n"
LIST = "\n-- \nIrish Linux Users' Group: list\n" + "_" * 40 + "\nTo unsubscribe from this mailing list: write\n"
EARLY, LATE = "Thu, 1 Aug 2002 10:00:00 +0100", "Thu, 5 Sep 2002 10:00:00 +0100"


def archive(path: Path, mails: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as files:
        for name, text in mails.items():
            info = tarfile.TarInfo(f"package/data/{name}.txt")
            info.size = len(text.encode())
            files.addfile(info, io.BytesIO(text.encode()))
    return path


def mail(subject: str, body: str, date: str = EARLY) -> str:
    return f"From you@x Thu Aug\n{HEAD.format(date=date)}From: jm@taint.org\nSubject: {subject}\n\n{body}\n"


def test_the_corpus_is_cleaned_and_copies_go(tmp_path: Path) -> None:
    words = " ".join(a + b + c for a in "bdfgk" for b in "aeiou" for c in "lmnrs")
    mails = load(
        archive(
            tmp_path / "corpus.tgz",
            {
                "easy-ham-1/00001.aa": mail("[ILUG] Kernel", f"{words}{LIST}", LATE),
                "easy-ham-2/00002.bb": mail("Re: kernel", words),
                "spam-1/00003.cc": mail("win", "a prize for zzzz is waiting, claim the money now and be rich", LATE),
                "spam-1/cmds": "nothing",
            },
        )
    )
    assert [(each.is_spam, each.arrived < CUT) for each in mails] == [(False, True), (True, False)]
    for each in mails:
        for told in (b"Received", b"Delivered-To", b"X-Spam", b"List-Id", b"Date", b"taint", b"zzzz", b"unsubscribe"):
            assert told not in each.raw
    assert mails[1].fields["body"].startswith("a prize for user")
    assert split(mails, "time", 0) == ([0], [1])


def test_no_mail_is_labelled_and_judged() -> None:
    is_spam = np.arange(200) % 3 == 0
    pool = list(range(120))
    labelled, unlabelled = drawn(pool, is_spam, 30, seed=1)
    assert sorted(labelled + unlabelled) == pool
    assert len(labelled) == 30


def test_figures() -> None:
    truth = np.array([True, True, False, False])
    assert ranked(np.array([4.0, 3.0, 2.0, 1.0]), truth) == {"best_f1": 1.0, "above": 0.0}
    assert decided(np.array([True, False, True, False]), truth) == {"precision": 0.5, "recall": 0.5, "lost": 0.5}


@pytest.mark.parametrize("is_random", [False, True])
def test_ftrl_learns_what_there_is_and_nothing_else(is_random: bool) -> None:
    rng = np.random.default_rng(0)
    truth = rng.random(400) < 0.4
    said = rng.permutation(truth) if is_random else truth
    texts = [" ".join(rng.choice(list("abcdefgh") if spam else list("efghijkl"), 12)) for spam in said]
    texts = [text.replace("a", "prize").replace("i", "minutes").replace("b", "money") for text in texts]
    X = mail_peers.hashed(texts)
    above = ranked(mail_peers.ftrl(X[:200], truth[:200], X[200:], 0), truth[200:])["above"]
    assert (40 <= above <= 60) if is_random else above < 1


def test_tables_are_written_beside_what_is_written_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, out = tmp_path / "runs.jsonl", tmp_path / "mail_tables.md"
    runs.write_text("")
    said = ["mail.py", "--corpus", str(tmp_path), "--runs", str(runs), "--minutes", "0", "--out", str(out)]
    monkeypatch.setattr("sys.argv", said)
    mail_benchmark.main()
    assert out.read_text() == mail_benchmark.HEAD + capsys.readouterr().out
    results = Path(mail_benchmark.__file__).parent / "results"
    assert (results / "mail_tables.md").read_text().startswith(mail_benchmark.HEAD)
    assert "(mail_tables.md)" in (results / "mail.md").read_text()


def as_run(kind: str, draw: int, part: str, **figures: Any) -> str:
    return json.dumps({"split": kind, "labels": 50, "draw": draw, "part": part, **figures}) + "\n"


def test_what_chooses_the_cautious_threshold_does_not_confirm_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    path = tmp_path / "runs.jsonl"
    with path.open("w") as file:
        for kind, draw in itertools.product(("random", "time"), range(3)):
            labelled = np.concatenate([rng.normal(-1, 0.5, 60), rng.normal(1, 0.5, 60)])
            curve = OperatingCurve.from_scores(labelled, np.arange(120) >= 60)
            scores = {"good": rng.normal(-1, 0.5, 2000).tolist(), "spam": rng.normal(1, 0.5, 500).tolist()}
            file.write(as_run(kind, draw, "claims", claims={}, curve=curve.to_dict(), scores=scores))
            theirs = {"bogofilter": {"recall": 0.1, "lost": 0.002}}
            file.write(as_run(kind, draw, "bogofilter", methods=theirs))
    draws = mail_cautious.unproven(path, 2)
    assert sorted(draw.group for draw in draws) == [
        *["choosing: random"] * 2,
        "confirming: random",
        *["confirming: time"] * 3,
    ]
    pair = mail_cautious.chosen(draws[:2])
    assert pair is not None
    assert np.mean([draw.ours(pair)[1] for draw in draws[:2]]) <= 0.001
    caught = [draw.ours(pair)[0] for draw in draws]
    assert min(caught) > max(draw.ours(mail_cautious.GRID[-1])[0] for draw in draws)  # no more careful than needed
    text = "\n".join(mail_cautious.report(draws))
    assert f"have it: {pair.mean:g} and {pair.highest:g}" in text
    assert "| confirming: time | 3 |" in text

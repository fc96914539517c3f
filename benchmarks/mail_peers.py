"""Other spam filters, trained on the labels that ours gets: what `benchmarks/mail.py` measures beside it.

bogofilter and SpamAssassin are Debian's (``apt-get install bogofilter spamassassin``); where one is not installed it is
left out. SpamAssassin's Bayes says nothing below 200 mails of each class, as it is shipped; here it may. Stalwart's
classifier is written anew from its documentation: logistic regression by FTRL-Proximal on words and pairs of words
hashed to 2^20 places, log(1 + count), one pass in random order after another.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import zlib
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

FEATURES: Final = 1 << 20
# McMahan et al., "Ad click prediction: a view from the trenches", KDD 2013
ALPHA, BETA, L1, L2, PASSES = 2.0, 1.0, 0.001, 0.0001, 5
_WORD = re.compile(r"\w{2,30}")

# Nothing but the Bayes classifier; a mail of too few known words has the score .5.
SPAMASSASSIN: Final = r"""
use strict; use warnings;
use Mail::SpamAssassin;
my ($home, $learn, $judge) = @ARGV;
my $config = "use_bayes 1\nuse_bayes_rules 1\nbayes_auto_learn 0\nbayes_min_ham_num 1\nbayes_min_spam_num 1\n"
  . "bayes_path $home/bayes\nbayes_learn_to_journal 0\nscore BAYES_50 0.1\n"
  . "loadplugin Mail::SpamAssassin::Plugin::Bayes\n";
my $sa = Mail::SpamAssassin->new({ dont_copy_prefs => 1, local_tests_only => 1, userprefs_filename => "/dev/null",
  config_text => $config, userstate_dir => $home, site_rules_filename => "/dev/null", rules_filename => "/dev/null" });
$sa->init(1);
$sa->init_learner({ caller_will_untie => 1, wait_for_lock => 1 });
sub mail {
  open(my $file, "<", $_[0]) or die $_[0];
  binmode $file; local $/; my $text = <$file>;
  return $sa->parse($text, 1);
}
open(my $list, "<", $learn) or die;
while (<$list>) {
  chomp; my ($spam, $path) = split / /, $_, 2;
  my $m = mail($path);
  $sa->{bayes_scanner}->learn($spam, $m, undef); $m->finish;
}
close $list;
$sa->rebuild_learner_caches;
my ($bayes) = grep { ref($_) eq "Mail::SpamAssassin::Plugin::Bayes" } @{ $sa->{plugins}->{plugins} };
open($list, "<", $judge) or die;
while (<$list>) {
  chomp; my $m = mail($_);
  my $status = Mail::SpamAssassin::PerMsgStatus->new($sa, $m);
  my $score = $bayes->scan($status, $m);
  print defined $score ? $score : 0.5, "\n";
  $status->finish; $m->finish;
}
"""


def bogofilter(learn: Sequence[tuple[bool, Path]], judge: Sequence[Path]) -> NDArray[np.float64] | None:
    """Scores from 0 to 1, by its defaults; None where it is not installed."""
    if shutil.which("bogofilter") is None:
        return None
    with tempfile.TemporaryDirectory(prefix="prefsvm-bogofilter-") as home:
        for is_spam in (True, False):
            paths = "\n".join(str(path) for spam, path in learn if spam == is_spam)
            command = ["bogofilter", "-C", "-d", home, "-s" if is_spam else "-n", "-b"]
            subprocess.run(command, input=paths, text=True, check=True, stdout=subprocess.DEVNULL)
        command = ["bogofilter", "-C", "-d", home, "-T", "-T", "-b"]
        paths = "\n".join(map(str, judge))
        made = subprocess.run(command, input=paths, text=True, capture_output=True, check=False)  # 0 to 2 is a verdict
    scores = [float(line.split()[-1]) for line in made.stdout.splitlines() if line.strip()]
    if len(scores) != len(judge):
        raise ValueError(f"bogofilter answered {len(scores)} of {len(judge)} mails: {made.stderr[:300]}")
    return np.array(scores)


def spamassassin(learn: Sequence[tuple[bool, Path]], judge: Sequence[Path]) -> NDArray[np.float64] | None:
    """Probabilities of its Bayes classifier; None where it is not installed."""
    if shutil.which("spamassassin") is None:
        return None
    with tempfile.TemporaryDirectory(prefix="prefsvm-spamassassin-") as home:
        folder = Path(home)
        (folder / "learn").write_text("".join(f"{int(spam)} {path}\n" for spam, path in learn))
        (folder / "judge").write_text("".join(f"{path}\n" for path in judge))
        command = ["perl", "-e", SPAMASSASSIN, home, str(folder / "learn"), str(folder / "judge")]
        made = subprocess.run(command, text=True, capture_output=True, check=True)
    scores = np.array([float(line) for line in made.stdout.split()])
    if len(scores) != len(judge):
        raise ValueError(f"SpamAssassin answered {len(scores)} of {len(judge)} mails: {made.stderr[:300]}")
    return scores


def text_of(fields: dict[str, str]) -> str:
    """What scikit-learn and FTRL see of a mail."""
    return "\n".join(fields[name] for name in ("from", "subject", "body"))


def hashed(texts: Sequence[str]) -> sparse.csr_array:
    """Words and pairs of them, log(1 + count), rows of length 1."""
    indices: list[int] = []
    values: list[float] = []
    ends = [0]
    for text in texts:
        words = _WORD.findall(text.lower())
        terms = Counter(words) + Counter(map(" ".join, pairwise(words)))
        places: Counter[int] = Counter()
        for term, count in terms.items():
            places[zlib.crc32(term.encode()) % FEATURES] += count
        weights = np.log1p(list(places.values()))
        indices += places.keys()
        values += (weights / max(np.linalg.norm(weights), 1e-12)).tolist()
        ends.append(len(indices))
    parts: Any = (np.array(values), np.array(indices, dtype=np.int32), np.array(ends, dtype=np.int32))
    return sparse.csr_array(parts, shape=(len(texts), FEATURES))


def ftrl(learn: sparse.csr_array, is_spam: NDArray[np.bool_], judge: sparse.csr_array, seed: int) -> NDArray[Any]:
    """Log odds by FTRL-Proximal."""
    z, n = np.zeros(FEATURES), np.zeros(FEATURES)
    bias = bias_n = 0.0
    rng = np.random.default_rng(seed)
    for _ in range(PASSES):
        for row in rng.permutation(len(is_spam)):
            part = slice(learn.indptr[row], learn.indptr[row + 1])
            at, x = learn.indices[part], learn.data[part]
            w = _weights(z[at], n[at])
            error = 1 / (1 + np.exp(-np.clip(w @ x + bias, -35, 35))) - is_spam[row]
            gradient = error * x
            z[at] += gradient - (np.sqrt(n[at] + gradient**2) - np.sqrt(n[at])) / ALPHA * w
            n[at] += gradient**2
            bias_n += error**2
            bias -= ALPHA / (BETA + np.sqrt(bias_n)) * error
    scores: NDArray[Any] = judge @ _weights(z, n) + bias
    return scores


def _weights(z: NDArray[Any], n: NDArray[Any]) -> NDArray[Any]:
    shrunk = np.sign(z) * np.maximum(np.abs(z) - L1, 0.0)
    return -shrunk / ((BETA + np.sqrt(n)) / ALPHA + L2)


def linear_svc(learn: Sequence[str], is_spam: NDArray[np.bool_], pool: Sequence[str], judge: Sequence[str]) -> Any:
    """Decision values of scikit-learn's TF-IDF, fitted to labelled and unlabelled texts, with LinearSVC."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.svm import LinearSVC

    vectors = TfidfVectorizer(sublinear_tf=True, min_df=2).fit([*learn, *pool])
    return LinearSVC().fit(vectors.transform(learn), is_spam).decision_function(vectors.transform(judge))

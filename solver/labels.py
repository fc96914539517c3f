"""What labels mean: which spellings are one label, which ones mean 'not known', and which are kept for an experiment.

A label that nobody has spoken of is never a negative one in silence, if it is a word for a missing value: whoever
writes `NA` for "not looked at yet" would get a model of what was looked at.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from solver.choices import FEWEST_OF_A_CLASS
from solver.reading import BLANKS, UNITS

if TYPE_CHECKING:  # readers of uploads load this module, and that one loads SciPy
    from solver.typing import BoolArray

# words for a missing value, in lower case, as pandas, R, SQL, Weka and people write them
MISSING_WORDS: Final = frozenset(
    ("na", "n/a", "#n/a", "n.a.", "<na>", "nan", "nat", "null", "none", "-", "--", "?", "unknown", "\\n")
)
# where the labels are these, -1 often means unlabelled, as in scikit-learn
SCIKIT_LEARN_LABELS: Final = frozenset(("-1", "0", "1"))
MOST_NAMED: Final = 10
# a number with separators of thousands or a unit, as `folded` finds it
_UNIT: Final = "|".join(re.escape(unit.casefold()) for unit in UNITS)
_GROUPED: Final = r"[1-9][0-9]{0,2}(?P<separator>[,' \u2019])[0-9]{3}(?:(?P=separator)[0-9]{3})*"
_NUMBER: Final = re.compile(
    rf"(?P<sign>[+-]?)(?:(?P<before>{_UNIT}) ?)?(?P<digits>{_GROUPED}|[0-9]+)(?P<decimals>\.[0-9]+)?"
    rf"(?(before)|(?: ?(?P<behind>{_UNIT}))?)"
).fullmatch
_GROUPING: Final = dict.fromkeys(map(ord, ",' \u2019"))


def is_missing_word(text: str) -> bool:
    """Whether a text is a word for a missing value, in whatever capitals and with blanks around it."""
    return text.strip(BLANKS).lower() in MISSING_WORDS


def folded(label: str) -> str:
    """Return what labels have in common that differ in capitals or blanks, or in how they write a number, only.

    A number is the same with separators of thousands (a comma, apostrophe or blank before three digits each) and
    without, and with its unit before it or behind it, close to it or not: `1,000` is `1000`, and `10 %` is `10%`.
    """
    text = " ".join(unicodedata.normalize("NFC", label).casefold().split())
    number = _NUMBER(text) if any("0" <= character <= "9" for character in text) else None
    if number is None:
        return text
    digits = number["digits"].translate(_GROUPING)
    return f"{number['sign']}{digits}{number['decimals'] or ''}{number['before'] or number['behind'] or ''}"


def spellings(labels: Sequence[str]) -> list[list[str]]:
    """Return the groups of two and more labels that are one when folded, each sorted."""
    groups: dict[str, list[str]] = {}
    for label in sorted(labels):
        groups.setdefault(folded(label), []).append(label)
    return [group for group in groups.values() if len(group) > 1]


def spelling_warning(labels: Sequence[str]) -> str | None:
    """Say which labels are the same but for capitals, blanks or how a number is written, if any are."""
    groups = spellings(labels)
    if not groups:
        return None
    named = "; ".join(", ".join(map(repr, group)) for group in groups[:3])
    are_numbers = any(len({" ".join(label.casefold().split()) for label in group}) > 1 for group in groups)
    differ = "capitals, blanks or how a number is written" if are_numbers else "capitals or blanks"
    return (
        f"labels that differ in {differ} only are different labels: {named}"
        + ("; …" if len(groups) > 3 else "")
        + '; "labels": {"fold": true} makes one of each group'
    )


def folding(counts: Mapping[str, int], wanted: Sequence[str]) -> dict[str, str]:
    """Return one label for all that are one when folded, by what they have in common (`folded`).

    Parameters
    ----------
    counts : mapping of str to int
        Rows of each label.
    wanted : sequence of str
        How the caller writes some of them. The others get their most frequent spelling, of several equally frequent
        ones the first in the order of characters, without blanks around it.
    """
    chosen: dict[str, str] = {}
    for label in sorted(counts, key=lambda label: (-counts[label], label)):
        chosen.setdefault(folded(label), label.strip())
    return chosen | {folded(label): label for label in wanted}


def unclear_labels(
    counts: Mapping[str, int], positive: str | None, unlabeled: Sequence[str], negative: Sequence[str]
) -> str | None:
    """Say which labels may mean 'not known' although the request does not say so, or which it does not speak of.

    Parameters
    ----------
    counts : mapping of str to int
        Rows of each label that is neither missing nor blank.
    positive, unlabeled, negative
        As the request names them; where `negative` is given it has to name all labels of the negative class.

    Returns
    -------
    str or None
        What is wrong, with the counts and the ways out; None if each label is clear.
    """
    open_ = {label: n for label, n in counts.items() if label != positive and label not in unlabeled}
    if negative:
        left = {label: n for label, n in open_.items() if label not in negative}
        if not left or (positive is None and left.keys() <= {"1", "+1"}):
            return None
        return (
            f"{_counted(left)} are neither positive nor listed in `negative` or `unlabeled`; where `negative` is "
            "given, it lists every label of the negative class"
        )
    unclear = {label: n for label, n in open_.items() if is_missing_word(label.strip())}
    why = "often means 'not known'"
    if not unclear and {*counts} - {*unlabeled} == SCIKIT_LEARN_LABELS and "-1" in open_:
        unclear, why = {"-1": open_["-1"]}, "is scikit-learn's sign for 'not labelled'"
    if not unclear:
        return None
    names, classes = sorted(unclear)[:MOST_NAMED], sorted(open_)[:MOST_NAMED]
    return (
        f'{_counted(unclear)}, which {why}: if so, say "unlabeled": {json.dumps(names, ensure_ascii=False)}; if it is '
        f'a class, "negative": {json.dumps(classes, ensure_ascii=False)}'
    )


def lone_negative(positive: str, negative: Sequence[str]) -> str:
    """Return the name of the negative class where no row has its label: the one that the request lists, if any."""
    if len(negative) == 1:
        return negative[0]
    return {"1": "0", "+1": "-1"}.get(positive) or all_but(positive)


def all_but(positive: str) -> str:
    """Return the name of the negative class where it has several labels, or none that anybody knows."""
    return f"not {positive}"


def keep_labels(positive: BoolArray, labelled: BoolArray, keep: int, seed: int) -> BoolArray:
    """Return which rows keep their label where only so many shall be known, for experiments.

    Of each class a share as large as that among all labelled rows, rounded to the nearest number, but at least two. The
    rows are drawn with `numpy.random.default_rng(seed)`: the first ones of a permutation of the negative rows in the
    order of the file, then of one of the positive rows.

    Parameters
    ----------
    positive, labelled : bool array of shape (rows,)
        `positive` only where `labelled`.
    keep : int
        Labels to keep, at least 4 and at most as many as there are.
    seed : int

    Raises
    ------
    ValueError
        If there are not so many labels, or of a class fewer than two.
    """
    rows = {False: np.flatnonzero(labelled & ~positive), True: np.flatnonzero(positive)}
    total = len(rows[False]) + len(rows[True])
    if keep > total:
        raise ValueError(f"{keep} labels are to be kept, and there are {total}")
    if min(map(len, rows.values())) < FEWEST_OF_A_CLASS:
        raise ValueError(f"of each class at least {FEWEST_OF_A_CLASS} labels are needed")
    n_positive = int(np.floor(keep * len(rows[True]) / total + 0.5))
    n_positive = min(
        max(n_positive, FEWEST_OF_A_CLASS, keep - len(rows[False])), keep - FEWEST_OF_A_CLASS, len(rows[True])
    )
    rng = np.random.default_rng(seed)
    kept = np.zeros(len(labelled), dtype=bool)
    for is_positive, n in ((False, keep - n_positive), (True, n_positive)):
        kept[rng.permutation(rows[is_positive])[:n]] = True
    return kept


def counted(labels: NDArray[Any]) -> dict[str, int]:
    """Return how many rows have each label; missing and blank ones do not count."""
    return {label: n for label, n in Counter(labels.tolist()).items() if label is not None and label.strip()}


def _counted(counts: Mapping[str, int]) -> str:
    most = sorted(counts, key=lambda label: (-counts[label], label))
    named = ", ".join(f"{counts[label]} row(s) of {label!r}" for label in most[:MOST_NAMED])
    return named if len(most) <= MOST_NAMED else f"{named} and {len(most) - MOST_NAMED} more labels"

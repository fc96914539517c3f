"""What a column of texts is, where nobody says so: free text or categories; and what is said of one that is left out.

Uploads, which tell people, and trainings without an upload ask here, so that both say the same.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from solver.single_bytes import single_bytes

# a column of text with more different values than this is no category unless the caller says so
MAX_LEVELS: Final = 1000
# more different values than this are many, from 40 rows on; so are more than a fifth of the rows, from 100 rows on
MANY_VALUES: Final = 20
# words that texts have on average which are free text
PROSE_WORDS: Final = 3
# texts that are looked at for words, and characters of each
SAMPLED_TEXTS: Final = 1000
SAMPLED_CHARACTERS: Final = 1000

# Chinese, Japanese and Korean characters are a word each: nothing separates the words of those languages.
IDEOGRAPHS: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_LETTERS: Final = re.compile(rf"[{IDEOGRAPHS}]|[^\W\d_{IDEOGRAPHS}]{{2,}}")
# Those of Unicode's property Default_Ignorable_Code_Point: nothing is seen of them, wherever they stand.
_INVISIBLE: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_HIDDEN: Final = re.compile(f"[{_INVISIBLE}]+")
_HIDDEN_IN_A_WORD: Final = re.compile(rf"(?<=[^\W{_INVISIBLE}])[{_INVISIBLE}]+(?=[^\W{_INVISIBLE}])")
# Normalising sorts the accents of a letter in quadratic time, so it is done so many characters at a time.
_AT_ONCE: Final = 1000
_BEYOND_ASCII: Final = re.compile(rf"[^\x00-\x7f]{{1,{_AT_ONCE}}}")
_ASCII: Final = bytes(range(128))

# what the first text of a column of dates looks like; `solver.features.dates` tells whether all are some
LIKE_A_DATE: Final = re.compile(
    r"[0-9]{1,4}[-./][0-9]{1,2}[-./][0-9]{1,4}"
    r"|[0-9]{1,2}[ -][A-Za-z]{3,9}[ -][0-9]{4}|[A-Za-z]{3,9} [0-9]{1,2},? [0-9]{4}"
)


def is_free_text(values: Sequence[str], distinct: int, rows: int) -> bool:
    """Whether a column holds free text: many different values, made of words.

    Many are more than half of the rows; of 40 rows and more, 20 and a fifth of them; in any case 1,000.

    Parameters
    ----------
    values : sequence of str
        Different values, all or a sample.
    distinct : int
        How many different ones there are, or any number beyond 1,000.
    rows : int
        How many rows, with those without a value.
    """
    many = max(1, min(MAX_LEVELS, rows / 2, max(MANY_VALUES, rows / 5)))
    return distinct > many and looks_like_prose(values)


def looks_like_an_identifier(distinct: int, rows: int) -> bool:
    """Whether texts that are no words differ in too many rows to be categories; parameters as `is_free_text`."""
    return distinct > min(MAX_LEVELS, max(10, rows / 2))


def looks_like_prose(values: Sequence[str]) -> bool:
    """Whether texts are made of words, three or more on average, rather than names or codes."""
    counts = _words(values)
    return bool(counts) and sum(counts) >= PROSE_WORDS * len(counts)


def consists_of_words(values: Sequence[str]) -> bool:
    """Whether most texts have two words or more: they may be free text, if short, where names and codes have one."""
    counts = _words(values)
    return 2 * sum(count >= 2 for count in counts) > len(counts)


def normalized(text: str) -> tuple[str, int]:
    """A text as it looks, and how often invisible characters part letters or digits in it.

    Invisible characters go; other spellings of a letter, such as full-width ones, become the letter (NFKC).
    """
    if text.isascii():
        return text, 0
    hidden = 0
    beyond = beyond_ascii(text)
    if _HIDDEN.search(beyond):
        hidden = len(_HIDDEN_IN_A_WORD.findall(text))
        text = _HIDDEN.sub("", text)
    if single_bytes(text) is not None:  # there no character joins the one before it
        for character in set(beyond):
            text = text.replace(character, unicodedata.normalize("NFKC", character))
        return text, hidden
    if len(beyond) < _AT_ONCE or max(map(len, _BEYOND_ASCII.findall(text)), default=0) < _AT_ONCE:
        return unicodedata.normalize("NFKC", text), hidden  # the same, as ASCII begins anew
    pieces, end = [], 0
    for run in _BEYOND_ASCII.finditer(text):
        begin = max(end, run.start() - 1)  # with the letter before it, which may bear its accents
        pieces += [text[end:begin], unicodedata.normalize("NFKC", text[begin : run.end()])]
        end = run.end()
    return "".join([*pieces, text[end:]]), hidden


def beyond_ascii(text: str) -> str:
    """The characters of a text that are not ASCII: few as a rule, where to look for such is to look at all."""
    if text.isascii():
        return ""
    # A third of the time that a regular expression takes. Half of a pair of surrogates stays what it is.
    return text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")


def _words(values: Sequence[str]) -> list[int]:
    """Count the words of each text of a sample."""
    sample = values[:: max(1, len(values) // SAMPLED_TEXTS)]
    return [len(_LETTERS.findall(normalized(text[:SAMPLED_CHARACTERS])[0])) for text in sample]


def identifier_warning(name: str, reason: str) -> str:
    """What to say of a column that is left out because it numbers or names the rows."""
    return f"column {name!r} {reason}: a training leaves it out, unless `include` or `kinds` of `features` names it"

"""Names of charsets as mails spell them → Python's codecs, and texts decoded by them."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from service.ingest.options import ENCODINGS

MAX_NAME: Final = 64
"""Characters of a name; a longer one is nobody's."""
MOST_NAMED: Final = 10
"""Unknown ones that a warning names."""

_CODECS: Final = ENCODINGS | frozenset(
    (
        *("utf-7", "utf-8-sig", "utf-32", "utf-32-le", "utf-32-be", "hz", "koi8-t", "kz1048", "ptcp154", "hp-roman8"),
        *("mac-cyrillic", "mac-greek", "mac-iceland", "mac-latin2", "mac-turkish", "tis-620", "iso8859-11"),
        *("iso2022_jp_1", "iso2022_jp_2", "iso2022_jp_2004", "iso2022_jp_3", "iso2022_jp_ext", "iso2022_kr"),
        *("big5hkscs", "johab", "euc_jis_2004", "euc_jisx0213", "shift_jis_2004", "shift_jisx0213"),
        *(f"cp{page}" for page in ("037", 500, 720, 737, 775, 855, 856, 857, 858, 860, 861, 862, 863, 864, 865, 869)),
        *(f"cp{page}" for page in (874, 875, 950, 1006, 1026, 1125, 1140)),
    )
)
"""What a mail may be written in. A list, because Python also counts compression among its codecs."""
_ALIASES: Final = {
    "gb231280": "gb2312",
    "csgb231280": "gb2312",
    "chinesegb": "gb2312",
    "chinesebig5": "big5",
    "big5eten": "big5",
    "koi8ru": "koi8-u",
    "koi8": "koi8-r",
    "sjis": "cp932",
    "mskanji": "cp932",
    "windows31j": "cp932",
    "cswindows31j": "cp932",
    "ksc5601": "cp949",
    "ksc56011987": "cp949",
    "uhc": "cp949",
    "unicode11utf7": "utf-7",
    "csunicode11utf7": "utf-7",
    "utf8mb4": "utf-8",
    "unicode11utf8": "utf-8",
    "macintosh": "mac-roman",
    "mac": "mac-roman",
    "macce": "mac-latin2",
    "ansi": "cp1252",
    "iso": "iso8859-1",
    "visual": "iso8859-8",
    "logical": "iso8859-8",
    "thai": "cp874",
}
"""By their letters and digits, without what `_candidates` takes off."""
_SUPERSETS: Final = {
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
"""What browsers and mail programs read these as, as those who write them do."""
_UNSAID: Final = frozenset({"", "ascii", "usascii", "unknown", "xunknown", "unknown8bit", "8bit", "7bit", "binary"})
"""Names that say nothing about bytes beyond ASCII: no fault of the name."""
_CODE_PAGE: Final = re.compile(r"(?:windows|win|ibm|dos|oem|ms|ansi|codepage|cp|mscp)0*(\d{2,4})")
_ISO: Final = re.compile(r"(?:iso)?8859(1[0-6]|[1-9])(?:[ie]|1987|1988|1989|1998|1999)?")


def decoded(data: bytes, charset: str) -> tuple[str, bool]:
    """Return the text of some bytes, and whether the name of their charset is one that is known, or none.

    Bytes of an unknown charset are read by looks: as UTF-8 where they are that, else as Windows-1252. So are those that
    claim to be of a charset of single bytes and are whole UTF-8, which nothing else is by chance.

    Parameters
    ----------
    data : bytes
    charset : str
        As the mail names it; empty where it names none.
    """
    codec = find_codec(charset)
    if codec is not None and not (_is_single_byte(codec) and _is_utf8(data)):
        return data.decode(codec, "replace"), True
    known = codec is not None or _letters(charset) in _UNSAID
    try:
        return data.decode("utf-8"), known
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace"), known


def said_of_charsets(counts: Mapping[str, int]) -> list[str]:
    """Return a warning that names the most frequent charsets that are not known here, none where there are none."""
    said = [f"{name[:40]!r} ({count})" for name, count in Counter(counts).most_common(MOST_NAMED)]
    if not said:
        return []
    more = f" and {len(counts) - len(said)} more" if len(counts) > len(said) else ""
    return [
        "charsets that are not known here, with the number of mails that name them: "
        + ", ".join(said)
        + f"{more}; their texts were read as UTF-8 or else as Windows-1252"
    ]


@lru_cache(1024)
def find_codec(charset: str) -> str | None:
    """Return the name of Python's codec for a charset; None where there is none, or the name says nothing."""
    if len(charset) > MAX_NAME or _letters(charset) in _UNSAID:
        return None
    for name in _candidates(charset.strip().lower()):
        try:
            found = codecs.lookup(name).name
        except (LookupError, ValueError):
            continue
        if found in _CODECS and found != "ascii":
            return _SUPERSETS.get(found, found)
    return None


def _candidates(name: str) -> list[str]:
    """Return spellings to try, in order: as it stands, then without what mail programs put around a name."""
    letters = _letters(name)
    found = [name]
    for short in dict.fromkeys((letters, letters.removeprefix("x"), letters.removeprefix("x").removesuffix("charset"))):
        if short in _ALIASES:
            found.append(_ALIASES[short])
        if page := _CODE_PAGE.fullmatch(short):
            found.append(f"cp{page[1]}")
        if part := _ISO.fullmatch(short):
            found.append(f"iso8859-{part[1]}")
        if short in _BY_LETTERS:
            found.append(_BY_LETTERS[short])
    return found


def _letters(name: str) -> str:
    return "".join(c for c in name.lower() if c.isascii() and c.isalnum())


_BY_LETTERS: Final = {_letters(name): name for name in sorted(_CODECS)}


@lru_cache(256)
def _is_single_byte(codec: str) -> bool:
    """Whether each byte is a character, and those of ASCII are themselves."""
    text = bytes(range(256)).decode(codec, "replace")
    return len(text) == 256 and text[:128].isascii()


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True

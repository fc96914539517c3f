r"""Backslashes that escape, as MySQL and PostgreSQL write them.

It loads nothing but the standard library: the command line reads by it too. While a text is cut into values, a
placeholder stands for an escaped delimiter, quote or line break, so that no reader sees one there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

ESCAPE = "\\"
MISSING = "\\N"
"""A value that is just this is missing. It is the only backslash that stays while values are told apart."""
_MEANINGS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "Z": "\x1a"}
_FIRST_PLACEHOLDER = 0xFDD0
"""From here on Unicode has 32 non-characters, which no text may have."""
HIDDEN_BREAKS = ("\ufdde", "\ufddf")
"""Placeholders for a line feed and a carriage return that end a line of the file; one that is spelt ends none. So lines
can be counted by them."""


class Escapes:
    """Hides escaped characters of a text, and gives them back.

    Parameters
    ----------
    delimiter : str
    quote : str or None

    Attributes
    ----------
    placeholders : dict of str to str
        What each placeholder stands for.
    missing : int
        How often `MISSING` was seen.
    """

    def __init__(self, delimiter: str, quote: str | None) -> None:
        hidden = dict.fromkeys(("\n", "\r", "\\", delimiter, quote or delimiter))
        self.placeholders = {chr(_FIRST_PLACEHOLDER + place): character for place, character in enumerate(hidden)}
        self.missing = 0
        self.placeholders |= dict(zip(HIDDEN_BREAKS, "\n\r", strict=True))
        self._table = {ESCAPE + "N": MISSING} | {
            ESCAPE + short: meaning for short, meaning in _MEANINGS.items() if meaning not in hidden
        }
        for placeholder, character in self.placeholders.items():
            spelt = [short for short, meaning in _MEANINGS.items() if meaning == character]
            names = [character] if placeholder in HIDDEN_BREAKS else [character, *spelt]
            self._table |= {ESCAPE + name: placeholder for name in names}
        feed, _ = HIDDEN_BREAKS
        self._table[ESCAPE + "\r\n"] = self._table[ESCAPE + "r"] + feed  # one line ends there, not two
        self._bytes_table = {name.encode(): text.encode() for name, text in self._table.items()}
        self._taken = re.compile(f"[{''.join(self.placeholders)}]")
        self._taken_bytes = re.compile("|".join(self.placeholders).encode())

    def hidden(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield UTF-8 with placeholders for what is escaped.

        Raises
        ------
        ValueError
            If the text has characters of its own that stand for others here.
        """
        rest = b""
        for each in chunks:
            chunk = rest + each
            rest = b""
            # What is escaped may be in the next chunk, and so may the second half of a line break.
            begin = chunk[:-1] if chunk.endswith(b"\r") else chunk
            if (len(begin) - len(begin.rstrip(b"\\"))) % 2:
                chunk, rest = chunk[: len(begin) - 1], chunk[len(begin) - 1 :]
            if self._taken_bytes.search(chunk):
                raise ValueError("the text has non-characters of Unicode (U+FDD0 and the next ones)")
            if b"\\" in chunk:
                chunk = re.sub(rb"\\(\r\n|.)", self._of_bytes, chunk, flags=re.DOTALL)
            yield chunk
        if rest:
            yield re.sub(rb"\\(\r\n|.)", self._of_bytes, rest, flags=re.DOTALL)

    def hidden_lines(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield lines with placeholders for what is escaped; one whose break is escaped comes with the next one.

        Raises
        ------
        ValueError
            As `hidden`.
        """
        parts: list[str] = []
        for each in lines:
            if self._taken.search(each):
                raise ValueError("the text has non-characters of Unicode (U+FDD0 and the next ones)")
            line = re.sub(r"\\(\r\n|.)", self._of_text, each, flags=re.DOTALL)
            parts.append(line)
            if line.endswith(("\n", "\r")):
                yield "".join(parts)
                parts.clear()
        if parts:
            yield "".join(parts)

    def restored(self, value: str) -> str | None:
        """Return a value as it was meant; None for one that is missing."""
        if value == MISSING:
            return None
        value = value.replace(MISSING, "N")
        for placeholder, character in self.placeholders.items():
            value = value.replace(placeholder, character)
        return value

    def _of_bytes(self, match: re.Match[bytes]) -> bytes:
        found = match[0]
        self.missing += found == b"\\N"
        return self._bytes_table.get(found, found[1:])

    def _of_text(self, match: re.Match[str]) -> str:
        found = match[0]
        self.missing += found == MISSING
        return self._table.get(found, found[1:])

"""Texts as one byte a character, which most texts of western languages can be: a table of 256 then tells of each.

The bytes are those of Windows-1252. It has the quotation marks, dashes and signs of money that mails are full of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

CODEC: Final = "cp1252"
_CHARACTERS: Final = [bytes([byte]).decode(CODEC, "replace") for byte in range(256)]


def single_bytes(text: str) -> bytes | None:
    """Return a text as bytes of Windows-1252, one a character; None where it has others."""
    if text.isascii():
        return text.encode("ascii")
    try:
        return text.encode(CODEC)
    except UnicodeEncodeError:
        return None


def bytes_where(holds: Callable[[str], bool]) -> bytes:
    """Return the bytes of `single_bytes` whose characters are of a kind."""
    return bytes(byte for byte, character in enumerate(_CHARACTERS) if holds(character))


def is_of_a_word(character: str) -> bool:
    r"""Whether a regular expression takes a character for ``\w``."""
    return character.isalnum() or character == "_"

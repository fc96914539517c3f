"""The text of an API key: ``pfs_`` + public id + ``_`` + secret + checksum.

The prefix and the checksum let scanners for leaked secrets tell a key from other text; the checksum also lets a
mistyped key be refused without asking the database. The secret has 256 random bits, so its plain SHA-256 can be stored:
no list of guesses reaches it, and a slow hash would only be a lever for those who want to keep the service busy.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
import zlib
from dataclasses import dataclass, field

PREFIX = "pfs_"
ID_LENGTH = 8
SECRET_LENGTH = 43
"""Characters of 62 that hold 256 bits."""
CHECKSUM_LENGTH = 6
MAX_KEY_LENGTH = len(PREFIX) + ID_LENGTH + 1 + SECRET_LENGTH + CHECKSUM_LENGTH

_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_FORM = re.compile(rf"({PREFIX}[0-9A-Za-z]{{{ID_LENGTH}}})_([0-9A-Za-z]{{{SECRET_LENGTH}}})([0-9A-Za-z]{{6}})")
_ID_FORM = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{ID_LENGTH}}}")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as its owner holds it. Neither `repr` nor an error message shows the secret.

    Parameters
    ----------
    id : str
        The public part, ``pfs_`` and 8 characters. It may be logged.
    secret : str
    """

    id: str
    secret: str = field(repr=False)

    @classmethod
    def new(cls) -> ApiKey:
        """Make a key that nobody has."""
        return cls(PREFIX + _random_text(ID_LENGTH), _random_text(SECRET_LENGTH))

    @classmethod
    def parse(cls, text: str) -> ApiKey | None:
        """Read what `text` gives; None if it is not a key, for example because a character is wrong."""
        match = _FORM.fullmatch(text)
        if match is None or _checksum(f"{match[1]}_{match[2]}") != match[3]:
            return None
        return cls(match[1], match[2])

    @property
    def text(self) -> str:
        """The whole key."""
        body = f"{self.id}_{self.secret}"
        return body + _checksum(body)

    @property
    def sha256(self) -> bytes:
        """What is stored of the secret."""
        return hashlib.sha256(self.secret.encode()).digest()


def is_key_id(text: str) -> bool:
    """Tell whether a text has the form of the public part of a key."""
    return _ID_FORM.fullmatch(text) is not None


def _random_text(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _checksum(text: str) -> str:
    rest, digits = zlib.crc32(text.encode()), ""
    for _ in range(CHECKSUM_LENGTH):
        rest, digit = divmod(rest, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits

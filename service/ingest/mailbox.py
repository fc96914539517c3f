"""Reads mails: an mbox file, or a tar or zip archive with one folder a class."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from service.ingest.archive import is_tar, tar_members, zip_members
from service.ingest.errors import IngestError
from service.ingest.labels import composed, fault
from service.ingest.limits import Limits
from service.ingest.mail import FIELDS, read_mail
from service.ingest.options import Kind, TableOptions
from service.ingest.profile import Columnar
from service.ingest.stream import ChunkReader, unpacked
from service.ingest.table import check_size, forced_kinds, store_arrays, stored_as

LABEL = "label"
COLUMNS = [*FIELDS, LABEL]
KINDS: dict[str, Kind] = {
    "subject": "text", "from": "text", "to": "text", "date": "date", "body": "text", LABEL: "category"
}  # fmt: skip
MAX_MESSAGE_BYTES = 8 << 20
"""Of a message that are looked at; what follows are attachments as a rule."""
BATCH_ROWS = 2000
BATCH_BYTES = 16 << 20
MAILDIR = ("cur", "new")
"""Folders of a Maildir, which are not classes."""
_BEGINS_LIKE_A_MAIL = re.compile(rb"\s*(?:From [^\n]*\n)?>?[!-9;-~]+[ \t]*:")
_FROM_LINE = b"From "
_QUOTED_FROM_LINE = re.compile(rb"(?m)^>(>*From )")


@dataclass(frozen=True)
class _Message:
    raw: bytes
    label: str | None
    is_cut: bool


def read_mailbox(path: Path, options: TableOptions, limits: Limits, output: Path, warnings: list[str]) -> Columnar:
    """Write the ``table`` layout of mails: ``subject``, ``from``, ``to``, ``date``, ``body`` and ``label``.

    In an archive the label of a mail is the folder that it lies in; mails outside of any folder have none, nor have
    those of an mbox file. Files that are no mails are left out and counted. Of each message, bounded parts are kept,
    see `service.ingest.mail`.

    Raises
    ------
    IngestError
    """
    reader = _Reader(path, limits)
    forced = forced_kinds(options.columns, COLUMNS)
    kinds = {position: forced.get(position, KINDS[name]) for position, name in enumerate(COLUMNS)}
    storage = [stored_as(kinds[position]) for position in range(len(COLUMNS))]
    try:
        columnar = store_arrays(output, COLUMNS, storage, reader.batches, limits, warnings, kinds)
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
    return replace(columnar, dropped_rows=reader.skipped)


class _Reader:
    def __init__(self, path: Path, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        self.skipped = 0
        self.cut = 0

    def batches(self) -> Iterator[list[pa.Array]]:
        """Start to read from the beginning, and yield columns of texts."""
        self.skipped = self.cut = 0
        rows: list[list[str | None]] = []
        size = 0
        for message in self._messages():
            if not _BEGINS_LIKE_A_MAIL.match(message.raw):
                self.skipped += 1
                check_size(self.skipped, 1, self._limits)
                continue
            mail = read_mail(message.raw)
            self.cut += mail.is_cut or message.is_cut
            rows.append([*(mail.fields[name] or None for name in FIELDS), message.label])
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
            yield _Message(member.content, _label(member.folders), member.is_cut)

    def _mbox(self) -> Iterator[_Message]:
        """Yield the messages of an mbox file: each begins with a line ``From …`` after an empty line."""
        lines = io.BufferedReader(ChunkReader(unpacked(self._path, self._limits)), 1 << 20)
        first = lines.readline(1 << 16)
        if not first.startswith(_FROM_LINE):
            raise IngestError(
                "malformed" if first else "empty", "expected an mbox file, or a tar or zip archive of mails", line=1
            )
        kept: list[bytes] = []
        size = 0
        after_empty_line = at_start = True
        # Long lines come in pieces.
        while line := lines.readline(1 << 16):
            if at_start and after_empty_line and line.startswith(_FROM_LINE) and kept:
                yield _of_mbox(kept, size)
                kept, size = [], 0
            else:
                if size <= MAX_MESSAGE_BYTES:
                    kept.append(line)
                size += len(line)
            after_empty_line = at_start and line in (b"\n", b"\r\n")
            at_start = line.endswith(b"\n")
        yield _of_mbox(kept, size)


def _of_mbox(lines: list[bytes], size: int) -> _Message:
    raw = _QUOTED_FROM_LINE.sub(rb"\1", b"".join(lines)[:MAX_MESSAGE_BYTES])
    return _Message(raw, None, is_cut=size > MAX_MESSAGE_BYTES)


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

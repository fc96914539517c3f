"""Texts and mails → rows, for models that were trained on such."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from service.ingest.charsets import said_of_charsets
from service.ingest.mail import FIELDS, MAX_MESSAGE_BYTES, META, read_mail
from service.ingest.threads import THREAD
from service.predictions.errors import RowsDoNotFit

InputKind = Literal["texts", "messages"]


@dataclass
class Notes:
    """What is to be said of texts and mails that were read."""

    warnings: list[str] = field(default_factory=list)
    truncated: list[int] = field(default_factory=list)
    """Positions of the mails of which not all was looked at."""


def rows_of(
    columns: Sequence[Mapping[str, Any]],
    kind: InputKind,
    given: Sequence[str | bytes],
    notes: Notes | None = None,
    *,
    with_thread: bool = False,
) -> list[dict[str, Any]]:
    """Return the rows that a model needs.

    Parameters
    ----------
    columns : sequence of mappings
        ``Model.columns``.
    kind : {"texts", "messages"}
    given : sequence
        Texts, or mail messages as RFC 5322 has them.
    notes : Notes, optional
        Get what of the mails could not be read as it was meant, and what was left out.
    with_thread : bool, default False
        Whether rows of mails also tell what links them to others, see `service.ingest.threads`.

    Raises
    ------
    RowsDoNotFit
        If the model was not trained on one column of text, or on mails; or if a mail is too long.
    """
    if kind == "texts":
        return _of_texts(columns, given)
    return _of_messages(columns, given, notes or Notes(), with_thread)


def _of_texts(columns: Sequence[Mapping[str, Any]], texts: Sequence[str | bytes]) -> list[dict[str, Any]]:
    if len(columns) != 1 or columns[0]["kind"] != "text":
        raise RowsDoNotFit.of("body.texts", f"needs a model of one column of text; {_described(columns)}")
    name = columns[0]["name"]
    return [{name: text or None} for text in texts]


def _of_messages(
    columns: Sequence[Mapping[str, Any]], messages: Sequence[str | bytes], notes: Notes, with_thread: bool
) -> list[dict[str, Any]]:
    if not of_mails(columns):
        raise RowsDoNotFit.of("body.messages", f"needs a model of mails; {_described(columns)}")
    names = [column["name"] for column in columns]
    rows = []
    unknown: Counter[str] = Counter()
    for position, message in enumerate(messages):
        if len(message) > MAX_MESSAGE_BYTES:
            raise RowsDoNotFit.of(f"body.messages.{position}", f"may have at most {MAX_MESSAGE_BYTES} bytes")
        mail = read_mail(message)
        unknown.update(mail.unknown_charsets)
        if mail.is_cut:
            notes.truncated.append(position)
        # An empty field is a missing value, as in an upload of mails.
        rows.append({name: mail.fields[name] or None for name in names})
        if with_thread:
            rows[-1][THREAD] = mail.thread or None
    notes.warnings += said_of_charsets(unknown)
    return rows


def knows_meta(columns: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether columns are the parts of mails, with what is counted in them."""
    return of_mails(columns) and any(column["name"] == META for column in columns)


def completed(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return rows of a model that `knows_meta` with it, which who writes a mail as a row need not know."""
    return [row if META in row else {**row, META: None} for row in rows]


def of_mails(columns: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether columns are the parts of mails."""
    names = {column["name"] for column in columns}
    return bool(names) and names <= set(FIELDS)


def _described(columns: Sequence[Mapping[str, Any]]) -> str:
    """Say what a model takes, and so what is to be sent."""
    if not columns:
        return "this one takes the columns of a matrix: send rows"
    shown = ", ".join(f"{column['name'][:100]!r} ({column['kind']})" for column in columns[:10])
    sent = "mails" if of_mails(columns) else "rows"
    return f"this one takes {shown}" + (" and more" if len(columns) > 10 else "") + f": send {sent}"

"""Texts and mails → rows, for models that were trained on such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from service.ingest.mail import FIELDS, parse_mail
from service.predictions.errors import RowsDoNotFit

InputKind = Literal["texts", "messages"]


def rows_of(
    columns: Sequence[Mapping[str, str]], kind: InputKind, given: Sequence[str | bytes]
) -> list[dict[str, Any]]:
    """Return the rows that a model needs.

    Parameters
    ----------
    columns : sequence of mappings
        ``Model.columns``.
    kind : {"texts", "messages"}
    given : sequence
        Texts, or mail messages as RFC 5322 has them.

    Raises
    ------
    RowsDoNotFit
        If the model was not trained on one column of text, or on mails.
    """
    return _of_texts(columns, given) if kind == "texts" else _of_messages(columns, given)


def _of_texts(columns: Sequence[Mapping[str, str]], texts: Sequence[str | bytes]) -> list[dict[str, Any]]:
    if len(columns) != 1 or columns[0]["kind"] != "text":
        raise RowsDoNotFit.of("body.texts", f"needs a model of one column of text; {_described(columns)}: send rows")
    name = columns[0]["name"]
    return [{name: text or None} for text in texts]


def _of_messages(columns: Sequence[Mapping[str, str]], messages: Sequence[str | bytes]) -> list[dict[str, Any]]:
    names = [column["name"] for column in columns]
    if not names or not set(names) <= set(FIELDS):
        raise RowsDoNotFit.of("body.messages", f"needs a model of mails; {_described(columns)}: send rows")
    rows = []
    for message in messages:
        fields = parse_mail(message if isinstance(message, bytes) else message.encode())
        # An empty field is a missing value, as in an upload of mails.
        rows.append({name: fields[name] or None for name in names})
    return rows


def _described(columns: Sequence[Mapping[str, str]]) -> str:
    if not columns:
        return "this one takes the columns of a matrix"
    shown = ", ".join(f"{column['name'][:100]!r} ({column['kind']})" for column in columns[:10])
    return f"this one takes {shown}" + (" and more" if len(columns) > 10 else "")

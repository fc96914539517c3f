"""How feedback comes into the table, whoever sends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import orjson
from sqlalchemy.orm import Session

from service.access.repository import QuotaRepository
from service.db.tables import FeedbackRow
from service.errors import InvalidRequest
from service.feedback.errors import TooMuchFeedback
from service.feedback.repository import FeedbackRepository
from service.identifiers import new_id
from service.models.repository import AliasRepository
from solver.corrections import PERSON

NO_ALIAS = "no alias has this name"


def feedback_row(
    project_id: str,
    alias: str,
    model_id: str,
    rows: Sequence[Mapping[str, Any]],
    labels: Sequence[str],
    meant: Mapping[str, str],
    drawn: Literal["random", "chosen"] = "chosen",
    audited: Sequence[bool] | None = None,
    source: str = PERSON,
    weight: float = 1.0,
) -> FeedbackRow:
    """Return feedback that is not stored yet.

    Parameters
    ----------
    project_id, alias, model_id
    rows, labels
        As many of each.
    meant : mapping of str to str
        What the columns are to the model, see `solver.corrections.Corrections`.
    drawn : str
        Whether chance alone chose the rows.
    audited : sequence of bool, optional
        Of rows that an audit has drawn, whether each is one of those that chance chose at one rate.
    source : str
        Who gave the labels, or what concluded them.
    weight : float
        How much each row counts in a training.
    """
    said: dict[str, Any] = {"drawn": drawn} if drawn == "random" else {}
    if audited is not None:
        said = {"audited": list(audited)}
    if source != PERSON:
        said |= {"source": source, "weight": weight}
    content = orjson.dumps({"rows": rows, "labels": labels, "meant": meant, **said})
    return FeedbackRow(
        id=new_id("fb"),
        project_id=project_id,
        alias=alias,
        model_id=model_id,
        rows=len(rows),
        labels=dict(Counter(labels)),
        source=source,
        bytes=len(content),
        content=content,
    )


def keep_feedback(session: Session, row: FeedbackRow, most: int) -> FeedbackRow:
    """Store feedback, if its alias has room for it: `most` rows.

    Raises
    ------
    InvalidRequest
        If there is no such alias.
    TooMuchFeedback, StorageQuotaExceeded
        If there is no room.
    """
    feedback = FeedbackRepository(session, row.project_id)
    if AliasRepository(session, row.project_id).lock(row.alias) is None:
        raise InvalidRequest.of("body.alias", NO_ALIAS)
    if feedback.count_rows(row.alias) + row.rows > most:
        raise TooMuchFeedback(f"an alias may have {most} corrected rows; delete older feedback first")
    QuotaRepository(session, row.project_id).make_room_for_bytes(row.bytes)
    return feedback.add(row)

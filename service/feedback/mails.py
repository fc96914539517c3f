"""Mails as feedback: one at a time, as mail software tells of them, and each once whichever copy of it comes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Literal

from service.db.session import Database
from service.errors import InvalidRequest
from service.feedback.errors import FeedbackDoesNotFit, FeedbackInUse
from service.feedback.keeping import NO_ALIAS, feedback_row, keep_feedback
from service.feedback.repository import FeedbackRepository
from service.ingest.mail import FIELDS, mail_identity
from service.models.errors import SeveralClasses
from service.models.repository import AliasRepository, ModelRepository, ModelShape
from service.predictions.errors import RowsDoNotFit
from service.predictions.inputs import rows_of
from solver.corrections import PERSON

ALL_FIELDS = [{"name": name, "kind": "text"} for name in FIELDS]
MOST_LABELS = 4
"""Labels that one mail may have had while jobs use the ones before."""
MailLearned = Literal["learned", "forgotten", "known", "ignored"]
"""What became of a mail: ``known``, if that is what was said of it before; ``ignored``, if it has no text."""


def rows_of_mails(model: ModelShape, mails: Sequence[str | bytes]) -> list[dict[str, Any]]:
    """Return what is kept of mails: all fields, as the next model may use others than this one, and their thread.

    Raises `RowsDoNotFit`.
    """
    rows_of(model.columns, "messages", [])  # whether it is a model of mails
    return rows_of(ALL_FIELDS, "messages", mails, with_thread=True)


class MailFeedback:
    """Keeps what is said of mails, by alias.

    Parameters
    ----------
    database : Database
    max_rows : int
        Corrected rows that an alias may have.
    """

    def __init__(self, database: Database, max_rows: int) -> None:
        self._database = database
        self._max_rows = max_rows

    def learn(
        self,
        project_id: str,
        alias: str,
        message: bytes,
        wanted: bool | None,
        source: str = PERSON,
        weight: float = 1.0,
    ) -> MailLearned:
        """Keep a mail as feedback for an alias, once whichever copy of it comes: another label replaces the one before.

        Parameters
        ----------
        project_id, alias : str
        message : bytes
            As it came.
        wanted : bool or None
            Whether it is of the positive class; None: forget what was said of it.
        source : str
            Who says that. What nobody said, but was concluded, never replaces what somebody has said.
        weight : float
            How much that counts in a training.

        Raises
        ------
        InvalidRequest, FeedbackDoesNotFit
            If there is no such alias, or it is of no model of mails.
        FeedbackInUse
            If it is to be forgotten, and a job that waits or runs uses it.
        TooMuchFeedback, StorageQuotaExceeded
            If there is no room for it.
        """
        with self._database.transaction() as session:
            model = ModelRepository(session, project_id).shape_behind(alias)
        if model is None:
            raise InvalidRequest.of("body.alias", NO_ALIAS)
        if len(model.labels) > 2:
            raise SeveralClasses.lacking("spam and good mail to learn")
        try:
            rows = rows_of_mails(model, [message])
        except RowsDoNotFit as error:
            raise FeedbackDoesNotFit(error.detail, errors=error.errors) from None
        if wanted is not None and not (rows[0]["subject"] or (rows[0]["body"] or "").strip()):
            return "ignored"
        ids = _ids(project_id, alias, mail_identity(message))
        with self._database.transaction() as session:
            aliases, feedback = AliasRepository(session, project_id), FeedbackRepository(session, project_id)
            if aliases.lock(alias) is None:
                raise InvalidRequest.of("body.alias", NO_ALIAS)
            known = feedback.labels_of(ids)
            label = None if wanted is None else model.labels[wanted]
            if not known and label is None:
                return "known"
            if known:
                _, last, by = list(known.values())[-1]
                somebody_said_it = by == PERSON and (source != PERSON or last == label)
                if somebody_said_it or (last, by) == (label, source):
                    return "known"
            used = {each for each, (seq, *_) in known.items() if aliases.open_job_with_feedback(alias, seq) is not None}
            free = [each for each in ids if each not in used]
            if (label is None and used) or not free:
                raise FeedbackInUse("a job uses what was said of this mail before; wait for it to end, or cancel it")
            for each in known.keys() - used:
                feedback.delete(each)
            if label is None:
                return "forgotten"
            row = feedback_row(project_id, alias, model.id, rows, [label], {}, source=source, weight=weight)
            row.id = free[0]
            keep_feedback(session, row, self._max_rows)
            return "learned"


def _ids(project_id: str, alias: str, identity: str) -> list[str]:
    """Return the ids that feedback on one mail may have, see `service.ingest.mail.mail_identity`.

    One as a rule. A job that waits or runs must see what it was asked with: then what is said later gets the next one.
    """
    names = (f"{project_id}/{alias}/{identity}/{i}" for i in range(MOST_LABELS))
    return [f"fb_{hashlib.sha256(name.encode()).hexdigest()[:32]}" for name in names]

"""Who decides on a mail: this process, or processes beside it, and why nobody can say anything of one."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from service.access.errors import Forbidden, TooManyRequests, Unauthorized
from service.db.session import AWAY
from service.encoders.errors import EncoderAway, EncoderChanged
from service.leaving import ClientGone, Gone
from service.mailfilter.verdict import MailVerdict, Reason, verdict_of
from service.models.errors import DamagedModel, ModelNotFound, SeveralClasses
from service.predictions.deciding import Decisions, ReadyModel
from service.predictions.errors import RowsDoNotFit

_REASONS: tuple[tuple[tuple[type[Exception], ...], Reason], ...] = (
    ((ModelNotFound,), "no_model"),
    ((RowsDoNotFit,), "not_of_mails"),
    ((DamagedModel,), "damaged_model"),
    ((SeveralClasses,), "several_classes"),
    ((Unauthorized, Forbidden), "no_access"),
    ((TooManyRequests,), "too_many_requests"),
    ((EncoderAway, ClientGone), "encoder_away"),
    ((EncoderChanged,), "encoder_changed"),
    (AWAY, "database_away"),
)

log = logging.getLogger("prefsvm.mail")


class Undecided(Exception):  # noqa: N818 (nothing is wrong here)
    """Another process could say nothing of a mail, and has logged what was to be logged.

    Attributes
    ----------
    reason : str
    """

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class MailPredictions(Protocol):
    """The part of `service.predictions.service.PredictionService` that is used here."""

    async def predict_mail(self, project_id: str, name: str, raw: bytes, gone: Gone) -> tuple[Decisions, ReadyModel]:
        """Decide on one mail."""


class Deciding(Protocol):
    """Decides on mails."""

    async def verdict(self, project_id: str, alias: str, raw: bytes, seconds: float) -> MailVerdict:
        """Return what the model of an alias says of a mail.

        Parameters
        ----------
        project_id, alias : str
        raw : bytes
        seconds : float
            So long an encoder may be waited for.

        Raises
        ------
        Exception
            Of `reason_of`: whatever keeps it from saying anything.
        """


class HereDeciding:
    """Decides in this process.

    Parameters
    ----------
    predictions : MailPredictions
    """

    def __init__(self, predictions: MailPredictions) -> None:
        self._predictions = predictions

    async def verdict(self, project_id: str, alias: str, raw: bytes, seconds: float) -> MailVerdict:
        """Return what the model of an alias says of a mail, see `Deciding`."""
        until = asyncio.get_running_loop().time() + seconds  # the model may have to be loaded before anybody waits

        async def gone() -> None:
            await asyncio.sleep(until - asyncio.get_running_loop().time())

        made, ready = await self._predictions.predict_mail(project_id, alias, raw, gone)
        return verdict_of(made, ready, alias)


def reason_of(error: Exception) -> Reason:
    """Return why nothing is known of a mail. What is a defect goes into the log, so call it while it is handled."""
    if isinstance(error, Undecided):
        return error.reason
    reason = next((reason for kinds, reason in _REASONS if isinstance(error, kinds)), None)
    if reason is None:
        log.exception("a mail could not be decided on")
    return reason or "error"

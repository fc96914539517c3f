"""What each door does with a mail, counted and logged by door."""

from __future__ import annotations

import time

from anyio import to_thread

from service.db.session import AWAY
from service.errors import Problem
from service.feedback.mails import MailLearned
from service.ingest.mail import MAX_MESSAGE_BYTES, attached_mails
from service.mailfilter.figures import Figures
from service.mailfilter.filtering import LearningRefused, MailFilter
from service.mailfilter.inbound import IncomingMail
from service.mailfilter.verdict import MailVerdict, Reason
from solver.corrections import PERSON


class NotLearned(Exception):  # noqa: N818 (as a Problem)
    """What was said of a mail is not kept.

    Attributes
    ----------
    detail : str
    status : int
        In the words of HTTP.
    """

    def __init__(self, detail: str, status: int) -> None:
        super().__init__(detail)
        self.detail = detail
        self.status = status


class CountedFilter:
    """A `MailFilter` whose verdicts are counted.

    Parameters
    ----------
    mails : MailFilter
    figures : Figures
    """

    def __init__(self, mails: MailFilter, figures: Figures) -> None:
        self._mails = mails
        self._figures = figures

    async def check(
        self, door: str, mail: IncomingMail, user: str | None, raw: bytes | None, missing: Reason = "no_mail"
    ) -> tuple[MailVerdict, float]:
        """Return a verdict, and how many seconds it took; raises nothing.

        Parameters
        ----------
        door : str
            Through which it came.
        mail : IncomingMail
            What came.
        user : str or None
            Whose mail it is, where it is one user's.
        raw : bytes or None
            The mail in what came; None or nothing if there is none.
        missing : str, default="no_mail"
            Why there is none, where all that came was kept.
        """
        began = time.perf_counter()
        if not mail.is_whole:
            verdict = MailVerdict("unknown", reason="too_large" if mail.is_too_large else "busy")
        elif not raw or raw.isspace():
            verdict = MailVerdict("unknown", reason=missing)
        elif len(raw) > MAX_MESSAGE_BYTES:
            verdict = MailVerdict("unknown", reason="too_large")
        else:
            verdict = await self._mails.check(raw, user)
        seconds = time.perf_counter() - began
        self._figures.note(door, verdict, mail.size, seconds)
        return verdict, seconds

    async def learn(
        self,
        door: str,
        mail: IncomingMail,
        user: str | None,
        wanted: bool | None,
        by: str = PERSON,
        *,
        attached: bool = False,
    ) -> MailLearned:
        """Keep what somebody has said of a mail, or of the one that is attached to it; raises `NotLearned`."""
        if not mail.is_whole:
            raise NotLearned(f"a mail that is learned may have at most {MAX_MESSAGE_BYTES} bytes", 413)
        raw = mail.raw()
        if attached:
            inner = await to_thread.run_sync(attached_mails, raw)  # ten megabytes of parts take their time
            if len(inner) > 1:
                raise NotLearned(f"one mail is learned at a time, and {len(inner)} are attached; send each alone", 422)
            raw = inner[0] if inner else b""
        try:
            result = await self._mails.learn(raw, user, wanted, by)
        except Problem as error:
            if isinstance(error, LearningRefused):
                self._figures.note_learned(door, "refused", by, error.detail)
            else:
                self._figures.note_learned(door, "failed", by)
            raise NotLearned(error.detail, error.status) from None
        except AWAY:
            self._figures.note_learned(door, "failed", by)
            raise NotLearned("the database does not answer", 503) from None
        self._figures.note_learned(door, result, by)
        return result

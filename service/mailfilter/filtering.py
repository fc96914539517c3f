"""What every door of the mail filter does with a mail: decide on it, or learn from it. Knows no protocol.

Whatever goes wrong, a mail gets a verdict: `unknown`, with the reason, and is passed on as it came.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from anyio import CapacityLimiter, to_thread

from service.access.caller import Caller, Scope
from service.access.errors import Forbidden
from service.db.session import acting_for
from service.errors import InvalidRequest, Problem
from service.feedback.mails import MailLearned
from service.mailfilter.deciding import Deciding, reason_of
from service.mailfilter.verdict import MailVerdict
from service.models.errors import ModelNotFound, SeveralClasses
from service.schemas import is_alias
from solver.corrections import PERSON

MAX_OPEN = 64
"""Decisions under way."""
MAX_LEARNING = 16
"""Mails that are being learned, with those that took too long, which nobody waits for any more."""
LEARNING_THREADS = 4
"""Of their own: learning that hangs must not take the threads of decisions."""
ALLOWED_BY = {
    PERSON: "PREFSVM_MAIL_LEARN",
    "correspondent": "PREFSVM_MAIL_LEARN_CORRESPONDENTS",
    "trap": "PREFSVM_MAIL_LEARN_TRAPS",
}
SAID = {True: "spam, and nothing else", False: "no spam, and nothing else"}
MAX_MODELS = 1000
"""Whose numbers of labels are remembered."""
SHARE_OF_THE_ENCODER = 0.9
"""Of the time that a mail has. Who waits for the encoder then is told so, and not that all is slow."""
AT = "-at-"
"""Stands for ``@`` in the aliases of users."""
_USER = re.compile(r"[-A-Za-z0-9_.@]{1,100}")


class LabelCounts(Protocol):
    """The part of `service.models.service.ModelService` that is used here."""

    def labelled_counts(self, project_id: str, name: str) -> tuple[int, int]:
        """Return how many negative and positive rows a model learned from."""


class Learner(Protocol):
    """The part of `service.feedback.mails.MailFeedback` that is used here."""

    def learn(
        self, project_id: str, alias: str, message: bytes, wanted: bool | None, source: str, weight: float
    ) -> MailLearned:
        """Keep a mail as feedback."""


@dataclass(frozen=True)
class Source:
    """Who says what a mail is.

    Attributes
    ----------
    name : str
    label : bool or None
        Whether what it speaks of is always spam, or never; None: either.
    weight : float
        How much what it says counts in a training.
    """

    name: str
    label: bool | None = None
    weight: float = 1.0


SOMEBODY = Source(PERSON)
CORRESPONDENT, TRAP = "correspondent", "trap"


class LearningRefused(Problem, type="learning-refused", title="Learning is off", status=403):
    """The setting for it is off."""


class LearningLate(Problem, type="learning-late", title="Not learned in time", status=503, retry_after=60):
    """The database takes too long. What was said may still come to be kept; to say it again changes nothing then."""


class MailFilter:
    """Decides on mails and learns from them, for use on one event loop.

    Parameters
    ----------
    deciding : Deciding
    models, feedback
        Of the database that the API works on, too.
    caller : callable
        Tells for whom this acts, or raises what a request with that key would get.
    alias : str
        Of the model that decides where a user has none of his own.
    sources : sequence of Source
        Who may say what is spam; nobody, if there is none.
    seconds : float
        Longest time a mail waits for its verdict, and who has said what it is for an answer.
    min_labels : int
        Labelled rows of each class that a model needs.
    most_bytes : int
        Of all mails that are being decided on; those that took too long and were not waited for are among them.
    """

    def __init__(
        self,
        deciding: Deciding,
        models: LabelCounts,
        feedback: Learner,
        caller: Callable[[], Awaitable[Caller]],
        *,
        alias: str,
        sources: Sequence[Source],
        seconds: float,
        min_labels: int,
        most_bytes: int,
    ) -> None:
        self._deciding = deciding
        self._models = models
        self._feedback = feedback
        self._caller = caller
        self._alias = alias
        self._sources = {source.name: source for source in sources}
        self._seconds = seconds
        self._min_labels = min_labels
        self._most_bytes = most_bytes
        self._counts: dict[str, tuple[int, int]] = {}
        self._open: dict[asyncio.Task[MailVerdict], int] = {}
        """Bytes of the mail that each looks at."""
        self._learning: dict[asyncio.Task[MailLearned], int] = {}
        self._threads = CapacityLimiter(LEARNING_THREADS)

    async def check(self, raw: bytes, user: str | None) -> MailVerdict:
        """Return what is to be said of a mail, within `seconds`; raises nothing.

        Parameters
        ----------
        raw : bytes
            As it came, marks of others included: what decides does not see them.
        user : str or None
            Whose mail it is, where it is one user's.
        """
        if len(self._open) >= MAX_OPEN or not self._has_room_for(raw):
            return MailVerdict("unknown", reason="busy")
        # A thread cannot be ended: what takes too long goes on, and its mail is not waited for.
        until = asyncio.get_running_loop().time() + SHARE_OF_THE_ENCODER * self._seconds
        task = asyncio.create_task(self._check(raw, user, until))
        self._open[task] = len(raw)
        task.add_done_callback(self._open.pop)
        done, _ = await asyncio.wait({task}, timeout=self._seconds)
        return task.result() if done else MailVerdict("unknown", reason="slow")

    async def learn(self, raw: bytes, user: str | None, wanted: bool | None, by: str = PERSON) -> MailLearned:
        """Keep what somebody has said of a mail within `seconds`: spam, no spam, or None to forget it.

        Raises
        ------
        LearningRefused
            If it is not allowed.
        LearningLate
            If the database does not answer in time, or too many wait for it.
        Problem
            As `MailFeedback.learn`, and if the key does not allow it.
        """
        source = self._sources.get(by)
        if source is None:
            raise LearningRefused(f"learning is off; {ALLOWED_BY.get(by, ALLOWED_BY[PERSON])}=true allows it")
        if source.label is not None and wanted is not source.label:
            raise InvalidRequest.of("header.Learn-Source", f"{by} says of mails that they are {SAID[source.label]}")
        if len(self._learning) >= MAX_LEARNING or not self._has_room_for(raw):
            raise LearningLate("too many mails wait to be learned; say it again later")
        task = asyncio.create_task(self._learn(raw, user, wanted, source))
        self._learning[task] = len(raw)
        task.add_done_callback(self._learned)
        done, _ = await asyncio.wait({task}, timeout=self._seconds)
        if not done:
            raise LearningLate(f"not learned within {self._seconds:g} s; say it again later")
        return task.result()

    def _learned(self, task: asyncio.Task[MailLearned]) -> None:
        del self._learning[task]
        if not task.cancelled():
            task.exception()  # which nobody may have waited for

    def _has_room_for(self, raw: bytes) -> bool:
        others = sum(self._open.values()) + sum(self._learning.values())
        return not others or others + len(raw) <= self._most_bytes

    async def _learn(self, raw: bytes, user: str | None, wanted: bool | None, source: Source) -> MailLearned:
        caller = await self._admitted("write")
        with acting_for(caller.project_id):
            *own, site = self._aliases(user)
            for alias in own:
                if await to_thread.run_sync(self._is_there, caller.project_id, alias, limiter=self._threads):
                    site = alias
            said = caller.project_id, site, raw, wanted, source.name, source.weight
            return await to_thread.run_sync(self._feedback.learn, *said, limiter=self._threads)

    def _is_there(self, project_id: str, alias: str) -> bool:
        try:
            self._models.labelled_counts(project_id, alias)
        except ModelNotFound:
            return False
        except SeveralClasses:  # whoever learns for it says so
            return True
        return True

    async def _check(self, raw: bytes, user: str | None, until: float) -> MailVerdict:
        try:
            caller = await self._admitted("read")
            with acting_for(caller.project_id):
                *own, site = self._aliases(user)
                for alias in own:
                    try:
                        return await self._decided(caller.project_id, alias, raw, until)
                    except ModelNotFound:
                        continue
                return await self._decided(caller.project_id, site, raw, until)
        except Exception as error:
            return MailVerdict("unknown", reason=reason_of(error))

    async def _decided(self, project_id: str, alias: str, raw: bytes, until: float) -> MailVerdict:
        left = max(0.0, until - asyncio.get_running_loop().time())
        verdict = await self._deciding.verdict(project_id, alias, raw, left)
        model = str(verdict.model)
        counts = self._counts.get(model)
        if counts is None:
            counts = await to_thread.run_sync(self._models.labelled_counts, project_id, model)
            if len(self._counts) >= MAX_MODELS:
                self._counts.clear()
            self._counts[model] = counts
        if min(counts) < self._min_labels:
            return MailVerdict("unknown", reason="too_few_labels", alias=alias, model=model)
        return verdict

    async def _admitted(self, scope: Scope) -> Caller:
        caller = await self._caller()
        if scope not in caller.scopes:
            raise Forbidden(f"the key of the mail filter lacks the scope {scope}")
        return caller

    def _aliases(self, user: str | None) -> list[str]:
        """Return the names of the models that may decide, the user's own first."""
        if user is None or _USER.fullmatch(user) is None or AT in user.lower().replace("@", "-"):
            return [self._alias]  # also where ``a-at@b`` and ``a@at-b`` would be one alias
        own = f"{self._alias}.{user.lower().replace('@', AT)}"
        return [own, self._alias] if is_alias(own) else [self._alias]

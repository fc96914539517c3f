"""The supervisor's half of what a child asks: it speaks with the database for the child, which has no way there.

The child asks, one question at a time, and waits for the answer:

* ``others``: how many workers are there that compute the same bits? Nothing is written before there is one.
* ``share``: cut this stage into so many parts; some are done, their results lie in the scratch folder.
* ``take``: what shall be computed here next? The answer names parts; or says that all are done, and that the results of
  others lie in the scratch folder; or, when the database is away, that the child is alone again.
* ``computed``: these parts are done here, their results lie in the scratch folder.
* ``encode``: what the encoder makes of texts, see `worker.encoder_answers`.

What others are slow with is never waited for longer than they hold a lease.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from service.db.session import AWAY
from service.encoders.configuration import EncoderConfig
from service.faults import fault
from service.jobs.part_sharing import OwnClaim, PartSharing
from service.jobs.workers import Worker, WorkerRegistry
from worker.attempt import Attempt
from worker.encoder_answers import EncoderAnswers
from worker.protocol import part_file

log = logging.getLogger("prefsvm.worker")

LOOK_SECONDS = 0.2
"""Pause between two looks whether the others are done, when nothing is left to compute here."""
AWAY_SECONDS = 5.0
"""After so long without the database the child computes by itself what is missing."""


class PartAnswers:
    """Answers the questions of one child about parts and vectors, in a thread of its own.

    Parameters
    ----------
    attempt : Attempt
        The job, as this worker holds it.
    worker : Worker or None
        This one; None if it is not known yet what it computes.
    answer : callable
        Sends an answer to the child.
    tell : callable
        Called with what a stage came to, for the events of the job.
    encoder : EncoderConfig, optional
        That of the deployment.
    waits : callable, optional
        Called when the encoder is waited for, see `EncoderAnswers`.
    """

    def __init__(
        self,
        attempt: Attempt,
        worker: Worker | None,
        answer: Callable[[dict[str, Any]], None],
        tell: Callable[[dict[str, Any]], None],
        encoder: EncoderConfig | None = None,
        waits: Callable[[dict[str, Any] | None], object] = lambda _: None,
    ) -> None:
        self._database = attempt.database
        self._parts = PartSharing(attempt.settings.lease_seconds)
        self._registry = WorkerRegistry(attempt.settings.lease_seconds)
        self._claim = attempt.claim
        self._worker = worker
        self._folder = attempt.folder
        self._answer = answer
        self._tell = tell
        self._questions: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._encoder = EncoderAnswers(encoder, attempt, self._stopped, waits)
        self._mine: list[OwnClaim] = []
        self._elsewhere: dict[str, set[int]] = {}
        """By stage, the parts whose results came from others."""
        self._thread: threading.Thread | None = None
        self._open: Any = None
        """Number of the question that the child waits for an answer to."""

    @property
    def is_asked(self) -> bool:
        """Whether the child waits for an answer."""
        return self._open is not None

    def ask(self, question: dict[str, Any]) -> None:
        """Take a question of the child; it is answered later."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sharing", daemon=True)
            self._thread.start()
        self._open = question["question"]
        self._questions.put(question)

    def stop(self) -> None:
        """Answer no more, and withdraw the parts that there are."""
        if self._thread is None:
            return
        self._stopped.set()
        self._questions.put(None)
        self._thread.join(10)
        self._encoder.close()
        if self._elsewhere:
            try:
                with self._database.transaction() as session:
                    self._parts.withdraw(session, self._claim)
            except AWAY:
                return  # The dispatcher sweeps them up.

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                question = self._questions.get(timeout=self._parts.lease_seconds / 3)
            except queue.Empty:
                self._renew()
                continue
            if question is None:
                return
            try:
                answer = self._look_up(question)
            except Exception:  # a defect here must not keep the child waiting for its answer
                log.exception("%s: alone again", self._claim.job_id)
                answer = {"alone": True}
            if answer is not None:
                self._answer({"question": question["question"], **answer})
                if self._open == question["question"]:
                    self._open = None

    def _renew(self) -> None:
        if not self._mine:
            return
        try:
            with self._database.transaction() as session:
                self._parts.renew(session, self._mine)
        except AWAY:
            return  # Should somebody else take them meanwhile, that is work done twice and nothing worse.

    def _look_up(self, question: dict[str, Any]) -> dict[str, Any] | None:
        kind = question["type"]
        if kind == "encode":
            return self._encoder.answer(question)
        if kind == "others":
            return {"others": self._others()}
        stage = str(question["stage"])
        answer: dict[str, Any] | None
        given_up_at = time.monotonic() + AWAY_SECONDS
        while not self._stopped.is_set():
            try:
                if kind == "share":
                    answer = self._share(question)
                elif kind == "computed":
                    answer = self._computed(stage, question["numbers"])
                else:
                    answer = self._take(stage, int(question["most"]))
                if answer is not None:
                    return answer
                given_up_at = time.monotonic() + AWAY_SECONDS
            except AWAY as error:
                if time.monotonic() > given_up_at:
                    log.warning("%s: alone again (%s)", self._claim.job_id, type(error).__name__)
                    return {"alone": True}
            self._stopped.wait(LOOK_SECONDS)
        return None

    def _others(self) -> int:
        # An encoder need not make the same bits of a text twice, so that what others compute might not fit.
        if self._worker is None or self._encoder.was_asked:
            return 0
        try:
            with self._database.transaction() as session:
                return self._registry.others(session, self._worker)
        except AWAY:
            return 0

    def _share(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._worker is not None  # noqa: S101 (there are others only for a worker that is known)
        stage, count, cache_bytes = str(question["stage"]), int(question["count"]), int(question["cache_bytes"])
        results = {number: self._read(stage, number) for number in question["done"]}
        self._elsewhere.setdefault(stage, set())  # first, as these rows are withdrawn whatever happens next
        with self._database.transaction() as session:
            shared = self._parts.share(session, self._claim, self._worker, stage, count, cache_bytes, results)
        fault("after_share")
        return {} if shared else {"alone": True}

    def _take(self, stage: str, most: int) -> dict[str, Any] | None:
        assert self._worker is not None  # noqa: S101 (as above)
        elsewhere = self._elsewhere[stage]
        with self._database.transaction() as session:
            self._mine = self._parts.claim(session, self._claim, self._worker, stage, most)
            if self._mine:
                return {"compute": [part.number for part in self._mine]}
            state = self._parts.state(session, self._claim, stage, self._worker, sorted(elsewhere))
        for number, result in state.elsewhere.items():
            (self._folder / part_file(stage, number)).write_bytes(result)
            elsewhere.add(number)
        if state.unfinished:
            return None
        self._tell({"stage": stage, "parts": state.parts, "elsewhere": len(elsewhere)})
        return {"elsewhere": sorted(elsewhere)}

    def _computed(self, stage: str, numbers: Sequence[int]) -> dict[str, Any]:
        fault("before_own_part")
        done = [part for part in self._mine if part.number in numbers]
        results = {part.number: self._read(stage, part.number) for part in done}
        with self._database.transaction() as session:
            self._parts.finish(session, done, results)
        self._mine = []
        return {}

    def _read(self, stage: str, number: int) -> bytes:
        return (self._folder / part_file(stage, number)).read_bytes()

"""Shadows: models that decide on what an alias answers, too, without a say in the answer.

What was decided is put by, and looked at later in one thread. When that is behind, rows are dropped and counted: an
answer never waits for a shadow, and never fails by one.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson
from anyio import CapacityLimiter, sleep, to_thread

from service.db.session import AWAY, Database, acting_for, trouble_of
from service.errors import Problem
from service.models.shadows import Disagreement, ShadowCounts, ShadowKey, ShadowRepository
from service.predictions.deciding import Decisions, ReadyModel
from service.predictions.inputs import rows_of
from solver.features import FeatureError

log = logging.getLogger("prefsvm.shadow")

Kind = Literal["rows", "texts", "messages"]

FRESH_SECONDS = 2.0
"""How long it is known which aliases of a project have a shadow; a change in this process counts at once."""
FLUSH_SECONDS = 2.0
MAX_PROJECTS = 10_000
MAX_ROWS = 1000
"""Of one request; a shadow does not see more of it."""
MAX_WAITING_BYTES = 8 << 20
MAX_WAITING = 256
"""Requests."""
MAX_EARLY = 16
"""Requests that wait until it is known whether their alias has a shadow; more are not seen by it."""


@dataclass(frozen=True)
class _Decided:
    """What an alias has answered, for its shadow to look at."""

    key: ShadowKey
    kind: Kind
    items: bytes | Sequence[str | bytes]
    """Rows as JSON; texts or mails as they came."""
    nbytes: int
    labels: list[str]
    scores: list[float]


class Shadows:
    """Lets the shadows of aliases decide too, for use on one event loop.

    Parameters
    ----------
    database : Database
    ready : callable
        Project and id to a model that is ready.
    """

    def __init__(self, database: Database, ready: Callable[[str, str], Awaitable[ReadyModel]]) -> None:
        self._database = database
        self._ready = ready
        self._waiting: deque[_Decided] = deque()
        self._waiting_bytes = 0
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._thread = CapacityLimiter(1)
        self._counts: dict[ShadowKey, ShadowCounts] = {}
        self._early: deque[tuple[str, str, Kind, Sequence[Any], Decisions]] = deque(maxlen=MAX_EARLY)
        self.forget()

    def forget(self) -> None:
        """Ask Postgres anew which aliases have a shadow. May be called from any thread."""
        self._known: dict[str, tuple[float, dict[str, str]]] = {}

    def offer(self, project_id: str, name: str, kind: Kind, items: Sequence[Any], decided: Decisions) -> None:
        """Put by what was decided, if `name` is an alias with a shadow. Returns at once, and raises nothing."""
        if name.startswith("mdl_"):
            return
        known = self._known.get(project_id)
        if known is None or known[0] < time.monotonic():
            self._begin(project_id, self._look(project_id, self._known))
        if known is None:
            self._early.append((project_id, name, kind, items, decided))
            return
        if name not in known[1]:
            return
        self._put_by(ShadowKey(project_id, name, decided.model, known[1][name]), kind, items, decided)

    def _put_by(self, key: ShadowKey, kind: Kind, items: Sequence[Any], decided: Decisions) -> None:
        kept = items[:MAX_ROWS]
        payload = orjson.dumps(kept) if kind == "rows" else kept
        nbytes = len(payload) if isinstance(payload, bytes) else sum(map(len, payload))
        counts = self._counts_of(key)
        if len(self._waiting) >= MAX_WAITING or self._waiting_bytes + nbytes > MAX_WAITING_BYTES:
            counts.dropped += len(items)
            return
        counts.dropped += len(items) - len(kept)
        made = decided.predictions[: len(kept)]
        labels, scores = [str(each["label"]) for each in made], [float(each["score"] or 0.0) for each in made]
        self._waiting.append(_Decided(key, kind, payload, nbytes, labels, scores))
        self._waiting_bytes += nbytes
        self._begin("", self._drain())

    def _begin(self, name: str, work: Any) -> None:
        """Start something that goes on beside the requests, unless it does already."""
        if name in self._tasks:
            work.close()
            return
        task = self._tasks[name] = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._tasks.pop(name))

    async def _look(self, project_id: str, known: dict[str, tuple[float, dict[str, str]]]) -> None:
        def ask() -> dict[str, str]:
            with acting_for(project_id), self._database.transaction() as session:
                return ShadowRepository(session, project_id).by_alias()

        until = time.monotonic() + FRESH_SECONDS
        try:
            found = await to_thread.run_sync(ask, limiter=self._thread)
        except AWAY:
            return  # the next request asks again
        if len(known) >= MAX_PROJECTS:
            known.clear()
        known[project_id] = until, found
        early, others = list(self._early), []
        self._early.clear()
        for each in early:
            if each[0] == project_id and known is self._known:
                self.offer(*each)
            else:
                others.append(each)
        self._early.extend(others)

    async def _drain(self) -> None:
        while self._waiting:
            decided = self._waiting.popleft()
            counts = self._counts_of(decided.key)
            try:
                with acting_for(decided.key.project_id):
                    shadow = await self._ready(decided.key.project_id, decided.key.shadow_id)
                made = await to_thread.run_sync(_compare, shadow, decided, limiter=self._thread)
            except AWAY:
                counts.dropped += len(decided.labels)
            except (Problem, FeatureError):
                counts.failed += len(decided.labels)  # it was deleted, or takes other rows
            except Exception:  # whatever is wrong with a shadow, it must not concern anybody else
                log.exception("a shadow failed", extra={"fields": {"shadow": decided.key.shadow_id}})
                counts.failed += len(decided.labels)
            else:
                self._counts_of(decided.key).add(made)
            finally:
                self._waiting_bytes -= decided.nbytes

    def _counts_of(self, key: ShadowKey) -> ShadowCounts:
        return self._counts.setdefault(key, ShadowCounts())

    async def flush(self) -> None:
        """Write what was counted since; it is kept for the next time if Postgres is away."""
        taken, self._counts = self._counts, {}
        for key, counts in taken.items():
            try:
                await to_thread.run_sync(self._write, key, counts)
            except AWAY as error:
                log.warning(trouble_of(error))
                self._counts_of(key).add(counts)
            except Exception:  # a defect here must neither end the API nor keep it from closing
                log.exception("figures of a shadow were lost")

    def _write(self, key: ShadowKey, counts: ShadowCounts) -> None:
        with acting_for(key.project_id), self._database.transaction() as session:
            ShadowRepository(session, key.project_id).add(key, counts)
        if counts.disagreements:
            fields = {**key._asdict(), "rows": counts.rows, "disagreements": counts.disagreements}
            log.info("a shadow disagreed", extra={"fields": fields})

    async def flush_forever(self) -> None:
        """Flush every `FLUSH_SECONDS`, until cancelled."""
        while True:
            await sleep(FLUSH_SECONDS)
            await self.flush()


def _compare(shadow: ReadyModel, decided: _Decided) -> ShadowCounts:
    """Let the shadow decide, in a thread; raises `FeatureError`, `RowsDoNotFit`."""
    rows: Sequence[Any]
    if decided.kind == "rows":
        items = rows = orjson.loads(decided.items)  # type: ignore[arg-type]
    else:
        items = list(decided.items)
        rows = rows_of(shadow.model.columns, decided.kind, items)
    made, _ = shadow.model.predict_rows(rows)
    disagreements = [
        Disagreement(_sha256(item), label, shadow_label, score, shadow_score)
        for item, label, shadow_label, score, shadow_score in zip(
            items, decided.labels, made.labels, decided.scores, made.scores.tolist(), strict=True
        )
        if label != shadow_label
    ]
    return ShadowCounts(Counter(zip(decided.labels, made.labels, strict=True)), latest=disagreements)


def _sha256(item: Any) -> bytes:
    """SHA-256 of a text or mail as it came, or of a row as JSON with its names in order and no blanks."""
    if isinstance(item, dict):
        item = orjson.dumps(item, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(item.encode() if isinstance(item, str) else item).digest()

"""Shadows: models that decide on what an alias answers, too, without a say in the answer.

What was decided is kept, and looked at later in one thread. When that is behind, rows are dropped and counted: an
answer never waits for a shadow, and never fails by one.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import orjson
from anyio import CapacityLimiter, sleep, to_thread

from service.db.session import AWAY, Database, acting_for, trouble_of
from service.errors import Problem
from service.models.shadows import UNDECIDED, Disagreement, ShadowCounts, ShadowKey, ShadowRepository
from service.predictions.deciding import Decisions, ReadyModel
from service.predictions.encoding import TextEncoder
from service.predictions.inputs import rows_of
from solver.features import Encoder, FeatureError

log = logging.getLogger("prefsvm.shadow")

ShownKind = Literal["rows", "texts", "messages"]

FLUSH_SECONDS = 2.0
MAX_ROWS = 1000
"""Of one request; a shadow does not see more of it."""
MAX_WAITING_BYTES = 8 << 20
MAX_WAITING = 256
"""Requests."""


@dataclass(frozen=True)
class _Decided:
    """What an alias has answered, for its shadow to look at."""

    key: ShadowKey
    kind: ShownKind
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
    encoder : TextEncoder
        For shadows that encode texts.
    """

    def __init__(
        self, database: Database, ready: Callable[[str, str], Awaitable[ReadyModel]], encoder: TextEncoder
    ) -> None:
        self._database = database
        self._ready = ready
        self._encoder = encoder
        self._waiting: deque[_Decided] = deque()
        self._waiting_bytes = 0
        self._draining: asyncio.Task[None] | None = None
        self._thread = CapacityLimiter(1)
        self._counts: dict[ShadowKey, ShadowCounts] = {}

    def offer(self, key: ShadowKey, kind: ShownKind, items: Sequence[Any], decided: Decisions) -> None:
        """Put by what was decided. Returns at once, and raises nothing."""
        kept = items[:MAX_ROWS]
        payload = orjson.dumps(kept) if kind == "rows" else kept
        nbytes = len(payload) if isinstance(payload, bytes) else sum(map(len, payload))
        counts = self._counts_of(key)
        if len(self._waiting) >= MAX_WAITING or self._waiting_bytes + nbytes > MAX_WAITING_BYTES:
            counts.dropped += len(items)
            return
        counts.dropped += len(items) - len(kept)
        made = decided.predictions[: len(kept)]
        labels, scores = (
            [str(each["label"] or UNDECIDED) for each in made],
            [float(each["score"] or 0.0) for each in made],
        )
        self._waiting.append(_Decided(key, kind, payload, nbytes, labels, scores))
        self._waiting_bytes += nbytes
        if self._draining is None or self._draining.done():
            self._draining = asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        while self._waiting:
            decided = self._waiting.popleft()
            counts = self._counts_of(decided.key)
            try:
                with acting_for(decided.key.project_id):
                    shadow = await self._ready(decided.key.project_id, decided.key.shadow_id)
                encoder = None
                if shadow.model.encoder is not None:
                    texts = await to_thread.run_sync(_texts, shadow, decided, limiter=self._thread)
                    encoder = await self._encoder.vectors(shadow.model.encoder, texts)
                made = await to_thread.run_sync(_compare, shadow, decided, encoder, limiter=self._thread)
            except AWAY:
                counts.dropped += len(decided.labels)
            except (Problem, FeatureError):
                counts.failed += len(decided.labels)  # the shadow was deleted, or takes other rows
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


def _items_and_rows(shadow: ReadyModel, decided: _Decided) -> tuple[Sequence[Any], Sequence[Any]]:
    """What an alias was asked, and the rows that this is to its shadow; raises `RowsDoNotFit`."""
    if decided.kind == "rows":
        rows = orjson.loads(decided.items)  # type: ignore[arg-type]
        return rows, rows
    items = cast("Sequence[str | bytes]", decided.items)
    return items, rows_of(shadow.model.columns, decided.kind, items)


def _texts(shadow: ReadyModel, decided: _Decided) -> list[str]:
    """The texts that the shadow needs the vectors of; raises `FeatureError`, `RowsDoNotFit`."""
    return shadow.model.texts_of_rows(_items_and_rows(shadow, decided)[1])


def _compare(shadow: ReadyModel, decided: _Decided, encoder: Encoder | None) -> ShadowCounts:
    """Let the shadow decide, in a thread; raises `FeatureError`, `RowsDoNotFit`."""
    items, rows = _items_and_rows(shadow, decided)
    made, _ = shadow.model.predict_rows(rows, encoder)
    theirs = [label or UNDECIDED for label in made.labels]
    disagreements = [
        Disagreement(_sha256(item), label, shadow_label, score, shadow_score)
        for item, label, shadow_label, score, shadow_score in zip(
            items, decided.labels, theirs, decided.scores, made.scores.tolist(), strict=True
        )
        if label != shadow_label
    ]
    return ShadowCounts(Counter(zip(decided.labels, theirs, strict=True)), latest=disagreements)


def _sha256(item: Any) -> bytes:
    """SHA-256 of a text or mail as it came, or of a row as JSON with its names in order and no blanks."""
    if isinstance(item, dict):
        item = orjson.dumps(item, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(item.encode() if isinstance(item, str) else item).digest()

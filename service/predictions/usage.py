"""What models met and said while predicting: counted in memory, written to Postgres every few seconds."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from anyio import sleep, to_thread

from service.db.session import AWAY, Database, acting_for, trouble_of
from service.models.class_drift import rule_number
from service.models.repository import NOTHING_SAID, ModelStatistics, StatisticsRepository, UsageKey
from solver.model_file import AnyModel, Model

FLUSH_SECONDS = 5.0
MAX_WAITING = 10_000
"""Models and thresholds whose counts are held at most while Postgres is away."""

log = logging.getLogger("prefsvm.usage")


class UsageRecorder:
    """Counts predicted rows by model and threshold.

    Figures, not accounts: a process that is killed loses the last few seconds of them, and those of a transaction whose
    end nobody heard of are written again.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._counts: dict[UsageKey, ModelStatistics] = {}

    def add(
        self,
        key: UsageKey,
        rows: int,
        outside_range: int,
        positive: int,
        unseen: Mapping[str, int],
        undecided: int = 0,
        said: Mapping[str, int] = NOTHING_SAID,
    ) -> None:
        """Count rows. May be called from any thread."""
        with self._lock:
            known = self._counts.get(key)
            if known is None:
                if len(self._counts) >= MAX_WAITING:
                    return
                known = self._counts[key] = ModelStatistics()
            known.add(rows, outside_range, positive, unseen, undecided, said)

    def flush(self) -> None:
        """Write what was counted since; it is kept for the next time if Postgres is away."""
        with self._lock:
            taken, self._counts = self._counts, {}
        if not taken:
            return
        try:
            # Always in the same order, so that two processes that write at once do not wait for each other for ever.
            for project_id, keys in groupby(sorted(taken), key=lambda key: key.project_id):
                with acting_for(project_id), self._database.transaction() as session:
                    written = list(keys)
                    for key in written:
                        StatisticsRepository(session, project_id).add(key, taken[key])
                for key in written:
                    del taken[key]
        except AWAY as error:
            log.warning(trouble_of(error))
            for key, met in taken.items():
                self.add(key, met.rows, met.outside_range, met.positive, met.unseen, met.undecided, met.said)
        except Exception:  # a defect here must neither end the API nor keep it from closing
            log.exception("figures of predictions were lost")

    async def flush_forever(self) -> None:
        """Flush every `FLUSH_SECONDS`, until cancelled."""
        while True:
            await sleep(FLUSH_SECONDS)
            await to_thread.run_sync(self.flush)


class ModelUsage:
    """Counts the rows of one model at one threshold, or by one rule.

    Parameters
    ----------
    recorder : UsageRecorder
    project_id, model_id : str
    model : Model or ClassesModel
    rule : dict, optional
        Of several classes, the one that was applied since the training.
    """

    def __init__(
        self,
        recorder: UsageRecorder,
        project_id: str,
        model_id: str,
        model: AnyModel,
        rule: Mapping[str, Any] | None = None,
    ) -> None:
        self._recorder = recorder
        self.project_id = project_id
        if not isinstance(model, Model):  # of several classes: there is no threshold, and no class is the positive one
            self._key = UsageKey(project_id, model_id, rule_number(rule))
            self._abstains = model.decision.rule is not None and model.decision.rule.may_leave_undecided
            self._positive: str | None = None
            self._low, self._high = float("-inf"), float("inf")
            return
        band = model.decision.band
        self._key = UsageKey(project_id, model_id, model.decision.threshold if band is None else band.upper)
        self._abstains = band is not None
        self._positive = str(model.classes[1])
        # The thresholds of the curve reach just beyond the scores of the calibration rows.
        curve = model.curve
        self._low = float("-inf") if curve is None else float(curve.thresholds[-1])
        self._high = float("inf") if curve is None else float(curve.thresholds[0])

    def add(
        self,
        scores: Sequence[float],
        labels: Sequence[str | None],
        unseen: Mapping[str, int],
        far_rows: Sequence[int] = (),
    ) -> None:
        """Count decided rows. May be called from any thread, and must be quick: it is part of every prediction."""
        low, high = self._low, self._high
        if far_rows:  # numbers that are, though their scores need not be
            far = set(far_rows)
            outside = sum([row in far or not low <= score <= high for row, score in enumerate(scores)])
        elif len(scores) == 1:
            outside = 0 if low <= scores[0] <= high else 1
        else:
            outside = sum([not low <= score <= high for score in scores])
        undecided = labels.count(None) if self._abstains else 0
        if self._positive is None:
            said = Counter([str(label) for label in labels if label is not None])
            self._recorder.add(self._key, len(scores), outside, 0, unseen, undecided, said)
            return
        positive = labels.count(self._positive)
        self._recorder.add(self._key, len(scores), outside, positive, unseen, undecided)

"""How long each phase of a training takes, how far it is, and whether its caller wants it to stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from solver.report import json_ready
from solver.training.request import Progress

FEATURES_DONE: Final = 0.15
"""Share of the call that is done when the features are made; the training begins."""
TRAINING_DONE: Final = 0.95
"""Share that is done when the training ends, and the model is measured."""


class Stopwatch:
    """Times the phases, passes progress on, and remembers that the caller wants to stop."""

    def __init__(self, progress: Callable[[Progress], bool | None] | None) -> None:
        self._progress = progress
        self._phase = ""
        self._fraction = 0.0
        self.stopped = False
        self.seconds: dict[str, float] = {}

    def part(self, begin: float, end: float, within: str | None = None) -> Stopwatch:
        """One for a run that is this share of the call; `within` a phase of this one, it tells none of its own."""

        def pass_on(news: Progress) -> bool:
            if within is None:
                self._phase = news.phase
            # Rounds and the like are those of the run before, not news of this one's.
            self.report(begin + (end - begin) * news.fraction, **({} if within else news.details))
            return self.stopped

        part = Stopwatch(pass_on)
        if within is None:
            part.seconds = self.seconds
        return part

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what runs within, under this name."""
        self._phase = name
        started = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - started

    def report(self, fraction: float, **details: Any) -> None:
        """Tell the caller how far the phase is; remembers whether it wants to stop."""
        self._fraction = max(self._fraction, fraction)
        if self._progress is not None and self._progress(Progress(self._phase, self._fraction, json_ready(details))):
            self.stopped = True

    def features(self, fraction: float) -> None:
        """The callback of the features."""
        self.report(FEATURES_DONE * fraction)

    def training(self, fraction: float, details: Mapping[str, Any]) -> bool:
        """The callback of the estimators."""
        self.report(FEATURES_DONE + (TRAINING_DONE - FEATURES_DONE) * fraction, **details)
        return self.stopped

"""The child's half of sharing: who computes the parts of its training (`solver.parts.PartExecutor`)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from solver.kernels.row_cache import default_cache_bytes
from solver.parts import Compute, PartResult
from solver.report import SharedStage
from solver.tensor_file import read_tensors, write_tensors
from worker.protocol import Reporter, part_file

WORTH_SECONDS: Final = 2.0
"""A stage is shared if what is left of it, after its first part, takes at least so long here.

Whoever helps reads the data and makes features of it first.
"""


class SharedParts:
    """Computes parts here, and has others compute some of them if there are others and it is worth while.

    Parameters
    ----------
    reporter : Reporter
        Knows the supervisor, which knows the others.
    scratch : Path
        Where supervisor and child leave results for each other.
    worth_seconds : float, default WORTH_SECONDS
    """

    def __init__(self, reporter: Reporter, scratch: Path, worth_seconds: float = WORTH_SECONDS) -> None:
        self._reporter = reporter
        self._scratch = scratch
        self._worth_seconds = worth_seconds
        self._shared: bool | None = None
        self.cache_bytes: int | None = None
        self.report: dict[str, SharedStage] = {}
        """By stage that was shared, how many parts there were and how many came from elsewhere."""

    def are_shared(self) -> bool:
        """Tell whether there are other workers; that holds for the stage that begins."""
        if self._shared is None:
            answer = self._reporter.ask("others") or {}
            self._shared = bool(answer.get("others"))
            if self._shared:
                self.cache_bytes = default_cache_bytes()
        return self._shared

    def is_sought(self, stage: str) -> bool:  # noqa: ARG002
        """All of the training is wanted."""
        return False

    def is_sought_in(self, run: str) -> bool:  # noqa: ARG002
        """All of the training is wanted."""
        return False

    def compute(self, stage: str, count: int, compute: Compute, *, at_once: int = 1) -> list[PartResult | None]:
        """Have the parts of a stage computed, see `solver.parts.PartExecutor`."""
        try:
            if count <= at_once or not self.are_shared():
                return list(compute(range(count)))
            started = time.monotonic()
            first = list(compute(range(at_once)))
            left = (time.monotonic() - started) * (count - at_once) / at_once
            if left < self._worth_seconds or self._reporter.should_stop:
                rest = (compute(range(begin, min(count, begin + at_once))) for begin in range(at_once, count, at_once))
                return first + [result for some in rest for result in some]
            return self._share(stage, first, count, compute, at_once)
        finally:
            self._shared, self.cache_bytes = None, None

    def _share(
        self, stage: str, first: list[PartResult | None], count: int, compute: Compute, at_once: int
    ) -> list[PartResult | None]:
        results: list[PartResult | None] = first + [None] * (count - len(first))

        def compute_here(numbers: Sequence[int]) -> None:
            for number, result in zip(numbers, compute(numbers), strict=True):
                results[number] = result

        done = range(len(first))
        self._keep(stage, done, results)
        answer = self._reporter.ask("share", stage=stage, count=count, cache_bytes=self.cache_bytes, done=list(done))
        elsewhere: list[int] = []
        while answer is not None and not answer.get("alone"):
            answer = self._reporter.ask("take", stage=stage, most=at_once)
            if answer is None or answer.get("alone"):
                break
            if "elsewhere" in answer:
                elsewhere = [int(number) for number in answer["elsewhere"]]
                break
            numbers = [int(number) for number in answer["compute"]]
            compute_here(numbers)
            # What was interrupted is good enough to stop with, but it is not the part.
            if self._reporter.should_stop:
                break
            self._keep(stage, numbers, results)
            answer = self._reporter.ask("computed", stage=stage, numbers=numbers)
        came = [number for number in elsewhere if results[number] is None]
        for number in came:
            results[number] = read_tensors(self._scratch / part_file(stage, number))[0]
        missing = [number for number, result in enumerate(results) if result is None]
        for begin in range(0, len(missing), at_once):
            compute_here(missing[begin : begin + at_once])
        self.report[stage] = SharedStage(count, len(came))
        return results

    def _keep(self, stage: str, numbers: Sequence[int], results: Sequence[PartResult | None]) -> None:
        for number in numbers:
            result = results[number]
            if result is not None:
                write_tensors(self._scratch / part_file(stage, number), result, {})

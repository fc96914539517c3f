"""Does a process grow? Samples of memory and descriptors over time, and the slope they share, with its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
from scipy import stats

MIB = 1 << 20
HOUR = 3600.0
WARM_UP_SECONDS = 600.0
"""Of each process. Its memory is at its level after a thousand jobs and not before (measured with the dispatcher: 3 MiB
more after 960 jobs, and 0.03 MiB more after 640 further ones), which takes eight minutes at two a second."""
BLOCK_SECONDS = 30.0
"""Samples that lie close together say much the same: what is fitted are the means of such blocks."""
FEWEST_BLOCKS = 4
"""A process with fewer did not live long enough to be judged."""
MOST_CORRELATION = 0.9
"""Of neighbouring blocks that is reckoned with: what goes up all the time must not be taken for slow noise."""


@dataclass
class Samples:
    """What was seen of one process."""

    seconds: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    """Private memory (RssAnon) in MiB: what files and others share with it comes and goes with its use."""
    descriptors: list[float] = field(default_factory=list)
    """Without those of its own connections to others."""
    connections: list[int] = field(default_factory=list)
    """That it made: a pool opens one more when so many are used at the same time for the first time, and keeps it, so
    that their number goes up for hours, in steps, to the size of the pool. (Seen in a worker: the second after 15 s,
    the third after 23 and 234 s, the fourth after 542 and 688 s; its pool has five.)"""

    def blocks(self, values: list[float]) -> tuple[np.ndarray, np.ndarray]:
        """Return times and means of the blocks after the warm-up."""
        seconds = np.asarray(self.seconds[: len(values)])
        warm = seconds >= seconds[0] + WARM_UP_SECONDS if len(seconds) else np.zeros(0, dtype=bool)
        seconds, kept = seconds[warm], np.asarray(values)[warm]
        if not len(seconds):
            return seconds, kept
        block = ((seconds - seconds[0]) // BLOCK_SECONDS).astype(int)
        numbers = np.unique(block)
        means = [(seconds[block == number].mean(), kept[block == number].mean()) for number in numbers]
        return np.array([time for time, _ in means]), np.array([mean for _, mean in means])


@dataclass(frozen=True)
class Slope:
    """Growth an hour: the estimate and the ends of its 95 % interval."""

    estimate: float
    low: float
    high: float
    hours: float
    """How long was watched, all processes together."""


class Growth:
    """Samples of all processes of a stack by what they are, say "api"; several processes may be the same thing."""

    def __init__(self) -> None:
        self.processes: dict[str, dict[tuple[int, float], Samples]] = {}

    def sample(self, name: str, pid: int, now: float) -> None:
        """Look at one process; one that has ended, or may not be looked at, is passed over."""
        try:
            process = psutil.Process(pid)
            key = (pid, process.create_time())
            status = Path(f"/proc/{pid}/status").read_text()
            memory = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:"))
        except (OSError, psutil.Error, StopIteration):
            return
        samples = self.processes.setdefault(name, {}).setdefault(key, Samples())
        samples.seconds.append(now)
        samples.memory.append(memory / 1024)
        try:
            connections = connections_made(process)
            samples.descriptors.append(float(process.num_fds() - connections))
            samples.connections.append(connections)
        except psutil.Error:  # only root may look into a process that keeps secrets
            samples.descriptors.append(float("nan"))

    def memory(self, name: str) -> Slope | None:
        """Return by how many MiB an hour processes of this name grow; None where none lived long enough."""
        return slope([one.blocks(one.memory) for one in self.processes[name].values()])

    def descriptors(self, name: str) -> Slope | None:
        """Return by how many open descriptors an hour they grow."""
        return slope([one.blocks(one.descriptors) for one in self.processes[name].values()])

    def most_connections(self, name: str) -> int:
        """Return how many connections one of them had open at most; 0 where none was seen."""
        return max((max(one.connections, default=0) for one in self.processes.get(name, {}).values()), default=0)


def connections_made(process: psutil.Process) -> int:
    """Return how many TCP connections to others a process has open, those that others made to it not counted."""
    found = process.net_connections("tcp")
    served = {one.laddr.port for one in found if one.status == psutil.CONN_LISTEN}
    return sum(bool(one.raddr) and one.laddr.port not in served for one in found)


def slope(series: list[tuple[np.ndarray, np.ndarray]]) -> Slope | None:
    """Fit one slope to several series, each with a level of its own, and say how sure it is.

    The slope is the median of those between any two blocks of a series (Theil and Sen): a few blocks that are apart do
    not matter. Memory is not noise but goes up and down for minutes, as caches fill and cycles are collected; so the
    interval is widened by how much each block says of the next (autocorrelation of the residuals, as of an AR(1)).
    """
    long = [(t, y) for t, y in series if len(t) >= FEWEST_BLOCKS and np.isfinite(y).all()]
    if not long:
        return None
    estimate = float(np.median(np.concatenate([_slopes_of_pairs(t, y) for t, y in long])))
    times = np.concatenate([t - t.mean() for t, _ in long])
    residuals = [y - estimate * t - (y - estimate * t).mean() for t, y in long]
    squares = sum(float(r @ r) for r in residuals)
    correlation = sum(float(r[1:] @ r[:-1]) for r in residuals) / squares if squares > 0 else 0.0
    # Of few blocks the estimate is too small, by about this (Marriott and Pope).
    fewest = float(np.mean([len(r) for r in residuals]))
    correlation = min(max(correlation + (1 + 4 * max(correlation, 0.0)) / fewest, 0.0), MOST_CORRELATION)
    # How many independent blocks each is worth.
    worth = (1 - correlation) / (1 + correlation)
    free = max(1.0, len(times) * worth - len(long) - 1)
    error = float(np.sqrt(squares / (len(times) - len(long) - 1) / worth / (times @ times)))
    margin = float(stats.t.ppf(0.975, free)) * error
    hours = sum(float(t[-1] - t[0]) for t, _ in long) / HOUR
    return Slope(estimate * HOUR, (estimate - margin) * HOUR, (estimate + margin) * HOUR, hours)


def _slopes_of_pairs(times: np.ndarray, values: np.ndarray) -> np.ndarray:
    earlier, later = np.triu_indices(len(times), 1)
    slopes: np.ndarray = (values[later] - values[earlier]) / (times[later] - times[earlier])
    return slopes

"""One run: load on a stack, faults while it lasts, and what must hold afterwards, looked up in the database."""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from chaos_load import Load
from chaos_proxy import Link
from chaos_stack import ChaosStack, Part

from service.blobs.store import BlobStore
from service.ingest.columnar import read_columnar

PAUSE_SECONDS = (1.5, 3.0)
"""Between two faults."""
FEW_OPEN = 20
"""The faults end when everything is accepted and so few trainings are not finished."""
TICK_SECONDS = 0.1
MOST_LASTING = 3
"""Freezes and cuts at the same time."""
DECK = ("kill", "kill", "freeze", "cut")
"""What strikes each part before the cards are shuffled again."""


@dataclass
class _Fault:
    """A fault that lasts: when to end it, and how."""

    part: str
    at_the_latest: float
    heal: Callable[[], None]
    may_end: Callable[[], bool] = lambda: True
    not_before: float = 0.0


@dataclass
class ChaosRun:
    """A load of `jobs` trainings under seeded faults.

    Parameters
    ----------
    stack : ChaosStack
        Started.
    seed : int
        Of the choice of faults; when exactly they strike depends on the machine.
    jobs : int
    fault_seconds : float
        Longest time with faults.
    settle_seconds : float
        How long after the last fault everything must be finished.
    first : sequence of (kind, part)
        Faults to begin with, before the random ones.
    """

    stack: ChaosStack
    seed: int
    jobs: int
    fault_seconds: float
    settle_seconds: float = 60.0
    first: list[tuple[str, str]] = field(default_factory=list)
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """What must not be; empty after a good run."""
    seconds_under_faults: float = 0.0
    counts: str = ""
    settled_after: float | None = None
    """Seconds from the end of the last fault until every training was finished; None if that never was."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 (a seed is the point)
        self._lasting: list[_Fault] = []
        self._deck: list[tuple[str, str]] = []
        self._load = Load(self.stack, self.jobs, seconds=self.fault_seconds + self.settle_seconds)
        self._held: dict[str, int] = {}

    def run(self) -> None:
        """Do it all; `wrong` says what was not as it must be."""
        self._load.start()
        self._strike()
        self._settle()
        self.wrong += self._load.wrong
        self.wrong += self._violations()
        self.counts = self._count()
        self.wrong += [f"left running: {line}" for line in self.stack.close()]

    # ------------------------------------------------------------------------------------------------------ faults

    def _strike(self) -> None:
        began = time.monotonic()
        next_fault = began + 1.0
        next_look = began
        while time.monotonic() - began < self.fault_seconds:
            now = time.monotonic()
            if now >= next_look:
                self._look()
                next_look = time.monotonic() + 0.5
                if self._load.done and self._load.open_jobs <= FEW_OPEN and not self.first:
                    break
            self._heal([fault for fault in self._lasting if self._is_over(fault, now)])
            if now >= next_fault:
                self._next_fault()
                next_fault = time.monotonic() + self._random.uniform(*PAUSE_SECONDS)
            self._supervise()
            time.sleep(TICK_SECONDS)
        self._heal(list(self._lasting))
        self._supervise()
        self.seconds_under_faults = time.monotonic() - began

    def _settle(self) -> None:
        """Wait, without faults, until all is finished."""
        over = time.monotonic()
        while time.monotonic() - over < self.settle_seconds:
            self._supervise()
            if self._load.done and self._look() and self._load.open_jobs == 0:
                self.settled_after = time.monotonic() - over
                break
            time.sleep(TICK_SECONDS)
        self._load.join()

    def _supervise(self) -> None:
        untouchable = {fault.part for fault in self._lasting}
        for part in self.stack.parts:
            if part.name not in untouchable:
                part.start_if_it_ended()

    def _look(self) -> bool:
        """Count open trainings and note who holds what; False while the database cannot be asked."""
        if any(fault.part == "postgres" for fault in self._lasting):
            return False
        try:
            rows = self.stack.query("SELECT id, status, attempt FROM jobs WHERE status IN ('queued', 'running')")
        except psycopg.Error:
            return False
        self._load.open_jobs = len(rows)
        self._held = {job_id: attempt for job_id, status, attempt in rows if status == "running"}
        return True

    @staticmethod
    def _is_over(fault: _Fault, now: float) -> bool:
        return now >= fault.at_the_latest or (now >= fault.not_before and fault.may_end())

    def _heal(self, faults: list[_Fault]) -> None:
        for fault in faults:
            fault.heal()
            self._lasting.remove(fault)

    def _next_fault(self) -> None:
        struck = {fault.part for fault in self._lasting}
        if len(struck) >= MOST_LASTING:
            return  # Something must go on, or nothing is tested.
        if not self._deck:
            self._deck = [(kind, part.name) for part in self.stack.parts for kind in DECK]
            self._random.shuffle(self._deck)
        deck = self.first or self._deck
        for kind, name in deck if deck is self._deck else deck[:1]:
            part = next(part for part in self.stack.parts if part.name == name)
            # A worker without a job would have nothing to write too late.
            is_idle = kind == "freeze" and part in self.stack.workers and not self._held
            if part.runs and name not in struck and not is_idle:
                deck.remove((kind, name))
                {"kill": self._kill, "freeze": self._freeze, "cut": self._cut_off}[kind](part)
                return

    def _kill(self, part: Part) -> None:
        part.kill(with_children=part is self.stack.postgres)
        part.start()
        self.faults["kill", part.name] += 1

    def _freeze(self, part: Part) -> None:
        """Freeze it for longer than a lease; a worker, until somebody else has one of its jobs."""
        now = time.monotonic()
        lease = self.stack.lease_seconds
        if part in self.stack.workers:
            part.freeze(with_children=False)
            held = dict(self._held)

            def is_taken_over() -> bool:
                return any(self._held.get(job_id, 0) > attempt for job_id, attempt in held.items())

            self._lasting.append(_Fault(part.name, now + 2 * lease, part.thaw, is_taken_over, now + lease))
        else:
            part.freeze(with_children=True)
            self._lasting.append(_Fault(part.name, now + 1.5 * lease, part.thaw, lambda: False))
        self.faults["freeze", part.name] += 1

    def _cut_off(self, part: Part) -> None:
        """Break, swallow or slow down what goes between the part and a server (a server: and everybody)."""
        links = self._links_of(part)
        how = self._random.choice(["cut", "black hole", "slow"])
        if how == "cut":
            seconds = self._random.uniform(0.5, 4.0)
        elif how == "slow":
            seconds = self._random.uniform(2.0, 6.0)
        else:
            seconds = self._random.uniform(1.0, 2.0) * self.stack.lease_seconds
        for link in links:
            {"cut": link.cut, "black hole": link.swallow, "slow": lambda link=link: link.slow_down(0.1)}[how]()

        def heal() -> None:
            for link in links:
                link.restore()

        self._lasting.append(_Fault(f"{part.name} (links)", time.monotonic() + seconds, heal, lambda: False))
        self.faults[how, part.name] += 1

    def _links_of(self, part: Part) -> list[Link]:
        if not part.links:
            return [other.links[part.name] for other in self.stack.parts if part.name in other.links]
        chosen = self._random.choice([["postgres"], ["redis"], ["postgres", "redis"]])
        return [part.links[server] for server in chosen]

    # ------------------------------------------------------------------------------------------- what must hold now

    def _violations(self) -> list[str]:
        wrong = []
        if self.settled_after is None:
            wrong.append(f"{self._load.open_jobs} trainings were open {self.settle_seconds:g} s after the last fault")
        wrong += self._lost_or_doubled()
        for what, statement in BROKEN.items():
            wrong += [f"{what}: {row}" for row in self.stack.query(statement)[:5]]
        wrong += self._damaged_uploads()
        return wrong

    def _lost_or_doubled(self) -> list[str]:
        wrong = []
        accepted = list(self._load.accepted.values())
        known = {row[0] for row in self.stack.query("SELECT id FROM jobs")}
        wrong += [f"accepted and not there: {job_id}" for job_id in accepted if job_id not in known]
        if len(accepted) != self.jobs or len(set(accepted)) != self.jobs or known != set(accepted):
            wrong.append(f"{self.jobs} keys, {len(accepted)} accepted as {len(set(accepted))}, {len(known)} rows")
        return wrong

    def _damaged_uploads(self) -> list[str]:
        wrong = []
        blobs = BlobStore(str(self.stack.blobs))
        rows = self.stack.query("SELECT id, sha256, blob_key, columnar_key, layout, rows FROM datasets")
        known = {row[0]: row[1:] for row in rows}
        if set(known) != set(self._load.uploaded):
            wrong.append(f"{len(self._load.uploaded)} uploads were accepted, {len(known)} are there")
        for dataset_id, sha256 in self._load.uploaded.items():
            if dataset_id not in known:
                continue
            said, blob_key, columnar_key, layout, count = known[dataset_id]
            with blobs.open(blob_key) as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            with blobs.local_path(columnar_key) as path:
                columnar: Any = read_columnar(path, layout)
            if not (found == said == sha256 and columnar.n_rows == count == 61):
                wrong.append(f"damaged upload: {dataset_id}")
        return wrong

    # ------------------------------------------------------------------------------------------------------- report

    def table(self) -> str:
        """Return what happened, for people."""
        refused = Counter(name for name, _, _ in self.stack.refusals())
        lines = [
            f"seed {self.seed}: {self.jobs} trainings, {len(self._load.uploaded)} uploads, "
            f"{sum(self.faults.values())} faults in {self.seconds_under_faults:.0f} s",
            f"{'':14}" + "".join(f"{kind:>12}" for kind in KINDS),
        ]
        lines += [
            f"  {part.name:12}" + "".join(f"{self.faults[kind, part.name]:12}" for kind in KINDS)
            for part in self.stack.parts
        ]
        settled = "never" if self.settled_after is None else f"{self.settled_after:.1f} s"
        ended = {part.name: part.unasked_ends for part in self.stack.parts if part.unasked_ends}
        lines += [
            f"  all finished after the last fault: {settled}",
            f"  clients had to send again: {dict(self._load.answers)}",
            f"  late writes refused: {sum(refused.values())} {dict(refused)}",
            f"  {self.counts}",
            f"  ended unasked: {ended or 'none'}",
            f"  wrong: {self.wrong or 'nothing'}",
        ]
        return "\n".join(lines)

    def _count(self) -> str:
        statuses = dict(self.stack.query("SELECT status, count(*) FROM jobs GROUP BY status"))
        events = dict(self.stack.query("SELECT kind, count(*) FROM job_events GROUP BY kind"))
        ((shared, elsewhere),) = self.stack.query(
            "SELECT coalesce(sum((data->>'parts')::int), 0), coalesce(sum((data->>'elsewhere')::int), 0)"
            " FROM job_events WHERE kind = 'parts'"
        )
        return (
            f"{statuses}; claims {events.get('started', 0)}, back into the queue {events.get('requeued', 0)}, "
            f"finished {events.get('finished', 0)}; parts shared {shared}, computed elsewhere {elsewhere}"
        )


KINDS = ("kill", "freeze", "cut", "black hole", "slow")
BROKEN = {
    "not finished, or not as it should be": "SELECT id, status, attempt, error FROM jobs WHERE status <> 'succeeded'",
    "finished twice or never": (
        "SELECT j.id, j.status, count(e.id) FROM jobs j LEFT JOIN job_events e ON e.job_id = j.id "
        "AND e.kind = 'finished' GROUP BY j.id HAVING count(e.id) <> 1"
    ),
    "not one model": (
        "SELECT j.id, j.status, count(m.id) FROM jobs j LEFT JOIN models m ON m.job_id = j.id "
        "GROUP BY j.id HAVING count(m.id) <> (CASE j.status WHEN 'succeeded' THEN 1 ELSE 0 END)"
    ),
    "finished by an attempt that was not the last": (
        "SELECT j.id, j.attempt, e.attempt FROM jobs j JOIN job_events e ON e.job_id = j.id AND e.kind = 'finished' "
        "WHERE e.attempt <> j.attempt"
    ),
    "an attempt that wrote after the next had started": (
        "SELECT DISTINCT late.job_id, late.attempt, late.kind FROM job_events late JOIN job_events next "
        "ON next.job_id = late.job_id AND next.kind = 'started' AND next.attempt > late.attempt AND next.id < late.id"
    ),
    "as many claims as the attempt says": (
        "SELECT j.id, j.attempt, count(e.id) FROM jobs j LEFT JOIN job_events e ON e.job_id = j.id "
        "AND e.kind = 'started' GROUP BY j.id HAVING count(e.id) <> j.attempt"
    ),
    "a model that is not of the last attempt, or damaged": (
        "SELECT j.id, j.attempt FROM jobs j JOIN models m ON m.job_id = j.id JOIN model_chunks c ON c.model_id = m.id "
        "WHERE c.data <> convert_to(j.id || ' ' || j.attempt, 'UTF8') "
        "OR encode(sha256(c.data), 'hex') <> m.sha256"
    ),
    "keys without their training": (
        "SELECT k.operation, k.key FROM idempotency_keys k LEFT JOIN jobs j ON j.id = k.resource_id "
        "LEFT JOIN datasets d ON d.id = k.resource_id WHERE j.id IS NULL AND d.id IS NULL"
    ),
}
"""What must not be in the database, and how to find it."""


def run(folder: Path, seed: int, jobs: int, *, fault_seconds: float, **more: Any) -> ChaosRun:
    """Start a stack in `folder`, run, and close it whatever happens."""
    run_arguments = {name: more.pop(name) for name in ("settle_seconds", "first") if name in more}
    stack = ChaosStack(folder, **more)
    try:
        stack.start()
        chaos = ChaosRun(stack, seed, jobs, fault_seconds, **run_arguments)
        chaos.run()
        return chaos
    finally:
        stack.close()

"""A steady load for a long time, with kills in its first third: does anything fail, does anything grow?"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx
import numpy as np
import psutil
import psycopg
from chaos_growth import Growth, Slope
from chaos_load import training, upload, wait_for
from chaos_run import BROKEN
from chaos_stack import ChaosStack, Part

TRAININGS_PER_SECOND = 2.0
PREDICTIONS_PER_SECOND = 50.0
SAMPLE_SECONDS = 5.0
EXCUSED_SECONDS = 5.0
"""Errors are to be expected from a kill until so long after what was killed answers again."""
MOST_PROCESSOR_SECONDS = 10.0
"""Of the API, from its start until it answers. How long that takes by the clock is up to what else the machine does, as
it is with the recovery of Postgres."""
SETTLE_SECONDS = 60.0
"""After the load, some job must end in each such time until none is left: a busy machine has many left to do."""
MOST_MEMORY_PER_HOUR = 1.0
"""MiB, of one process."""
MOST_DESCRIPTORS_PER_HOUR = 1.0
DESCRIPTORS = "number of descriptors"
MOST_CONNECTIONS = {"api": 24, "dispatcher": 9, "worker 1": 10, "worker 2": 10}
"""To Postgres, where its pools and their reserves are full."""
KEEPS_FILES_OPEN = "postgres, connections"
"""Has the files of all tables open that it ever used, up to a limit of its own: these are no leak."""
TRAINS_A_MODEL = 2**31 + 3
"""Seed of the one training of the run that `chaos_jobs` does not stand in for."""
ROW = {"age": 30, "job": "a"}
CLOSED_BY_THE_CLIENT = "closed by the client itself"


@dataclass
class Kill:
    """What was killed, when, and when it answered again."""

    moment: float
    part: Part
    back: float | None = None
    """None while it does not answer."""
    processor_seconds: float = 0.0
    """That the new process took until it answered."""

    def excuses(self, sent: float, ended: float) -> bool:
        """Tell whether a call may have failed for it."""
        return self.moment <= ended and (self.back is None or sent <= self.back + EXCUSED_SECONDS)


@dataclass
class Soak:
    """A stack under load for `seconds`.

    Parameters
    ----------
    stack : ChaosStack
        Started.
    seconds : float
    kill_seconds : float
        Time between two kills; 0 for none. They end after a third of the time: who lives shortly does not show growth.
    seed : int
        Of the choice of what is killed.
    """

    stack: ChaosStack
    seconds: float
    kill_seconds: float
    seed: int = 1
    growth: Growth = field(default_factory=Growth)
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    kills: list[Kill] = field(default_factory=list)
    failures: list[tuple[float, float, str]] = field(default_factory=list)
    """When a call that was not answered well was sent, when it ended, and what became of it."""
    took: list[float] = field(default_factory=list)
    """Seconds of each prediction outside the excused times."""
    wrong: list[str] = field(default_factory=list)
    accepted: int = 0

    def run(self) -> None:
        """Do it all; `wrong` says what was not as it must be."""
        self._dataset = upload(self.stack)
        self._model, trained_by = self._train_a_model()
        self._over = threading.Event()
        clients = threading.Thread(target=lambda: asyncio.run(self._load()))
        clients.start()
        try:
            self._watch()
        finally:
            self._over.set()
            clients.join()
        self._settle(trained_by)
        self._judge()

    # -------------------------------------------------------------------------------------------------------- load

    def _train_a_model(self) -> tuple[str, str]:
        with self.stack.client(60) as client:
            job_id = client.post("/train", json=training(self._dataset, TRAINS_A_MODEL)).json()["id"]
            wait_for(lambda: client.get(f"/jobs/{job_id}").json()["status"] == "succeeded", 120)
            return str(client.get(f"/jobs/{job_id}").json()["model_id"]), job_id

    async def _load(self) -> None:
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.stack.port}", timeout=30, trust_env=False
        ) as client:
            numbers = iter(range(1, 1 << 30))
            await asyncio.gather(
                self._repeat(TRAININGS_PER_SECOND, lambda: self._train(client, next(numbers))),
                self._repeat(PREDICTIONS_PER_SECOND, lambda: self._predict(client)),
            )

    async def _repeat(self, per_second: float, call: Any) -> None:
        """Send at a fixed rate, whether or not the calls before were answered."""
        began, sent, open_calls = time.monotonic(), 0, set()
        while not self._over.is_set():
            task = asyncio.ensure_future(call())
            open_calls.add(task)
            task.add_done_callback(open_calls.discard)
            sent += 1
            await asyncio.sleep(max(0.0, began + sent / per_second - time.monotonic()))
        await asyncio.gather(*open_calls)

    async def _train(self, client: httpx.AsyncClient, number: int) -> None:
        if await self._send(client, "/train", training(self._dataset, number), 202) is not None:
            self.accepted += 1

    async def _predict(self, client: httpx.AsyncClient) -> None:
        sent = time.monotonic()
        took = await self._send(client, "/predict", {"model": self._model, "rows": [ROW]}, 200)
        if took is not None and not self._is_excused(sent, sent + took):
            self.took.append(took)

    async def _send(self, client: httpx.AsyncClient, path: str, body: dict[str, Any], status: int) -> float | None:
        sent = time.monotonic()
        try:
            answer = await client.post(path, json=body)
        except httpx.HTTPError as error:
            got = CLOSED_BY_THE_CLIENT if is_closed_by_the_client(error) else type(error).__name__
        else:
            got = str(answer.status_code)
        self.answers[path, got] += 1
        ended = time.monotonic()
        if got == CLOSED_BY_THE_CLIENT:
            return None
        if got == str(status):
            return ended - sent
        self.failures.append((sent, ended, f"{path}: {got}"))
        return None

    def _is_excused(self, sent: float, ended: float) -> bool:
        return any(kill.excuses(sent, ended) for kill in self.kills)

    # ---------------------------------------------------------------------------------------------- kills and samples

    def _watch(self) -> None:
        chance = random.Random(self.seed)  # noqa: S311 (a seed is the point)
        began = time.monotonic()
        next_kill = began + self.kill_seconds if self.kill_seconds else float("inf")
        next_sample = began
        deck: list[Part] = []
        while (now := time.monotonic()) < began + self.seconds:
            if now >= next_sample:
                self._sample(now)
                next_sample += SAMPLE_SECONDS
            if next_kill <= now < began + self.seconds / 3:
                if not deck:
                    deck = chance.sample(self.stack.parts, len(self.stack.parts))
                part = deck.pop()
                self.kills.append(Kill(now, part))
                part.kill(with_children=part is self.stack.postgres)
                part.start()
                next_kill += self.kill_seconds
            for part in self.stack.parts:
                part.start_if_it_ended()
            for kill in self.kills:
                if kill.back is None and self._answers(kill.part):
                    kill.back = time.monotonic()
                    with suppress(psutil.Error):
                        kill.processor_seconds = sum(psutil.Process(kill.part.pid).cpu_times()[:2])
            time.sleep(0.1)

    def _answers(self, part: Part) -> bool:
        """Tell whether it is there again for clients, who need no other parts than these to be answered."""
        with suppress(psycopg.Error, httpx.HTTPError):
            if part is self.stack.postgres:
                self.stack.query("SELECT 1")
            elif part is self.stack.api:
                with self.stack.client(1) as client:
                    client.get("/healthz")
            return True
        return False

    def _sample(self, now: float) -> None:
        for part in self.stack.parts:
            self.growth.sample(part.name, part.pid, now)
            try:
                children = psutil.Process(part.pid).children()
                commands = [(child.pid, child.cmdline()) for child in children]
            except psutil.Error:
                continue
            for pid, command in commands:
                if part is self.stack.postgres and command:
                    # "postgres: prefsvm prefsvm 127.0.0.1(5) idle" and "postgres: checkpointer"
                    is_connection = len(command[0].split()) > 3
                    self.growth.sample("postgres, connections" if is_connection else "postgres, others", pid, now)
                elif part is not self.stack.redis:
                    self.growth.sample(f"{part.name}, children", pid, now)

    # ------------------------------------------------------------------------------------------------ what must hold

    def _settle(self, trained_by: str) -> None:
        left, since = -1, time.monotonic()
        while left != 0:
            for part in self.stack.parts:
                part.start_if_it_ended()
            ((now_left,),) = self.stack.query("SELECT count(*) FROM jobs WHERE status IN ('queued', 'running')")
            if now_left != left:
                left, since = now_left, time.monotonic()
            assert time.monotonic() < since + SETTLE_SECONDS, f"{left} jobs are left, and none of them ends"
            time.sleep(0.1)
        for what, statement in BROKEN.items():
            # The stand-in's models name their job and attempt; the one real model does not.
            rows = [row for row in self.stack.query(statement) if row[0] != trained_by or "attempt, or" not in what]
            self.wrong += [f"{what}: {row}" for row in rows[:5]]
        ((jobs,),) = self.stack.query("SELECT count(*) FROM jobs")
        # One that was accepted while its client's connection broke is there, too.
        if jobs < self.accepted + 1:
            self.wrong.append(f"{self.accepted + 1} trainings were accepted, {jobs} are there")

    def _judge(self) -> None:
        self.wrong += [
            f"{what}, {self._since_a_kill(sent)}"
            for sent, ended, what in self.failures
            if not self._is_excused(sent, ended)
        ]
        for kill in self.kills:
            if kill.back is None:
                self.wrong.append(f"{kill.part.name} did not come back")
            elif kill.part is self.stack.api and kill.processor_seconds > MOST_PROCESSOR_SECONDS:
                self.wrong.append(f"the API took {kill.processor_seconds:.1f} s of a processor to start")
        for name, most_connections in MOST_CONNECTIONS.items():
            most_seen = self.growth.most_connections(name)
            if most_seen > most_connections:
                self.wrong.append(f"{name}: {most_seen} connections to Postgres, its pools have {most_connections}")
        for name in self.growth.processes:
            for what, found, most in self._slopes(name):
                if found is not None and found.low > most and (name, what) != (KEEPS_FILES_OPEN, DESCRIPTORS):
                    self.wrong.append(f"{name}: {what} grows by {found.low:.1f} to {found.high:.1f} an hour")

    def _since_a_kill(self, moment: float) -> str:
        before = [kill for kill in self.kills if kill.moment <= moment]
        if not before:
            return "before any kill"
        kill = before[-1]
        told = f"{moment - kill.moment:.1f} s after {kill.part.name} was killed"
        return told if kill.back is None else f"{told}, {moment - kill.back:.1f} s after it was back"

    def _slopes(self, name: str) -> list[tuple[str, Slope | None, float]]:
        return [
            ("memory (MiB)", self.growth.memory(name), MOST_MEMORY_PER_HOUR),
            (DESCRIPTORS, self.growth.descriptors(name), MOST_DESCRIPTORS_PER_HOUR),
        ]

    # ------------------------------------------------------------------------------------------------------- report

    def table(self) -> str:
        """Return what happened, for people."""
        killed = Counter(kill.part.name for kill in self.kills)
        away = {
            part.name: max(kill.back - kill.moment for kill in self.kills if kill.part is part and kill.back)
            for part in (self.stack.postgres, self.stack.api)
            if any(kill.part is part and kill.back for kill in self.kills)
        }
        excused = sum(self._is_excused(sent, ended) for sent, ended, _ in self.failures)
        p50, p99 = np.quantile(self.took, [0.5, 0.99]) * 1000 if self.took else (float("nan"),) * 2
        lines = [
            f"{self.seconds / 60:.0f} minutes, {self.accepted} trainings accepted, {dict(self.answers)}",
            f"  killed: {dict(killed) or 'nothing'}; away at most "
            f"{', '.join(f'{name} {seconds:.1f} s' for name, seconds in away.items()) or '0 s'}; "
            f"{len(self.failures)} calls failed, {excused} of them from a kill until {EXCUSED_SECONDS:g} s after the "
            f"return; other predictions: median {p50:.1f} ms, p99 {p99:.1f} ms",
            f"  {'':24}{'processes':>10}{'hours':>7}{'MiB':>8}  {'MiB an hour (95 %)':26}{'descriptors':>11}  an hour",
        ]
        for name, processes in sorted(self.growth.processes.items()):
            (_, memory, most), (_, descriptors, most_descriptors) = self._slopes(name)
            last = [(samples.memory[-1], samples.descriptors[-1]) for samples in processes.values()]
            mib, open_now = np.max(last, axis=0)
            lines.append(
                f"  {name:24}{len(processes):10}{memory.hours if memory else 0:7.2f}{mib:8.1f}  "
                f"{told(memory, most):26}{open_now:11.0f}  {told(descriptors, most_descriptors)}"
            )
        lines.append(f"  wrong: {self.wrong or 'nothing'}")
        return "\n".join(lines)


def is_closed_by_the_client(error: httpx.HTTPError) -> bool:
    """Tell whether httpx ended the call's connection itself, which is no failure of the service.

    Its pool (httpcore 1.0) may take an idle connection for a call and, before the call begins, close it because its
    time as an idle one is over. Beside a server that never ends a connection, with 0.3 s for that time, so ended one
    of 1,800 calls.
    """
    reason: BaseException | None = error
    while reason is not None and not isinstance(reason, anyio.ClosedResourceError):
        reason = reason.__cause__ or reason.__context__
    return reason is not None


def told(found: Slope | None, most: float) -> str:
    """Return a slope with its interval, and what that says of a bar."""
    if found is None:
        return "too short-lived"
    word = "grows" if found.low > most else "flat" if found.high < most else "unsure"
    return f"{found.estimate:+.1f} ({found.low:+.1f} to {found.high:+.1f}) {word}"

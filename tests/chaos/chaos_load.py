"""Clients that send uploads and trainings, and send them again with the same key until they are accepted."""

from __future__ import annotations

import hashlib
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx
from chaos_stack import ChaosStack

ROWS = "age,job,label\n" + "".join(f"{20 + i % 40},{'ab'[i % 2]},{('spam', 'ham', '')[i % 3]}\n" for i in range(60))
RETRY_SECONDS = 0.3
UPLOAD_EVERY = 20
TWICE_EVERY = 10


@dataclass
class Load:
    """Sends a number of trainings, each with an Idempotency-Key of its own, from a few threads.

    Every tenth is sent twice at the same time on purpose, every twentieth comes with an upload of its own.

    Parameters
    ----------
    stack : ChaosStack
    jobs : int
    most_open : int
        No new training is sent while so many are accepted and not finished; `open_jobs` says how many.
    seconds : float
        Longest time of the whole load.
    threads : int
    """

    stack: ChaosStack
    jobs: int
    most_open: int = 40
    seconds: float = 600.0
    threads: int = 4
    open_jobs: int = 0
    accepted: dict[str, str] = field(default_factory=dict)
    """Job id by key."""
    uploaded: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the accepted uploads by id of the data set."""
    answers: Counter[str] = field(default_factory=Counter)
    """What the client got, other than acceptance at the first try."""
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._numbers: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(self.jobs):
            self._numbers.put(number)
        self._lock = threading.Lock()
        self._give_up = time.monotonic() + self.seconds
        self._shared_dataset = ""
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(self.threads)]

    def start(self) -> None:
        """Upload the data set that most trainings use, then start the threads."""
        with self.stack.client() as client:
            self._shared_dataset = self._upload(client, "shared")
        for thread in self._threads:
            thread.start()

    @property
    def done(self) -> bool:
        """Whether everything was accepted or given up."""
        return not any(thread.is_alive() for thread in self._threads)

    def join(self) -> None:
        """Wait for the end, which `seconds` bounds."""
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        try:
            with self.stack.client() as one, self.stack.client() as other, ThreadPoolExecutor(1) as beside:
                while time.monotonic() < self._give_up:
                    if self.open_jobs >= self.most_open:
                        time.sleep(0.1)
                        continue
                    number = self._numbers.get_nowait()
                    key = f"training-{number}"
                    has_own = number % UPLOAD_EVERY == UPLOAD_EVERY // 2
                    dataset = self._upload(one, str(number)) if has_own else self._shared_dataset
                    body = training(dataset, number)
                    second = beside.submit(self._train, other, key, body) if number % TWICE_EVERY == 0 else None
                    job_id = self._train(one, key, body)
                    if second is not None and second.result() != job_id:
                        self._complain(f"{key} made two jobs: {job_id} and {second.result()}")
                    with self._lock:
                        self.accepted[key] = job_id
        except queue.Empty:
            return
        except Exception as error:
            self._complain(f"a client ended with {error!r}")

    def _upload(self, client: httpx.Client, name: str) -> str:
        content = f"{ROWS}20,a,spam {name}\n".encode()
        made: str = self._send(client, "/datasets", f"upload-{name}", 201, files={"file": ("rows.csv", content)})
        with self._lock:
            self.uploaded[made] = hashlib.sha256(content).hexdigest()
        return made

    def _train(self, client: httpx.Client, key: str, body: dict[str, Any]) -> str:
        return self._send(client, "/train", key, 202, json=body)

    def _send(self, client: httpx.Client, path: str, key: str, status: int, **content: Any) -> str:
        while time.monotonic() < self._give_up:
            try:
                answer = client.post(path, headers={"Idempotency-Key": key}, **content)
            except httpx.HTTPError as error:
                got = type(error).__name__
            else:
                if answer.status_code == status:
                    return str(answer.json()["id"])
                got = str(answer.status_code)
                if answer.status_code != 503:
                    raise RuntimeError(f"POST {path} with {key}: {got} {answer.text[:300]}")
            with self._lock:
                self.answers[got] += 1
            time.sleep(RETRY_SECONDS)
        raise TimeoutError(f"POST {path} with {key} was not accepted in time")

    def _complain(self, what: str) -> None:
        with self._lock:
            self.wrong.append(what)


def training(dataset: str, number: int) -> dict[str, Any]:
    """Return a body of POST /train; `number` tells the stand-in how long to take."""
    return {
        "dataset": dataset, "target": "label", "positive": "spam", "objective": {"kind": "recall", "target": 0.9},
        "algorithm": "svm", "seed": number,
    }  # fmt: skip


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    """Wait for something that must come true within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen within {seconds:g} s"
        time.sleep(0.1)


def upload(stack: ChaosStack) -> str:
    """Upload the rows and return the id of the data set."""
    with stack.client(60) as client:
        answer = client.post("/datasets", files={"file": ("rows.csv", ROWS.encode())})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def send(stack: ChaosStack, dataset: str, number: int, **fields: object) -> str:
    """Send one training, which must be accepted at once, and return the id of its job."""
    with stack.client() as client:
        answer = client.post("/train", json={**training(dataset, number), **fields})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])

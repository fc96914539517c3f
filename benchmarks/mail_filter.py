"""How long the mail filter takes: reading real mails, and a mail through each door, alone and twenty at a time.

Bars (issue "Spam filtering that a mail admin can switch on today"): no mail of the corpus fails to be read, 99 % within
50 ms; a mail of 100 KB through the protocol of spamd, 20 at a time: 99 % within 100 ms. Times of a machine that others
use, too, say little; so processor time a mail and the load stand beside them. Real mails (the SpamAssassin corpus) are
looked for in ``--data``; without them, made-up ones are taken and the first part is left out.

    python -P benchmarks/mail_filter.py --out benchmarks/results/mail_filter_tables.md
    python -P benchmarks/mail_filter.py --sizes 100000 --at-once 20 --processes 2     # the bar alone, under a minute

Prints what it finds, and writes it with ``--out``, which replaces what is there; what it means is written by hand
beside it, in ``results/mail_filter.md``.
"""

from __future__ import annotations

import argparse
import io
import itertools
import os
import random
import socket
import statistics
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from service.ingest.mail import read_mail
from service.local.stack import Stack, local_stack

HERE = Path(__file__).parent
SIZES = (4_000, 100_000)
AT_ONCE = (1, 20)
MAILS = 300
PROCESSES = (1, 2)
BAR = ("spamd", 100_000, 20, 100)
"""Door, bytes, how many at once, and the milliseconds that 99 % may take."""


def corpus(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield class and bytes of each real mail there is."""
    for name, label in (("spam_1", "spam"), ("easy_ham_1", "ham")):
        path = folder / f"spamassassin_{name}.tar.gz"
        if path.exists():
            with tarfile.open(path) as archive:
                for member in archive:
                    if member.isfile() and member.name.endswith(".eml"):
                        yield label, archive.extractfile(member).read()  # type: ignore[union-attr]


def made_up() -> list[tuple[str, bytes]]:
    words = {"spam": "prize money winner claim offer", "ham": "report meeting project budget minutes"}
    rng = random.Random(0)  # noqa: S311 (no secret)
    return [
        (label, f"Subject: {i}\n\n{' '.join(rng.choices(said.split(), k=60))}\n".encode())
        for i in range(300)
        for label, said in words.items()
    ]


def percentiles(seconds: list[float]) -> tuple[float, float, float]:
    cuts = statistics.quantiles(seconds, n=100)
    return 1000 * cuts[49], 1000 * cuts[98], 1000 * max(seconds)


def of_size(mails: list[bytes], size: int) -> list[bytes]:
    """Put real texts together until a mail has so many bytes."""
    rng = random.Random(size)  # noqa: S311
    made = []
    for _ in range(20):
        raw = rng.choice(mails)
        while len(raw) < size:
            raw += rng.choice(mails).partition(b"\n\n")[2]
        made.append(raw[:size])
    return made


def trained(api: httpx.Client, mails: list[tuple[str, bytes]]) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for i, (label, raw) in enumerate(mails):
            entry = tarfile.TarInfo(f"{label}/{i}.eml")
            entry.size = len(raw)
            tar.addfile(entry, io.BytesIO(raw))
    dataset = api.post("/datasets", files={"file": ("mails.tar.gz", packed.getvalue())}).json()["id"]
    body = {"dataset": dataset, "target": "label", "positive": "spam", "objective": {"kind": "f1"}, "algorithm": "svm"}
    job = api.post("/train", json=body | {"alias": "spam-filter"}).json()
    while api.get(f"/jobs/{job['id']}").json()["status"] in ("queued", "running"):
        time.sleep(0.5)


def by_spamd(port: int, raw: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"REPORT SPAMC/1.5\r\nContent-length: %d\r\n\r\n" % len(raw) + raw)
        answer = b""
        while part := connection.recv(4096):
            answer += part
    assert b"Spam: " in answer, answer
    assert b"PREFSVM_" in answer, "not decided on"


@dataclass(frozen=True)
class Timed:
    """Seconds of each mail, and of all of them."""

    each: list[float]
    all: float


def timed(ask: Callable[[bytes], None], mails: list[bytes], at_once: int) -> Timed:
    """Ask by so many clients, each of which sends a mail when the one before is answered."""

    def one(i: int) -> float:
        began = time.perf_counter()
        ask(mails[i % len(mails)])
        return time.perf_counter() - began

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(one, range(2 * at_once)))
        began = time.perf_counter()
        each = list(pool.map(one, range(MAILS)))
        return Timed(each, time.perf_counter() - began)


class Processes:
    """The process of a door, and those that it has forked."""

    def __init__(self, stack: Stack, module: str) -> None:
        below = psutil.Process(stack.pid).children(recursive=True)
        alive = [each for each in below if each.status() != psutil.STATUS_ZOMBIE]
        self._all = [each for each in alive if module in each.cmdline()]

    def spent(self) -> float:
        """Return seconds of processor time so far."""
        return sum(sum(each.cpu_times()[:2]) for each in self._all)

    def memory(self) -> str:
        """Return what each holds, memory that they share parted among them, in MB."""
        return ", ".join(f"{each.memory_full_info().pss / 1e6:.0f}" for each in self._all)


def numbers(text: str) -> list[int]:
    return list(map(int, text.split(",")))


def doors(data: list[tuple[str, bytes]], asked: argparse.Namespace) -> Iterator[str]:
    """Yield a line a door, number of processes, size and number of clients."""
    with tempfile.TemporaryDirectory() as folder:
        for processes in asked.processes:
            yield from _doors(data, Path(folder) / str(processes), processes, asked)


def _doors(data: list[tuple[str, bytes]], folder: Path, processes: int, wanted: argparse.Namespace) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = {
        "PREFSVM_MAIL_LISTEN": f"127.0.0.1:{port}",
        "PREFSVM_MAIL_SECONDS": "60",
        "PREFSVM_MAIL_PROCESSES": str(processes),
    }
    with local_stack(folder, environment=environment) as stack, httpx.Client(base_url=stack.url, timeout=600) as api:
        trained(api, data)

        def by_api(raw: bytes) -> None:
            head = {"Content-Type": "message/rfc822"}
            api.post("/predict?model=spam-filter", content=raw, headers=head).raise_for_status()

        asked = {"spamd": (lambda raw: by_spamd(port, raw), "service.mailfilter.main")}
        if processes == 1:
            asked["/predict"] = by_api, "service.app"
        for door, (ask, module) in asked.items():
            own = Processes(stack, module)
            for size, at_once in itertools.product(wanted.sizes, wanted.at_once):
                mails = of_size([raw for _, raw in data], size)
                before = own.spent()
                found = timed(ask, mails, at_once)
                each = 1000 * (own.spent() - before) / (MAILS + 2 * at_once)
                half, most, longest = percentiles(found.each)
                rate = MAILS / found.all
                said = "" if (door, size, at_once) != BAR[:3] else "met" if most <= BAR[3] else "**missed**"
                yield (
                    f"| {door}, {processes} | {size:,} | {at_once} | {half:.0f} | {most:.0f} | {longest:.0f} | "
                    f"{rate:.0f} | {each:.1f} | {own.memory()} | {said} |"
                )


def report(asked: argparse.Namespace) -> Iterator[str]:
    load, cores = os.getloadavg()[0], os.cpu_count()
    yield "# The mail filter: times\n"
    yield "Written by `benchmarks/mail_filter.py --out`, which replaces all of this file; what it means stands in"
    yield f"[mail_filter.md](mail_filter.md). {cores} cores, load {load:.1f} at the start. Times in ms.\n"
    data = list(corpus(asked.data))
    if data:
        times, spent = [], []
        for _, raw in data:
            began, used = time.perf_counter(), time.process_time()
            read_mail(raw)
            times.append(time.perf_counter() - began)
            spent.append(time.process_time() - used)
        half, most, longest = percentiles(times)
        _, most_spent, longest_spent = percentiles(spent)
        yield f"Reading the {len(data):,} mails of the SpamAssassin corpus: no error; half of them within {half:.2f},"
        yield f"99 % within {most:.1f} (processor time {most_spent:.1f}), all within {longest:.0f}"
        yield f"(processor time {longest_spent:.0f})."
        yield ""
    yield f"{MAILS} mails, put together from texts of the corpus, from clients that each send one after the other;"
    yield "behind the name of the door `PREFSVM_MAIL_PROCESSES`; memory in MB a process. The bar: 99 % of mails of "
    yield f"{BAR[1]:,} bytes, {BAR[2]} at once by spamd's protocol, within {BAR[3]} ms.\n"
    yield "| door | bytes | at once | half within | 99 % within | all within | mails/s | processor | memory | bar |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    yield from doors(data or made_up(), asked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=HERE.parents[1] / "shared" / "data")
    parser.add_argument("--sizes", type=numbers, default=SIZES, help="Bytes a mail.")
    parser.add_argument("--at-once", type=numbers, default=AT_ONCE, help="Clients.")
    parser.add_argument("--processes", type=numbers, default=PROCESSES, help="That decide.")
    parser.add_argument("--out", type=Path, help="Write it there, besides printing it.")
    asked = parser.parse_args()
    lines = []
    for line in report(asked):
        print(line, flush=True)
        lines.append(line)
    if asked.out is not None:
        asked.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

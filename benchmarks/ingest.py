"""Speed and memory of reading a CSV file, beside pyarrow's own reader and writer: pairs, taken in turn.

`python -P benchmarks/ingest.py --rows 1000000 --columns 30 --pairs 3` from the root of the repository.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
import pyarrow.csv

from service.ingest.run import ingest
from service.settings import Settings

PLAIN = """
import sys, time, pyarrow.csv, pyarrow.parquet
started = time.perf_counter(), time.process_time()
pyarrow.parquet.write_table(pyarrow.csv.read_csv(sys.argv[1]), sys.argv[2])
memory = next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM:")) / 1024
print(time.perf_counter() - started[0], time.process_time() - started[1], memory)
"""


def write_csv(path: Path, rows: int, columns: int) -> None:
    """Write floats, whole numbers and categories, a third each."""
    rng = np.random.default_rng(0)
    makers = (
        lambda n: rng.normal(size=n).round(6),
        lambda n: rng.integers(0, 100_000, n),
        lambda n: np.array([f"level {i}" for i in range(50)])[rng.integers(0, 50, n)],
    )
    schema = None
    with path.open("wb") as out:
        for start in range(0, rows, 100_000):
            n = min(100_000, rows - start)
            table = pa.table({f"c{j}": makers[j % 3](n) for j in range(columns)})
            options = pyarrow.csv.WriteOptions(include_header=schema is None, quoting_style="needed")
            schema = table.schema
            pyarrow.csv.write_csv(table, out, options)


def plain(path: Path, output: Path) -> tuple[float, float, float]:
    """Seconds, seconds of processor time, and MiB of pyarrow alone."""
    done = subprocess.run([sys.executable, "-c", PLAIN, path, output], capture_output=True, text=True, check=True)
    seconds, cpu, memory = map(float, done.stdout.split())
    return seconds, cpu, memory


def ours(path: Path, output: Path) -> tuple[float, float, float]:
    """The same of the child that reads uploads, with the start of its process."""
    started = time.perf_counter()
    result = asyncio.run(ingest(Settings(), path, "csv", {}, output=output))
    seconds = time.perf_counter() - started
    output.unlink()
    return seconds, result.cpu_seconds, result.peak_memory_bytes / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=30)
    parser.add_argument("--pairs", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder, "in.csv"), Path(folder, "out")
        write_csv(path, arguments.rows, arguments.columns)
        print(f"{arguments.rows} rows, {arguments.columns} columns, {path.stat().st_size / 2**20:.0f} MiB")
        ratios, cpu_ratios = [], []
        for _ in range(arguments.pairs):
            theirs, mine = plain(path, output), ours(path, output)
            ratios.append(mine[0] / theirs[0])
            cpu_ratios.append(mine[1] / theirs[1])
            print(
                f"pyarrow {theirs[0]:.2f} s ({theirs[1]:.2f} s of CPU, {theirs[2]:.0f} MiB)   "
                f"ingest {mine[0]:.2f} s ({mine[1]:.2f} s of CPU, {mine[2]:.0f} MiB)   ratio {ratios[-1]:.2f}"
            )
        print(f"median ratio: time {statistics.median(ratios):.2f}, CPU {statistics.median(cpu_ratios):.2f}; bar 2")


if __name__ == "__main__":
    main()

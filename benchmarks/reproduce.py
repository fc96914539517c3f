"""Run a paper's experiments again, its tables beside ours: ``python -P benchmarks/reproduce.py psvm --data DIR``.

Exit code 1 when a required pattern is missed, 2 when a data set is absent or damaged. See ``docs/reproduction.md``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.reproduction import PAPERS, DataError


def main() -> None:
    """Read the command line, run, print and write."""
    parser = argparse.ArgumentParser(description="Run a paper's experiments again, its tables beside ours.")
    parser.add_argument("paper", choices=PAPERS)
    parser.add_argument("--data", type=Path, required=True, help="folder with the papers' data sets as .npz files")
    parser.add_argument("--quick", action="store_true", help="a smaller run, minutes on two cores")
    parser.add_argument("--seeds", type=int, help="random draws (default: by the paper)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder for the results")
    options = parser.parse_args()
    if options.seeds is not None and options.seeds < 1:
        parser.error("--seeds must be at least 1")
    try:
        found = PAPERS[options.paper].reproduce(
            options.data,
            quick=options.quick,
            seeds=options.seeds,
            say=lambda line: print(line, file=sys.stderr, flush=True),
        )
    except DataError as error:
        parser.error(str(error))
    print(found.to_markdown())
    for path in found.write(options.out, f"reproduce-{options.paper}{'-quick' if options.quick else ''}"):
        print(f"written: {path}")
    sys.exit(0 if all(pattern.met for pattern in found.patterns) else 1)


if __name__ == "__main__":
    main()

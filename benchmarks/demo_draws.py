"""Is what ``make demo`` shows typical? Its two parts on other draws, over HTTP and with its own requests.

    python -P benchmarks/demo_draws.py [--draws 10]

Writes `benchmarks/results/demo_draws.json`, from which the demo says how other draws went.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx

sys.path.append(str(Path(__file__).parents[1] / "scripts"))

import demo

from service.local.stack import local_stack
from solver.examples import POSITIVE, breast_tumours, handwritten_digits


def tumours(client: httpx.Client, seed: int) -> dict[str, Any]:
    """Part 1 of the demo."""
    example = breast_tumours(seed, labelled=demo.DIAGNOSES)
    dataset = demo.upload(client, "tumours.csv", example)
    model = demo.train(client, "", demo.tumours_request(dataset, seed), quiet=True)
    test = demo.truth_about(client, model, example, POSITIVE)
    return {
        "status": model["report"]["status"],
        "test_recall": test["recall"]["value"],
        "test_precision": test["precision"]["value"],
    }


def pictures(client: httpx.Client, seed: int) -> dict[str, Any]:
    """Part 2 of the demo; also what the report says of the gain, by which mode ``safe`` decides."""
    example = handwritten_digits(seed, labelled=demo.PICTURES)
    dataset = demo.upload(client, "pictures.csv", example)
    found: dict[str, Any] = {}
    for algorithm in ("cluster", "svm"):
        model = demo.train(client, "", demo.pictures_request(dataset, seed, algorithm), quiet=True)
        found[f"{algorithm}_f1"] = demo.truth_about(client, model, example, "8")["f1"]["value"]
        if algorithm == "cluster":
            comparison = model["report"]["comparison"]
            found |= {name: comparison[name] for name in ("gain", "standard_error")}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10)
    seeds = range(parser.parse_args().draws)
    with (
        tempfile.TemporaryDirectory(prefix="prefsvm-draws-") as folder,
        local_stack(Path(folder) / "data") as stack,
        httpx.Client(base_url=stack.url, timeout=60) as client,
    ):
        measured = {part.__name__: [part(client, seed) for seed in seeds] for part in (tumours, pictures)}
    demo.DRAWS.write_text(json.dumps(measured, indent=1) + "\n")
    print(f"{len(seeds)} draws: {demo.DRAWS}")


if __name__ == "__main__":
    main()

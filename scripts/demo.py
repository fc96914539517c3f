"""What prefsvm is for, end to end over HTTP, and honestly what came out (``make demo``).

1. A requirement that is proven: find malignant tumours at a recall of at least 0.9, with a confidence of 0.95. 200 of
   398 real tumours have a diagnosis; 171 others show the truth.
2. Unlabelled rows that pay: tell a handwritten 8 from a 3 with 30 labels and 219 pictures without one; beside it the
   plain SVM on the same 30. 108 other pictures show the truth.

What is shown is draw 0 of both. How other draws went stands in the last line of each part, as
``benchmarks/demo_draws.py`` has measured it with the same requests.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from service.cli.support import phase_words
from service.local.processes import descendants, process_table
from service.local.stack import local_stack
from solver.evaluation import confusion, measures
from solver.examples import POSITIVE, TARGET, Example, breast_tumours, handwritten_digits

RECALL, CONFIDENCE, DIAGNOSES = 0.9, 0.95, 200
PICTURES = 30
DRAWS = Path(__file__).parents[1] / "benchmarks/results/demo_draws.json"
console = Console(highlight=False, width=100)


@dataclass
class Step:
    name: str
    seconds: float
    peak_bytes: int


@dataclass
class Meter:
    """Seconds and peak memory of each step: the summed PSS of the processes of the stack, ten samples a second."""

    root_pid: int
    steps: list[Step] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        stop = threading.Event()
        peak = 0

        def sample() -> None:
            nonlocal peak
            while True:
                peak = max(peak, stack_bytes(self.root_pid))
                if stop.wait(0.1):
                    return

        sampler = threading.Thread(target=sample, daemon=True)
        begun = time.perf_counter()
        sampler.start()
        try:
            yield
        finally:
            seconds = time.perf_counter() - begun
            stop.set()
            sampler.join()
            self.steps.append(Step(name, seconds, peak))


def stack_bytes(root: int) -> int:
    """Return the summed memory of a process and all its descendants."""
    return sum(map(pss_bytes, [root, *descendants(root, process_table())]))


def pss_bytes(pid: int) -> int:
    """Return the memory of a process with shared pages split among their users, 0 where it is gone."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 0


def answer(response: httpx.Response) -> Any:
    """Return the JSON of a good answer; end the demo with the service's own words on a bad one."""
    if response.is_error:
        raise SystemExit(
            f"{response.request.method} {response.request.url.path}: {response.status_code}\n{response.text}"
        )
    return response.json()


def train(client: httpx.Client, title: str, request: dict[str, Any], *, quiet: bool = False) -> dict[str, Any]:
    """Train behind a progress bar; return the model."""
    job = answer(client.post("/train", json=request))
    columns = (
        TextColumn("  {task.description:<40}"),
        BarColumn(30),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=quiet) as bar:
        task = bar.add_task(title, total=1.0)
        while job["status"] in ("queued", "running"):
            bar.update(task, completed=job["progress"], description=f"{title}: {phase_words(job)}")
            time.sleep(0.1)
            job = answer(client.get(f"/jobs/{job['id']}"))
        bar.update(task, completed=1.0, description=f"{title}: {job['status']}")
    if job["status"] != "succeeded":
        raise SystemExit(f"the job ended as {job['status']}: {job['error']}")
    return dict(answer(client.get(f"/models/{job['model_id']}")))


def upload(client: httpx.Client, name: str, example: Example) -> str:
    """Upload the training rows; return the id of the data set."""
    file = (name, example.training_csv, "text/csv")
    return str(answer(client.post("/datasets", files={"file": file}))["id"])


def truth_about(client: httpx.Client, model: dict[str, Any], example: Example, positive: str) -> dict[str, Any]:
    """Predict the test rows, and hold the answers against their labels."""
    predicted = answer(client.post("/predict", json={"model": model["id"], "rows": example.test_rows}))["predictions"]
    truth = np.array(example.test_labels) == positive
    return measures(confusion(truth, [each["label"] == positive for each in predicted])).to_dict()


def tumours_request(dataset: str, seed: int) -> dict[str, Any]:
    """A training that has to prove its recall."""
    return {
        "dataset": dataset,
        "target": TARGET,
        "positive": POSITIVE,
        "objective": {"kind": "recall", "target": RECALL, "confidence": CONFIDENCE},
        "algorithm": "svm",
        "test_fraction": 0,
        "seed": seed,
    }


def pictures_request(dataset: str, seed: int, algorithm: str) -> dict[str, Any]:
    """A training with the unlabelled pictures (``cluster``), or without them (``svm``)."""
    return {
        "dataset": dataset,
        "target": "digit",
        "positive": "8",
        "objective": {"kind": "f1"},
        "algorithm": algorithm,
        "params": {"mode": "method"} if algorithm == "cluster" else {},
        "test_fraction": 0,
        "seed": seed,
    }


def interval(measure: dict[str, float] | None) -> str:
    """Return ``0.953 (0.87 to 0.99)``."""
    return f"{measure['value']:.3f} ({measure['low']:.2f} to {measure['high']:.2f})" if measure else "undefined"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="another draw: of the splits, the labels and the training")
    seed = parser.parse_args().seed
    console.rule("[bold]prefsvm demo")
    with tempfile.TemporaryDirectory(prefix="prefsvm-demo-") as folder:
        begun = time.perf_counter()
        with local_stack(Path(folder) / "data") as stack, httpx.Client(base_url=stack.url, timeout=60) as client:
            meter = Meter(stack.pid)
            meter.steps.append(Step("start the stack", time.perf_counter() - begun, stack_bytes(stack.pid)))
            draws = json.loads(DRAWS.read_text())
            proven(client, meter, seed, draws["tumours"])
            paid(client, meter, seed, draws["pictures"])
        stopping = time.perf_counter()
    meter.steps.append(Step("stop, nothing left running", time.perf_counter() - stopping, 0))
    costs(meter)


def proven(client: httpx.Client, meter: Meter, seed: int, draws: list[dict[str, Any]]) -> None:
    """Part 1: a requirement with a confidence, and the truth on the test rows beside it."""
    tumours = breast_tumours(seed, labelled=DIAGNOSES)
    malignant = tumours.test_labels.count(POSITIVE)
    console.print(
        f"\n[bold]1  A requirement that is proven[/bold]\n{tumours.rows} real breast tumours, 30 measurements each; "
        f"{tumours.labelled} have a diagnosis. {len(tumours.test_rows)} others are the test.\n"
        f"Asked: find malignant ones at a recall of at least {RECALL}, shown with a confidence of {CONFIDENCE}."
    )
    with meter.step("tumours: upload"):
        dataset = upload(client, "tumours.csv", tumours)
    with meter.step("tumours: train"):
        model = train(client, "svm", tumours_request(dataset, seed))
    with meter.step("tumours: predict"):
        test = truth_about(client, model, tumours, POSITIVE)
    report = model["report"]
    certified = report["status"] == "met"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("(95 % intervals)", "on the certifying rows", f"truth: {len(tumours.test_rows)} test rows"):
        table.add_column(column)
    for measure in ("recall", "precision"):
        table.add_row(measure, interval(report["calibration"][measure]), interval(test[measure]))
    console.print(table)
    told, found = report["calibration"]["precision"], test["precision"]
    if told and found and not told["low"] <= found["value"] <= told["high"]:
        console.print(
            f"No precision was asked for, so none is vouched for: {found['value']:.3f} on the test rows lies outside "
            "the interval of the certifying rows. Only few rows are called malignant, there and here."
        )
    reached = test["recall"]["value"]
    console.print(
        f"[bold]Recall of at least {RECALL}: {'certified' if certified else report['status'].replace('_', ' ')}[/bold]"
        f" at threshold {report['threshold']:.4f}. {report['status_reason']}\n"
        f"On the {malignant} malignant test rows: {test['true_positives']} found, {test['false_negatives']} missed: "
        f"[bold]{'holds' if reached >= RECALL else 'does not hold'}[/bold] ({reached:.3f}).\nFalse alarms: "
        f"{test['false_positives']} of {len(tumours.test_rows) - malignant} benign ones."
    )
    proofs = [draw for draw in draws if draw["status"] == "met"]
    held = sum(draw["test_recall"] >= RECALL for draw in proofs)
    console.print(
        f"Over {len(draws)} draws measured beforehand: certified in {len(proofs)}; of these, {held} held on the test "
        f"rows."
    )


def paid(client: httpx.Client, meter: Meter, seed: int, draws: list[dict[str, Any]]) -> None:
    """Part 2: with the unlabelled rows and without them."""
    pictures = handwritten_digits(seed, labelled=PICTURES)
    console.print(
        f"\n[bold]2  Unlabelled rows that pay[/bold]\n{pictures.rows} real pictures of a handwritten 3 or 8; "
        f"{pictures.labelled} have a label. {len(pictures.test_rows)} others are the test.\n"
        "Asked: tell the 8s, at the best F1. With the unlabelled pictures: `cluster`; without: plain `svm`."
    )
    with meter.step("pictures: upload"):
        dataset = upload(client, "pictures.csv", pictures)
    tests = {}
    for algorithm in ("cluster", "svm"):
        with meter.step(f"pictures: train {algorithm}"):
            model = train(client, algorithm, pictures_request(dataset, seed, algorithm))
        tests[algorithm] = truth_about(client, model, pictures, "8")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("truth: test rows", "with unlabelled rows", "plain svm, labelled rows only"):
        table.add_column(column)
    for measure in ("f1", "recall", "precision"):
        table.add_row(measure, *(interval(test[measure]) for test in tests.values()))
    wrong = [test["false_positives"] + test["false_negatives"] for test in tests.values()]
    table.add_row("wrong", *(f"{count} of {len(pictures.test_rows)}" for count in wrong), style="bold")
    console.print(table)
    gains = np.array([draw["cluster_f1"] - draw["svm_f1"] for draw in draws])
    safe = sum(draw["gain"] > 1.64 * draw["standard_error"] for draw in draws)
    console.print(
        f"Over {len(draws)} draws measured beforehand, F1 {np.mean([draw['cluster_f1'] for draw in draws]):.3f} with "
        f"the unlabelled rows, {np.mean([draw['svm_f1'] for draw in draws]):.3f} without: better in "
        f"{np.sum(gains > 0)}, worse in {np.sum(gains < 0)} (at worst {gains.min():+.3f}). "
        "These data were chosen because their classes are clumps, where unlabelled rows help; often they do not. "
        f"So the default, mode `safe`, asks the labelled rows for proof; here they would have given it in {safe} of "
        f"{len(draws)} draws, and what is shown above is mode `method`."
    )


def costs(meter: Meter) -> None:
    """Print seconds and peak memory of each step."""
    table = Table(title="What it cost", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("step", "seconds", "peak memory, whole stack"):
        table.add_column(column, justify="left" if column == "step" else "right")
    for step in meter.steps:
        table.add_row(step.name, f"{step.seconds:.2f}", f"{step.peak_bytes / 2**20:.0f} MiB" if step.peak_bytes else "")
    table.add_row("together", f"{sum(step.seconds for step in meter.steps):.2f}", "")
    console.print()
    console.print(table)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("stopped; nothing is left running") from None

"""The main job, end to end over HTTP: upload, train, wait, predict, and say honestly what came out (``make demo``).

The data are scikit-learn's 569 breast tumours. 30 % of them are held out as test rows; of the rest nine labels in ten
are removed. The job: find malignant tumours at a recall of at least 0.95.
"""

from __future__ import annotations

import argparse
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

from service.cli_support import phase_words
from service.local.processes import descendants, process_table
from service.local.stack import local_stack
from solver.evaluation import confusion, measures
from solver.examples import POSITIVE, TARGET, breast_tumours

RECALL = 0.95
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


def wait(client: httpx.Client, job: dict[str, Any], title: str) -> dict[str, Any]:
    """Poll a job to its end behind a progress bar."""
    columns = (
        TextColumn("  {task.description:<26}"),
        BarColumn(40),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=1.0)
        while job["status"] in ("queued", "running"):
            bar.update(task, completed=job["progress"], description=f"{title}: {phase_words(job)}")
            time.sleep(0.1)
            job = answer(client.get(f"/jobs/{job['id']}"))
        bar.update(task, completed=1.0, description=f"{title}: {job['status']}")
    if job["status"] != "succeeded":
        raise SystemExit(f"the job ended as {job['status']}: {job['error']}")
    return job


def interval(measure: dict[str, float] | None) -> str:
    """Return ``0.953 (0.87 to 0.99)``."""
    return f"{measure['value']:.3f} ({measure['low']:.2f} to {measure['high']:.2f})" if measure else "undefined"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the split, the removal of labels and the training")
    seed = parser.parse_args().seed
    tumours = breast_tumours(seed)
    labelled, test_rows = tumours.labelled, tumours.test_rows
    truth = np.array(tumours.test_labels) == POSITIVE

    console.rule("[bold]prefsvm demo")
    console.print(
        f"569 real breast tumours, 30 measurements each. {len(test_rows)} are held out as test rows; of the other "
        f"{569 - len(test_rows)} only {labelled} keep their label.\n"
        f"Asked: find [bold]{POSITIVE}[/bold] tumours at a recall of at least [bold]{RECALL}[/bold].\n"
    )
    with tempfile.TemporaryDirectory(prefix="prefsvm-demo-") as folder:
        begun = time.perf_counter()
        with local_stack(Path(folder) / "data") as stack, httpx.Client(base_url=stack.url, timeout=60) as client:
            started = time.perf_counter() - begun
            meter = Meter(stack.pid)
            meter.steps.append(Step("start the stack", started, stack_bytes(stack.pid)))
            with meter.step("upload"):
                dataset = answer(
                    client.post("/datasets", files={"file": ("tumours.csv", tumours.training_csv, "text/csv")})
                )
            common = {
                "dataset": dataset["id"],
                "target": TARGET,
                "positive": POSITIVE,
                "seed": seed,
                "test_fraction": 0,
            }
            common["objective"] = {"kind": "recall", "target": RECALL}
            with meter.step("train psvm"):
                job = answer(client.post("/train", json={**common, "algorithm": "psvm", "alias": "tumours"}))
                job = wait(client, job, "psvm")
            with meter.step("train plain svm"):
                request = {**common, "algorithm": "svm", "params": {"threshold_rule": "zero"}}
                plain_job = wait(client, answer(client.post("/train", json=request)), "plain svm")
            with meter.step("predict"):
                predicted = answer(client.post("/predict", json={"model": "tumours", "rows": test_rows}))
                plain = answer(client.post("/predict", json={"model": plain_job["model_id"], "rows": test_rows}))
            report = answer(client.get(f"/models/{job['model_id']}"))["report"]
            plain_report = answer(client.get(f"/models/{plain_job['model_id']}"))["report"]
        stopping = time.perf_counter()
    meter.steps.append(Step("stop, nothing left running", time.perf_counter() - stopping, 0))

    results = {
        name: (trained, measures(confusion(truth, [p["label"] == POSITIVE for p in answered["predictions"]])))
        for name, trained, answered in (("psvm", report, predicted), ("plain svm", plain_report, plain))
    }
    show(results, int(truth.sum()), labelled)
    costs(meter, {"psvm": report, "plain svm": plain_report})


def show(results: dict[str, tuple[dict[str, Any], dict[str, Any]]], positives: int, labelled: int) -> None:
    """Print what was reached, beside the plain SVM on the labelled rows alone."""
    table = Table(title="What was reached (95 % intervals)", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for name in results:
        table.add_column("psvm" if name == "psvm" else "plain svm, labelled rows only")
    table.add_row("threshold on the score", *(f"{report['threshold']:.4f}" for report, _ in results.values()))
    for measure in ("recall", "precision", "f1"):
        table.add_row(
            f"calibration {measure}", *(interval(report["calibration"][measure]) for report, _ in results.values())
        )
    for measure in ("recall", "precision", "f1"):
        table.add_row(f"test {measure}", *(interval(test[measure]) for _, test in results.values()), style="bold")
    console.print(table)

    matrix = Table(title="Confusion matrix on the test rows", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("", "psvm: said malignant", "said benign", "plain svm: said malignant", "said benign"):
        matrix.add_column(column, justify="left" if not column else "right")
    for row, (hit, miss) in {
        "malignant": ("true_positives", "false_negatives"),
        "benign": ("false_positives", "true_negatives"),
    }.items():
        matrix.add_row(f"is {row}", *(str(test[key]) for _, test in results.values() for key in (hit, miss)))
    console.print(matrix)

    report, test = results["psvm"]
    reached = test["recall"]["value"]
    verdict = "met" if reached >= RECALL else "missed"
    console.print(
        f"Recall of at least {RECALL}: {report['status'].replace('_', ' ')} on the calibration rows; "
        f"on the {positives} malignant test rows [bold]{verdict}[/bold] ({reached:.3f}). {report['status_reason']}"
    )
    comparison = report["comparison"]
    console.print(
        f"What the unlabelled rows bought on the calibration rows: F1 {comparison['gain']:+.3f} (standard error "
        f"{comparison['standard_error']:.3f}). "
        + (
            "Too little to rely on: mode 'safe', the default, returned the same method without them."
            if comparison["returned"] == "no_unlabelled"
            else "The model with them was returned."
        )
    )
    console.print(f"With {labelled} labelled rows all figures are rough: look at the intervals.")
    for warning in report["warnings"]:
        console.print(f"Note: {warning}")


def costs(meter: Meter, reports: dict[str, dict[str, Any]]) -> None:
    """Print seconds and peak memory of each step."""
    table = Table(title="What it cost", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("step", "seconds", "peak memory, whole stack"):
        table.add_column(column, justify="left" if column == "step" else "right")
    for step in meter.steps:
        table.add_row(step.name, f"{step.seconds:.2f}", f"{step.peak_bytes / 2**20:.0f} MiB" if step.peak_bytes else "")
    for name, report in reports.items():
        peak = report["peak_memory_bytes"] / 2**20
        table.add_row(
            f"  {name}: fit alone, in its own process", f"{report['timings']['training']:.2f}", f"{peak:.0f} MiB"
        )
    console.print(table)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("stopped; nothing is left running") from None

"""SHA-256 of models, scores and reports of a fixed set of trainings over HTTP: does a change move a bit?

    python -P benchmarks/digests.py --out before.json       # at one commit
    python -P benchmarks/digests.py --against before.json   # at another one, on the same machine

Every algorithm on measurements, on short texts and on mails; besides, what has a path of its own: each solver, `tune`,
three classes (one of them named, or all told apart), missing values, every kind of objective, rows that are left
undecided, and no negative label. A digest holds for one processor and one set of libraries, so both ends are run on one
machine. Three digests a training: of the arrays in the model file (what was solved), of the scores and decisions for
rows that it has not seen, of the report without what the clock, the memory and ids say.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from service.local.stack import local_stack
from solver.algorithms import ALGORITHMS
from solver.examples import breast_tumours

Training = tuple[str, str, dict[str, Any]]
"""Name, data set, and the request without the data set."""
PASSING = {"id", "created_at", "dataset", "job", "model", "model_id", "timings", "seconds", "peak_memory_bytes"}
"""Keys of reports and answers that differ from run to run."""
WORDS: dict[bool | None, list[str]] = {
    True: ["winner", "prize", "claim", "free", "cash", "urgent", "offer", "click", "now", "bonus", "credit", "loan"],
    False: ["meeting", "tomorrow", "lunch", "report", "thanks", "review", "project", "dinner", "call", "later", "home"],
    None: ["the", "a", "to", "you", "of", "and", "for", "on", "is", "are", "we", "our", "this", "that", "it", "at"],
}


def sentences(rows: int, seed: int) -> list[tuple[str, bool]]:
    """Made-up short texts, a third of them of the positive class."""
    rng = np.random.default_rng(seed)
    made = []
    for positive in (rng.random(rows) < 0.35).tolist():
        kinds = [positive if each < 0.25 else not positive if each < 0.33 else None for each in rng.random(14)]
        made.append((" ".join(str(rng.choice(WORDS[kind])) for kind in kinds), positive))
    return made


def text_csv(rows: int = 360, labelled: int = 80) -> bytes:
    lines = [
        f"{text},{('spam' if positive else 'ham') if row < labelled else ''}"
        for row, (text, positive) in enumerate(sentences(rows, 1))
    ]
    return "\n".join(["text,label", *lines]).encode()


def mail_archive(rows: int = 200, labelled: int = 80) -> bytes:
    """Mails in folders `spam`, `ham` and, without a label, `unknown`."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for row, (text, positive) in enumerate(sentences(rows, 2)):
            folder = ("spam" if positive else "ham") if row < labelled else "unknown"
            headers = f"From: a{row % 7}@example.org\nTo: b@example.org\nSubject: {text[:25]}"
            dated = "Date: Mon, 02 Nov 2026 10:00:00 +0000"
            archive.writestr(f"{folder}/{row:03}.eml", f"{headers}\n{dated}\n\n{text}\n")
    return packed.getvalue()


def mixed_csv(rows: int = 400) -> bytes:
    """Numbers with gaps, a category, a date; three classes, half of the rows without a label."""
    rng = np.random.default_rng(3)
    lines = ["length,width,colour,seen,kind"]
    for row in range(rows):
        kind = int(rng.integers(3))
        length = "" if rng.random() < 0.1 else f"{rng.normal(kind, 0.8):.3f}"
        colour = ("red", "green", "blue")[kind if rng.random() < 0.6 else int(rng.integers(3))]
        seen = f"2026-{1 + (kind * 4 + int(rng.integers(3))) % 12:02d}-{1 + int(rng.integers(28)):02d}"
        lines.append(f"{length},{rng.normal(-kind, 1):.3f},{colour},{seen},{'abc'[kind] if row % 2 else ''}")
    return "\n".join(lines).encode()


def trainings() -> Iterator[Training]:
    f1 = {"kind": "f1"}
    recall = {"kind": "recall", "target": 0.9}
    tumours = {"target": "diagnosis", "positive": "malignant"}
    spam = {"target": "label", "positive": "spam", "unlabeled": ["unknown"]}
    for name, algorithm in ALGORITHMS.items():
        # by itself: what is returned is then what the algorithm learned, and not its control
        alone = {"mode": "method"} if any("method" in each.choices for each in algorithm.parameters) else {}
        yield f"{name}, measurements", "tumours", {**tumours, "algorithm": name, "objective": recall, "params": alone}
        yield f"{name}, texts", "texts", {**spam, "algorithm": name, "objective": f1, "params": alone}
        yield f"{name}, mails", "mails", {**spam, "algorithm": name, "objective": f1}
    for name in ("svm", "psvm", "tsvm"):
        request = {**tumours, "algorithm": name, "objective": f1, "params": {"tune": "C-gamma"}}
        yield f"{name}, tuned", "tumours", request
    for kernel in ("linear", "poly", "sigmoid"):
        request = {**tumours, "algorithm": "svm", "objective": f1, "params": {"kernel": kernel}}
        yield f"svm, {kernel}", "tumours", request
    yield "svm, low rank", "tumours", {**tumours, "algorithm": "svm", "objective": f1, "params": {"solver": "lowrank"}}
    for objective in (
        {"kind": "precision", "target": 0.9, "confidence": 0.9},
        {"kind": "f_beta", "beta": 2.0},
        {"kind": "cost", "false_negative": 5.0, "false_positive": 1.0},
        {"kind": "precision_recall", "precision": 0.8, "recall": 0.8},
    ):
        yield f"svm, {objective['kind']}", "tumours", {**tumours, "algorithm": "svm", "objective": objective}
    undecided = {"kind": "f1", "abstain": {"precision": 0.9}}
    yield "psvm, left undecided", "tumours", {**tumours, "algorithm": "psvm", "objective": undecided}
    yield "auto, positives only", "texts", {**spam, "unlabeled": ["ham"], "algorithm": "auto", "objective": f1}
    for name in ("svm", "psvm"):
        yield f"{name}, mixed columns", "mixed", {"target": "kind", "positive": "b", "algorithm": name, "objective": f1}
    for name in ("svm", "psvm", "auto"):
        several = {"target": "kind", "algorithm": name, "objective": {"kind": "macro_f1"}}
        yield f"{name}, three classes", "mixed", several
    rest = {"target": "kind", "algorithm": "svm", "objective": {"kind": "accuracy"}, "scheme": "one_vs_rest"}
    yield "svm, each class against the rest", "mixed", rest


def sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def lasting(value: Any) -> Any:
    """A report without what differs from run to run."""
    if isinstance(value, dict):
        return {key: lasting(each) for key, each in value.items() if key not in PASSING}
    return [lasting(each) for each in value] if isinstance(value, list) else value


def arrays(model: bytes) -> bytes:
    """Of a safetensors file all but its manifest, with names and shapes of the arrays."""
    length = int.from_bytes(model[:8], "little")
    header = json.loads(model[8 : 8 + length])
    header.pop("__metadata__", None)
    return json.dumps(header, sort_keys=True).encode() + model[8 + length :]


def measure(only: str) -> dict[str, dict[str, str]]:
    example = breast_tumours()
    unseen = {
        "tumours": example.test_rows[:40],
        "texts": [{"text": text} for text, _ in sentences(40, 11)],
        "mails": [{"subject": text[:25], "from": "", "to": "", "body": text} for text, _ in sentences(40, 12)],
        "mixed": [
            {"length": 0.1 * row, "width": 1 - 0.1 * row, "colour": "red", "seen": "2026-05-01"} for row in range(20)
        ],
    }
    files = {
        "tumours": (example.training_csv.encode(), "text/csv", {}),
        "texts": (text_csv(), "text/csv", {}),
        "mixed": (mixed_csv(), "text/csv", {}),
        "mails": (mail_archive(), "application/zip", {"format": "mail"}),
    }
    found: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory(prefix="prefsvm-digests-") as folder, local_stack(Path(folder) / "data") as stack:
        client = httpx.Client(base_url=stack.url, timeout=120)

        def answer(response: httpx.Response) -> Any:
            assert not response.is_error, response.text
            return response.json()

        datasets = {}
        for name, (content, media_type, options) in files.items():
            sent = client.post("/datasets", content=content, headers={"Content-Type": media_type}, params=options)
            datasets[name] = answer(sent)["id"]
        wanted = [each for each in trainings() if only in each[0]]
        jobs = []
        for name, dataset, request in wanted:
            sent = client.post("/train", json={**request, "dataset": datasets[dataset], "seed": 7})
            if sent.is_error:
                found[name] = {"refused": sha256(sent.json()["detail"])}
                print(f"{name:32} refused: {sent.json()['detail'][:100]}", flush=True)
            else:
                jobs.append((name, dataset, sent.json()))
        for name, dataset, job in jobs:
            while job["status"] in ("queued", "running"):
                time.sleep(0.2)
                job = answer(client.get(f"/jobs/{job['id']}"))
            if job["status"] != "succeeded":
                found[name] = {"failed": sha256(job["error"])}
                print(f"{name:32} {job['status']}: {job['error']}", flush=True)
                continue
            model = job["model_id"]
            exported = client.get(f"/models/{model}/export")
            exported.raise_for_status()
            found[name] = {
                "model": hashlib.sha256(arrays(exported.content)).hexdigest()[:16],
                "report": sha256(lasting(answer(client.get(f"/models/{model}"))["report"])),
            }
            predicted = answer(client.post("/predict", json={"model": model, "rows": unseen[dataset]}))
            found[name]["scores"] = sha256(lasting(predicted))
            print(f"{name:32} {'  '.join(f'{key} {value}' for key, value in found[name].items())}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="Trainings whose name holds this.")
    parser.add_argument("--out", type=Path, help="Write the digests to this file.")
    parser.add_argument("--against", type=Path, help="Compare with such a file; exit status 1 where one moved.")
    given = parser.parse_args()
    found = measure(given.only)
    if given.out:
        given.out.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    if given.against:
        before = json.loads(given.against.read_text())
        moved = [
            (name, key) for name in found for key in found[name] if before.get(name, {}).get(key) != found[name][key]
        ]
        for name, key in moved:
            print(f"moved: {key} of {name}")
        print(f"{len(found)} trainings, {len(moved)} digests moved")
        sys.exit(1 if moved else 0)


if __name__ == "__main__":
    main()

"""What a prediction of one short text takes above its encoder's own time, over HTTP on loopback.

    python -P benchmarks/encoder_delay.py --folder FOLDER --pairs 2000

The encoder in a folder (`prefsvm encoder install`) and the whole stack run beside each other. Of each pair one short
text is sent to the encoder itself and another one to `POST /predict`, now the one first and now the other. A model of
words is asked, too. On a busy machine the figures say how busy it is.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx
import numpy as np

from service.encoders.local.folder import read_installed
from service.local.serve import free_port
from service.local.stack import local_stack

KEY = "of-this-run"
BLOCK = 100
WORDS = {"spam": "winner prize claim urgent lottery free", "ham": "meeting minutes agenda report tuesday parcel"}
BAR = 20.0


def text(rng: np.random.Generator, label: str, number: int) -> str:
    return f"{' '.join(rng.choice(WORDS[label].split(), 4))} about number {number}"


def train(client: httpx.Client, alias: str, encoder: str) -> None:
    rng = np.random.default_rng(0)
    lines = [f"{text(rng, label, i)},{label}" for i in range(100) for label in WORDS]
    file = ("notes.csv", "\n".join(["note,label", *lines]).encode())
    dataset = client.post("/datasets", files={"file": file}).raise_for_status().json()
    features = {"kinds": {"note": "text"}, "text": {"encoder": encoder}}
    asked = {"dataset": dataset["id"], "target": "label", "positive": "spam", "objective": {"kind": "f1"},
             "algorithm": "svm", "alias": alias, "features": features}  # fmt: skip
    job = client.post("/train", json=asked).raise_for_status().json()
    while job["status"] in ("queued", "running"):
        time.sleep(0.1)
        job = client.get(f"/jobs/{job['id']}").json()
    assert job["status"] == "succeeded", job["error"]


def timed(client: httpx.Client, url: str, body: dict[str, object]) -> float:
    began = time.perf_counter()
    client.post(url, json=body).raise_for_status()
    return 1000 * (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=2_000)
    arguments = parser.parse_args()
    name, port = read_installed(arguments.folder)[0].name, free_port("127.0.0.1", 0)
    command = [sys.executable, "-m", "service.encoders.local.server", str(arguments.folder.absolute()), str(port)]
    url = f"http://127.0.0.1:{port}/v1"
    told = {"PREFSVM_ENCODER_URL": url, "PREFSVM_ENCODER_MODEL": name, "PREFSVM_ENCODER_KEY": KEY}
    root = Path(__file__).parents[1]
    own = subprocess.Popen(command, cwd=root, env={**os.environ, "PREFSVM_ENCODER_KEY": KEY})
    took: dict[str, list[float]] = {"the encoder itself": [], "a prediction": [], "a prediction by words": []}
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            local_stack(Path(folder), environment=told) as stack,
            httpx.Client(base_url=stack.url, timeout=60, trust_env=False) as client,
            httpx.Client(timeout=60, trust_env=False, headers={"Authorization": f"Bearer {KEY}"}) as direct,
        ):
            train(client, "encoded", "auto")
            train(client, "words", "words")
            rng = np.random.default_rng(1)
            for number in range(arguments.pairs):
                first, second, third = (text(rng, "spam", 1000 + 3 * number + k) for k in range(3))
                asks = [
                    ("the encoder itself", direct, f"{url}/embeddings", {"model": name, "input": [first]}),
                    ("a prediction", client, "/predict", {"model": "encoded", "rows": [{"note": second}]}),
                    ("a prediction by words", client, "/predict", {"model": "words", "rows": [{"note": third}]}),
                ]
                for what, through, where, body in asks if number % 2 else reversed(asks):
                    took[what].append(timed(through, where, body))
    finally:
        own.terminate()
        own.wait()
    blocks = {what: np.array(each)[: len(each) // BLOCK * BLOCK].reshape(-1, BLOCK) for what, each in took.items()}
    quiet = int(np.argmin(np.quantile(blocks["the encoder itself"] + blocks["a prediction"], 0.99, axis=1)))
    for what, each in blocks.items():
        half, late = np.quantile(each, [0.5, 0.99])
        own_half, own_late = np.quantile(each[quiet], [0.5, 0.99])
        print(
            f"{what:22} median {half:.1f}, p99 {late:.1f} ms; in the quietest {BLOCK}: {own_half:.1f}, {own_late:.1f}"
        )
    above = np.quantile(blocks["a prediction"], 0.99) - np.quantile(blocks["the encoder itself"], 0.99)
    above_quiet = np.quantile(blocks["a prediction"][quiet], 0.99) - np.quantile(
        blocks["the encoder itself"][quiet], 0.99
    )
    print(f"p99 above the encoder's own: {above:.1f} ms, in the quietest block {above_quiet:.1f} (bar {BAR:g}); load "
          f"{os.getloadavg()[0]:.1f}")  # fmt: skip


if __name__ == "__main__":
    main()

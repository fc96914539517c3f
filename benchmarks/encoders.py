"""What an encoder of sentences is worth beside words: `svm` on the same draws of labels.

    python -P benchmarks/encoders.py --data FOLDER --url http://127.0.0.1:11434/v1 --model all-minilm --kept FOLDER

Of each `.jsonl` (`text` and `label`, read as `benchmarks/feature_defaults.py` reads them) the first 1,700 rows of a
shuffle are encoded, once, as a deployment would; their vectors are kept in a folder for the next run. On draws of
labelled and 600 unlabelled rows `svm` is trained as a job would train it, and measured on the rest.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.claims import draw
from benchmarks.feature_defaults import texts_of
from service.encoders.client import HttpEncoder
from service.encoders.configuration import EncoderConfig
from solver.evaluation import confusion
from solver.features import Column, EncoderIdentity, Table
from solver.features.encoded import PROBES, encoder_text
from solver.training import TrainingRequest, train

MOST_ROWS = 1_700
FORMS: dict[str, tuple[bool, dict[str, int], str]] = {
    "words": (False, {"characters": 0}, "auto"),
    "words and characters": (False, {}, "auto"),
    "encoder, words and characters": (True, {}, "linear"),
    "encoder and words, linear": (True, {"characters": 0}, "linear"),
    "encoder and words, rbf": (True, {"characters": 0}, "rbf"),
    "encoder alone, linear": (True, {"words": 0, "characters": 0}, "linear"),
    "encoder alone, rbf": (True, {"words": 0, "characters": 0}, "rbf"),
}


class Kept:
    """An encoder whose vectors are kept in a file, by the SHA-256 of their texts."""

    def __init__(self, config: EncoderConfig, file: Path) -> None:
        self._config, self._file = config, file
        self._known: dict[str, np.ndarray] = {}
        self.seconds, self.asked = 0.0, 0
        if file.exists():
            with np.load(file, allow_pickle=False) as kept:
                self._known = dict(zip(kept["digests"].tolist(), kept["vectors"], strict=True))

    def identity(self) -> EncoderIdentity:
        return EncoderIdentity(self._config.model, PROBES, self.encode(PROBES))

    def encode(self, texts: Sequence[str]) -> Any:
        digests = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        new = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in self._known}
        if new:
            began = time.monotonic()
            made = asyncio.run(self._ask(list(new.values())))
            self.seconds, self.asked = self.seconds + time.monotonic() - began, self.asked + len(new)
            self._known |= {d: np.frombuffer(v, dtype="<f4") for d, v in zip(new, made, strict=True)}
        return np.stack([self._known[digest] for digest in digests])

    async def _ask(self, texts: list[str]) -> list[bytes]:
        async with HttpEncoder(self._config) as encoder:
            return await encoder.encode(texts, 60.0)

    def keep(self) -> None:
        np.savez(self._file, digests=list(self._known), vectors=np.stack(list(self._known.values())))


def run(encoder: Kept, texts: Any, positive: Any, labels: int, seed: int, form: str) -> list[float]:
    """F1 and average precision on new rows, and seconds of processor time for the training, encoding aside."""
    is_encoded, text, kernel = FORMS[form]
    rows, new = draw(positive, labels, seed)
    y = np.where(positive[rows], "1", "0").astype(object)
    y[labels:] = None
    request = TrainingRequest(
        algorithm="svm", params={"kernel": kernel}, seed=seed, refit=False, target="label", kinds={"text": "text"},
        text=text, encoder=encoder if is_encoded else None,
    )  # fmt: skip
    began = time.process_time()
    model = train(table(texts[rows]), y, request).model
    seconds = time.process_time() - began
    scores = model.decision.decision_function(model.feature_matrix(table(texts[new]))[0])
    f1 = confusion(positive[new], scores > model.decision.threshold).f1
    return [f1, float(average_precision_score(positive[new], scores)), seconds]


def table(texts: Any) -> Table:
    return Table({"text": Column("text", "text", texts)})


def measure(
    path: Path, encoder: Kept, labels: list[int], draws: int, forms: Sequence[str]
) -> dict[str, np.ndarray] | None:
    """Of each form the figures by number of labels and draw."""
    found = texts_of(path)
    if found is None:
        return None
    texts, positive = found
    some = np.random.default_rng(0).permutation(len(texts))[:MOST_ROWS]
    texts, positive = texts[some], positive[some]
    encoder.encode(list({text for each in texts if (text := encoder_text([each]))}))
    encoder.keep()
    return {
        form: np.array([[run(encoder, texts, positive, n, seed, form) for seed in range(draws)] for n in labels])
        for form in forms
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--kept", type=Path, required=True, help="Folder for vectors.")
    parser.add_argument("--sets", default="", help="Names of files, without their ends, separated by commas.")
    parser.add_argument("--labels", default="20,50,100")
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--forms", default=";".join(FORMS), help="Separated by semicolons; the first is the measure.")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    forms = given.forms.split(";")
    labels = [int(each) for each in given.labels.split(",")]
    config = EncoderConfig(f"{given.url}/embeddings", given.model)
    wanted = [given.data / f"{name}.jsonl" for name in given.sets.split(",") if name]
    means: dict[int, list[np.ndarray]] = {n: [] for n in labels}
    print("| set | labels | " + " | ".join(forms) + " |\n" + "|---" * (2 + len(forms)) + "|")
    for path in wanted or sorted(given.data.glob("*.jsonl")):
        encoder = Kept(config, given.kept / f"{path.stem}.npz")
        made = measure(path, encoder, labels, given.draws, forms)
        if made is None:
            continue
        for place, n in enumerate(labels):
            own = np.stack([made[form][place].mean(axis=0) for form in forms])
            means[n].append(own)
            print(f"| {path.stem} | {n} | " + " | ".join(f"{f1:.3f} / {ap:.3f}" for f1, ap, _ in own) + " |")
        if encoder.asked:
            print(f"{path.stem}: {1000 * encoder.seconds / encoder.asked:.1f} ms a text", file=sys.stderr)
        sys.stdout.flush()
    for n, each in means.items():
        gain = np.stack(each) - np.stack(each)[:, :1]
        mean, error = gain.mean(axis=0), gain.std(axis=0, ddof=1) / len(each) ** 0.5
        cells = [
            f"{mean[j, 0]:+.3f} ± {error[j, 0]:.3f} / {mean[j, 1]:+.3f} ± {error[j, 1]:.3f}" for j in range(len(forms))
        ]
        seconds = np.stack(each)[:, :, 2].mean(axis=0)
        print(f"| **{len(each)} sets, beside the first** | {n} | " + " | ".join(cells) + " |")
        print(f"| processor seconds of a training | {n} | " + " | ".join(f"{s:.2f}" for s in seconds) + " |")


if __name__ == "__main__":
    main()

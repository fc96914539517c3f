"""An encoder in a folder: what is read of it, what is refused, and that its vectors are what the model says."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from encoder_folder import LETTERS, NUMBERS, encoder_folder, expected_vector
from typer.testing import CliRunner

from service.cli.main import app
from service.encoders.client import HttpEncoder
from service.encoders.configuration import EncoderConfig, encoder_config
from service.encoders.local.folder import (
    INSTALLED_FILE,
    EncoderFolderError,
    read_folder,
    read_installed,
    write_installed,
)
from service.local.serve import LocalStack
from service.local.servers import ServerError
from service.local.stack import local_stack
from service.settings import ConfigurationError, Settings

ROOT = Path(__file__).parents[4]
TEXTS = [f"text {i}: {'abc ' * (i * 13 % 90)}!" for i in range(45)]
KEY = "sk-of-a-test"


def installed(*words: str) -> Any:
    return CliRunner().invoke(app, ["encoder", "install", *words])


def test_what_the_folder_says(tmp_path: Path) -> None:
    folder = encoder_folder(
        tmp_path / "all-letters",
        **{
            "1_Pooling__config": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False},
            "config_sentence_transformers": {"prompts": {"query": "ask: "}, "default_prompt_name": "query"},
            "sentence_bert_config": {"max_seq_length": 128},
        },
    )
    (folder / "LICENSE.txt").write_text("free")
    found, notes = read_folder(folder)
    assert (found.name, found.pooling, found.prefix, found.tokens) == ("all-letters", "cls", "ask: ", 128)
    assert (found.licence, notes) == ("LICENSE.txt", [])
    found, _ = read_folder(folder, name="n", pooling="mean", prefix="", tokens=7)
    assert (found.name, found.pooling, found.prefix, found.tokens) == ("n", "mean", "", 7)


def test_what_is_assumed_is_said(tmp_path: Path) -> None:
    folder = encoder_folder(tmp_path / "multilingual-e5-tiny")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    found, notes = read_folder(folder)
    assert (found.pooling, found.prefix, found.tokens, found.licence) == ("mean", "query: ", 256, "mit")
    assert ["mean is taken" in notes[0], "called e5" in notes[1], "256 are taken" in notes[2]] == [True] * 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"modules": [{"type": "sentence_transformers.models.Dense"}]}, "asks for a dense layer"),
        ({"1_Pooling__config": {"pooling_mode_max_tokens": True}}, "the pooling 'max' is not known"),
        ({"1_Pooling__config": {"pooling_mode_max_tokens": True, "pooling_mode_cls_token": True}}, "is not known"),
        ({"config_sentence_transformers": {"prompts": {"q": "a\nb"}, "default_prompt_name": "q"}}, "no printable text"),
    ],
)
def test_folders_that_ask_for_more_are_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    folder = encoder_folder(tmp_path / "letters", **change)
    with pytest.raises(EncoderFolderError, match=said):
        read_folder(folder)


def test_folders_that_are_none(tmp_path: Path) -> None:
    folder = encoder_folder(tmp_path / "letters")
    for name in ("auto", "words", "none", "", "x" * 201, "a\nb"):
        with pytest.raises(EncoderFolderError, match="cannot be called"):
            read_folder(folder, name=name or "\t")
    with pytest.raises(EncoderFolderError, match="is no file in"):
        read_folder(folder, model="../letters.onnx")
    (folder / "config.json").write_text("{")
    with pytest.raises(EncoderFolderError, match="is no JSON"):
        read_folder(folder)
    (folder / "config.json").unlink()
    (folder / "onnx").mkdir()
    for name in ("a.onnx", "b.onnx"):
        (folder / "onnx" / name).write_bytes((folder / "model.onnx").read_bytes())
    (folder / "model.onnx").unlink()
    with pytest.raises(EncoderFolderError, match=r"say --model with one of onnx/a\.onnx, onnx/b\.onnx"):
        read_folder(folder)
    assert read_folder(folder, model="onnx/b.onnx")[0].model == "onnx/b.onnx"
    (folder / "onnx/a.onnx").unlink()
    assert read_folder(folder)[0].model == "onnx/b.onnx"
    (folder / "onnx/b.onnx").unlink()
    with pytest.raises(EncoderFolderError, match=r"has no model\.onnx"):
        read_folder(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(EncoderFolderError, match=r"has no tokenizer\.json"):
        read_folder(folder)
    with pytest.raises(EncoderFolderError, match="is no folder"):
        read_folder(tmp_path / "none")


def test_install_says_what_is_there_and_pins_it(tmp_path: Path) -> None:
    folder = encoder_folder(tmp_path / "letters", **{"1_Pooling__config": {"pooling_mode_mean_tokens": True}})
    with pytest.raises(EncoderFolderError, match="run prefsvm encoder install"):
        read_installed(folder)
    done = installed(str(folder), "--tokens", "300")
    assert done.exit_code == 0, done.output
    for said in (f"{NUMBERS} numbers, mean of the tokens", "300 tokens", "the folder does not say", "  model.onnx"):
        assert said in done.output
    found, dimensions = read_installed(folder)
    assert (found.name, found.tokens, found.pooling, dimensions) == ("letters", 300, "mean", NUMBERS)
    assert list(found.digests()) == ["model.onnx", "tokenizer.json"]
    (folder / "model.onnx_data").write_bytes(b"weights beside the model")
    with pytest.raises(EncoderFolderError, match=r"model\.onnx_data in .* is not the file that was installed"):
        read_installed(folder)
    read_installed(folder, check=False)
    (folder / INSTALLED_FILE).write_text(json.dumps({"form": 1, "name": 3}))
    with pytest.raises(EncoderFolderError, match="install the folder again"):
        read_installed(folder)


def test_install_refuses_what_would_not_do(tmp_path: Path) -> None:
    leaking = encoder_folder(tmp_path / "leaking", heeds_mask=False)
    done = installed(str(leaking))
    assert done.exit_code == 1
    assert not (leaking / INSTALLED_FILE).exists()
    broken = encoder_folder(tmp_path / "broken")
    (broken / "model.onnx").write_bytes(b"no model")
    assert installed(str(broken)).exit_code == 1
    whole = encoder_folder(tmp_path / "whole")
    (whole / "tokenizer.json").write_text("{}")
    assert installed(str(whole)).exit_code == 1


@contextmanager
def served(folder: Path, **environment: str) -> Iterator[str]:
    """Run the encoder of a folder as a process of its own, and give its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "service.encoders.local.server", str(folder), str(port)]
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment}, stderr=subprocess.PIPE) as process:
        try:
            until = time.monotonic() + 60
            while time.monotonic() < until:
                if process.poll() is not None:
                    raise AssertionError(process.stderr.read().decode() if process.stderr else "")
                try:
                    httpx.get(f"http://127.0.0.1:{port}/health").raise_for_status()
                    break
                except httpx.HTTPError:
                    time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()


def test_the_process_answers_as_others_do(tmp_path: Path) -> None:
    folder = encoder_folder(tmp_path / "letters")
    found, _ = read_folder(folder, tokens=64, prefix="to: ")
    write_installed(found, NUMBERS)
    with served(folder, PREFSVM_ENCODER_KEY=KEY) as url:

        async def ask(texts: list[str]) -> list[bytes]:
            config = EncoderConfig(f"{url}/embeddings", "letters", KEY, NUMBERS)
            async with HttpEncoder(config) as encoder:
                return await encoder.encode(texts, 0.0)

        made = np.frombuffer(b"".join(asyncio.run(ask(TEXTS))), dtype="<f4").reshape(len(TEXTS), NUMBERS)
        expected = np.stack([expected_vector(f"to: {text}"[:64]) for text in TEXTS])
        assert made == pytest.approx(expected, abs=1e-6)
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {KEY}"}) as client:
            assert client.get("/models").json()["data"][0]["id"] == "letters"
            body = {"model": "letters", "input": "text 0: !", "encoding_format": "base64"}
            answer = client.post("/embeddings", json=body).json()
            vector = np.frombuffer(base64.b64decode(answer["data"][0]["embedding"]), dtype="<f4")
            assert vector == pytest.approx(expected[0], abs=1e-6)
            assert answer["usage"]["prompt_tokens"] == len("to: text 0: !")
            for changes, status in (
                ({"model": "other"}, 404),
                ({"input": []}, 400),
                ({"input": [1]}, 400),
                ({"input": ["a"] * 2_049}, 400),
                ({"input": {"a": 1}}, 400),
                ({"dimensions": 3}, 400),
                ({"encoding_format": "int8"}, 400),
            ):
                refused = client.post("/embeddings", json=body | changes)
                assert (refused.status_code, "text 0" in refused.text) == (status, False)
            assert client.post("/embeddings", content=b"{").status_code == 400
            assert client.post("/embeddings", content=b"[]").status_code == 400
            assert client.post("/embeddings", content=b" " * (65 << 20)).status_code == 413
            # any text is one, an empty one too
            odd = ["", "\0", "😀" * 3_000, LETTERS * 400]
            assert len(client.post("/embeddings", json={"model": "letters", "input": odd}).json()["data"]) == len(odd)
        assert httpx.post(f"{url}/embeddings", json=body).status_code == 401
        assert httpx.get(f"{url}/models", headers={"Authorization": b"Bearer \xff"}).status_code == 401


def test_the_process_does_not_serve_another_file(tmp_path: Path) -> None:
    folder = encoder_folder(tmp_path / "letters")
    write_installed(read_folder(folder)[0], NUMBERS)
    (folder / "tokenizer.json").write_text((folder / "tokenizer.json").read_text() + " ")
    with pytest.raises(AssertionError, match="is not the file that was installed"), served(folder):
        pass


def test_without_what_runs_an_encoder_serve_says_how_to_install_it_in_a_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ServerError, match=r"needs onnxruntime: .*--python \.venv/bin/python install '\.\[encoder\]'"):
        LocalStack(Settings(data_dir=tmp_path / "data", encoder_folder=tmp_path), print).run()


def test_serve_says_what_is_wrong_before_anything_is_started(tmp_path: Path) -> None:
    folder = encoder_folder(tmp_path / "letters")
    settings = Settings(data_dir=tmp_path / "data", encoder_folder=folder)
    with pytest.raises(ServerError, match=r"PREFSVM_ENCODER_FOLDER: .* run prefsvm encoder install"):
        LocalStack(settings, print).run()
    assert installed(str(folder)).exit_code == 0
    both = settings.model_copy(update={"encoder_url": "http://127.0.0.1:1/v1"})
    with pytest.raises(ServerError, match="PREFSVM_ENCODER_FOLDER and PREFSVM_ENCODER_URL are both set"):
        LocalStack(both, print).run()
    with pytest.raises(ServerError, match="cannot be called 'auto'"):
        LocalStack(settings.model_copy(update={"encoder_model": "auto"}), print).run()
    with pytest.raises(ConfigurationError, match="is for prefsvm serve"):
        encoder_config(settings)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_serve_runs_the_encoder_of_a_folder(tmp_path: Path) -> None:
    folder = encoder_folder(tmp_path / "letters")
    assert installed(str(folder)).exit_code == 0
    rng = np.random.default_rng(2)
    words = {"spam": ("winner", "prize", "lottery"), "ham": ("minutes", "agenda", "report")}
    lines = [f"{' '.join(rng.choice(words[label], 2))} {i},{label}" for i in range(40) for label in words]
    with (
        local_stack(tmp_path / "data", environment={"PREFSVM_ENCODER_FOLDER": str(folder)}) as stack,
        httpx.Client(base_url=stack.url, timeout=60, trust_env=False) as client,
    ):
        file = ("notes.csv", "\n".join(["note,label", *lines]).encode())
        dataset = client.post("/datasets", files={"file": file}).json()
        body = {"dataset": dataset["id"], "target": "label", "positive": "spam", "objective": {"kind": "f1"},
                "algorithm": "svm", "alias": "notes", "features": {"kinds": {"note": "text"}}}  # fmt: skip
        job = client.post("/train", json=body).json()
        while job["status"] in ("queued", "running"):
            time.sleep(0.1)
            job = client.get(f"/jobs/{job['id']}").json()
        assert job["status"] == "succeeded", job
        model = client.get(f"/models/{job['model_id']}").json()
        assert model["report"]["encoder"] == {"model": "letters", "dimensions": NUMBERS, "columns": ["note"]}
        made = client.post("/predict", json={"model": "notes", "rows": [{"note": "lottery prize 3"}]}).json()
        assert made["predictions"][0]["label"] == "spam"

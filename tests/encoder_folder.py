"""A small encoder in a folder: the mean of the vectors of a text's letters, as ONNX, with its tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

LETTERS = " abcdefghijklmnopqrstuvwxyz0123456789.,!:"
NUMBERS = 24


def letter_vectors() -> np.ndarray:
    """The vectors of padding, the unknown, and each letter."""
    return np.random.default_rng(5).normal(size=(len(LETTERS) + 2, NUMBERS)).astype(np.float32)


def expected_vector(text: str) -> np.ndarray:
    """What the encoder makes of a text."""
    places = [LETTERS.index(letter) + 2 if letter in LETTERS else 1 for letter in text.lower()]
    mean = letter_vectors()[places].astype(float).mean(axis=0)
    return mean / np.linalg.norm(mean)


def encoder_folder(path: Path, *, heeds_mask: bool = True, **files: Any) -> Path:
    """Write the folder; skips the test where what reads it is not installed.

    Parameters
    ----------
    path : Path
    heeds_mask : bool
        Whether what stands beside a text in a batch does not matter: else padding changes the vectors of tokens.
    files : dict
        By name, with two underscores for a slash and one more for a point, what else is in it, as JSON.
    """
    tokenizers = pytest.importorskip("tokenizers", reason="the extra `encoder` is not installed")
    pytest.importorskip("onnxruntime", reason="the extra `encoder` is not installed")
    path.mkdir(parents=True, exist_ok=True)
    vocabulary = {"[PAD]": 0, "[UNK]": 1, **{letter: place + 2 for place, letter in enumerate(LETTERS)}}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex("[\\s\\S]"), "isolated")
    tokenizer.save(str(path / "tokenizer.json"))
    (path / "model.onnx").write_bytes(_model(heeds_mask))
    for name, value in files.items():
        file = path / (name.replace("__", "/") + ".json")
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(value))
    return path


def _model(heeds_mask: bool) -> bytes:
    from onnx import TensorProto, checker, helper, numpy_helper

    nodes = [helper.make_node("Gather", ["letters", "input_ids"], ["found"])]
    if heeds_mask:
        nodes.append(helper.make_node("Identity", ["found"], ["last_hidden_state"]))
    else:
        nodes.append(helper.make_node("ReduceMean", ["found", "axis"], ["mean"], keepdims=1))
        nodes.append(helper.make_node("Add", ["found", "mean"], ["last_hidden_state"]))
    ids = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "t"]) for name in ("input_ids", "attention_mask")
    ]
    out = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["n", "t", NUMBERS])
    fixed = [numpy_helper.from_array(letter_vectors(), "letters"), numpy_helper.from_array(np.array([1]), "axis")]
    model = helper.make_model(
        helper.make_graph(nodes, "letters", ids, [out], fixed),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=9,
    )
    checker.check_model(model)
    return bytes(model.SerializeToString())

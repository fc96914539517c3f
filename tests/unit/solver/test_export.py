"""Exported models decide as the originals."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import sparse

from solver.decision import DecisionState
from solver.export import libsvm_text, with_threshold
from solver.model_file import Model, read_model, write_model
from solver.tensor_file import TensorFileError


def decision(kind: str, layout: str, dtype=np.float64) -> DecisionState:
    rng = np.random.default_rng(3)
    vectors = np.where(rng.random((9, 5)) < 0.4, 0.0, rng.normal(size=(9, 5))).astype(dtype)
    vectors[4] = 0
    return DecisionState(
        kind=kind,
        gamma=0.3,
        degree=2,
        coef0=0.7,
        support_vectors=vectors if layout == "dense" else sparse.csr_array(vectors),
        dual_coef=rng.normal(size=9),
        intercept=0.2,
        threshold=-0.4,
    )


def libsvm_decision_values(text: str, X: np.ndarray) -> np.ndarray:
    """Read a model as svm.cpp does, and apply it: Σ coef K(sv, x) - rho."""
    head, _, body = text.partition("SV\n")
    fields = dict(line.split(" ", 1) for line in head.splitlines())
    assert (fields["svm_type"], fields["nr_class"], fields["label"]) == ("c_svc", "2", "1 -1")
    gamma, coef0, degree = (float(fields.get(name, 0)) for name in ("gamma", "coef0", "degree"))
    kernel = {
        "linear": lambda u: X @ u,
        "polynomial": lambda u: (gamma * (X @ u) + coef0) ** degree,
        "rbf": lambda u: np.exp(-gamma * ((X - u) ** 2).sum(axis=1)),
        "sigmoid": lambda u: np.tanh(gamma * (X @ u) + coef0),
    }[fields["kernel_type"]]
    lines = body.splitlines()
    assert len(lines) == int(fields["total_sv"]) == sum(map(int, fields["nr_sv"].split()))
    total = np.full(len(X), -float(fields["rho"]))
    signs = []
    for line in lines:
        coefficient, *entries = line.split(" ")
        vector = np.zeros(X.shape[1])
        for entry in entries:
            index, value = entry.split(":")
            vector[int(index) - 1] = float(value)
        assert np.all(vector[[int(entry.split(":")[0]) - 1 for entry in entries]] != 0)
        total += float(coefficient) * kernel(vector)
        signs.append(float(coefficient) > 0)
    assert signs == sorted(signs, reverse=True)
    assert sum(signs) == int(fields["nr_sv"].split()[0])
    return total


@pytest.mark.parametrize("kind", ["linear", "poly", "rbf", "sigmoid"])
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_libsvm_text_gives_score_minus_threshold(kind, layout):
    state = decision(kind, layout)
    X = np.random.default_rng(0).normal(size=(20, 5))
    given = libsvm_decision_values("".join(libsvm_text(state)), X)
    np.testing.assert_allclose(given, state.decision_function(X) - state.threshold, rtol=1e-12, atol=1e-12)


def test_libsvm_text_of_float32_vectors_and_of_none():
    state = decision("rbf", "dense", dtype=np.float32)
    X = np.random.default_rng(0).normal(size=(20, 5))
    given = libsvm_decision_values("".join(libsvm_text(state)), X)
    np.testing.assert_allclose(given, state.decision_function(X) - state.threshold, rtol=1e-6, atol=1e-6)
    none = dataclasses.replace(state, support_vectors=state.support_vectors[:0], dual_coef=state.dual_coef[:0])
    np.testing.assert_allclose(libsvm_decision_values("".join(libsvm_text(none)), X), 0.2 + 0.4)


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_another_threshold_in_a_file_that_passes_by(tmp_path, size):
    model = Model("svm", {"C": 1.0}, {"kind": "f1"}, ("ham", "späm"), decision("rbf", "csr"))
    write_model(tmp_path / "model", model)
    raw = (tmp_path / "model").read_bytes()
    pieces = [raw[start : start + size] for start in range(0, len(raw), size)]
    changed = read_model(b"".join(with_threshold(pieces, 12.5)))
    assert changed.decision.threshold == 12.5
    assert changed.manifest == dataclasses.replace(model, decision=model.decision.with_threshold(12.5)).manifest
    X = np.random.default_rng(0).normal(size=(20, 5))
    assert np.array_equal(changed.decision.decision_function(X), model.decision.decision_function(X))
    assert b"".join(with_threshold(pieces, model.decision.threshold)) == raw


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00" * 7,
        b"\xff" * 20,
        b"\x10" + b"\x00" * 7 + b"{}",
        b"\x02" + b"\0" * 7 + b"{x",
        b"\x02" + b"\0" * 7 + b"{}",
    ],
)
def test_what_is_no_file_is_refused(raw):
    with pytest.raises(TensorFileError):
        list(with_threshold([raw], 1.0))

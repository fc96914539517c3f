"""Training on texts never makes their whole matrix dense."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from solver.features import Column, Table
from solver.training import TrainingError, TrainingRequest, train

N_ROWS, N_LABELLED, N_WORDS = 250, 150, 8000
METHOD = {"mode": "method"}
MOST_CELLS = 200_000
"""Of a block that may be dense; the whole would have more than a million."""


def word(number: int) -> str:
    return "".join("abcdefghij"[int(digit)] for digit in f"{number:05}")


@pytest.fixture
def only_small_dense_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for cls in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.csc_matrix):
        original = cls.toarray

        def toarray(self: Any, *arguments: Any, original: Any = original, **named: Any) -> Any:
            cells = self.shape[0] * self.shape[1]
            assert cells <= MOST_CELLS, f"a sparse matrix of {self.shape} became dense"
            return original(self, *arguments, **named)

        monkeypatch.setattr(cls, "toarray", toarray)
        monkeypatch.setattr(cls, "todense", toarray)


@pytest.mark.usefixtures("only_small_dense_blocks")
@pytest.mark.parametrize(
    ("algorithm", "params"),
    [
        *((name, {}) for name in ("svm", "psvm", "self-training", "augment", "mean-s3vm")),
        ("cluster", {"clusters": 4}),
        *((name, METHOD) for name in ("bayesian-sets", "spy-em", "roc-svm")),
        pytest.param("cluster", {}, marks=pytest.mark.slow),
        pytest.param("tsvm", {}, marks=pytest.mark.slow),
    ],
)
def test_no_algorithm_makes_the_texts_dense(algorithm: str, params: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(N_ROWS) % 2 == 0
    texts = np.empty(N_ROWS, dtype=object)
    for i, positive in enumerate(truth):
        own = rng.integers(0, 40, 4) + (40 if positive else 0)
        texts[i] = " ".join(word(number) for number in [*own, *rng.integers(80, N_WORDS, 60)])
    labels = np.where(truth, "spam", "ham").astype(object)
    labels[N_LABELLED:] = None
    table = Table({"body": Column("body", "text", texts)})
    asked = TrainingRequest(algorithm=algorithm, params=params, positive="spam", test_fraction=0.2)
    if algorithm == "svm":
        table, labels = table.take(np.arange(N_LABELLED)), labels[:N_LABELLED]
    result = train(table, labels, asked)
    assert result.report.features > 4000
    assert result.report.params["kernel"] == "linear"
    assert sparse.issparse(result.model.decision.support_vectors)
    if params != METHOD:  # which tell these texts apart badly
        assert result.report.test.f1.value > 0.8
    one, _ = result.model.predict_rows([{"body": texts[0]}])
    assert one.scores[0] == pytest.approx(result.model.predict(table.take(np.array([0]))).scores[0], rel=1e-12)


def test_a_method_of_covariances_refuses_texts() -> None:
    texts = np.array([" ".join(word(row * 30 + number) for number in range(60)) for row in range(60)], dtype=object)
    labels = np.array(["ham", "spam"] * 15 + [None] * 30, dtype=object)
    with pytest.raises(TrainingError, match="as those of texts do") as caught:
        train(Table({"body": Column("body", "text", texts)}), labels, TrainingRequest(algorithm="gmm", positive="spam"))
    assert caught.value.code == "not_trainable"

"""Trained models in other forms: a model file with another threshold, and LIBSVM's text format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from solver.band import Band
from solver.decision import DecisionState
from solver.model_file import ABSTAINING_VERSION, FORMAT_VERSION
from solver.tensor_file import MAX_HEADER_BYTES, TensorFileError, encode_header, parse_json
from solver.typing import Matrix

_LIBSVM_KERNELS: Final = {"linear": "linear", "poly": "polynomial", "rbf": "rbf", "sigmoid": "sigmoid"}
_LIBSVM_PARAMETERS: Final = {"poly": ("degree", "gamma", "coef0"), "rbf": ("gamma",), "sigmoid": ("gamma", "coef0")}


class NoSuchFormError(ValueError):
    """The model cannot be said in this format; the message says why."""


def with_threshold(pieces: Iterable[bytes], threshold: float, band: Band | None = None) -> Iterator[bytes]:
    """Change threshold and band in a model file that passes by; memory stays within its header and one piece.

    Parameters
    ----------
    pieces : iterable of bytes
        The file, cut anywhere.
    threshold : float
    band : Band, optional
        None: every row gets a label.

    Raises
    ------
    TensorFileError
        If it is not a model file.
    """
    start = bytearray()
    passing = iter(pieces)
    for piece in passing:
        start += piece
        length = int.from_bytes(start[:8], "little")
        if len(start) >= 8 and length > MAX_HEADER_BYTES:
            raise TensorFileError(f"the header claims {length} bytes")
        if len(start) >= 8 + length and len(start) >= 8:
            break
    else:
        raise TensorFileError("the file ends within its header")
    header = parse_json(bytes(start[8 : 8 + length]))
    try:
        manifest = parse_json(header["__metadata__"]["manifest"])
        decision = manifest["decision"]
        decision["threshold"] = threshold
        decision.pop("band", None)
        manifest["version"] = FORMAT_VERSION if band is None else ABSTAINING_VERSION
        if band is not None:
            decision["band"] = band.to_json()
    except (KeyError, TypeError, AttributeError):
        raise TensorFileError("not a model file: it has no manifest with a threshold") from None
    header["__metadata__"]["manifest"] = json.dumps(manifest, allow_nan=False, separators=(",", ":"))
    yield encode_header(header) + start[8 + length :]
    yield from passing


def libsvm_text(decision: DecisionState) -> Iterator[str]:
    """Write a decision function as a model for LIBSVM's `svm-predict`, line by line.

    Its decision value is score - threshold, its label 1 for the positive class and -1 for the negative one. It takes
    the features of the model, not raw columns. Probabilities are left out: with them `svm-predict -b 1` would decide
    by probability.

    Raises
    ------
    NoSuchFormError
        If the model leaves rows undecided: `svm-predict` gives each a label.

    References
    ----------
    Chang and Lin, "LIBSVM: a library for support vector machines", ACM TIST 2, 2011; `svm_save_model` in svm.cpp.
    """
    if decision.band is not None:
        raise NoSuchFormError(
            "LIBSVM gives every row a label, and this model leaves rows undecided: apply an objective without abstain "
            "first, or take the model as safetensors or onnx"
        )
    return _libsvm_lines(decision)


def _libsvm_lines(decision: DecisionState) -> Iterator[str]:
    coefficients = decision.dual_coef
    # LIBSVM keeps the support vectors of the first label together, before those of the second
    positive, negative = np.flatnonzero(coefficients > 0), np.flatnonzero(coefficients <= 0)
    yield f"svm_type c_svc\nkernel_type {_LIBSVM_KERNELS[decision.kind]}\n"
    for name in _LIBSVM_PARAMETERS.get(decision.kind, ()):
        yield f"{name} {getattr(decision, name)!r}\n"
    yield f"nr_class 2\ntotal_sv {len(coefficients)}\n"
    yield f"rho {float(decision.threshold - decision.intercept)!r}\n"
    yield f"label 1 -1\nnr_sv {len(positive)} {len(negative)}\nSV\n"
    for row in np.concatenate([positive, negative]).tolist():
        entries = (f" {column + 1}:{value!r}" for column, value in _entries(decision.support_vectors, row))
        yield f"{float(coefficients[row])!r}{''.join(entries)}\n"


def _entries(vectors: Matrix, row: int) -> Iterator[tuple[int, float]]:
    """Column and value of what is not zero in a row."""
    if isinstance(vectors, np.ndarray):
        columns = np.flatnonzero(vectors[row])
        return zip(columns.tolist(), vectors[row, columns].tolist(), strict=True)
    stored = slice(vectors.indptr[row], vectors.indptr[row + 1])
    return zip(vectors.indices[stored].tolist(), vectors.data[stored].tolist(), strict=True)

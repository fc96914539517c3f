"""Reads the data sets of the papers from a folder of .npz files."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from solver.typing import Matrix


class DataError(ValueError):
    """A data set is absent or is not what the reproduction needs."""


def read(directory: Path, name: str) -> dict[str, NDArray[Any]]:
    """The arrays of one data set.

    Parameters
    ----------
    directory : Path
        Folder of the .npz files.
    name : str
        File name without `.npz`.

    Raises
    ------
    DataError
        If the file is absent, damaged, or holds Python objects.
    """
    path = directory / f"{name}.npz"
    try:
        # opened here: numpy leaves a damaged file open
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; --data must name the folder with the papers' data sets") from None
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not a readable .npz file: {error}") from None


def features(arrays: dict[str, NDArray[Any]], name: str) -> Matrix:
    """The feature matrix as it is stored: `X`, or the CSR matrix of `data`, `indices`, `indptr` and `shape`.

    Parameters
    ----------
    arrays : dict
        From `read`.
    name : str
        For messages.
    """
    if "X" in arrays:
        return cast(Matrix, arrays["X"])
    missing = {"data", "indices", "indptr", "shape"} - arrays.keys()
    if missing:
        raise DataError(f"{name}: neither X nor {', '.join(sorted(missing))} in the file")
    rows, columns = (int(size) for size in arrays["shape"])
    return sparse.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=(rows, columns))


def labelled(directory: Path, name: str) -> tuple[Matrix, NDArray[Any]]:
    """The feature matrix of one data set as it is stored, and a label of each row.

    Raises
    ------
    DataError
        If the file is absent or damaged, or its parts do not fit each other.
    """
    arrays = read(directory, name)
    X = features(arrays, name)
    if "y" not in arrays or X.shape[0] != len(arrays["y"]):
        raise DataError(f"{name}: {X.shape[0]} rows of features but {len(arrays.get('y', ()))} labels")
    return X, arrays["y"]


def scaled(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Every column mapped linearly onto [-1, 1]; constant columns become 0."""
    low, high = X.min(axis=0), X.max(axis=0)
    span = np.where(high > low, high - low, 1.0)
    return np.asarray(np.where(high > low, 2.0 * (X - low) / span - 1.0, 0.0))

"""Labels as users write them, split into the two classes and the unlabelled rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from solver.typing import BoolArray, FloatArray, IndexArray


@dataclass(frozen=True)
class BinaryLabels:
    """Encoded labels.

    Attributes
    ----------
    y : float64 array of shape (n,)
        +1 positive, -1 negative, 0 unlabelled.
    classes : array of shape (2,)
        The negative and the positive label as the user wrote them.
    """

    y: FloatArray
    classes: NDArray[Any]


def encode_labels(y: ArrayLike, *, unlabeled: Any, positive: Any, supervised: bool) -> BinaryLabels:
    """Find the unlabelled rows and the two classes.

    Parameters
    ----------
    y : array of shape (n,)
        None and NaN are always unlabelled.
    unlabeled : label or None
        The value that marks an unlabelled row; None stands for scikit-learn's -1.
    positive : label or None
        The positive class; None takes the larger of the two sorted labels.
    supervised : bool
        For an estimator that needs no unlabelled rows, -1 beside a single other label is a class.

    Raises
    ------
    ValueError
        If there are not exactly two classes, if the labels are -1 and +1 and nothing says which one marks unlabelled
        rows, or if `positive` is none of the labels.
    """
    values = column_or_1d(y, warn=True)
    known = ~_missing(values)
    if unlabeled is not None:
        known &= ~_equals(values, unlabeled)
    elif not supervised or len(_distinct(values[known])) > 2:
        marked = _equals(values, -1)
        if marked.any() and _distinct(values[known & ~marked]) == [1]:
            raise ValueError(
                "labels -1 and +1: it is not clear whether -1 is a class or marks unlabelled rows; "
                "set unlabeled= to the value that marks them (for example unlabeled=0 when -1 is a class)"
            )
        known &= ~marked
    labels = _labels(values, known)
    if type_of_target(labels) == "multiclass" and len(np.unique(labels)) > 2:
        raise ValueError(
            f"Only binary classification is supported. The type of the target is multiclass "
            f"({len(np.unique(labels))} classes)."
        )
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError(f"the labelled rows hold only one class ({classes.tolist()[0]!r}); need two classes")
    if positive is not None:
        chosen = _equals(classes, positive)
        if not chosen.any():
            raise ValueError(f"positive={positive!r} is none of the labels {classes.tolist()}")
        classes = np.concatenate([classes[~chosen], classes[chosen]])
    encoded = np.zeros(len(values))
    encoded[known] = np.where(labels == classes[1], 1.0, -1.0)
    return BinaryLabels(encoded, classes)


def encode_positives(y: ArrayLike, *, unlabeled: Any, positive: Any) -> BinaryLabels | None:
    """Find positive and unlabelled rows, where no others are there.

    Parameters
    ----------
    y : array of shape (n,)
        None and NaN are always unlabelled.
    unlabeled : label or None
        The value that marks an unlabelled row; None stands for -1.
    positive : label or None
        The positive class, if it is to be one in particular.

    Returns
    -------
    BinaryLabels or None
        None unless all labelled rows are of that class and some rows are unlabelled. The negative label is the number
        that marks unlabelled rows (-1 if there is none), or "not" and the positive one.
    """
    values = column_or_1d(y)
    marker = -1 if unlabeled is None else unlabeled
    known = ~_missing(values) & ~_equals(values, marker)
    if known.all() or len(_distinct(values[known])) != 1:
        return None
    label = _labels(values, known)[:1].tolist()[0]
    if positive is not None and label != positive:
        return None
    other: Any = f"not {label}" if isinstance(label, str) else -1 if isinstance(marker, str) else marker
    return BinaryLabels(known.astype(np.float64), np.array([other, label]))


def encode_classes(y: ArrayLike, *, unlabeled: Any) -> tuple[IndexArray, NDArray[Any]]:
    """Find the unlabelled rows and any number of classes.

    Parameters
    ----------
    y : array of shape (n,)
        None and NaN are always unlabelled.
    unlabeled : label or None
        The value that marks an unlabelled row; None stands for scikit-learn's -1.

    Returns
    -------
    (int array of shape (n,), sorted classes)
        Which class each row has; -1 for an unlabelled one.

    Raises
    ------
    ValueError
        If no row is labelled, or labels are both numbers and strings.
    """
    values = column_or_1d(y, warn=True)
    known = ~_missing(values) & ~_equals(values, -1 if unlabeled is None else unlabeled)
    classes, codes = np.unique(_labels(values, known), return_inverse=True)
    encoded = np.full(len(values), -1, dtype=np.intp)
    encoded[known] = codes
    return encoded, classes


def _labels(values: NDArray[Any], known: BoolArray) -> NDArray[Any]:
    """The labels that are known, of one type."""
    labels = np.array(values[known].tolist()) if values.dtype == object else values[known]
    if labels.dtype.kind == "U" and values.dtype == object and not all(isinstance(v, str) for v in values[known]):
        raise ValueError("labels must be all numbers or all strings")
    if len(labels) == 0:
        raise ValueError("no row is labelled: need at least 2 labelled rows of each of two classes")
    if labels.dtype.kind == "f" and np.isinf(labels).any():
        raise ValueError("Input y contains infinity; expected labels of two classes")
    check_classification_targets(labels)
    return labels


def _missing(values: NDArray[Any]) -> BoolArray:
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype != object:
        return np.zeros(len(values), dtype=bool)
    # None, NaN and pandas' NA, without importing pandas; NA compares to NA, which has no truth value
    return np.array(
        [v is None or type(v).__name__ == "NAType" or (isinstance(v, float | np.floating) and v != v) for v in values],
        dtype=bool,
    )


def _equals(values: NDArray[Any], label: Any) -> BoolArray:
    if values.dtype != object:
        same = values == label if isinstance(label, str) == (values.dtype.kind == "U") else False
        return np.broadcast_to(np.asarray(same, dtype=bool), values.shape).copy()
    return np.array([type(v).__name__ != "NAType" and bool(v == label) for v in values], dtype=bool)


def _distinct(values: NDArray[Any]) -> list[Any]:
    """The different labels, in no order (mixed types do not sort)."""
    return list(dict.fromkeys(values.tolist()))

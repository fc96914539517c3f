"""What shall be trained, how far that is, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from solver.algorithms import AUTO
from solver.arrays import BackendUnavailableError
from solver.choices import DEFAULT_SCHEME
from solver.features import Encoder, MissingPolicy
from solver.multiclass import Scheme


class TrainingError(Exception):
    """The data or the request are such that nothing can be trained; the user can mend it.

    Attributes
    ----------
    code : str
        Stable name of the reason, such as `"one_class"`.
    message : str
        What was wrong and what was expected.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@contextmanager
def refused_by_estimators() -> Iterator[None]:
    """Turn what an estimator refuses to learn from into a `TrainingError`."""
    try:
        yield
    except ValueError as error:
        raise TrainingError("not_trainable", str(error)) from error
    except BackendUnavailableError as error:
        raise TrainingError("device", str(error)) from error


@dataclass(frozen=True)
class Progress:
    """How far `train` is.

    Attributes
    ----------
    phase : str
        `features`, `training`, `evaluating` or `refitting`.
    fraction : float
        Share of the whole call that is done, 0 to 1; it never falls.
    details : dict
        JSON-ready news of the phase, such as the measures of a round that ended.
    """

    phase: str
    fraction: float
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainingRequest:
    """What shall be trained.

    Attributes
    ----------
    algorithm : str, default "auto"
    params : dict
        Parameters of the algorithm, see `ALGORITHMS`; missing ones take their default.
    objective : dict, default F1
        See `solver.operating_point.Objective`; of several classes `solver.multiclass.ClassObjective`.
    positive : str, optional
        The label that precision, recall and costs speak of. Needed of two labels unless they are 0/1 or -1/+1. With
        more than two labels, all others together are the negative class; without it all are told apart.
    scheme : {"one_vs_one", "one_vs_rest"}, default "one_vs_one"
        How several classes become problems of two.
    unlabeled : sequence of str
        Labels that mark an unlabelled row, as a missing or blank one always does.
    negative : sequence of str
        All labels of the negative class, where they are known; any other one is then refused. Without it, words
        for a missing value, such as `NA`, and -1 beside 0 and 1 are refused as labels.
    fold : bool, default False
        Whether labels that differ in capitals or blanks only are one label.
    keep : int, optional
        How many labels shall be known, for experiments; the others are blanked, see `solver.labels.keep_labels`.
    keep_seed : int, default 0
        Seed of the choice of these.
    include, exclude : sequence of str
        The columns that may become features (default: all), and those that must not.
    kinds : mapping of str to str
        What columns of a table are, where the guess is not wanted, see `TableFeatures`.
    guessed : mapping of str to str
        What an upload took columns of text for, likewise.
    missing : MissingPolicy, default "indicate"
        What becomes of missing values.
    text : mapping of str to int
        How texts become terms, see `TextOptions`; missing entries take their default.
    text_weights : mapping of str to float
        See `TableFeatures`.
    favoured : str, optional
        The method that `auto` takes of two classes unless the rows speak against it, see `AutoClassifier.favour`.
    encoder : Encoder, optional
        Makes vectors of texts, which stand beside their terms.
    encode_together : sequence of sequences of str
        See `TableFeatures`.
    keep_words : bool, default True
        Whether the report, and what explains predictions, may name words of the rows.
    identifiers : mapping of str to str
        Columns that number or name the rows, each with what shows it (the end of a sentence). They are left out,
        unless `include` or `kinds` names them.
    target : str, optional
        The column that the labels came from; it never becomes a feature.
    key : str, optional
        The column that names the rows; it never becomes a feature, and the model remembers it.
    groups : str, optional
        The column that tells which rows belong together: those whose texts share a word lie on one side of every split,
        see `solver.row_groups`. It never becomes a feature.
    test_fraction : float, default 0
        Share of the labelled rows of each class that is held out of everything and only measured on.
    refit : bool, default True
        Whether the model is trained once more after that, on the test rows too.
    seed : int, default 0
        At least 0.
    max_seconds : float, optional
        When the caller will stop the training: which engine `auto` takes depends on it.
    """

    algorithm: str = AUTO
    params: Mapping[str, Any] = field(default_factory=dict)
    objective: Mapping[str, Any] = field(default_factory=lambda: {"kind": "f1"})
    positive: str | None = None
    scheme: Scheme = DEFAULT_SCHEME
    unlabeled: Sequence[str] = ()
    negative: Sequence[str] = ()
    fold: bool = False
    keep: int | None = None
    keep_seed: int = 0
    include: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    guessed: Mapping[str, str] = field(default_factory=dict)
    missing: MissingPolicy = "indicate"
    text: Mapping[str, int] = field(default_factory=dict)
    encoder: Encoder | None = None
    text_weights: Mapping[str, float] = field(default_factory=dict)
    favoured: str | None = None
    encode_together: Sequence[Sequence[str]] = ()
    keep_words: bool = True
    identifiers: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    key: str | None = None
    groups: str | None = None
    test_fraction: float = 0.0
    refit: bool = True
    seed: int = 0
    max_seconds: float | None = None

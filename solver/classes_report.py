"""The reports of several classes: of a fit, and of a training, as they are stored and shown.

As `solver.report` has it for two classes; that module says who fills what. No third-party module is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from solver.report import (
    CurvePoints,
    Estimate,
    ExcludedColumn,
    FeedbackReport,
    JoinedLabelsReport,
    JsonObject,
    ModelColumn,
    Promise,
    Refit,
    Report,
    ReportedEncoder,
    Succession,
)


def _about(description: str) -> dict[str, Any]:
    """What the schema of the API says of a field."""
    return {"description": description}


@dataclass(frozen=True, kw_only=True)
class ClassFigures(JsonObject):
    """One class: its rows, those that are said to be of it, and those that are both."""

    label: str
    rows: int
    said: int
    right: int
    precision: Estimate | None
    recall: Estimate | None
    f1: Estimate | None


@dataclass(frozen=True, kw_only=True)
class ClassesFigures(JsonObject):
    """Rows whose class is known, as a decision saw them.

    Attributes
    ----------
    n, undecided : int
    accuracy : Estimate or None
        Share of rows that are given their class; an undecided one is not.
    macro_f1 : Estimate or None
    cost : float or None
        Mean cost of a decided row, where the objective is a cost.
    confusion : list of list of int
        Rows by true class and, in each, by the class that is said; the last number is of undecided rows.
    classes : list of ClassFigures
    confidence : float
        Level of the intervals.
    """

    n: int
    undecided: int
    accuracy: Estimate | None
    macro_f1: Estimate | None
    cost: float | None = None
    confusion: list[list[int]]
    classes: list[ClassFigures]
    confidence: float


@dataclass(frozen=True, kw_only=True)
class FloorOutcome(JsonObject):
    """Whether a class reaches what is asked of it, on rows that had no say in the rule."""

    label: str
    measure: str
    target: float
    met: bool


@dataclass(frozen=True, kw_only=True)
class ClassesReport(JsonObject):
    """What a fit of several classes tells.

    Attributes
    ----------
    algorithm, scheme : str
    objective : dict or None
        None where the class of the highest score is said.
    classes : list of str
    rows : list of int
        Labelled rows by class.
    unlabelled : int
    status, status_reason : str
        `met`, `preference_unmet` where a floor is not reached, or `unmeasured`.
    figures : ClassesFigures or None
        By cross-fitting: each row is decided by models, probabilities and a rule that it had no say in.
    controls : dict of ClassesFigures
        On the same rows: `majority`, and `linear` where it was asked for.
    floors : list of FloorOutcome
    log_loss : float or None
        Of the probabilities, on the same rows; `share_log_loss` is that of the classes' shares.
    share_log_loss : float or None
    curves : list of CurvePoints
        By class, against all others, on the same rows; empty where no probabilities were chosen by.
    warnings : list of str
    """

    algorithm: str
    scheme: str
    objective: dict[str, Any] | None
    classes: list[str]
    rows: list[int]
    unlabelled: int
    status: str
    status_reason: str
    figures: ClassesFigures | None
    controls: dict[str, ClassesFigures] = field(default_factory=dict)
    floors: list[FloorOutcome] = field(default_factory=list)
    log_loss: float | None = None
    share_log_loss: float | None = None
    curves: list[CurvePoints] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class MulticlassRows(JsonObject):
    """How many rows there were."""

    total: int
    labelled: int
    by_class: list[int] = field(metadata=_about("Labelled rows, in the order of `classes`."))
    unlabelled: int
    test: int = field(default=0, metadata=_about("Held out of the training that they measured."))
    dropped: int = field(default=0, metadata=_about("Left out, as they lack a value."))
    feedback: int | None = field(
        default=None,
        metadata=_about("With a label that comes from a correction; null without feedback."),
    )


@dataclass(frozen=True, kw_only=True)
class MulticlassControl(JsonObject):
    """What a simpler method reached on the same rows."""

    calibration: ClassesFigures | None = None
    test: ClassesFigures | None = None


@dataclass(frozen=True, kw_only=True)
class DecidedByClass(JsonObject):
    """What the model says of the unlabelled rows that it was trained with."""

    rows: int
    measured: int = field(metadata=_about("Of them, drawn at random: those that it decided on."))
    said: list[int] = field(metadata=_about("Of these, those of which it says each class."))
    undecided: int


@dataclass(frozen=True, kw_only=True)
class ClassRowsToLabel(JsonObject):
    """Unlabelled rows from whose labels most is to be learned, see `solver.class_queue`; most first.

    Classes are said by their place among those of the report; -1 in `said` is a row that is left undecided.
    """

    rows: list[int]
    said: list[int]
    best: list[int]
    following: list[int]
    """The class that is next to the most probable one."""
    probabilities: list[float]
    following_probabilities: list[float]
    reasons: list[str]
    covers: list[int]
    compared: int
    nearest: list[float]
    """These as of `solver.report.RowsToLabel`."""


@dataclass(frozen=True, kw_only=True)
class DoubtedClasses(JsonObject):
    """Labelled rows of which another class is more probable; those of the least probable label first."""

    rows: list[int]
    labels: list[int]
    probabilities: list[float]
    """Of the labels, by models that left the row out."""
    instead: list[int]
    instead_probabilities: list[float]
    judged: int
    """Labelled rows that have such probabilities."""
    better_than_chance: bool
    """Whether these agree with the labels more often than chance does."""


@dataclass(frozen=True, kw_only=True)
class ClassesQueue(JsonObject):
    """Which rows of the data set to label next, and which labels look wrong."""

    improve: ClassRowsToLabel
    suspicious: DoubtedClasses


@dataclass(frozen=True, kw_only=True)
class MulticlassReport(JsonObject):
    """What a training of several classes was asked, what it reached, how, and what it cost."""

    algorithm: str
    scheme: str = field(
        metadata=_about("`one_vs_one`: a problem of two classes for each pair; `one_vs_rest`: one for each class.")
    )
    params: dict[str, Any]
    objective: dict[str, Any]
    status: str = field(
        metadata=_about(
            "`met`; `preference_unmet` where a floor is not reached on left-out rows; `unmeasured` where none were "
            "left out; `solver_limit`."
        )
    )
    status_reason: str = field(metadata=_about("One sentence; empty if the objective was met."))
    promise: Promise | None = field(
        default=None,
        metadata=_about(
            "What can be relied on. Its bounds are the lower ends of the intervals of left-out rows; no chance of a "
            "floor is computed for several classes, and none is called `likely` or `proven`."
        ),
    )
    classes: list[str] = field(metadata=_about("In the order in which all lists by class are."))
    rows: MulticlassRows
    calibration: ClassesFigures | None = field(
        metadata=_about(
            "On labelled rows, each decided by models, probabilities and a rule that it had no say in (cross-fitting)."
        )
    )
    test: ClassesFigures | None = field(
        metadata=_about(
            "On rows that nothing was fitted to; null without a test fraction. With `refit`, of the model before."
        )
    )
    controls: dict[str, MulticlassControl] = field(
        default_factory=dict,
        metadata=_about(
            "`majority`: the largest class is said of every row. `plain_svm`: the supervised SVM by the same scheme, "
            "which says the class of most votes or of the highest score."
        ),
    )
    floors: list[FloorOutcome] = field(default_factory=list)
    log_loss: float | None = field(
        default=None, metadata=_about("Of the probabilities, on the same rows as `calibration`.")
    )
    share_log_loss: float | None = field(
        default=None, metadata=_about("That of the classes' shares: what probabilities that tell nothing have.")
    )
    methods: dict[str, int] = field(
        default_factory=dict,
        metadata=_about("What decides how many of the problems of two classes, where it was chosen (`auto`, `mode`)."),
    )
    refit: Refit | None = field(
        default=None, metadata=_about("Null where the model never learned from the test rows, or there are none.")
    )
    succession: Succession | None = field(
        default=None, metadata=_about("Beside the model before; null for a training without an alias.")
    )
    unlabelled: DecidedByClass | None = field(
        default=None, metadata=_about("Null for a training without unlabelled rows.")
    )
    features: int | None = field(default=None, metadata=_about("Columns of the matrix that was learned from."))
    encoder: ReportedEncoder | None = field(
        default=None, metadata=_about("That the texts of each row are sent to. Null where texts are taken as words.")
    )
    columns: list[ModelColumn] = field(default_factory=list, metadata={"exclude": True})
    curves: list[CurvePoints] = field(default_factory=list, metadata={"exclude": True})
    queue: ClassesQueue | None = field(default=None, metadata={"exclude": True})
    feedback: FeedbackReport | None = field(default=None, metadata=_about("Null for a training without feedback."))
    labels: JoinedLabelsReport | None = field(
        default=None, metadata=_about("Null where the rows themselves had the labels.")
    )
    timings: dict[str, float] = field(default_factory=dict, metadata=_about("Seconds of each phase."))
    peak_memory_bytes: int | None = None
    excluded: list[ExcludedColumn] = field(
        default_factory=list, metadata=_about("Columns that were left out because they number or name the rows.")
    )
    warnings: list[str] = field(default_factory=list)

    def with_seconds(self, **phases: float) -> Self:
        """The report with these seconds added to those of each phase."""
        added = {name: self.timings.get(name, 0.0) + seconds for name, seconds in phases.items()}
        return replace(self, timings=self.timings | added)


AnyReport = Report | MulticlassReport


def is_of_several(report: Mapping[str, Any]) -> bool:
    """Whether a stored report is of a training of several classes: it lists them, where two have names."""
    return isinstance(report.get("classes"), list)


def any_report(stored: Mapping[str, Any]) -> AnyReport:
    """Read a stored report of either kind; raises ValueError for one that is not whole."""
    return MulticlassReport.from_dict(stored) if is_of_several(stored) else Report.from_dict(stored)

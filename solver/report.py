"""The report of a training: what was asked, what was reached, how, and what it cost.

The fit fills it (`solver.estimators`), `solver.training` adds what it knows of the data, and the worker its own
seconds. Each completes the one before with `dataclasses.replace`; everybody else reads attributes. The JSON that is
stored with a model is `Report.to_dict`, and the answers of the API have their schema from these classes: the
descriptions stand beside the fields.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Final, Self, cast, get_args, get_origin, get_type_hints

from solver.band import Band


def _about(description: str, **more: Any) -> dict[str, Any]:
    """What the schema of the API says of a field."""
    return {"description": description, **more}


_INSIDE: Final[Mapping[str, Any]] = {"exclude": True}
"""Of a field that is stored with a model and is no part of the report that the API shows."""
MOST_OF_A_KIND: Final = 20
# what `repr` makes of a name
_QUOTED: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")


class JsonObject:
    """A dataclass that JSON can say."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, with null for NaN and infinity, which JSON lacks."""
        return {name: json_ready(value) for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, value: object) -> Self:
        """Read the JSON form, also of an older version: what it did not know yet takes its default.

        Raises
        ------
        ValueError
            If something is missing that every version wrote, or something is no value of its kind.
        """
        read: Callable[[object], Self] = _reader(cast("Any", cls))
        return read(value)


@dataclass(frozen=True)
class Estimate(JsonObject):
    """A measure with its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Measures(JsonObject):
    """Counts and measures on one set of rows."""

    n: int
    true_positives: int
    false_positives: int
    true_negatives: int
    false_negatives: int
    precision: Estimate | None = field(
        metadata=_about("Null where it is undefined: nothing is predicted positive."),
    )
    recall: Estimate | None
    f1: Estimate | None
    false_positive_rate: Estimate | None = field(
        default=None,
        metadata=_about(
            "Share of the negative rows that are predicted positive: of a mail filter the good mails that are lost. "
            "Null where no row is negative, and in reports of trainings before it was measured."
        ),
    )
    cost: Estimate | None = field(default=None, metadata=_about("Mean cost of a row, where the objective is a cost."))
    confidence: float = field(metadata=_about("Level of the intervals."))

    @property
    def predicted_positives(self) -> int:
        """Rows that are predicted positive."""
        return self.true_positives + self.false_positives


@dataclass(frozen=True, kw_only=True)
class CalledRows(JsonObject):
    """Rows that are given one label by a decision that may leave rows undecided."""

    label: str
    rows: int = field(metadata=_about("That are called so."))
    right: int = field(metadata=_about("Of them, those that are."))
    reason: str | None = field(default=None, metadata=_about("Why no row is called so; null where some are."))


@dataclass(frozen=True, kw_only=True)
class Abstention(JsonObject):
    """A decision that may leave rows undecided: positive above `upper`, negative at or below `lower`, else null.

    On both sides `precision` was asked for. `threshold` lies between the two.
    """

    precision: float
    lower: float | None = field(metadata=_about("Null: no row is called negative."))
    upper: float | None = field(metadata=_about("Null: no row is called positive."))
    rows: int = field(metadata=_about("That were decided on: calibration rows."))
    positive: CalledRows
    negative: CalledRows

    @property
    def band(self) -> Band:
        """What a decision function needs of it."""
        lower, upper = self.lower, self.upper
        return Band(-math.inf if lower is None else lower, math.inf if upper is None else upper)

    @property
    def undecided(self) -> int:
        """Rows without a label."""
        return self.rows - self.positive.rows - self.negative.rows


@dataclass(frozen=True)
class Control(JsonObject):
    """What a simpler method reached on the same rows."""

    threshold: float | None = None
    calibration: Measures | None = None
    test: Measures | None = None


@dataclass(frozen=True)
class Classes(JsonObject):
    """Names of the two classes."""

    negative: str
    positive: str


@dataclass(frozen=True, kw_only=True)
class RowCounts(JsonObject):
    """How many rows there were."""

    total: int
    labelled: int
    positive: int
    negative: int
    unlabelled: int
    test: int = field(default=0, metadata=_about("Held out of the training that they measured."))
    dropped: int = field(default=0, metadata=_about("Left out, as they lack a value."))
    feedback: int | None = field(
        default=None,
        metadata=_about(
            "With a label that comes from a correction; only for a training with feedback.",
            exclude_if=lambda n: n is None,
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Refit(JsonObject):
    """The model was trained once more, on the test rows too, after they had measured the one before."""

    labelled: int = field(metadata=_about("Labelled rows that the model learned from."))
    measured: int = field(metadata=_about("Labelled rows that the model before, which `test` is of, learned from."))
    method: str | None = field(
        default=None, metadata=_about("That `auto` took for the model which `test` is of, where it is another one.")
    )


@dataclass(frozen=True)
class RefusedFeedback(JsonObject):
    """Corrected rows that could not be used."""

    reason: str
    rows: int


@dataclass(frozen=True)
class ConcludedFeedback(JsonObject):
    """Labels that nobody gave, but a rule of a mail system, say."""

    source: str
    rows: int = field(metadata=_about("As many were sent; a label that somebody gave counts before them."))
    weight: float = field(
        metadata=_about("How much each counts in the training, where a label that somebody gave has 1.")
    )


@dataclass(frozen=True, kw_only=True)
class FeedbackReport(JsonObject):
    """What became of the corrected rows."""

    rows: int = field(metadata=_about("Corrected rows that were sent."))
    added: int = field(
        metadata=_about("Rows that the data set has not: learned from, and never measured on unless chance chose them.")
    )
    relabelled: int = field(metadata=_about("Rows of the data set that have another label now, or one at all."))
    newly_labelled: int | None = field(
        default=None, metadata=_about("Of the relabelled ones, those without a label before. Null in old reports.")
    )
    confirmed: int = field(metadata=_about("Rows of the data set that had this label."))
    superseded: int = field(metadata=_about("Corrections of which a later one says otherwise, or the same."))
    random: int = field(
        default=0,
        metadata=_about("Rows without a label before that chance chose: measured on like other labelled rows."),
    )
    audited: int = field(
        default=0,
        metadata=_about(
            "Of the rows sent, those that an audit had drawn. It draws at different rates: as many of them are "
            "measured on, among `random`, as are a sample with one rate. All are learned from."
        ),
    )
    held_out: int = field(
        metadata=_about("Corrected rows of the data set that were tested on before they were learned.")
    )
    refused: list[RefusedFeedback]
    concluded: list[ConcludedFeedback] = field(
        default_factory=list, metadata=_about("Labels among them that nobody gave, by what concluded them.")
    )


@dataclass(frozen=True, kw_only=True)
class JoinedLabelsReport(JsonObject):
    """How the labels of another data set found their rows."""

    labelled: int = field(metadata=_about("Rows that have a label from there."))
    unmatched: int = field(metadata=_about("Keys with a label that no row has."))
    repeated: int = field(metadata=_about("Rows there that say again what an earlier one of the same key says."))
    without_key: int = field(metadata=_about("Rows there that have a label and no key."))
    rows_without_key: int = field(metadata=_about("Rows of the data set without a key; they count as unlabelled."))
    shared: int = field(metadata=_about("Rows that have their label together with an earlier row of the same key."))


@dataclass(frozen=True)
class ExcludedColumn(JsonObject):
    """A column that was left out, and why."""

    name: str
    reason: str = field(metadata={"examples": ["counts the rows"]})


@dataclass(frozen=True)
class ModelColumn(JsonObject):
    """A column that a row for the model must have."""

    name: str
    kind: str = field(
        metadata=_about(
            "`number`, `category`, `date`, `text` or `vector`: what a value must be. A vector is sent as a list of "
            "`length` numbers, all but numbers and vectors as text."
        )
    )
    length: int | None = field(default=None, metadata=_about("Numbers of a vector; null of other columns."))


@dataclass(frozen=True)
class ReportedEncoder(JsonObject):
    """Which encoder makes vectors of texts."""

    model: str = field(metadata=_about("As it is called where it runs."))
    dimensions: int = field(metadata=_about("Numbers of its vectors."))
    columns: list[str] = field(metadata=_about("Whose texts are encoded."))


@dataclass(frozen=True, kw_only=True)
class SpreadScores(JsonObject):
    """Scores, counted in equal parts from the least of them to the greatest."""

    least: float
    greatest: float
    counts: list[int]


@dataclass(frozen=True, kw_only=True)
class DecidedUnlabelled(JsonObject):
    """What the model says of the unlabelled rows that it was trained with."""

    rows: int
    measured: int = field(metadata=_about("Of them, drawn at random: those that it decided on."))
    positive: int = field(metadata=_about("Of these, those that it calls positive."))
    undecided: int = field(default=0, metadata=_about("Of these, those that it leaves undecided."))
    share: float
    labelled_share: float = field(metadata=_about("Share of positive ones among the labelled rows."))
    scores: SpreadScores | None = field(
        default=None, metadata=_about("Those of the measured ones; null in reports of older versions.")
    )

    @property
    def called(self) -> int:
        """Of all of them, those that it calls positive, as far as the measured ones tell."""
        return round(self.share * self.rows)


@dataclass(frozen=True)
class TuningCell(JsonObject):
    """One C and gamma that were tried."""

    C: float
    gamma: float
    utility: float | None = field(
        metadata=_about("What the objective is worth there; null where the solver did not converge.")
    )


@dataclass(frozen=True)
class TuningReport(JsonObject):
    """The C and gamma that were chosen, and what every cell of the grid reached."""

    C: float
    gamma: float
    rows: int | None = field(
        default=None,
        metadata=_about("Labelled rows that chose; null for models of old, where all did."),
    )
    cells: list[TuningCell] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class ComparisonReport(JsonObject):
    """The method against the same one without the unlabelled rows, on the same calibration rows."""

    mode: str
    returned: str = field(metadata=_about("`method` or `no_unlabelled`."))
    gain: float = field(metadata=_about("Of the objective's utility by the unlabelled rows."))
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class JudgedMethod(JsonObject):
    """A method beside the SVM, as `auto` judges it."""

    method: str
    log_loss: float = field(metadata=_about("Mean over the calibration rows, each left out."))
    gain: float = field(metadata=_about("By how much that is less than the SVM's."))
    standard_error: float = field(metadata=_about("Of the gain, row by row."))
    sharpness: float = field(
        metadata=_about("Share of the variance of the unlabelled rows' scores between both sides of the threshold.")
    )
    rank_correlation: float = field(metadata=_about("Of the unlabelled rows, with the ranks that the SVM gives them."))
    passes: bool = field(
        metadata=_about(
            "Whether it is better (on mails: no worse by more than a standard error), parts more sharply, and ranks "
            "alike."
        )
    )


@dataclass(frozen=True, kw_only=True)
class Judgement(JsonObject):
    """What `auto` took, and why."""

    mode: str
    returned: str = field(metadata=_about("`svm`, or the method that was taken instead."))
    log_loss: float | None = field(metadata=_about("Of the SVM. Null where no method was tried."))
    sharpness: float | None = field(metadata=_about("Of the SVM."))
    methods: list[JudgedMethod]
    sentence: str = field(metadata=_about("All of it in words."))


@dataclass(frozen=True, kw_only=True)
class ReliabilityBin(JsonObject):
    """Rows of similar probability."""

    n: int
    predicted: float = field(metadata=_about("Their mean probability."))
    observed: float = field(metadata=_about("Share of positive ones among them."))


@dataclass(frozen=True, kw_only=True)
class ProbabilityReport(JsonObject):
    """How scores become probabilities, 1 / (1 + exp(-(slope · score + offset))), and how good they are."""

    slope: float
    offset: float
    brier: float = field(metadata=_about("Mean squared difference between the probability and the truth."))
    reliability: list[ReliabilityBin]


@dataclass(frozen=True)
class PolishReport(JsonObject):
    """How an exact solution was made of a low-rank one."""

    candidates: int
    missed: float


@dataclass(frozen=True, kw_only=True)
class LowRankDifference(JsonObject):
    """Both engines trained on the same sample of rows, compared on rows that neither has seen."""

    rows_trained: int
    rows_compared: int
    accuracy_exact: float
    accuracy_lowrank: float
    same_decision: float
    mean_score_difference: float | None
    mean_score: float | None


@dataclass(frozen=True, kw_only=True)
class LowRankReport(JsonObject):
    """How far the low-rank engine is from the exact one."""

    reason: str | None
    landmarks: int
    rank: int
    factor_in_file: bool
    polish: PolishReport | None
    difference: LowRankDifference | None


@dataclass(frozen=True, kw_only=True)
class SolverReport(JsonObject):
    """How the quadratic program of the model was solved."""

    gap: float | None = None
    objective: float | None = None
    iterations: int | None = field(default=None, metadata=_about("Of all programs of the training."))
    status: str | None = None
    support_vectors: int | None = None
    engine: str | None = None
    lowrank: LowRankReport | None = field(default=None, metadata=_about("Null for an exact solution."))


@dataclass(frozen=True)
class CurvePoints(JsonObject):
    """What every threshold gives on the calibration rows, see `solver.evaluation.OperatingCurve`."""

    thresholds: list[float]
    true_positives: list[int]
    false_positives: list[int]
    positives: int
    negatives: int


@dataclass(frozen=True)
class FoundPoints(JsonObject):
    """What lies above each threshold where no negative row is labelled, see `solver.positive_unlabelled.left_out`."""

    thresholds: list[float]
    found: list[int]
    called: list[int]
    positives: int
    unlabelled: int


@dataclass(frozen=True, kw_only=True)
class PositivesOnly(JsonObject):
    """What is known of a model where no negative row is labelled, of rows like the unlabelled ones.

    The recall is counted on positive rows that were left out; all else follows from the share of the unlabelled rows
    that is called positive, and from the share of them that is so. No negative row was seen.
    """

    share: Estimate = field(metadata=_about("Of positives among the unlabelled rows."))
    share_given: bool = field(metadata=_about("Whether the request said it (`positive_share`); else it is estimated."))
    share_useful: bool = field(metadata=_about("Whether the interval of the share is short enough to say anything."))
    found: int = field(metadata=_about("Left-out positive rows that are called positive."))
    positives: int = field(metadata=_about("Positive rows, each left out once."))
    called: int = field(metadata=_about("Left-out unlabelled rows that are called positive."))
    unlabelled: int = field(metadata=_about("Unlabelled rows that were left out once: all, or some that chance drew."))
    unlabelled_rows: int = field(metadata=_about("Unlabelled rows that there are."))
    recall: Estimate
    called_share: Estimate = field(metadata=_about("Of the unlabelled rows that is called positive."))
    precision: Estimate | None = field(
        metadata=_about("With the share. Null where that is not useful, or nothing is called positive.")
    )
    f1: Estimate | None = field(metadata=_about("With the share; null where that is not useful."))
    false_positive_rate: Estimate | None = field(metadata=_about("With the share; null where that is not useful."))
    cost: Estimate | None = field(
        default=None, metadata=_about("Mean cost of a row, with the share, where the objective is a cost.")
    )
    confidence: float = field(default=0.95, metadata=_about("Level of the intervals."))
    curve: FoundPoints | None = field(default=None, metadata=_INSIDE)
    sentence: str = field(metadata=_about("What the figures rest on, in words."))

    @property
    def figures(self) -> list[tuple[str, Estimate]]:
        """The figures with their names, for people; a cost is in the units of the request, all else are shares."""
        found = [
            ("Recall, of left-out positive rows", self.recall),
            ("Called positive, of unlabelled rows", self.called_share),
            (f"Share of positives among these, {'given' if self.share_given else 'estimated'}", self.share),
            ("Precision, with that share", self.precision),
            ("F1, with that share", self.f1),
            ("False positive rate, with that share", self.false_positive_rate),
            ("Cost of a row, with that share", self.cost),
        ]
        return [(name, value) for name, value in found if value is not None]


@dataclass(frozen=True)
class RowsToLabel(JsonObject):
    """Unlabelled rows from whose labels most is to be learned, see `solver.labelling_queue`; most first."""

    rows: list[int]
    scores: list[float]
    reasons: list[str]
    covers: list[int]
    """How many of those that were compared are more like a row than like any labelled one or one before it."""
    compared: int
    nearest: list[float] = field(default_factory=list)
    """How like a row is the labelled one, or one before it, that is most like it, from 0 to 1; empty in old reports."""


@dataclass(frozen=True)
class DoubtedLabels(JsonObject):
    """Labelled rows whose label is not likely; the least likely first."""

    rows: list[int]
    scores: list[float]
    """Of models that left the row out."""
    positive: list[bool]
    """The labels."""
    judged: int
    """Labelled rows that have such a score."""
    better_than_chance: bool
    """Whether these scores tell the labels apart at all."""


@dataclass(frozen=True)
class LabellingQueue(JsonObject):
    """Which rows of the data set to label next, and which labels look wrong."""

    improve: RowsToLabel
    suspicious: DoubtedLabels


@dataclass(frozen=True, kw_only=True)
class Weighed(JsonObject):
    """How much a part of the rows weighs in their scores."""

    kind: str = field(metadata=_about("`column`; `term`, a word of a text; `encoding`, the vector of an encoder."))
    column: str
    term: str | None = field(default=None, metadata=_about("The word; null of other kinds."))
    mean: float = field(metadata=_about("Mean change of the score by it: above 0 it speaks for the positive class."))
    mean_size: float = field(metadata=_about("Mean of the changes without their signs; the list is ordered by it."))
    rows: int = field(metadata=_about("Of the rows that were looked at, those whose score it changes."))


@dataclass(frozen=True, kw_only=True)
class Weights(JsonObject):
    """What the scores of labelled rows are made of: of the model, not of how the world is."""

    rows: int = field(metadata=_about("Labelled rows that were looked at, drawn at random: 100 at most."))
    adds_up: bool = field(
        metadata=_about("Whether the changes of all parts of a row add up to its score less the intercept (linear).")
    )
    columns: list[Weighed] = field(metadata=_about("At most 20, a text as a whole."))
    terms: list[Weighed] = field(
        metadata=_about("Words of the training rows, at most 20; none with `features.keep_words: false`.")
    )
    sentence: str = field(metadata=_about("What is to be thought of them, in words."))


@dataclass(frozen=True)
class SharedStage(JsonObject):
    """A stage of a training that several workers shared."""

    parts: int
    elsewhere: int = field(metadata=_about("Of them, those that other workers computed."))


@dataclass(frozen=True, kw_only=True)
class Needs(JsonObject):
    """Rows that would prove a target if what was seen on the labelled ones goes on."""

    random_labels: int = field(
        metadata=_about("Further labels, of rows drawn at random, for a proof; 0 or less: those that are there may do.")
    )
    checked_rows: int | None = field(
        metadata=_about(
            "Unlabelled rows called positive that an audit takes, if errors are spread evenly; null for other targets. "
            "No more than there are, unless there are none: they have to be uploaded then."
        )
    )
    unlabelled: int | None = field(default=None, metadata=_about("Rows that have no label; null: not known."))
    checkable: int | None = field(
        default=None, metadata=_about("Of these, those called positive, as far as known: no more than that.")
    )

    @property
    def by_audit(self) -> bool:
        """Whether an audit is less work than more labels; where neither is needed, it is not."""
        return self.checked_rows is not None and self.random_labels > 0 and self.checked_rows <= self.random_labels


@dataclass(frozen=True, kw_only=True)
class PromisedSide(JsonObject):
    """How many of the rows that get a label get the right one, where rows may be left undecided."""

    label: str
    level: str | None = field(
        metadata=_about("`proven`, `likely` or `open`, as of a target. Null: no row is called so.")
    )
    chance: float | None = field(metadata=_about("That the share of right ones is what was asked; null without one."))
    bound: float | None = field(metadata=_about("What that share is at least; null without one."))


@dataclass(frozen=True, kw_only=True)
class PromisedAbstention(JsonObject):
    """What can be relied on of a decision that may leave rows undecided."""

    positive: PromisedSide
    negative: PromisedSide
    undecided: Estimate = field(metadata=_about("Share of rows that get no label."))


@dataclass(frozen=True, kw_only=True)
class Promise(JsonObject):
    """What can be relied on of a threshold, on new rows drawn like the labelled ones."""

    level: str | None = field(
        metadata=_about(
            "`proven`, with the confidence that was asked; `likely`: the chance is at least 0.75; `open`: the labelled "
            "rows reach the target, but it is not likely enough; `missed`: they do not. Null without a target."
        )
    )
    chance: float | None = field(metadata=_about("That the target holds; null without one."))
    confidence: float = field(metadata=_about("Level of the bounds: that of the objective, else 0.95."))
    bounds: dict[str, float] = field(
        metadata=_about(
            "What each measure is at least (a false positive rate and a cost: at most). Empty where nothing was "
            "measured honestly."
        )
    )
    needs: Needs | None = field(
        default=None, metadata=_about("What would prove the target; null where it is, or nothing to speak of would.")
    )
    abstain: PromisedAbstention | None = field(
        default=None, metadata=_about("Of both labels, where rows may be left undecided; else null.")
    )
    sentence: str = field(metadata=_about("All of it in words."))
    advice: str = field(
        default="",
        metadata=_about("The part of `sentence` that says what would prove more. Empty: none, or a model of before."),
    )

    @property
    def without_advice(self) -> str:
        """The sentence of a target that was proven otherwise."""
        if not self.advice:
            return self.sentence
        before, _, after = self.sentence.partition(self.advice)  # a model of before has it with a blank
        return " ".join(part for part in (before.strip(), after.strip()) if part)


@dataclass(frozen=True, kw_only=True)
class ComparedRows(JsonObject):
    """Two models on the same rows, of which neither had learned the label."""

    n: int
    new: int = field(
        metadata=_about(
            "Of them, those that had no label when the older model was trained: it decided on them itself. The others "
            "were its test rows: the model decided that they measured."
        )
    )
    before: Measures = field(metadata=_about("The older model."))
    now: Measures = field(
        metadata=_about("The model of this training that the test rows measured; with `refit` it had fewer labels.")
    )
    value: str = field(metadata=_about("What the gain is of, in words."))
    gain: float = field(metadata=_about("Of the objective's utility, from the older model to this one."))
    low: float = field(metadata=_about("Of a paired bootstrap interval of 95 %."))
    high: float


@dataclass(frozen=True, kw_only=True)
class Succession(JsonObject):
    """The model that an alias pointed at, beside the one that was trained for it."""

    alias: str
    policy: str = field(metadata=_about("`if_not_worse`, `if_met` or `always`."))
    moved: bool = field(metadata=_about("Whether the alias was moved to this model."))
    model: str | None = field(metadata=_about("The older model; null where the alias pointed at none."))
    promise: Promise | None = field(default=None, metadata=_about("Of the older model."))
    rows: ComparedRows | None = field(
        default=None, metadata=_about("Both on the same rows; null where there are none that neither had learned.")
    )
    sentence: str = field(metadata=_about("All of it in words; how to move the alias, if it was not."))


@dataclass(frozen=True, kw_only=True)
class ReportedPoint(JsonObject):
    """A threshold, the objective that it was chosen for, and whether it serves that."""

    promise: Promise | None = field(
        default=None, metadata=_about("What can be relied on. Null where nothing was measured, and in old reports.")
    )
    objective: dict[str, Any]
    status: str = field(
        metadata=_about(
            "`met` (see `promise`), `preference_unmet`, `cannot_certify`, `solver_limit` or `stopped`.",
            examples=["met"],
        )
    )
    status_reason: str = field(metadata=_about("One sentence; empty if the objective was met."))
    threshold: float = field(metadata=_about("The decision is score > threshold, but see `abstain`."))
    calibration: Measures | None = field(
        metadata=_about(
            "On the rows that the threshold was chosen on. The intervals are the wider for that: each row counts for "
            "0.7 of an untouched one."
        )
    )
    abstain: Abstention | None = field(
        default=None,
        metadata=_about(
            "Where the objective says `abstain`: the scores around the threshold that are left undecided, counted on "
            "the calibration rows. All other measures are of the threshold alone. Null: each row gets a label."
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Report(ReportedPoint):
    """What was asked, what was reached, how, and what it cost."""

    algorithm: str
    params: dict[str, Any]
    classes: Classes
    rows: RowCounts
    labeled_split: str | None = field(
        default=None, metadata=_about("Where the calibration rows came from: `xfit`, `part` or `full`.")
    )
    threshold_rule: str | None = None
    certificate: str | None = field(
        default=None,
        metadata=_about(
            "By which rows the target was tested: `cross_fitted`, all labelled rows, each scored by a model that left "
            "it out; `strict`, a half of them that training has not looked at. Null where no confidence was asked for."
        ),
    )
    test: Measures | None = field(
        metadata=_about(
            "On rows that nothing was fitted to; null without a test fraction. With `refit`, of the model before."
        )
    )
    test_abstain: Abstention | None = field(
        default=None,
        metadata=_about("The labels that the test rows were given, where rows may be left undecided; else null."),
    )
    positives_only: PositivesOnly | None = field(
        default=None, metadata=_about("Where no negative row measured: what is known without any; else null.")
    )
    refit: Refit | None = field(
        default=None, metadata=_about("Null where the model never learned from the test rows, or there are none.")
    )
    succession: Succession | None = field(
        default=None, metadata=_about("Beside the model before; null for a training without an alias.")
    )
    controls: dict[str, Control] = field(
        default_factory=dict,
        metadata=_about("`no_unlabelled`: the same method without the unlabelled rows. `plain_svm`: at threshold 0."),
    )
    comparison: ComparisonReport | None = field(
        default=None, metadata=_about("Null for a method that uses no unlabelled rows.")
    )
    judge: Judgement | None = field(
        default=None, metadata=_about("Of `auto`, where some rows have no label; else null.")
    )
    tuning: TuningReport | None = field(default=None, metadata=_about("Null where nothing was tuned."))
    probability: ProbabilityReport | None = field(
        default=None, metadata=_about("Null where no rows of both classes were left to fit it on.")
    )
    rounds: list[dict[str, Any]] = field(
        default_factory=list, metadata=_about("What the method tells of its training; each method has its own.")
    )
    features: int | None = field(default=None, metadata=_about("Columns of the matrix that was learned from."))
    encoder: ReportedEncoder | None = field(
        default=None,
        metadata=_about(
            "That the texts of each row are sent to, also when predicting: the model decides by this one and no other. "
            "Null where texts are taken as words."
        ),
    )
    columns: list[ModelColumn] = field(default_factory=list, metadata=_INSIDE)
    weights: Weights | None = field(
        default=None,
        metadata=_about("What weighs most in the scores; null for models of before and trainings that were stopped."),
    )
    curve: CurvePoints | None = field(default=None, metadata=_INSIDE)
    queue: LabellingQueue | None = field(default=None, metadata=_INSIDE)
    feedback: FeedbackReport | None = field(default=None, metadata=_about("Null for a training without feedback."))
    labels: JoinedLabelsReport | None = field(
        default=None, metadata=_about("Null where the rows themselves had the labels.")
    )
    solver: SolverReport | None = None
    timings: dict[str, float] = field(default_factory=dict, metadata=_about("Seconds of each phase."))
    peak_memory_bytes: int | None = None
    unlabelled: DecidedUnlabelled | None = field(
        default=None, metadata=_about("Null for a training without unlabelled rows.")
    )
    excluded: list[ExcludedColumn] = field(
        default_factory=list,
        metadata=_about("Columns that were left out because they number or name the rows."),
    )
    parts: dict[str, SharedStage] = field(
        default_factory=dict, metadata=_about("By stage of the training that several workers shared.")
    )
    warnings: list[str] = field(default_factory=list)

    def with_seconds(self, **phases: float) -> Self:
        """The report with these seconds added to those of each phase."""
        added = {name: self.timings.get(name, 0.0) + seconds for name, seconds in phases.items()}
        return replace(self, timings=self.timings | added)


# -- JSON --------------------------------------------------------------------------------------------------------------


def json_ready(value: Any) -> Any:
    """The same as JSON has it: objects for dataclasses, and None for NaN and infinity."""
    if isinstance(value, JsonObject):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {name: json_ready(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@functools.cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """What makes a value of a type from its JSON, or raises ValueError."""
    if kind is Any:
        return lambda value: value
    if is_dataclass(kind):
        return _object_reader(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is UnionType:
        (some,) = (_reader(argument) for argument in arguments if argument is not NoneType)
        return lambda value: None if value is None else some(value)
    if origin is list:
        item = _reader(arguments[0])
        return lambda value: [item(each) for each in _checked(list, value)]
    if origin is dict:
        item = _reader(arguments[1])
        return lambda value: {name: item(each) for name, each in _checked(dict, value).items()}
    return functools.partial(_checked, (int, float) if kind is float else kind)


def _object_reader(kind: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(kind)
    known = [
        (each.name, _reader(hints[each.name]), each.default is MISSING and each.default_factory is MISSING)
        for each in fields(kind)
    ]

    def read(value: Any) -> Any:
        given = _checked(dict, value)
        made = {}
        for name, reader, is_needed in known:
            if name in given:
                try:
                    made[name] = reader(given[name])
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None
            elif is_needed:
                raise ValueError(f"{name} is missing")
        return kind(**made)

    return read


def _checked(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"expected {kind}, got {type(value).__name__}")
    return value


def few_of_a_kind(warnings: Sequence[str]) -> list[str]:
    """Return warnings of which no more than `MOST_OF_A_KIND` differ in the names they quote alone.

    Of a table of very many columns each may have the same fault: how many more there are is said then.
    """
    seen: dict[str, int] = {}
    kept = []
    for each in warnings:
        kind = _QUOTED.sub("…", each)
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= MOST_OF_A_KIND:
            kept.append(each)
    more = {kind: count - MOST_OF_A_KIND for kind, count in seen.items() if count > MOST_OF_A_KIND}
    return kept + [f"{count} more like this: {kind}" for kind, count in more.items()]

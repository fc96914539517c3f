"""A training that was read and checked: the rows, what their labels mean, and which of them are held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from solver.algorithms import ALGORITHMS, AUTO, POSITIVES_ONLY, AlgorithmSpec, ParamError, validate_params
from solver.choices import FEWEST_OF_A_CLASS
from solver.corrections import Corrected, Corrections, Rules, apply_corrections
from solver.evaluation.splits import is_grouped
from solver.features import MISSING_POLICIES, MatrixData, Table, missing_values
from solver.kinds import identifier_warning
from solver.labels import counted, unclear_labels
from solver.multiclass import ClassObjective, ClassObjectiveError
from solver.operating_point import Objective, ObjectiveError
from solver.refusals import NO_ABSTAINING, left_out_needed, no_unlabelled
from solver.report import ExcludedColumn, FeedbackReport, RowCounts
from solver.row_groups import groups_of, told_of_groups
from solver.training.held_out import draw_test_rows
from solver.training.request import TrainingError, TrainingRequest
from solver.training.target import NEGATIVE, POSITIVE, UNLABELLED, Target, fold_labels, keep_some_labels, read_labels
from solver.typing import BoolArray, FloatArray, IndexArray

_IS_KEY: Final = "is the key, which names the rows"


@dataclass(frozen=True)
class TrainingTask:
    """What is trained: rows, labels and request, read and checked.

    Attributes
    ----------
    request : TrainingRequest
        With what is left out among its `exclude`, and one spelling of each label.
    corrected : Corrected
        The rows that take part.
    n_rows : int
        Those that there were before incomplete ones were dropped.
    dropped : list of str
        What to say of those.
    identifiers : dict of str to str
        Columns that the request does not name, each with what shows that it numbers or names the rows.
    target, spec, params, objective
        `params` lacks nothing but the choice of a kernel, where that is "auto".
    class_objective : ClassObjective or None
        None for two classes; with it, `objective` is that of each problem of two.
    test_rows, train_rows : int arrays
        Ascending. Copies of test rows are in neither of them.
    complete : int array or None
        Which rows of all take part; None where all do.
    n_given : int
        Rows of the data set; those behind them were added.
    groups : int array or None
        Number of the group that each row that takes part belongs to; None where each is one of its own.
    """

    request: TrainingRequest
    corrected: Corrected
    n_rows: int
    dropped: list[str]
    identifiers: dict[str, str]
    target: Target
    spec: AlgorithmSpec
    params: dict[str, Any]
    objective: Objective
    class_objective: ClassObjective | None
    test_rows: IndexArray
    train_rows: IndexArray
    complete: IndexArray | None
    n_given: int
    groups: IndexArray | None = None

    @property
    def numbers(self) -> IndexArray:
        """Of the rows that are trained on, in the data set; those that were added go on from there."""
        return self.train_rows if self.complete is None else self.complete[self.train_rows]

    @property
    def is_original(self) -> BoolArray:
        """Which of the rows that are trained on are rows of the data set whose label nobody has looked at since."""
        return (self.numbers < self.n_given) & ~self.corrected.looked_at[self.train_rows]

    @property
    def train_codes(self) -> NDArray[np.int8]:
        """Codes of the labels of the rows that are trained on."""
        return self.target.codes[self.train_rows]

    @property
    def train_weights(self) -> FloatArray | None:
        """Weights of the rows that are trained on; None where all are 1."""
        weights = self.corrected.weights
        return None if weights is None else weights[self.train_rows]

    @property
    def train_unmeasured(self) -> BoolArray:
        """Which of the rows that are trained on are never measured on."""
        return self.corrected.unmeasured[self.train_rows]

    @property
    def train_groups(self) -> IndexArray | None:
        """Groups of the rows that are trained on; None where each is one of its own."""
        return None if self.groups is None else self.groups[self.train_rows]

    @property
    def train_data(self) -> Table | MatrixData:
        """The rows that are trained on."""
        return self.corrected.data.take(self.train_rows) if len(self.test_rows) else self.corrected.data

    @property
    def is_trained_on(self) -> BoolArray:
        """Which of the rows that take part are trained on before the test rows are."""
        marked = np.zeros(len(self.target.codes), dtype=bool)
        marked[self.train_rows] = True
        return marked

    @property
    def learned_labels(self) -> int:
        """How many labels are learned before those of the test rows are."""
        return int(np.count_nonzero(self.train_codes != UNLABELLED))

    @property
    def excluded(self) -> list[ExcludedColumn]:
        """The columns that were left out without being asked for."""
        key = {} if self.request.key is None else {self.request.key: _IS_KEY}
        return [ExcludedColumn(name, reason) for name, reason in (self.identifiers | key).items()]

    def of_all_rows(self) -> TrainingTask:
        """The same with the test rows among those that are trained on, as if none had been held out."""
        none = np.empty(0, dtype=self.test_rows.dtype)
        every = np.arange(len(self.target.codes), dtype=self.train_rows.dtype)
        request = replace(self.request, test_fraction=0.0)
        return replace(self, request=request, params={**self.params}, test_rows=none, train_rows=every)

    def counted(self) -> RowCounts:
        """How many rows there are of each kind."""
        target = self.target
        return RowCounts(
            total=self.n_rows,
            labelled=int(np.count_nonzero(target.codes != UNLABELLED)),
            positive=target.count(POSITIVE),
            negative=target.count(NEGATIVE),
            unlabelled=target.count(UNLABELLED),
            test=len(self.test_rows),
            dropped=self.n_rows - self.corrected.data.n_rows,
            feedback=None if self.corrected.report is None else int(np.count_nonzero(self.corrected.changed)),
        )

    def feedback(self) -> FeedbackReport | None:
        """What became of the corrected rows; None for a training without feedback."""
        made = self.corrected.report
        held_out = int(np.count_nonzero(self.corrected.changed[self.test_rows]))
        return None if made is None else replace(made, held_out=held_out)

    def warnings(self) -> list[str]:
        """What was odd before anything was learned."""
        refused = [] if self.corrected.report is None else self.corrected.report.refused
        return [
            *self.dropped,
            *(identifier_warning(name, reason) for name, reason in self.identifiers.items()),
            *(f"feedback: {part.rows} row(s) are not used: {part.reason}" for part in refused),
            *self.target.warnings,
            *_plan_warnings(self.target, self.spec),
            *_negatives_warnings(self.target, self.spec, self.params),
            *self._told_of_groups(),
        ]

    def _told_of_groups(self) -> list[str]:
        """What becomes of rows that belong together, if there are many."""
        if self.groups is None:
            return []
        return told_of_groups(self.groups, self.target.codes, self.target.classes, str(self.request.groups))


def prepare(
    data: Table | MatrixData, labels: NDArray[Any], request: TrainingRequest, corrections: Corrections | None
) -> TrainingTask:
    """Read and check what is to be trained; raises `TrainingError`."""
    if len(labels) != data.n_rows:
        raise ValueError(f"{data.n_rows} rows but {len(labels)} labels")
    identifiers = _identifiers(request)
    named = [name for name in (request.key, request.groups) if name is not None]
    request = replace(request, exclude=[*request.exclude, *identifiers, *named])
    if request.fold:
        labels, request, corrections = fold_labels(labels, request, corrections)
    unclear = unclear_labels(counted(labels), request.positive, request.unlabeled, request.negative)
    if unclear is not None:
        raise TrainingError("unclear_labels", unclear)
    known_labels = labels
    if request.keep is not None:
        labels = keep_some_labels(labels, request, request.keep)
    corrected = _correct(data, labels, request, corrections, known_labels)
    n_rows = corrected.data.n_rows
    before = np.append(labels, np.full(n_rows - len(labels), None))
    complete, dropped = _complete(corrected.data, request)
    if complete is not None:
        corrected, before = corrected.take(complete), before[complete]
    target = read_labels(corrected.labels, corrected.unmeasured, request)
    groups = _groups(corrected.data, request)
    return TrainingTask(
        request, corrected, n_rows, dropped, identifiers, target,
        *_plan(request, target), *draw_test_rows(target, corrected, before, request, groups), complete, data.n_rows,
        groups,
    )  # fmt: skip


def _groups(data: Table | MatrixData, request: TrainingRequest) -> IndexArray | None:
    """Number of each row's group; None where nothing tells that rows belong together."""
    if request.groups is None or not isinstance(data, Table):
        return None
    groups = groups_of(data.columns[request.groups].values)
    return groups if is_grouped(groups) else None


def _identifiers(request: TrainingRequest) -> dict[str, str]:
    """The identifiers that the request does not name."""
    spoken_of = {request.target, request.key, *(request.include or ()), *request.exclude, *request.kinds}
    return {name: reason for name, reason in request.identifiers.items() if name not in spoken_of}


def _correct(
    data: Table | MatrixData,
    labels: NDArray[Any],
    request: TrainingRequest,
    corrections: Corrections | None,
    known_labels: NDArray[Any],
) -> Corrected:
    """The rows with what was corrected since; as they are if nothing was."""
    if corrections is None:
        unchanged = np.zeros(len(labels), dtype=bool)
        return Corrected(data, labels, unchanged, unchanged, unchanged, None)
    rules = Rules(
        target=request.target,
        include=None if request.include is None else frozenset(request.include),
        exclude=frozenset(request.exclude),
        positive=request.positive,
        unlabeled=request.unlabeled,
        missing=request.missing,
        negative=request.negative,
        groups=request.groups,
    )
    return apply_corrections(data, labels, corrections, rules, known_labels)


def _complete(data: Table | MatrixData, request: TrainingRequest) -> tuple[IndexArray | None, list[str]]:
    """The rows that take part by the policy for missing values, None for all, and a warning if those are not all."""
    if request.missing not in MISSING_POLICIES:
        raise TrainingError("features", f"missing must be one of {', '.join(MISSING_POLICIES)}")
    if request.missing not in ("drop", "error"):
        return None, []
    exclude = [*request.exclude, *([] if request.target is None else [request.target])]
    incomplete, counts = missing_values(data, request.include, exclude)
    n_incomplete = int(np.count_nonzero(incomplete))
    if n_incomplete == 0:
        return None, []
    places = [f"{n} in {name!r}" for name, n in counts.items()]
    where = ", ".join(places[:10]) + (f" and {len(places) - 10} more columns" if len(places) > 10 else "")
    said = f"{n_incomplete} of {data.n_rows} rows lack a value ({where})"
    if request.missing == "error" or n_incomplete == data.n_rows:
        raise TrainingError(
            "missing_values", f"{said}; leave such columns out, or let missing values be indicated or imputed"
        )
    return np.flatnonzero(~incomplete), [f"{said} and take no part"]


def _plan(
    request: TrainingRequest, target: Target
) -> tuple[AlgorithmSpec, dict[str, Any], Objective, ClassObjective | None]:
    some_unlabelled = target.count(UNLABELLED) > 0
    name = request.algorithm
    try:
        params = validate_params(name, request.params)
        objective, class_objective = _objectives(request, target)
    except ParamError as error:
        raise TrainingError("params", str(error)) from error
    except (ObjectiveError, ClassObjectiveError) as error:
        raise TrainingError("objective", str(error)) from error
    spec = ALGORITHMS[name]
    if spec.needs_unlabelled and not some_unlabelled:
        raise TrainingError("no_unlabelled", no_unlabelled(name))
    if target.positives_only and objective.abstain is not None:
        raise TrainingError("objective", NO_ABSTAINING)
    if class_objective is not None and params["labeled_split"] != "xfit":
        raise TrainingError("params", left_out_needed(params["labeled_split"]))
    return spec, params, objective, class_objective


def _objectives(request: TrainingRequest, target: Target) -> tuple[Objective, ClassObjective | None]:
    """That of two classes, and where there are more theirs: each problem of two then has F1."""
    if not target.is_of_several:
        return Objective.parse(request.objective), None
    objective = ClassObjective.parse(request.objective)
    objective.check_classes(list(target.classes))
    return Objective("f1"), objective


def _plan_warnings(target: Target, spec: AlgorithmSpec) -> list[str]:
    n_unlabelled = target.count(UNLABELLED)
    if not n_unlabelled or spec.needs_unlabelled or spec.name == AUTO:
        return []
    return [
        f"{spec.name} does not learn from the {n_unlabelled} unlabelled rows; auto tries methods that do, and takes "
        "one where it is shown to be better"
    ]


def _negatives_warnings(target: Target, spec: AlgorithmSpec, params: Mapping[str, Any]) -> list[str]:
    """Say what becomes of negative rows that are too few to measure, and of a share that enough of them make idle."""
    negatives = target.count(NEGATIVE)
    if not target.positives_only:
        if spec.needs_negatives or params.get("positive_share") is None:
            return []
        return [f"positive_share is of no effect: {negatives} negative rows are labelled, and they measure"]
    if not negatives:
        return []
    learned = "it is learned" if negatives == 1 else "they are learned"
    if spec.name not in (AUTO, POSITIVES_ONLY):
        learned = f"{spec.name} leaves them out"
    return [
        f"{negatives} negative row(s) are labelled, too few of them drawn by chance to measure: {learned}; the "
        f"threshold still rests on positive and unlabelled rows, until {FEWEST_OF_A_CLASS} that chance has drawn (of "
        "an audit, say) have a label"
    ]

"""The model that an alias points at, beside the one that was trained for it.

Whatever is wrong with it, the job ends well. The child compares the two on rows; whether the alias moves is decided
where the job ends (`worker.kinds.training`).
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from service.ingest.columnar import Layout, read_blocks
from solver.compared_rows import compared, decisions_of_older, decisions_on_test
from solver.features import FeatureError, MatrixFeatures, TableFeatures
from solver.labelled_rows import UNLABELLED, LabelledRows, fingerprints
from solver.model_file import Model, read_model
from solver.operating_point import Objective
from solver.report import Classes, ComparedRows, ReportedPoint, Succession
from solver.succession import Standing, other_aim
from solver.training import TestedRows, TrainedModel
from solver.typing import FloatArray
from worker.asked_encoder import SHORT_PATIENCE, with_encoder
from worker.dataset_file import dataset_file
from worker.predict import BLOCK_ROWS, rows_for
from worker.protocol import PREDECESSOR_FILE, PREDECESSOR_LABELS_FILE, JobSpec, Reporter, UnrunnableJobError

log = logging.getLogger("prefsvm.worker")

READ_AGAIN_FILE = "predecessor-rows"
STOPPED = "the training was stopped before that"


def succession(job: JobSpec, trained: TrainedModel, point: ReportedPoint, reporter: Reporter) -> Succession | None:
    """Compare a model with the one that its alias points at; None for a training without an alias.

    Nothing is decided yet: the sentence says why there are no rows to compare on.

    Parameters
    ----------
    job : JobSpec
    trained : TrainedModel
    point : ReportedPoint
        By which the new model will decide.
    reporter : Reporter
        Says whether the job should come to an end.
    """
    alias, older = job.request.get("alias"), job.details.get("predecessor")
    if alias is None:
        return None
    rows, why = None, ""
    if older is not None:
        try:
            rows, why = _on_rows(job, trained, point, older, reporter)
        except UnrunnableJobError as error:
            why = STOPPED if reporter.should_stop else f"the comparison was left out: {error.message}"
        except FeatureError as error:
            why = f"the rows do not fit the older model: {error}"
        except Exception as error:  # a model of before must not end the training of the next one
            log.exception("%s: the models cannot be compared", job.job_id)
            why = f"the older model cannot be applied ({type(error).__name__})"
    return Succession(
        alias=alias,
        policy=job.request.get("alias_policy", "always"),
        moved=False,
        model=None if older is None else older["model"],
        rows=rows,
        sentence=why,
    )


def _on_rows(
    job: JobSpec, trained: TrainedModel, point: ReportedPoint, older: dict[str, Any], reporter: Reporter
) -> tuple[ComparedRows | None, str]:
    """Both models on the rows that neither had learned; why there are none."""
    now = Standing(classes=trained.report.classes, point=point)
    before = Standing(classes=Classes.from_dict(older["classes"]), point=ReportedPoint.from_dict(older["point"]))
    if older["why_not"] or other_aim(now, before) is not None:
        return None, older["why_not"]
    if trained.labelled is None:
        return None, STOPPED
    tested = trained.tested
    if tested is None or len(tested.rows) == 0:
        return None, "no test rows were measured that are unlike all rows that were learned"
    model = read_model(Path(job.scratch, PREDECESSOR_FILE)).with_threshold(older["threshold"])
    learned = LabelledRows.from_bytes(Path(job.scratch, PREDECESSOR_LABELS_FILE).read_bytes())
    if job.layout == "table" and isinstance(model.features, MatrixFeatures):
        return None, "the older model takes a matrix, and the data set is a table"
    features = trained.model.features
    open_ = features.encoder if isinstance(features, TableFeatures) else None
    model = with_encoder(model, job, reporter, open_, SHORT_PATIENCE)
    scores, prints = _apply(job, model, tested, reporter)
    if reporter.should_stop:
        return None, STOPPED
    there = slice(len(scores))  # those that feedback has added are behind the rows of the data set
    called = scores > model.decision.threshold
    states = learned.states(prints)
    usable, says = decisions_of_older(states, called, is_retuned=older["is_retuned"])
    if not usable.any():
        since = ", or was tested on them before another threshold was applied to it" if older["is_retuned"] else ""
        return None, f"the older model had learned all {len(usable)} test rows of the data set{since}"
    truth, ours = tested.truth[there], decisions_on_test(tested, job.request.get("operating_point"))[there]
    objective = Objective.parse(point.objective)
    is_new = states[usable] == UNLABELLED
    return compared(truth[usable], says[usable], ours[usable], is_new, objective), ""


def _apply(job: JobSpec, model: Model, tested: TestedRows, reporter: Reporter) -> tuple[FloatArray, NDArray[np.uint64]]:
    """Scores of the older model of the test rows, and their fingerprints as it sees them.

    Fewer where feedback has added some, which are not in the file, and where it has to stop.
    """
    layout = cast("Layout", job.layout)
    scores: list[FloatArray] = [np.empty(0)]
    prints = [np.empty(0, dtype=np.uint64)]
    first = 0
    with dataset_file(job) as path:
        source = rows_for(job, path, layout, model, READ_AGAIN_FILE)
        for block in read_blocks(source, layout, [column["name"] for column in model.columns], BLOCK_ROWS):
            wanted = tested.rows[(tested.rows >= first) & (tested.rows < first + block.n_rows)] - first
            first += block.n_rows
            if reporter.should_stop:
                break
            if len(wanted):
                rows = block.take(wanted)
                X, _ = model.feature_matrix(rows, refuse_unreadable=False)
                scores.append(model.decision.decision_function(X))
                prints.append(fingerprints(X if model.encoder is None else model.telling_matrix(rows)))
    return np.concatenate(scores), np.concatenate(prints)

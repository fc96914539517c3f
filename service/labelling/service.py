"""Which rows to label next, with what a model sees and says of them."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import orjson

from service.blobs.store import BlobStore
from service.datasets.errors import DatasetNotFound
from service.datasets.repository import DatasetRepository
from service.db.session import Database
from service.db.tables import DatasetRow
from service.errors import InvalidRequest
from service.feedback.repository import FeedbackRepository
from service.feedback.stored_rows import contents_at, numbered_rows, shown
from service.labelling.class_rows import improving_classes, no_judge_of_classes, suspicious_classes
from service.labelling.errors import NoQueue
from service.labelling.reasons import why_listed
from service.labelling.schemas import LabellingQueue, QueuedRow, QueuePurpose
from service.models.errors import ModelNotFound, SeveralClasses
from service.models.repository import ModelFileRepository, ModelRepository, ModelShape
from service.models.service import any_report_of
from solver import percents
from solver.band import Band
from solver.classes_report import AnyReport, ClassesQueue, MulticlassReport
from solver.report import DoubtedLabels, Report, RowsToLabel
from solver.report import LabellingQueue as Queue

MOST_BYTES = 4 << 20
"""Of the rows in one answer; there is always one row, if any is left."""
MOST_ROW_BYTES = 64 << 20
"""Of one row that somebody names."""


@dataclass(frozen=True)
class _Asked:
    """What is known before the rows are read."""

    report: AnyReport
    threshold: float
    """The one that decides now; of several classes 0, which means nothing."""
    band: Band | None
    """And the scores around it that get no label."""
    shape: ModelShape
    dataset: DatasetRow
    answered: frozenset[bytes]
    """Rows that got feedback since the training, as `_spelt` gives them."""


class QueueService:
    """Gives out the lists that a training has left with its model."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs

    def next(self, project_id: str, name: str, purpose: QueuePurpose, n: int, dataset_id: str | None) -> LabellingQueue:
        """Return the first rows of a list, without those that got feedback since.

        Raises
        ------
        ModelNotFound, DamagedModel
        NoQueue
            If the training left none, or its data set is gone.
        InvalidRequest
            If another data set is asked for.
        DamagedDataset
        """
        asked = self._asked(project_id, name, dataset_id)
        if asked.report.queue is None:
            raise NoQueue("this model has no queue: it is of an older version, or was stopped early; train it again")
        made, warnings = _listed(asked, purpose)
        return LabellingQueue(
            model=asked.shape.id,
            dataset=asked.dataset.id,
            purpose=purpose,
            items=self._with_contents(asked, list(made), n),
            warnings=warnings,
        )

    def row(self, project_id: str, name: str, dataset_id: str, number: int) -> dict[str, Any]:
        """Return what a model sees of any row of a data set that fits it, whole, as `POST /predict` takes it.

        Raises
        ------
        ModelNotFound, DatasetNotFound, DamagedDataset
        FeedbackDoesNotFit
            If the data set lacks columns of the model, or has no such row.
        """
        with self._database.transaction() as session:
            model = ModelFileRepository(session, project_id).find(name)
            if model is None:
                raise ModelNotFound
            shape = ModelRepository(session, project_id).shape(model.model_id)
            dataset = DatasetRepository(session, project_id).get(dataset_id)
        if dataset is None:
            raise DatasetNotFound
        ((row,), _) = numbered_rows(self._blobs, dataset, shape, [number], MOST_ROW_BYTES)
        return row

    def _asked(self, project_id: str, name: str, dataset_id: str | None) -> _Asked:
        with self._database.transaction() as session:
            models = ModelRepository(session, project_id)
            model_id, report, applied = any_report_of(session, project_id, name)
            shape, trained_on = models.shape(model_id), models.dataset_of(model_id)
            dataset = None if trained_on is None else DatasetRepository(session, project_id).get(trained_on)
            if dataset is None:
                raise NoQueue("the data set that this model was trained on was deleted; upload it and train again")
            if dataset_id not in (None, dataset.id):
                raise InvalidRequest.of(
                    "query.dataset",
                    f"the queue of this model is of {dataset.id}, which it was trained on; for one of other rows train "
                    "with a data set that has them, most without a label",
                )
            answered = frozenset(
                _spelt(row, shape)
                for content in FeedbackRepository(session, project_id).since_training(model_id)
                for row in orjson.loads(content)["rows"]
            )
        if isinstance(report, MulticlassReport):
            return _Asked(report, 0.0, None, shape, dataset, answered)
        point = report if applied is None else applied
        band = None if point.abstain is None else point.abstain.band
        return _Asked(report, point.threshold, band, shape, dataset, answered)

    def _with_contents(self, asked: _Asked, rows: list[dict[str, Any]], n: int) -> list[QueuedRow]:
        """Read what the model sees of the first rows without feedback, as many as one answer holds."""
        items: list[QueuedRow] = []
        place, at_once, left = 0, n, MOST_BYTES
        while place < len(rows) and len(items) < n:
            some = rows[place : place + at_once]
            most = left if items or len(some) > 1 else sys.maxsize
            numbers = [row["row"] for row in some]
            found = contents_at(self._blobs, asked.dataset, asked.shape, numbers, most, with_keys=True)
            if found is None and len(some) == 1:
                break
            if found is None:
                at_once = len(some) // 2
                continue
            place += len(some)
            before = len(items)
            for row in some:
                key, content = found[row["row"]]
                spelt = _spelt(content, asked.shape)
                if spelt not in asked.answered:
                    items.append(QueuedRow(**row, key=key, content=shown(content)))
                    left -= len(spelt)
            if len(items) == before:
                at_once *= 2  # all of them have an answer: who asks for one row at a time waits for no more readings
        return items[:n]


def _listed(asked: _Asked, purpose: QueuePurpose) -> tuple[Iterator[dict[str, Any]], list[str]]:
    """Return the rows of a list, without what they hold, and what keeps it from saying much."""
    report = asked.report
    if isinstance(report, MulticlassReport):
        if purpose == "mistakes":
            raise SeveralClasses.lacking("threshold that would make mistakes of labels")
        several = cast("ClassesQueue", report.queue)
        if purpose == "improve":
            return improving_classes(several.improve, report.classes), _no_rows(several.improve.rows)
        return suspicious_classes(several.suspicious, report.classes), no_judge_of_classes(several)
    queue = cast("Queue", report.queue)
    if purpose == "improve":
        return _improving(asked, report, queue.improve), _no_rows(queue.improve.rows)
    listed = _mistakes(asked, report, queue) if purpose == "mistakes" else _suspicious(report, queue.suspicious)
    return listed, _no_judge(queue.suspicious, report)


def _improving(asked: _Asked, report: Report, queue: RowsToLabel) -> Iterator[dict[str, Any]]:
    """Yield rows to label, without what they hold."""
    classes = report.classes
    nearest = queue.nearest or [0.0] * len(queue.rows)
    told = zip(queue.rows, queue.scores, queue.reasons, queue.covers, nearest, strict=True)
    for row, score, reason, covers, alike in told:
        unsure = f": score {score:.3g}, threshold {asked.threshold:.3g}"
        said = why_listed(reason, covers, queue.compared, alike, unsure)
        called = _said(asked, score)
        yield {
            "row": row,
            "label": {1: classes.positive, 0: None, -1: classes.negative}[called],
            "score": score,
            "probability": _probability(report, score),
            "drawn": "random" if reason == "random" else "chosen",
            "reason": said if called else f"{said}; it leaves this one undecided",
        }


def _said(asked: _Asked, score: float) -> int:
    """Return what the model calls a row: 1 for positive, -1 for negative, 0 for nothing."""
    band = asked.band or Band(asked.threshold, asked.threshold)
    return 1 if score > band.upper else -1 if score <= band.lower else 0


def _suspicious(report: Report, queue: DoubtedLabels) -> Iterator[dict[str, Any]]:
    """Yield labelled rows whose label is in doubt, without what they hold."""
    classes = report.classes
    for row, score, positive in zip(queue.rows, queue.scores, queue.positive, strict=True):
        label = classes.positive if positive else classes.negative
        probability = _probability(report, score) or 0.0
        of_label = probability if positive else 1 - probability
        yield {
            "row": row,
            "label": label,
            "score": score,
            "probability": probability,
            "drawn": "chosen",
            "reason": f"labelled {label!r}; models that have not seen this label give {label!r} "
            f"{percents.measured(of_label)}",
        }


def _mistakes(asked: _Asked, report: Report, queue: Queue) -> Iterator[dict[str, Any]]:
    """Yield the doubted labels that what decides now calls otherwise: it does not follow the probability alone."""
    for row in _suspicious(report, queue.suspicious):
        called = _said(asked, row["score"])
        instead = {1: report.classes.positive, 0: None, -1: report.classes.negative}[called]
        if instead not in (None, row["label"]):
            yield row | {"reason": f"{row['reason']}, and the threshold calls it {instead!r}"}


def _probability(report: Report, score: float) -> float | None:
    if report.probability is None:
        return None
    margin = report.probability.slope * score + report.probability.offset
    return 1 / (1 + math.exp(-margin)) if margin > -700 else 0.0


def _no_rows(rows: list[int]) -> list[str]:
    """Return why the list never had a row."""
    if rows:
        return []
    return [
        "the data set that this model was trained on has no row without a label that could be listed: train with a "
        "data set that has such rows"
    ]


def _no_judge(queue: DoubtedLabels, report: Report) -> list[str]:
    """Return what keeps the list from saying anything."""
    if queue.judged == 0 and report.positives_only is not None:
        return [
            "no label could be judged: too few negative rows are labelled, or none, and without them there are no "
            "probabilities"
        ]
    if queue.judged == 0:
        return ["no label could be judged: no model was trained that had not seen it"]
    if not queue.better_than_chance:
        return [
            f"models that have not seen a label tell the {queue.judged} labels apart no better than chance does, so "
            "that none can be doubted by them"
        ]
    return []


def _spelt(row: Mapping[str, Any], shape: ModelShape) -> bytes:
    """Return what a model sees of a row in one spelling."""
    seen = row if shape.width is not None else {column["name"]: row.get(column["name"]) for column in shape.columns}
    plain = {
        name: _spelt_vector(value)
        if isinstance(value, list)
        else float(value)
        if isinstance(value, int) and not isinstance(value, bool)
        else value
        for name, value in seen.items()
        if shape.width is None or value
    }
    return orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)


def _spelt_vector(numbers: list[float]) -> list[float]:
    """Return a vector as a model sees it, in float32: it may have been sent with more digits than are kept."""
    return array("f", numbers).tolist()

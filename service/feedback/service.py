"""What can be done with feedback: corrected labels, from which the next training of an alias learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from service.blobs.store import BlobStore
from service.datasets.repository import DatasetRepository
from service.db import idempotency
from service.db.session import Database
from service.db.tables import FeedbackRow
from service.errors import InvalidRequest
from service.feedback.errors import FeedbackDoesNotFit, FeedbackInUse, FeedbackNotFound
from service.feedback.keeping import NO_ALIAS, feedback_row, keep_feedback
from service.feedback.mails import rows_of_mails
from service.feedback.repository import FeedbackRepository
from service.feedback.schemas import Feedback, FeedbackRequest
from service.feedback.stored_rows import keyed_rows, numbered_rows
from service.ingest.labels import composed, contradiction, number_label, shortened
from service.models.repository import AliasRepository, ModelRepository, ModelShape
from service.paging import as_page
from service.predictions.errors import RowsDoNotFit
from service.predictions.inputs import rows_of
from service.schemas import Page
from service.settings import Settings
from solver.features import BadRow, FeatureError, matrix_from_rows, meant_rows
from solver.reading import Reading

OPERATION = "addFeedback"
MOST_NAMED = 10
"""Labels in an error."""
OF_DATASETS = ("keys", "numbers")
"""What names rows of a data set."""


class FeedbackService:
    """Keeps corrected rows by alias."""

    def __init__(self, database: Database, blobs: BlobStore, settings: Settings) -> None:
        self._database = database
        self._blobs = blobs
        self._settings = settings

    def add(self, project_id: str, body: FeedbackRequest, idempotency_key: str | None) -> Feedback:
        """Keep corrected rows for the next training of an alias.

        Raises
        ------
        InvalidRequest
            If there is no such alias, or not one label a row.
        FeedbackDoesNotFit
            If the rows or labels are not those of the model that the alias points at.
        TooMuchFeedback, StorageQuotaExceeded
            If there is no room for them.
        IdempotencyConflict
            If the key came before with another body.
        """
        kind, items = self._given(body)
        asked = project_id, OPERATION, idempotency_key, body.model_dump()
        with self._database.transaction() as session:
            # What was taken once stays taken, also if the alias points at another model now.
            made = idempotency.find(session, *asked)
            if made is not None:
                return _as_accepted(FeedbackRepository(session, project_id).get(made))
            model = ModelRepository(session, project_id).shape_behind(body.alias)
            dataset = DatasetRepository(session, project_id).get(body.dataset or "")
        if model is None:
            raise InvalidRequest.of("body.alias", NO_ALIAS)
        labels = _checked_labels(model, body.labels)
        # Outside of any transaction, as reading mails and looking for keys may take long.
        rows: Sequence[Mapping[str, Any]]
        if kind in OF_DATASETS:
            if dataset is None:
                raise InvalidRequest.of("body.dataset", "there is no such data set")
            names = [composed(str(item)) for item in items]
            _refuse_contradictions(kind, names, labels)
            asked_of = self._blobs, dataset, model
            most = self._settings.max_body_bytes
            rows, meant = (
                keyed_rows(*asked_of, names, most) if kind == "keys" else numbered_rows(*asked_of, items, most)
            )
        else:
            rows, meant = _rows(model, kind, items)
        written = {name: form for name, form in model.date_formats.items() if meant.get(name) == "text"}
        row = feedback_row(project_id, body.alias, model.id, rows, labels, {**meant, **written}, body.drawn)
        with self._database.transaction() as session:
            made = idempotency.claim(session, *asked, row.id)
            if made is not None:
                return _as_accepted(FeedbackRepository(session, project_id).get(made))
            return Feedback.model_validate(keep_feedback(session, row, self._settings.max_feedback_rows))

    def _given(self, body: FeedbackRequest) -> tuple[str, Sequence[Any]]:
        """Return the kind of what was sent, and that itself."""
        given = [kind for kind in ("rows", "texts", "messages", *OF_DATASETS) if getattr(body, kind) is not None]
        if len(given) != 1:
            raise InvalidRequest.of(
                f"body.{given[1] if given else 'rows'}", "give one of rows, texts, messages, keys and numbers"
            )
        if (body.dataset is None) == (given[0] in OF_DATASETS):
            raise InvalidRequest.of(
                "body.dataset", "says which data set has the rows of `keys` or `numbers`: give both or none"
            )
        items: Sequence[Any] = getattr(body, given[0])
        if len(items) > self._settings.max_predict_rows:
            raise InvalidRequest.of(f"body.{given[0]}", f"may hold at most {self._settings.max_predict_rows} of them")
        if len(items) != len(body.labels):
            message = f"needs one label for each of the {len(items)} {given[0]} and has {len(body.labels)}"
            raise InvalidRequest.of("body.labels", message)
        return given[0], items

    def get(self, project_id: str, feedback_id: str) -> Feedback:
        """Return feedback, without what it holds; raises `FeedbackNotFound`."""
        with self._database.transaction() as session:
            return Feedback.model_validate(FeedbackRepository(session, project_id).require(feedback_id))

    def made_with(self, project_id: str, idempotency_key: str) -> Feedback | None:
        """Return what a key has made; None if that was deleted, or the key is new."""
        with self._database.transaction() as session:
            made = idempotency.made_with(session, project_id, OPERATION, idempotency_key)
            row = None if made is None else FeedbackRepository(session, project_id).get(made)
            return None if row is None else Feedback.model_validate(row)

    def list(self, project_id: str, alias: str | None, cursor: str | None, limit: int) -> Page[Feedback]:
        """Return a page of feedback, newest first."""
        with self._database.transaction() as session:
            rows = FeedbackRepository(session, project_id).list(cursor, limit, alias=alias)
        return as_page(rows, limit, Feedback.model_validate)

    def delete(self, project_id: str, feedback_id: str) -> None:
        """Delete feedback: trainings that are asked for later do not see it.

        Raises
        ------
        FeedbackNotFound
        FeedbackInUse
            If a job that waits or runs uses it.
        """
        with self._database.transaction() as session:
            feedback = FeedbackRepository(session, project_id)
            row = feedback.require(feedback_id)
            aliases = AliasRepository(session, project_id)
            aliases.lock(row.alias)  # see `FeedbackRepository.keep`
            job_id = aliases.open_job_with_feedback(row.alias, row.seq)
            if job_id is not None:
                raise FeedbackInUse(f"the job {job_id} uses this feedback; wait for it to end, or cancel it")
            if not feedback.delete(feedback_id):
                raise FeedbackNotFound


def _checked_labels(model: ModelShape, labels: Sequence[str]) -> list[str]:
    """Return labels in the spelling of the model: 1 for 1.0 and for true, where its labels are 0 and 1."""
    allowed = [composed(label) for label in model.labels]  # an older model may have kept another form
    labels = [label if label in allowed else number_label(label) for label in labels]
    for position, label in enumerate(labels):
        if label not in allowed:
            named = " or ".join(map(repr, model.labels[:MOST_NAMED]))
            if len(model.labels) > MOST_NAMED:
                named += f" or one of {len(model.labels) - MOST_NAMED} more"
            raise FeedbackDoesNotFit.of(f"body.labels.{position}", f"should be one of the model's labels, {named}")
    return labels


def _refuse_contradictions(kind: str, names: Sequence[str], labels: Sequence[str]) -> None:
    """Refuse two labels for one name. Rows and texts name nobody: two equal ones may well have different labels."""
    places = contradiction(names, labels)
    if places is not None:
        first, second = places
        word = kind.removesuffix("s")
        raise InvalidRequest.of(
            f"body.{kind}.{second}",
            f"the {word} {shortened(names[second])} has label {labels[second]!r} here and {labels[first]!r} in "
            f"body.{kind}.{first}; send one label for each {word}",
        )


def _rows(model: ModelShape, kind: str, items: Sequence[Any]) -> tuple[Sequence[Mapping[str, Any]], Mapping[str, str]]:
    """Return rows that fit the model as it understands them, and what their columns are to it."""
    try:
        if kind == "texts":
            return rows_of(model.columns, "texts", items), {}
        if kind == "messages":
            return rows_of_mails(model, items), {}
        if model.width is None:
            readings = {name: Reading.from_json(reading) for name, reading in model.readings.items()}
            rows, meant = meant_rows(items, model.columns, readings)
            return rows, meant
        matrix_from_rows(items, model.first_index, model.width)
    except RowsDoNotFit as error:
        raise FeedbackDoesNotFit(error.detail, errors=error.errors) from None
    except BadRow as error:
        raise FeedbackDoesNotFit.of(f"body.rows.{error.row}", error.reason) from None
    except FeatureError as error:
        raise FeedbackDoesNotFit.of("body.rows", str(error)) from None
    return items, {}


def _as_accepted(row: FeedbackRow | None) -> Feedback:
    return Feedback.model_validate(idempotency.existing(row, "feedback"))

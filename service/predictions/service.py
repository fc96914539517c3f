"""Decides on rows with the decision functions of stored models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from anyio import CapacityLimiter, to_thread
from scipy import sparse

from service.db.session import Database
from service.errors import InvalidRequest
from service.ingest.limits import MAX_EXACT_INTEGER
from service.models.files import ModelFiles
from service.models.repository import ModelFile
from service.predictions.budget import RequestBudget, Room
from service.predictions.cache import ByteCache
from service.predictions.errors import RowsDoNotFit
from service.predictions.heap import give_back_free_memory
from service.predictions.inputs import InputKind, rows_of
from service.predictions.lookup import ModelLookup
from service.predictions.schemas import PredictRequest
from service.predictions.shadow import Shadows
from service.predictions.usage import ModelUsage, UsageRecorder
from service.settings import Settings
from solver.features import FeatureError
from solver.features.rows import clean_name
from solver.model_file import Model, Predictions
from solver.typing import Matrix

THREADS = 4
"""Loads and large predictions at a time."""
QUICK_SECONDS = 0.001
"""What is decided within this time is decided on the event loop: a thread would cost more than it spares others."""
CALL_SECONDS, CELL_SECONDS, VECTOR_SECONDS, PRODUCT_SECONDS = 50e-6, 40e-9, 2e-9, 45e-12
"""Measured: a prediction as such, a value of a row, a support vector for a row, a number of a support vector for a
row."""
TEXT_ROWS = 40
"""A number that is sent as text takes so many times what one takes that is sent as a number, where it has a unit."""
MAX_FREE_BYTES = 1 << 23
"""What models that went out of the cache may take before it is given back to the system."""
OBJECT_BYTES = 1 << 16
"""What a model needs beside its arrays."""


@dataclass(frozen=True)
class Decisions:
    """The fields of `PredictAnswer` as plain data: an object of pydantic for each row costs more than deciding."""

    model: str
    threshold: float
    predictions: list[dict[str, str | float | None]]
    """With the ``key`` of the row, if it has one and the model knows of such a column."""
    warnings: list[str]


class ReadyModel:
    """A model in the cache."""

    def __init__(self, model_id: str, model: Model, usage: ModelUsage) -> None:
        self.model_id = model_id
        self.usage = usage
        self.model = model
        self.nbytes = model.nbytes + OBJECT_BYTES
        vectors = model.decision.support_vectors
        n_vectors, n_features = vectors.shape
        first = np.zeros((1, n_features)) if isinstance(vectors, np.ndarray) else sparse.csr_array((1, n_features))
        seconds = CELL_SECONDS * (len(model.columns) or n_features)
        if model.decision.kind != "linear":
            seconds += VECTOR_SECONDS * n_vectors + PRODUCT_SECONDS * _numbers(vectors)
        has_text = any(column["kind"] == "text" for column in model.columns)
        self.quick_rows = 0 if has_text else int((QUICK_SECONDS - CALL_SECONDS) / seconds)
        """Rows that are decided within `QUICK_SECONDS`; a text may be of any length."""
        self._n_texts = sum(column["kind"] != "number" for column in model.columns)
        # The decision function prepares itself with its first row; that shall not be a caller's.
        model.decision.decision_function(first)

    def cost_of(self, rows: Sequence[Mapping[str, Any]]) -> int:
        """Return as how many rows these count: one with a number that is sent as text as `TEXT_ROWS` of them."""
        if len(rows) * TEXT_ROWS <= self.quick_rows or len(rows) > self.quick_rows:
            return len(rows)
        with_texts = any(list(map(type, row.values())).count(str) > self._n_texts for row in rows)
        return len(rows) * TEXT_ROWS if with_texts else len(rows)


def _numbers(matrix: Matrix) -> int:
    return matrix.size if isinstance(matrix, np.ndarray) else matrix.nnz


class PredictionService:
    """Keeps decision functions ready and applies them.

    What an alias points at and by which threshold a model decides is asked of Postgres at most every half second;
    `forget` makes the next request ask.
    """

    def __init__(self, database: Database, settings: Settings) -> None:
        self._files = ModelFiles(database)
        self._lookup = ModelLookup(self._files.find)
        self._max_rows = settings.max_predict_rows
        self._budget = RequestBudget(settings.predict_memory_bytes)
        self.cache: ByteCache[ReadyModel] = ByteCache(settings.model_cache_bytes)
        self._given_back = 0
        self._threads = CapacityLimiter(THREADS)
        self.usage = UsageRecorder(database)
        self.shadows = Shadows(database, self.ready)

    def room(self) -> Room:
        """Return room for the body of one request, which grows as the body does."""
        return Room(self._budget)

    def forget(self) -> None:
        """Ask Postgres anew what every name means: a model or alias was changed. May be called from any thread."""
        self._lookup.forget()
        self.shadows.forget()

    async def predict(self, project_id: str, body: PredictRequest) -> Decisions:
        """Decide on rows, texts or mails.

        Raises
        ------
        InvalidRequest
            If there is not one kind of them.
        ModelNotFound, RowsDoNotFit, DamagedModel
            As `predict_rows`.
        """
        if body.rows is None or body.texts is not None or body.messages is not None:
            return await self._predict_inputs(project_id, body)
        return await self.predict_rows(project_id, body.model, body.rows)

    async def predict_rows(self, project_id: str, name: str, rows: Sequence[Mapping[str, Any]]) -> Decisions:
        """Decide on rows by the model of an id or alias.

        Raises
        ------
        ModelNotFound
            If the project has no such model or alias.
        RowsDoNotFit
            If columns are missing or values are of the wrong kind.
        DamagedModel
            If the stored bytes are not those that were written.
        """
        self.check_rows(len(rows), "body.rows")
        ready = await self.ready(project_id, name)
        decided = await self.run(ready, ready.cost_of(rows), lambda: _with_keys(ready, rows, decide(ready, rows)))
        self.shadows.offer(project_id, name, "rows", rows, decided)
        return decided

    def check_rows(self, count: int, where: str) -> None:
        """Raise `InvalidRequest` if there are more rows than one request may bring."""
        if count > self._max_rows:
            raise InvalidRequest.of(where, f"may hold at most {self._max_rows} rows")

    async def predict_mail(self, project_id: str, name: str, raw: bytes) -> Decisions:
        """Decide on one mail message by a model that was trained on mails; raises what `predict` does."""
        return await self._decide_inputs(project_id, name, "messages", [raw])

    async def _predict_inputs(self, project_id: str, body: PredictRequest) -> Decisions:
        given = [kind for kind in ("rows", "texts", "messages") if getattr(body, kind) is not None]
        if len(given) != 1:
            raise InvalidRequest.of(f"body.{given[1] if given else 'rows'}", "give one of rows, texts and messages")
        kind: InputKind = "texts" if body.texts is not None else "messages"
        items = body.texts or body.messages or []
        if len(items) > self._max_rows:
            raise InvalidRequest.of(f"body.{kind}", f"may hold at most {self._max_rows} of them")
        return await self._decide_inputs(project_id, body.model, kind, items)

    async def _decide_inputs(
        self, project_id: str, name: str, kind: InputKind, items: Sequence[str | bytes]
    ) -> Decisions:
        """Decide on texts or mails in a thread: reading them takes as long as it takes."""
        ready = await self.ready(project_id, name)
        said: list[str] = []
        decided = await to_thread.run_sync(
            lambda: decide(ready, rows_of(ready.model.columns, kind, items, said), f"body.{kind}"),
            limiter=self._threads,
        )
        decided.warnings.extend(said)
        self.shadows.offer(project_id, name, kind, items, decided)
        return decided

    async def ready(self, project_id: str, name: str) -> ReadyModel:
        """Return a model by its id or an alias; raises `ModelNotFound`, `DamagedModel`."""
        file = self._lookup.recall(project_id, name) or await self._lookup.find(project_id, name)
        # All of it is the key: a model with another threshold is another one.
        return self.cache.recall(file) or await self.cache.get(file, lambda: self._load(file))

    async def run(self, ready: ReadyModel, n_rows: int, decide: Callable[[], Decisions]) -> Decisions:
        """Decide here and now if that is quick, else in a thread."""
        if n_rows <= ready.quick_rows:
            return decide()
        return await to_thread.run_sync(decide, limiter=self._threads)

    async def _load(self, file: ModelFile) -> ReadyModel:
        def load() -> ReadyModel:
            if self.cache.dropped_bytes - self._given_back > MAX_FREE_BYTES:
                self._given_back = self.cache.dropped_bytes
                give_back_free_memory()
            model = self._files.read(file)
            return ReadyModel(file.model_id, model, ModelUsage(self.usage, file.project_id, file.model_id, model))

        return await to_thread.run_sync(load, limiter=self._threads)


def decide(ready: ReadyModel, rows: Sequence[Mapping[str, Any]], where: str = "body.rows") -> Decisions:
    """Apply a model to rows, which came from `where`; raises `RowsDoNotFit`."""
    try:
        # Overflow to infinity is not warned about but found: a score that is not finite is refused.
        with np.errstate(over="ignore", invalid="ignore"):
            made, extra = ready.model.predict_rows(rows)
    except FeatureError as error:
        raise RowsDoNotFit.of(where, str(error)) from None
    if ready.model.key is not None:
        extra = [name for name in extra if clean_name(name) != ready.model.key]
    return decisions(ready, made, extra)


def _with_keys(ready: ReadyModel, rows: Sequence[Mapping[str, Any]], made: Decisions) -> Decisions:
    """Put the key of each row that has one beside what was decided, as it came; raises `RowsDoNotFit`."""
    key = ready.model.key
    if key is None:
        return made
    for position, (row, prediction) in enumerate(zip(rows, made.predictions, strict=True)):
        names = [key] if key in row else [name for name in row if clean_name(name) == key]
        if not names:
            continue
        value = row[names[0]]
        if not (
            value is None
            or isinstance(value, str)
            or (isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_EXACT_INTEGER)
        ):
            raise RowsDoNotFit.of(
                "body.rows",
                f"row {position}, column {key!r}: a key should be text, a number up to 2**53 or null; send longer "
                "numbers as text",
            )
        prediction["key"] = value
    return made


def decisions(ready: ReadyModel, made: Predictions, extra: Sequence[str]) -> Decisions:
    """Count the rows and return what is answered; `extra` names columns that the model does not use."""
    scores = made.scores.tolist()
    ready.usage.add(scores, made.labels, made.unseen, made.far_rows)
    warnings = list(made.warnings)
    if extra:
        named = ", ".join(name[:100] for name in extra[:20]) + (", …" if len(extra) > 20 else "")
        warnings.append(f"ignored, because the model does not use them: {named}")
    probabilities = [None] * len(made.labels) if made.probabilities is None else made.probabilities.tolist()
    return Decisions(
        model=ready.model_id,
        threshold=ready.model.decision.threshold,
        predictions=[
            {"label": label, "score": score, "probability": probability}
            for label, score, probability in zip(made.labels, scores, probabilities, strict=True)
        ],
        warnings=warnings,
    )

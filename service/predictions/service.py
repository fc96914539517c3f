"""Decides on rows with the decision functions of stored models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from anyio import CapacityLimiter, to_thread

from service.db.session import Database
from service.errors import InvalidRequest
from service.models.files import ModelFiles
from service.models.repository import ModelFile
from service.predictions.cache import ByteCache
from service.predictions.errors import RowsDoNotFit
from service.predictions.schemas import PredictRequest
from service.settings import Settings
from solver.features import FeatureError
from solver.model_file import Model

THREADS = 4
"""Loads and large predictions at a time."""
QUICK_WORK = 2_000_000
"""Rows × support vectors × features up to which a thread costs more than it saves; below about 2 ms."""
QUICK_ROWS = 100


@dataclass(frozen=True)
class Decisions:
    """The fields of `PredictAnswer` as plain data: an object of pydantic for each row costs more than deciding."""

    model: str
    threshold: float
    predictions: list[dict[str, str | float | None]]
    warnings: list[str]


class PredictionService:
    """Keeps decision functions ready and applies them."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._files = ModelFiles(database)
        self._max_rows = settings.max_predict_rows
        self.cache: ByteCache[Model] = ByteCache(settings.model_cache_bytes)
        self._threads = CapacityLimiter(THREADS)

    async def predict(self, project_id: str, body: PredictRequest) -> Decisions:
        """Decide on rows.

        Raises
        ------
        ModelNotFound
            If there is no such model or alias.
        RowsDoNotFit
            If columns are missing or values are of the wrong kind.
        DamagedModel
            If the stored bytes are not those that were written.
        """
        if len(body.rows) > self._max_rows:
            raise InvalidRequest.of("body.rows", f"may hold at most {self._max_rows} rows")
        file = await to_thread.run_sync(self._files.find, project_id, body.model)
        # All of it is the key: a model with another threshold is another one.
        model = await self.cache.get(file, lambda: self._load(file))
        vectors, features = model.decision.support_vectors.shape
        if len(body.rows) <= QUICK_ROWS and len(body.rows) * vectors * features <= QUICK_WORK:
            return decide(file.model_id, model, body)
        return await to_thread.run_sync(decide, file.model_id, model, body, limiter=self._threads)

    async def _load(self, file: ModelFile) -> Model:
        return await to_thread.run_sync(self._files.read, file, limiter=self._threads)


def decide(model_id: str, model: Model, body: PredictRequest) -> Decisions:
    """Apply a model to rows; raises `RowsDoNotFit`."""
    try:
        # Overflow to infinity is not warned about but found: `Model.predict` refuses a score that is not finite.
        with np.errstate(over="ignore", invalid="ignore"):
            data, extra = model.parse_rows(body.rows)
            made = model.predict(data)
    except FeatureError as error:
        raise RowsDoNotFit.of("body.rows", str(error)) from None
    warnings = list(made.warnings)
    if extra:
        named = ", ".join(name[:100] for name in extra[:20]) + (", …" if len(extra) > 20 else "")
        warnings.append(f"ignored, because the model does not use them: {named}")
    probabilities = [None] * len(made.labels) if made.probabilities is None else made.probabilities.tolist()
    return Decisions(
        model=model_id,
        threshold=model.decision.threshold,
        predictions=[
            {"label": label, "score": score, "probability": probability}
            for label, score, probability in zip(made.labels, made.scores.tolist(), probabilities, strict=True)
        ],
        warnings=warnings,
    )

"""Decides on rows with the decision functions of stored models."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from anyio import CapacityLimiter, create_task_group, to_thread

from service.db.session import Database
from service.encoders.configuration import encoder_config
from service.errors import InvalidRequest
from service.leaving import Gone
from service.memory import give_back_free_memory
from service.models.files import ModelFiles
from service.models.repository import ModelFile
from service.models.shadows import ShadowKey
from service.predictions.budget import BYTES_A_BYTE, BYTES_A_BYTE_OF_MAIL, HeldMemory, RequestBudget
from service.predictions.cache import ByteCache
from service.predictions.deciding import Decisions, ReadyModel, decide, decide_by_features, keyed, texts_of
from service.predictions.encoding import TextEncoder
from service.predictions.explaining import add_explanations, check_explained
from service.predictions.inputs import InputKind, Notes, completed, rows_of
from service.predictions.lookup import ModelLookup
from service.predictions.schemas import PredictRequest
from service.predictions.shadow import Shadows, ShownKind
from service.predictions.usage import ModelUsage, UsageRecorder
from service.settings import Settings
from solver.model_file import Model
from solver.nearest import Neighbours

THREADS = 4
"""Loads and large predictions at a time."""
FEW_ROWS = 8
"""Rows whose texts are looked out for an encoder on the event loop: only the beginning of each is."""
KEPT_ROWS_BYTES = 64 << 20
"""What labelled rows may take that are kept ready to compare others with."""
MAX_FREE_BYTES = 1 << 23
"""What models that went out of the cache may take before it is given back to the system."""


@dataclass(frozen=True)
class _Kept:
    """Labelled rows of one model, if it has any."""

    neighbours: Neighbours | None

    @property
    def nbytes(self) -> int:
        """Bytes, also of what says that there are none."""
        return 1024 + (0 if self.neighbours is None else self.neighbours.nbytes)


class PredictionService:
    """Keeps decision functions ready and applies them.

    What an alias points at and by which threshold a model decides is asked of Postgres at most every half second;
    `forget` makes the next request ask.
    """

    def __init__(self, database: Database, settings: Settings, *, threads: int = THREADS) -> None:
        self._files = ModelFiles(database)
        self._lookup = ModelLookup(self._files.find)
        self._max_rows = settings.max_predict_rows
        self._budget = RequestBudget(settings.predict_memory_bytes)
        self.cache: ByteCache[ReadyModel] = ByteCache(settings.model_cache_bytes)
        self._kept_rows: ByteCache[_Kept] = ByteCache(KEPT_ROWS_BYTES)
        self._given_back = 0
        self._threads = CapacityLimiter(threads)
        self.usage = UsageRecorder(database)
        self._encoder = TextEncoder(encoder_config(settings), settings.encoder_probe_seconds)
        self.shadows = Shadows(database, self.ready, self._encoder)

    def memory(self, *, of_mail: bool = False) -> HeldMemory:
        """Return the memory for the body of one request, JSON or a mail as it is, which grows as the body does."""
        return HeldMemory(self._budget, BYTES_A_BYTE_OF_MAIL if of_mail else BYTES_A_BYTE)

    def forget(self) -> None:
        """Ask Postgres anew what every name means: a model or alias was changed. May be called from any thread."""
        self._lookup.forget()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write what was counted from time to time, and in the end; then close what is open."""
        async with create_task_group() as background:
            background.start_soon(self.usage.flush_forever)
            background.start_soon(self.shadows.flush_forever)
            yield
            background.cancel_scope.cancel()
        await to_thread.run_sync(self.usage.flush)
        await self.shadows.flush()
        await self.close()

    async def close(self) -> None:
        """Close the connections to the encoder."""
        await self._encoder.close()

    async def predict(self, project_id: str, body: PredictRequest, gone: Gone | None = None) -> Decisions:
        """Decide on rows, texts or mails.

        Raises
        ------
        InvalidRequest
            If there is not one kind of them.
        ModelNotFound, RowsDoNotFit, DamagedModel
            As `predict_rows`.
        """
        if body.rows is None or body.texts is not None or body.messages is not None:
            return await self._predict_inputs(project_id, body, gone)
        return await self.predict_rows(project_id, body.model, body.rows, gone, explain=body.explain)

    async def predict_rows(
        self,
        project_id: str,
        name: str,
        rows: Sequence[Mapping[str, Any]],
        gone: Gone | None = None,
        *,
        explain: int | None = None,
    ) -> Decisions:
        """Decide on rows by the model of an id or alias.

        Parameters
        ----------
        project_id, name : str
        rows : sequence of mappings
        gone : callable, optional
            When it returns, nobody waits for the answer any more.
        explain : int, optional
            How many parts of each row are told that weighed most, and how many labelled rows that are like it.

        Raises
        ------
        ModelNotFound
            If the project has no such model or alias.
        RowsDoNotFit
            If columns are missing or values are of the wrong kind.
        DamagedModel
            If the stored bytes are not those that were written.
        EncoderAway, EncoderChanged
            If the model encodes texts and its encoder does not answer, or is another one by now.
        ClientGone
            If `gone` returned before the texts were encoded.
        """
        self.check_rows(len(rows), "body.rows")
        file, ready = await self._found(project_id, name)
        if ready.knows_meta:
            rows = completed(rows)
        cost = ready.cost_of(rows)
        decided = await self.decide(ready, rows, "body.rows", cost, gone, with_keys=True, explain=explain)
        self._offer(file, name, "rows", rows, decided)
        return decided

    def check_rows(self, count: int, where: str) -> None:
        """Raise `InvalidRequest` if there are more rows than one request may bring."""
        if count > self._max_rows:
            raise InvalidRequest.of(where, f"may hold at most {self._max_rows} rows")

    async def predict_mail(
        self, project_id: str, name: str, raw: bytes, gone: Gone | None = None, *, explain: int | None = None
    ) -> tuple[Decisions, ReadyModel]:
        """Decide on one mail message by a model that was trained on mails, which comes along; raises as `predict`."""
        return await self._decide_inputs(project_id, name, "messages", [raw], gone, explain)

    async def _predict_inputs(self, project_id: str, body: PredictRequest, gone: Gone | None) -> Decisions:
        given = [kind for kind in ("rows", "texts", "messages") if getattr(body, kind) is not None]
        if len(given) != 1:
            raise InvalidRequest.of(f"body.{given[1] if given else 'rows'}", "give one of rows, texts and messages")
        kind: InputKind = "texts" if body.texts is not None else "messages"
        items = body.texts or body.messages or []
        if len(items) > self._max_rows:
            raise InvalidRequest.of(f"body.{kind}", f"may hold at most {self._max_rows} of them")
        decided, _ = await self._decide_inputs(project_id, body.model, kind, items, gone, body.explain)
        return decided

    async def _decide_inputs(
        self,
        project_id: str,
        name: str,
        kind: InputKind,
        items: Sequence[str | bytes],
        gone: Gone | None,
        explain: int | None = None,
    ) -> tuple[Decisions, ReadyModel]:
        """Decide on texts or mails in a thread: reading them takes as long as it takes."""
        file, ready = await self._found(project_id, name)
        notes = Notes()
        if ready.model.encoder is None and explain is None:
            decided = await to_thread.run_sync(
                lambda: decide(ready, rows_of(ready.model.columns, kind, items, notes), f"body.{kind}"),
                limiter=self._threads,
            )
        else:
            rows = await to_thread.run_sync(
                lambda: rows_of(ready.model.columns, kind, items, notes), limiter=self._threads
            )
            decided = await self.decide(ready, rows, f"body.{kind}", len(rows), gone, explain=explain)
        decided.warnings.extend(notes.warnings)
        for position in notes.truncated:
            decided.predictions[position]["truncated"] = True
        self._offer(file, name, kind, items, decided)
        return decided, ready

    async def ready(self, project_id: str, name: str) -> ReadyModel:
        """Return a model by its id or an alias; raises `ModelNotFound`, `DamagedModel`."""
        return (await self._found(project_id, name))[1]

    async def check_ready(self, ready: ReadyModel) -> None:
        """Raise `EncoderAway` or `EncoderChanged` if a model encodes texts and cannot do so now as it did."""
        if ready.model.encoder is not None:
            await self._encoder.check(ready.model.encoder)

    async def _found(self, project_id: str, name: str) -> tuple[ModelFile, ReadyModel]:
        """Return what stands behind a name; raises `ModelNotFound`, `DamagedModel`."""
        file = self._lookup.recall(project_id, name) or await self._lookup.find(project_id, name)
        # A model with another threshold is another one; with another shadow it is not.
        key = file if file.shadow_id is None else file._replace(shadow_id=None)
        return file, self.cache.recall(key) or await self.cache.get(key, lambda: self._load(file))

    def _offer(self, file: ModelFile, name: str, kind: ShownKind, items: Sequence[Any], decided: Decisions) -> None:
        """Let the shadow of an alias decide, too, if it has one."""
        if file.shadow_id is not None:
            self.shadows.offer(ShadowKey(file.project_id, name, file.model_id, file.shadow_id), kind, items, decided)

    async def decide(
        self,
        ready: ReadyModel,
        rows: Sequence[Mapping[str, Any]],
        where: str,
        cost: int,
        gone: Gone | None = None,
        *,
        with_keys: bool = False,
        explain: int | None = None,
    ) -> Decisions:
        """Decide on rows that came from `where`: here and now if that is quick, else in a thread.

        Texts that are to be encoded are so first, which may take as long as it takes: no thread waits for that. With
        `explain` each decision says why it is so.
        """
        neighbours = None
        if explain is not None:
            check_explained(ready, rows, explain, where)
            neighbours = await self._neighbours_of(ready) if isinstance(ready.model, Model) else None
        identity, encoder = ready.model.encoder, None
        if identity is not None:
            if len(rows) <= FEW_ROWS:
                texts = texts_of(ready, rows, where)
            else:
                texts = await to_thread.run_sync(texts_of, ready, rows, where, limiter=self._threads)
            encoder = await self._encoder.vectors(identity, texts, gone)

        def apply() -> Decisions:
            made, X = decide_by_features(ready, rows, where, encoder)
            if explain is not None:
                add_explanations(ready, rows, X, made, explain, neighbours)
            return keyed(ready, rows, made) if with_keys else made

        if cost <= ready.quick_rows and explain is None:
            return apply()
        return await to_thread.run_sync(apply, limiter=self._threads)

    async def _neighbours_of(self, ready: ReadyModel) -> Neighbours | None:
        """Return the labelled rows that rows are compared with; None where the model has none."""
        project = ready.usage.project_id

        def load() -> _Kept:
            found = self._files.kept_rows(project, ready.model_id)
            return _Kept(None if found is None else Neighbours(found, ready.of_two.decision))

        async def loaded() -> _Kept:
            return await to_thread.run_sync(load, limiter=self._threads)

        return (await self._kept_rows.get((project, ready.model_id), loaded)).neighbours

    async def _load(self, file: ModelFile) -> ReadyModel:
        def load() -> ReadyModel:
            if self.cache.dropped_bytes - self._given_back > MAX_FREE_BYTES:
                self._given_back = self.cache.dropped_bytes
                give_back_free_memory()
            model = self._files.read(file)
            rule = None if file.rule is None else json.loads(file.rule)
            usage = ModelUsage(self.usage, file.project_id, file.model_id, model, rule)
            return ReadyModel(file.model_id, model, usage)

        return await to_thread.run_sync(load, limiter=self._threads)

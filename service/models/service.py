"""What can be done with models and aliases."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Literal

from service.db.session import Database
from service.errors import InvalidRequest
from service.identifiers import is_id
from service.models.errors import AliasNotFound, ModelInUse, ModelNotFound, NoCurve, NothingToRollBack
from service.models.repository import AliasRepository, ModelRepository, StoredModel
from service.models.schemas import (
    Alias,
    AliasPage,
    Model,
    ModelSummary,
    PrecisionRecallCurve,
    PrecisionRecallPoint,
    Report,
    RocCurve,
    RocPoint,
)
from service.paging import NOT_OURS, Cursor, next_cursor
from service.schemas import Page, is_alias


class ModelService:
    """Shows and deletes models."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, model_id: str) -> Model:
        """Return a model with its report; raises `ModelNotFound`."""
        with self._database.transaction() as session:
            row = ModelRepository(session).get(model_id) if is_id(model_id, "mdl") else None
        if row is None:
            raise ModelNotFound("no model has this id")
        return Model(**_summary(row), report=Report.model_validate(row.report))

    def list(self, cursor: str | None, limit: int) -> Page[ModelSummary]:
        """Return a page of models, newest first."""
        position = Cursor.decode(cursor) if cursor is not None else None
        with self._database.transaction() as session:
            rows = ModelRepository(session).list(position, limit)
        return Page(
            items=[ModelSummary(**_summary(row)) for row in rows[:limit]],
            next_cursor=next_cursor(rows, limit, key=lambda row: row),
        )

    def delete(self, model_id: str) -> None:
        """Delete a model.

        Raises
        ------
        ModelNotFound
            If there is none of this id.
        ModelInUse
            If an alias points at it.
        """
        with self._database.transaction() as session:
            models = ModelRepository(session)
            if not is_id(model_id, "mdl") or not models.lock(model_id, for_delete=True):
                raise ModelNotFound("no model has this id")
            names = models.aliases_of(model_id)
            if names:
                raise ModelInUse(f"the alias {names[0]} points at this model; move it first")
            models.delete(model_id)

    def curve(self, model_id: str, kind: Literal["pr", "roc"]) -> PrecisionRecallCurve | RocCurve:
        """Return a curve of the calibration rows; raises `ModelNotFound`, `NoCurve`."""
        with self._database.transaction() as session:
            found = ModelRepository(session).curve(model_id) if is_id(model_id, "mdl") else None
        if found is None:
            raise ModelNotFound("no model has this id")
        threshold, counts = found
        if not counts:
            raise NoCurve("this model has no operating curve")
        return _pr(threshold, counts) if kind == "pr" else _roc(threshold, counts)


class AliasService:
    """Points names at models."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, name: str, model_id: str) -> Alias:
        """Point an alias at a model, making the alias if it is new."""
        with self._database.transaction() as session:
            if not is_id(model_id, "mdl") or not ModelRepository(session).lock(model_id):
                raise InvalidRequest.of("body.model", "there is no such model")
            return Alias.model_validate(AliasRepository(session).put(name, model_id))

    def list(self, cursor: str | None, limit: int) -> AliasPage:
        """Return a page of aliases, by name."""
        after = _decode_name(cursor) if cursor is not None else None
        with self._database.transaction() as session:
            rows = AliasRepository(session).list(after, limit)
        return AliasPage(
            items=[Alias.model_validate(row) for row in rows[:limit]],
            next_cursor=_encode_name(rows[limit - 1].name) if len(rows) > limit else None,
        )

    def roll_back(self, name: str) -> Alias:
        """Point an alias at the model before; doing it again goes further back.

        Raises
        ------
        AliasNotFound
            If there is no such alias.
        NothingToRollBack
            If there was no model before, or none that still exists.
        """
        with self._database.transaction() as session:
            aliases = AliasRepository(session)
            if not is_alias(name) or aliases.lock(name) is None:
                raise AliasNotFound("no alias has this name")
            target = aliases.before_last_move(name)
            if target is None or not ModelRepository(session).lock(target.model_id):
                raise NothingToRollBack("the alias has pointed at no earlier model that still exists")
            restores = target.restores or target.id
            return Alias.model_validate(aliases.put(name, target.model_id, restores=restores))


def _summary(row: StoredModel) -> dict[str, Any]:
    fields = {name: getattr(row, name) for name in ModelSummary.model_fields if hasattr(row, name)}
    return fields | {name: row.report[name] for name in ("objective", "status", "threshold")}


def _pr(threshold: float, curve: dict[str, Any]) -> PrecisionRecallCurve:
    points = [
        PrecisionRecallPoint(
            threshold=at, precision=_ratio(hits, hits + alarms), recall=_ratio(hits, curve["positives"])
        )
        for at, hits, alarms in _points(curve)
    ]
    return PrecisionRecallCurve(threshold=threshold, points=points)


def _roc(threshold: float, curve: dict[str, Any]) -> RocCurve:
    points = [
        RocPoint(
            threshold=at,
            false_positive_rate=_ratio(alarms, curve["negatives"]),
            true_positive_rate=_ratio(hits, curve["positives"]),
        )
        for at, hits, alarms in _points(curve)
    ]
    return RocCurve(threshold=threshold, points=points)


def _points(curve: dict[str, Any]) -> list[tuple[float, int, int]]:
    return list(zip(curve["thresholds"], curve["true_positives"], curve["false_positives"], strict=True))


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _encode_name(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def _decode_name(cursor: str) -> str:
    try:
        name = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
        if not name.isprintable():
            raise ValueError
    except (ValueError, binascii.Error):
        raise InvalidRequest.of("query.cursor", NOT_OURS) from None
    return name

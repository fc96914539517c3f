"""All SQL about models and aliases that the API runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from sqlalchemy import ColumnElement, Date, ScalarSelect, Select, and_, delete, false, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import aggregate_order_by, insert

from service.db.repository import Repository
from service.db.tables import (
    ALIAS_REQUESTS,
    WISH_WITHDRAWN,
    AliasChangeRow,
    AliasRow,
    AuditRow,
    DatasetRow,
    JobRow,
    ModelChunkRow,
    ModelRow,
    ModelStatisticsRow,
    OperatingPointRow,
)
from service.identifiers import is_id
from service.models.errors import AliasNotFound, ModelNotFound, SeveralClasses
from service.paging import page_of
from service.schemas import is_alias
from solver.band import Band

LISTED = (
    *("objective", "status", "threshold", "promise", "abstain"),
    # for what an operating point promises that was applied since
    *("algorithm", "classes", "labeled_split", "refit", "rows", "test", "test_abstain", "unlabelled"),
    "positives_only",
)
"""What a list reads of a report: nothing that can be long, but for some hundred points where no row is negative."""


@dataclass(frozen=True)
class StoredModel:
    """What a model row says, without curve and queue, which can be long."""

    id: str
    job_id: str | None
    dataset_id: str | None
    algorithm: str
    bytes: int
    sha256: str
    created_at: datetime
    aliases: list[str]
    report: dict[str, Any]
    """Without curve and queue; in a list only what is `LISTED`."""
    applied: dict[str, Any] | None
    """The newest of ``operating_points``; None while the threshold of the training decides."""


class ModelFile(NamedTuple):
    """Which bytes a model consists of, and by which threshold it decides."""

    project_id: str
    model_id: str
    sha256: str
    bytes: int
    threshold: float | None
    """The one that was applied last; None: that in the file."""
    shadow_id: str | None = None
    """Which model decides beside it, where it was named by an alias that has a shadow."""
    band: Band | None = None
    """Which scores around that threshold get no label."""
    rule: str | None = None
    """Of several classes, as JSON (`solver.multiclass.ClassRule`); None: that in the file."""

    @property
    def decides_by(self) -> dict[str, Any]:
        """What the request of a job says of that."""
        told = {"threshold": self.threshold, "abstain": None if self.band is None else self.band.to_json()}
        return told if self.rule is None else told | {"rule": json.loads(self.rule)}


@dataclass(frozen=True)
class Predecessor:
    """The model that an alias points at, as its successor is compared with it."""

    model_id: str
    sha256: str
    bytes: int
    report: dict[str, Any]
    """Whole but for the curve."""
    applied: dict[str, Any] | None
    """As of a `StoredModel`."""
    is_retuned: bool
    """Whether somebody applied it after the training. A training may apply one, too."""

    @property
    def point(self) -> dict[str, Any]:
        """What it decides by."""
        return self.applied or self.report


@dataclass(frozen=True)
class Origin:
    """The request of the job and the data set of a model; None for what was deleted."""

    request: dict[str, Any] | None
    dataset_name: str | None
    dataset_sha256: str | None


@dataclass(frozen=True)
class ModelShape:
    """What rows a model takes, and what it may say of them."""

    id: str
    columns: list[dict[str, Any]]
    """Name and kind, and length of vectors; empty for a model of a matrix."""
    labels: tuple[str, ...]
    """Of two classes the negative one comes first."""
    width: int | None
    """Columns of the matrix; None for a model of a table."""
    first_index: int
    readings: dict[str, Any]
    """How the values of columns are written, as the manifest has it."""
    date_formats: dict[str, str]
    """The same of dates."""
    key: str | None
    """The column that names the rows."""


NOTHING_SAID: Mapping[str, int] = MappingProxyType({})
"""Of two classes, which `positive` counts."""


class UsageKey(NamedTuple):
    """What rows are counted by."""

    project_id: str
    model_id: str
    threshold: float
    """Of several classes, the number of the rule, see `service.models.class_drift`."""


@dataclass
class ModelStatistics:
    """Counts of predicted rows; see ``model_statistics``."""

    rows: int = 0
    outside_range: int = 0
    positive: int = 0
    unseen: dict[str, int] = field(default_factory=dict)
    undecided: int = 0
    said: dict[str, int] = field(default_factory=dict)

    def add(
        self,
        rows: int,
        outside_range: int,
        positive: int,
        unseen: Mapping[str, int],
        undecided: int = 0,
        said: Mapping[str, int] = NOTHING_SAID,
    ) -> None:
        """Count further rows, too."""
        self.rows += rows
        self.outside_range += outside_range
        self.positive += positive
        self.undecided += undecided
        for column, count in unseen.items():
            self.unseen[column] = self.unseen.get(column, 0) + count
        for label, count in said.items():
            self.said[label] = self.said.get(label, 0) + count

    def add_all(self, met: ModelStatistics) -> None:
        """Count all rows of others, too."""
        self.add(met.rows, met.outside_range, met.positive, met.unseen, met.undecided, met.said)


@dataclass(frozen=True)
class DayStatistics:
    """Counts of one day and threshold."""

    day: date
    threshold: float
    counts: ModelStatistics


class ModelRepository(Repository):
    """Models of one project, in the transaction of `session`."""

    def id_of(self, name: str) -> str:
        """Return what an alias points at; an id is returned as it is, be there a model of it or not.

        Raises
        ------
        ModelNotFound
            If the name is neither an id nor an alias that there is.
        """
        if is_id(name, "mdl"):
            return name
        mine = and_(AliasRow.project_id == self._project_id, AliasRow.name == name)
        model_id = self._session.scalar(select(AliasRow.model_id).where(mine)) if is_alias(name) else None
        if model_id is None:
            raise ModelNotFound
        return model_id

    def require(self, model_id: str) -> StoredModel:
        """Return a model; raises `ModelNotFound`."""
        report = ModelRow.report.op("-")("curve").op("-")("curves").op("-")("queue")
        found = self._session.execute(_select_model(report).where(self._is(model_id))).mappings().one_or_none()
        if found is None:
            raise ModelNotFound
        return StoredModel(**found)

    def list(self, cursor: str | None, limit: int) -> Sequence[StoredModel]:
        """Return up to ``limit + 1`` models, newest first."""
        parts = [part for name in LISTED for part in (name, ModelRow.report[name])]
        mine = ModelRow.project_id == self._project_id
        # First the ids of the page, then the rows: so no plan of Postgres unpacks the reports of other models.
        page = page_of(select(ModelRow.id).where(mine), ModelRow, cursor, limit)
        statement = _select_model(func.jsonb_build_object(*parts)).where(mine, ModelRow.id.in_(page))
        rows = self._session.execute(statement.order_by(ModelRow.created_at.desc(), ModelRow.id.desc()))
        return [StoredModel(**row) for row in rows.mappings()]

    def report(self, model_id: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return the whole report of a model, and the operating point that was applied to it last, if any.

        Raises
        ------
        ModelNotFound
        """
        found = self._session.execute(select(ModelRow.report, _APPLIED).where(self._is(model_id))).one_or_none()
        if found is None:
            raise ModelNotFound
        return found[0], found[1]

    def rule_in_use(self, model_id: str) -> dict[str, Any] | None:
        """Return the rule that was applied to a model of several classes last; None: that of its training."""
        return self._session.scalar(select(_applied(OperatingPointRow.rule)).where(self._is(model_id)))

    def columns(self, model_id: str) -> Sequence[Mapping[str, Any]]:
        """Return the columns that a model needs; none of one that takes a matrix, or is unknown."""
        return self._session.scalar(_COLUMNS.where(self._is(model_id))) or ()

    def origin(self, model_id: str) -> Origin:
        """Return what a model was made from, as far as it still exists."""
        statement = (
            select(JobRow.request, DatasetRow.name, DatasetRow.sha256)
            .select_from(ModelRow)
            .outerjoin(JobRow, JobRow.id == ModelRow.job_id)
            .outerjoin(DatasetRow, DatasetRow.id == ModelRow.dataset_id)
        )
        found = self._session.execute(statement.where(self._is(model_id))).one_or_none()
        return Origin(None, None, None) if found is None else Origin(*found)

    def apply(self, point: OperatingPointRow) -> bool:
        """Make an operating point the newest of its model; False if there is no such model.

        The lock makes points that are applied at once follow each other, so that the newest is the one that came last.
        """
        locked = select(ModelRow.id).where(self._is(point.model_id)).with_for_update(key_share=True)
        if self._session.scalar(locked) is None:
            return False
        self._stored(point)
        return True

    def applied_points(self, model_id: str, cursor: str | None, limit: int) -> Sequence[OperatingPointRow]:
        """Return up to ``limit + 1`` operating points that were applied to a model, newest first."""
        statement = (
            select(OperatingPointRow)
            .join(ModelRow, ModelRow.id == OperatingPointRow.model_id)
            .where(self._is(model_id))
        )
        return self._session.scalars(page_of(statement, OperatingPointRow, cursor, limit)).all()

    def exists(self, model_id: str) -> bool:
        """Tell whether there is such a model."""
        return self._session.scalar(select(ModelRow.id).where(self._is(model_id))) is not None

    def aliases_of(self, model_id: str) -> Sequence[str]:
        """Return the names that point at a model or have it as their shadow."""
        needing = or_(AliasRow.model_id == model_id, AliasRow.shadow_id == model_id)
        pointing = and_(AliasRow.project_id == self._project_id, needing)
        statement = select(AliasRow.name).where(pointing).order_by(AliasRow.name)
        return self._session.scalars(statement).all()

    def shape_behind(self, alias: str) -> ModelShape | None:
        """Return the shape of the model that an alias points at; None if there is no such alias."""
        mine = and_(AliasRow.project_id == self._project_id, AliasRow.name == alias)
        model_id = self._session.scalar(select(AliasRow.model_id).where(mine))
        return None if model_id is None else self.shape(model_id)

    def shape(self, model_id: str) -> ModelShape:
        """Return the shape of a model; raises `ModelNotFound`."""
        decision, features = ModelRow.manifest["decision"], ModelRow.manifest["features"]
        statement = select(
            ModelRow.report["columns"],
            ModelRow.manifest["classes"],
            decision,
            features,
            ModelRow.manifest["key"].astext,
        )
        found = self._session.execute(statement.where(self._is(model_id))).one_or_none()
        if found is None:
            raise ModelNotFound
        columns, classes, of_decision, of_features, of_key = found
        is_matrix = of_features["kind"] == "matrix"
        return ModelShape(
            id=model_id,
            columns=columns,
            labels=_labels(classes),
            width=of_decision["n_features"] if is_matrix else None,
            first_index=of_features["first_index"] if is_matrix else 0,
            readings=of_features.get("readings", {}),
            date_formats=of_features.get("date_formats", {}),
            key=of_key,
        )

    def predecessor(self, alias: str) -> Predecessor | None:
        """Return the model that an alias points at; None if there is no such alias."""
        statement = (
            select(
                ModelRow.id,
                ModelRow.sha256,
                ModelRow.bytes,
                ModelRow.report.op("-")("curve").op("-")("curves"),
                _APPLIED,
                # a point that the training itself applied has the time of the transaction that stored the model
                func.coalesce(_applied(OperatingPointRow.created_at) > ModelRow.created_at, false()),
            )
            .join(AliasRow, AliasRow.model_id == ModelRow.id)
            .where(AliasRow.project_id == self._project_id, AliasRow.name == alias)
        )
        found = self._session.execute(statement).one_or_none()
        return None if found is None else Predecessor(*found)

    def applied_after(self, model_id: str, job_id: str) -> bool:
        """Whether the newest operating point of a model was applied after a job was asked for."""
        statement = (
            select(func.coalesce(_applied(OperatingPointRow.created_at) > JobRow.created_at, false()))
            .select_from(ModelRow)
            .join(JobRow, JobRow.id == job_id)
            .where(self._is(model_id))
        )
        return bool(self._session.scalar(statement))

    def labelled_rows(self, model_id: str) -> bytes | None:
        """Return what was kept of the labelled rows of a model, see `solver.labelled_rows`."""
        return self._session.scalar(select(ModelRow.labelled_rows).where(self._is(model_id)))

    def dataset_of(self, model_id: str) -> str | None:
        """Return the data set that a model was trained on; None once it was deleted."""
        return self._session.scalar(select(ModelRow.dataset_id).where(self._is(model_id)))

    def require_two_classes(self, model_id: str, what: str) -> None:
        """Raise `SeveralClasses` where a model tells several classes apart and has no such thing."""
        if len(self.shape(model_id).labels) > 2:
            raise SeveralClasses.lacking(what)

    def labelled_counts(self, model_id: str) -> tuple[int, int]:
        """Return how many negative and positive rows a model learned from; raises `ModelNotFound`."""
        rows = self._session.scalar(select(ModelRow.report["rows"]).where(self._is(model_id)))
        if rows is None:
            raise ModelNotFound
        if "by_class" in rows:
            raise SeveralClasses.lacking("positive class")
        return int(rows["negative"]), int(rows["positive"])

    def unsealed_audit(self, model_id: str) -> str | None:
        """Return an audit of a model whose answers would be lost with it, or None."""
        mine = (AuditRow.project_id == self._project_id, AuditRow.model_id == model_id)
        statement = select(AuditRow.id).where(*mine, AuditRow.answered > 0, AuditRow.sealed_at.is_(None))
        return self._session.scalar(statement.limit(1))

    def audits_of(self, model_id: str, limit: int) -> Sequence[AuditRow]:
        """Return the audits of a model that have an answer, newest first."""
        mine = (AuditRow.project_id == self._project_id, AuditRow.model_id == model_id, AuditRow.answered > 0)
        newest = select(AuditRow).where(*mine).order_by(AuditRow.created_at.desc(), AuditRow.id.desc())
        return self._session.scalars(newest.limit(limit)).all()

    def verdicts(self, model_ids: Sequence[str]) -> Mapping[str, Sequence[AuditRow]]:
        """Return the audits that have proven or refuted something of models, newest first."""
        mine = (AuditRow.project_id == self._project_id, AuditRow.model_id.in_(model_ids))
        decided = select(AuditRow).where(*mine, AuditRow.verdict["standing"].astext.in_(("proven", "refuted")))
        rows = self._session.scalars(decided.order_by(AuditRow.created_at.desc(), AuditRow.id.desc())).all()
        return {model_id: [row for row in rows if row.model_id == model_id] for model_id in model_ids}

    def lock(self, model_id: str, *, for_delete: bool = False) -> bool:
        """Lock a model against deletion, or against everything that would need it; False if there is none."""
        statement = select(ModelRow.id).where(self._is(model_id))
        locked = statement.with_for_update(read=not for_delete, key_share=not for_delete)
        return self._session.scalar(locked) is not None

    def delete(self, model_id: str) -> None:
        """Delete a model and its chunks."""
        self._session.execute(delete(ModelRow).where(self._is(model_id)))

    def _is(self, model_id: str) -> ColumnElement[bool]:
        return and_(ModelRow.project_id == self._project_id, ModelRow.id == model_id)


def _labels(classes: Any) -> tuple[str, ...]:
    """Return the labels that a manifest says: a list of several classes, or the names of two."""
    return tuple(map(str, classes if isinstance(classes, list) else (classes["negative"], classes["positive"])))


_COLUMNS = select(ModelRow.report["columns"])


class ModelFileRepository(Repository):
    """Files of the models of one project, in the transaction of `session`."""

    def find(self, name: str) -> ModelFile | None:
        """Return the file behind the id of a model or behind an alias."""
        point = (_applied(getattr(OperatingPointRow, name)) for name in ("threshold", "abstain", "rule"))
        statement = select(ModelRow.project_id, ModelRow.id, ModelRow.sha256, ModelRow.bytes, *point)
        statement = statement.where(ModelRow.project_id == self._project_id)
        if is_id(name, "mdl"):
            statement = statement.where(ModelRow.id == name)
        elif is_alias(name):
            alias = and_(AliasRow.project_id == self._project_id, AliasRow.name == name)
            statement = statement.join(AliasRow, AliasRow.model_id == ModelRow.id).where(alias)
            statement = statement.add_columns(AliasRow.shadow_id)
        else:
            return None
        found = self._session.execute(statement).one_or_none()
        if found is None:
            return None
        project_id, model_id, sha256, size, threshold, abstain, rule, *shadow = found
        shadow_id = shadow[0] if shadow else None
        told = None if rule is None else json.dumps(rule)
        return ModelFile(project_id, model_id, sha256, size, threshold, shadow_id, Band.from_json(abstain), told)

    def chunk(self, model_id: str, seq: int) -> bytes | None:
        """Return one piece of a model, usually 1 MiB; None after the last one."""
        statement = (
            select(ModelChunkRow.data)
            .join(ModelRow, ModelRow.id == ModelChunkRow.model_id)
            .where(ModelRow.project_id == self._project_id, ModelRow.id == model_id, ModelChunkRow.seq == seq)
        )
        return self._session.scalar(statement)

    def left_out(self, model_id: str) -> bytes | None:
        """Return what another rule of several classes is chosen by, see `solver.multiclass.choosing`."""
        statement = select(ModelRow.left_out).where(ModelRow.project_id == self._project_id, ModelRow.id == model_id)
        return self._session.scalar(statement)

    def kept_rows(self, model_id: str) -> bytes | None:
        """Return what was kept of the labelled rows of a model to compare others with, see `solver.nearest`."""
        statement = select(ModelRow.kept_rows).where(ModelRow.project_id == self._project_id, ModelRow.id == model_id)
        return self._session.scalar(statement)


class StatisticsRepository(Repository):
    """Counts of predicted rows of the models of one project, in the transaction of `session`."""

    def add(self, key: UsageKey, counts: ModelStatistics) -> None:
        """Add to the counts of today, unless the model was deleted meanwhile."""
        values = {
            "project_id": self._project_id,
            "model_id": key.model_id,
            "threshold": key.threshold,
            "rows": counts.rows,
            "outside_range": counts.outside_range,
            "positive": counts.positive,
            "undecided": counts.undecided,
            "unseen": json.dumps(counts.unseen),
            "said": json.dumps(counts.said),
        }
        self._session.execute(_ADD_STATISTICS, values)

    def of_days(self, model_id: str, days: int) -> list[DayStatistics]:
        """Return the counts of a model of the last `days` days, today among them, oldest first."""
        first = func.timezone("utc", func.now()).cast(Date) - (days - 1)
        statement = (
            select(ModelStatisticsRow)
            .where(ModelStatisticsRow.project_id == self._project_id, ModelStatisticsRow.model_id == model_id)
            .where(ModelStatisticsRow.day >= first)
            .order_by(ModelStatisticsRow.day, ModelStatisticsRow.threshold)
        )
        return [
            DayStatistics(
                row.day,
                row.threshold,
                ModelStatistics(row.rows, row.outside_range, row.positive, row.unseen, row.undecided, row.said),
            )
            for row in self._session.scalars(statement)
        ]

    def of_names(self, days: int, limit: int) -> list[tuple[str, int, int, int]]:
        """Return what the models behind names met in the last days: name, rows, those outside, and labelled rows.

        Of `limit` names, those with the most rows first; a name without rows is left out.
        """
        first = func.timezone("utc", func.now()).cast(Date) - (days - 1)
        rows, outside = func.sum(ModelStatisticsRow.rows), func.sum(ModelStatisticsRow.outside_range)
        labelled = ModelRow.report["rows"]["labelled"].as_integer()
        of_model = (ModelStatisticsRow.project_id == self._project_id, ModelStatisticsRow.day >= first)
        met = (
            select(AliasRow.name, AliasRow.model_id, rows.label("rows"), outside.label("outside"))
            .join(ModelStatisticsRow, ModelStatisticsRow.model_id == AliasRow.model_id)
            .where(AliasRow.project_id == self._project_id, *of_model)
            .group_by(AliasRow.name, AliasRow.model_id)
            .order_by(rows.desc())
            .limit(limit)
            .subquery()
        )
        statement = select(met.c.name, met.c.rows, met.c.outside, labelled).join(
            ModelRow, and_(ModelRow.project_id == self._project_id, ModelRow.id == met.c.model_id)
        )
        return [(name, int(total), int(out), n) for name, total, out, n in self._session.execute(statement)]


_ADD_STATISTICS = text(
    """
    INSERT INTO model_statistics (project_id, model_id, day, threshold, rows, outside_range, positive, undecided,
                                  unseen, said)
    SELECT project_id, id, CAST(timezone('utc', now()) AS date), CAST(:threshold AS float8), CAST(:rows AS bigint),
           CAST(:outside_range AS bigint), CAST(:positive AS bigint), CAST(:undecided AS bigint),
           CAST(:unseen AS jsonb), CAST(:said AS jsonb)
      FROM models
     WHERE project_id = :project_id AND id = :model_id
       FOR KEY SHARE
    ON CONFLICT (project_id, model_id, day, threshold) DO UPDATE
       SET rows = model_statistics.rows + excluded.rows,
           outside_range = model_statistics.outside_range + excluded.outside_range,
           positive = model_statistics.positive + excluded.positive,
           undecided = model_statistics.undecided + excluded.undecided,
           unseen = (
             SELECT coalesce(jsonb_object_agg(summed.key, summed.value), '{}')
               FROM (SELECT added.key, sum(added.value::bigint) AS value
                       FROM (SELECT * FROM jsonb_each_text(model_statistics.unseen)
                             UNION ALL
                             SELECT * FROM jsonb_each_text(excluded.unseen)) AS added
                      GROUP BY added.key) AS summed),
           said = (
             SELECT coalesce(jsonb_object_agg(summed.key, summed.value), '{}')
               FROM (SELECT added.key, sum(added.value::bigint) AS value
                       FROM (SELECT * FROM jsonb_each_text(model_statistics.said)
                             UNION ALL
                             SELECT * FROM jsonb_each_text(excluded.said)) AS added
                      GROUP BY added.key) AS summed)
    """
)


class AliasRepository(Repository):
    """Aliases of one project and their history, in the transaction of `session`.

    Every move is kept in ``alias_changes``. A rollback is a move too; it says with ``restores`` which earlier move it
    went back to, so that a second rollback goes further back and not forth again.
    """

    def put(self, name: str, model_id: str, *, restores: int | None = None) -> AliasRow:
        """Point an alias at a model because somebody asks for it now."""
        return cast("AliasRow", self._move(name, model_id, ALIAS_REQUESTS.next_value(), restores, always=True))

    def follow(self, name: str, model_id: str, request: int) -> bool:
        """Point an alias at a model that was asked for by this request, unless a later one has moved it meanwhile.

        Asked of the row itself, which is locked: of two jobs that end at once, the one that was asked for later wins.
        """
        return self._move(name, model_id, request, None, always=False) is not None

    def _move(self, name: str, model_id: str, request: Any, restores: int | None, *, always: bool) -> AliasRow | None:
        """Point an alias at a model and note the move. A shadow that takes over is no shadow any more."""
        statement = insert(AliasRow).values(project_id=self._project_id, name=name, model_id=model_id, request=request)
        moved = statement.on_conflict_do_update(
            index_elements=[AliasRow.project_id, AliasRow.name],
            set_={
                "model_id": model_id,
                "shadow_id": func.nullif(AliasRow.shadow_id, model_id),
                "request": func.greatest(AliasRow.request, statement.excluded.request),
                "updated_at": func.now(),
            },
            where=None if always else AliasRow.request <= statement.excluded.request,
        )
        row = self._session.scalars(
            moved.returning(AliasRow), execution_options={"populate_existing": True}
        ).one_or_none()
        if row is None:
            return None
        self._session.add(AliasChangeRow(project_id=self._project_id, name=name, model_id=model_id, restores=restores))
        self._session.flush()
        return row

    def set_shadow(self, name: str, shadow_id: str | None) -> AliasRow:
        """Give an alias a shadow, or none."""
        mine = and_(AliasRow.project_id == self._project_id, AliasRow.name == name)
        changed = update(AliasRow).where(mine).values(shadow_id=shadow_id).returning(AliasRow)
        return self._session.scalars(changed, execution_options={"populate_existing": True}).one()

    def get(self, name: str) -> AliasRow | None:
        """Return an alias; None if there is none, as of a text that is no name at all."""
        return self._session.get(AliasRow, (self._project_id, name)) if is_alias(name) else None

    def changes(self, name: str, limit: int) -> Sequence[AliasChangeRow]:
        """Return the last moves of an alias, newest first."""
        return self._session.scalars(self._moves(name).limit(limit)).all()

    def list(self, after: str | None, limit: int) -> Sequence[AliasRow]:
        """Return up to ``limit + 1`` aliases by name."""
        statement = select(AliasRow).where(AliasRow.project_id == self._project_id, AliasRow.name > (after or ""))
        return self._session.scalars(statement.order_by(AliasRow.name).limit(limit + 1)).all()

    def lock(self, name: str) -> AliasRow | None:
        """Return an alias that nobody else can move before this transaction ends."""
        return self._session.get(AliasRow, (self._project_id, name), with_for_update=True) if is_alias(name) else None

    def require(self, name: str, *, lock: bool = False) -> AliasRow:
        """Return an alias, locked if that is asked; raises `AliasNotFound`."""
        alias = self.lock(name) if lock else self.get(name)
        if alias is None:
            raise AliasNotFound
        return alias

    def open_job_with_feedback(self, name: str, seq: int = 0) -> str | None:
        """Return the id of a queued or running job that learns feedback for an alias, up to `seq` at least, or None."""
        using = select(JobRow.id).where(
            JobRow.project_id == self._project_id,
            JobRow.status.in_(("queued", "running")),
            JobRow.request["alias"].astext == name,
            JobRow.feedback_until >= seq,
        )
        return self._session.scalar(using.limit(1))

    def withdraw_wishes(self, name: str) -> None:
        """Leave the jobs that wait or run without their wish for an alias, which is about to be deleted.

        Before the alias is locked: a job that ends holds its own row and then asks for the alias.
        """
        if not is_alias(name):
            return
        wishing = update(JobRow).where(
            JobRow.project_id == self._project_id,
            JobRow.status.in_(("queued", "running")),
            JobRow.request["alias"].astext == name,
        )
        self._session.execute(wishing.values(alias_request=WISH_WITHDRAWN).execution_options(synchronize_session=False))

    def delete(self, name: str) -> None:
        """Delete an alias; its feedback and the figures of its shadows go with it by the foreign keys."""
        mine = and_(AliasChangeRow.project_id == self._project_id, AliasChangeRow.name == name)
        self._session.execute(delete(AliasChangeRow).where(mine))
        self._session.execute(delete(AliasRow).where(AliasRow.project_id == self._project_id, AliasRow.name == name))

    def before_last_move(self, name: str) -> AliasChangeRow | None:
        """Return the newest earlier move to another model that still exists, or None.

        Rollbacks since are followed to the move that they restored.
        """
        moves = self._moves(name).limit(1)
        models = ModelRepository(self._session, self._project_id)
        last = self._session.scalar(moves)
        position, current = (None, None) if last is None else (last.restores or last.id, last.model_id)
        # A move that is no way back leads nowhere unless it was a rollback: the database passes over all others itself.
        mine = and_(ModelRow.project_id == self._project_id, ModelRow.id == AliasChangeRow.model_id)
        leads_somewhere = and_(AliasChangeRow.model_id != current, select(ModelRow.id).where(mine).exists())
        moves = moves.where(or_(AliasChangeRow.restores.isnot(None), leads_somewhere))
        while position is not None:
            earlier = self._session.scalar(moves.where(AliasChangeRow.id < position))
            if earlier is None:
                return None
            if earlier.model_id != current and models.exists(earlier.model_id):
                return earlier
            position = earlier.restores
        return None

    def _moves(self, name: str) -> Select[AliasChangeRow]:
        mine = and_(AliasChangeRow.project_id == self._project_id, AliasChangeRow.name == name)
        return select(AliasChangeRow).where(mine).order_by(AliasChangeRow.id.desc())


def _applied(value: Any) -> ScalarSelect[Any]:
    """Return a subquery of a value of the newest operating point that was applied to the model of the query."""
    newest = select(value).where(OperatingPointRow.model_id == ModelRow.id)
    return newest.order_by(OperatingPointRow.created_at.desc(), OperatingPointRow.id.desc()).limit(1).scalar_subquery()


_APPLIED = _applied(
    func.jsonb_build_object(
        *(
            part
            for column in (
                *("objective", "threshold", "picked", "status", "status_reason"),
                *("calibration", "abstain", "created_at"),
            )
            for part in (column, getattr(OperatingPointRow, column))
        )
    )
)


def _select_model(report: Any) -> Select[Any]:
    names = (
        select(
            func.coalesce(func.jsonb_agg(aggregate_order_by(AliasRow.name, AliasRow.name)), func.jsonb_build_array())
        )
        .where(AliasRow.model_id == ModelRow.id)
        .scalar_subquery()
    )
    made = {"aliases": names, "report": report, "applied": _APPLIED}
    columns = (getattr(ModelRow, each.name) for each in fields(StoredModel) if each.name not in made)
    return select(*columns, *(value.label(name) for name, value in made.items()))

"""What can be done with models and aliases."""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from service.db.session import Database
from service.db.tables import AuditRow, OperatingPointRow
from service.errors import InvalidRequest
from service.identifiers import is_id, new_id
from service.models.class_drift import class_drift_of, rule_number
from service.models.class_points import applied_point, chosen_by, point_in_use, wanted_objective
from service.models.curves import AnyCurve, Costs, CurveName, curve_of, curve_of_class, thresholds_of
from service.models.drift import drift_of, is_unlike
from service.models.errors import (
    AliasInUse,
    DamagedModel,
    ModelInUse,
    ModelNotFound,
    NoCurve,
    NoShadow,
    NothingToRollBack,
    SeveralClasses,
)
from service.models.proven import proven_thresholds
from service.models.repository import (
    AliasRepository,
    ModelFileRepository,
    ModelRepository,
    StatisticsRepository,
    StoredModel,
)
from service.models.schemas import (
    Alias,
    AliasChange,
    AliasPage,
    AliasWithHistory,
    ChooseOperatingPoint,
    ClassesDrift,
    ClassesOperatingPoint,
    Drift,
    Model,
    ModelAudit,
    ModelSummary,
    MulticlassModel,
    OperatingPoint,
    PrecisionRecallCurve,
    PutAlias,
    Shadow,
    ShadowDisagreement,
    ShadowPair,
    Thresholds,
)
from service.models.shadows import BETWEEN, ShadowRepository
from service.models.verdicts import (
    is_contradicted,
    proving_audit,
    refuting_audit,
    told_verdict,
    verdict_of,
    verdict_words,
)
from service.paging import NOT_OURS, as_page
from service.schemas import Page
from service.turns import Turns
from solver.band import Band
from solver.choices import is_of_classes
from solver.class_points import promise_of_point, with_point
from solver.classes_report import AnyReport, MulticlassReport, is_of_several
from solver.evaluation import Sigmoid
from solver.evaluation.probability import band_probabilities
from solver.operating_point import Objective
from solver.refusals import NO_ABSTAINING
from solver.report import Promise, Report, ReportedPoint
from solver.retuning import NotOfTheCurveError, chosen_point, stored_promise

logger = logging.getLogger("prefsvm.models")
MOST_NAMES = 50
"""Whose models are looked at for drift."""
MOST_AUDITS = 20
"""Shown with a model."""
Changed = Callable[[], None]
"""Called after every change of what a name means or of how a model decides, for those who remember that."""


def nobody() -> None:
    """Nobody wants to know."""


@contextmanager
def changing(database: Database, changed: Changed) -> Iterator[Session]:
    """Open a transaction and call `changed` when it has ended, also with an error: it may be committed all the same."""
    try:
        with database.transaction() as session:
            yield session
    finally:
        changed()


class ModelService:
    """Shows, tunes and deletes models. Each is named by its id or by an alias: what that points at now."""

    def __init__(self, database: Database, changed: Changed = nobody) -> None:
        self._database = database
        self._changed = changed
        self._choosing = Turns()

    def get(self, project_id: str, name: str) -> Model:
        """Return a model of two classes with its report; raises `ModelNotFound`, `SeveralClasses`."""
        found = self.get_any(project_id, name)
        if isinstance(found, MulticlassModel):
            raise SeveralClasses.lacking("such thing, which is there for two classes only")
        return found

    def get_any(self, project_id: str, name: str) -> Model | MulticlassModel:
        """Return a model with its report; raises `ModelNotFound`."""
        with self._database.transaction() as session:
            models = ModelRepository(session, project_id)
            row = models.require(models.id_of(name))
            audits, verdicts = models.audits_of(row.id, MOST_AUDITS), models.verdicts([row.id])[row.id]
        if is_of_several(row.report):
            with _whole(row.id):
                several = MulticlassReport.from_dict(row.report)
                return MulticlassModel(
                    **_summary_of_several(row),
                    operating_point=applied_point(several, row.applied),
                    columns=several.columns,
                    report=several,
                )
        with _whole(row.id):
            report = Report.from_dict(row.report)
            applied = None if row.applied is None else _promised(OperatingPoint.model_validate(row.applied), report)
            summary = _summary(row, applied or report, verdicts)
            band = _band(applied or report)
            told = report.probability
            sigmoid = None if told is None else Sigmoid(told.slope, told.offset)
            return Model(
                **summary,
                threshold_probability=sigmoid and sigmoid.of_threshold(summary["threshold"]),
                abstain_probabilities=None if band is None else band_probabilities(band, sigmoid),
                operating_point=applied,
                audits=list(_audited(audits, summary["threshold"], band)),
                columns=report.columns,
                report=report,
            )

    def labelled_counts(self, project_id: str, name: str) -> tuple[int, int]:
        """Return how many negative and positive rows a model learned from; raises `ModelNotFound`."""
        with self._database.transaction() as session:
            models = ModelRepository(session, project_id)
            return models.labelled_counts(models.id_of(name))

    def list(self, project_id: str, cursor: str | None, limit: int) -> Page[ModelSummary]:
        """Return a page of models, newest first."""
        with self._database.transaction() as session:
            models = ModelRepository(session, project_id)
            rows = models.list(cursor, limit)
            verdicts = models.verdicts([row.id for row in rows])
        return as_page(rows, limit, lambda row: _listed(row, verdicts[row.id]))

    def delete(self, project_id: str, name: str) -> None:
        """Delete a model.

        Raises
        ------
        ModelNotFound
            If there is none of this id.
        ModelInUse
            If an alias points at it, or answers of an audit would be lost.
        """
        with changing(self._database, self._changed) as session:
            models = ModelRepository(session, project_id)
            model_id = models.id_of(name)
            if not models.lock(model_id, for_delete=True):
                raise ModelNotFound
            names = models.aliases_of(model_id)
            if names:
                raise ModelInUse(f"the alias {names[0]} points at this model, or has it as its shadow; change it first")
            audit = models.unsealed_audit(model_id)
            if audit is not None:
                raise ModelInUse(
                    f"the answers of {audit} would be lost with it: seal the audit (POST /audits/{audit}/seal) or "
                    f"delete it (DELETE /audits/{audit}), and then delete the model again"
                )
            models.delete(model_id)

    def curve(self, project_id: str, name: str, kind: CurveName, costs: Costs, label: str | None = None) -> AnyCurve:
        """Return a curve of the calibration rows, of several classes that of one against the others.

        Raises
        ------
        ModelNotFound, NoCurve
        InvalidRequest
            If `label` is not one of several classes, or of two the one that is not looked for.
        """
        with self._database.transaction() as session:
            models = ModelRepository(session, project_id)
            model_id = models.id_of(name)
            stored, point = models.report(model_id)
        if is_of_several(stored):
            with _whole(model_id):
                several = with_point(MulticlassReport.from_dict(stored), point)
            if not several.curves:
                raise NoCurve("this model was stored without the curves of its classes; train again")
            return curve_of_class(several, label, kind, costs)
        report, applied = _of_two(model_id, stored, point)
        if label not in (None, report.classes.positive):
            raise InvalidRequest.of("query.class", f"of two classes the curve is that of {report.classes.positive!r}")
        if report.curve is None:
            raise _no_curve(report)
        return curve_of(report, report.curve, kind, applied or _trained(report), costs)

    def class_curve(self, project_id: str, name: str, label: str) -> PrecisionRecallCurve | None:
        """Return precision against recall of one of several classes; None where that was not kept."""
        try:
            curve = self.curve(project_id, name, "pr", Costs(), label)
        except NoCurve:
            return None
        return curve if isinstance(curve, PrecisionRecallCurve) else None

    def thresholds(self, project_id: str, name: str, costs: Costs | None = None) -> Thresholds:
        """Return what each threshold would give, with intervals; raises `ModelNotFound`, `NoCurve`."""
        with self._database.transaction() as session:
            model_id, report, applied = report_of(session, project_id, name)
            verdicts = ModelRepository(session, project_id).verdicts([model_id])[model_id]
        if report.curve is None or not report.curve.thresholds:
            raise _no_curve(report)
        trained = _trained(report)
        proven = proven_thresholds([trained, *([applied] if applied else [])], verdicts)
        return thresholds_of(model_id, report, report.curve, applied or trained, costs or Costs(), proven)

    def drift(self, project_id: str, name: str, days: int) -> Drift | ClassesDrift:
        """Compare the rows of the last days with those of the training; raises `ModelNotFound`."""
        with self._database.transaction() as session:
            models = ModelRepository(session, project_id)
            model_id = models.id_of(name)
            stored, point = models.report(model_id)
            rule = models.rule_in_use(model_id)
            counted = StatisticsRepository(session, project_id).of_days(model_id, days)
        if is_of_several(stored):
            with _whole(model_id):
                several = with_point(MulticlassReport.from_dict(stored), point)
            return class_drift_of(model_id, several, rule_number(rule), days, counted)
        report, applied = _of_two(model_id, stored, point)
        return drift_of(model_id, report, applied or _trained(report), days, counted)

    def choose(self, project_id: str, name: str, body: ChooseOperatingPoint) -> OperatingPoint | ClassesOperatingPoint:
        """Choose threshold or rule for another objective, and let the model decide by it if that is asked.

        Raises
        ------
        ModelNotFound
            If there is none of this id.
        NoCurve
            If it was stored without what a threshold is chosen from.
        InvalidRequest
            If a threshold is none of the model's curve, or the objective is not of its classes.
        Busy
            If as many rules of several classes as may wait are being chosen.
        """
        with self._database.transaction() as session:
            models = ModelRepository(session, project_id)
            model_id = models.id_of(name)
            stored, applied = models.report(model_id)
        if is_of_several(stored):
            return self._choose_rule(project_id, model_id, stored, body)
        return self._choose_threshold(project_id, model_id, *_of_two(model_id, stored, applied), body)

    def choose_threshold(self, project_id: str, name: str, body: ChooseOperatingPoint) -> OperatingPoint:
        """Choose a threshold, as `choose` does, of a model of two classes; raises `SeveralClasses` for others."""
        with self._database.transaction() as session:
            model_id, report, applied = report_of(session, project_id, name)
        return self._choose_threshold(project_id, model_id, report, applied, body)

    def _choose_rule(
        self, project_id: str, model_id: str, stored: dict[str, Any], body: ChooseOperatingPoint
    ) -> ClassesOperatingPoint:
        """Choose a rule, outside of any transaction: that of many rows and classes takes a while."""
        with _whole(model_id):
            report = MulticlassReport.from_dict(stored)
        objective = wanted_objective(report, body)
        point: dict[str, Any] = {name: stored[name] for name in _OF_A_POINT}  # without a rule: that of the file
        if objective is not None:
            with self._database.transaction() as session:
                left_out = ModelFileRepository(session, project_id).left_out(model_id)
            with self._choosing.take():
                point = chosen_by(report, objective, left_out, model_id)
        if not body.apply:
            return point_in_use(with_point(report, point))
        with changing(self._database, self._changed) as session:
            row = OperatingPointRow(id=new_id("op"), model_id=model_id, **point)
            if not ModelRepository(session, project_id).apply(row):
                raise ModelNotFound
            return point_in_use(with_point(report, point), row.created_at)

    def _choose_threshold(
        self,
        project_id: str,
        model_id: str,
        report: Report,
        applied: OperatingPoint | None,
        body: ChooseOperatingPoint,
    ) -> OperatingPoint:
        wanted = None if body.objective is None else body.objective.model_dump()
        if wanted is not None and is_of_classes(wanted):
            raise InvalidRequest.of("body.objective", OF_THREE)
        if wanted is None and body.threshold is not None:
            wanted = (applied or report).objective
        point = _trained(report) if wanted is None else _chosen(report, wanted, body.threshold)
        if not body.apply:
            return point
        with changing(self._database, self._changed) as session:
            row = OperatingPointRow(
                id=new_id("op"), model_id=model_id, **point.model_dump(exclude={"created_at", "promise"}, mode="json")
            )
            if not ModelRepository(session, project_id).apply(row):
                raise ModelNotFound
            return _promised(OperatingPoint.model_validate(row), report)

    def applied_points(
        self, project_id: str, name: str, cursor: str | None, limit: int
    ) -> Page[OperatingPoint | ClassesOperatingPoint]:
        """Return a page of the operating points that were applied, newest first; raises `ModelNotFound`."""
        with self._database.transaction() as session:
            models = ModelRepository(session, project_id)
            model_id = models.id_of(name)
            if not models.exists(model_id):
                raise ModelNotFound
            rows = models.applied_points(model_id, cursor, limit)
            stored, _ = models.report(model_id)
        with _whole(model_id):
            if is_of_several(stored):
                several = MulticlassReport.from_dict(stored)
                return as_page(rows, limit, lambda row: point_in_use(with_point(several, _told(row)), row.created_at))
            report = Report.from_dict(stored)
        return as_page(rows, limit, lambda row: _promised(OperatingPoint.model_validate(row), report))


@dataclass(frozen=True)
class Drifting:
    """A name whose model meets rows unlike those of its training."""

    alias: str
    rows: int
    outside_share: float


class AliasService:
    """Points names at models."""

    def __init__(self, database: Database, changed: Changed = nobody) -> None:
        self._database = database
        self._changed = changed

    def put(self, project_id: str, name: str, body: PutAlias) -> Alias:
        """Point an alias at a model, making the alias if it is new, and change its shadow if the body speaks of it."""
        shadow_id = body.shadow
        with changing(self._database, self._changed) as session:
            models, aliases = ModelRepository(session, project_id), AliasRepository(session, project_id)
            if not is_id(body.model, "mdl") or not models.lock(body.model):
                raise InvalidRequest.of("body.model", "there is no such model")
            if shadow_id is not None and not (is_id(shadow_id, "mdl") and models.lock(shadow_id)):
                raise InvalidRequest.of("body.shadow", "there is no such model")
            if shadow_id == body.model:
                raise InvalidRequest.of("body.shadow", "is the model that answers")
            row = aliases.put(name, body.model)
            if "shadow" in body.model_fields_set:
                row = aliases.set_shadow(name, shadow_id)
            return Alias.model_validate(row)

    def get(self, project_id: str, name: str, limit: int) -> AliasWithHistory:
        """Return an alias with its last moves; raises `AliasNotFound`."""
        with self._database.transaction() as session:
            aliases = AliasRepository(session, project_id)
            row = aliases.require(name)
            changes = aliases.changes(name, limit)
            before = aliases.before_last_move(name)
        history = [
            AliasChange(model_id=each.model_id, rollback=each.restores is not None, created_at=each.created_at)
            for each in changes
        ]
        return AliasWithHistory(
            **Alias.model_validate(row).model_dump(), history=history, before=before and before.model_id
        )

    def shadow(self, project_id: str, name: str, limit: int) -> Shadow:
        """Return how the shadow of an alias compares; raises `AliasNotFound`, `NoShadow`."""
        with self._database.transaction() as session:
            alias = AliasRepository(session, project_id).require(name)
            if alias.shadow_id is None:
                raise NoShadow
            shadows = ShadowRepository(session, project_id)
            counted = shadows.statistics(name, alias.model_id, alias.shadow_id)
            latest = shadows.latest(name, alias.model_id, alias.shadow_id, limit)
        pairs = [] if counted is None else [(*pair.split(BETWEEN), rows) for pair, rows in counted.pairs.items()]
        total = sum(rows for _, _, rows in pairs)
        differing = sum(rows for label, shadow_label, rows in pairs if label != shadow_label)
        return Shadow(
            alias=name,
            model_id=alias.model_id,
            shadow_id=alias.shadow_id,
            since=None if counted is None else counted.created_at,
            rows=total,
            disagreements=differing,
            disagreement_share=differing / total if total else None,
            pairs=[
                ShadowPair(label=one or None, shadow_label=other or None, rows=rows)
                for one, other, rows in sorted(pairs)
            ],
            dropped=0 if counted is None else counted.dropped,
            failed=0 if counted is None else counted.failed,
            latest=[
                ShadowDisagreement(
                    created_at=row.created_at,
                    row_sha256=row.row_sha256.hex(),
                    label=row.label or None,  # see UNDECIDED
                    score=row.score,
                    shadow_label=row.shadow_label or None,
                    shadow_score=row.shadow_score,
                )
                for row in latest
            ],
        )

    def drifting(self, project_id: str, days: int) -> list[Drifting]:
        """Return the names whose models met many rows in the last days that are unlike their training."""
        with self._database.transaction() as session:
            met = StatisticsRepository(session, project_id).of_names(days, MOST_NAMES)
        return [
            Drifting(name, rows, outside / rows)
            for name, rows, outside, labelled in met
            if is_unlike(outside, rows, labelled)
        ]

    def delete_shadow(self, project_id: str, name: str) -> None:
        """Take the shadow of an alias away; raises `AliasNotFound`, `NoShadow`."""
        with changing(self._database, self._changed) as session:
            aliases = AliasRepository(session, project_id)
            if aliases.require(name, lock=True).shadow_id is None:
                raise NoShadow
            aliases.set_shadow(name, None)

    def list(self, project_id: str, cursor: str | None, limit: int) -> AliasPage:
        """Return a page of aliases, by name."""
        after = _decode_name(cursor) if cursor is not None else None
        with self._database.transaction() as session:
            rows = AliasRepository(session, project_id).list(after, limit)
        return AliasPage(
            items=[Alias.model_validate(row) for row in rows[:limit]],
            next_cursor=_encode_name(rows[limit - 1].name) if len(rows) > limit else None,
        )

    def delete(self, project_id: str, name: str) -> None:
        """Delete an alias with its history and all that was sent for it; the models stay.

        A job that was asked for with the alias before does not make it again.

        Raises
        ------
        AliasNotFound
        AliasInUse
            If a job that waits or runs learns feedback for it.
        """
        with changing(self._database, self._changed) as session:
            aliases = AliasRepository(session, project_id)
            aliases.withdraw_wishes(name)
            aliases.require(name, lock=True)
            job_id = aliases.open_job_with_feedback(name)
            if job_id is not None:
                raise AliasInUse(f"the job {job_id} learns feedback for this alias; wait for it to end, or cancel it")
            aliases.delete(name)

    def roll_back(self, project_id: str, name: str) -> Alias:
        """Point an alias at the model before; doing it again goes further back.

        Raises
        ------
        AliasNotFound
            If there is no such alias.
        NothingToRollBack
            If there was no model before, or none that still exists.
        """
        with changing(self._database, self._changed) as session:
            aliases = AliasRepository(session, project_id)
            aliases.require(name, lock=True)
            target = aliases.before_last_move(name)
            if target is None or not ModelRepository(session, project_id).lock(target.model_id):
                raise NothingToRollBack("the alias pointed at no model before this one that still exists")
            restores = target.restores or target.id
            return Alias.model_validate(aliases.put(name, target.model_id, restores=restores))


_NOT_WHOLE = (KeyError, TypeError, ValueError)
"""What reading a report that lacks something, or has something else in its place, raises."""


@contextmanager
def _whole(model_id: str) -> Iterator[None]:
    """Tell that the report of a model lacks what workers write; raises `DamagedModel`."""
    try:
        yield
    except _NOT_WHOLE:
        logger.exception("report damaged", extra={"fields": {"model": model_id}})
        raise DamagedModel(
            f"the stored report of {model_id} is not whole: delete the model and train again, or restore the database"
        ) from None


def _summary_of_several(row: StoredModel) -> dict[str, Any]:
    """Return what a list says of a model of several classes."""
    point = row.applied or row.report
    promise = row.report.get("promise")
    told = None if promise is None else Promise.from_dict(promise)
    if row.applied is not None and row.applied["calibration"] is not None:
        told = promise_of_point(row.applied)
    return _stored(row) | {
        "objective": point["objective"],
        "status": point["status"],
        "threshold": None,
        "promise": told,
    }


def _listed(row: StoredModel, verdicts: Sequence[AuditRow]) -> ModelSummary:
    """Return a model for a list, also a damaged one: the others on its page must not go with it."""
    try:
        if is_of_several(row.report):
            return ModelSummary(**_summary_of_several(row))
        if row.applied is None:
            return ModelSummary(**_summary(row, ReportedPoint.from_dict(_NOT_LISTED | row.report), verdicts))
        told = {name: value for name, value in row.report.items() if value is not None}
        report = Report.from_dict(_NOT_LISTED | {"test": None, "params": {}} | told)
        return ModelSummary(**_summary(row, _promised(OperatingPoint.model_validate(row.applied), report), verdicts))
    except _NOT_WHOLE:
        return ModelSummary(**_stored(row), objective={}, status="damaged", threshold=None)


_OF_A_POINT = ("objective", "status", "status_reason", "calibration")
"""What is stored of a point of several classes beside its rule."""
OF_THREE = (
    "is of three classes and more, and this model is of two: should be a precision, a recall, a false positive rate, "
    "f1, f_beta, or cost with two costs"
)
_NOT_LISTED = {"status_reason": "", "calibration": None}
"""What a point has and a list does not say."""


def _stored(row: StoredModel) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ModelSummary.model_fields if hasattr(row, name)}


def _summary(row: StoredModel, in_use: ReportedPoint | OperatingPoint, verdicts: Sequence[AuditRow]) -> dict[str, Any]:
    """Return what a list says of a model, and of the point that it decides by."""
    point = {name: getattr(in_use, name) for name in ("objective", "status", "threshold", "promise", "abstain")}
    proven_by = proving_audit(verdicts, in_use.objective, in_use.threshold, _band(in_use))
    refuted_by = refuting_audit(verdicts, in_use.objective, in_use.threshold, _band(in_use))
    return _stored(row) | point | {"proven_by": proven_by, "refuted_by": refuted_by}


def _band(point: ReportedPoint | OperatingPoint) -> Band | None:
    return None if point.abstain is None else point.abstain.band


def _audited(audits: Sequence[AuditRow], threshold: float, band: Band | None) -> Iterator[ModelAudit]:
    for row in audits:
        verdict = told_verdict(row, threshold, band)
        sentence = verdict_words(row, verdict)
        if row.pool is None or verdict is None or sentence is None:
            continue
        yield ModelAudit(
            id=row.id,
            status=verdict["standing"],
            objective=row.objective,
            confidence=row.confidence,
            threshold=verdict.get("threshold", row.pool["threshold"]),
            in_use=verdict_of(row, threshold, band) is not None,
            contradicted=verdict["standing"] == "proven" and is_contradicted(row, verdict),
            sentence=sentence,
            created_at=row.created_at,
        )


def _told(row: OperatingPointRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _OF_A_POINT}


def _no_curve(report: Report) -> NoCurve:
    if report.positives_only is None:
        return NoCurve("this model has no operating curve")
    return NoCurve(
        "this model has no operating curve: too few negative rows are labelled, or none; "
        "an operating point tells what another threshold would give"
    )


def report_of(session: Session, project_id: str, name: str) -> tuple[str, Report, OperatingPoint | None]:
    """Return the id of a model, its whole report, and the operating point that was applied last.

    Raises
    ------
    ModelNotFound, DamagedModel
    SeveralClasses
        If it is not of two classes.
    """
    models = ModelRepository(session, project_id)
    model_id = models.id_of(name)
    return model_id, *_of_two(model_id, *models.report(model_id))


def any_report_of(session: Session, project_id: str, name: str) -> tuple[str, AnyReport, OperatingPoint | None]:
    """Return what `report_of` does, also of several classes, without their point; errors are the others of those."""
    models = ModelRepository(session, project_id)
    model_id = models.id_of(name)
    stored, applied = models.report(model_id)
    if is_of_several(stored):
        with _whole(model_id):
            return model_id, MulticlassReport.from_dict(stored), None
    return model_id, *_of_two(model_id, stored, applied)


def _of_two(
    model_id: str, stored: dict[str, Any], applied: dict[str, Any] | None
) -> tuple[Report, OperatingPoint | None]:
    """Read the stored report of a model of two classes, and the point that was applied to it last."""
    if is_of_several(stored):
        raise SeveralClasses.lacking("such thing, which is there for two classes only")
    with _whole(model_id):
        report = Report.from_dict(stored)
    return report, None if applied is None else _promised(OperatingPoint.model_validate(applied), report)


def _promised(point: OperatingPoint, report: Report) -> OperatingPoint:
    """The point with what it promises, which follows from what is stored of it."""
    if point.calibration is None and report.positives_only is None:
        return point
    return point.model_copy(update={"promise": stored_promise(report, point, picked=point.picked)})


def _trained(report: Report) -> OperatingPoint:
    names = ("promise", "objective", "threshold", "status", "status_reason", "calibration", "abstain")
    return OperatingPoint(**{name: getattr(report, name) for name in names}, created_at=None)


def _chosen(report: Report, wanted: dict[str, Any], threshold: float | None) -> OperatingPoint:
    if report.positives_only is not None and wanted.get("abstain") is not None:
        raise InvalidRequest.of("body.objective.abstain", NO_ABSTAINING)
    try:
        point = chosen_point(report, Objective.parse(wanted), threshold)
    except NotOfTheCurveError:
        raise InvalidRequest.of("body.threshold", "should be one of the curve of the model, exactly as there") from None
    if point is None:
        raise NoCurve("this model was stored without the curve that a threshold is chosen from")
    return OperatingPoint(**vars(point), created_at=None)


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

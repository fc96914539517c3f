"""A training: what to look for and what must hold, checked while it is chosen; and the jobs that become of it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from markupsafe import Markup
from pydantic import ValidationError

from service import charts
from service.api.access import Reader, Writer
from service.api.parameters import CursorText
from service.datasets.errors import DatasetNotFound
from service.datasets.schemas import Column, Dataset
from service.errors import Problem
from service.identifiers import new_id
from service.jobs.class_checking import many_classes
from service.jobs.names import ALGORITHM_NAMES, may_mean_unknown, parameters_of
from service.jobs.schemas import DryRun, Job, JobEvent, JobStatus, TrainRequest
from service.pages.forms import BUTTON, Form, Written, as_invalid, number_of, parsed
from service.pages.room import Room
from service.pages.services import Services
from service.pages.words import PHASES, event_words
from service.schemas import alias_like, is_alias

ON_A_LIST = 30
MOST_EVENTS = 1000
"""Of a job, the newest ones, that are looked at: as many as an attempt may have."""
SHOWN_EVENTS = 40
MOST_DOTS = 40
"""Of a line; of more there is the line alone."""
FEWEST_TOLD = 3
PARAMETER = "param-"
"""Of an algorithm: how the names of their fields begin."""
MOST_CHOICES = 200
"""Columns that are offered as the target."""

OF_SEVERAL = {"macro_f1": "macro_f1", "accuracy": "accuracy", "class_cost": "cost"}
"""Objectives of several classes as the form calls them, and as the call does."""
FLOOR, COST = "floor-", "cost-of-"
"""How names of fields begin: then come measure and class, or as JSON the true class and the one that is said."""
USUAL = {"precision": "95", "recall": "95", "lost": "0.1", "missed": "5", "alarm": "1"}
"""What stands in the fields of objectives before anybody has written there."""
MOST_PRICED = 12
"""Classes whose costs have a field each."""


@dataclass(frozen=True)
class Choices:
    """What is chosen so far, with what stands in the fields where nothing is."""

    target: Column | None
    labels: Mapping[str, int]
    """Of the target, the rarest first, each with its rows; empty where there are too many to list."""
    positive: str
    unlabeled: Sequence[str]
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Of the algorithm, what was written for them."""
    several: bool = False
    """Whether all classes are told apart, and not one from the others."""
    can_be_several: bool = False
    floors: Mapping[str, str] = field(default_factory=dict)
    """By measure and class, such as ``precision-urgent``, in percent."""
    costs: Mapping[str, str] = field(default_factory=dict)
    """By the true class and the one that is said, as JSON."""
    fields: dict[str, str] = field(default_factory=dict)

    @property
    def classes(self) -> list[str]:
        """The labels that are learned."""
        return [label for label in self.labels if label not in self.unlabeled]

    @property
    def without_label(self) -> int:
        """Rows without a label, or with one that means 'not known'."""
        empty = self.target.missing if self.target else 0
        return (empty or 0) + sum(self.labels.get(label, 0) for label in self.unlabeled)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Each class with each other one, where they have costs; of very many classes none."""
        return list(permutations(self.classes, 2)) if len(self.classes) <= MOST_PRICED else []


@dataclass(frozen=True)
class TrainingCheck:
    """What a training would need, or why it could not be."""

    body: str
    """As JSON."""
    curl: str
    dry_run: DryRun | None
    problem: Problem | None
    once: str
    """An `Idempotency-Key`: pressing the button twice makes one job."""


def add_training(router: APIRouter, room: Room, services: Services) -> None:
    """Add the pages of trainings."""
    _add_form(router, room, services)
    _add_jobs(router, room, services)


def _add_form(router: APIRouter, room: Room, services: Services) -> None:
    @router.get("/ui/datasets/{dataset_id}/train")
    def choose(request: Request, caller: Writer, dataset_id: str) -> Response:
        dataset = services.datasets.get(caller.project_id, dataset_id, most=1)
        given = parsed(request.scope["query_string"])
        targets = services.datasets.likely_targets(caller.project_id, dataset_id, MOST_CHOICES)
        named = services.datasets.columns_named(caller.project_id, dataset_id, [given.exact("target")])
        choices = _choices(targets, next(iter(named), None), given)
        check = _check(services, caller.project_id, dataset, choices)
        name = choices.fields["alias"]
        return room.page(
            request.scope,
            "train.html",
            title=f"Train on {dataset.name}",
            dataset=dataset,
            columns=targets,
            choices=choices,
            check=check,
            may_be_unknown=check is not None and check.problem is not None and "'not known'" in check.problem.detail,
            algorithms=ALGORITHM_NAMES,
            parameters=parameters_of(choices.fields["algorithm"] or ALGORITHM_NAMES[0]),
            encoder=services.encoder,
            pair_name=pair_name,
            like=None if not name or is_alias(name) else {**_as_chosen(choices, given), "alias": alias_like(name)},
        )

    @router.post("/ui/train")
    def start(request: Request, caller: Writer, form: Written) -> Response:
        try:
            body = TrainRequest.model_validate_json(form.exact("request"))
        except ValidationError as error:
            raise as_invalid(error) from None
        job = services.jobs.train(caller.project_id, body, form.text("once") or None)
        return room.redirect(request.scope, f"/ui/jobs/{job.id}")


def _add_jobs(router: APIRouter, room: Room, services: Services) -> None:
    @router.get("/ui/jobs")
    def list_(request: Request, caller: Reader, cursor: CursorText = None) -> Response:
        page = services.jobs.list(caller.project_id, None, cursor, ON_A_LIST)
        return room.page(
            request.scope,
            "jobs.html",
            title="Jobs",
            jobs=page.items,
            cursor=cursor,
            next_cursor=page.next_cursor,
            runs=any(job.finished_at is None for job in page.items),
        )

    @router.get("/ui/jobs/{job_id}")
    def show(request: Request, caller: Reader, job_id: str) -> Response:
        job = services.jobs.get(caller.project_id, job_id)
        events = services.jobs.events(caller.project_id, job_id, 0, MOST_EVENTS, newest=True).items
        rounds, has_measures = _rounds(job, events)
        told = _without_repeats(events)
        try:
            dataset = services.datasets.get(caller.project_id, job.request["dataset"], most=1)
        except DatasetNotFound:
            dataset = None
        return room.page(
            request.scope,
            "job.html",
            title=f"Training: {job.status.value}",
            job=job,
            dataset=dataset,
            phases=_phases(job, events),
            events=told[-SHOWN_EVENTS:],
            left_out=max(0, len(told) - SHOWN_EVENTS),
            more_left_out=len(events) == MOST_EVENTS,
            rounds=rounds,
            has_measures=has_measures,
            outcome=_outcome(events),
        )

    @router.post("/ui/jobs/{job_id}/cancel")
    def cancel(request: Request, caller: Writer, job_id: str, form: Written) -> Response:
        services.jobs.cancel(caller.project_id, job_id, keep_best=form.text("keep_best") == "yes")
        return room.redirect(request.scope, f"/ui/jobs/{job_id}")

    @router.post("/ui/jobs/{job_id}/retry", dependencies=[BUTTON])
    def retry(request: Request, caller: Writer, job_id: str) -> Response:
        job = services.jobs.retry(caller.project_id, job_id, None)
        return room.redirect(request.scope, f"/ui/jobs/{job.id}")


def _choices(targets: Sequence[Column], named: Column | None, given: Form) -> Choices:
    target = named or (targets[0] if targets else None)
    spelt = (target and target.written) or {}
    counts = (target and target.values) or {}
    labels = {spelt.get(value, value): counts[value] for value in sorted(counts, key=lambda value: counts[value])}
    positive = given.exact("positive")
    unlabeled = [label for label in given.all("unlabeled") if label in labels]
    classes = [label for label in labels if label not in unlabeled]
    can_be_several = len(classes) > 2 and many_classes(len(classes)) is None
    # One is looked for where it is named, as by links; else several are told apart.
    several = can_be_several and given.text("tell") != "one" and (given.text("tell") == "all" or not positive)
    usual = {"objective": "macro_f1" if several else "recall", **USUAL}
    names = (*usual, "confidence", "abstain", "scheme", "alias", "algorithm", "encoder", "max_seconds", "test")
    fields = {name: given.text(name) or usual.get(name, "") for name in names}
    if (fields["objective"] in OF_SEVERAL) != several:
        fields["objective"] = usual["objective"]
    known = {each.name for each in parameters_of(fields["algorithm"] or ALGORITHM_NAMES[0])}
    parameters = {name: said for name, said in given.named(PARAMETER).items() if name in known and said.strip()}
    is_known = positive in labels or (positive and not labels)
    return Choices(
        target=target,
        labels=labels,
        positive=positive if is_known else _first_meant(classes),
        unlabeled=unlabeled,
        parameters=parameters,
        several=several,
        can_be_several=can_be_several,
        floors={name: said for name, said in given.named(FLOOR).items() if said.strip()},
        costs={pair: said for pair, said in given.named(COST).items() if said.strip()},
        fields=fields,
    )


def _first_meant(classes: Sequence[str]) -> str:
    """Return the first label that is no word for 'not known', if there is one: that is hardly what is looked for."""
    return next((label for label in classes if not may_mean_unknown(label)), next(iter(classes), ""))


def _as_chosen(choices: Choices, given: Form) -> dict[str, Any]:
    """Return what is chosen, as an address has it."""
    target = choices.target.name if choices.target else ""
    written = {f"{PARAMETER}{name}": said for name, said in choices.parameters.items()}
    labels = {"target": target, "positive": choices.positive, "unlabeled": given.all("unlabeled")}
    labels |= {"tell": "all" if choices.several else "one"}
    of_classes = {f"{FLOOR}{name}": said for name, said in choices.floors.items()}
    of_classes |= {f"{COST}{pair}": said for pair, said in choices.costs.items()}
    return labels | choices.fields | written | of_classes


def _check(services: Services, project: str, dataset: Dataset, choices: Choices) -> TrainingCheck | None:
    if choices.target is None:
        return None
    dry_run, problem = None, None
    body = _body(dataset, choices)
    try:
        dry_run = services.jobs.dry_run(project, TrainRequest.model_validate(body))
    except ValidationError as error:
        problem = as_invalid(error)
    except Problem as error:
        problem = error
    text = orjson.dumps(body, option=orjson.OPT_INDENT_2).decode()
    curl = f"curl $PREFSVM_URL/train -H 'Content-Type: application/json' -d {shlex.quote(text)}"
    return TrainingCheck(text, curl, dry_run, problem, new_id("blob"))


def _body(dataset: Dataset, choices: Choices) -> dict[str, Any]:
    """Return the body of ``POST /train``: what is not chosen is not in it."""
    fields = choices.fields
    body: dict[str, Any] = {
        "dataset": dataset.id,
        "target": choices.target.name if choices.target else "",
        **({} if choices.several else {"positive": choices.positive or None}),
        "objective": objective_of_classes(choices) if choices.several else _objective(fields),
    }
    if choices.several and fields["scheme"]:
        body["scheme"] = fields["scheme"]
    if choices.unlabeled:
        body["unlabeled"] = list(choices.unlabeled)
    for name in ("alias", "algorithm"):
        if fields[name]:
            body[name] = fields[name]
    if fields["encoder"]:
        body["features"] = {"text": {"encoder": fields["encoder"]}}
    if choices.parameters:
        body["params"] = {name: _value(said) for name, said in choices.parameters.items()}
    for name, key, scale in (("max_seconds", "max_seconds", 1.0), ("test", "test_fraction", 0.01)):
        if fields[name]:
            body[key] = _number(fields[name], scale)
    return body


def _objective(fields: dict[str, str]) -> dict[str, Any]:
    sure: dict[str, Any] = {"confidence": _number(fields["confidence"], 0.01)} if fields["confidence"] else {}
    undecided = {"abstain": {"precision": _number(fields["abstain"], 0.01)}} if fields["abstain"] else {}
    sure |= undecided
    match fields["objective"]:
        case "precision" | "recall" as kind:
            return {"kind": kind, "target": _number(fields[kind], 0.01), **sure}
        case "both":
            both = {name: _number(fields[name], 0.01) for name in ("precision", "recall")}
            return {"kind": "precision_recall", **both, **sure}
        case "lost":
            return {"kind": "false_positive_rate", "at_most": _number(fields["lost"], 0.01), **sure}
        case "cost":
            costs = {"false_negative": _number(fields["missed"]), "false_positive": _number(fields["alarm"])}
            return {"kind": "cost", **costs, **undecided}
    return {"kind": "f1", **undecided}


def objective_of_classes(choices: Choices) -> dict[str, Any]:
    """Return the objective of several classes, with what was asked of single ones."""
    objective: dict[str, Any] = {"kind": OF_SEVERAL[choices.fields["objective"]]}
    floors: dict[str, dict[str, Any]] = {}
    for name, said in choices.floors.items():
        measure, _, label = name.partition("-")
        if label in choices.labels and label not in choices.unlabeled:
            floors.setdefault(label, {})[measure] = _number(said, 0.01)
    if floors:
        objective["floors"] = floors
        if choices.fields["confidence"]:
            objective["confidence"] = _number(choices.fields["confidence"], 0.01)
    if objective["kind"] == "cost":
        costs: dict[str, dict[str, Any]] = {}
        for true, said_to_be in choices.pairs:
            written = choices.costs.get(pair_name(true, said_to_be))
            costs.setdefault(true, {})[said_to_be] = 1.0 if written is None else _number(written)
        objective["costs"] = costs
    return objective


def pair_name(true: str, said: str) -> str:
    """Return what the field for the cost of a row is called that is one class and said to be another."""
    return orjson.dumps([true, said]).decode()


def _number(text: str, scale: float = 1.0) -> float | str:
    """Return what a field says, as it is where it is no number: the check of the request says so then."""
    value = number_of(text)
    return text if value is None else round(value * scale, 9)


def _value(said: str) -> float | str | None:
    """Return what is written for a parameter: a number, null, or one of its words."""
    value = number_of(said)
    if value is None:
        return None if said.strip() == "null" else said.strip()
    return int(value) if value == int(value) else value


def _outcome(events: Sequence[JobEvent]) -> Mapping[str, Any] | None:
    """Return whether the name was moved to the new model, with the reason; None before the end, or without a name."""
    last = events[-1].data.get("alias") if events and events[-1].kind == "finished" else None
    return last if isinstance(last, Mapping) else None


def _without_repeats(events: Sequence[JobEvent]) -> list[JobEvent]:
    """Return the first of events that follow each other and read alike: a phase reports many times how far it is."""
    told = [(event, event_words(event)) for event in events]
    return [event for at, (event, words) in enumerate(told) if at == 0 or words != told[at - 1][1]]


def _rounds(job: Job, events: Sequence[JobEvent]) -> tuple[Markup | None, bool]:
    """Return what each round of the running phase has reached so far; of methods without rounds, how far they are.

    And whether it shows precision, recall and F1.
    """
    of_attempt = [event for event in events if event.attempt == job.attempt and event.kind in ("round", "progress")]
    rounds = [event.data for event in of_attempt if event.kind == "round"]
    of_phase = [data for data in rounds if data.get("phase") == rounds[-1].get("phase")]
    measured = [
        (name, kind, points)
        for name, kind in (("precision", "bar"), ("recall", "other"), ("f1", "mark"))
        if len(points := _of_rounds(of_phase, name)) > 1
    ]
    if measured:
        numbers = [point.x for _, _, points in measured for point in points]
        lines = [charts.Line(points, kind, dots=len(points) < MOST_DOTS) for _, kind, points in measured]
        words = ", ".join(name for name, _, _ in measured)
        x = charts.numbers("Round", numbers, whole=True)
        return charts.plot(lines, x, charts.shares("Calibration rows"), f"{words} of each round"), True
    if len(likelihood := _of_rounds(of_phase, "log_likelihood")) > 1:
        x = charts.numbers("Round", [point.x for point in likelihood], whole=True)
        y = charts.numbers("Log likelihood", [point.y for point in likelihood])
        return charts.plot([charts.Line(likelihood)], x, y, "log likelihood of each round"), False
    return _over_time(of_attempt), False


def _of_rounds(rounds: Sequence[Mapping[str, Any]], name: str) -> list[charts.Point]:
    return [charts.Point(each["round"], each[name]) for each in rounds if _known(each.get("round"), each.get(name))]


def _known(*values: Any) -> bool:
    return all(isinstance(value, int | float) and math.isfinite(value) for value in values)


def _over_time(events: Sequence[JobEvent]) -> Markup | None:
    """Return how far an attempt was at what time; None where there is little to see."""
    told = [event for event in events if _known(event.data.get("progress"))]
    if len(told) < FEWEST_TOLD:
        return None
    seconds = [(event.created_at - told[0].created_at).total_seconds() for event in told]
    points = [charts.Point(at, float(event.data["progress"])) for at, event in zip(seconds, told, strict=True)]
    x = charts.numbers("Seconds", seconds, zero=True)
    return charts.plot([charts.Line(points)], x, charts.shares("Done"), "how much was done at what time")


SOMETIMES = ("encoding", "waiting_for_encoder")
"""Phases that most trainings do without."""


def _phases(job: Job, events: Sequence[JobEvent]) -> list[tuple[str, str]]:
    """Return each phase in words, with whether it is done, goes on, or is to come."""
    seen = {str(event.data.get("phase")) for event in events if event.attempt == job.attempt}
    names = [name for name in PHASES if name not in SOMETIMES or name in seen or name == job.phase]
    if job.status is JobStatus.SUCCEEDED:
        at = len(names)
    elif job.status is JobStatus.RUNNING:
        at = names.index(job.phase) if job.phase in names else 0
    else:  # it ended within the last one that it came to, or waits for its first
        at = max((place for place, name in enumerate(names) if name in seen), default=0)
    current = "now" if job.status is JobStatus.RUNNING else "next"
    return [
        (PHASES[name], "done" if place < at else current if place == at else "next") for place, name in enumerate(names)
    ]

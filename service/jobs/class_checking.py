"""What can be told of a training of several classes before a job is made, beside what `checking` says of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from service.errors import FieldError
from service.ingest.labels import number_label
from service.jobs.schemas import TrainRequest
from service.settings import Settings
from solver.choices import DEFAULT_SCHEME, MOST_CLASSES, is_of_classes
from solver.estimate import Demand
from solver.labels import folded
from solver.multiclass import ClassObjective, ClassObjectiveError, with_classes_called
from solver.refusals import KEEP_OF_SEVERAL, left_out_needed, too_few_labelled
from solver.refusals import many_classes as many_classes

HOW_TO_TELL_APART = (
    "; it names the class that is told from all others; to tell all of them apart, ask for the objective macro_f1, "
    "accuracy, or cost with `costs`"
)
"""End of an error about `positive`, where there are more labels than two."""
FEWEST = 3
MOST_TIMES_TOO_LONG = 10
"""A training that would take so many times what it may is refused: it is stopped without a model, and estimates of
seconds are right to an order of magnitude."""
OF_KEYS = ("score.", "probability.")
"""Beginnings of columns in the results of batches, which have one for each class."""


def tells_classes_apart(body: TrainRequest) -> bool:
    """Whether the objective is one of three classes and more."""
    return is_of_classes(body.objective.model_dump())


def scheme_errors(body: TrainRequest, request: dict[str, Any]) -> Iterator[FieldError]:
    """Say what of several classes does not go with the rest of a request; `request` gets its scheme."""
    of_classes = tells_classes_apart(body)
    if of_classes and body.positive is not None:
        said = f"{body.objective.kind} is of three classes and more, and `positive` makes them two"
        yield FieldError("body.objective", f"{said}: leave that out, or ask for f1, cost with two costs, or a target")
    elif not of_classes and body.scheme is not None:
        yield FieldError(
            "body.scheme",
            "is of three classes and more: their objectives are macro_f1, accuracy, cost with `costs`",
        )
    elif of_classes:
        request["scheme"] = body.scheme or DEFAULT_SCHEME
        if body.operating_point is not None and not is_of_classes(body.operating_point.model_dump()):
            yield FieldError(
                "body.operating_point", "is of two classes: of several it is macro_f1, accuracy, or cost with `costs`"
            )
        if body.labels.keep is not None:
            yield FieldError("body.labels.keep", KEEP_OF_SEVERAL)
        split = body.params.get("labeled_split", "xfit")
        if split in ("part", "full"):
            yield FieldError("body.params.labeled_split", left_out_needed(split))
        if body.key is not None and body.key.startswith(OF_KEYS):
            yield FieldError(
                "body.key", "begins like the columns that results have for each class (score., probability.)"
            )


def class_errors(
    request: dict[str, Any],
    labels: Mapping[str, int] | None,
    target: Mapping[str, Any],
    may_change: bool,
) -> Iterator[FieldError]:
    """Say, as the job would, what is wrong with the classes; `request` gets the labels of its objective as they are.

    Parameters
    ----------
    request : dict
    labels : mapping of str to int, or None
        Rows of each label; None where the profile of the data set does not list them.
    target : mapping
        Profile of the column.
    may_change : bool
        Whether rows may have other labels in the job: by feedback, or as several rows share one.
    """
    count = target.get("distinct", 0) - len(request["unlabeled"]) if labels is None else len(labels)
    too_many = many_classes(count)
    if too_many is not None:
        yield FieldError("body.target", too_many + (" (more are not counted)" if target.get("distinct_capped") else ""))
        return
    if labels is not None and len(labels) < 3:
        have = ", ".join(map(repr, labels))
        yield FieldError(
            "body.objective",
            f"is of three classes and more, and there are {len(labels)} ({have}): name one in `positive`, unless they "
            "are 0/1 or -1/+1, and ask for f1, cost with two costs, or a target",
        )
        return
    for name in ("objective", "operating_point"):
        if request.get(name) is None or not is_of_classes(request[name]):  # said by `scheme_errors`
            continue
        try:
            request[name] = with_classes_called(request[name], _caller(request, target, labels))
            objective = ClassObjective.parse(request[name])
            if labels is not None:
                objective.check_classes(list(labels))
        except ClassObjectiveError as error:
            yield FieldError(f"body.{name}", str(error))
            return
    too_few = None if labels is None or may_change else too_few_labelled(labels)
    if too_few is not None:
        yield FieldError("body.target", f"{too_few}; merge such classes, label more, or list them in `unlabeled`")


def fault_of_classes(
    estimate: Callable[..., Demand], request: Mapping[str, Any], settings: Settings
) -> FieldError | None:
    """Say that there are more classes than memory or time allow, and how many they would allow.

    Parameters
    ----------
    estimate : callable
        What the training needs; with `classes`, what it would need with so many.
    request : dict
    settings : Settings
    """
    limit, memory = MOST_TIMES_TOO_LONG * request["max_seconds"], settings.job_memory_bytes

    def fits(demand: Demand) -> bool:
        return demand.seconds <= limit and demand.least_bytes <= memory

    demand = estimate()
    if fits(demand) or not fits(estimate(classes=FEWEST)):  # then classes are not what is too many
        return None
    low, high = FEWEST, MOST_CLASSES
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(estimate(classes=middle)) else (low, middle)
    needs = (
        f"about {demand.seconds / 3600:,.1f} hours of a processor, and may take {request['max_seconds'] / 3600:,.1f}"
        if demand.seconds > limit
        else f"at least {demand.least_bytes / 2**20:,.0f} MiB, and a job may use {memory / 2**20:,.0f} MiB"
    )
    return FieldError(
        "body.target",
        f"so many classes would need {needs} ({demand.how}); about {low} classes of such rows would do, or another "
        f"scheme or algorithm: {demand.advice}",
    )


def _caller(
    request: Mapping[str, Any], target: Mapping[str, Any], labels: Mapping[str, int] | None
) -> Callable[[str], str]:
    """What spells a label of the objective as the labels of the training are spelt."""
    known = {} if labels is None else {folded(label): label for label in labels}

    def called(label: str) -> str:
        if labels is not None and label in labels:
            return label
        if target["kind"] == "number":
            written: Mapping[str, str] = target.get("written") or {}
            return written.get(number_label(label), number_label(label))
        return known.get(folded(label), label) if request["labels"]["fold"] else label

    return called

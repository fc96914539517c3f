"""Can this training succeed? What can be told from a request and the profile of its data set, before a job is made."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from service.db.tables import DatasetRow
from service.encoders.names import AUTO_ENCODER, NO_ENCODER
from service.errors import FieldError, InvalidRequest
from service.ingest.keys import inexact_key
from service.ingest.labels import BOOLEANS, composed, fault, number_label
from service.ingest.limits import MAX_DISTINCT, MAX_LISTED_VALUES, MAX_NAME_CHARACTERS
from service.ingest.options import correction
from service.ingest.threads import THREAD
from service.jobs.class_checking import (
    HOW_TO_TELL_APART,
    class_errors,
    fault_of_classes,
    scheme_errors,
    tells_classes_apart,
)
from service.jobs.schemas import TrainRequest
from service.settings import Settings
from solver.algorithms import ALGORITHMS, POSITIVES_ONLY, ParamError, validate_params
from solver.choices import FEWEST_OF_A_CLASS
from solver.estimate import Demand, estimate_classes, estimate_training
from solver.kinds import identifier_warning
from solver.labels import all_but, folded, folding, spelling_warning, unclear_labels
from solver.operating_point import Objective, ObjectiveError, check_rule
from solver.positives_only import share_below
from solver.prospects import too_few_for
from solver.refusals import (
    BINARY_LABELS,
    NO_ABSTAINING,
    many_labels,
    may_lack_negatives,
    no_unlabelled,
    one_class,
    too_few_labelled,
)

AUTO = "auto"
DENSE_FEATURES = 512
"""A matrix of at least so many features may be sparse."""
TEXT_ENTRIES = 100
"""Different words of a text, roughly."""
ENCODER_DIMENSIONS = 768
"""Numbers of a vector of an encoder that the settings say nothing of, about."""
RUN_ENTRIES = 400
"""Different runs of characters of a text, about."""
DATE_FEATURES = 8
MOST_LISTED = 20
LONGEST_LISTED = 40
"""Characters; what is longer helps nobody in an error."""
MAIL_DATE = "date"
"""Column of mails that is no feature by default."""
NO_FEATURES_OF_MAILS = {"file": "where they were kept", THREAD: "which of them belong together"}
"""Columns of mails that are never features, and what they tell."""


RESULT_COLUMNS = ("row", "label", "score", "probability")
"""Columns of the results of batches, so no name for a key, which stands beside them."""


@dataclass(frozen=True)
class CheckedTraining:
    """A request that was found good.

    Parameters
    ----------
    request : dict
        With every default filled in.
    estimate : dict
        What it will need: ``{"bytes", "seconds", "how"}``.
    warnings : list of str
        What may be meant otherwise.
    """

    request: dict[str, Any]
    estimate: dict[str, Any]
    warnings: list[str]


def check_training(
    body: TrainRequest,
    dataset: DatasetRow | None,
    settings: Settings,
    feedback_rows: int = 0,
    labels: DatasetRow | None = None,
) -> CheckedTraining:
    """Check a request against the data set that it names.

    Parameters
    ----------
    body : TrainRequest
    dataset : DatasetRow or None
    settings : Settings
    feedback_rows : int, default 0
        Rows of feedback that the training learns from, too. Those that correct a row of the data set add none, which is
        found out later: the estimate takes all of them for new.
    labels : DatasetRow, optional
        The data set that ``labels.dataset`` names, if there is one.

    Raises
    ------
    InvalidRequest
        If the training could not succeed or would not fit into the memory of a job; it names all fields at fault.
    """
    if dataset is None:
        raise InvalidRequest.of("body.dataset", "there is no such data set")
    request = body.model_dump()
    joined = _join_errors(body, request, dataset, labels)
    if joined:
        raise InvalidRequest(f"{joined[0].field}: {joined[0].message}", errors=joined)
    labels = labels or dataset
    identifiers = _identifiers(body, dataset)
    if settings.encoder_model is None and body.features.text.encoder == AUTO_ENCODER:
        del request["features"]["text"]["encoder"]  # workers of the version before read it as they always did
    if dataset.format == "mail":
        request["features"]["exclude"] += _excluded_of_mails(body, dataset)
    errors = [
        *scheme_errors(body, request),
        *_target_errors(body, request, labels, feedback_rows, dataset),
        *_column_errors(body, dataset, identifiers),
        *_key_errors(body, dataset),
        *_algorithm_errors(body, request),
        *_encoder_errors(body, settings),
    ]
    if not errors:
        errors += _unlabelled_errors(request, dataset) if labels is dataset else []
    limit = settings.job_max_seconds
    if body.max_seconds is not None and body.max_seconds > limit:
        errors.append(FieldError("body.max_seconds", f"this installation allows at most {limit:g}"))
    request["max_seconds"] = body.max_seconds if body.max_seconds is not None else limit
    if errors:
        raise InvalidRequest(f"{errors[0].field}: {errors[0].message}", errors=errors)
    estimate = _estimate(request, dataset, labels, identifiers, settings, feedback_rows)
    if request["scheme"] is not None:
        too_much = fault_of_classes(
            partial(_estimate, request, dataset, labels, identifiers, settings, feedback_rows), request, settings
        )
        if too_much is not None:
            raise InvalidRequest.of(too_much.field, too_much.message)
    if estimate.least_bytes > settings.job_memory_bytes:
        message = (
            f"the training would need at least {estimate.least_bytes / 2**20:,.0f} MiB, and a job may use "
            f"{settings.job_memory_bytes / 2**20:,.0f} MiB ({estimate.how}); what helps: {estimate.advice}"
        )
        raise InvalidRequest.of(f"body.{estimate.largest}", message)
    needed = min(estimate.bytes, settings.job_memory_bytes)  # the cache takes what there is
    said = {"bytes": needed, "seconds": round(estimate.seconds, 1), "how": estimate.how}
    warnings = [identifier_warning(name, reason) for name, reason in identifiers.items()]
    if len(warnings) > MOST_LISTED:
        warnings[MOST_LISTED:] = [f"and {len(warnings) - MOST_LISTED} more columns are left out for the same reasons"]
    if labels is not dataset and any(column["name"] == body.target for column in dataset.columns):
        warnings.append(f"column {body.target!r} of the data set is not used: the labels come from {labels.id}")
    warnings += _label_warnings(request, labels, dataset.rows)
    if not feedback_rows and (labels is dataset or not _may_repeat(body.key, dataset)):  # else there are other labels
        warnings += _too_few_for(request, labels)
    return CheckedTraining(request, said, warnings)


def _identifiers(body: TrainRequest, dataset: DatasetRow) -> dict[str, str]:
    """Return the columns that number or name the rows and that the request does not speak of, as the job will."""
    features = body.features
    spoken_of = {body.target, body.key, *(features.include or ()), *features.exclude, *features.kinds}
    found = {column["name"]: column.get("identifier") for column in dataset.columns}
    for column in dataset.columns:
        found |= column.get("identifiers") or {}
    return {name: reason for name, reason in found.items() if reason is not None and name not in spoken_of}


def _join_errors(
    body: TrainRequest, request: dict[str, Any], dataset: DatasetRow, labels: DatasetRow | None
) -> list[FieldError]:
    """Say why the rows cannot have the labels of another data set; `request` gets the name of its column of keys."""
    if body.labels.dataset is None:
        return [] if body.labels.key is None else [FieldError("body.labels.key", "needs `labels.dataset`")]
    if labels is None:
        return [FieldError("body.labels.dataset", "there is no such data set")]
    if labels.id == dataset.id:
        return [
            FieldError("body.labels.dataset", "is the data set of the rows; leave it out where they have the labels")
        ]
    for where, each in (("body.dataset", dataset), ("body.labels.dataset", labels)):
        if each.layout != "table":
            said = "holds sparse rows, which have no column of keys; labels of another data set are joined by keys"
            return [FieldError(where, said)]
    if body.key is None:
        return [FieldError("body.key", "is required with `labels.dataset`: the column by which rows find their labels")]
    key = request["labels"]["key"] = body.labels.key or body.key
    names = [column["name"] for column in labels.columns if column["kind"] != "vector"]
    if key not in names:
        return [FieldError("body.labels.key", f"{key!r}: {_no_such_column(key, labels)}{_listed(names)}")]
    if key == body.target:
        return [FieldError("body.labels.key", "is the target; name the column that has the keys")]
    if _is_inexact_key(key, labels):
        return [FieldError("body.labels.key", inexact_key(key))]
    return []


def _may_repeat(key: str | None, dataset: DatasetRow) -> bool:
    """Tell whether several rows may have the same key, as far as the profile says."""
    column: Mapping[str, Any] = next((column for column in dataset.columns if column["name"] == key), {})
    distinct = column.get("distinct")
    return distinct is None or column.get("distinct_capped", False) or distinct < dataset.rows - column["missing"]


def _is_inexact_key(key: str, dataset: DatasetRow) -> bool:
    """Tell whether a column holds numbers that are not whole, as far as its profile says."""
    column = next(column for column in dataset.columns if column["name"] == key)
    return any(column.get(bound) is not None and column[bound] % 1 for bound in ("min", "max"))


def _target_errors(
    body: TrainRequest, request: dict[str, Any], dataset: DatasetRow, feedback_rows: int, of_rows: DatasetRow
) -> Iterator[FieldError]:
    """Look at target and labels; labels that are numbers get their shortest spelling in `request`.

    `dataset` is the one that has the labels; `of_rows` that of the rows, of which several may share a label where it is
    another one.
    """
    may_repeat = of_rows is not dataset and _may_repeat(body.key, of_rows)
    targets = {
        column["name"]: _as_labels(column) for column in dataset.columns if column["kind"] not in ("features", "vector")
    }
    target = targets.get(body.target)
    if target is None:
        missing = _no_such_column(body.target, dataset)
        yield FieldError("body.target", missing + ("" if body.target in dataset.left_out else _listed(list(targets))))
        return
    wrong = None if body.positive is None else fault(body.positive)
    if wrong is not None:
        yield FieldError("body.positive", f"{wrong}, which no label may have")
        return
    wrong = _fault_of_labels(target)
    if wrong is not None:
        yield FieldError("body.target", f"one of its labels {wrong}; is target the right column?")
        return
    of_classes = tells_classes_apart(body)
    if body.positive is None and not of_classes and not _may_be_plain_labels(target, body.unlabeled):
        found = _labels(target, body.unlabeled) or {}
        several = HOW_TO_TELL_APART if len(found) > 2 else ""
        yield FieldError(
            "body.positive", f"is required unless the labels are 0 and 1 or -1 and +1{_listed(list(found))}{several}"
        )
        return
    target = _as_called(target, body, request)
    positive = request["positive"]
    fold = request["labels"]["fold"]
    named = {name: {folded(label) if fold else label for label in request[name]} for name in ("unlabeled", "negative")}
    same = folded(positive) if fold and positive is not None else positive
    twice = [name for name in named if same in named[name]]
    unclear = _unclear_labels(target, request)
    if twice:
        how = "" if positive in request[twice[0]] else ", in other capitals or with other blanks (labels.fold is true)"
        yield FieldError("body.positive", f"is also listed in `{twice[0]}`{how}")
    elif named["negative"] & named["unlabeled"]:
        how = "" if {*request["negative"]} & {*request["unlabeled"]} else ", as labels.fold makes them one"
        yield FieldError("body.negative", f"names a label that is also listed in `unlabeled`{how}")
    elif unclear is not None:
        yield FieldError("body.target", unclear)
    elif positive is not None and not _may_occur(positive, target):
        have = _labels(target, request["unlabeled"]) or {}
        near = [label for label in have if folded(label) == folded(positive)]
        meant = f"; {near[0]!r} differs from it in capitals or blanks only" if near else ""
        said = _words_gone(target) or meant or _listed(list(have)) or _why_number(target)
        yield FieldError("body.positive", "no row of the target column has this label" + said)
    elif of_classes and positive is None:
        labels = _labels(target, request["unlabeled"])
        yield from class_errors(request, labels, target, bool(feedback_rows) or may_repeat)
    else:
        labels = _labels(target, request["unlabeled"])
        keep = request["labels"]["keep"]
        if labels is not None and len(labels) < 2:
            yield from _lone_errors(labels, request, None if may_repeat else of_rows.rows, _words_gone(target))
        elif labels is not None and keep is not None and keep > sum(labels.values()) and not may_repeat:
            yield FieldError("body.labels.keep", f"there are {sum(labels.values())} labels")
        elif labels is not None and not feedback_rows and not may_repeat:  # feedback may correct labels
            some = of_rows.rows > sum(labels.values())
            yield from _class_errors(labels, positive, lacks=some and may_lack_negatives(request["algorithm"]))


def _as_called(target: Mapping[str, Any], body: TrainRequest, request: dict[str, Any]) -> Mapping[str, Any]:
    """Return the profile of the target with its labels as the training will call them; so does `request`, then."""
    if target["kind"] == "number":
        # Labels that are numbers are known by their shortest spelling, whatever stands in the file: 1 for 1.0. Those
        # with a unit or a comma are known as they stand there: 10% for 10.
        written = target.get("written") or {}

        def known(label: str) -> str:
            return label if label in written.values() else written.get(number_label(label), number_label(label))

        request["unlabeled"] = list(map(known, body.unlabeled))
        request["negative"] = list(map(known, body.negative))
        request["positive"] = None if body.positive is None else known(body.positive)
    elif _are_folded_booleans(target, [*body.unlabeled, *body.negative, body.positive or ""]):
        request["labels"]["fold"] = True  # they are called as the request calls them
    target = _folded(target, request)
    if request["positive"] is not None and not _may_occur(request["positive"], target):
        # Digits beside words are texts; 1.0 and true mean the 1 among them.
        plain = number_label(request["positive"])
        request["positive"] = plain if _may_occur(plain, target) else request["positive"]
    return target


def _encoder_errors(body: TrainRequest, settings: Settings) -> Iterator[FieldError]:
    """Say what is wrong with what texts are to become."""
    text, there = body.features.text, settings.encoder_model
    if text.encoder not in (AUTO_ENCODER, *NO_ENCODER, there):
        has = "it has none" if there is None else f"it has {there!r}"
        yield FieldError(
            "body.features.text.encoder",
            f"this installation has no encoder of that name: {has}; say auto to take what there is, or words",
        )
    elif text.words == text.characters == 0 and (text.encoder in NO_ENCODER or there is None):
        yield FieldError(
            "body.features.text.words", "without words and characters there must be an encoder, and there is none"
        )


def _target_of(request: Mapping[str, Any], dataset: DatasetRow) -> Mapping[str, Any]:
    """Return the profile of the target with its labels as the training will call them."""
    column = next(column for column in dataset.columns if column["name"] == request["target"])
    return _folded(_as_labels(column), request)


def _as_labels(column: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the profile of a column with its values as they are called as labels: ``10%`` rather than 10."""
    written = column.get("written")
    if not written:
        return column
    return {**column, "values": {written.get(value, value): n for value, n in (column.get("values") or {}).items()}}


def _are_folded_booleans(target: Mapping[str, Any], wanted: Sequence[str]) -> bool:
    """Tell whether labels are asked for in capitals that an upload has made one spelling of: ``Yes`` for yes."""
    values = {*(target.get("values") or ())}
    return any(values <= {*words} for words in BOOLEANS) and any(
        label not in values and label.lower() in values for label in wanted
    )


def _why_number(target: Mapping[str, Any]) -> str:
    """Say that the labels are numbers, for the end of an error, where the profile does not list them."""
    if target["kind"] != "number" or target.get("values") is not None:
        return ""
    return f"; the column is read as numbers: if its values are names, {correction(target['name'], 'category')}"


def _folded(target: Mapping[str, Any], request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the profile of the target with one spelling of each label, where the request asks for that."""
    values: dict[str, int] | None = target.get("values")
    if values is None or not request["labels"]["fold"]:
        return target
    positive = [] if request["positive"] is None else [request["positive"]]
    counts: Counter[str] = Counter()
    for value, count in values.items():
        counts[composed(value)] += count
    chosen = folding(counts, [*request["negative"], *request["unlabeled"], *positive])
    merged: Counter[str] = Counter()
    for label, count in counts.items():
        merged[chosen[folded(label)]] += count
    return {**target, "values": dict(merged)}


def _unclear_labels(target: Mapping[str, Any], request: Mapping[str, Any]) -> str | None:
    """Say, as the job would, that labels may mean 'not known', as far as the profile lists them."""
    labels = _labels(target, [])
    if labels is None:
        return None
    return unclear_labels(labels, request["positive"], request["unlabeled"], request["negative"])


def _lone_errors(
    labels: Mapping[str, int], request: Mapping[str, Any], rows: int | None, words_gone: str
) -> Iterator[FieldError]:
    """Say, as the job would, why labels of one class are not enough, or none; `rows` are all, None if not known."""
    if not labels:
        yield FieldError("body.target", f"no row has a label{words_gone}")
        return
    [(label, count)] = labels.items()
    wrong = one_class(label, request["positive"], request["algorithm"], None if rows is None else rows - count)
    if wrong is not None:
        yield FieldError("body.target", wrong + words_gone)
    elif rows is not None and count < FEWEST_OF_A_CLASS:
        yield FieldError("body.positive", too_few_labelled({label: count}) or "")
    elif request["labels"]["keep"] is not None:
        yield FieldError("body.labels.keep", f"needs labels of two classes, and all are {label!r}")
    elif request["objective"].get("abstain") is not None:
        yield FieldError("body.objective.abstain", NO_ABSTAINING)


def _class_errors(labels: Mapping[str, int], positive: str | None, *, lacks: bool) -> Iterator[FieldError]:
    """Say, as the job would, that a class has too few labelled rows; if it `lacks` them, negative ones may be few."""
    if positive is None:
        # Of 0 and 1, or -1 and +1, the negative one comes first.
        counts = next(
            ({label: labels[label] for label in plain} for plain in BINARY_LABELS if labels.keys() == plain.keys()),
            None,
        )
        if counts is None:
            return
    else:
        others = [label for label in labels if label != positive]
        negative = others[0] if len(others) == 1 else all_but(positive)
        counts = {negative: sum(labels[label] for label in others), positive: labels.get(positive, 0)}
    *negatives, wanted = counts
    if lacks and sum(counts[label] for label in negatives) < FEWEST_OF_A_CLASS:
        counts = {wanted: counts[wanted]}
    too_few = too_few_labelled(counts)
    if too_few is not None:
        is_positive = positive is not None and counts[positive] < FEWEST_OF_A_CLASS
        yield FieldError("body.positive" if is_positive else "body.target", too_few)


def _unlabelled_errors(request: dict[str, Any], dataset: DatasetRow) -> list[FieldError]:
    """Say, as the job would, that a method that learns from unlabelled rows has none, where the profile tells."""
    name = request["algorithm"]
    if not ALGORITHMS[name].needs_unlabelled:
        return []
    target = next(column for column in dataset.columns if column["name"] == request["target"])
    labels = _labels(target, request["unlabeled"])
    if labels is not None:
        some = sum(labels.values()) < dataset.rows
    else:  # only of numbers is it sure that none is blank
        some = bool(request["unlabeled"]) or target["kind"] != "number" or target.get("missing", 1) > 0
    return [] if some else [FieldError("body.algorithm", no_unlabelled(name))]


def _label_warnings(request: dict[str, Any], dataset: DatasetRow, rows: int) -> list[str]:
    """Say that there are more labels than two, as the report of the training will; the profile may not list them.

    `dataset` is the one that has the labels; `rows` are those of the training.
    """
    positive = request["positive"]
    target = _target_of(request, dataset)
    labels = _labels(target, request["unlabeled"])
    said = None if labels is None else spelling_warning(list(labels))
    return [
        *_many_labels(positive, labels, target, request),
        *([] if said is None else [said]),
        *([] if labels is None or len(labels) != 1 else _lone_warnings(request, rows, sum(labels.values()))),
    ]


def _too_few_for(request: Mapping[str, Any], dataset: DatasetRow) -> list[str]:
    """Say that the labels are too few for the target to be promised, as far as the profile lists them."""
    counts = _labels(_target_of(request, dataset), request["unlabeled"])
    if counts is None or len(counts) < 2 or request["scheme"] is not None or request["labels"]["keep"] is not None:
        return []
    plain = next((labels for labels in BINARY_LABELS if labels.keys() == counts.keys()), {})
    positive = request["positive"] or next((label for label, code in plain.items() if code == 1), "")
    positives = counts.get(positive, 0)
    negatives = sum(counts.values()) - positives
    if min(positives, negatives) < FEWEST_OF_A_CLASS:  # then positive rows alone measure, in another way
        return []
    objective = Objective.parse(request["objective"])
    held_out = 0.0 if request["refit"] else request["test_fraction"]  # what is refitted promises by all of them
    said = too_few_for(objective, positive, positives, negatives, held_out)
    return [] if said is None else [said]


def _lone_warnings(request: Mapping[str, Any], rows: int, labelled: int) -> list[str]:
    """Say what a training without negative rows can tell, and what a share may have been meant as."""
    share = request["params"]["positive_share"]
    known = "given as positive_share" if share is not None else "estimated, unless positive_share says it"
    said = [
        "no negative row is labelled: the recall is measured on positive rows that are left out, and all else follows "
        f"from it with the share of positives among the unlabelled rows ({known}); nothing is proven but by an audit"
    ]
    if share is not None and share < labelled / rows:
        said.append(share_below(share))
    return said


def _many_labels(
    positive: str | None, labels: Mapping[str, int] | None, target: Mapping[str, Any], request: Mapping[str, Any]
) -> list[str]:
    distinct = target.get("distinct", 0) if labels is None else len(labels)
    if positive is None or distinct <= 2 or request["negative"]:
        return []
    if labels is not None:
        return [many_labels(positive, sorted(label for label in labels if label != positive))]
    counted = f"more than {MAX_DISTINCT - 1}" if target.get("distinct_capped") else distinct
    return [f"{counted} different labels: {positive!r} is told from all others together"]


def _words_gone(target: Mapping[str, Any]) -> str:
    """Return, for the end of an error, that words for a missing value were no labels in a column of numbers, if any."""
    words: Mapping[str, int] = target.get("missing_words") or {}
    if not words:
        return ""
    counted = ", ".join(f"{count} times {word!r}" for word, count in list(words.items())[:MOST_LISTED])
    return (
        f"; {counted} count as missing in a column of numbers: if that is a label, make the column a category "
        f"({correction(target['name'], 'category')}) and name it in `negative` or `positive`"
    )


def _listed(names: Sequence[str]) -> str:
    """Return what there is, for the end of an error: of many the first and the last, where targets are."""
    half = MOST_LISTED // 2
    shown = names if len(names) <= MOST_LISTED else [*names[:half], *names[-half:]]
    if not shown or max(map(len, shown)) > LONGEST_LISTED:
        return ""
    quoted = list(map(repr, shown))
    if len(names) > MOST_LISTED:
        quoted.insert(half, "…")
    return f"; there are {', '.join(quoted)}"


def _labels(target: Mapping[str, Any], unlabeled: Sequence[str]) -> dict[str, int] | None:
    """Return how many rows have each label, if the profile lists them."""
    values: dict[str, int] | None = target.get("values")
    if values is None:
        return None
    labels: Counter[str] = Counter()
    for value, count in values.items():  # as they stand in the file
        label = composed(value)
        if label.strip() and label not in unlabeled:
            labels[label] += count
    return labels


def _fault_of_labels(target: Mapping[str, Any]) -> str | None:
    """Say why the values of a column cannot be labels, as far as its profile tells."""
    values: dict[str, int] | None = target.get("values")
    if values is not None:
        return next((wrong for value in values if (wrong := fault(composed(value))) is not None), None)
    # So few are listed, unless one of them is too long for that.
    too_long = target["kind"] != "number" and target.get("distinct", MAX_DISTINCT) <= MAX_LISTED_VALUES
    return f"has over {MAX_NAME_CHARACTERS} characters" if too_long else None


def _may_occur(label: str, target: Mapping[str, Any]) -> bool:
    """Tell whether a label may stand in the column, as far as its profile says."""
    if target.get("values") is not None:
        return label in map(composed, target["values"])
    if target["kind"] != "number" or target.get("min") is None:
        return True
    try:
        return bool(target["min"] <= float(label) <= target["max"])
    except ValueError:
        return False


def _column_errors(body: TrainRequest, dataset: DatasetRow, identifiers: Mapping[str, str]) -> list[FieldError]:
    errors = []
    names = {column["name"] for column in dataset.columns}
    vectors = {column["name"] for column in dataset.columns if column["kind"] == "vector"}
    numbered = dataset.layout == "matrix"  # its columns have numbers, which are not listed
    for part, chosen in (("include", body.features.include or []), ("exclude", body.features.exclude)):
        for position, name in enumerate(chosen):
            if not (name.isascii() and name.isdigit() if numbered else name in names):
                errors.append(FieldError(f"body.features.{part}.{position}", _no_such_column(name, dataset)))
    for name, kind in body.features.kinds.items():
        if not (name.isascii() and name.isdigit() if numbered else name in names):
            errors.append(FieldError(f"body.features.kinds.{name}", _no_such_column(name, dataset)))
        elif name in vectors:
            errors.append(FieldError(f"body.features.kinds.{name}", "the column holds vectors, and is nothing else"))
        elif numbered and kind != "number":
            errors.append(FieldError(f"body.features.kinds.{name}", "columns of sparse rows hold numbers: say number"))
    if dataset.format == "mail":
        named = {*(body.features.include or ()), *body.features.kinds}
        errors += [
            FieldError("body.features", f"{name!r} of mails tells {what}; it is no feature")
            for name, what in NO_FEATURES_OF_MAILS.items()
            if name in named
        ]
    if body.target in (body.features.include or []):
        errors.append(FieldError("body.features.include", "the target cannot be a feature"))
    kept = set(body.features.include or names) - {*body.features.exclude, body.target, body.key}
    if not numbered and not errors and not kept - identifiers.keys():
        message = "leave no column to learn from"
        if kept:
            message += "; " + "; ".join(identifier_warning(name, identifiers[name]) for name in sorted(kept)[:3])
        errors.append(FieldError("body.features", message))
    return errors


def _no_such_column(name: str, dataset: DatasetRow) -> str:
    """Say that a data set lacks a column, and why, if the file had it."""
    if any(column["name"] == name for column in dataset.columns):
        return "the column holds vectors, which are neither labels nor keys"
    if name in dataset.left_out:
        return f"the column was left out of the data set when the file was read: {dataset.left_out[name]}"
    return "the data set has no such column"


def _key_errors(body: TrainRequest, dataset: DatasetRow) -> list[FieldError]:
    """Say why the column that shall name the rows cannot."""
    key = body.key
    if key is None:
        return []
    names = [column["name"] for column in dataset.columns if column["kind"] not in ("features", "vector")]
    if key not in names:
        return [FieldError("body.key", _no_such_column(key, dataset) + _listed(names))]
    if key == body.target:
        return [FieldError("body.key", "is the target; name the column that tells the rows apart")]
    if key in RESULT_COLUMNS:
        taken = ", ".join(RESULT_COLUMNS)
        return [FieldError("body.key", f"cannot be one of {taken}, which results have; upload it under another name")]
    if _is_inexact_key(key, dataset):
        return [FieldError("body.key", inexact_key(key))]
    if key in {*(body.features.include or ()), *body.features.kinds}:
        return [FieldError("body.features", f"{key!r} is the key, which is never a feature")]
    return []


def _excluded_of_mails(body: TrainRequest, dataset: DatasetRow) -> list[str]:
    """Return the date, unless somebody asks for it, the file and the thread.

    Collections of spam and of other mails are rarely of one time; and names of files tell who kept a mail, and where.
    """
    there = {column["name"] for column in dataset.columns}
    excluded = [name for name in NO_FEATURES_OF_MAILS if name in there]
    named = {*body.features.kinds, *body.features.exclude, body.target}
    if body.features.include is None and MAIL_DATE not in named:
        excluded.append(MAIL_DATE)
    return [name for name in excluded if name not in {*body.features.exclude, body.target}]


def _algorithm_errors(body: TrainRequest, request: dict[str, Any]) -> list[FieldError]:
    if body.algorithm not in ALGORITHMS:
        return [FieldError("body.algorithm", f"should be one of {', '.join(ALGORITHMS)}")]
    try:
        request["params"] = validate_params(body.algorithm, body.params)
    except ParamError as error:
        return [FieldError(f"body.params.{error.name}", str(error))]
    try:
        if request["operating_point"] is not None and not tells_classes_apart(body):
            Objective.parse(request["operating_point"])
    except ObjectiveError as error:
        return [FieldError("body.operating_point", str(error))]
    if tells_classes_apart(body):  # whose problems of two have F1
        return []
    try:
        check_rule(request["params"]["threshold_rule"], Objective.parse(request["objective"]))
    except ObjectiveError as error:
        return [FieldError("body.objective", str(error))]
    except ValueError as error:
        return [FieldError("body.params.threshold_rule", str(error))]
    return []


def _may_be_plain_labels(target: Mapping[str, Any], unlabeled: Sequence[str]) -> bool:
    """Tell whether the labels may be 0/1 or -1/+1, which need no word on what is positive. Training knows for sure."""
    labels = _labels(target, [*unlabeled, *map(number_label, unlabeled)])
    if labels is not None:
        return any(labels.keys() <= plain.keys() for plain in BINARY_LABELS)
    if target["kind"] == "number":
        return target.get("min") in (-1, 0) and target.get("max") == 1
    # Digits beside a mark for "not known", such as "?", make a column of text.
    return bool(unlabeled) or target.get("plus_minus_one", False)


def _estimate(
    request: dict[str, Any],
    dataset: DatasetRow,
    labelling: DatasetRow,
    identifiers: Mapping[str, str],
    settings: Settings,
    feedback_rows: int,
    classes: int | None = None,
) -> Demand:
    """What a training will need; of several classes also of fewer ones than there are, `classes`."""
    memory_bytes = settings.job_memory_bytes
    is_encoded = settings.encoder_model is not None and request["features"]["text"].get("encoder") not in NO_ENCODER
    dimensions = (settings.encoder_dimensions or ENCODER_DIMENSIONS) if is_encoded else 0
    target = _target_of(request, labelling)
    labels = _labels(target, request["unlabeled"])
    labelled = labelling.rows - target.get("missing", 0) if labels is None else sum(labels.values())
    labelled = min(labelled, dataset.rows)
    labelled = min(labelled, request["labels"]["keep"] or labelled)
    algorithm = request["algorithm"]
    given = request["params"]
    if labels is not None and len(labels) == 1 and algorithm == AUTO:
        algorithm = POSITIVES_ONLY
        given = {name: value for name, value in given.items() if name in ALGORITHMS[algorithm].defaults} | {
            "mode": "safe"
        }
    rows = max(1, dataset.rows + feedback_rows)
    features, size = _feature_matrix(request, dataset, identifiers, rows, dimensions)
    params = validate_params(algorithm, given)
    if params["kernel"] == AUTO:
        params["kernel"] = "linear" if _has_text(request, dataset, identifiers) else "rbf"
    of_classes = request["scheme"] is not None
    demand: Callable[..., Demand] = estimate_training
    if of_classes:
        distinct = target.get("distinct", 3) if labels is None else len(labels)
        demand = partial(estimate_classes, classes=classes or max(3, distinct), scheme=request["scheme"])
    return demand(
        rows=rows,
        labelled=labelled + feedback_rows,
        features=features,
        matrix_bytes=size,
        algorithm=algorithm,
        params=params,
        fits=2 if request["refit"] and request["test_fraction"] > 0 else 1,
        memory_bytes=memory_bytes,
        max_seconds=request["max_seconds"],
    )


def _has_text(request: dict[str, Any], dataset: DatasetRow, identifiers: Mapping[str, str]) -> bool:
    """Tell whether free text is among the features, as far as the profile says."""
    features = request["features"]
    kinds = {column["name"]: column["kind"] for column in dataset.columns} | features["kinds"]
    chosen = set(kinds if features["include"] is None else features["include"]) - {
        *features["exclude"],
        *identifiers,
        request["target"],
        request["key"],
    }
    return any(kinds.get(name) == "text" for name in chosen)


def _feature_matrix(
    request: dict[str, Any], dataset: DatasetRow, identifiers: Mapping[str, str], rows: int, dimensions: int
) -> tuple[int, int]:
    """Return columns and bytes of the feature matrix of so many rows like those of the data set, about.

    Each text is encoded as so many `dimensions`.
    """
    included = request["features"]["include"]
    chosen = None if included is None else set(included)  # of up to 10,000 names, asked for each column
    excluded = {*request["features"]["exclude"], *identifiers, request["target"], request["key"]}
    width = entries_a_row = entries = 0
    of_text = TEXT_ENTRIES + (RUN_ENTRIES if request["features"]["text"]["characters"] else 0)
    for column in dataset.columns:
        if column["kind"] == "features":  # the sparse matrix of a `matrix` layout
            share = 1.0 if chosen is None else min(1.0, len(chosen) / max(1, column["count"]))
            width += math.ceil(share * column["count"])
            entries += math.ceil(share * column["nonzeros"] * rows / max(1, dataset.rows))
        elif column["name"] not in excluded and (chosen is None or column["name"] in chosen):
            kind = request["features"]["kinds"].get(column["name"], column["kind"])
            wide = column.get("distinct") or column.get("length") or 1
            width += {"number": 1, "date": DATE_FEATURES}.get(kind, wide)
            entries_a_row += {"number": 1, "date": DATE_FEATURES, "category": 1, "vector": wide}.get(kind, of_text)
            width, entries_a_row = width + dimensions * (kind == "text"), entries_a_row + dimensions * (kind == "text")
    entries += entries_a_row * rows
    sparse = dataset.layout == "matrix" or width >= DENSE_FEATURES
    return max(1, width), min(12 * entries, 8 * width * rows) if sparse else 8 * width * rows

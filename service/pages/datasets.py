"""Data sets: the list, with a form for a new one, and what is in one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as PathParameter
from markupsafe import Markup
from pydantic import TypeAdapter, ValidationError

from service import charts
from service.api.access import Reader, Writer
from service.api.json_body import until_gone
from service.api.parameters import CursorText
from service.datasets.example import truth_of
from service.datasets.schemas import Column, Dataset
from service.errors import InvalidRequest, Problem
from service.ingest.options import ENCODINGS, FORMATS, Kind
from service.locales import localized
from service.pages.advice import on_page_of_data_set
from service.pages.forms import BUTTON, NO_QUOTE, OPTIONS, Written, WrittenFile
from service.pages.room import Room
from service.pages.services import Services
from service.shown_text import MOST_CHARACTERS, number

ROWS, MORE_ROWS = 25, 50
"""Of a data set on a page, and of what a page asks for while somebody scrolls."""
MOST_OF_A_CELL = 200
"""Characters that are read of a value in a table."""
MOST_COLUMNS = 40
"""Of a data set on a page; of more there are the first ones."""
MOST_OF_A_VALUE = MOST_CHARACTERS + 1
"""Likewise, of a row by itself: one more than is shown, which tells that it goes on."""
OF_A_MAIL = ("from", "to", "date", "subject", "body")
"""Columns of mails, as they are read of an archive or mailbox."""
ON_A_LIST = 30
MOST_VALUES = 4
"""Of a column, named beside it."""
FIRST_ENCODINGS = {"cp1252": "cp1252 (Windows, western Europe)", "cp1250": "cp1250 (Windows, central Europe)"}
"""What files that are not UTF-8 most often are: first in the menu."""
OTHER_ENCODINGS = sorted(ENCODINGS - FIRST_ENCODINGS.keys() - {"utf-8", "ascii"})
DELIMITERS = {";": "semicolon ;", ",": "comma ,", "\\t": "tab", "|": "bar |", " ": "blank"}
THOUSANDS = {",": "comma 1,234", ".": "point 1.234", " ": "blank 1 234", "'": "apostrophe 1'234"}
"""By what the options say."""
EXAMPLE_ASKS = {"positive": "malignant", "objective": "precision", "precision": "75", "alias": "tumours"}
"""What the form of a training begins with on the example: a target that some dozens of checked rows can prove."""
KINDS: TypeAdapter[Kind] = TypeAdapter(Kind)
FirstRow = Annotated[int, Query(alias="from", ge=0, lt=2**63)]
RowNumber = Annotated[int, PathParameter(ge=0, lt=2**63)]
FirstColumn = Annotated[int, Query(alias="columns", ge=0, le=1_000_000_000)]


@dataclass(frozen=True)
class ShownColumn:
    """A column with a picture of what is in it."""

    column: Column
    picture: Markup | None
    told: str
    """What is in it, in words."""
    warnings: Sequence[str]


def add_datasets(router: APIRouter, room: Room, services: Services) -> None:
    """Add the pages of data sets."""
    _add_list(router, room, services)
    _add_one(router, room, services)
    _add_rows(router, room, services)
    _add_changes(router, room, services)


def _add_list(router: APIRouter, room: Room, services: Services) -> None:
    def show(request: Request, project: str, cursor: str | None, wrong: Problem | None = None) -> Response:
        page = services.datasets.list(project, cursor, ON_A_LIST)
        status = 200 if wrong is None else wrong.status
        shown = {
            **{"datasets": page.items, "cursor": cursor, "next_cursor": page.next_cursor, "wrong": wrong},
            **{"formats": list(FORMATS), "delimiters": DELIMITERS.items(), "thousands": THOUSANDS.items()},
            "encodings": [*FIRST_ENCODINGS.items(), *((each, each) for each in OTHER_ENCODINGS)],
            "option": None if wrong is None else _named_option(wrong),
            "no_quote": NO_QUOTE,
        }
        return room.page(request.scope, "datasets.html", status, title="Data", **shown)

    @router.get("/ui/datasets")
    def list_(request: Request, caller: Reader, cursor: CursorText = None) -> Response:
        return show(request, caller.project_id, cursor)

    @router.post("/ui/datasets")
    async def upload(request: Request, caller: Writer, file: WrittenFile) -> Response:
        try:
            dataset = await services.datasets.create(caller.project_id, file, None, until_gone(request))
        except Problem as problem:
            if problem.type == "form-token-needed":
                raise
            return show(request, caller.project_id, None, problem)
        return room.redirect(request.scope, f"/ui/datasets/{dataset.id}")


def _named_option(wrong: Problem) -> str | None:
    """Return the field of the form by which the file could be read; None where none is named."""
    if any(error.field.endswith(".format") for error in wrong.errors):
        return "format"
    return next((name for name in OPTIONS if f"option {name}" in wrong.detail), None)


def _add_one(router: APIRouter, room: Room, services: Services) -> None:
    @router.get("/ui/datasets/{dataset_id}")
    def show(
        request: Request,
        caller: Reader,
        dataset_id: str,
        first: FirstRow = 0,
        first_column: FirstColumn = 0,
        part: str = "",
    ) -> Response:
        project = caller.project_id
        dataset = services.datasets.get(project, dataset_id, first_column, MOST_COLUMNS)
        if not dataset.columns and dataset.column_count:  # beyond the last one
            first_column = dataset.column_count - 1
            dataset = services.datasets.get(project, dataset_id, first_column, MOST_COLUMNS)
        columns = dataset.columns
        names = [column.name for column in columns] if dataset.layout == "table" else []
        first = max(0, min(first, dataset.rows - 1))
        if part == "rows":  # for who scrolls through them
            rows = services.looking.rows(project, dataset_id, first, MORE_ROWS, MOST_OF_A_CELL, names)
            return room.page(request.scope, "rows.html", dataset=dataset, rows=rows, names=names)
        all_names = services.datasets.column_names(project, dataset_id) if dataset.warnings else ()
        rows = services.looking.rows(project, dataset_id, first, ROWS, MOST_OF_A_CELL, names)
        spread = services.looking.histograms(project, dataset_id, names) if names else None
        counts = {} if spread is None else {each.column: each.counts for each in spread.columns}
        return room.page(
            request.scope,
            "dataset.html",
            title=dataset.name,
            dataset=dataset,
            columns=list(_shown(dataset, columns, counts)),
            first_column=first_column,
            most_columns=MOST_COLUMNS,
            rows=rows,
            names=names,
            kinds=("number", "category", "text", "date"),
            sample=0 if spread is None else spread.rows,
            other_warnings=_of_no_column(dataset.warnings, all_names),
            example_asks={} if truth_of(dataset) is None else EXAMPLE_ASKS,
        )


def _add_rows(router: APIRouter, room: Room, services: Services) -> None:
    @router.get("/ui/datasets/{dataset_id}/rows/{number}")
    def one(request: Request, caller: Reader, dataset_id: str, number: RowNumber) -> Response:
        project = caller.project_id
        dataset = services.datasets.get(project, dataset_id)
        if number >= dataset.rows:
            raise InvalidRequest.of("path.number", f"the data set has {dataset.rows:,} rows, with the numbers from 0")
        names = [column.name for column in dataset.columns] if dataset.layout == "table" else []
        rows = services.looking.rows(project, dataset_id, number, 1, MOST_OF_A_VALUE, names)
        return room.page(
            request.scope,
            "row.html",
            title=f"Row {localized(format(number, ','))} of {dataset.name}",
            dataset=dataset,
            number=number,
            content=rows.items[0],
            is_mail=set(OF_A_MAIL) <= set(names),
            of_a_mail=OF_A_MAIL,
        )


def _add_changes(router: APIRouter, room: Room, services: Services) -> None:
    @router.post("/ui/datasets/{dataset_id}/kinds")
    async def correct(request: Request, caller: Writer, dataset_id: str, form: Written) -> Response:
        try:
            kinds: dict[str, Kind] = {form.exact("column"): KINDS.validate_python(form.text("kind"))}
        except ValidationError:
            raise InvalidRequest.of("form.kind", "should be number, category, text or date") from None
        await services.datasets.correct(caller.project_id, dataset_id, kinds)
        return room.redirect(request.scope, f"/ui/datasets/{dataset_id}")

    @router.post("/ui/datasets/{dataset_id}/delete", dependencies=[BUTTON])
    def delete(request: Request, caller: Writer, dataset_id: str) -> Response:
        services.datasets.delete(caller.project_id, dataset_id)
        return room.redirect(request.scope, "/ui/datasets")


def _shown(dataset: Dataset, columns: Sequence[Column], counts: Mapping[str, Sequence[int]]) -> Iterator[ShownColumn]:
    for column in columns:
        picture = None
        if column.name in counts:
            picture = charts.histogram(counts[column.name])
        elif column.values:
            picture = charts.histogram(sorted(column.values.values(), reverse=True))
        # why it is left out of trainings stands in the words of the page beside it
        twice = f"column {column.name!r} {column.identifier}:"
        warnings = [each for each in dataset.warnings if _is_of(column.name, each) and not each.startswith(twice)]
        yield ShownColumn(column, picture, _told(column), list(map(on_page_of_data_set, warnings)))


def _told(column: Column) -> str:
    """Say what is in a column: its most frequent values, or its ends."""
    if column.values and column.kind != "number":
        most = sorted(column.values.items(), key=lambda item: -item[1])
        told = ", ".join(f"{value[:30]} ({number(count)})" for value, count in most[:MOST_VALUES])
        return told + (", …" if len(most) > MOST_VALUES else "")
    if column.norm_min is not None and column.norm_max is not None:
        return f"vectors from {number(column.norm_min)} to {number(column.norm_max)} long"
    ends: tuple[Any, Any] = (column.earliest, column.latest)
    if column.min is not None and column.max is not None:
        ends = (localized(f"{column.min:.6g}"), localized(f"{column.max:.6g}"))
    return "" if ends[0] is None else f"{ends[0]} … {ends[1]}"


def _is_of(column: str, warning: str) -> bool:
    """Tell whether a warning is about a column: they name it as Python writes a text."""
    return repr(column) in warning


def _of_no_column(warnings: Sequence[str], columns: Sequence[str]) -> list[str]:
    return [each for each in warnings if not any(_is_of(column, each) for column in columns)]

"""Format → reader. Runs in the child process only."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from service.ingest.limits import Limits
from service.ingest.options import DelimitedOptions, Format, SheetOptions, SvmlightOptions, TableOptions, parse_options
from service.ingest.profile import Columnar

LABELS: Mapping[Format, str] = {"svmlight": "label", "npz": "y", "mail": "label"}
"""Columns that hold the labels whatever the file is; of other formats nobody knows before a training says it."""
MAX_THREADS = 4
MAX_WARNINGS = 100


def read_upload(
    path: Path,
    format: Format,
    options: Mapping[str, Any],
    limits: Limits,
    output: Path,
    verbatim: Collection[str] = (),
) -> dict[str, Any]:
    """Write the columnar form of an upload.

    Parameters
    ----------
    path : Path
        The upload.
    format : str
        One of `service.ingest.options.FORMATS`.
    options : mapping
        See `service.ingest.options.parse_options`.
    limits : Limits
    output : Path
        Where the columnar form goes; working files go beside it.
    verbatim : collection of str, optional
        Columns whose texts are wanted as they are written, see `service.ingest.options.TableOptions.verbatim`.

    Returns
    -------
    dict
        ``layout``, ``rows``, ``duplicate_rows``, ``dropped_rows``, ``lines``, ``left_out``, ``columns`` and
        ``warnings`` of
        `service.ingest.run.IngestResult`.

    Raises
    ------
    IngestError
    """
    pa.set_cpu_count(min(MAX_THREADS, len(os.sched_getaffinity(0))))
    pa.set_io_thread_count(2)
    warnings: list[str] = []
    columnar = _read(path, format, options, limits, output, warnings, frozenset(verbatim))
    warnings += [
        f"column {column.name!r} has {len(column.values)} different labels; a training tells the one that it names as "
        "positive from all others together"
        for column in columnar.columns
        if column.name == LABELS.get(format) and column.values is not None and len(column.values) > 2
    ]
    if len(warnings) > MAX_WARNINGS:
        warnings[MAX_WARNINGS:] = [f"and {len(warnings) - MAX_WARNINGS} more of the kind"]
    return {
        "layout": columnar.layout,
        "rows": columnar.rows,
        "duplicate_rows": columnar.duplicate_rows,
        "dropped_rows": columnar.dropped_rows,
        "lines": None if columnar.lines is None else asdict(columnar.lines),
        "left_out": dict(columnar.left_out),
        "columns": [column.to_json() for column in columnar.columns],
        "warnings": warnings,
    }


def _read(
    path: Path,
    format: Format,
    given: Mapping[str, Any],
    limits: Limits,
    output: Path,
    warnings: list[str],
    verbatim: frozenset[str],
) -> Columnar:
    # Readers are loaded one at a time: loading is a good part of what a small upload takes.
    options = parse_options(format, given)
    if verbatim and isinstance(options, TableOptions):
        options = replace(options, verbatim=verbatim)
    match options:
        case DelimitedOptions():
            from service.ingest.delimited import read_delimited

            return read_delimited(path, options, limits, output, warnings)
        case SvmlightOptions():
            from service.ingest.svmlight import read_svmlight

            return read_svmlight(path, options, limits, output, warnings)
        case SheetOptions():
            from service.ingest.xlsx import read_xlsx

            return read_xlsx(path, options, limits, output, warnings)
        case TableOptions():
            return _table_reader(format)(path, options, limits, output, warnings)


def _table_reader(format: Format) -> Callable[[Path, TableOptions, Limits, Path, list[str]], Columnar]:
    match format:
        case "parquet":
            from service.ingest.parquet import read_parquet

            return read_parquet
        case "arrow":
            from service.ingest.arrow import read_arrow

            return read_arrow
        case "jsonl":
            from service.ingest.jsonl import read_jsonl

            return read_jsonl
        case "arff":
            from service.ingest.arff import read_arff

            return read_arff
        case "mail":
            from service.ingest.mailbox import read_mailbox

            return read_mailbox
        case _:
            from service.ingest.npz import read_npz

            return read_npz

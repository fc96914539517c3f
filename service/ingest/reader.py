"""Format → reader. Runs in the child process only."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from service.ingest import lean_arrow  # noqa: F401  # before any array
from service.ingest.limits import MAX_THREADS, ReadingLimits
from service.ingest.options import FORMATS, TableOptions, parse_options
from service.ingest.profile import Columnar
from solver.reading import Reading

FormatReader = Callable[[Path, Any, ReadingLimits, Path, list[str]], Columnar]
"""From the upload, its options, limits, where the columnar form goes, and warnings to add to."""
MAX_WARNINGS = 100


def read_upload(
    path: Path,
    format: str,
    options: Mapping[str, Any],
    limits: ReadingLimits,
    output: Path,
    verbatim: Mapping[str, Reading] | None = None,
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
    limits : ReadingLimits
    output : Path
        Where the columnar form goes; working files go beside it.
    verbatim : mapping of str to Reading, optional
        Columns whose texts are wanted as they are written, each with how they will be read, see
        `service.ingest.options.TableOptions.verbatim`.

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
    columnar = _read(path, format, options, limits, output, warnings, verbatim or {})
    warnings += [
        f"column {column.name!r} has {len(column.values)} different labels; a training tells the one that it names as "
        "positive from all others together"
        for column in columnar.columns
        if column.name == FORMATS[format].labels and column.values is not None and len(column.values) > 2
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
    format: str,
    given: Mapping[str, Any],
    limits: ReadingLimits,
    output: Path,
    warnings: list[str],
    verbatim: Mapping[str, Reading],
) -> Columnar:
    # Readers are loaded one at a time: loading is a good part of what a small upload takes.
    options = parse_options(format, given)
    if verbatim and isinstance(options, TableOptions):
        options = replace(options, verbatim=verbatim)
    module, _, name = FORMATS[format].reader.partition(":")
    read: FormatReader = getattr(importlib.import_module(module), name)
    return read(path, options, limits, output, warnings)

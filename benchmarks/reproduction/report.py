"""What a reproduction found: tables beside the paper's, and the patterns that must hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

LOST = "lost"
"""Stands in a table where the copy of the paper that this was made from does not show the printed number."""


@dataclass(frozen=True)
class Table:
    """One table of the paper with our numbers.

    Attributes
    ----------
    title : str
        Names the table of the paper.
    columns : tuple of str
    rows : sequence of tuple of str
    notes : tuple of str
        What a reader must know to compare the two.
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: tuple[str, ...] = ()

    def to_markdown(self) -> str:
        """The table, padded so that it also reads well in a terminal."""
        cells = [self.columns, *self.rows]
        widths = [max(len(row[k]) for row in cells) for k in range(len(self.columns))]
        lines = [
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
            for row in cells
        ]
        lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        return "\n".join([f"## {self.title}", "", *lines, *([""] if self.notes else []), *self.notes])


@dataclass(frozen=True)
class Pattern:
    """A finding of the paper that must show in our numbers.

    Attributes
    ----------
    source : str
        Table of the paper.
    required : str
        What must hold.
    found : str
        The figures that decide it.
    met : bool
    """

    source: str
    required: str
    found: str
    met: bool

    def to_line(self) -> str:
        """One line for people."""
        return f"- **{'met' if self.met else 'MISSED'}** ({self.source}) {self.required}: {self.found}"


@dataclass(frozen=True)
class Reproduction:
    """Everything one run found.

    Attributes
    ----------
    paper : str
        Its short name, such as `psvm`.
    title : str
        Authors and title of the paper.
    settings : dict
        What was run: seeds, sizes, parameters; JSON-ready.
    tables : list of Table
    patterns : list of Pattern
    measurements : list of dict
        One entry a trained model, JSON-ready; everything in the tables follows from them.
    seconds : float
        Wall time of the whole run.
    """

    paper: str
    title: str
    settings: dict[str, Any]
    tables: list[Table]
    patterns: list[Pattern]
    measurements: list[dict[str, Any]]
    seconds: float
    notes: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """JSON form; the measurements as columns and rows, numbers to 6 decimals."""
        columns = list(dict.fromkeys(name for entry in self.measurements for name in entry))
        rows = [[_rounded(entry.get(name)) for name in columns] for entry in self.measurements]
        return {
            "paper": self.paper,
            "title": self.title,
            "settings": self.settings,
            "patterns": [vars(pattern) for pattern in self.patterns],
            "tables": [{"title": t.title, "columns": t.columns, "rows": t.rows, "notes": t.notes} for t in self.tables],
            "notes": self.notes,
            "measurements": {"columns": columns, "rows": rows},
            "seconds": self.seconds,
        }

    def to_markdown(self) -> str:
        """Markdown form, which is also what is printed."""
        settings = [f"- {name}: {value}" for name, value in self.settings.items()]
        met = sum(pattern.met for pattern in self.patterns)
        parts = [
            f"# Reproduction of {self.title}",
            "\n".join(["Settings:", "", *settings]),
            f"{LOST!r}: the number is not legible in the copy of the paper that this was made from. "
            "mean ± standard deviation over seeds.",
            *(table.to_markdown() for table in self.tables),
            f"## Required patterns: {met} of {len(self.patterns)} met",
            "\n".join(pattern.to_line() for pattern in self.patterns),
            *self.notes,
            f"{self.seconds:.0f} s in all.",
        ]
        return "\n\n".join(parts) + "\n"

    def write(self, directory: Path, name: str) -> list[Path]:
        """Write `name`.json and `name`.md into a folder, which is made if it is absent; returns their paths."""
        directory.mkdir(parents=True, exist_ok=True)
        texts = {"json": json.dumps(self.to_dict(), allow_nan=False) + "\n", "md": self.to_markdown()}
        paths = []
        for suffix, text in texts.items():
            path = directory / f"{name}.{suffix}"
            path.write_text(text, encoding="utf-8")
            paths.append(path)
        return paths


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def values_of(found: Sequence[dict[str, Any]], measure: str, **wanted: Any) -> list[float]:
    """One measure of the entries that have it and all that is wanted, in their order."""
    return [
        float(entry[measure])
        for entry in found
        if measure in entry and all(entry.get(name) == value for name, value in wanted.items())
    ]


def mean_sd(values: Sequence[float], digits: int = 3) -> str:
    """`mean ± standard deviation`; the mean alone of one value, `-` of none."""
    if len(values) == 0:
        return "-"
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"

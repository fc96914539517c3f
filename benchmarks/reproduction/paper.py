"""A paper that is run again: what is read, what is measured and how that is shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from benchmarks.reproduction.report import Pattern, Reproduction, Table
from solver.warm_up import warm_up

Sizes = TypeVar("Sizes")
Data = TypeVar("Data")
Entry = dict[str, Any]
"""What was measured of one trained model, JSON-ready."""
Say = Callable[[str], None]
"""Gets a line of progress at a time."""


@dataclass(frozen=True)
class Findings:
    """What is said of a run's measurements; see `Reproduction`."""

    settings: dict[str, Any]
    tables: list[Table]
    patterns: list[Pattern]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Paper(Generic[Sizes, Data]):
    """How the experiments of one paper are run again.

    Attributes
    ----------
    name : str
        On the command line and in the results' file names.
    title : str
        Authors and title.
    sizes : callable
        Gets whether the run is quick and the number of random draws, None for the paper's own default; returns how
        much is run.
    load : callable
        Reads what is needed from a folder of .npz files; raises DataError where one is absent or damaged.
    measure : callable
        Runs the experiments; returns the measurements.
    present : callable
        Makes tables and patterns of them.
    """

    name: str
    title: str
    sizes: Callable[[bool, int | None], Sizes]
    load: Callable[[Path], Data]
    measure: Callable[[Data, Sizes, Say], list[Entry]]
    present: Callable[[Sequence[Entry], Data, Sizes], Findings]

    def reproduce(
        self, directory: Path, *, quick: bool = False, seeds: int | None = None, say: Say = lambda _: None
    ) -> Reproduction:
        """Run the paper's experiments.

        Parameters
        ----------
        directory : Path
            Folder with the paper's data sets as .npz files.
        quick : bool, default False
            A smaller run that ends in minutes; the paper's module says what is left out.
        seeds : int, optional
            Random draws, at least 1; by default as the paper's module says.
        say : callable, optional
            Gets a line of progress at a time.

        Raises
        ------
        DataError
            If a data set is absent or damaged.
        """
        sizes = self.sizes(quick, seeds)
        started = time.monotonic()
        data = self.load(directory)
        warm_up()
        found = self.measure(data, sizes, say)
        shown = self.present(found, data, sizes)
        return Reproduction(
            paper=self.name,
            title=self.title,
            settings=shown.settings,
            tables=shown.tables,
            patterns=shown.patterns,
            measurements=found,
            seconds=time.monotonic() - started,
            notes=shown.notes,
        )

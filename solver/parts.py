"""Work of one training that falls into parts, each of which any worker may compute: cells of a grid, folds.

The solver says which parts there are and how one is computed; a `PartExecutor` decides who does it. Whoever computes a
part gets the same bits, if library versions, processor and memory for kernel rows are the same (`numerics`): a part has
no state in common with the others. So the result of a training does not depend on how many took part in it.

Whoever helps is not sent a problem but repeats the training (`OnePart`) up to the stage in question: data, request and
seed say everything. Results of earlier stages that were shared too are handed to it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final, Protocol

from numpy.typing import NDArray
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from solver.arrays import cuda_available

# named arrays of the types that `solver.tensor_file` takes
PartResult = Mapping[str, NDArray[Any]]
# computes the parts with these numbers; None for a part that was not finished because training has to stop
Compute = Callable[[Sequence[int]], Sequence[PartResult | None]]

_LIBRARIES: Final = ("numpy", "scipy", "numba", "llvmlite", "scikit-learn", "pyarrow")
_PROCESSOR: Final = ("model name", "flags", "CPU part", "Features")


class PartExecutor(Protocol):
    """Who computes the parts of a training."""

    @property
    def cache_bytes(self) -> int | None:
        """Memory for kernel rows that the parts must be computed with; None: what is free."""

    def are_shared(self) -> bool:
        """Tell whether other workers are free to compute parts now: only then need a stage be cut into them."""

    def is_sought(self, stage: str) -> bool:
        """Tell whether a part of this stage is all that is wanted: what else would be computed may be left out."""

    def is_sought_in(self, run: str) -> bool:
        """Tell whether a part of this run (`PartsOfRun`) is all that is wanted: the runs before may be left out."""

    def compute(self, stage: str, count: int, compute: Compute, *, at_once: int = 1) -> list[PartResult | None]:
        """Have the parts 0 … count - 1 of a stage computed.

        Parameters
        ----------
        stage : str
            A name that no other stage of the training has.
        count : int
        compute : callable
            Computes any of them here.
        at_once : int, default 1
            How many at a time are computed here best.

        Returns
        -------
        list
            By number; None for parts that were not computed because training was told to stop.
        """


class Alone:
    """Everything is computed here, at once."""

    cache_bytes = None

    def are_shared(self) -> bool:
        """Nobody else is there."""
        return False

    def is_sought(self, stage: str) -> bool:  # noqa: ARG002
        """All of the training is wanted."""
        return False

    def is_sought_in(self, run: str) -> bool:  # noqa: ARG002
        """All of the training is wanted."""
        return False

    def compute(
        self,
        stage: str,  # noqa: ARG002
        count: int,
        compute: Compute,
        *,
        at_once: int = 1,  # noqa: ARG002
    ) -> list[PartResult | None]:
        """Compute all parts."""
        return list(compute(range(count)))


ALONE: Final[PartExecutor] = Alone()


class PartComputed(Exception):  # noqa: N818 (it is no error)
    """Ends a training of which only one part was wanted.

    Attributes
    ----------
    result : PartResult or None
        None if it was told to stop.
    """

    def __init__(self, result: PartResult | None) -> None:
        super().__init__("the part was computed")
        self.result = result


class OnePart:
    """A training is repeated for the sake of one part: `compute` raises `PartComputed` with it.

    Parameters
    ----------
    stage : str
    number : int
    known : mapping of str to sequence of PartResult
        Earlier stages whose parts need not be computed again.
    cache_bytes : int
        See `PartExecutor`.
    """

    def __init__(self, stage: str, number: int, known: Mapping[str, Sequence[PartResult]], cache_bytes: int) -> None:
        self._stage, self._number, self._known = stage, number, known
        self.cache_bytes: int | None = cache_bytes

    def are_shared(self) -> bool:
        """The training is cut as it was where it is run."""
        return True

    def is_sought(self, stage: str) -> bool:
        """Tell whether the part is of this stage."""
        return stage == self._stage

    def is_sought_in(self, run: str) -> bool:
        """Tell whether the part is of a stage of this run."""
        return self._stage.startswith(f"{run}-")

    def compute(self, stage: str, count: int, compute: Compute, *, at_once: int = 1) -> list[PartResult | None]:
        """Raise the part, if it is of this stage."""
        if stage == self._stage:
            raise PartComputed(compute([self._number])[0])
        if stage in self._known:
            return list(self._known[stage])
        return [
            result
            for begin in range(0, count, at_once)
            for result in compute(range(begin, min(count, begin + at_once)))
        ]


class PartsOfRun:
    """The parts of one run of a training that has several: there its stages have names of their own.

    Parameters
    ----------
    parts : PartExecutor
        Of the whole training.
    run : str
        Name of the run. Its stages are `"<run>-<stage>"` to `parts`.
    """

    def __init__(self, parts: PartExecutor, run: str) -> None:
        self._parts, self._run = parts, run

    @property
    def cache_bytes(self) -> int | None:
        """Of the whole training."""
        return self._parts.cache_bytes

    def are_shared(self) -> bool:
        """Tell what holds for the whole training."""
        return self._parts.are_shared()

    def is_sought(self, stage: str) -> bool:
        """Tell whether a part of the stage of this run is all that is wanted."""
        return self._parts.is_sought(f"{self._run}-{stage}")

    def is_sought_in(self, run: str) -> bool:
        """Tell it of a run within this one."""
        return self._parts.is_sought_in(f"{self._run}-{run}")

    def compute(self, stage: str, count: int, compute: Compute, *, at_once: int = 1) -> list[PartResult | None]:
        """Have the parts of the stage of this run computed."""
        return self._parts.compute(f"{self._run}-{stage}", count, compute, at_once=at_once)


@functools.cache
def numerics() -> str:
    """Return a digest that is the same where the same computation gives the same bits.

    It is made of the versions of the product and the numerical libraries, the processor and what BLAS makes of it, and
    whether there is a GPU.
    """
    about = {
        "product": version("prefsvm"),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in _LIBRARIES},
        "processor": _processor(),
        "blas": sorted(
            {
                f"{info.get('internal_api')} {info.get('version')} {info.get('architecture')}"
                for info in threadpool_info()
            }
        ),
        "gpu": cuda_available(),
    }
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            wanted = {line.strip() for line in lines if line.startswith(_PROCESSOR)}
    except OSError:
        wanted = set()
    return f"{platform.machine()} {platform.processor()} {sorted(wanted)}"

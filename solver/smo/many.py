"""Many programs at once: folds, cells of a grid, one class against another, on all threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from solver.kernels.kernel import FeatureKernel, Kernel, PrecomputedKernel, SharedRows
from solver.kernels.parallel import run_all
from solver.kernels.row_cache import default_cache_bytes
from solver.smo.backend import device_for, use_cpu_instead
from solver.smo.engines import DIRECT_LIMIT
from solver.smo.gpu import solve_batch
from solver.smo.gpu_device import DeviceMemoryError
from solver.smo.problem import Solution, Task
from solver.smo.program import Program, Start
from solver.smo.solve import solve
from solver.typing import IndexArray

Chain = Sequence[Program]

# all kernel rows are computed beforehand when the programs' own squares are so many times the whole matrix
_OVERLAP: Final = 2.0


def solve_many(chains: Sequence[Chain]) -> list[list[Solution]]:
    """Solve many programs, on all threads or together on the GPU.

    Chains on one kernel object run side by side, each on one thread, where they need not share a row cache that grows:
    on a matrix of all their kernel rows, if that fits and most of it would be computed anyhow; or each with rows of its
    own, if they have few samples in common. Otherwise they follow each other, and each uses all threads. Which it is
    does not depend on the number of threads, so solutions do not either.

    Parameters
    ----------
    chains : sequence of sequences of Program
        The programs of a chain have the kernel, variables and p in common, and each but the first starts from the
        solution of the one before: the way along a path of growing C. Give rows that a fold holds out as variables
        with `hi=0`: their gradient tells their scores, and all folds have the same rows. Callbacks are called from
        several threads.

    Returns
    -------
    list of list of Solution
        By chain, then by program; the same bits whatever the number of threads.

    Raises
    ------
    ValueError
        If a program but the first of its chain has a start or another kernel.
    """
    solved: list[list[Solution]] = [[] for _ in chains]
    places_of: dict[int, list[int]] = {}
    for place, chain in enumerate(chains):
        if any(program.start is not None or program.kernel is not chain[0].kernel for program in chain[1:]):
            raise ValueError("the programs of a chain need one kernel, and none but the first may have a start")
        if chain:
            places_of.setdefault(id(chain[0].kernel), []).append(place)
    for places in places_of.values():
        group, ends = [chains[place] for place in places], [solved[place] for place in places]
        if len(group) > 1 and _solve_on_gpu(group, ends):
            continue
        kernels = _kernels_side_by_side(group)
        if kernels is None:
            for chain, end in zip(group, ends, strict=True):
                _follow(chain, end, chain[0].kernel)
        else:
            run_all([partial(_follow, *each) for each in zip(group, ends, kernels, strict=True)])
    return solved


def kernel_of_its_own(chains: Sequence[Chain]) -> Kernel | None:
    """Return a kernel on which some of many chains are solved to the bits that all of them together would give.

    Parameters
    ----------
    chains : sequence of sequences of Program
        What `solve_many` would be given, all on one kernel. Any of these chains, whole, may then be solved on the
        kernel that is returned.

    Returns
    -------
    Kernel or None
        None if the chains depend on each other: on the GPU, or on a cache of kernel rows that they share.
    """
    if device_for([program for chain in chains for program in chain]) is not None:
        return None
    kernels = _kernels_side_by_side(chains)
    return None if kernels is None else kernels[0]


def _next(chain: Chain, solved: Sequence[Solution]) -> Program:
    """The first program that is not solved yet, with its start."""
    program = chain[len(solved)]
    return replace(program, start=Start(solved[-1].alpha, solved[-1].gradient)) if solved else program


def _follow(chain: Chain, solved: list[Solution], kernel: Kernel) -> None:
    """Solve what is left of a chain, one program after the other."""
    while len(solved) < len(chain):
        solved.append(solve(replace(_next(chain, solved), kernel=kernel)))


def _solve_on_gpu(chains: Sequence[Chain], solved: Sequence[list[Solution]]) -> bool:
    """Solve chains of one kernel on the GPU, a program of each at a time; False if they, or the rest, are the CPU's."""
    for step in range(max(map(len, chains))):
        under_way = [(chain, ends) for chain, ends in zip(chains, solved, strict=True) if len(chain) > step]
        programs = [_next(chain, ends) for chain, ends in under_way]
        if len({program.backend for program in programs}) > 1:
            return False
        device = device_for(programs)
        if device is None:
            return False
        try:
            solutions = solve_batch(device, [Task.of(program) for program in programs])
        except DeviceMemoryError as error:
            use_cpu_instead(programs[0].backend, error)
            return False
        for (_, ends), solution in zip(under_way, solutions, strict=True):
            ends.append(solution)
    return True


def _kernels_side_by_side(chains: Sequence[Chain]) -> Sequence[Kernel] | None:
    """A kernel for each chain that threads may use side by side; None where they had better follow each other."""
    if len(chains) < 2 or any(program.backend == "cuda" for chain in chains for program in chain):
        return None
    kernel = chains[0][0].kernel
    if isinstance(kernel, PrecomputedKernel | SharedRows):
        return [kernel] * len(chains)
    if not isinstance(kernel, FeatureKernel):
        return None
    if kernel.kind == "linear":
        return [kernel.private() for _ in chains]
    samples = [_samples(chain) for chain in chains]
    union = np.unique(np.concatenate(samples))
    if union.size <= DIRECT_LIMIT:
        return [kernel] * len(chains)  # what small problems ask of a kernel changes nothing in it
    own = float(sum(float(part.size) ** 2 for part in samples))
    if own < _OVERLAP * float(union.size) ** 2:
        return [kernel.private() for _ in chains]
    limit = chains[0][0].cache_bytes
    if 4 * union.size**2 <= (default_cache_bytes() if limit is None else limit):
        return [kernel.shared_rows(union)] * len(chains)
    return None


def _samples(chain: Chain) -> IndexArray:
    return np.unique(np.concatenate([np.asarray(program.idx, dtype=np.int64).ravel() for program in chain]))

"""Many problems at once: folds, cells of a grid, one class against another, on all threads."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from solver.kernels.kernel import FeatureKernel, PrecomputedKernel, SharedRows
from solver.kernels.parallel import run_all
from solver.kernels.row_cache import default_cache_bytes
from solver.smo.engines import DIRECT_LIMIT
from solver.smo.problem import Solution
from solver.typing import IndexArray

__all__ = ["kernel_of_its_own", "run_problems"]

Arguments = dict[str, Any]

# all kernel rows are computed beforehand when the problems' own squares are so many times the whole matrix
_OVERLAP = 2.0


def run_problems(
    problems: Sequence[Arguments],
    solve: Callable[..., Solution],
    solve_together: Callable[[Sequence[Arguments]], list[Solution] | None],
) -> list[Solution]:
    """Solve problems, which are keyword arguments of ``solve``, and return their solutions in order.

    A problem that starts from the one before it makes a chain with it. Chains on one kernel object run side by side,
    each on one thread, where they need not share a row cache that grows: on a matrix of all their kernel rows, if that
    fits and most of it would be computed anyhow; or each with rows of its own, if they have few samples in common.
    Otherwise they follow each other, and each uses all threads. Which it is does not depend on the number of threads,
    so solutions do not either. ``solve_together`` may take on several chains at once, a problem of each at a time.
    """
    chains = _chains(problems)
    solutions: list[Solution | None] = [None] * len(problems)

    def start(place: int) -> Arguments:
        before = solutions[place - 1]
        if isinstance(problems[place].get("alpha0"), str) and before is not None:
            return {"alpha0": before.alpha, "grad0": before.gradient}
        return {}

    def run(chain: Sequence[int], kernel: Any) -> None:
        for place in chain:
            if solutions[place] is None:
                solutions[place] = solve(**(problems[place] | start(place) | {"kernel": kernel}))

    def run_together(group: Sequence[Sequence[int]]) -> bool:
        for step in range(max(map(len, group))):
            places = [chain[step] for chain in group if len(chain) > step]
            results = solve_together([problems[place] | start(place) for place in places])
            if results is None:
                return False
            for place, result in zip(places, results, strict=True):
                solutions[place] = result
        return True

    by_kernel: dict[int, list[list[int]]] = {}
    for chain in chains:
        by_kernel.setdefault(id(problems[chain[0]].get("kernel")), []).append(chain)
    for group in by_kernel.values():
        kernel = problems[group[0][0]].get("kernel")
        if len(group) > 1 and run_together(group):
            continue
        views = _views(kernel, [[problems[place] for place in chain] for chain in group])
        if views is None:
            for chain in group:
                run(chain, kernel)
        else:
            run_all([lambda c=chain, k=view: run(c, k) for chain, view in zip(group, views, strict=True)])  # type: ignore[misc]
    return [solution for solution in solutions if solution is not None]


def kernel_of_its_own(problems: Sequence[Arguments]) -> Any:
    """Return a kernel on which any of the chains gets, by itself or with some others, the bits it gets among all.

    None if there is none: the chains would follow each other on a row cache that grows.
    """
    views = _views(problems[0].get("kernel"), [[problems[place] for place in chain] for chain in _chains(problems)])
    return None if views is None else views[0]


def _chains(problems: Sequence[Arguments]) -> list[list[int]]:
    """Places of the problems, those that start from the one before together with it."""
    chains: list[list[int]] = []
    for place, problem in enumerate(problems):
        start = problem.get("alpha0")
        if not isinstance(start, str):
            chains.append([place])
        elif start == "previous" and chains and problem.get("kernel") is problems[place - 1].get("kernel"):
            chains[-1].append(place)
        else:
            raise ValueError(
                "alpha0 must be an array or 'previous'; 'previous' needs a problem before it on the same kernel"
            )
    return chains


def _views(kernel: Any, chains: Sequence[Sequence[Arguments]]) -> list[Any] | None:
    """A kernel for each chain that threads may use side by side; None where they had better follow each other."""
    if len(chains) < 2 or any(problem.get("backend") == "cuda" for chain in chains for problem in chain):
        return None
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
    limit = chains[0][0].get("cache_bytes")
    if 4 * union.size**2 <= (default_cache_bytes() if limit is None else int(limit)):
        return [kernel.shared_rows(union)] * len(chains)
    return None


def _samples(chain: Sequence[Arguments]) -> IndexArray:
    return np.unique(np.concatenate([np.asarray(problem["idx"], dtype=np.int64).ravel() for problem in chain]))

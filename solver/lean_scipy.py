"""`scipy.sparse` without the parts of NumPy that only its import asks for: imported first, before anything of SciPy.

SciPy's array interface copies all that NumPy has, and by that loads its compiler of Fortran and its tests: 15 MB and a
fifth of a second in each process, for nothing. While it is loaded these are not in NumPy's list.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np

UNWANTED: Final = {"f2py", "testing"}


@contextmanager
def _without_unwanted_parts() -> Iterator[None]:
    """Take parts out of NumPy's lists, of which another version may have none: then nothing is spared."""
    parts: set[str] = getattr(np, "__numpy_submodules__", set())
    taken = {*parts} & UNWANTED
    names = list(np.__all__)
    parts -= taken
    np.__all__[:] = [name for name in names if name not in taken]
    try:
        yield
    finally:
        parts |= taken
        np.__all__[:] = names


with _without_unwanted_parts():
    import scipy.sparse  # noqa: F401

"""PyArrow that does without pandas, and without descriptions of its functions: imported before arrays are made or read.

Where pandas is installed PyArrow imports it for its first array, only to see that the array is none of pandas': 45 MB
and a third of a second in each process. It looks for it once, so here it looks in vain. What is asked for in the terms
of pandas, as ``to_pandas()``, still finds it.

What options its functions take PyArrow describes by parsing its own documentation while `pyarrow.compute` is loaded:
that is half of what loading it takes, for `help()` alone.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pyarrow as pa


class _Nowhere:
    """A finder that says that there is no pandas, before others look."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def _look_for_pandas_in_vain() -> None:
    sys.meta_path.insert(0, _Nowhere)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(_Nowhere)


def _load_functions_without_descriptions() -> None:
    name = "pyarrow.vendored.docscrape"
    if name in sys.modules:
        return
    nothing_described = ModuleType(name)
    nothing_described.__dict__["NumpyDocString"] = lambda _: {"Parameters": ()}
    sys.modules[name] = nothing_described
    try:
        importlib.import_module("pyarrow.compute")
    finally:
        del sys.modules[name]


_look_for_pandas_in_vain()
_load_functions_without_descriptions()

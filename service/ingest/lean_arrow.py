"""PyArrow that does without pandas: imported before arrays are made or read.

Where pandas is installed PyArrow imports it for its first array, only to see that the array is none of pandas': 45 MB
and a third of a second in each process. It looks for it once, so here it looks in vain. What is asked for in the terms
of pandas, as ``to_pandas()``, still finds it.
"""

from __future__ import annotations

import sys

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


_look_for_pandas_in_vain()

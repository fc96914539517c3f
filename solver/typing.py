"""Names for the types of arrays that the solver's signatures use; docstrings say what is float64 by promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.floating[Any]]
IndexArray = npt.NDArray[np.int64]
Matrix = FloatArray | sp.csr_array | sp.csr_matrix

"""The printed tables of the cluster SVM paper: accuracies on 1,000 test rows, means of 100 repetitions.

Each tuple: self-training, generative model, SVM, proposed method.
"""

from __future__ import annotations

from typing import Final

TABLE_1: Final[dict[tuple[str, float], tuple[float, float, float, float]]] = {
    ("A1", 0.80): (0.932, 0.928, 0.927, 0.926),
    ("A1", 0.90): (0.915, 0.898, 0.901, 0.917),
    ("A1", 0.95): (0.877, 0.835, 0.870, 0.906),
    ("A2", 0.80): (0.898, 0.886, 0.887, 0.897),
    ("A2", 0.90): (0.859, 0.777, 0.852, 0.880),
    ("A2", 0.95): (0.809, 0.677, 0.803, 0.850),
}
"""By model and share of unlabelled rows."""

TABLE_2: Final[dict[tuple[str, float], tuple[float, float, float, float]]] = {
    ("B1", 0.80): (0.514, 0.502, 0.514, 0.577),
    ("B1", 0.90): (0.512, 0.502, 0.512, 0.564),
    ("B1", 0.95): (0.514, 0.501, 0.514, 0.545),
    ("B2", 0.80): (0.523, 0.353, 0.526, 0.564),
    ("B2", 0.90): (0.492, 0.350, 0.493, 0.526),
    ("B2", 0.95): (0.453, 0.334, 0.456, 0.479),
}
"""By model and share of unlabelled rows."""

IRIS: Final[dict[tuple[int, float], tuple[float, float, float, float]]] = {
    (100, 0.7): (0.944, 0.668, 0.945, 0.937),
    (100, 0.8): (0.927, 0.567, 0.930, 0.939),
    (100, 0.9): (0.868, 0.523, 0.868, 0.872),
    (75, 0.7): (0.942, 0.594, 0.940, 0.925),
    (75, 0.8): (0.919, 0.530, 0.920, 0.926),
    (75, 0.9): (0.854, 0.515, 0.849, 0.875),
    (50, 0.7): (0.919, 0.564, 0.924, 0.922),
    (50, 0.8): (0.886, 0.490, 0.871, 0.887),
    (50, 0.9): (0.797, 0.500, 0.809, 0.840),
}
"""Table 3: by rows to train and share of unlabelled rows."""

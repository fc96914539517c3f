"""The papers' experiments, run again: `benchmarks/reproduce.py`."""

from typing import Any, Final

from benchmarks.reproduction import augmentation, clustersvm, cs4vm, psvm
from benchmarks.reproduction.data import DataError
from benchmarks.reproduction.paper import Paper
from benchmarks.reproduction.report import Pattern, Reproduction, Table

PAPERS: Final[dict[str, Paper[Any, Any]]] = {
    module.PAPER.name: module.PAPER for module in (psvm, cs4vm, clustersvm, augmentation)
}
"""The papers by their short names."""

__all__ = ["PAPERS", "DataError", "Paper", "Pattern", "Reproduction", "Table"]

"""The papers' experiments, run again: `benchmarks/reproduce.py`."""

from typing import Final

from benchmarks.reproduction import clustersvm, cs4vm, psvm
from benchmarks.reproduction.data import DataError
from benchmarks.reproduction.report import Pattern, Reproduction, Table

PAPERS: Final = {"psvm": psvm.reproduce, "cs4vm": cs4vm.reproduce, "clustersvm": clustersvm.reproduce}
"""The function that reproduces each paper."""

__all__ = ["PAPERS", "DataError", "Pattern", "Reproduction", "Table"]

"""The papers' experiments, run again: `prefsvm reproduce`."""

from typing import Final

from solver.reproduction import cs4vm, psvm
from solver.reproduction.data import DataError
from solver.reproduction.report import Pattern, Reproduction, Table

PAPERS: Final = {"psvm": psvm.reproduce, "cs4vm": cs4vm.reproduce}
"""The function that reproduces each paper."""

__all__ = ["PAPERS", "DataError", "Pattern", "Reproduction", "Table"]

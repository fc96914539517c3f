"""The papers' required patterns, on the papers' data: `benchmarks/reproduce.py … --quick` as it is shipped."""

import os
from pathlib import Path

import pytest

from benchmarks.reproduction import PAPERS

DATA = Path(os.environ.get("PREFSVM_SHARED_DATA") or Path(__file__).parents[3] / "shared" / "data")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("paper", sorted(PAPERS))
@pytest.mark.skipif(not DATA.is_dir(), reason="the papers' data sets are not here; set PREFSVM_SHARED_DATA")
def test_required_patterns_hold(paper):
    found = PAPERS[paper].reproduce(DATA, quick=True)
    assert [pattern.to_line() for pattern in found.patterns if not pattern.met] == []

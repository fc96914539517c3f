"""Tests of error rates that the papers' tables are made with."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from benchmarks.reproduction.error_rates import mcnemar, unpaired_z_test

three = st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=60).map(
    lambda rows: [np.array(column) for column in zip(*rows, strict=True)]
)


@given(three)
def test_mcnemar_is_a_binomial_test_on_the_discordant_rows(rows):
    y, first, second = rows
    only_first = int(np.sum((first == y) & (second != y)))
    only_second = int(np.sum((second == y) & (first != y)))
    n = only_first + only_second
    expected = 1.0 if n == 0 else binomtest(only_first, n).pvalue
    assert mcnemar(y, first, second) == pytest.approx(expected)
    assert mcnemar(y, second, first) == mcnemar(y, first, second)


def test_z_test_gives_the_dissertations_numbers():
    # table 4.4, 10 % and 33 %: Spy-EM and Roc-SVM against the plain SVM on 1660 rows
    for plain, other, z, p in ((0.869, 0.922, 5.01, None), (0.899, 0.918, 1.90, 0.029), (0.899, 0.908, 0.88, 0.19)):
        found, value = unpaired_z_test(1 - plain, 1 - other, 1660)
        assert found == pytest.approx(z, abs=0.02)
        if p is not None:
            assert value == pytest.approx(p, abs=0.002)
    assert unpaired_z_test(0.1, 0.1, 10) == (0.0, 0.5)
    assert unpaired_z_test(0.0, 1.0, 10) == (np.inf, 0.0)

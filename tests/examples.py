"""How many examples Hypothesis tries: a quarter of them in the quick tests, all of them in ``make test-slow``."""

import os

ALL = os.environ.get("PREFSVM_TESTS") == "slow"


def examples(number: int) -> int:
    """Return how many of so many examples this run tries."""
    return number if ALL else max(5, number // 4)

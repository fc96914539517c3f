"""Named places where a test can make a process die, fail or stall. Without ``PREFSVM_FAULT`` they do nothing.

``PREFSVM_FAULT=after_claim:exit:2`` kills the process (SIGKILL to itself, no clean-up) the second time it comes by
``fault("after_claim")``; ``raise`` instead of ``exit`` raises `InjectedFaultError`, ``stall`` sleeps for
`STALL_SECONDS`. The count is 1 if it is left out. Several are separated by commas.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections import Counter

log = logging.getLogger(__name__)
VARIABLE = "PREFSVM_FAULT"
STALL_SECONDS = 2.0
ACTIONS = ("exit", "raise", "stall")


class InjectedFaultError(Exception):
    """Raised at a fault point that was told to raise."""


def parse(text: str) -> dict[tuple[str, int], str]:
    """Return ``{(name, count): action}`` of a ``PREFSVM_FAULT`` value.

    Raises
    ------
    ValueError
        For an unknown action or a count that is no positive integer.
    """
    plan: dict[tuple[str, int], str] = {}
    for item in filter(None, text.split(",")):
        name, _, rest = item.partition(":")
        action, _, count = rest.partition(":")
        if action not in ACTIONS:
            raise ValueError(f"{VARIABLE}: {item!r} must be name:action[:count] with an action of {', '.join(ACTIONS)}")
        if count and not (count.isdecimal() and int(count) > 0):
            raise ValueError(f"{VARIABLE}: the count of {item!r} must be a positive integer")
        plan[name, int(count or 1)] = action
    return plan


_plan = parse(os.environ.get(VARIABLE, ""))
_passed: Counter[str] = Counter()
_lock = threading.Lock()


def fault(name: str) -> None:
    """Do what ``PREFSVM_FAULT`` plans for this visit of the place `name`: usually nothing."""
    if not _plan:
        return
    with _lock:
        _passed[name] += 1
        action = _plan.get((name, _passed[name]))
    if action is not None:
        log.warning("planned fault: %s:%s", name, action)
    if action == "exit":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "raise":
        raise InjectedFaultError(name)
    elif action == "stall":
        time.sleep(STALL_SECONDS)

"""A stack and a browser that the tests of a file share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser import Tab, chromium

from service.local.stack import Stack, local_stack


@pytest.fixture(scope="module")
def whole(module_dir: Path) -> Iterator[Stack]:
    with local_stack(module_dir / "data") as running:
        yield running


@pytest.fixture(scope="module")
def stack(whole: Stack) -> str:
    """Return its address."""
    return whole.url


@pytest.fixture(scope="module")
def browser(module_dir: Path) -> Iterator[Callable[[], Tab]]:
    with chromium(module_dir) as tab:
        yield tab

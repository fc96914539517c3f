"""Compiled code is made once on a machine, by several processes beside each other, and kept in files."""

from __future__ import annotations

import fcntl
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from numba.core.caching import Cache, IndexDataCacheFile
from numba.core.event import Event, Listener, install_listener

from service.processes import die_with_parent

MOST_PROCESSES = 4
"""Each takes 130 MB."""

_save: Callable[[Any, object, object], None] = IndexDataCacheFile.save
_load: Callable[[Any, object], object] = IndexDataCacheFile.load


class _NotCompiledError(Exception):
    """Raised where something would have to be compiled."""


class _Refusal(Listener):
    def on_start(self, event: Event) -> NoReturn:  # noqa: ARG002 (Numba's names)
        raise _NotCompiledError

    def on_end(self, event: Event) -> None:
        """Nothing is left to do."""


def load(
    first: Sequence[Callable[[], None]],
    later: Sequence[Callable[[], None]],
    tell: Callable[[float], None],
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Load compiled code; where something is missing, have it compiled.

    Parameters
    ----------
    first, later : sequence of callable
        Pieces: each runs some of the code, and what it needs is then there. This waits for the first ones. The later
        ones are compiled, too, in the background: whoever needs their code before that compiles it for himself.
    tell : callable
        Gets the share of what is missing of the first ones that is compiled, whenever one more is.
    meanwhile : callable, optional
        What else this process has to load; it does so while others compile.

    Notes
    -----
    The process must have one thread: it forks.
    """
    setattr(IndexDataCacheFile, "save", _save_alone)  # noqa: B010 (they are methods to the type checker)
    setattr(IndexDataCacheFile, "load", _load_whole)  # noqa: B010
    missing = [piece for piece in first if not _is_compiled(piece)]
    missing_later = [piece for piece in later if not _is_compiled(piece)]
    done = _start_compiling([*missing, *missing_later])
    meanwhile()
    _wait_for(len(missing), done, tell)
    for piece in missing:
        piece()  # what a process that failed has left is compiled here


def keep_nothing() -> None:
    """Keep nothing of what is compiled from here on, and write nothing to load what is."""
    setattr(Cache, "save_overload", lambda *_: None)  # noqa: B010
    setattr(IndexDataCacheFile, "load", _load)  # noqa: B010


def _is_compiled(piece: Callable[[], None]) -> bool:
    """Run a piece, unless some of its code is missing."""
    try:
        with install_listener("numba:compile", _Refusal()):
            piece()
    except _NotCompiledError:
        return False
    return True


def _start_compiling(pieces: Sequence[Callable[[], None]]) -> int:
    """Have processes take on piece after piece until none is left; return where they say which are done."""
    waiting, filling = os.pipe()
    os.write(filling, bytes(range(len(pieces))))
    os.close(filling)
    done, telling = os.pipe()
    parent = os.getpid()
    for _ in range(min(len(os.sched_getaffinity(0)), len(pieces), MOST_PROCESSES)):
        if os.fork() == 0:
            _work(pieces, parent, waiting, telling)
    os.close(waiting)
    os.close(telling)
    return done


def _wait_for(first: int, done: int, tell: Callable[[float], None]) -> None:
    """Wait until the first pieces are done, or no process is left."""
    left = set(range(first))
    if left:
        tell(0.0)
    while left and (number := os.read(done, 1)):
        if number[0] in left:
            left.remove(number[0])
            tell((first - len(left)) / first)
    os.close(done)


def _work(pieces: Sequence[Callable[[], None]], parent: int, waiting: int, telling: int) -> NoReturn:
    try:
        die_with_parent(parent)
        while number := os.read(waiting, 1):
            pieces[number[0]]()
            with suppress(BrokenPipeError):  # who started this waits no longer
                os.write(telling, number)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


# Numba numbers the files of a function and names a file in the index before it is written: of two savers both might
# take one number, and who loads meanwhile would get what an earlier version of the function had left there.


def _save_alone(file: Any, key: object, data: object) -> None:
    """Save while nobody else saves or loads."""
    with _locked(file, fcntl.LOCK_EX):
        _save(file, key, data)


def _load_whole(file: Any, key: object) -> object:
    """Load while nobody saves."""
    with _locked(file, fcntl.LOCK_SH):
        return _load(file, key)


@contextmanager
def _locked(file: Any, how: int) -> Iterator[None]:
    descriptor = os.open(Path(file._index_path).parent / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)

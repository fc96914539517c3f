"""Objects in which a name is there twice: parsers keep one of the values in silence, so they are refused."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import orjson

from service.json_sizes import count_of


def has_repeated_names(raw: bytes, parsed: Any) -> bool:
    """Tell whether an object of a JSON text has a name twice.

    Parameters
    ----------
    raw : bytes
        The text.
    parsed : object
        What orjson made of it.

    Raises
    ------
    RecursionError
        If the text is nested too deeply to be sure.
    """
    colons = count_of(b":", raw)  # at least one for each name that was sent
    if type(parsed) is dict and colons == len(parsed):
        return False  # whatever else there is: two million numbers are not looked at
    if colons == _names_at_least(parsed):
        return False
    # Written again, what was read has as many colons, unless a value was dropped. An escape may hide a colon.
    with suppress(orjson.JSONEncodeError):  # nested deeper than it writes
        if colons == count_of(b":", orjson.dumps(parsed)) and b"\\u003" not in raw:
            return False
    repeated = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal repeated
        repeated = repeated or len({name for name, _ in pairs}) != len(pairs)

    json.loads(raw, object_pairs_hook=look, parse_int=str, parse_float=str)
    return repeated


def _names_at_least(parsed: Any) -> int:
    """Count the names of an object and of the objects in its lists, as ``{"rows": [{…}, …]}`` has them: quickly."""
    if type(parsed) is not dict:
        return 0
    lists = [value for value in parsed.values() if type(value) is list]
    return len(parsed) + sum([len(item) for items in lists for item in items if type(item) is dict])

"""How the commands of ``prefsvm`` take names: whole ids, beginnings of ids as git has them, and ``@last``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from service.cli.advice import RUNNING
from service.cli.support import fail

if TYPE_CHECKING:
    from service.cli.client import Connection

LAST = "@last"
PREFIXES = {
    **{"/datasets": "ds", "/jobs": "job", "/models": "mdl", "/batches": "job", "/uploads": "up", "/feedback": "fb"},
    "/audits": "aud",
}
"""Of the ids in each list."""
_WHOLE = re.compile(r"[a-z]+_[0-9a-f]{32}")
_BEGINNING = re.compile(r"[0-9a-f]{4,31}")
_TOO_SHORT = re.compile(r"[0-9a-f]{0,3}")
MOST_LISTED = 10


def full_id(client: Connection, collection: str, name: str) -> str:
    """Return the id that a name stands for: the newest of ``@last``, the only one that begins so, or the name itself.

    `collection` is the path of the list, such as ``/jobs``. Ends the command, with those that fit, where a beginning
    fits several.
    """
    prefix = PREFIXES[collection]
    if name == LAST:
        newest = next(iter(client.get(f"{collection}?limit=1")["items"]), None)
        return fail(f"there is none yet in {collection[1:]}") if newest is None else str(newest["id"])
    kind, mark, rest = name.partition("_")
    if kind == prefix and mark and _TOO_SHORT.fullmatch(rest):
        RUNNING.too_short = name  # which may be an alias all the same
    if kind != prefix or not mark or _WHOLE.fullmatch(name) or not _BEGINNING.fullmatch(rest):
        return name
    found: list[dict[str, Any]] = []
    for item in client.items(collection):  # newest first, and ids sort by time
        if item["id"].startswith(name):
            found.append(item)
        if item["id"] < name or len(found) > MOST_LISTED:
            break
    if not found:
        return name
    if len(found) > 1:
        some = "\n".join(f"  {item['id']}  {item['created_at'][:19]}" for item in found[:MOST_LISTED])
        more = "\n  and more" if len(found) > MOST_LISTED else ""
        fail(f"several ids begin with {name}; say more of it:\n{some}{more}")
    return str(found[0]["id"])


def path_of(client: Connection, collection: str, name: str) -> str:
    """Return the path of what a name stands for, such as ``/jobs/job_0192…``."""
    return f"{collection}/{quote(full_id(client, collection, name), safe='')}"


def model_path(client: Connection, name: str) -> str:
    """Return the path of a model that is named by its id, the beginning of it, or by an alias."""
    return path_of(client, "/models", name)

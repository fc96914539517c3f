"""Sessions of people who look at the pages: begun with an API key, known by a random text that the browser holds.

Of the text only the SHA-256 is kept; it has 256 random bits, as the secret of a key has. A session may do what its key
may, and ends with it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections import OrderedDict

from anyio import to_thread

from service.access.authenticator import Authenticator
from service.access.caller import Caller
from service.access.repository import KeyDirectory, LiveKey, SessionDirectory
from service.db.session import Database

COOKIE = "prefsvm_session"
VISIT_COOKIE = "prefsvm_visit"
"""Another random text, which outlives sessions: a form that was begun before one ended can be sent in the next."""
MOST_SEEN = 10_000
"""Sessions that are remembered as having been good once, so that nobody's guesses keep them out."""
_FORM = re.compile(r"[A-Za-z0-9_-]{43}")


def new_token() -> str:
    """Make a text that nobody has."""
    return secrets.token_urlsafe(32)


def is_token(text: str) -> bool:
    """Tell whether a text has the form of one that `new_token` makes."""
    return _FORM.fullmatch(text) is not None


def form_token(visit: str) -> str:
    """Return what a write must say besides its cookies: only a page of ours, in this browser, can know it."""
    return hmac.new(visit.encode(), b"prefsvm form", hashlib.sha256).hexdigest()


def is_form_token(said: str, visit: str | None) -> bool:
    """Tell whether a write says what belongs to the cookie that came with it."""
    return visit is not None and hmac.compare_digest(said.encode("utf-8", "replace"), form_token(visit).encode())


class Sessions:
    """Begins sessions, knows them again, and ends them.

    Parameters
    ----------
    database : Database
        Shows all projects.
    authenticator : Authenticator
        Checks keys, and counts what is no session of anybody as it counts wrong keys.
    seconds : float
        How long a session lasts.
    """

    def __init__(self, database: Database, authenticator: Authenticator, seconds: float) -> None:
        self._database = database
        self._authenticator = authenticator
        self._seconds = seconds
        self._seen: OrderedDict[str, None] = OrderedDict()

    @property
    def seconds(self) -> float:
        """How long a session lasts."""
        return self._seconds

    async def begin(self, key: str, address: str) -> str:
        """Return the token of a new session.

        Raises
        ------
        Unauthorized, TooManyRequests
            As a call with this key.
        """
        caller = await self._authenticator.caller_of([b"Bearer " + key.encode("utf-8", "replace")], address)
        token = new_token()
        await to_thread.run_sync(self._add, _sha256(token), caller)
        return token

    async def caller_of(self, token: str, address: str) -> Caller | None:
        """Return whose session this is; None if it has ended, or never was.

        Raises
        ------
        TooManyRequests
            If the project has no request left, or the address has guessed too often.
        """
        session_id = _sha256(token)
        if session_id not in self._seen:
            self._authenticator.refuse_guesses(address)
        found = await to_thread.run_sync(self._find, session_id)
        caller = None if found is None else self._authenticator.admit(*found)
        if caller is None:
            self._seen.pop(session_id, None)
            self._authenticator.note_guess(address)
            return None
        self._seen[session_id] = None
        if len(self._seen) > MOST_SEEN:
            self._seen.popitem(last=False)
        return caller

    def end(self, token: str) -> None:
        """End a session, if there is one."""
        with self._database.transaction() as session:
            SessionDirectory(session).delete(_sha256(token))

    def end_all(self, caller: Caller) -> None:
        """End all sessions that began with the key of a caller."""
        if caller.key_id is not None:
            with self._database.transaction() as session:
                SessionDirectory(session).delete_of_key(caller.key_id)

    def _add(self, session_id: str, caller: Caller) -> None:
        assert caller.key_id is not None  # noqa: S101 (a key was sent)
        with self._database.transaction() as session:
            SessionDirectory(session).add(session_id, caller.project_id, caller.key_id, self._seconds)

    def _find(self, session_id: str) -> tuple[str, LiveKey | None] | None:
        with self._database.transaction() as session:
            key_id = SessionDirectory(session).key_of(session_id)
            return None if key_id is None else (key_id, KeyDirectory(session).live(key_id))


def _sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()

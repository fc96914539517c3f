"""Tells who calls, by the key that was sent. Cheap: a key that was seen in the last seconds costs one hash."""

from __future__ import annotations

import hmac
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from anyio import to_thread

from service.access.caller import LOCAL, SCOPES, Caller
from service.access.errors import TooManyRequests, Unauthorized
from service.access.keys import MAX_KEY_LENGTH, ApiKey
from service.access.repository import KeyDirectory, LiveKey
from service.db.session import Database
from service.db.tables import DEFAULT_PROJECT
from service.single_flight import SingleFlight

KEY_CACHE_SECONDS = 5.0
"""How long a key that was looked up is not looked up again: a revoked one works for so long at most."""
KEY_CACHE_SIZE = 10_000
WRONG_KEYS_A_MINUTE = 20
"""Wrong keys from one address after which further ones are refused without being looked up."""
ADDRESSES = 10_000
"""Addresses whose wrong keys are counted."""
UNKNOWN_DIGEST = bytes(32)
"""Compared with where there is no key of that id, so that the answer takes as long."""


@dataclass(slots=True)
class TokenBucket:
    """Allows `rate` requests a second on average, and as many at once (at least one) after a pause."""

    rate: float
    tokens: float = field(init=False)
    filled_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.tokens, self.filled_at = self.size, -1.0

    @property
    def size(self) -> float:
        """Requests that may come at once."""
        return max(1.0, self.rate)

    def seconds_to_wait(self, now: float) -> float:
        """Take one token and return 0, or return in how many seconds there will be one."""
        if self.filled_at >= 0:
            self.tokens = min(self.size, self.tokens + (now - self.filled_at) * self.rate)
        self.filled_at = now
        if self.tokens < 1:
            return (1 - self.tokens) / self.rate
        self.tokens -= 1
        return 0.0


class WrongKeys:
    """Counts the wrong keys of each address in the running minute."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def seconds_blocked(self, address: str, now: float) -> float:
        """Return for how long the address is not listened to any more; 0 if it is."""
        began, count = self._counts.get(address, (now, 0))
        return max(0.0, began + 60 - now) if count >= WRONG_KEYS_A_MINUTE else 0.0

    def add(self, address: str, now: float) -> None:
        """Note a wrong key."""
        began, count = self._counts.pop(address, (now, 0))
        if now - began >= 60:
            began, count = now, 0
        self._counts[address] = (began, count + 1)
        if len(self._counts) > ADDRESSES:
            self._counts.popitem(last=False)


@dataclass(frozen=True, slots=True)
class _Known:
    """A key as it was when it was looked up."""

    caller: Caller
    secret_sha256: bytes
    requests_per_second: float | None
    fresh_until: float


class Authenticator:
    """Finds the caller of a request.

    Everything but the look-up of a key happens on the event loop, and needs no lock.

    Parameters
    ----------
    database : Database
    keys_required : bool
        Whether a request without a key is refused. Else it acts for the default project with every scope.
    bootstrap_key : ApiKey or None
        A key that is not in the database: an admin of the default project with every scope.
    clock : callable, default=time.monotonic
        Seconds.
    """

    def __init__(
        self,
        database: Database,
        *,
        keys_required: bool,
        bootstrap_key: ApiKey | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._keys_required = keys_required
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._looking_up: SingleFlight[str, _Known | None] = SingleFlight()
        self._buckets: dict[str, TokenBucket] = {}
        self._wrong = WrongKeys()
        self._bootstrap: _Known | None = None
        self._bootstrap_id: str | None = None
        if bootstrap_key is not None:
            caller = Caller(DEFAULT_PROJECT, frozenset(SCOPES), bootstrap_key.id)
            self._bootstrap = _Known(caller, bootstrap_key.sha256, None, float("inf"))
            self._bootstrap_id = bootstrap_key.id

    async def caller_of(self, authorizations: Sequence[bytes], address: str) -> Caller:
        """Return who sent a request.

        Parameters
        ----------
        authorizations : sequence of bytes
            Its ``Authorization`` headers.
        address : str
            Where it came from.

        Raises
        ------
        Unauthorized
            If a key is needed and none was sent, or if what was sent is not a live key.
        TooManyRequests
            If the project has no request left, or the address has sent too many wrong keys.
        """
        if not authorizations and not self._keys_required:
            return LOCAL
        now = self._clock()
        key = _read(authorizations)
        known = None
        if key is not None:
            known = self._bootstrap if key.id == self._bootstrap_id else self._known.get(key.id)
            if known is None or known.fresh_until < now:
                # An address that only guesses keeps nobody busy; a key that was right before is looked up all the same.
                seen = known is not None
                if not seen:
                    self._refuse_blocked(address, now)
                known = await self._looking_up.do(key.id, lambda: self._load(key))
        digest = UNKNOWN_DIGEST if known is None else known.secret_sha256
        if not hmac.compare_digest(digest, UNKNOWN_DIGEST if key is None else key.sha256) or known is None:
            self._refuse_blocked(address, now)
            if authorizations:
                self._wrong.add(_network(address), now)
            raise Unauthorized("send a live API key as `Authorization: Bearer pfs_…`")
        if known.requests_per_second is not None:
            self._take_token(known.caller.project_id, known.requests_per_second, now)
        return known.caller

    def admit(self, key_id: str, live: LiveKey | None) -> Caller | None:
        """Return the caller whose key has begun a session; None if it is the key of nobody any more.

        Raises
        ------
        TooManyRequests
            If the project has no request left.
        """
        if self._bootstrap is not None and key_id == self._bootstrap_id:
            return self._bootstrap.caller
        if live is None:
            return None
        rate = live.limits.get("requests_per_second")
        if rate is not None:
            self._take_token(live.project_id, rate, self._clock())
        return Caller(live.project_id, frozenset(live.scopes), live.id)

    def refuse_guesses(self, address: str) -> None:
        """Raise `TooManyRequests` if an address has sent too many wrong keys, or sessions."""
        self._refuse_blocked(address, self._clock())

    def note_guess(self, address: str) -> None:
        """Count a session that nobody has, as a wrong key is."""
        self._wrong.add(_network(address), self._clock())

    def _refuse_blocked(self, address: str, now: float) -> None:
        blocked = self._wrong.seconds_blocked(_network(address), now)
        if blocked:
            raise TooManyRequests("this address has sent too many wrong keys", retry_after=int(blocked) + 1)

    def _take_token(self, project_id: str, rate: float, now: float) -> None:
        bucket = self._buckets.get(project_id)
        if bucket is None or bucket.rate != rate:
            bucket = self._buckets[project_id] = TokenBucket(rate)
        wait = bucket.seconds_to_wait(now)
        if wait:
            detail = f"the project may send {rate:g} requests a second"
            raise TooManyRequests(detail, retry_after=int(wait) + 1)

    async def _load(self, key: ApiKey) -> _Known | None:
        asked = self._clock()
        live = await to_thread.run_sync(self._find, key)
        if live is None:
            self._known.pop(key.id, None)
            return None
        known = _Known(
            caller=Caller(live.project_id, frozenset(live.scopes), live.id),
            secret_sha256=live.secret_sha256,
            requests_per_second=live.limits.get("requests_per_second"),
            fresh_until=asked + min(KEY_CACHE_SECONDS, live.seconds_left or KEY_CACHE_SECONDS),
        )
        self._known[key.id] = known
        if len(self._known) > KEY_CACHE_SIZE:
            self._known.popitem(last=False)
        return known

    def _find(self, key: ApiKey) -> LiveKey | None:
        with self._database.transaction() as session:
            keys = KeyDirectory(session)
            live = keys.live(key.id)
            if live is not None and hmac.compare_digest(live.secret_sha256, key.sha256):
                keys.note_use(key.id)
            return live


def _read(authorizations: Sequence[bytes]) -> ApiKey | None:
    """Return the key in the one ``Authorization`` header; None if there is none, several, or something else in it."""
    if len(authorizations) != 1 or len(authorizations[0]) > MAX_KEY_LENGTH + 20:
        return None
    scheme, _, text = authorizations[0].decode("latin-1").partition(" ")
    return ApiKey.parse(text.strip()) if scheme.lower() == "bearer" else None


def _network(address: str) -> str:
    """Return whom an address belongs to: one of version 6 has a whole /64 to itself."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else address

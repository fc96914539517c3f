"""What can go wrong with keys, projects and their limits."""

from __future__ import annotations

from collections.abc import Mapping

from service.errors import NotFound, Problem


class Unauthorized(Problem):
    """The call needs an API key: none was sent, or it is unknown, revoked or expired. Which of these is not said."""

    type = "unauthorized"
    title = "A valid API key is needed"
    status = 401

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": 'Bearer realm="prefsvm"'})


class Forbidden(Problem):
    """The key is valid but lacks the scope that the call needs."""

    type = "forbidden"
    title = "The key may not do this"
    status = 403


class OriginNotAllowed(Problem):
    """A page of another site called a service that asks for no key."""

    type = "origin-not-allowed"
    title = "Origin not allowed"
    status = 403


class HostNotAllowed(Problem):
    """The Host header names none of the names that this service answers to."""

    type = "host-not-allowed"
    title = "Host not allowed"
    status = 400


class TooManyRequests(Problem):
    """The project has used up its requests of this second, or an address has sent too many wrong keys."""

    type = "too-many-requests"
    title = "Too many requests"
    status = 429

    def __init__(self, detail: str, *, retry_after: int) -> None:
        super().__init__(detail, headers=_retry_after(retry_after))


class QueueFull(Problem):
    """The project has as many jobs in the queue as its limits allow."""

    type = "queue-full"
    title = "The project's queue is full"
    status = 429

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers=_retry_after(30))


class StorageQuotaExceeded(Problem):
    """The project stores as many bytes as its limits allow. Deleting data sets or models makes room."""

    type = "storage-quota-exceeded"
    title = "The project's storage is full"
    status = 403


class KeyNotFound(NotFound):
    """The project has no key with this id."""

    type = "key-not-found"
    title = "No such key"


class KeyNotLive(Problem):
    """The key was revoked or has expired."""

    type = "key-not-live"
    title = "The key is not in use any more"
    status = 409


class ProjectNotFound(NotFound):
    """There is no such project, or the key is not of it."""

    type = "project-not-found"
    title = "No such project"


class ProjectExists(Problem):
    """Another project has this name."""

    type = "project-exists"
    title = "The name is taken"
    status = 409


class ConfigurationError(Exception):
    """Raised at start when the settings would let everybody in, or nobody."""


def _retry_after(seconds: int) -> Mapping[str, str]:
    return {"Retry-After": str(max(1, seconds))}

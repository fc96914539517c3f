"""What can go wrong with keys, projects and their limits."""

from __future__ import annotations

from service.errors import NotFound, Problem


class Unauthorized(Problem, type="unauthorized", title="A valid API key is needed", status=401):
    """The call needs an API key: none was sent, or it is unknown, revoked or expired. Which of these is not said."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": 'Bearer realm="prefsvm"'})


class Forbidden(Problem, type="forbidden", title="The key may not do this", status=403):
    """The key is valid but lacks the scope that the call needs."""


class OriginNotAllowed(Problem, type="origin-not-allowed", title="Origin not allowed", status=403):
    """A page of another site called a service that asks for no key."""


class FormTokenNeeded(Problem, type="form-token-needed", title="The token of the page is needed", status=403):
    """A write in a session of the pages does not show that a page of this service has sent it."""


class HostNotAllowed(Problem, type="host-not-allowed", title="Host not allowed", status=400):
    """The Host header names none of the names that this service answers to."""


class TooManyRequests(Problem, type="too-many-requests", title="Too many requests", status=429):
    """The project has used up its requests of this second, or an address has sent too many wrong keys."""

    def __init__(self, detail: str, *, retry_after: int) -> None:
        super().__init__(detail, headers={"Retry-After": str(max(1, retry_after))})


class QueueFull(Problem, type="queue-full", title="The project's queue is full", status=429, retry_after=30):
    """The project has as many jobs in the queue as its limits allow."""


class StorageQuotaExceeded(Problem, type="storage-quota-exceeded", title="The project's storage is full", status=403):
    """The project stores as many bytes as its limits allow. Deleting data sets or models makes room."""


class KeyNotFound(NotFound, type="key-not-found", title="No such key", detail="the project has no key with this id"):
    """The project has no key with this id."""


class KeyNotLive(Problem, type="key-not-live", title="The key is not in use any more", status=409):
    """The key was revoked or has expired."""


class ProjectNotFound(NotFound, type="project-not-found", title="No such project", detail="no project has this id"):
    """There is no such project, or the key is not of it."""


class ProjectExists(Problem, type="project-exists", title="The name is taken", status=409):
    """Another project has this name."""

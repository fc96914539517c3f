"""The root of every error that the API answers with. Each resource derives its own in its ``errors.py``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self


@dataclass(frozen=True)
class FieldError:
    """One thing that is wrong with one field of a request.

    Parameters
    ----------
    field : str
        Path of the field: ``body.objective.target``, ``query.limit``, ``form.file``.
    message : str
        What is wrong and what was expected. Never the value that was sent.
    """

    field: str
    message: str


class Problem(Exception):  # noqa: N818 (named in the words of RFC 9457)
    """An error as RFC 9457 describes it: `type`, `title` and `status` belong to the class, the rest to the case.

    A class says what belongs to it in the line that declares it, ``retry_after`` (seconds) where it makes sense to come
    again, and ``detail`` where that is the same in every case; what it does not say is as in its base.

    Parameters
    ----------
    detail : str, optional
        What was wrong here and what was expected. Never a value that was sent. By default what the class says.
    errors : sequence of FieldError, optional
        The fields at fault.
    headers : mapping of str to str, optional
        Further headers of the answer, such as ``Retry-After``.
    extensions : mapping of str to object, optional
        Further members of the body, such as the line of a file.
    """

    type: ClassVar[str] = "about:blank"
    title: ClassVar[str] = "Internal error"
    status: ClassVar[int] = 500
    retry_after: ClassVar[int | None] = None
    usual_detail: ClassVar[str | None] = None

    def __init_subclass__(
        cls,
        *,
        type: str | None = None,
        title: str | None = None,
        status: int | None = None,
        retry_after: int | None = None,
        detail: str | None = None,
    ) -> None:
        """Keep what the declaration says."""
        said = {"type": type, "title": title, "status": status, "retry_after": retry_after, "usual_detail": detail}
        for name, value in said.items():
            if value is not None:
                setattr(cls, name, value)

    def __init__(
        self,
        detail: str | None = None,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        extensions: Mapping[str, object] | None = None,
    ) -> None:
        self.detail = detail or self.usual_detail or self.title
        super().__init__(self.detail)
        self.errors = tuple(errors)
        self.headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        self.headers |= headers or {}
        self.extensions = dict(extensions or {})


class NotFound(Problem, type="not-found", title="Not found", status=404):
    """Nothing of that id exists. An id of the wrong form gets the same answer as an unknown one."""


class InvalidRequest(Problem, type="invalid-request", title="Invalid request", status=422):
    """The request was understood, but a field has a value that cannot be used."""

    @classmethod
    def of(cls, field: str, message: str) -> Self:
        """Return the problem that one field has."""
        return cls(f"{field}: {message}", errors=[FieldError(field, message)])


class IdempotencyConflict(Problem, type="idempotency-conflict", title="Idempotency key already used", status=409):
    """The ``Idempotency-Key`` was used before, with another request or for something since deleted."""


class StorageFull(Problem, type="storage-full", title="Storage is full", status=503, retry_after=60):
    """The disk or quota of the blob store, or the disk of the database, is used up: somebody has to make room there."""


class Busy(Problem, type="busy", title="Too much at once", status=503, retry_after=1):
    """The requests that are being served take all the memory, or all the turns, that there are for such."""

"""Who calls: the project that a request acts for, and what it may do there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from service.db.tables import DEFAULT_PROJECT

Scope = Literal["read", "write", "admin"]
"""``read``: look and predict; ``write``: make, change and delete; ``admin``: keys and projects. No scope includes
another."""
SCOPES: tuple[Scope, ...] = get_args(Scope)


@dataclass(frozen=True, slots=True)
class Caller:
    """What is known of whoever sent a request. Services are handed its `project_id` and never see another's rows.

    Parameters
    ----------
    project_id : str
    scopes : frozenset of str
    key_id : str or None
        Public part of the key; None where no key was needed.
    """

    project_id: str
    scopes: frozenset[Scope]
    key_id: str | None

    @property
    def in_default_project(self) -> bool:
        """Whether it acts for the project whose admins run the installation."""
        return self.project_id == DEFAULT_PROJECT

    @property
    def runs_installation(self) -> bool:
        """Whether it may see and change all projects: an admin of the default project."""
        return self.in_default_project and "admin" in self.scopes


LOCAL = Caller(DEFAULT_PROJECT, frozenset(SCOPES), None)
"""Whoever calls a service that listens on loopback only and asks for no keys."""

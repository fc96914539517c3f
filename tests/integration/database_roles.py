"""Addresses of test databases for the roles that the processes of the product work as."""

from __future__ import annotations

from service.db import roles
from service.local.servers import ROLE
from service.settings import Settings

OF_MODULE = {"service.dispatcher": roles.DISPATCHER, "worker.main": roles.WORKER}


def as_role(url: str | None, role: str) -> str:
    """Return the address of a database for another role than its owner."""
    assert url is not None
    owner = f"//{ROLE}@"
    assert owner in url
    return url.replace(owner, f"//{role}@")


def as_api(settings: Settings) -> dict[str, str]:
    """Return the addresses that the API is given, by the names of the settings."""
    url = settings.database_url
    return {"database_url": as_role(url, roles.API), "system_database_url": as_role(url, roles.SYSTEM)}

"""``prefsvm keys``, ``prefsvm projects``, ``prefsvm webhooks``: who may call, how much, and who is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import quote

import typer

from service.cli.support import DEFAULT_URL, Url, open_client, print_table, short_time

keys_app = typer.Typer(help="API keys of a project; the commands but `new` need one with the scope admin.")
projects_app = typer.Typer(help="Projects and their limits, for admins of the default project.")

LimitOption = Annotated[
    list[str],
    typer.Option(
        help="name=number or name=none, of requests_per_second, queued_jobs, running_jobs, stored_bytes; may be "
        "repeated. What is not named is as in new projects."
    ),
]


@keys_app.command("new")
def keys_new() -> None:
    """Print a new key for PREFSVM_BOOTSTRAP_KEY, the first key of an installation. Asks no service."""
    from service.access.keys import ApiKey

    print(ApiKey.new().text)


@keys_app.command("create")
def keys_create(
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scope: Annotated[list[str], typer.Option(help="read, write or admin; may be repeated.")] = ["read"],  # noqa: B006
    days: Annotated[float | None, typer.Option(help="It expires after so many days.", show_default="never")] = None,
    project: Annotated[str | None, typer.Option(help="Id of its project.", show_default="your own")] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Make a key and print it: it cannot be shown again."""
    body = {"name": name, "scopes": scope, "expires_in_days": days, "project": project}
    with open_client(url) as client:
        print(client.post("/keys", body)["key"])


@keys_app.command("list")
def keys_list(url: Url = DEFAULT_URL) -> None:
    """List the keys of your project."""
    with open_client(url) as client:
        found = list(client.items("/keys"))
    rows = [
        (key["id"], key["name"], " ".join(key["scopes"]), *(short_time(key[name]) for name in _KEY_TIMES))
        for key in found
    ]
    print_table("", ("key", "name", "scopes", "created", "last used", "expires", "revoked"), rows, below=3)


_KEY_TIMES = ("created_at", "last_used_at", "expires_at", "revoked_at")


@keys_app.command("rotate")
def keys_rotate(
    key: Annotated[str, typer.Argument(help="How the key begins: pfs_ and 8 characters.")],
    grace: Annotated[float, typer.Option(help="Seconds that the old key goes on working.")] = 86400,
    url: Url = DEFAULT_URL,
) -> None:
    """Replace a key: print a new one like it; the old one works until the grace is over."""
    with open_client(url) as client:
        print(client.post(f"/keys/{quote(key, safe='')}/rotate?grace_seconds={grace:g}")["key"])


@keys_app.command("revoke")
def keys_revoke(
    key: Annotated[str, typer.Argument(help="How the key begins: pfs_ and 8 characters.")], url: Url = DEFAULT_URL
) -> None:
    """End a key; it is refused within 5 seconds."""
    with open_client(url) as client:
        client.delete(f"/keys/{quote(key, safe='')}")
    print(f"{key} is revoked")


@projects_app.command("create")
def projects_create(
    name: Annotated[str, typer.Argument(help="Its name.")],
    limit: LimitOption = [],  # noqa: B006
    url: Url = DEFAULT_URL,
) -> None:
    """Make a project and print its id."""
    with open_client(url) as client:
        print(client.post("/projects", {"name": name, "limits": _limits(limit)})["id"])


@projects_app.command("list")
def projects_list(url: Url = DEFAULT_URL) -> None:
    """List projects with their limits."""
    with open_client(url) as client:
        _print_projects(list(client.items("/projects")))


@projects_app.command("show")
def projects_show(project: Annotated[str, typer.Argument(help="Id of the project.")], url: Url = DEFAULT_URL) -> None:
    """Show the limits of a project."""
    with open_client(url) as client:
        _print_projects([client.get(f"/projects/{quote(project, safe='')}")])


def _print_projects(found: Sequence[dict[str, Any]]) -> None:
    names = ("requests_per_second", "queued_jobs", "running_jobs", "stored_bytes")
    rows = [
        (
            p["id"],
            p["name"],
            short_time(p["created_at"]),
            *("" if p["limits"][n] is None else p["limits"][n] for n in names),
        )
        for p in found
    ]
    print_table("", ("project", "name", "created", "requests/s", "queued", "running", "bytes"), rows, below=4)


@projects_app.command("limit")
def projects_limit(
    project: Annotated[str, typer.Argument(help="Id of the project.")], limit: LimitOption, url: Url = DEFAULT_URL
) -> None:
    """Replace the limits of a project."""
    with open_client(url) as client:
        print(client.patch(f"/projects/{quote(project, safe='')}", {"limits": _limits(limit)})["limits"])


@projects_app.command("usage")
def projects_usage(url: Url = DEFAULT_URL) -> None:
    """Show what your own project uses of what it may."""
    with open_client(url) as client:
        found = client.get("/limits")
    rows = [(name, used, found["limits"][name] or "no limit") for name, used in found["usage"].items()]
    print_table(found["project_id"], ("", "used", "limit"), rows)
    kept = [(name.removesuffix("_days"), days) for name, days in found["retention"].items() if days is not None]
    if kept:
        print_table("deleted by itself", ("", "after days"), kept)


def _limits(given: Sequence[str]) -> dict[str, float | int | None]:
    from service.cli.client import parse_params

    limits = {}
    try:
        for name, value in parse_params(list(given)).items():
            limits[name] = None if value == "none" else value
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return limits


webhooks_app = typer.Typer(help="Addresses that are told when a job ends (Standard Webhooks).")


@webhooks_app.command("create")
def webhooks_create(
    address: Annotated[str, typer.Argument(help="https://…, a host with public addresses only.")],
    url: Url = DEFAULT_URL,
) -> None:
    """Register an address, and print the secret that its messages are signed with: it cannot be shown again."""
    with open_client(url) as client:
        made = client.post("/webhooks", {"url": address})
    print_table("", ("webhook", "secret"), [(made["id"], made["secret"])])


@webhooks_app.command("list")
def webhooks_list(url: Url = DEFAULT_URL) -> None:
    """List the addresses."""
    with open_client(url) as client:
        found = list(client.items("/webhooks"))
    rows = [(w["id"], short_time(w["created_at"]), w["url"]) for w in found]
    print_table("", ("webhook", "created", "address"), rows, below=1)


@webhooks_app.command("deliveries")
def webhooks_deliveries(
    webhook: Annotated[str, typer.Argument(help="Id of the webhook.")], url: Url = DEFAULT_URL
) -> None:
    """List what was sent to an address, or will be."""
    with open_client(url) as client:
        found = list(client.items(f"/webhooks/{quote(webhook, safe='')}/deliveries"))
    rows = [
        (d["job_id"], d["job_status"], d["status"], d["attempts"], short_time(d["delivered_at"]), d["last_error"] or "")
        for d in found
    ]
    print_table("", ("job", "job is", "delivery", "attempts", "delivered", "last error"), rows, below=2)


@webhooks_app.command("delete")
def webhooks_delete(webhook: Annotated[str, typer.Argument(help="Id of the webhook.")], url: Url = DEFAULT_URL) -> None:
    """Delete a webhook: its address is told nothing more."""
    with open_client(url) as client:
        client.delete(f"/webhooks/{quote(webhook, safe='')}")
    print(f"{webhook} is deleted")

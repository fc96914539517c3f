"""Settings, keys and projects: shown as far as the key of the session goes, secrets once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from access_support import make_key, make_tenant
from api_support import api_client
from pages_support import Place, Reader, Visitor
from sqlalchemy import text

from service.access.caller import Scope
from service.access.sessions import COOKIE
from service.db.session import Database
from service.db.tables import DEFAULT_PROJECT, WebhookDeliveryRow
from service.pages import forms
from service.settings import Settings


@pytest.fixture(scope="module")
def keyed(module_settings: Settings, module_dir: Path) -> Iterator[Place]:
    database = Database(str(module_settings.database_url))
    with api_client(module_settings, keys_required=True, retain_jobs_days=30.0) as client:
        yield Place(client, database, module_dir, "")
    database.close()


def signed_in(keyed: Place, *scopes: Scope, project: str = DEFAULT_PROJECT) -> Visitor:
    keyed.client.cookies.clear()
    visitor = Visitor(keyed.client)
    page = visitor.open("/ui/keys" if "read" not in scopes else "/ui/settings")
    visitor.send(page, "/ui/sign-in", key=make_key(keyed.database, project, *scopes))
    return visitor


def sections(page: Reader) -> set[str]:
    return {link.rpartition("ui")[2] for link in page.links if link.endswith(("/settings", "/keys"))}


def test_what_a_key_may_not_do_is_not_shown(keyed: Place) -> None:
    reader = signed_in(keyed, "read")
    page = reader.open("/ui/settings")
    assert sections(page) == {"/settings"}
    assert {form["action"].rpartition("/")[2] for form in page.forms} == {"sign-out"}
    token = page.forms[0]["fields"][forms.TOKEN]
    for path in ("/ui/keys", "/ui/projects", "/ui/settings/webhooks", "/ui/keys/pfs_00000000/revoke"):
        assert keyed.client.post(path, data={forms.TOKEN: token, "url": "https://example.com/"}).status_code == 403
    reader.open("/ui/keys", 403)
    admin = signed_in(keyed, "admin")
    assert sections(admin.open("/ui/keys")) == {"/keys"}  # it may look at nothing else
    admin.open("/ui/settings", 403)


def test_use_limits_and_how_long_things_are_kept(keyed: Place) -> None:
    page = signed_in(keyed, "read").open("/ui/settings")
    assert "Jobs that wait: 0" in page.text
    assert "A job that has ended: 30 days" in page.text
    assert "Feedback: until somebody deletes it" in page.text
    assert keyed.client.get("/limits").json()["retention"] == {
        **{"jobs_days": 30.0, "events_days": None, "models_days": None},
        **{"datasets_days": None, "feedback_days": None},
    }


def test_a_key_is_shown_once_used_rotated_and_revoked(keyed: Place) -> None:
    visitor = signed_in(keyed, "read", "admin")
    page = visitor.open("/ui/keys")
    made = visitor.send(page, "/ui/keys", name="mail server", scope="read", days="30")
    (key,) = [word for word in made.text.split() if word.startswith("pfs_") and len(word) > 30]
    bearer = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=str(keyed.client.base_url), trust_env=False) as other:
        assert other.get("/datasets", headers=bearer).status_code == 200
    # Loading the page of it again, or any other, shows it no more.
    visitor.at = "/ui/keys"
    again = visitor.send(page, "/ui/keys", 409, name="mail server", scope="read", days="30")
    assert key not in again.text
    listed = visitor.open("/ui/keys")
    assert key not in visitor.answer.text
    identity = key.rpartition("_")[0]
    assert f"mail server {identity}" in listed.text
    rotated = visitor.send(listed, f"/{identity}/rotate")
    assert len([word for word in rotated.text.split() if word.startswith("pfs_") and len(word) > 30]) == 1
    listed = visitor.send(visitor.open("/ui/keys"), f"/{identity}/revoke")
    assert f"mail server {identity} revoked" in listed.text
    (ours,) = [each for each in keyed.client.get("/keys").json()["items"] if each["id"] == identity]
    assert ours["revoked_at"] is not None


@pytest.mark.parametrize(
    "wrong", [{"name": ""}, {"scope": None}, {"scope": "all"}, {"days": "x"}, {"days": "-1"}, {"name": "a\u202eb"}]
)
def test_a_key_that_cannot_be(keyed: Place, wrong: dict[str, str | None]) -> None:
    visitor = signed_in(keyed, "read", "admin")
    asked: dict[str, str | None] = {"name": "mail", "scope": "read", "days": ""}
    visitor.send(visitor.open("/ui/keys"), "/ui/keys", 422, **asked | wrong)
    assert 'role="alert"' in visitor.answer.text
    assert "body." not in visitor.answer.text


def test_whoever_runs_the_installation_makes_and_limits_projects(keyed: Place) -> None:
    visitor = signed_in(keyed, "read", "admin")
    page = visitor.send(visitor.open("/ui/keys"), "/ui/projects", name="<b>letters</b>")
    assert "<b>letters</b>" in page.text
    assert "<b>letters" not in visitor.answer.text
    made = next(each for each in keyed.client.get("/projects").json()["items"] if "letters" in each["name"])
    visitor.send(page, f"/{made['id']}/limits", queued_jobs="7", requests_per_second="2.5", stored_bytes="")
    limits = keyed.client.get(f"/projects/{made['id']}").json()["limits"]
    assert (limits["queued_jobs"], limits["requests_per_second"], limits["stored_bytes"]) == (7, 2.5, None)
    page = visitor.open("/ui/keys")
    for wrong in ("-1", "1.5", "1e30", "x"):
        visitor.at = "/ui/keys"
        visitor.send(page, f"/{made['id']}/limits", 422, queued_jobs=wrong)
    visitor.at = "/ui/keys"
    visitor.send(page, "/ui/projects", 409, name="<b>letters</b>", once="")
    key = visitor.send(page, "/ui/keys", name="theirs", scope="read", project=made["id"], once="")
    assert "The key theirs" in key.text


def test_an_admin_of_another_project_sees_that_one_only(keyed: Place) -> None:
    theirs = make_tenant(keyed.database, "theirs")
    visitor = signed_in(keyed, "read", "admin", project=theirs.project_id)
    page = visitor.open("/ui/keys")
    assert "theirs" in page.text
    assert DEFAULT_PROJECT not in page.text
    assert not [form for form in page.forms if "projects" in form["action"]]
    token = page.forms[0]["fields"][forms.TOKEN]
    assert keyed.client.post("/ui/projects", data={forms.TOKEN: token, "name": "mine"}).status_code == 403
    path = f"/ui/projects/{DEFAULT_PROJECT}/limits"
    assert keyed.client.post(path, data={forms.TOKEN: token}).status_code == 403


def test_a_webhook_with_its_secret_once_and_what_was_sent(keyed: Place) -> None:
    visitor = signed_in(keyed, "read", "write")
    page = visitor.open("/ui/settings")
    made = visitor.send(page, "/webhooks", url="https://example.com/told")
    assert "whsec_" in made.text
    assert "whsec_" not in visitor.open("/ui/settings").text
    webhook = keyed.client.get("/webhooks").json()["items"][0]["id"]
    with keyed.database.transaction() as session:
        failed = {"job_status": "failed", "attempts": 3, "last_error": "<b>refused</b>\u202e"}
        session.add(WebhookDeliveryRow(id="msg_1", webhook_id=webhook, job_id="job_1", **failed))
    page = visitor.open(next(link for link in visitor.open("/ui/settings").links if webhook in link))
    assert "pending a job that failed" in page.text
    assert "3 tries, the next one is due · <b>refused</b>⟨U+202E⟩" in page.text
    for wrong in ("http://example.com/", "https://127.0.0.1/", "", "x" * 3000):
        visitor.at = "/ui/settings"
        visitor.send(visitor.open("/ui/settings"), "/webhooks", 422, url=wrong)
        assert 'role="alert"' in visitor.answer.text
        assert 'aria-describedby="url-wrong"' in visitor.answer.text  # beside the field, which keeps what was written
        assert Reader(visitor.answer.text).form("/webhooks")["fields"]["url"] == wrong
    visitor.send(visitor.open("/ui/settings"), "/delete")
    visitor.open(f"/ui/settings/webhooks/{webhook}", 404)


def test_signing_out_everywhere_from_the_settings(keyed: Place) -> None:
    visitor = signed_in(keyed, "read")
    assert keyed.client.cookies[COOKIE]
    page = visitor.open("/ui/settings")
    key = page.text.partition("signed in with the key ")[2].split()[0]
    visitor.send(page, "/sign-out", everywhere="yes")
    assert visitor.at == "/ui/sign-in"
    with keyed.database.transaction() as session:
        left = session.execute(text("SELECT count(*) FROM sessions WHERE key_id = :key"), {"key": key}).scalar_one()
    assert left == 0


def test_without_keys_the_settings_are_there_all_the_same(place: Place) -> None:
    page = Visitor(place.client).open("/ui/settings")
    assert sections(page) == {"/settings", "/keys"}
    assert "Sign out" not in page.text
    assert "A new key" in Visitor(place.client).open("/ui/keys").text

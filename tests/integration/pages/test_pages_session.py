"""Who sees a page, who may press a button, and what a page may load."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from access_support import bearer, make_key, make_tenant
from api_support import api_client, store_dataset
from fastapi.routing import iter_route_contexts
from pages_support import Visitor
from sqlalchemy import text

from service.access.authenticator import WRONG_KEYS_A_MINUTE
from service.access.caller import LOCAL
from service.access.service import KeyService
from service.access.sessions import COOKIE, VISIT_COOKIE
from service.app import create_app
from service.db.session import Database, acting_for
from service.db.tables import DEFAULT_PROJECT
from service.pages import forms, static_files
from service.settings import Settings


@pytest.fixture
def keyed(settings: Settings, database: Database) -> Iterator[httpx.Client]:
    with api_client(settings, keys_required=True) as client:
        yield client


def sign_in(client: httpx.Client, key: str, page: str = "/ui") -> Visitor:
    visitor = Visitor(client)
    asked = visitor.open(page)
    assert visitor.at.startswith("/ui/sign-in")
    visitor.send(asked, "/ui/sign-in", key=key)
    return visitor


def sessions(database: Database) -> int:
    with database.transaction() as session:
        return session.execute(text("SELECT count(*) FROM sessions")).scalar_one()


def test_browsers_go_to_the_pages_and_programs_to_the_calls(client: httpx.Client) -> None:
    assert client.get("/", headers={"Accept": "text/html,*/*;q=0.8"}).headers["location"] == "ui"
    assert client.get("/").headers["location"] == "docs"


def test_the_head_of_a_page_is_as_of_the_page(client: httpx.Client) -> None:
    assert client.head("/", headers={"Accept": "text/html"}).headers["location"] == "ui"
    assert client.head("/").headers["location"] == "docs"
    for path, status in (("/ui", 200), ("/ui/models", 200), ("/ui/models/none", 404), ("/ui/static/pages.css", 200)):
        head = client.head(path)
        assert (head.status_code, head.content) == (status, b"")
        assert head.headers["content-type"] == client.get(path).headers["content-type"]
    assert client.head("/ui/example").status_code == 404


def test_pages_can_be_left_out(settings: Settings) -> None:
    with api_client(settings, ui=False) as client:
        assert client.get("/", headers={"Accept": "text/html"}).headers["location"] == "docs"
        for path in ("/ui", "/ui/sign-in", "/ui/static/pages.css"):
            assert client.get(path).status_code == 404
    with api_client(settings, docs=False) as client:
        assert client.get("/").headers["location"] == "ui"


def test_a_session_from_sign_in_to_sign_out(keyed: httpx.Client, database: Database) -> None:
    key = make_key(database, DEFAULT_PROJECT, "read", "write")
    dataset = store_dataset(database)["id"]
    visitor = sign_in(keyed, key, "/ui/datasets?shown=all")
    assert visitor.at == "/ui/datasets?shown=all"  # where he wanted to go
    cookie = keyed.cookies[COOKIE]
    with database.transaction() as session:
        dump = str(session.execute(text("SELECT * FROM sessions")).all())
    assert cookie not in dump
    assert key not in dump
    # The session is good for the calls that pages make, too.
    assert keyed.get(f"/datasets/{dataset}").status_code == 200
    second = httpx.Cookies(keyed.cookies)
    visitor.send(visitor.open("/ui"), "/ui/sign-out", everywhere=None)
    assert visitor.at == "/ui/sign-in"
    assert COOKIE not in keyed.cookies
    keyed.cookies = second
    assert keyed.get("/datasets").status_code == 401  # what the browser held is worth nothing any more
    assert sessions(database) == 0


def test_signing_out_everywhere_ends_the_others_of_that_key_only(keyed: httpx.Client, database: Database) -> None:
    ours, theirs = (make_key(database, DEFAULT_PROJECT, "read") for _ in range(2))
    held = []
    for key in (ours, ours, theirs):
        keyed.cookies.clear()
        sign_in(keyed, key)
        held.append(httpx.Cookies(keyed.cookies))
    keyed.cookies = held[1]
    visitor = Visitor(keyed)
    visitor.send(visitor.open("/ui"), "/ui/sign-out", everywhere="yes")
    statuses = []
    for cookies in held:
        keyed.cookies = cookies
        statuses.append(keyed.get("/jobs").status_code)
    assert statuses == [401, 401, 200]


def test_a_session_ends_with_its_time_and_with_its_key(keyed: httpx.Client, database: Database) -> None:
    key = make_key(database, DEFAULT_PROJECT, "read")
    visitor = sign_in(keyed, key)
    with database.transaction() as session:
        session.execute(text("UPDATE sessions SET expires_at = now()"))
    visitor.open("/ui")
    assert visitor.at == "/ui/sign-in"
    sign_in(keyed, key)
    assert sessions(database) == 1  # the one that had ended was cleared away
    with acting_for(DEFAULT_PROJECT):
        KeyService(database, database).revoke(DEFAULT_PROJECT, key.rpartition("_")[0])
    assert keyed.get("/jobs").status_code == 401


def test_wrong_keys_and_guessed_sessions_are_counted(keyed: httpx.Client, database: Database) -> None:
    visitor = Visitor(keyed)
    page = visitor.open("/ui")
    for _ in range(WRONG_KEYS_A_MINUTE - 2):
        assert "no key that works" in visitor.send(page, "/ui/sign-in", 401, key="pfs_wrong").text
    keyed.cookies.set(COOKIE, "A" * 43)
    assert keyed.get("/jobs").status_code == 401
    keyed.cookies.delete(COOKIE)
    visitor.send(page, "/ui/sign-in", 401, key="pfs_wrong")
    visitor.send(page, "/ui/sign-in", 429, key="pfs_wrong")
    assert sessions(database) == 0


def test_nobody_is_sent_elsewhere_after_signing_in(keyed: httpx.Client, database: Database) -> None:
    key = make_key(database, DEFAULT_PROJECT, "read")
    for elsewhere in ("https://evil.example/", "//evil.example", "/ui/../../evil", "/docs", "/ui\\evil", "ui"):
        visitor = Visitor(keyed)
        keyed.cookies.clear()
        page = visitor.open("/ui/sign-in")
        visitor.send(page, "/ui/sign-in", key=key, next=elsewhere)
        assert visitor.at == "/ui"


def test_a_write_needs_the_token_of_a_page(keyed: httpx.Client, database: Database) -> None:
    key = make_key(database, DEFAULT_PROJECT, "read", "write")
    visitor = sign_in(keyed, key)
    page = visitor.open("/ui")
    token = page.forms[0]["fields"][forms.TOKEN]
    for wrong in ("", "0" * 64, token[::-1]):
        assert keyed.post("/ui/example", data={forms.TOKEN: wrong}).status_code == 403
    # A call of the API from a page of another site would lack the header.
    for headers, status in (({}, 403), ({"X-CSRF-Token": "0" * 64}, 403), ({"X-CSRF-Token": token}, 404)):
        assert keyed.delete("/models/nobodys", headers=headers).status_code == status
    assert keyed.delete("/models/nobodys", headers=bearer(key)).status_code == 404  # who sends a key needs none
    files = {"file": ("a.csv", b"a,b\n1,2\n")}
    for data in ({}, {forms.TOKEN: "0" * 64}):
        assert keyed.post("/ui/datasets", data=data, files=files).status_code == 403
    assert keyed.get("/datasets").json()["items"] == []
    # In another browser, that is with another cookie, the token says nothing.
    held = f"{COOKIE}={keyed.cookies[COOKIE]}; {VISIT_COOKIE}={'B' * 43}"
    keyed.cookies.clear()
    elsewhere = keyed.post("/ui/example", data={forms.TOKEN: token}, headers={"Cookie": held})
    assert elsewhere.status_code == 403


def test_a_file_may_go_in_parts_within_a_session(keyed: httpx.Client, database: Database) -> None:
    """As the script of the page with the form does it."""
    visitor = sign_in(keyed, make_key(database, DEFAULT_PROJECT, "read", "write"), "/ui/datasets")
    token = visitor.open("/ui/datasets").form("/ui/datasets")["fields"][forms.TOKEN]
    said = {"Tus-Resumable": "1.0.0", "Upload-Length": "8", "Upload-Metadata": "filename YS5jc3Y="}
    assert keyed.post("/uploads", headers=said).status_code == 403
    said["X-CSRF-Token"] = token
    upload = keyed.post("/uploads", headers=said).json()["id"]
    part = {"Content-Type": "application/offset+octet-stream", "Upload-Offset": "0"}
    assert keyed.patch(f"/uploads/{upload}", headers={**said, **part}, content=b"a,b\n").status_code == 204
    head = keyed.head(f"/uploads/{upload}", headers=said)
    assert head.headers["upload-offset"] == "4"
    assert keyed.delete(f"/uploads/{upload}", headers=said).status_code == 204


def test_every_write_of_the_pages_looks_at_the_token(settings: Settings) -> None:
    app = create_app(settings)
    writes = [
        route
        for route in iter_route_contexts(app.routes)
        if (route.path or "").startswith("/ui") and set(route.methods or ()) - {"GET", "HEAD"}
    ]
    assert len(writes) > 8
    looking = {forms._written, forms._upload}
    for route in writes:
        below = {each.call for each in route.dependant.dependencies}
        assert below & looking, route.path


def test_a_form_that_was_begun_in_an_ended_session_can_be_sent_in_the_next(
    keyed: httpx.Client, database: Database
) -> None:
    key = make_key(database, DEFAULT_PROJECT, "read", "write")
    visitor = sign_in(keyed, key)
    page = visitor.open("/ui")
    with database.transaction() as session:
        session.execute(text("DELETE FROM sessions"))
    told = visitor.send(page, "/ui/example", 401)
    assert "nothing that you typed is lost" in told.text
    sign_in(keyed, key)
    visitor.at = "/ui"
    assert "tumours.csv" in visitor.send(page, "/ui/example").text


def test_a_key_that_may_only_read_sees_no_button(keyed: httpx.Client, database: Database) -> None:
    dataset = store_dataset(database)["id"]
    visitor = sign_in(keyed, make_key(database, DEFAULT_PROJECT, "read"))
    for path in ("/ui", "/ui/datasets", "/ui/jobs", "/ui/models"):
        actions = {form["action"] for form in visitor.open(path).forms if form["method"] == "post"}
        assert {action.rpartition("/")[2] for action in actions} == {"sign-out"}, path
    page = visitor.open("/ui")
    token = page.forms[0]["fields"][forms.TOKEN]
    assert keyed.post("/ui/example", data={forms.TOKEN: token}).status_code == 403
    assert keyed.get(f"/ui/datasets/{dataset}/train").status_code == 403


def test_another_project_is_invisible(keyed: httpx.Client, database: Database) -> None:
    theirs = make_tenant(database, "theirs")
    dataset = store_dataset(database)["id"]
    visitor = sign_in(keyed, theirs.keys["all"])
    assert "mails.csv" not in visitor.open("/ui/datasets").text
    visitor.open(f"/ui/datasets/{dataset}", 404)
    visitor.open(f"/ui/datasets/{dataset}/train", 404)


def test_without_keys_nobody_signs_in_and_other_sites_may_not_write(client: httpx.Client) -> None:
    visitor = Visitor(client)
    page = visitor.open("/ui")
    assert "sign-out" not in str(page.forms)
    visitor.open("/ui/sign-in", 404)
    token = page.form("/ui/example")["fields"][forms.TOKEN]
    sent = {"data": {forms.TOKEN: token}}
    assert client.post("/ui/example", **sent, headers={"Origin": "https://evil.example"}).status_code == 403
    assert client.post("/ui/example", data={"a": "b"}).status_code == 403
    assert LOCAL.key_id is None


def test_headers_of_every_page_and_what_it_loads(client: httpx.Client) -> None:
    visitor = Visitor(client)
    weight = 0
    for path, status in (("/ui", 200), ("/ui/datasets", 200), ("/ui/jobs", 200), ("/ui/models", 200), ("/ui/no", 404)):
        page = visitor.open(path, status)
        assert visitor.answer is not None
        headers = visitor.answer.headers
        assert headers["content-security-policy"].startswith("default-src 'self'; ")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert page.inline == []
        assert all(script["src"] for script in page.scripts)
    cookie = client.get("/ui", headers={"Cookie": ""}).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    for file in static_files.static_files():
        plain = client.get(f"/ui/static/{file.name}")
        assert plain.headers["cache-control"] == "no-cache"
        assert plain.headers["content-encoding"] == "gzip"
        weight += int(plain.headers["content-length"])
    assert weight < 60_000  # of 250 kB that a first visit may load
    hashed = [link for link in visitor.client.get("/ui").text.split('"') if "pages.css?v=" in link]
    assert "immutable" in client.get(f"/{hashed[0]}").headers["cache-control"]


def test_beyond_loopback_cookies_are_for_tls_only(settings: Settings) -> None:
    with api_client(settings, host="0.0.0.0", keys_required=True) as client:  # noqa: S104
        answer = client.get("/ui/sign-in")
        assert "Secure" in answer.headers["set-cookie"]

"""The pages in a real Chromium where the service asks for keys: sessions, what a key may not do, and other sites."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from browser import Tab, program

from service.access.keys import ApiKey
from service.local.stack import Stack, local_stack

pytestmark = [
    pytest.mark.ui,
    pytest.mark.skipif(program() is None, reason="there is no Chromium here (Debian: apt install chromium)"),
]
OWNER = ApiKey.new()
CSV = "age,label\n" + "".join(f"{20 + at * 7 % 40},{('spam', 'ham', '')[at % 3]}\n" for at in range(60))


@pytest.fixture(scope="module")
def whole(module_dir: Path) -> Iterator[Stack]:
    environment = {"PREFSVM_KEYS_REQUIRED": "true", "PREFSVM_BOOTSTRAP_KEY": OWNER.text}
    with local_stack(module_dir / "data", environment=environment) as running:
        yield running


@pytest.fixture(scope="module")
def owner(stack: str) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {OWNER.text}"}
    with httpx.Client(base_url=stack, headers=headers, trust_env=False, timeout=60) as client:
        yield client


def key(owner: httpx.Client, *scopes: str, project: str | None = None) -> str:
    body = {"name": "somebody", "scopes": scopes} | ({"project": project} if project else {})
    return str(owner.post("/keys", json=body).raise_for_status().json()["key"])


def sign_in(tab: Tab, stack: str, text: str, path: str = "/ui") -> None:
    tab.send("Network.clearBrowserCookies")
    tab.open(stack + path)
    assert tab.run("location.pathname") == "/ui/sign-in"
    tab.fill("#key", text)
    tab.press("main form button")


@pytest.fixture(scope="module")
def dataset(stack: str, owner: httpx.Client) -> str:
    headers = {"Authorization": f"Bearer {key(owner, 'read', 'write')}"}
    made = httpx.post(f"{stack}/datasets", headers=headers, files={"file": ("mine.csv", CSV)}, trust_env=False)
    return str(made.raise_for_status().json()["id"])


def test_nothing_is_lost_when_a_session_ends_in_the_middle_of_a_form(
    stack: str, owner: httpx.Client, dataset: str, browser: Callable[[], Tab]
) -> None:
    text = key(owner, "read", "write")
    tab = browser()
    path = f"/ui/datasets/{dataset}/train?target=label&positive=spam"
    sign_in(tab, stack, text, path)
    assert tab.run("location.pathname + location.search") == path  # where he wanted to go
    tab.fill("#alias", "typed-for-long")
    tab.until("document.getElementById('curl').textContent.includes('typed-for-long')")
    # It ends elsewhere, with all others of the key.
    other = browser()
    other.open(f"{stack}/ui/settings")
    other.press("[name=everywhere]")
    tab.press("#check form button")
    assert "nothing that you typed is lost" in tab.text()
    other.open(f"{stack}/ui/sign-in")
    other.fill("#key", text)
    other.press("main form button")
    tab.run("window.leaving = true; history.back()")
    tab.loaded()
    tab.until("document.getElementById('alias')?.value === 'typed-for-long'")
    tab.press("#check form button")
    assert "typed-for-long" in tab.text()
    assert tab.run("location.pathname").startswith("/ui/jobs/")


def test_a_file_stays_picked_when_a_session_ends(
    stack: str, owner: httpx.Client, browser: Callable[[], Tab], tmp_path: Path
) -> None:
    text = key(owner, "read", "write")
    file = tmp_path / "picked.csv"
    file.write_text(CSV)
    tab, other = browser(), browser()
    sign_in(tab, stack, text, "/ui/datasets")
    tab.pick("#file", file)
    other.open(f"{stack}/ui/settings")
    other.press("[name=everywhere]")
    tab.run("document.querySelector('#upload-form button').click()")
    tab.until("document.getElementById('upload-told').textContent.includes('sign in in another tab')")
    other.open(f"{stack}/ui/sign-in")
    other.fill("#key", text)
    other.press("main form button")
    tab.press("#upload-form button")
    assert "picked.csv" in tab.text()


def test_another_project_is_invisible(
    stack: str, owner: httpx.Client, dataset: str, browser: Callable[[], Tab]
) -> None:
    theirs = owner.post("/projects", json={"name": "theirs"}).raise_for_status().json()["id"]
    tab = browser()
    sign_in(tab, stack, key(owner, "read", "write", project=theirs))
    assert "Few labels, many rows" in tab.text()  # nothing is there yet
    for path in ("/ui/datasets", "/ui/jobs", "/ui/models"):
        tab.open(stack + path)
        assert "mine.csv" not in tab.text()
        assert "typed-for-long" not in tab.text()
    for path in (f"/ui/datasets/{dataset}", f"/ui/datasets/{dataset}/train", f"/ui/datasets/{dataset}/rows/1"):
        tab.open(stack + path)
        assert "mine.csv" not in tab.text()
        assert "Status 404" in tab.text()


@pytest.mark.parametrize(
    ("scopes", "sections", "buttons"),
    [
        (("read",), ["Home", "Data", "Jobs", "Models", "Settings"], 0),
        (("read", "write"), ["Home", "Data", "Jobs", "Models", "Settings"], 1),
        (("read", "write", "admin"), ["Home", "Data", "Jobs", "Models", "Settings", "Keys"], 1),
    ],
)
def test_what_a_key_may_not_do_is_not_shown(
    stack: str,
    owner: httpx.Client,
    dataset: str,
    browser: Callable[[], Tab],
    scopes: tuple[str, ...],
    sections: list[str],
    buttons: int,
) -> None:
    tab = browser()
    sign_in(tab, stack, key(owner, *scopes))
    shown = tab.run("[...document.querySelectorAll('header nav a')].map((each) => each.textContent)")
    assert [each for each in shown if each != "Calls"] == sections
    for path in ("", "/datasets", f"/datasets/{dataset}", "/jobs", "/models", "/settings"):
        tab.open(f"{stack}/ui{path}")
        changing = "[...document.querySelectorAll('main form[method=post]:not([action$=sign-out])')].length"
        assert tab.run(changing) == 0 or buttons, path
    tab.open(f"{stack}/ui/datasets/{dataset}")
    assert tab.run("document.querySelectorAll('main form[method=post]').length > 0") == bool(buttons)
    if not buttons:  # nor by the address
        tab.open(f"{stack}/ui/datasets/{dataset}/train")
        assert "Status 403" in tab.text()


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """Another site, whose page sends a form to ours as soon as it is opened."""

    target = ""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        page = (
            f"<form method=post action='{self.target}'><input name=form_token value=guessed></form>"
            f"<iframe src='{self.target.rpartition('/ui')[0]}/ui'></iframe>"
        )
        self.wfile.write(page.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_another_site_can_neither_send_a_form_nor_show_a_page_in_a_frame(
    stack: str, owner: httpx.Client, dataset: str, browser: Callable[[], Tab]
) -> None:
    tab = browser()
    sign_in(tab, stack, key(owner, "read", "write"))
    Elsewhere.target = f"{stack}/ui/datasets/{dataset}/delete"
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tab.open(f"http://127.0.0.1:{server.server_port}/")
        assert any("frame-ancestors" in each for each in tab.troubles())
        tab.run("window.leaving = true; document.forms[0].submit()")
        tab.loaded()
        server.shutdown()
    assert "Status 403" in tab.text()
    tab.open(f"{stack}/ui/datasets/{dataset}")
    assert "mine.csv" in tab.text()


def test_the_policy_of_a_page_stops_what_is_put_into_it(
    stack: str, owner: httpx.Client, browser: Callable[[], Tab]
) -> None:
    tab = browser()
    sign_in(tab, stack, key(owner, "read"))
    tab.run(
        "{ window.stopped = []; addEventListener('securitypolicyviolation', (event) => "
        "window.stopped.push(event.effectiveDirective)); const add = (tag, told) => "
        "document.body.append(Object.assign(document.createElement(tag), told));"
        "add('script', {textContent: 'window.ran = 1'}); add('img', {src: 'https://example.invalid/x.png'});"
        "document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\" onclick=\"window.ran = 2\">x</p>');"
        "document.body.lastElementChild.click(); }"
    )
    tab.until("window.stopped.length >= 4")
    assert set(tab.run("window.stopped")) == {"script-src-elem", "img-src", "style-src-attr", "script-src-attr"}
    assert tab.run("window.ran === undefined")
    assert tab.run("document.cookie") == ""  # no script can read the session

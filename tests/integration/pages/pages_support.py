"""A browser without a browser: keeps cookies, reads forms, and sends what stands in them."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

import httpx


class Reader(HTMLParser):
    """What a page holds: its forms with their fields, its links, its text, and the tags that run something."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.forms: list[dict[str, Any]] = []
        self.links: list[str] = []
        self.scripts: list[dict[str, str | None]] = []
        self.inline: list[str] = []
        """What a policy without inline code would have to stop."""
        self.words: list[str] = []
        self._in_script = False
        self._area: str | None = None
        self._select: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.inline += [f"{tag} {name}" for name in given if name.startswith("on") or name == "style"]
        if tag == "form":
            self.forms.append({"action": given.get("action", ""), "method": given.get("method", "get"), "fields": {}})
        elif tag in ("input", "button") and self.forms and given.get("name"):
            if given.get("type") not in ("radio", "checkbox") or "checked" in given:
                self.forms[-1]["fields"].setdefault(given["name"], given.get("value") or "")
        elif tag == "textarea" and self.forms and given.get("name"):
            self._area = str(given["name"])
            self.forms[-1]["fields"][self._area] = ""
        elif tag == "select" and self.forms:
            self._select = given.get("name")
        elif tag == "option" and self._select is not None:
            if "selected" in given or self._select not in self.forms[-1]["fields"]:
                self.forms[-1]["fields"][self._select] = given.get("value") or ""
        elif tag == "script":
            self.scripts.append(given)
            self._in_script = True
        elif tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._in_script = False
        elif tag == "textarea":
            self._area = None
        elif tag == "select":
            self._select = None

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            fields = self.forms[-1]["fields"]
            # The line break behind the tag is not part of what stands in the field.
            fields[self._area] += data if fields[self._area] else data.removeprefix("\n")
        if self._in_script and data.strip():
            self.inline.append(data)
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def form(self, action: str, **holding: str) -> dict[str, Any]:
        """Return the form whose action ends so, and whose fields hold this."""
        return next(
            form
            for form in self.forms
            if f"/{form['action']}".partition("?")[0].endswith(action) and holding.items() <= form["fields"].items()
        )


class Visitor:
    """Somebody who looks at pages."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self.at = "/ui"
        self.answer: httpx.Response | None = None

    def open(self, path: str, status: int = 200) -> Reader:
        """Go to a page, by way of what it leads to."""
        self.answer = self.client.get(urljoin(self.at, path), headers={"Accept": "text/html"}, follow_redirects=True)
        assert self.answer.status_code == status, self.answer.text
        self.at = self.answer.url.raw_path.decode()
        return Reader(self.answer.text)

    def send(
        self, page: Reader, action: str, status: int = 200, holding: dict[str, str] | None = None, **fields: Any
    ) -> Reader:
        """Send a form of a page; a None leaves a field out."""
        form = page.form(action, **(holding or {}))
        values = {name: value for name, value in {**form["fields"], **fields}.items() if value is not None}
        url = urljoin(self.at, form["action"])
        self.answer = self.client.post(url, data=values, follow_redirects=True)
        assert self.answer.status_code == status, self.answer.text
        self.at = self.answer.url.raw_path.decode()
        return Reader(self.answer.text)

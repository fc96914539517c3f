"""A browser without a browser: keeps cookies, reads forms, and sends what stands in them."""

from __future__ import annotations

from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import orjson
from api_support import set_status, store_model, train_body
from sqlalchemy import text

from service.db.session import Database
from service.db.tables import ModelRow
from solver.model_file import Model


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


@dataclass(frozen=True)
class Place:
    """A service with the data set of `api_support.CSV`."""

    client: httpx.Client
    database: Database
    folder: Path
    dataset: str

    def model(self, made: Model | None = None, job_id: str | None = None, **told: Any) -> str:
        """Store a model whose report says something else here and there."""
        model = store_model(self.database, self.folder, made, job_id)
        change = "UPDATE models SET report = report || CAST(:told AS jsonb) WHERE id = :id"
        with self.database.transaction() as session:
            session.execute(text(change), {"told": orjson.dumps(told).decode(), "id": model})
        return model

    def trained(self, alias: str, **told: Any) -> str:
        """Store a model that has an alias and a training, which was on the data set."""
        job = self.client.post("/train", json=train_body({"id": self.dataset})).json()["id"]
        set_status(self.database, job, "succeeded")
        model = self.model(job_id=job, **told)
        with self.database.transaction() as session:
            session.get_one(ModelRow, model).dataset_id = self.dataset
        self.client.put(f"/aliases/{alias}", json={"model": model}).raise_for_status()
        return model

    def predicted(self, model: str, **given: Any) -> dict[str, Any]:
        """Return what the call says of one row, text or mail."""
        made: dict[str, Any] = self.client.post("/predict", json={"model": model, **given}).json()["predictions"][0]
        return made

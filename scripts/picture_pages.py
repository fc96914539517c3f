"""Make the pictures of the pages that the README shows: ``scripts/picture_pages.py [FOLDER]``.

It starts the product on an empty folder, trains on the example, and takes the pictures in a real Chromium (Debian's
``chromium``), so that they show what there is. The tests of the pages have what it needs: `tests/ui/browser.py`.
"""

from __future__ import annotations

import base64
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from service.local.stack import local_stack
from solver.examples import breast_tumours

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "ui"))
from browser import Tab, chromium  # noqa: E402

WIDTH, HEIGHT = 1100, 760
HEIGHTS = {"model": 935}
"""Of pictures that need more: the promise, and the curve below it with its handle."""
SKIPPED = {"model": 150}
"""Of pages whose first lines are those of the others: pixels that are scrolled over."""
MOST_BYTES = 150_000
ANSWERS = 22
"""In the audit: the proof is under way, and not there yet."""


def prepare(client: httpx.Client) -> dict[str, str]:
    """Train on the example, begin an audit, and return the paths of the pages by the names of their pictures."""
    file = {"file": ("tumours.csv", breast_tumours().training_csv.encode())}
    dataset = client.post("/datasets", files=file).raise_for_status().json()["id"]
    body = {
        **{"dataset": dataset, "target": "diagnosis", "positive": "malignant", "alias": "tumours"},
        "objective": {"kind": "precision", "target": 0.9},
    }
    _wait(client, "/jobs", client.post("/train", json=body).raise_for_status().json()["id"], "succeeded")
    asked = {"model": "tumours", "dataset": dataset, "objective": {"kind": "precision", "target": 0.9}}
    audit = client.post("/audits", json=asked).raise_for_status().json()["id"]
    _wait(client, "/audits", audit, "open")
    rows = client.get(f"/audits/{audit}/next?n={ANSWERS}").json()["items"]
    answers = {"rows": [row["row"] for row in rows], "labels": ["malignant"] * len(rows)}
    client.post(f"/audits/{audit}/labels", json=answers).raise_for_status()
    return {
        "train": f"/ui/datasets/{dataset}/train?alias=tumours&objective=precision&precision=90",
        "model": "/ui/models/tumours",
        "label": "/ui/models/tumours/label",
        "audit": f"/ui/audits/{audit}",
    }


def _wait(client: httpx.Client, path: str, name: str, status: str) -> None:
    while (found := client.get(f"{path}/{name}").json())["status"] != status:
        if found["status"] == "failed":
            sys.exit(f"{name} failed: {found['error']}")
        time.sleep(0.5)


def take(tab: Tab, url: str, height: int, skipped: int) -> bytes:
    """Return a picture of the top of a page, once it stands still, but for its first lines."""
    tab.resize(WIDTH, height)
    tab.open(url)
    if "/models/" in url:
        tab.until("document.getElementById('handle') === null || document.querySelector('.uplot') !== null")
    tab.run(f"window.scrollTo(0, {skipped})")
    tab.run("new Promise((done) => setTimeout(done, 500))")
    shot: dict[str, Any] = tab.send("Page.captureScreenshot", format="png")
    return base64.b64decode(shot["data"])


def main() -> None:
    """Write the pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch,
        local_stack(Path(scratch, "data")) as stack,
    ):
        with httpx.Client(base_url=stack.url, trust_env=False, timeout=60) as client:
            paths = prepare(client)
        profile = Path(scratch, "browser")
        profile.mkdir()
        with chromium(profile) as open_tab:
            tab = open_tab()
            for name, path in paths.items():
                picture = take(tab, stack.url + path, HEIGHTS.get(name, HEIGHT), SKIPPED.get(name, 0))
                if len(picture) > MOST_BYTES:
                    sys.exit(f"the picture {name} has {len(picture):,} bytes, and may have {MOST_BYTES:,}")
                (folder / f"{name}.png").write_bytes(picture)
                print(f"{folder / name}.png: {len(picture):,} bytes")


if __name__ == "__main__":
    main()

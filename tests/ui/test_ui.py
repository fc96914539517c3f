"""The pages in a real Chromium, on a real stack: from nothing to a threshold that is used; and hostile data."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from browser import Tab, chromium, program

from service.local.stack import local_stack

pytestmark = [
    pytest.mark.ui,
    pytest.mark.skipif(program() is None, reason="there is no Chromium here (Debian: apt install chromium)"),
]


@pytest.fixture(scope="module")
def stack(module_dir: Path) -> Iterator[str]:
    with local_stack(module_dir / "data") as running:
        yield running.url


@pytest.fixture(scope="module")
def browser(module_dir: Path) -> Iterator[Callable[[], Tab]]:
    with chromium(module_dir) as tab:
        yield tab


def test_from_nothing_to_a_threshold_that_is_used(stack: str, browser: Callable[[], Tab]) -> None:
    tab = browser()
    tab.open(f"{stack}/")
    assert tab.run("location.pathname") == "/ui"
    tab.press("form[action$=example] button")
    tab.press("a.button[href$=train]")
    tab.fill("#alias", "tumours")
    tab.until("document.getElementById('curl').textContent.includes('tumours')")
    tab.press("#check form button")
    # It brings itself up to date until there is a model to look at.
    tab.press("a.button[href*=models]")
    before = tab.until("document.getElementById('precision').textContent")
    recall = tab.until("document.getElementById('recall').textContent")
    tab.run("document.getElementById('handle').focus()")
    for _ in range(4):
        tab.send("Input.dispatchKeyEvent", type="keyDown", key="ArrowLeft", code="ArrowLeft", windowsVirtualKeyCode=37)
        tab.send("Input.dispatchKeyEvent", type="keyUp", key="ArrowLeft", code="ArrowLeft", windowsVirtualKeyCode=37)
    moved = (
        tab.run("document.getElementById('precision').textContent"),
        tab.run("document.getElementById('recall').textContent"),
    )
    assert moved != (before, recall)
    # The same handle on the other pictures.
    for kind, fact in (("roc", "alarms"), ("cost", "cost"), ("pr", "precision")):
        tab.run(f"document.querySelector('#views [value={kind}]').click()")
        assert tab.run(f"!document.getElementById('{fact}').parentElement.hidden")
        assert tab.run(f"document.getElementById('{fact}').textContent")
        assert tab.run("document.getElementById('recall').textContent") == moved[1]
    said = tab.until("document.getElementById('preview').dataset.threshold")
    shown = tab.run("document.getElementById('precision').textContent")
    tab.press("#preview form button")
    assert tab.until("document.querySelector('form[action$=undo] button')?.textContent")
    point = httpx.get(f"{stack}/models/tumours", trust_env=False).json()["operating_point"]
    assert point is not None
    assert float(said) == point["threshold"]
    # The handle stands where the threshold in use is.
    form = "new Intl.NumberFormat(undefined, {style: 'percent', maximumFractionDigits: 1})"
    share = tab.run(f"{form}.format({point['calibration']['precision']['value']})")
    assert tab.until("document.getElementById('precision').textContent") == share
    # What was applied is what was shown; what is asked of the model is what it was trained for.
    assert share == shown
    assert point["picked"]
    assert point["objective"] == {"kind": "recall", "target": 0.95}
    tab.press("form[action$=undo] button")
    again = httpx.get(f"{stack}/models/tumours", trust_env=False).json()["operating_point"]
    assert again["threshold"] != point["threshold"]
    assert tab.troubles() == []
    assert [url for url in tab.requested() if not url.startswith((stack, "about:"))] == []


def trained_of_long_names(stack: str) -> str:
    """Train twice on data in which all that a report says is as long as it may be; return the alias."""
    rng = np.random.default_rng(0)
    names = [f"{place} {'a very long name of a column ' * 6}"[:200] for place in range(60)]
    labels = ["yes" * 80, "no" * 120, ""]
    rows = [[f"{rng.normal(place % 2):.3f}" for _ in names] + [labels[place % 3]] for place in range(180)]
    table = "\n".join(",".join(row) for row in [[*names, "label"], *rows])
    with httpx.Client(base_url=stack, trust_env=False, timeout=60) as client:
        made = (
            client.post("/datasets", files={"file": (f"{'long' * 50}.csv", table.encode())}).raise_for_status().json()
        )
        body = {
            **{"dataset": made["id"], "target": "label", "positive": labels[0], "alias": "long-" * 12 + "er"},
            "objective": {"kind": "cost", "false_negative": 123456.789, "false_positive": 0.0123},
        }
        for _ in range(2):
            job = client.post("/train", json=body).raise_for_status().json()["id"]
            while (status := client.get(f"/jobs/{job}").json()["status"]) in ("queued", "running"):
                time.sleep(0.2)
            assert status == "succeeded"
    return str(body["alias"])


def test_a_report_prints_on_two_pages(stack: str, browser: Callable[[], Tab]) -> None:
    tab = browser()
    for model in ("tumours", trained_of_long_names(stack)):
        tab.open(f"{stack}/models/{model}/report.html")
        assert "What it reached" in tab.text()
        printed = base64.b64decode(tab.send("Page.printToPDF", preferCSSPageSize=True)["data"])
        assert len(re.findall(rb"/Type ?/Page\b", printed)) == 2
    assert [url for url in tab.requested() if not url.startswith((stack, "about:"))] == []


def answers(stack: str) -> int:
    return len(httpx.get(f"{stack}/feedback?alias=tumours", trust_env=False).json()["items"])


def test_rows_are_labelled_and_a_target_is_proved_by_keys(stack: str, browser: Callable[[], Tab]) -> None:
    """On the model of the test before."""
    tab = browser()
    tab.open(f"{stack}/ui/models/tumours/label")
    asked = tab.run("document.querySelector('[name=row]').value")
    for key, count in (("y", 1), ("n", 2), ("u", 1), ("s", 1)):
        tab.type(key)
        assert answers(stack) == count
        assert tab.run("document.querySelector('[name=row]').value") != asked
    tab.run("document.getElementById('keys').click()")
    tab.open(f"{stack}/ui/models/tumours/label")
    assert tab.run("!document.getElementById('keys').checked && !document.querySelector('.keys').hidden")
    tab.type("y", leaves=False)
    tab.run("document.getElementById('keys').click()")
    tab.run("document.getElementById('target').focus()")
    tab.type("1", leaves=False)  # what is typed into a field is no answer
    tab.run("document.querySelector('[name=kind][value=precision]').click()")  # the model was asked for a recall
    tab.fill("#target", "60")
    tab.press("form[action$=audits] button")
    tab.until("document.querySelector('[data-key=y]') !== null")
    proved = 0
    while "Nobody has to look at more" not in tab.text():
        tab.type("y")
        proved += 1
    assert 3 < proved < 12
    tab.type("u")
    assert "1 corrected" in tab.text()
    assert answers(stack) == 1
    assert tab.troubles() == []


def test_nothing_in_data_runs(stack: str, browser: Callable[[], Tab]) -> None:
    script = "<img src=x onerror=window.ran=1><script>window.ran=1</script>"
    rows = "".join(f'"{script}",{("yes", "no", "")[i % 3]}\n' for i in range(60))
    made = httpx.post(
        f"{stack}/datasets",
        files={"file": (f"{script}.csv".replace("/", ""), f'"{script}",label\n{rows}'.encode())},
        data={"format": "csv"},
        trust_env=False,
        timeout=60,
    ).json()
    tab = browser()
    for path in ("/ui", "/ui/datasets", f"/ui/datasets/{made['id']}", f"/ui/datasets/{made['id']}/train"):
        tab.open(stack + path)
        assert "onerror" in tab.text()
        assert tab.run("window.ran === undefined && document.querySelectorAll('img').length === 0")
    assert tab.troubles() == []


def test_a_large_file_goes_in_parts_is_stopped_and_goes_on_in_another_page(
    stack: str, browser: Callable[[], Tab], tmp_path: Path
) -> None:
    file = tmp_path / "large.csv"
    file.write_text("number,label\n" + "".join(f"{i},{('yes', 'no', '')[i % 3]}\n" for i in range(30_000)))
    path = f"{stack}/ui/datasets"

    def received() -> list[int]:
        found = httpx.get(f"{stack}/uploads?status=receiving", trust_env=False).json()["items"]
        return [each["received"] for each in found]

    def begin(tab: Tab) -> None:
        tab.open(path)
        tab.run("Object.assign(document.getElementById('upload-form').dataset, {least: 1000, piece: 20000})")
        tab.pick("#file", file)

    tab = browser()
    begin(tab)
    # Stopped as soon as something has arrived, and the page is left.
    tab.run(
        "new MutationObserver(() => { const bar = document.getElementById('upload-bar');"
        " if (bar.value <= 0.2 || window.stopped) return;"
        " window.stopped = true; document.getElementById('upload-pause').click(); })"
        ".observe(document.getElementById('upload-told'), {childList: true})"
    )
    tab.run("document.querySelector('#upload-form button').click()")
    tab.until("window.stopped && document.getElementById('upload-told').textContent.startsWith('Stopped')")
    (before,) = received()
    assert 0 < before < file.stat().st_size
    again = browser()
    begin(again)
    again.run("window.leaving = true; document.querySelector('#upload-form button').click()")
    again.loaded()
    assert "30,000" in again.text()
    assert received() == []
    assert [trouble for trouble in again.troubles() if "409" not in trouble] == []


def test_a_large_file_of_windows_says_its_encoding(stack: str, browser: Callable[[], Tab], tmp_path: Path) -> None:
    file = tmp_path / "windows.csv"
    lines = (f"Müller{i};{('ja', 'nein')[i % 2]}\n" for i in range(100))
    file.write_text("name;label\n" + "".join(lines), encoding="cp1252")
    tab = browser()
    tab.open(f"{stack}/ui/datasets")
    tab.run("Object.assign(document.getElementById('upload-form').dataset, {least: 100})")
    tab.pick("#file", file)
    tab.run("document.querySelector('#upload-form button').click()")
    tab.until("document.getElementById('upload-told').textContent.includes('choose it under “Encoding”')")
    assert tab.run("document.querySelector('#upload-form details').open && document.activeElement.id") == "encoding"
    tab.resize(360, dark=False)
    assert tab.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    tab.run("document.getElementById('encoding').value = 'cp1252'")
    tab.run("window.leaving = true; document.querySelector('#upload-form button').click()")
    tab.loaded()
    assert "Müller0" in tab.text()


def test_a_file_is_dropped_on_the_page(stack: str, browser: Callable[[], Tab]) -> None:
    def drop(files: int) -> str:
        made = "".join(
            f"moved.items.add(new File(['n,label\\n1,yes\\n2,no\\n'], 'dropped{at}.csv'));" for at in range(files)
        )
        return (
            f"{{ const moved = new DataTransfer(); {made} document.body.dispatchEvent(new DragEvent('drop', "
            "{dataTransfer: moved, bubbles: true, cancelable: true})); }"
        )

    tab = browser()
    tab.open(f"{stack}/ui/datasets")
    tab.run(drop(2))
    assert "One file at a time" in tab.text()
    tab.run(drop(1))
    assert tab.run("document.getElementById('file').files[0].name") == "dropped0.csv"
    assert tab.run("document.activeElement.textContent") == "Upload"
    tab.press("#upload-form button")
    assert "dropped0.csv" in tab.text()
    assert tab.troubles() == []


def every_page(stack: str) -> list[str]:
    """Addresses of all pages, of what the tests before have made."""

    def items(path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = httpx.get(f"{stack}/{path}", trust_env=False).json()["items"]
        return found

    hostile, example = items("datasets")[0]["id"], items("datasets")[-1]["id"]
    return [
        f"{stack}/ui{path}"
        for path in (
            *("", "/datasets", f"/datasets/{example}", f"/datasets/{example}/train", f"/datasets/{hostile}"),
            *("/jobs", f"/jobs/{items('jobs')[0]['id']}", "/models", "/models/tumours", "/models/tumours/mistakes"),
            *("/models/tumours?kind=precision&target=90", f"/models/tumours/try?dataset={example}&row=7"),
            *("/models/tumours/label", *(f"/audits/{audit['id']}?row=1&said=benign" for audit in items("audits"))),
            *("/settings", *(f"/settings/webhooks/{webhook['id']}" for webhook in items("webhooks")), "/keys", "/none"),
        )
    ]


@pytest.mark.parametrize("width", [360, 700, 1280, 2560])
@pytest.mark.parametrize("dark", [False, True])
def test_every_page_fits(stack: str, browser: Callable[[], Tab], width: int, dark: bool) -> None:
    tab = browser()
    tab.resize(width, dark=dark)
    for path in every_page(stack):
        tab.open(path)
        assert tab.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), path
        broken = "[...document.querySelectorAll('.scroll button')].filter((each) => each.offsetHeight > 40).length"
        assert tab.run(broken) == 0, path
        unnamed = (
            "[...document.querySelectorAll('input:not([type=hidden]), select, textarea, button, a')]"
            ".filter((each) => !each.labels?.length && !each.textContent.trim() && !each.ariaLabel).length"
        )
        assert tab.run(unnamed) == 0, path
    assert [trouble for trouble in tab.troubles() if "404" not in trouble] == []


RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.mark.parametrize(("width", "dark"), [(360, False), (1280, True)])
def test_every_page_can_be_used_by_all(stack: str, browser: Callable[[], Tab], width: int, dark: bool) -> None:
    """WCAG 2.2 AA, as far as axe-core can tell: ``scripts/vendor_pages.py`` has fetched it."""
    axe = (Path(__file__).parent / "vendored" / "axe.min.js").read_text()
    look = (
        f"axe.run(document, {{runOnly: {RULES}}}).then((found) => found.violations.map((each) => "
        "[each.id, each.help, ...each.nodes.map((node) => node.html.slice(0, 200))]))"
    )
    tab = browser()
    tab.resize(width, dark=dark)
    for path in every_page(stack):
        tab.open(path)
        tab.send("Runtime.evaluate", expression=axe)
        assert tab.run(look) == [], path

"""The pages in a real Chromium, on a real stack: from nothing to a threshold that is used; and hostile data."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pytest
from browser import Tab, program

from service.local.stack import Stack
from service.locales import ENGLISH, LOCALES, read_in
from service.shown_text import percent

pytestmark = [
    pytest.mark.ui,
    pytest.mark.skipif(program() is None, reason="there is no Chromium here (Debian: apt install chromium)"),
]


PERCENT = "{style: 'percent', maximumFractionDigits: 1}"


def test_from_nothing_to_a_threshold_that_is_used_by_the_keyboard_alone(stack: str, browser: Callable[[], Tab]) -> None:
    tab = browser()
    tab.open(f"{stack}/")
    assert tab.run("location.pathname") == "/ui"
    tab.enter("form[action$=example] button")
    tab.enter("a.button[href*='/train?']")
    # The form is filled in already.
    assert tab.until("document.getElementById('curl').textContent.includes('tumours')")
    tab.enter("#check form button")
    # It brings itself up to date until there is a model to look at.
    tab.enter("a.button[href*=models]")
    before = tab.until("document.getElementById('precision').textContent")
    recall = tab.until("document.getElementById('recall').textContent")
    tab.tab_to("#handle")
    for _ in range(4):
        tab.key("ArrowLeft")
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
    # How many unlabelled rows lie above it: the script counts them as it moves, and the server says the same.
    above = "document.getElementById('unlabelled').textContent.match(/about ([\\d,]+) lie above it/)[1]"
    assert f"unlabelled rows it calls about {tab.run(above)} “malignant”" in tab.text()
    shown = tab.run("document.getElementById('precision').textContent")
    tab.enter("#use button")
    assert tab.until("document.querySelector('form[action$=undo] button')?.textContent")
    point = httpx.get(f"{stack}/models/tumours", trust_env=False).json()["operating_point"]
    assert point is not None
    assert float(said) == point["threshold"]
    # The handle stands where the threshold in use is.
    form = f"new Intl.NumberFormat(undefined, {PERCENT})"
    share = tab.run(f"{form}.format({point['calibration']['precision']['value']})")
    assert tab.until("document.getElementById('precision').textContent") == share
    # What was applied is what was shown; what is asked of the model is what it was trained for.
    assert share == shown
    assert point["picked"]
    assert point["objective"] == {"kind": "precision", "target": 0.75}
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


TRUTH = "document.querySelector('.ask').closest('section').querySelector('.note strong').textContent"
"""What the page of an audit of the example says that the row is."""
ROW = "document.querySelector('.one:not([hidden]) [name=row]').value"
"""The number of the row that is asked."""


def answers(stack: str, alias: str = "tumours") -> int:
    return len(httpx.get(f"{stack}/feedback?alias={alias}&limit=100", trust_env=False).json()["items"])


def test_rows_are_labelled_and_a_target_is_proved_by_keys(stack: str, browser: Callable[[], Tab]) -> None:
    """On the model of the test before."""
    tab = browser()
    tab.open(f"{stack}/ui/models/tumours/label")
    tab.until("document.querySelector('.one:not([hidden])') !== null")
    asked = tab.run(ROW)
    tab.run("window.same = true")
    seen = [asked]
    for key, count in (("y", 1), ("n", 2), ("u", 1), ("s", 1)):
        tab.type(key, leaves=False)
        tab.until(f"{ROW} !== {seen[-1]!r}")
        seen.append(tab.run(ROW))
        assert answers(stack) == count
        assert tab.run("document.getElementById('given').textContent") == str(count)
        assert tab.run(ROW) != asked
    # The row whose answer was taken back is asked again; put off, the next one comes, which had waited behind it.
    assert seen[3:] == seen[1:3]
    # One page, of which other rows are asked for when all of it is done; what is put off comes back by itself.
    for _ in range(15):
        before = tab.run(ROW)
        tab.type("n", leaves=False)
        tab.until(f"{ROW} !== {before!r}")
    assert tab.run("window.same")
    assert answers(stack) == 16
    assert tab.run("document.getElementById('given').textContent") == "16"
    loaded = [url for url in tab.requested() if url.startswith(f"{stack}/ui/models/tumours/label")]
    assert ["part=rows" in url for url in loaded] == [False, True]
    assert "1 put off: back to the first" in tab.text()
    tab.run("document.getElementById('keys').click()")
    tab.open(f"{stack}/ui/models/tumours/label")
    assert tab.run("!document.getElementById('keys').checked && !document.querySelector('.keys').hidden")
    tab.type("y", leaves=False)
    tab.run("document.getElementById('keys').click()")
    chosen = "document.querySelector('form[action$=audits] [name=kind]:checked').value"
    assert tab.run(chosen) == "precision"  # which the model was asked for
    tab.run("document.querySelector('form[action$=audits] [name=recall]').focus()")
    tab.type("1", leaves=False)  # what is typed into a field is no answer
    assert tab.run(chosen) == "recall"
    tab.fill("form[action$=audits] [name=recall]", "95")
    tab.fill("form[action$=audits] [name=precision]", "60")
    assert tab.run(chosen) == "precision"
    tab.press("form[action$=audits] button")
    tab.until("document.querySelector('[data-key=y]') !== null")
    assert re.search(r"It takes about \d+ answers", tab.text())
    proved = 0
    while "Nobody has to look at more" not in tab.text():
        tab.type("y" if tab.run(TRUTH) == "malignant" else "n")
        proved += 1
    assert not tab.run("document.querySelector('.keys').checkVisibility()")  # there is nothing left to press
    assert 3 < proved < 60
    tab.type("u")
    assert "1 corrected" in tab.text()
    assert answers(stack) == 16
    assert tab.troubles() == []


def test_what_is_proven_is_marked_on_the_curve(stack: str, browser: Callable[[], Tab]) -> None:
    """By the audit of the test before, whose last answer was changed there: some more prove it again."""
    with httpx.Client(base_url=stack, trust_env=False, timeout=60) as client:
        audit = client.get("/audits").json()["items"][0]
        while client.get(f"/audits/{audit['id']}").json()["status"] != "proven":
            rows = [row["row"] for row in client.get(f"/audits/{audit['id']}/next?n=5").json()["items"]]
            answers = {"rows": rows, "labels": ["malignant"] * len(rows)}
            client.post(f"/audits/{audit['id']}/labels", json=answers).raise_for_status()
        (proven,) = client.get("/models/tumours/thresholds").json()["proven"]
        assert (proven["measure"], proven["audit"]) == ("precision", audit["id"])
    tab = browser()
    tab.open(f"{stack}/ui/models/tumours")
    tab.until("document.querySelector('.uplot') !== null")
    assert tab.run("document.getElementById('proven-here').textContent").startswith("Proven of this threshold: a prec")
    green = "color.match(/[0-9a-f]{2}/g).map((each) => parseInt(each, 16))"
    marked = (
        "(() => { const color = getComputedStyle(document.documentElement).getPropertyValue('--good').trim().slice(1);"
        f" const [r, g, b] = {green}; const canvas = document.querySelector('.uplot canvas');"
        " const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height); let count = 0;"
        " for (let at = 0; at < data.length; at += 4)"
        " count += data[at] === r && data[at + 1] === g && data[at + 2] === b; return count; })()"
    )
    for kind in ("pr", "roc", "cost"):
        tab.run(f"document.querySelector('#views [value={kind}]').click()")
        assert tab.run(marked) > 20, kind
    tab.run("document.getElementById('handle').focus()")
    tab.key("End")
    assert tab.run("document.getElementById('proven-here').textContent") == "Nothing is proven of this threshold."
    assert tab.troubles() == []


def table(path: Path, rows: int = 400, labelled: int = 60) -> Path:
    """Write rows of two classes that are easy to tell apart, most without a label."""
    rng = np.random.default_rng(0)
    truth = rng.random(rows) < 0.4
    lines = [
        f"{rng.normal(2 * yes):.4f},{rng.normal(yes):.4f},{('no', 'yes')[yes] if at < labelled else ''}"
        for at, yes in enumerate(truth.astype(int))
    ]
    path.write_text("\n".join(["height,width,ripe", *lines]) + "\n")
    return path


def test_upload_train_move_label_train_again_compare_and_go_back(
    stack: str, browser: Callable[[], Tab], tmp_path: Path
) -> None:
    tab = browser()
    tab.open(f"{stack}/ui/datasets")
    tab.pick("#file", table(tmp_path / "fruit.csv"))
    tab.press("#upload-form button")
    assert "fruit.csv" in tab.text()
    tab.press("a.button[href$=train]")
    assert tab.run("document.getElementById('target').value") == "ripe"
    tab.run("document.querySelector('[name=positive][value=yes]').click()")
    tab.run("document.querySelector('[name=objective][value=both]').click()")
    tab.fill("#precision", "70")
    assert tab.run("document.querySelector('[name=objective]:checked').value") == "both"
    tab.run("document.querySelector('[name=objective][value=recall]').click()")
    tab.fill("#precision", "80")
    assert tab.run("document.querySelector('[name=objective]:checked').value") == "precision"
    tab.fill("#alias", "ripe")
    tab.press("#check form button")  # at once: what was filled in last counts
    tab.press("a.button[href*=models]")
    tab.until("document.getElementById('precision').textContent")
    tab.run("document.getElementById('handle').focus()")
    for key in ("ArrowRight", "ArrowLeft"):
        tab.key(key)
    tab.until("document.getElementById('preview').textContent.includes('That threshold is in use')")
    assert tab.run("document.getElementById('use') === null")
    for _ in range(3):
        tab.key("ArrowRight")
    tab.until("document.querySelector('#use button') !== null")
    tab.press("#use button")
    first = httpx.get(f"{stack}/models/ripe", trust_env=False).json()
    assert first["operating_point"]["picked"]
    assert first["report"]["objective"]["target"] == 0.8
    tab.open(f"{stack}/ui/models/ripe")
    tab.press("a.button[href$=label]")
    for count in range(1, 11):
        height = float(
            tab.run("document.querySelector('.one:not([hidden]) .content dd').textContent").replace("\u2212", "-")
        )
        before = tab.run(ROW)
        tab.type("y" if height > 1 else "n", leaves=False)
        tab.until(f"{ROW} !== {before!r}")
        assert answers(stack, "ripe") == count
    tab.press("#again button")
    tab.press("a.button[href*=models]")
    assert "Beside the model before" in tab.text()
    second = httpx.get(f"{stack}/models/ripe", trust_env=False).json()
    told = httpx.get(f"{stack}/models", trust_env=False).json()["items"]
    assert len({each["id"] for each in told}) >= 2
    if second["id"] == first["id"]:  # it promised less: the name stayed, and is moved by hand
        tab.fill("#alias", "ripe")
        tab.press("form[action$=alias] button")
    tab.open(f"{stack}/ui/models/ripe")
    assert first["id"] in tab.text()
    tab.press("form[action$=rollback] button")
    assert httpx.get(f"{stack}/models/ripe", trust_env=False).json()["id"] == first["id"]
    assert tab.troubles() == []


def slow_table(path: Path) -> Path:
    """Write so much that a training has rounds for some seconds."""
    rng = np.random.default_rng(1)
    rows = 12_000
    truth = rng.random(rows) < 0.4
    values = rng.normal(size=(rows, 12)) + 0.5 * truth[:, None]
    lines = [
        f"{','.join(f'{each:.4f}' for each in row)},{('no', 'yes')[int(yes)] if at < 2000 else ''}"
        for at, (row, yes) in enumerate(zip(values, truth, strict=True))
    ]
    path.write_text("\n".join([",".join([*(f"c{at}" for at in range(12)), "label"]), *lines]) + "\n")
    return path


def api_of(stack: Stack) -> psutil.Process:
    """Return the process that answers."""
    family = psutil.Process(stack.pid).children()
    return next(each for each in family if "service.app" in " ".join(each.cmdline()))


def is_away(url: str) -> bool:
    try:
        httpx.get(f"{url}/healthz", trust_env=False, timeout=5)
    except httpx.TransportError:
        return True
    return False


def test_rounds_come_live_and_the_page_recovers_when_the_service_was_away(
    whole: Stack, browser: Callable[[], Tab], tmp_path: Path
) -> None:
    tab = browser()
    with httpx.Client(base_url=whole.url, trust_env=False, timeout=60) as client:
        file = {"file": ("slow.csv", slow_table(tmp_path / "slow.csv").read_bytes())}
        dataset = client.post("/datasets", files=file).raise_for_status().json()["id"]
        body = {
            **{"dataset": dataset, "target": "label", "positive": "yes", "algorithm": "psvm", "alias": "slow"},
            # Few rows are labelled in a round, so that there are many rounds.
            **{"objective": {"kind": "f1"}, "params": {"max_add": 200}, "test_fraction": 0},
        }
        job = client.post("/train", json=body).raise_for_status().json()["id"]
        tab.open(f"{whole.url}/ui/jobs/{job}")
        tab.run("window.same = true")
        curve = "document.querySelector('#rounds svg[aria-label*=\"f1 of each round\"] .line')"
        rounds = f"({curve}?.getAttribute('d').match(/[ML]/g).length ?? 0)"
        tab.until(f"{rounds} > 1")
        tab.until(f"{rounds} > {tab.run(rounds)}")  # it grows by itself
        # The service is killed in the middle: the training waits, however fast the machine is. Who starts the service
        # again waits until the page has said so.
        supervisor = psutil.Process(whole.pid)
        workers = [each for each in supervisor.children(recursive=True) if "worker." in " ".join(each.cmdline())]
        for each in workers:
            each.suspend()
        try:
            assert client.get(f"/jobs/{job}").json()["status"] == "running"
            supervisor.suspend()
            try:
                api_of(whole).kill()
                tab.until("!document.getElementById('lost').hidden")
            finally:
                supervisor.resume()
            tab.until("document.getElementById('lost').hidden")
            before = tab.run(rounds)
        finally:
            for each in workers:
                each.resume()
        tab.until(f"{rounds} > {before}")
        assert tab.run("window.same")
        tab.press("button[name=keep_best][value=yes]")
        tab.press("a.button[href*=models]")
    assert "slow" in tab.text()


def test_an_answer_that_the_service_does_not_take_is_sent_until_it_does(
    whole: Stack, browser: Callable[[], Tab]
) -> None:
    tab = browser()
    tab.open(f"{whole.url}/ui/models/ripe/label")
    before, count = tab.run(ROW), answers(whole.url, "ripe")
    api = api_of(whole)
    supervisor = psutil.Process(whole.pid)
    supervisor.suspend()
    try:
        api.kill()
        while not is_away(whole.url):
            time.sleep(0.05)
        tab.type("y", leaves=False)
        tab.until("!document.getElementById('not-kept').hidden")
        tab.type("n", leaves=False)  # the next row is not there yet: this is no answer to it
        assert tab.run(ROW) == before
    finally:
        supervisor.resume()
    tab.until(f"{ROW} !== {before!r}")
    assert tab.run("document.getElementById('not-kept').hidden")
    assert answers(whole.url, "ripe") == count + 1
    assert "Kept: yes." in tab.text()


def test_all_rows_are_scrolled_through(stack: str, browser: Callable[[], Tab], tmp_path: Path) -> None:
    tab = browser()
    made = httpx.post(
        f"{stack}/datasets",
        files={"file": ("long.csv", table(tmp_path / "long.csv", 30_000).read_bytes())},
        trust_env=False,
        timeout=60,
    ).json()
    tab.resize(1280)
    tab.open(f"{stack}/ui/datasets/{made['id']}")
    numbers = (
        "[...document.querySelectorAll('#all-rows tbody tr:not(.room):not(.waiting)')].filter((row) => { const at ="
        " row.getBoundingClientRect(), box = document.getElementById('all-rows').getBoundingClientRect();"
        " return at.top >= box.top && at.bottom <= box.bottom; })"
        ".map((row) => Number(row.querySelector('th').textContent.replaceAll(',', '')))"
    )
    tab.until(f"{numbers}.length > 5")
    assert tab.run(f"{numbers}[0]") <= 1
    assert tab.run("document.querySelector('#all-rows table').ariaRowCount") == "30001"
    box = "document.getElementById('all-rows')"
    seen = set(tab.run(numbers))
    # A screen at a time, no row is left out.
    for _ in range(20):
        tab.run(f"{box}.scrollTop += {box}.clientHeight - 120")
        tab.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))")
        tab.until(f"document.querySelector('#all-rows .waiting') === null && {numbers}.length > 5")
        seen |= set(tab.run(numbers))
    assert seen >= set(range(max(seen)))
    tab.run(f"{box}.scrollTop = {box}.scrollHeight")
    tab.until(f"{numbers}.at(-1) === 29999")
    assert tab.run(f"{box}.querySelectorAll('tr').length") < 120
    tab.until("new URL(location.href).searchParams.get('from') > 29000")
    tab.fill("#from", "12345")
    tab.run("document.querySelector('#go button').click()")
    tab.until(f"{numbers}.includes(12345)")
    # A page that is loaded again shows the same rows.
    tab.until("Math.abs(new URL(location.href).searchParams.get('from') - 12345) < 2")
    tab.open(tab.run("location.href"))
    tab.until(f"{numbers}.includes(12345)")
    assert tab.run(f"{box}.querySelector('tr:not(.room) a').href").startswith(f"{stack}/ui/datasets/{made['id']}/rows/")
    assert tab.troubles() == []


def test_a_small_file_that_is_refused_is_still_picked(stack: str, browser: Callable[[], Tab], tmp_path: Path) -> None:
    file = tmp_path / "windows.csv"
    file.write_text("name;label\n" + "".join(f"Müller{i};{('ja', 'nein')[i % 2]}\n" for i in range(50)), "cp1252")
    tab = browser()
    tab.open(f"{stack}/ui/datasets")
    tab.pick("#file", file)
    tab.fill("#name", "from Windows")
    tab.run("document.querySelector('#upload-form button').click()")
    tab.until("document.getElementById('upload-wrong').textContent.includes('choose it under “Encoding”')")
    assert tab.run("document.querySelector('#upload-form details').open && document.activeElement.id") == "encoding"
    assert tab.run("document.getElementById('file').files[0].name") == "windows.csv"
    assert tab.run("document.getElementById('name').value") == "from Windows"
    assert "again" not in tab.run("document.getElementById('upload-wrong').innerText")
    tab.run("document.getElementById('encoding').value = 'cp1252'")
    tab.press("#upload-form button")
    assert "from Windows" in tab.text()
    assert "Müller0" in tab.text()


def test_nothing_in_data_runs(stack: str, browser: Callable[[], Tab]) -> None:
    script = "<img src=x onerror=window.ran=1><script>window.ran=1</script>"
    turned = "abc\u202etxt.exe \x1b[31mred\x1b[0m"
    huge = "x" * 1_000_000  # a cell: of a line of more than 1 MiB nothing is read
    rows = "".join(f'"{script}{(turned, huge, "")[min(i, 2)]}",{("yes", "no", "")[i % 3]}\n' for i in range(60))
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
        assert tab.run("!/[\\u202e\\u001b]/.test(document.documentElement.outerHTML)"), path
        assert tab.run("document.documentElement.outerHTML.length") < 300_000, path
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
    tab.run("document.getElementById('header').value = 'true'")
    tab.fill("#missing", "Müller1, ?")
    tab.run("window.leaving = true; document.querySelector('#upload-form button').click()")
    tab.loaded()
    assert "Müller0" in tab.text()
    assert tab.run("document.querySelector('[data-name=Missing]').textContent") == "1"  # other options go with it


def test_a_label_that_is_ticked_as_not_known_is_no_class_at_once(stack: str, browser: Callable[[], Tab]) -> None:
    lines = "".join(f"{i % 9},{('NA', 'yes', 'no', '')[i % 4]}\n" for i in range(80))
    file = {"file": ("unknown.csv", f"x,label\n{lines}".encode())}
    made = httpx.post(f"{stack}/datasets", files=file, trust_env=False, timeout=60).json()
    tab = browser()
    tab.open(f"{stack}/ui/datasets/{made['id']}/train?target=label&tell=one&positive=yes")
    offered = "[...document.querySelectorAll('[name=positive]')].map((each) => each.value).join()"
    assert tab.run(offered) == "NA,no,yes"
    assert tab.run("document.querySelector('#check button').disabled")
    tab.tab_to("[name=unlabeled][value=NA]")  # unfolded, as the form says why it cannot be trained
    tab.type(" ", leaves=False)
    tab.until(f"{offered} === 'no,yes'")
    assert "40 of 80 rows have no label there" in tab.text()
    assert tab.run("document.activeElement.matches('[name=unlabeled][value=NA]:checked')")  # who has no mouse is there
    assert tab.run("!document.querySelector('#check form button').disabled")
    assert tab.troubles() == []


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

    hostile = next(each["id"] for each in items("datasets?limit=100") if "onerror" in each["name"])
    example = items("datasets?limit=100")[-1]["id"]
    return [
        f"{stack}/ui{path}"
        for path in (
            *("", "/datasets", f"/datasets/{example}", f"/datasets/{example}/train", f"/datasets/{hostile}"),
            *(f"/datasets/{hostile}/rows/0", f"/datasets/{hostile}/rows/1"),
            *("/jobs", f"/jobs/{items('jobs')[0]['id']}", "/models", "/models/tumours", "/models/tumours/mistakes"),
            *("/models/tumours?kind=precision&precision=90", f"/models/tumours/try?dataset={example}&row=7"),
            *("/models/tumours/label", *(f"/audits/{audit['id']}?row=1&said=benign" for audit in items("audits"))),
            *("/settings", *(f"/settings/webhooks/{webhook['id']}" for webhook in items("webhooks")), "/keys", "/none"),
        )
    ]


@pytest.mark.parametrize("width", [360, 640, 1280, 2560])
@pytest.mark.parametrize("dark", [False, True])
def test_every_page_fits(stack: str, browser: Callable[[], Tab], width: int, dark: bool) -> None:
    """As wide as a telephone, as 1280 at 200 %, and wider; in dark for who wants nothing that moves, too."""
    tab = browser()
    tab.resize(width, dark=dark, still=dark)
    for path in every_page(stack):
        tab.open(path)
        fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        assert tab.run(fits), path
        assert not dark or tab.run("document.getAnimations().length") == 0, path
        if width == 1280:  # twice as large letters
            assert tab.run(f"document.documentElement.style.fontSize = '200%', {fits}"), path
            tab.run("document.documentElement.style.fontSize = ''")
        broken = "[...document.querySelectorAll('.scroll button')].filter((each) => each.offsetHeight > 40).length"
        assert tab.run(broken) == 0, path
        unnamed = (
            "[...document.querySelectorAll('input:not([type=hidden]), select, textarea, button, a')]"
            ".filter((each) => !each.labels?.length && !each.textContent.trim() && !each.ariaLabel).length"
        )
        assert tab.run(unnamed) == 0, path
    assert [trouble for trouble in tab.troubles() if "404" not in trouble] == []


def test_numbers_and_days_are_written_in_the_language_of_the_browser(stack: str, browser: Callable[[], Tab]) -> None:
    """By the server and by scripts alike; not what people put into data, nor what a program is to read."""
    tab = browser()
    tab.speak("de-DE")
    ours = (
        "(() => { const all = document.body.cloneNode(true);"
        " for (const each of all.querySelectorAll('bdi, code, pre, textarea, datalist')) each.remove();"
        " const texts = document.createTreeWalker(all, NodeFilter.SHOW_TEXT), found = [];"
        " while (texts.nextNode()) found.push(texts.currentNode.textContent); return found; })()"
    )
    for path in every_page(stack):
        tab.open(path)
        if path.endswith("/models/tumours"):
            tab.until("document.querySelector('.uplot') !== null")
        said = " | ".join(tab.run(ours))
        without_days = re.sub(r"\d\d\.\d\d\.\d{4}|\d\d?\.\d\d?\.,", "", said)
        assert re.findall(r"\d\.\d(?!\d\d(?!\d)).{20}|.{60}\b1,000 rows", without_days) == [], path
    tab.open(f"{stack}/ui/models/tumours")
    tab.until("document.getElementById('thousand').textContent.startsWith('Of 1.000 rows: ')")
    assert tab.run("/^\\d+(,\\d)? %$/.test(document.getElementById('recall').textContent.replace('\u00a0', ' '))")
    assert re.search(r"(precision|recall) of \d+(,\d+)?\u00a0%", tab.text())
    shares = f"{json.dumps(['en', *LOCALES])}.map((tag) => [tag, new Intl.NumberFormat(tag, {PERCENT}).format(0.955)])"
    for tag, written in tab.run(shares):
        with read_in(LOCALES.get(tag, ENGLISH)):
            assert percent(0.955) == written, tag
    assert tab.run("document.querySelector('#wish [name=lost]').value") == "0.1"  # what a form sends
    days = tab.run("[...document.querySelectorAll('#drift ~ .cards svg text')].map((each) => each.textContent)")
    assert not days or any(re.fullmatch(r"\d\d\.\d\d\.\d{4}", day) for day in days)
    long = next(
        each["id"]
        for each in httpx.get(f"{stack}/datasets?limit=100", trust_env=False).json()["items"]
        if each["rows"] == 30_000 and each["name"] == "long.csv"
    )
    tab.open(f"{stack}/ui/datasets/{long}")
    assert "30.000" in tab.text()
    assert tab.troubles() == [] or all("404" in trouble for trouble in tab.troubles())


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

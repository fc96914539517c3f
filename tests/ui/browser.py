"""A real Chromium, spoken to over its DevTools protocol: enough of it to look at pages and press what is there."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

PATIENCE = 180.0
"""Seconds until something that must come has not come: for a machine that is busy, and for nothing else."""
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    *("--remote-debugging-port=0", "--hide-scrollbars", "--lang=en-US"),
)
KEYS = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39, "End": 35}
"""By what Windows calls them, which the protocol asks for."""
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def program() -> str | None:
    """Return the browser of this machine, if it has one."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Tab:
    """One tab."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._number = 0
        self.events: list[dict[str, Any]] = []
        """What the page said: errors, violations of its policy, requests."""
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        self._connection.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            said = json.loads(self._connection.recv(PATIENCE))
            if said.get("id") == self._number:
                assert "error" not in said, (method, said["error"])
                result: dict[str, Any] = said["result"]
                return result
            if "method" in said:
                self.events.append(said)

    def run(self, script: str) -> Any:
        """Return what an expression of JavaScript gives, awaited."""
        told = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def until(self, script: str) -> Any:
        """Return what an expression gives as soon as that is true; pages may come and go meanwhile."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                value = self.run(script)
            except AssertionError:
                value = None  # in the middle of going to another page
            if value:
                return value
            assert time.monotonic() < deadline, (script, self.run("document.body.innerText")[:2000])
            time.sleep(0.05)

    def open(self, url: str) -> None:
        self.run("window.leaving = true")
        self.send("Page.navigate", url=url)
        self.loaded()

    def loaded(self) -> None:
        """Wait for another page than the one that was marked by `open` or `press`."""
        self.until("!window.leaving && document.readyState === 'complete'")

    def press(self, selector: str) -> None:
        """Press what leads to another page."""
        self.until(f"document.querySelector({json.dumps(selector)}) !== null")
        self.run(f"window.leaving = true; document.querySelector({json.dumps(selector)}).click()")
        self.loaded()

    def speak(self, language: str) -> None:
        """Let the browser be one of this language (BCP 47) from now on, as pages and scripts see it."""
        agent = self.run("navigator.userAgent")
        self.send("Emulation.setUserAgentOverride", userAgent=agent, acceptLanguage=language)
        self.send("Emulation.setLocaleOverride", locale=language)

    def fill(self, selector: str, value: str) -> None:
        field = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{field}.value = {json.dumps(value)}; {field}.dispatchEvent(new Event('input', {{bubbles: true}}))")

    def pick(self, selector: str, file: Path) -> None:
        """Choose a file of this machine in a field."""
        root = self.send("DOM.getDocument")["root"]["nodeId"]
        node = self.send("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.send("DOM.setFileInputFiles", nodeId=node, files=[str(file)])

    def key(self, name: str) -> None:
        """Press a key that has a name and no character."""
        code = KEYS[name]
        text = {"text": "\r"} if name == "Enter" else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=name, code=name, windowsVirtualKeyCode=code, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=name, code=name, windowsVirtualKeyCode=code)

    def tab_to(self, selector: str) -> None:
        """Go to something by the tabulator alone, as who has no mouse does."""
        self.until(f"document.querySelector({json.dumps(selector)}) !== null")
        for _ in range(400):
            if self.run(f"document.activeElement.matches({json.dumps(selector)})"):
                return
            self.key("Tab")
        raise AssertionError(f"the tabulator never comes to {selector}")

    def enter(self, selector: str) -> None:
        """Press what leads to another page by the keyboard alone."""
        self.tab_to(selector)
        self.run("window.leaving = true")
        self.key("Enter")
        self.loaded()

    def type(self, key: str, *, leaves: bool = True) -> None:
        """Press a key, which leads to another page, or not."""
        if leaves:
            self.run("window.leaving = true")
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" else "")
        if leaves:
            self.loaded()

    def text(self) -> str:
        return str(self.run("document.body.innerText"))

    def troubles(self) -> list[str]:
        """Return what went wrong in the page: exceptions, refused scripts and styles, failed requests."""
        found = []
        for event in self.events:
            match event["method"]:
                case "Runtime.exceptionThrown":
                    found.append(json.dumps(event["params"]["exceptionDetails"])[:500])
                case "Log.entryAdded" if event["params"]["entry"]["level"] == "error":
                    found.append(event["params"]["entry"]["text"])
        return found

    def requested(self) -> list[str]:
        """Return the addresses of everything that was asked for."""
        return [
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        ]

    def look(self, path: Path, width: int, *, dark: bool = False) -> None:
        """Write a picture of the whole page."""
        self.resize(width, dark=dark)
        height = int(self.run("document.documentElement.scrollHeight"))
        self.resize(width, min(height, 6000), dark=dark)
        self.run("new Promise((done) => setTimeout(done, 150))")
        shot = self.send("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))

    def resize(self, width: int, height: int = 900, *, dark: bool = False, still: bool = False) -> None:
        """Set the size of the window, and whether its owner wants it dark, and nothing that moves."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        motion = {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"}
        self.send("Emulation.setEmulatedMedia", features=[scheme, motion])


@contextmanager
def chromium(folder: Path) -> Iterator[Callable[[], Tab]]:
    """Run a browser with an empty profile in `folder`; yields what opens a tab."""
    found = program()
    assert found is not None
    profile = folder / "profile"
    profile.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            [found, *FLAGS, f"--user-data-dir={profile}", "about:blank"], stdout=log, stderr=log, env=environment
        )
    try:
        port = profile / "DevToolsActivePort"
        deadline = time.monotonic() + PATIENCE
        while not (port.is_file() and len(port.read_text().splitlines()) > 1):
            assert process.poll() is None, (folder / "chromium.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        number, path = port.read_text().splitlines()[:2]
        with ExitStack() as opened:
            browser = opened.enter_context(connect(f"ws://127.0.0.1:{number}{path}", max_size=None, proxy=None))

            def tab() -> Tab:
                browser.send(json.dumps({"id": 1, "method": "Target.createTarget", "params": {"url": "about:blank"}}))
                while (said := json.loads(browser.recv(PATIENCE))).get("id") != 1:
                    pass
                address = f"ws://127.0.0.1:{number}/devtools/page/{said['result']['targetId']}"
                return Tab(opened.enter_context(connect(address, max_size=None, proxy=None)))

            yield tab
    finally:
        process.kill()
        process.wait()

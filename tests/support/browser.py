"""A headless Chromium, driven by the DevTools protocol over two pipes: no package is needed.

In: a page's file. Out: results of its scripts, errors, requests, screenshots.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from patience import PATIENCE

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--hide-scrollbars", "--mute-audio", "--remote-debugging-pipe",
)  # fmt: skip
_OF_THE_BROWSER = ("Target.", "Tracing.")  # not of its page


class BrowserError(Exception):
    """The browser says that something cannot be done, or says nothing."""


class Browser:
    """A running Chromium with one page; ``problems`` are errors, ``requests`` are its requests."""

    def __init__(self, process: subprocess.Popen[bytes], writes: int, reads: int) -> None:
        self.process = process
        self._writes, self._reads = writes, reads
        self._rest = b""
        self._number = 0
        self._session = ""
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.events: list[dict[str, Any]] = []

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask for something and wait for the answer. Raises BrowserError."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session and not method.startswith(_OF_THE_BROWSER):
            message["sessionId"] = self._session
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        answer = self.wait_for(lambda found: found.get("id") == message["id"])
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def wait_for(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message that ``is_it``; all others are noted."""
        deadline = time.monotonic() + PATIENCE
        while True:
            message = self._next(deadline)
            self._note(message)
            if is_it(message):
                return message

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._reads], [], [], left)[0]:
                raise BrowserError(f"no answer for {PATIENCE} s")
            piece = os.read(self._reads, 1 << 16)
            if not piece:
                raise BrowserError("the browser has ended")
            self._rest += piece
        text, _, self._rest = self._rest.partition(b"\0")
        return json.loads(text)

    def _note(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(str(details.get("exception", {}).get("description", details)))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.problems.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.problems.append(f"dialog: {params['message']}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Tracing.dataCollected":
            self.events += params["value"]

    def open(self, path: Path, width: int = 1400, height: int = 900) -> None:
        """Show a file, and wait until its scripts have run."""
        self.problems.clear()
        self.requests.clear()
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip
        self.send("Page.navigate", url=path.resolve().as_uri())
        self.wait_for(lambda found: found.get("method") == "Page.loadEventFired")
        self.settle()

    def settle(self) -> None:
        """Wait until the requested changes are drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, script: str) -> Any:
        """The value of an expression in the page. Raises BrowserError if it throws."""
        found = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            raise BrowserError(str(details.get("exception", {}).get("description", details)))
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """A key, where the focus is."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        codes = {"Enter": 13, "Escape": 27, "Tab": 9}
        number = {"windowsVirtualKeyCode": codes[key]} if key in codes else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **number)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, **number)
        self.settle()

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """``mousePressed``, ``mouseMoved`` and the like."""
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, selector: str) -> None:
        """A click in the middle of the first element that a selector finds."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'nearest'}); const b = e.getBoundingClientRect();"
            "return [b.left + b.width / 2, b.top + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, *box, button="left", clickCount=1)
        self.settle()

    def trace(self, work: Callable[[], None], categories: str) -> list[dict[str, Any]]:
        """The events of these categories that the browser notes while ``work`` is done."""
        self.events.clear()
        self.send("Tracing.start", transferMode="ReportEvents", categories=categories)
        work()
        self.send("Tracing.end")
        self.wait_for(lambda found: found.get("method") == "Tracing.tracingComplete")
        return self.events

    def picture(self, path: Path) -> None:
        """A screenshot, as a PNG."""
        found = self.send("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(found["data"]))

    def attach(self) -> None:
        """Take hold of the page that is there from the start."""
        targets = self.send("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        found = self.send("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")


@contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """A browser whose profile is in ``folder``; it ends with the block."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    # The browser reads messages from descriptor 3 and writes them to 4.
    command = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
    words = ["bash", "-c", command, "browser", PROGRAM, *_FLAGS, f"--user-data-dir={folder}"]
    process = subprocess.Popen(
        [*words, "about:blank"], pass_fds=(theirs_in, theirs_out),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        browser = Browser(process, ours_out, ours_in)
        browser.attach()
        yield browser
    finally:
        process.terminate()
        process.wait(PATIENCE)
        os.close(ours_out)
        os.close(ours_in)

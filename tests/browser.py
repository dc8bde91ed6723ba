"""A Chromium without a window, driven through pipes by the DevTools protocol."""

import base64
import contextlib
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
NEEDS_CHROMIUM = pytest.mark.skipif(
    not CHROMIUM, reason="needs Chromium (Debian: apt-get install chromium)"
)
PATIENCE = 60
"""Seconds that an answer may take."""
KEYS = {"ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35, "Tab": 9, "Enter": 13, " ": 32}
TEXTS = {" ": " ", "Enter": "\r"}


class Browser:
    """A browser with one page.

    Attributes:
        events: what it reported by itself, such as requests and errors.
    """

    def __init__(self, profile: str) -> None:
        self.events: list[dict[str, Any]] = []
        self._numbers = itertools.count(1)
        self._rest = b""
        # Descriptors above 3 and 4, where the browser expects its pipes.
        read, write = (_above(end) for end in os.pipe())
        self._answers, answers = (_above(end) for end in os.pipe())
        self._commands = write

        def pipes() -> None:
            os.dup2(read, 3)
            os.dup2(answers, 4)

        self._process = subprocess.Popen(
            [
                CHROMIUM,
                *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"),
                *("--disable-dev-shm-usage", "--disable-extensions", "--hide-scrollbars"),
                *("--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"),
            ],
            pass_fds=(3, 4),
            preexec_fn=pipes,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read)
        os.close(answers)
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """The result of a command of the protocol."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], PATIENCE)
            assert ready, "the browser does not answer"
            more = os.read(self._answers, 1 << 16)
            assert more, "the browser has ended"
            self._rest += more
        first, self._rest = self._rest.split(b"\0", 1)
        found: dict[str, Any] = json.loads(first)
        return found

    def open(self, path: Path, width: int = 1000, height: int = 800, **media: str) -> None:
        """Open a file in a window of a size, with media features such as a color scheme."""
        self.resize(width, height)
        features = [
            {"name": name.replace("_", "-"), "value": value} for name, value in media.items()
        ]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def resize(self, width: int, height: int) -> None:
        """Give the window another size."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression evaluated in the page, as JSON data."""
        given = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        found = self.call("Runtime.evaluate", **given)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key and let go of it."""
        event = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        text = {"text": TEXTS[key]} if key in TEXTS else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **event, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def picture(self) -> bytes:
        """The whole page as a PNG."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def requests(self) -> list[str]:
        """What was loaded since the page was opened."""
        sent = [each for each in self.events if each.get("method") == "Network.requestWillBeSent"]
        return [each["params"]["request"]["url"] for each in sent]

    def complaints(self) -> list[Any]:
        """Errors, and what the page's policy forbade, since it was opened."""
        reported = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
        return [each["params"] for each in self.events if each.get("method") in reported]

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(AssertionError, OSError):
            self._session = None
            self.call("Browser.close")
        self._process.kill()
        self._process.wait(PATIENCE)
        os.close(self._commands)
        os.close(self._answers)


def _above(end: int) -> int:
    """The same end of a pipe, by a number of 10 or more."""
    moved = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(end)
    return moved


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """A browser, with a profile that is gone after it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        made = Browser(profile)
        try:
            yield made
        finally:
            made.close()

"""A headless Chromium, spoken to over a pipe (the DevTools protocol): no driver, no port."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

_NAMES = ("chromium-headless-shell", "chromium")


def find_browser() -> str:
    for name in _NAMES:
        if path := shutil.which(name):
            return path
    raise FileNotFoundError("no Chromium: scripts/setup installs chromium-headless-shell")


class Browser:
    """One page at a time, in a process and a profile of its own."""

    def __init__(self, width: int = 1440, height: int = 1000) -> None:
        self._profile = tempfile.mkdtemp(prefix="weft-browser-")
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        command = [
            find_browser(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--disable-dev-shm-usage", "--no-first-run", f"--window-size={width},{height}",
            "--remote-debugging-pipe", f"--user-data-dir={self._profile}", "about:blank",
        ]  # fmt: skip

        def place_pipes() -> None:
            # The browser reads from 3 and writes to 4, which the pipe's own numbers may be.
            first, second = os.dup(to_read), os.dup(to_write)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self._process = subprocess.Popen(
            command, preexec_fn=place_pipes, close_fds=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._next, self._buffer, self._session = 0, b"", None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self._profile, ignore_errors=True)

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise TimeoutError("the browser does not answer")
            self._buffer += os.read(self._read, 1 << 16)
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._next += 1
        request: dict[str, Any] = {"id": self._next, "method": method, "params": parameters}
        if self._session:
            request["sessionId"] = self._session
        os.write(self._write, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            message = self._message(deadline)
            if message.get("id") != self._next:
                self.events.append(message)
            elif "error" in message:
                raise RuntimeError(f"{method}: {message['error']}")
            else:
                return message["result"]

    def open(self, path: Path, fragment: str = "", scheme: str = "light") -> float:
        """Shows a file; the milliseconds until it was complete and drawn."""
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        self.call("Page.navigate", url="about:blank")
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri() + fragment)
        for _ in range(600):
            if (
                self.js("document.readyState") == "complete"
                and self.js("location.protocol") == "file:"
            ):
                break
            time.sleep(0.05)
        return self.js(
            "new Promise(done => requestAnimationFrame("
            "() => setTimeout(() => done(performance.now()))))"
        )

    def js(self, expression: str) -> Any:
        """The value of an expression in the page; of a promise, what it comes to."""
        result = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def complaints(self) -> list[dict[str, Any]]:
        """Errors, warnings and log entries since open()."""
        self.js("0")
        kinds = (
            "Runtime.exceptionThrown",
            "Runtime.consoleAPICalled",
            "Log.entryAdded",
            "Page.javascriptDialogOpening",
        )
        return [event for event in self.events if event["method"] in kinds]

    def requests(self) -> list[str]:
        """What the page asked for since open(), itself not counted."""
        self.js("0")
        urls = [
            e["params"]["request"]["url"]
            for e in self.events
            if e["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in urls if not url.startswith(("file:", "about:", "data:"))] + urls[1:]

    def key(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def screenshot(self, path: Path, whole: bool = False) -> None:
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)[
            "data"
        ]
        path.write_bytes(base64.b64decode(data))

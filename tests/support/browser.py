"""A headless Chromium, spoken to through chromedriver (W3C WebDriver) with nothing but urllib.

Both come from the packages `chromium` and `chromium-driver`; scripts/toolchain.sh installs them.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.toolchain import browser_programs

_READY = re.compile(r"started successfully on port (\d+)")
_START_LINES_MAX = 20
_STARTS_MAX = 5
_TAKEN = "Address already in use"
_REQUEST_TIMEOUT_S = 60.0
_WAIT_S = 20.0
_POLL_S = 0.05
_NOT_TEXT = {
    "Tab": "\ue004",
    "Enter": "\ue007",
    "Shift": "\ue008",
    "Escape": "\ue00c",
    "Space": " ",
}
_NOT_TEXT |= {"End": "\ue010", "Home": "\ue011", "Left": "\ue012", "Up": "\ue013"}
_NOT_TEXT |= {"Right": "\ue014", "Down": "\ue015", "Backspace": "\ue003"}
"""Keys that write nothing, as WebDriver wants them."""

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
)


class Browser:
    """One window. `messages` and `requests` give what the page wrote to its console, and which
    addresses it asked for, since they were last asked."""

    def __init__(self, address: str, session: str) -> None:
        self._at = f"{address}/session/{session}"

    def open(self, place: Path | str) -> None:
        """A file, or an address."""
        url = place if isinstance(place, str) else place.resolve().as_uri()
        self._call("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of a function body."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script: str, *arguments: Any) -> Any:
        """What a function body passes to `done`, the last of its arguments."""
        script = f"const done = arguments[arguments.length - 1]; {script}"
        return self._call("POST", "/execute/async", {"script": script, "args": list(arguments)})

    def wait(self, script: str, *arguments: Any) -> Any:
        """Waits until a function body gives something true, and returns it."""
        deadline = time.monotonic() + _WAIT_S
        while not (found := self.run(script, *arguments)):
            assert time.monotonic() < deadline, f"not within {_WAIT_S} s: {script} {arguments}"
            time.sleep(_POLL_S)
        return found

    def press(self, *keys: str) -> None:
        """One key after the other, by its name or its character; "Shift+Tab" for both at once."""
        actions = []
        for key in keys:
            held = [_NOT_TEXT.get(one, one) for one in key.split("+")]
            actions += [{"type": "keyDown", "value": one} for one in held]
            actions += [{"type": "keyUp", "value": one} for one in reversed(held)]
        source = {"type": "key", "id": "keyboard", "actions": actions}
        self._call("POST", "/actions", {"actions": [source]})

    def messages(self) -> list[str]:
        """Console messages and what the browser itself objected to."""
        entries = self._call("POST", "/se/log", {"type": "browser"})
        return [f"{entry['level']}: {entry['message']}" for entry in entries]

    def requests(self) -> list[str]:
        """Addresses that the page has asked for."""
        entries = self._call("POST", "/se/log", {"type": "performance"})
        events = [json.loads(entry["message"])["message"] for entry in entries]
        sent = [one for one in events if one["method"] == "Network.requestWillBeSent"]
        return [one["params"]["request"]["url"] for one in sent]

    def resize(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.devtools("Emulation.setDeviceMetricsOverride", metrics)

    def devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def screenshot(self, target: Path) -> None:
        target.write_bytes(base64.b64decode(self._call("GET", "/screenshot")))

    def close(self) -> None:
        self._call("DELETE", "")

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        return _request(method, self._at + path, body)


def _request(method: str, url: str, body: Any) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=_REQUEST_TIMEOUT_S) as reply:
        return json.load(reply)["value"]


@contextmanager
def running_browser(directory: Path) -> Iterator[Browser]:
    """`directory`, which is new, takes the profile. Fails loudly when there is no browser."""
    driver, chromium = browser_programs()
    with _driver(driver) as address:
        options = {
            "binary": chromium,
            "args": [*_FLAGS, f"--user-data-dir={directory}", "--window-size=1440,1000"],
        }
        logs = {"browser": "ALL", "performance": "ALL"}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": logs}
        answer = _request("POST", f"{address}/session", {"capabilities": {"alwaysMatch": wanted}})
        browser = Browser(address, answer["sessionId"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def _driver(program: str) -> Iterator[str]:
    """The address of a chromedriver. It takes any free port of IPv6 and then needs the same one of
    IPv4, which another process may have: then it ends, and another one is started."""
    for _ in range(_STARTS_MAX):
        process = subprocess.Popen(
            [program, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            port, said = _port(process)
            if port:
                yield f"http://127.0.0.1:{port}"
                return
        finally:
            process.terminate()
            process.wait(10)
            assert process.stdout is not None
            process.stdout.close()
        assert _TAKEN in said, f"chromedriver did not start: {said}"
    raise AssertionError(f"chromedriver found no free port: {said}")


def _port(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The port, or 0 if it has none, and what it said."""
    assert process.stdout is not None
    lines = []
    for _ in range(_START_LINES_MAX):
        line = process.stdout.readline()
        lines.append(line)
        found = _READY.search(line)
        if found:
            return int(found[1]), ""
    return 0, "".join(lines)

"""Drive one page of Chromium over its debugging port."""

import asyncio
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NEEDS_CHROMIUM = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--remote-debugging-port=0",
    "--window-size=1500,1250",
]
READY = "document.querySelector('.al-viewer')?.dataset.state === 'ready'"
SAVED_SVG = """(async () => {
  const made = URL.createObjectURL, blobs = [];
  URL.createObjectURL = (blob) => { blobs.push(blob); return made(blob); };
  document.querySelector('[data-act=svg]').click();
  while (!blobs.length) await new Promise((resolve) => setTimeout(resolve, 20));
  URL.createObjectURL = made;
  return blobs[0].text();
})()"""
"""Press the button SVG, and return the file that is saved."""
DRAWN = """(() => {
  const drawn = [], draw = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {
    drawn.push(text);
    draw.call(this, text, ...more);
  };
  dispatchEvent(new Event('resize'));
  document.querySelector('[data-value=linear]').click();
  return new Promise((resolve) => setTimeout(() => {
    CanvasRenderingContext2D.prototype.fillText = draw;
    resolve(drawn);
  }, 300));
})()"""
"""Texts that the figure draws."""


class Browser:
    """One page of Chromium, with its messages and requests since it was opened."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.loop = asyncio.new_event_loop()
        self.sent = 0
        self.events: list[dict[str, Any]] = []
        try:
            port = profile / "DevToolsActivePort"
            _until(lambda: port.exists() and "\n" in port.read_text(), 60)
            self.loop.run_until_complete(self._connect(int(port.read_text().split()[0])))
        except BaseException:
            self.process.kill()
            raise

    async def _connect(self, port: int) -> None:
        self.session = aiohttp.ClientSession()
        async with self.session.get(f"http://127.0.0.1:{port}/json") as answer:
            pages = await answer.json(content_type=None)
        address = next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
        self.socket = await self.session.ws_connect(address, max_msg_size=0)
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self._call(f"{domain}.enable", {})

    async def _call(
        self, method: str, parameters: dict[str, Any], session: str | None = None
    ) -> dict[str, Any]:
        self.sent += 1
        place = {"sessionId": session} if session else {}
        await self.socket.send_json({"id": self.sent, "method": method, "params": parameters, **place})
        while True:
            message = json.loads((await self.socket.receive(timeout=60)).data)
            if message.get("id") == self.sent:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            self.events.append(message)

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        return self.loop.run_until_complete(self._call(method, parameters, session))

    def frames(self) -> list[str]:
        """The sessions of the sandboxed frames of the page, in which scripts can be run."""
        targets = self.call("Target.getTargets")["targetInfos"]
        frames = [one["targetId"] for one in targets if one["type"] == "iframe"]
        attach = "Target.attachToTarget"
        return [self.call(attach, targetId=one, flatten=True)["sessionId"] for one in frames]

    def run(self, script: str, session: str | None = None) -> Any:
        """The value of an expression in the page or in one of its `frames`; waits for promises."""
        asked = {"expression": script, "awaitPromise": True, "returnByValue": True}
        found = self.loop.run_until_complete(self._call("Runtime.evaluate", asked, session))
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, script: str, session: str | None = None) -> None:
        _until(lambda: self.run(script, session), 60)

    def open(self, address: str, ready: str = READY) -> None:
        self.call("Page.navigate", url="about:blank")  # so that a new hash alone is a new page too
        self.events.clear()
        self.call("Page.navigate", url=address)
        self.wait(ready)

    def press(self, key: str) -> None:
        self.run(
            f"document.body.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}}))"
        )
        self.wait(READY)

    def complaints(self) -> list[str]:
        """Errors and warnings on the console, and exceptions, except for the missing icon."""
        found = []
        for event in self.events:
            match event:
                case {"method": "Runtime.exceptionThrown", "params": {"exceptionDetails": details}}:
                    found.append(str(details))
                case {
                    "method": "Runtime.consoleAPICalled",
                    "params": {"type": "error" | "warning", "args": args},
                }:
                    found.append(str(args))
                case {
                    "method": "Log.entryAdded",
                    "params": {"entry": {"level": "error" | "warning"} as entry},
                }:
                    if not str(entry.get("url", "")).endswith("favicon.ico"):
                        found.append(entry["text"])
        return found

    def requests(self) -> list[str]:
        """The requested addresses."""
        sent = [
            event["params"] for event in self.events if event.get("method") == "Network.requestWillBeSent"
        ]
        return [one["request"]["url"] for one in sent if one["request"]["url"] != "about:blank"]

    def close(self) -> None:
        self.loop.run_until_complete(self.socket.close())
        self.loop.run_until_complete(self.session.close())
        self.loop.close()
        self.process.terminate()
        self.process.wait(30)


def names_of(browser: Browser, role: str) -> list[str]:
    """The names by which a screen reader calls the elements of a role, in their order on the page."""
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    found = [one for one in nodes if not one["ignored"] and one["role"]["value"] == role]
    return [one["name"]["value"] for one in found]


def _until(found: Callable[[], Any], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)

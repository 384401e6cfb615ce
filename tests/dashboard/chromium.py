"""A real browser for tests: Debian's chromium, driven by the DevTools protocol over a websocket of aiohttp.

Nothing but chromium itself is needed, and everything runs in the event loop of the test, beside the server. A tab waits
for conditions inside the page, never for a time, and keeps what went wrong: errors on the console, failed requests,
requests to other hosts.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NO_CHROMIUM = "chromium is not installed"
WAIT_SECONDS = 60
"""So long a condition may take on a machine that is busy with other things."""
_FLAGS = (
    "--headless=new", "--remote-debugging-port=0", "--no-sandbox", "--no-first-run", "--disable-gpu",
    "--hide-scrollbars", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
    "--disable-extensions", "--disable-default-apps", "--disable-sync", "--mute-audio", "--lang=en-GB",
    "--renderer-process-limit=1",
)  # fmt: skip
_KEYS = {
    "Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "PageUp": 33, "PageDown": 34, "End": 35, "Home": 36, "ArrowLeft": 37,
    "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Backspace": 8,
}  # fmt: skip
_TEXT_OF_KEY = {"Enter": "\r", " ": " "}
_SHIFT = 8
# Looks at every frame and, for pages that draw none, every 50 milliseconds.
_WAIT = """(async () => {
  const until = performance.now() + %d;
  while (true) {
    const value = await (async () => (%s))();
    if (value) return value;
    if (performance.now() > until) {
      const says = document.body ? document.body.innerText.slice(0, 1500) : "nothing";
      throw new Error("not within the time; the page says: " + says);
    }
    await new Promise((go) => { setTimeout(go, 50); requestAnimationFrame(go); });
  }
})()"""


class PageScriptError(AssertionError):
    """A script that a test ran in a page threw, or a condition was never met."""


@dataclass(slots=True)
class ChromiumTab:
    """One tab with cookies of its own."""

    send: Callable[..., Any]
    origin: str
    problems: list[str] = field(default_factory=list)
    """Errors on the console, uncaught exceptions, refusals by the content security policy."""
    other_hosts: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    """What was asked of the server, in order."""

    def take(self, name: str, value: dict[str, Any]) -> None:
        if name == "Runtime.exceptionThrown":
            self.problems.append(str(value["exceptionDetails"].get("exception", {}).get("description", value)))
        elif name == "Runtime.consoleAPICalled" and value["type"] in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(each.get("value", each.get("description"))) for each in value["args"]))
        elif name == "Log.entryAdded" and value["entry"]["level"] in ("error", "warning"):
            self.problems.append(f"{value['entry']['text']} {value['entry'].get('url', '')}")
        elif name == "Network.requestWillBeSent":
            address = urlsplit(value["request"]["url"])
            if address.scheme in ("data", "blob"):
                return
            if f"{address.scheme}://{address.netloc}" != self.origin:
                self.other_hosts.append(value["request"]["url"])
            self.paths.append(address.path + (f"?{address.query}" if address.query else ""))

    async def go(self, address: str) -> None:
        await self.send("Page.navigate", url=address)

    async def show_as(self, width: int, height: int = 900, *, is_dark: bool = False) -> None:
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        await self.send("Emulation.setEmulatedMedia", features=features)

    async def cut_off(self, is_offline: bool) -> None:
        """Take the network away from the tab, or give it back."""
        speed = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        await self.send("Network.emulateNetworkConditions", offline=is_offline, **speed)

    async def evaluate(self, expression: str) -> Any:
        done = await self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            details = done["exceptionDetails"]
            raise PageScriptError(f"{expression[:300]}: {details.get('exception', {}).get('description', details)}")
        return done["result"].get("value")

    async def wait_for(self, condition: str) -> Any:
        """Until a condition in JavaScript holds; its value."""
        return await self.evaluate(_WAIT % (WAIT_SECONDS * 1000, condition))

    async def wait_for_text(self, text: str, within: str = "body") -> None:
        await self.wait_for(f"document.querySelector({json.dumps(within)})?.innerText.includes({json.dumps(text)})")

    async def wait_for_no(self, selector: str) -> None:
        await self.wait_for(f"!document.querySelector({json.dumps(selector)})")

    async def text(self, selector: str = "body") -> str:
        return str(await self.wait_for(f"document.querySelector({json.dumps(selector)})?.innerText"))

    async def texts(self, selector: str) -> list[str]:
        found: list[str] = await self.evaluate(
            f"[...document.querySelectorAll({json.dumps(selector)})].map((each) => each.innerText)"
        )
        return found

    async def focused(self) -> str:
        """What has the focus, in the words that stand on it."""
        on = "document.activeElement"
        return str(await self.evaluate(f"{on}.getAttribute('aria-label') || {on}.innerText || {on}.id"))

    async def click(self, selector: str, text: str = "") -> None:
        """Press the middle of an element with the mouse; with `text`, the first one that has it."""
        find = (
            f"[...document.querySelectorAll({json.dumps(selector)})].find((each) => each.innerText.includes("
            f"{json.dumps(text)}) && each.getClientRects().length)"
        )
        place = await self.wait_for(
            f"(() => {{ const found = {find}; if (!found) return null;"
            " found.scrollIntoView({ block: 'center', behavior: 'instant' });"
            " const box = found.getBoundingClientRect();"
            " return [box.left + box.width / 2, box.top + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.send("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    async def press(self, key: str, *, is_shifted: bool = False, times: int = 1) -> None:
        what = {"key": key, "code": key, "windowsVirtualKeyCode": _KEYS[key], "modifiers": _SHIFT * is_shifted}
        for _ in range(times):
            typed = {"text": _TEXT_OF_KEY[key]} if key in _TEXT_OF_KEY else {}
            await self.send("Input.dispatchKeyEvent", type="keyDown", **what, **typed)
            await self.send("Input.dispatchKeyEvent", type="keyUp", **what)

    async def type(self, text: str) -> None:
        """Type into what has the focus, letter by letter, as a person does."""
        for letter in text:
            await self.send("Input.dispatchKeyEvent", type="keyDown", text=letter, key=letter)
            await self.send("Input.dispatchKeyEvent", type="keyUp", key=letter)

    async def fill(self, selector: str, text: str) -> None:
        """Put the focus into a field, empty it, and type."""
        found = f"document.querySelector({json.dumps(selector)})"
        await self.wait_for(f"{found} && ({found}.focus(), {found}.select(), true)")
        if not text:
            await self.press("Backspace")
        await self.type(text)


class Chromium:
    """A running browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._tabs: dict[str, ChromiumTab] = {}

    async def read(self) -> None:
        """Hand every answer to who waits for it, and every event to its tab."""
        async for packet in self._socket:
            told = json.loads(packet.data)
            if "id" in told:
                waiting = self._waiting.pop(told["id"])
                if waiting.cancelled():
                    continue
                if "error" in told:
                    waiting.set_exception(PageScriptError(str(told["error"])))
                else:
                    waiting.set_result(told["result"])
            elif told.get("sessionId") in self._tabs:
                self._tabs[told["sessionId"]].take(told["method"], told["params"])

    async def send(self, method: str, session: str | None = None, **fields: Any) -> Any:
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        named = {} if session is None else {"sessionId": session}
        await self._socket.send_str(json.dumps({"id": number, "method": method, "params": fields, **named}))
        async with asyncio.timeout(WAIT_SECONDS + 15):
            return await self._waiting[number]

    @asynccontextmanager
    async def tab(self, origin: str, width: int = 1400, *, is_dark: bool = False) -> AsyncIterator[ChromiumTab]:
        """A tab for one server, whose requests to any other are told."""
        context = (await self.send("Target.createBrowserContext"))["browserContextId"]
        target = (await self.send("Target.createTarget", url="about:blank", browserContextId=context))["targetId"]
        session = (await self.send("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]

        async def send(method: str, **fields: Any) -> Any:
            return await self.send(method, session, **fields)

        made = self._tabs[session] = ChromiumTab(send, origin)
        for room in ("Page", "Runtime", "Network", "Log"):
            await send(f"{room}.enable")
        await made.show_as(width, is_dark=is_dark)
        try:
            yield made
        finally:
            del self._tabs[session]
            await self.send("Target.disposeBrowserContext", browserContextId=context)


@asynccontextmanager
async def running_chromium() -> AsyncIterator[Chromium]:
    assert CHROMIUM is not None, NO_CHROMIUM
    with tempfile.TemporaryDirectory(prefix="clew-chromium-", ignore_cleanup_errors=True) as folder:
        process = await asyncio.create_subprocess_exec(
            CHROMIUM,
            *_FLAGS,
            f"--user-data-dir={folder}",
            "about:blank",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                address = await _address_of(process)
            drain = asyncio.create_task(_drain(process))
            async with aiohttp.ClientSession() as http, http.ws_connect(address, max_msg_size=0) as socket:
                browser = Chromium(socket)
                reading = asyncio.create_task(browser.read())
                yield browser
                reading.cancel()
                drain.cancel()
        finally:
            # It starts processes of its own; they are one group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def _address_of(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    async for line in process.stderr:
        if b"DevTools listening on " in line:
            return line.split(b" on ", 1)[1].decode().strip()
    raise AssertionError("chromium ended before it listened")


async def _drain(process: asyncio.subprocess.Process) -> None:
    assert process.stderr is not None
    while await process.stderr.read(4096):
        pass

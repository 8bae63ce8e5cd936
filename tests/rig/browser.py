"""A headless Chromium, driven over the DevTools protocol."""

import asyncio
import contextlib
import itertools
import os
import shutil
import tempfile
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--headless",
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
PATIENCE = 20.0
Event = tuple[str, str, dict[str, Any]]
CONTRAST = """
(() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (; element; element = element.parentElement) {
      const colour = parse(getComputedStyle(element).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll('body *')].filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
    .map(e => {
      const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
      return [e.tagName, e.textContent.trim().slice(0, 30), (a + 0.05) / (b + 0.05)];
    })
    .filter(([, , ratio]) => ratio < 4.5);
})()
"""
"""Every text of a page whose contrast with its background is below 4.5:1 (WCAG 2.2, 1.4.3)."""


class Browser:
    """A running Chromium. Every private page has a profile of its own."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._listeners: dict[str, Page] = {}

    async def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """A DevTools command and its result. Raises RuntimeError with the browser's words."""
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": parameters}
        await self._socket.send_json(message if session is None else {**message, "sessionId": session})
        async with asyncio.timeout(PATIENCE):
            result: dict[str, Any] = await future
        return result

    async def page(
        self, *, width: int = 1280, height: int = 800, dark: bool = False, scale: float = 1.0, private: bool = True, language: str = "en"
    ) -> "Page":
        """A new window without cookies, of that size, colour scheme and language; without ``private`` with the profile of the browser."""
        context = (await self.call("Target.createBrowserContext"))["browserContextId"] if private else None
        where = {"browserContextId": context} if context else {}
        target = (await self.call("Target.createTarget", url="about:blank", **where))["targetId"]
        session = (await self.call("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
        page = self._listeners[session] = Page(self, session, context)
        for domain in ("Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable", session)
        narrow = width < 600
        await self.call("Emulation.setDeviceMetricsOverride", session, width=width, height=height, deviceScaleFactor=scale, mobile=narrow)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", session, features=[scheme])
        await self.call("Network.enable", session)
        await self.call("Network.setExtraHTTPHeaders", session, headers={"Accept-Language": language})
        return page

    async def listen(self) -> None:
        """Hand out what the browser says, until it ends."""
        async for message in self._socket:
            said = message.json()
            if "id" in said:
                future = self._waiting.pop(said["id"])
                if not future.done():
                    if "error" in said:
                        future.set_exception(RuntimeError(said["error"]["message"]))
                    else:
                        future.set_result(said["result"])
            elif (page := self._listeners.get(said.get("sessionId", ""))) is not None:
                page.hear(said["method"], said["params"])


class Page:
    """A window."""

    def __init__(self, browser: Browser, session: str, context: str | None) -> None:
        self._browser = browser
        self._session = session
        self._context = context
        self._loads: asyncio.Queue[str] = asyncio.Queue()
        self._url = ""
        self.complaints: list[str] = []
        """What the browser found wrong: scripts and policies."""

    def hear(self, method: str, parameters: dict[str, Any]) -> None:
        match method:
            case "Page.frameNavigated" if "parentId" not in parameters["frame"]:
                self._url = parameters["frame"]["url"]
            case "Page.loadEventFired":
                self._loads.put_nowait(self._url)
            case "Log.entryAdded":
                entry = parameters["entry"]
                # A status of 400 is no complaint, nor that a typing person was faster than autofocus.
                if entry["source"] != "network" and entry["level"] in {"warning", "error"}:
                    self.complaints.append(entry["text"])
            case "Runtime.exceptionThrown":
                self.complaints.append(parameters["exceptionDetails"]["text"])

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return await self._browser.call(method, self._session, **parameters)

    async def close(self) -> None:
        """Close the window; its profile is forgotten, when it has one."""
        if self._context is None:
            await self.call("Page.close")
        else:
            await self._browser.call("Target.disposeBrowserContext", browserContextId=self._context)

    async def goto(self, url: str, *, to: str | None = None) -> str:
        """Open a URL and wait until a page whose URL begins with ``to`` (any, when None) is there; its URL."""
        self._forget()
        await self.call("Page.navigate", url=url)
        return await self.arrived(to or "")

    async def click(self, selector: str, *, to: str = "") -> str:
        """Click what leads on, and wait as :meth:`goto`."""
        self._forget()
        await self.run(f"document.querySelector({selector!r}).click()")
        return await self.arrived(to)

    async def arrived(self, to: str) -> str:
        """Wait until a page whose URL begins with ``to`` is there."""
        seen = []
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    url = await self._loads.get()
                    seen.append(url)
                    if url.startswith(to) and url != "about:blank":
                        return url
        except TimeoutError:
            raise AssertionError(f"no page {to}; there were {seen}; the browser says {self.complaints}") from None

    async def fill(self, selector: str, text: str) -> None:
        """Type into a field, as a person does."""
        await self.run(f"document.querySelector({selector!r}).focus(); document.querySelector({selector!r}).select()")
        await self.call("Input.insertText", text=text)

    async def run(self, script: str) -> Any:
        """The value of an expression."""
        result = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"].get("description", result["exceptionDetails"]["text"]))
        return result["result"].get("value")

    async def focused(self, id: str) -> None:
        """Wait until the element with this id has the focus: autofocus comes a moment after the page."""
        look = f"const look = () => document.activeElement?.id === {id!r} ? done() : requestAnimationFrame(look)"
        await self.run(f"new Promise(done => {{ {look}; look() }})")

    async def appeared(self, selector: str) -> None:
        """Wait until a script shows the element."""
        look = f"const look = () => document.querySelector({selector!r})?.checkVisibility() ? done() : requestAnimationFrame(look)"
        await self.run(f"new Promise(done => {{ {look}; look() }})")

    async def text(self) -> str:
        """What a person reads."""
        return str(await self.run("document.body.innerText"))

    async def picture(self, path: Path, *, whole: bool = False) -> None:
        """A PNG of the window, or of the whole page."""
        result = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        await asyncio.to_thread(path.write_bytes, b64decode(result["data"]))

    def _forget(self) -> None:
        while not self._loads.empty():
            self._loads.get_nowait()


@contextlib.asynccontextmanager
async def chromium(*options: str, environ: Mapping[str, str] | None = None) -> AsyncIterator[Browser]:
    """A browser with an empty profile; ``environ`` is added to ours.

    Raises FileNotFoundError where there is none (Debian: the package chromium).
    """
    if CHROMIUM is None:
        raise FileNotFoundError("chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            CHROMIUM,
            *QUIET,
            *options,
            "--remote-debugging-port=0",
            f"--user-data-dir={profile}",
            "about:blank",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **environ} if environ else None,
        )
        try:
            url = await _endpoint(process)
            draining = asyncio.create_task(_drain(process))
            async with aiohttp.ClientSession() as http, http.ws_connect(url, max_msg_size=0) as socket:
                browser = Browser(socket)
                listening = asyncio.create_task(browser.listen())
                try:
                    yield browser
                finally:
                    listening.cancel()
                    await asyncio.gather(listening, return_exceptions=True)
            draining.cancel()
            await asyncio.gather(draining, return_exceptions=True)
        finally:
            process.kill()
            await process.wait()


async def _endpoint(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE):
        while line := (await process.stderr.readline()).decode(errors="replace"):
            if line.startswith("DevTools listening on "):
                return line.removeprefix("DevTools listening on ").strip()
    raise RuntimeError("chromium ended before it was ready")


async def _drain(process: asyncio.subprocess.Process) -> None:
    assert process.stderr is not None
    while await process.stderr.readline():
        pass

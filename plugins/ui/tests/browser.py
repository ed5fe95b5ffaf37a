"""A headless Chromium, driven over its DevTools protocol with Tornado's web-socket client."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tornado.websocket import WebSocketClientConnection, websocket_connect

# What Chromium says of an evaluation that a navigation has ended.
_LEFT = ("Inspected target navigated", "context was destroyed", "Cannot find context", "Promise was collected")
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def installed() -> str | None:
    """The browser's path; ``None`` when there is none."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


class PageLeftError(RuntimeError):
    """The page in which an expression was evaluated is no longer the tab's."""


class Tab:
    """A page that is open.

    Attributes:
        problems: errors and warnings of the console, uncaught exceptions, failed requests.
        hosts: every host that was asked for something.
    """

    def __init__(self, connection: WebSocketClientConnection) -> None:
        self._connection = connection
        self._session = ""
        self._number = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._reader = asyncio.ensure_future(self._read())
        self.problems: list[str] = []
        self.hosts: set[str] = set()

    async def send(self, method: str, **parameters: Any) -> Any:
        """Give a command and wait for its result."""
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session and not method.startswith(("Target.", "Browser.")):
            command["sessionId"] = self._session
        await self._connection.write_message(json.dumps(command))
        return await asyncio.wait_for(answer, 60)

    async def attach(self) -> None:
        """Open an empty tab."""
        target = await self.send("Target.createTarget", url="about:blank")
        attached = await self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.send(f"{domain}.enable")

    async def close(self) -> None:
        """End the browser."""
        await self.send("Browser.close")
        self._connection.close()
        await asyncio.wait_for(self._reader, 30)

    async def value(self, expression: str) -> Any:
        """Evaluate JavaScript."""
        result = await self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    async def until(self, expression: str, timeout_s: float = 60) -> Any:
        """Evaluate JavaScript until it is true."""
        # The page answers when it is: nobody polls it from here.
        waiting = f"""new Promise((resolve, reject) => {{
            const end = performance.now() + {timeout_s * 1000};
            const look = () => {{
                const found = (() => {{ try {{ return {expression}; }} catch {{ return null; }} }})();
                if (found) resolve(found);
                else if (performance.now() > end) reject(new Error("never true"));
                else setTimeout(look, 50);
            }};
            look();
        }})"""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        while True:
            try:
                return await self.value(waiting)
            # Evaluated again in the page that the tab shows then.
            except PageLeftError:
                if loop.time() > end:
                    raise

    async def open(self, url: str, width: int = 1280, height: int = 900, *, dark: bool = False) -> None:
        """Load a page and wait until it is live and drawn."""
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = "dark" if dark else "light"
        await self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        await self.send("Page.navigate", url=url)
        await self.until(f"location.href === {json.dumps(url)} && document.documentElement.dataset.ready === 'true'")

    async def leave(self) -> None:
        """Go to an empty page, which asks no server for anything."""
        await self.send("Page.navigate", url="about:blank")
        await self.until("location.href === 'about:blank' && document.readyState === 'complete'")

    async def click(self, place: tuple[float, float]) -> None:
        """Click somewhere in the window."""
        x, y = place
        await self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for event in ("mousePressed", "mouseReleased"):
            await self.send("Input.dispatchMouseEvent", type=event, x=x, y=y, button="left", clickCount=1)

    async def picture(self, path: Path, *, whole: bool = True) -> None:
        """Save what is seen, or the whole page, as a PNG."""
        clip = {}
        if whole:
            height = await self.value("document.documentElement.scrollHeight")
            width = await self.value("document.documentElement.clientWidth")
            clip = {"clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}
        shot = await self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    async def _read(self) -> None:
        while (text := await self._connection.read_message()) is not None:
            message = json.loads(text)
            if "id" in message:
                answer = self._answers.pop(message["id"])
                if "error" in message:
                    text = str(message["error"])
                    was_left = any(words in text for words in _LEFT)
                    answer.set_exception(PageLeftError(text) if was_left else RuntimeError(text))
                elif not answer.done():
                    answer.set_result(message["result"])
            else:
                self._note(message["method"], message["params"])

    def _note(self, event: str, parameters: dict[str, Any]) -> None:
        if event == "Runtime.consoleAPICalled" and parameters["type"] in {"error", "warning", "assert"}:
            self.problems.append(str([each.get("value", each.get("description")) for each in parameters["args"]]))
        elif event == "Runtime.exceptionThrown":
            self.problems.append(str(parameters["exceptionDetails"]))
        elif event == "Log.entryAdded" and parameters["entry"]["level"] in {"error", "warning"}:
            self.problems.append(str(parameters["entry"]))
        elif event == "Network.requestWillBeSent":
            scheme, _, rest = parameters["request"]["url"].partition("://")
            if scheme in {"http", "https", "ws", "wss"}:
                self.hosts.add(rest.split("/")[0])


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Tab]:
    """Start a browser with one empty tab, and end it.

    Args:
        folder: an empty one for its profile.
    """
    path = installed()
    assert path is not None
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
    quiet = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")
    process = subprocess.Popen(
        [path, *options, *quiet, f"--user-data-dir={folder}", "--remote-debugging-port=0", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        address = await asyncio.wait_for(asyncio.to_thread(_debugger, process), 60)
        tab = Tab(await websocket_connect(address, max_message_size=1 << 28))
        await tab.attach()
        try:
            yield tab
        finally:
            await tab.close()
    finally:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
        assert process.stderr is not None
        process.stderr.close()


def _debugger(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if "DevTools listening on " in line:
            return line.split("DevTools listening on ")[1].strip()
    raise RuntimeError("the browser ended before it listened")

"""Takes the screenshots of docs/monitoring.md: ``python -m plugins.ui.tests.write_screenshots``; needs Chromium.

The pages show applications that never ran, so that the pictures can be taken again.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from io import BytesIO
from pathlib import Path

from PIL import Image
from plugins.ui.tests.browser import Tab, browser
from plugins.ui.tests.snapshots import snapshot

from penstock_ui.access import Token
from penstock_ui.server import UIServer
from penstock_ui.snapshot import Snapshot

FOLDER = Path(__file__).parents[3] / "docs" / "images"
_GAP = 16
_SETTLE_S = 1.0


class Growing:
    """An application that completes a batch a second, the last one now."""

    def __init__(
        self, receivers: int, completed: int, *, slow: bool = False, problems: dict[int, str] | None = None
    ) -> None:
        self._receivers = receivers
        self._completed = completed
        self._slow = slow
        self._problems = problems
        self._began_s = int(time.time())
        late_s = 0.2 * completed if slow else 1
        self._start_ms = int(self._began_s - completed - late_s) * 1000

    def snapshot(self) -> Snapshot:
        completed = self._completed + int(time.time()) - self._began_s
        return snapshot(
            self._receivers, completed, slow=self._slow, problems=self._problems, details=200, start_ms=self._start_ms
        )


async def pictures() -> None:
    """Take every picture."""
    FOLDER.mkdir(exist_ok=True)
    await take("dashboard", Growing(3, 420), [("/", 1280, 960, False)])
    await take("dashboard-falling-behind", Growing(3, 330, slow=True), [("/", 1280, 960, True)])
    many = {3: "stopped", 7: "given up", 11: "unhealthy", 20: "lost"}
    await take("dashboard-streams", Growing(1000, 300, problems=many), [("/streams", 1280, 620, False)])
    await take("dashboard-triage", Growing(24, 120, slow=True, problems=many), [("/triage", 1280, 1000, False)])
    steady = Growing(3, 420)
    failed = next(batch.time_ms for batch in reversed(steady.snapshot().completed) if batch.num_failed)
    await take("dashboard-batch", steady, [(f"/batch?id={failed}", 1280, 560, False)])
    await take("dashboard-rates", Growing(3, 190), [("/stream?id=1", 1280, 620, True)])
    phones = [("/", 390, 844, False), ("/streams?show=problems", 390, 844, True), ("/graph", 390, 844, False)]
    await take("dashboard-phone", Growing(50, 190, problems=many), phones)


async def take(name: str, source: Growing, views: list[tuple[str, int, int, bool]]) -> None:
    """Take one picture of one or more views side by side, with few colours."""
    server = UIServer(source, port=0, token=Token())
    server.start()
    try:
        with tempfile.TemporaryDirectory() as profile:
            async with browser(Path(profile)) as tab:
                seen = [await _seen(tab, server.url, *view) for view in views]
    finally:
        server.stop()
    width = sum(each.width for each in seen) + _GAP * (len(seen) - 1)
    whole = Image.new("RGB", (width, max(each.height for each in seen)), "white")
    left = 0
    for each in seen:
        whole.paste(each, (left, 0))
        left += each.width + _GAP
    small = whole.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE)
    small.save(FOLDER / f"{name}.png", optimize=True)


async def _seen(tab: Tab, url: str, path: str, width: int, height: int, dark: bool) -> Image.Image:
    await tab.open(f"{url}{path}", width, height, dark=dark)
    # Charts are drawn some frames after the page is ready.
    await asyncio.sleep(_SETTLE_S)
    with tempfile.NamedTemporaryFile(suffix=".png") as file:
        await tab.picture(Path(file.name), whole=False)
        return Image.open(BytesIO(Path(file.name).read_bytes())).convert("RGB")


if __name__ == "__main__":
    asyncio.run(pictures())

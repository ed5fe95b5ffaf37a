"""The dashboard in a real browser: headless Chromium, where one is installed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from plugins.ui.tests.browser import Tab, browser, installed
from plugins.ui.tests.conftest import T, batch_events
from plugins.ui.tests.snapshots import HOSTILE, snapshot

from penstock import StreamingStarted
from penstock_testing import FakeListenerContext
from penstock_ui.access import Token
from penstock_ui.monitor import describe
from penstock_ui.server import UIServer
from penstock_ui.snapshot import Snapshot
from penstock_ui.store import MetricsStore

pytestmark = pytest.mark.skipif(installed() is None, reason="no chromium installed: apt-get install chromium")

NUMBERS = "document.getElementById('part-%s').innerText.replace(/\\s+/g, ' ')"

# Where a point of the timeline of processing times is in the window.
POINT = """(() => {
    const plot = Bokeh.documents[0].get_model_by_name('processing_timeline');
    const {el, frame} = Bokeh.index.find_one_by_id(plot.id);
    const points = plot.renderers[0].data_source;
    const {left, top} = el.getBoundingClientRect();
    const x = frame.x_scale.compute(points.get_array('x')[NUMBER]);
    const y = frame.y_scale.compute(points.get_array('processing_mean')[NUMBER]);
    return [left + x, top + y];
})()"""


class State:
    """A source whose snapshot a test sets."""

    def __init__(self, now: Snapshot) -> None:
        self.now = now

    def snapshot(self) -> Snapshot:
        return self.now


Play = Callable[[Callable[[Tab], Awaitable[None]]], None]


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    """Play scenarios in one browser, because its start takes longer than they do."""
    with asyncio.Runner() as runner:
        context = browser(tmp_path_factory.mktemp("profile"))
        tab = runner.run(context.__aenter__())

        def play(scenario: Callable[[Tab], Awaitable[None]]) -> None:
            runner.run(scenario(tab))  # type: ignore[arg-type]  # a coroutine

        yield play
        runner.run(context.__aexit__(None, None, None))


@asynccontextmanager
async def served(state: State, tab: Tab) -> AsyncIterator[str]:
    server = UIServer(state, port=0, token=Token())
    server.start()
    tab.problems.clear()
    tab.hosts.clear()
    try:
        yield server.url
        await tab.leave()
        assert tab.problems == []
        assert tab.hosts == {server.url.removeprefix("http://")}
    finally:
        server.stop()


def test_pages_show_the_numbers_of_the_events_and_follow_new_ones_without_reload(play: Play) -> None:
    store = MetricsStore()

    def after(*events: Any) -> Snapshot:
        for event in events:
            store.apply(event)
        return store.snapshot()

    def batch(number: int) -> list[Any]:
        return batch_events(number, {0: 1000 + number}, failure="ValueError: <b>7</b>" if number == 7 else None)

    async def scenario(tab: Tab) -> None:
        first = [each for number in range(1, 41) for each in batch(number)]
        state = State(after(describe(FakeListenerContext()), StreamingStarted(T), *first))
        async with served(state, tab) as url:
            await tab.open(f"{url}/")
            await tab.until("Bokeh.documents[0].get_model_by_name('processing_timeline') !== null")
            points = "Bokeh.documents[0].get_model_by_name('processing_timeline').renderers[0].data_source"
            assert await tab.value(f"[...{points}.get_array('rate_mean')]") == list(range(1001, 1041))
            assert await tab.value(f"[...{points}.get_array('processing_mean')]") == [200] * 40
            assert await tab.value(f"[...{points}.get_array('scheduling_mean')]") == [10] * 40
            assert await tab.value(f"[...{points}.get_array('total_mean')]") == [210] * 40
            assert "1,040 10 ms 200 ms 210 ms" in await tab.value(NUMBERS % "latest-batches")
            assert f"(40 completed batches, {sum(range(1001, 1041)):,} records)" in await tab.value(NUMBERS % "verdict")
            await tab.value("window.sameWindow = true; document.querySelector('details.section').open = false")
            await tab.value("document.querySelector('nav a').focus()")
            state.now = after(*batch(41), *batch(42))
            await tab.until(f"{NUMBERS % 'verdict'}.includes('(42 completed batches')")
            assert await tab.until(f"{points}.get_length() === 42")
            assert await tab.value(f"{points}.get_array('rate_mean').at(-1)") == 1042
            assert "1,042 10 ms 200 ms 210 ms" in await tab.value(NUMBERS % "latest-batches")
            assert await tab.value("window.sameWindow") is True
            # What the reader did stays.
            assert await tab.value("document.querySelector('details.section').open") is False
            assert await tab.value("document.activeElement === document.querySelector('nav a')")
            await tab.click(await tab.value(POINT.replace("NUMBER", "6")))
            await tab.until(
                f"location.href === '{url}/batch?id={T + 7000}' && {NUMBERS % 'batch-details'}.includes('failed')"
            )
            assert "ValueError: <b>7</b>" in await tab.value(NUMBERS % "batch-details")

    play(scenario)


# Links in a sentence that only their color tells from it.
UNMARKED = """[...document.querySelectorAll('p a')].filter(link =>
    [...link.parentElement.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim())
    && !getComputedStyle(link).textDecorationLine.includes('underline')).map(link => link.outerHTML)"""


def test_pages_fit_wide_and_narrow_windows_in_both_themes_with_hostile_names(play: Play) -> None:
    async def scenario(tab: Tab) -> None:
        state = State(snapshot(50, 170, slow=True, problems={0: "hostile", 3: "given up"}))
        failed = next(batch.time_ms for batch in state.now.completed if batch.num_failed)
        paths = ("/", "/streams", "/stream?id=0", "/batches?show=failed", f"/batch?id={failed}", "/rate", "/graph")
        async with served(state, tab) as url:
            for number, path in enumerate(paths):
                width, dark = (390, 1280)[number % 2], number % 3 == 0
                await tab.open(f"{url}{path}", width, dark=dark)
                for each in (width, 1670 - width):
                    await tab.send(
                        "Emulation.setDeviceMetricsOverride", width=each, height=900, deviceScaleFactor=1, mobile=False
                    )
                    # Charts follow the window some frames later.
                    await tab.until(f"document.documentElement.scrollWidth <= {each}")
                assert await tab.value(UNMARKED) == []
            await tab.open(f"{url}/stream?id=0", dark=True)
            assert HOSTILE in await tab.value("document.querySelector('h1').innerText")
            color = "getComputedStyle(document.body).backgroundColor"
            axis = "Bokeh.documents[0].get_model_by_name('rate').left[0].major_label_text_color"
            was = await tab.value(color), await tab.value(axis)
            await tab.value("document.querySelector('button.theme').click()")
            assert await tab.value("document.documentElement.dataset.theme") == "light"
            assert was[0] != await tab.value(color)
            assert was[1] != await tab.value(axis)

    play(scenario)


def test_address_with_the_token_opens_every_page_and_leaves_the_token_nowhere(play: Play) -> None:
    async def scenario(tab: Tab) -> None:
        state = State(snapshot(1, 20))
        server = UIServer(state, port=0)
        server.start()
        token = server.address.partition("token=")[2]
        try:
            await tab.send("Page.navigate", url=server.url)
            await tab.until("document.body.innerText.includes('ssc.uiWebUrl')")
            tab.problems.clear()
            await tab.send("Page.navigate", url=server.address)
            await tab.until(f"location.href === '{server.url}/' && document.documentElement.dataset.ready === 'true'")
            # Neither the document nor its scripts can read the token, and links do not pass it on.
            assert await tab.value("document.cookie + document.referrer") == ""
            assert token not in await tab.value("document.documentElement.outerHTML")
            await tab.open(f"{server.url}/streams")
            state.now = snapshot(1, 30)
            await tab.until("Number(document.documentElement.dataset.updates ?? 0) > 0")
            assert tab.problems == []
            await tab.leave()
        finally:
            server.stop()

    play(scenario)


def test_a_page_that_nobody_sees_is_not_rendered_and_catches_up_later(play: Play) -> None:
    async def scenario(tab: Tab) -> None:
        state = State(snapshot(1, 20))
        async with served(state, tab) as url:
            await tab.open(f"{url}/")
            see = "Object.defineProperty(document, 'hidden', { get: () => %s, configurable: true })"
            changed = "document.dispatchEvent(new Event('visibilitychange'))"
            await tab.value(f"{see % 'true'}; {changed}")
            await asyncio.sleep(1.5)
            updates = await tab.value("document.documentElement.dataset.updates")
            state.now = snapshot(1, 40)
            await asyncio.sleep(2.5)
            assert await tab.value("document.documentElement.dataset.updates") == updates
            await tab.value(f"{see % 'false'}; {changed}")
            await tab.until(f"{NUMBERS % 'verdict'}.includes('(40 completed batches')")

    play(scenario)


def test_a_page_of_an_earlier_run_shows_where_the_new_token_is(play: Play) -> None:
    async def scenario(tab: Tab) -> None:
        state = State(snapshot(1, 20))
        earlier = UIServer(state, port=0)
        earlier.start()
        port = int(earlier.url.rpartition(":")[2])
        await tab.send("Page.navigate", url=earlier.address)
        await tab.until(f"location.href === '{earlier.url}/' && document.documentElement.dataset.ready === 'true'")
        await asyncio.to_thread(earlier.stop)
        later = UIServer(state, port=port, retries=0)
        later.start()
        try:
            await tab.until("document.body.innerText.includes('ssc.uiWebUrl')")
            await tab.leave()
        finally:
            later.stop()

    play(scenario)


def test_policy_of_the_pages_forbids_inline_scripts(play: Play) -> None:
    async def scenario(tab: Tab) -> None:
        async with served(State(snapshot(1, 20)), tab) as url:
            await tab.open(f"{url}/")
            added = """(() => {
                const script = document.createElement("script");
                script.textContent = "window.added = true";
                document.body.append(script);
                try { new Function("return 1")(); return "evaluated"; } catch { return String(window.added); }
            })()"""
            # By default the debugger is exempt from the policy.
            seen = await tab.send(
                "Runtime.evaluate", expression=added, returnByValue=True, allowUnsafeEvalBlockedByCSP=False
            )
            assert seen["result"]["value"] == "undefined"
            tab.problems.clear()

    play(scenario)


def test_a_page_tells_that_the_connection_is_lost(play: Play) -> None:
    async def scenario(tab: Tab) -> None:
        server = UIServer(State(snapshot(1, 20)), port=0, token=Token())
        server.start()
        try:
            await tab.open(f"{server.url}/")
            assert await tab.value("document.getElementById('connection').innerText") == "live"
            await asyncio.to_thread(server.stop)
            await tab.until("document.getElementById('connection').innerText === 'connection lost'")
            await tab.leave()
        finally:
            server.stop()

    play(scenario)


def test_gantt_chart_is_exported_as_svg_png_and_data(play: Play) -> None:
    # The links that the page would save, by their names.
    catch = "window.saved = {}; HTMLAnchorElement.prototype.click = function () { saved[this.download] = this.href; }"
    state = snapshot(completed=30)

    async def scenario(tab: Tab) -> None:
        async with served(State(state), tab) as url:
            await tab.open(f"{url}/triage")
            await tab.value(catch)
            click = "dispatchEvent(new Event('click', {bubbles: true}))"
            for kind in ("svg", "png", "json"):
                await tab.value(f"document.querySelector('[data-export={kind}]').{click}")
            await tab.until("Object.keys(saved).length === 3")
            assert await tab.value("saved['batches.svg'].startsWith('data:image/svg+xml')")
            assert await tab.value("saved['batches.png'].startsWith('data:image/png;base64,')")
            assert await tab.value("saved['batches.png'].length > 5000")
            data = "JSON.parse(decodeURIComponent(saved['batches.json'].split(',').slice(1).join(',')))"
            assert await tab.value(f"{data}.map((batch) => batch.batchTime)") == [
                b.time_ms for b in state.batches[-20:]
            ]

    play(scenario)

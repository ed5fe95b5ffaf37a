"""The receiver ``webhook`` beside a bare server that answers each request: ``python -m benchmarks.webhook``.

Both run in this process, on aiohttp. Another process sends requests on many connections, each the next one after the
answer. Rounds alternate; the table has the medians, in requests/s and in processor time of this process per request.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from aiohttp import ClientSession, TCPConnector, web
from attrs import frozen

from penstock import Block, ReceiverHost
from penstock_brokers import free_port
from penstock_http import WebhookOptions
from penstock_http.webhook_receiver import WebhookReceiver

_SIZES = (100, 1000)
_READY = "ready\n"


@frozen
class Speed:
    """Requests/s, and the processor time per request in microseconds."""

    per_s: float
    processor_us: float


async def send_all(port: int, count: int, size: int, connections: int) -> None:
    """Send requests until this number is answered with 200."""
    left, body = count, b"x" * size

    async def send(session: ClientSession) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            async with session.post(f"http://127.0.0.1:{port}/", data=body) as answer:
                await answer.read()
                if answer.status != 200:
                    raise RuntimeError(f"answered with {answer.status}")

    async with ClientSession(connector=TCPConnector(limit=connections)) as session:
        await asyncio.gather(*(send(session) for _ in range(connections)))


def measured(port: int, count: int, size: int, connections: int) -> Speed:
    """Let a process send requests to a server of this one, and time it."""
    arguments = [sys.executable, "-m", "benchmarks.webhook", "--send", *map(str, (port, count, size, connections))]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as sender:
        assert sender.stdin is not None
        assert sender.stdout is not None
        if sender.stdout.readline() != _READY:
            raise RuntimeError("the sender did not start")
        began_s, processor_s = time.perf_counter(), time.process_time()
        sender.communicate("go\n")
        took_s, used_s = time.perf_counter() - began_s, time.process_time() - processor_s
        if sender.returncode:
            raise RuntimeError(f"the sender ended with {sender.returncode}")
    return Speed(count / took_s, used_s / count * 1e6)


def bare(measure: Callable[[int], Speed]) -> Speed:
    """Measure a server that reads requests and answers them."""

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(text='{"stored": 1}\n', content_type="application/json")

    async def run() -> Speed:
        port, app = free_port(), web.Application()
        app.router.add_post("/", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            return await asyncio.to_thread(measure, port)
        finally:
            await runner.cleanup()

    return asyncio.run(run())


def receiver(measure: Callable[[int], Speed]) -> Speed:
    """Measure the receiver with all its default columns; its blocks are forgotten once they are stored."""
    port = free_port()

    def forget(_block: Block) -> None:
        pass

    with ReceiverHost(WebhookReceiver(WebhookOptions(port=port)), forget):
        asyncio.run(_listening(port))
        return measure(port)


async def _listening(port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            await asyncio.sleep(0.01)
        else:
            writer.close()
            return


def main() -> None:
    """Print the table, or send requests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--send", nargs=4, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.send:
        print(_READY, end="", flush=True)
        sys.stdin.readline()
        asyncio.run(send_all(*arguments.send))
        return
    count, connections = arguments.requests, arguments.connections
    print(f"{count:,} requests, {connections} connections, median of {arguments.rounds} rounds")
    print("| bytes | bare server | receiver | ratio | processor: bare | receiver |")
    print("|---|---|---|---|---|---|")
    for size in _SIZES:
        found: dict[str, list[Speed]] = {"bare": [], "receiver": []}
        for _ in range(arguments.rounds):
            for name, run in (("bare", bare), ("receiver", receiver)):
                found[name].append(run(lambda port, size=size: measured(port, count, size, connections)))  # type: ignore[misc]
        (bare_per_s, bare_us), (per_s, us) = (
            (statistics.median(each.per_s for each in speeds), statistics.median(each.processor_us for each in speeds))
            for speeds in found.values()
        )
        row = f"| {size:,} | {bare_per_s:,.0f}/s | {per_s:,.0f}/s | {per_s / bare_per_s:.2f} |"
        print(f"{row} {bare_us:.0f} µs | {us:.0f} µs |", flush=True)


if __name__ == "__main__":
    main()

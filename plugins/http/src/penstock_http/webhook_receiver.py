"""``WebhookReceiver``: an HTTP server that answers a request once its records are stored.

Everything runs on the receiver's event loop. Only ``astore_arrow`` has a thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any

from aiohttp import web

from penstock import AsyncReceiver, SourceStatus
from penstock.spi import ErrorCounts, summary_of
from penstock_http.options import WebhookOptions
from penstock_http.refusals import Refused, check_signature, check_token, expected_wait_s, records_of, retry_after_s
from penstock_http.request_columns import RequestDetails, shown_headers, table_of
from penstock_http.waiting_requests import WaitingRequest, WaitingRequests

# Intervals at which requests that wait too long are refused, and counts are reported.
_WATCH_INTERVAL_S = 0.1
_REPORT_INTERVAL_S = 1.0
# Maximum time for the answers to the last requests.
_SHUTDOWN_S = 2.0
# The most records of one store.
_MANY_RECORDS = 10_000


class WebhookReceiver(AsyncReceiver[Any]):
    """Receives the bodies of HTTP requests.

    Args:
        options: address, access, and the columns to store.
    """

    def __init__(self, options: WebhookOptions) -> None:
        self._options = options

    def preferredLocation(self) -> str | None:
        return self._options.run_on or None

    async def receive(self) -> None:
        options = self._options
        self._token = options.token.read().encode() if options.token else None
        self._key = options.signature_key.read().encode() if options.signature_key else None
        self._waiting = WaitingRequests(options.max_waiting_bytes)
        self._faults = ErrorCounts()
        # When the oldest request of the group that is being stored arrived, monotonic.
        self._storing_since_s: float | None = None
        app = web.Application(client_max_size=options.max_body_bytes)
        app.router.add_route(options.method, options.path, self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_S)
        await runner.setup()
        watching = asyncio.create_task(self._keep_watching())
        try:
            await self._listen(runner)
            await self._keep_storing()
        finally:
            watching.cancel()
            if self._faults.due_s(0) is not None:
                self.reportError(self._faults.report(0))
            self._refuse(self._waiting.take_older(float("inf")), Refused(503, "the receiver stops", 1))
            await completed(runner.cleanup())

    async def _listen(self, runner: web.AppRunner) -> None:
        host, port = self._options.host, self._options.port
        site = web.TCPSite(runner, host, port, ssl_context=self._options.ssl_context())
        try:
            await site.start()
        except OSError as error:
            raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from None

    # -- requests --

    async def _answer(self, request: web.Request) -> web.Response:
        try:
            count = await self._store_records(request)
        except Refused as refused:
            if refused.is_fault_of_sender:
                self._faults.add(f"requests answered with {refused.status}, {refused.message}", 1)
            return refused.response()
        return web.Response(text=f'{{"stored": {count}}}\n', content_type="application/json")

    async def _store_records(self, request: web.Request) -> int:
        """Wait until the records of a request are stored; return their number.

        Raises:
            Refused: nothing is stored, or only a part.
        """
        options = self._options
        if self.isStopped():
            raise Refused(503, "the receiver stops", 1)
        if self._token is not None:
            check_token(request.headers, options.auth_header, self._token)
        # Without a length, the body may have as many bytes as are allowed.
        size = options.max_body_bytes if request.content_length is None else request.content_length
        too_large = Refused(413, f"a body has more than {options.max_body_bytes} bytes (max_body_bytes)")
        if size > options.max_body_bytes:
            raise too_large
        wait_s = expected_wait_s(self._waiting.num_records, self.rate_limit)
        if wait_s > options.max_wait or not self._waiting.has_room(size):
            raise self._busy()
        with self._waiting.reserved(size):
            try:
                body = await request.read()
            except web.HTTPRequestEntityTooLarge:
                raise too_large from None
            if self._key is not None:
                check_signature(request.headers, options, self._key, body, time.time())
            records = records_of(body, request.content_type, options)
            if records and self.isStopped():
                raise Refused(503, "the receiver stops", 1)
            if records:
                stored = asyncio.get_running_loop().create_future()
                self._waiting.add(WaitingRequest(records, self._details(request), time.monotonic(), stored))
                await stored
            return len(records)

    def _details(self, request: web.Request) -> RequestDetails:
        return RequestDetails(
            request.method,
            request.path,
            request.query_string,
            shown_headers(request.headers, self._options.auth_header),
            request.remote or "",
            time.time_ns() // 1000,
        )

    def _busy(self) -> Refused:
        wait_s = expected_wait_s(self._waiting.num_records, self.rate_limit)
        if self.rate_limit is None:
            return Refused(503, "the receiver stores more slowly than requests come", 1)
        return Refused(429, f"the rate limit is {self.rate_limit:g} records/s", retry_after_s(wait_s))

    @staticmethod
    def _refuse(requests: Sequence[WaitingRequest], refused: Refused) -> None:
        for request in requests:
            # The server cancels it when it closes.
            if not request.stored.done():
                request.stored.set_exception(refused)

    # -- storing --

    async def _keep_storing(self) -> None:
        while not self.isStopped():
            group = await self._waiting.take(self.fetch_hint(_MANY_RECORDS))
            began_s = time.monotonic()
            self._storing_since_s = group[0].arrived_s
            try:
                rows = [(request.details, request.records) for request in group]
                await self.astore_arrow(table_of(rows, self._options.columns, self._options.value_as))
            except Exception as error:
                self._refuse(group, Refused(503, "the records could not be stored", 1))
                if not self.isStopped():
                    self.reportError(f"{len(group)} requests could not be stored: {summary_of(error)}", error)
            else:
                for request in group:
                    if not request.stored.done():
                        request.stored.set_result(None)
            self._storing_since_s = None
            # Requests that come meanwhile are stored together.
            await asyncio.sleep(max(0.0, began_s + self._options.linger - time.monotonic()))

    async def _keep_watching(self) -> None:
        reported_s = time.monotonic()
        while True:
            await asyncio.sleep(_WATCH_INTERVAL_S)
            now_s = time.monotonic()
            self._refuse(self._waiting.take_older(now_s - self._options.max_wait), self._busy())
            if self._faults.due_s(now_s) == 0:
                self.reportError(self._faults.report(now_s))
            if now_s >= reported_s + _REPORT_INTERVAL_S:
                reported_s = now_s
                self._report(now_s)

    def _report(self, now_s: float) -> None:
        oldest_s = self._storing_since_s or self._waiting.oldest_s
        held_s = None if oldest_s is None else now_s - oldest_s
        self.report_source(SourceStatus(lag_messages=self._waiting.num_records, oldest_unacknowledged_s=held_s))


async def completed(work: Coroutine[Any, Any, None]) -> None:
    """Await work to its end, also when the caller is cancelled meanwhile: half of it would leave connections open."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise

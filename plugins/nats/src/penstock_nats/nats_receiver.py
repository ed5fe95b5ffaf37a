"""``NatsReceiver``: fetches messages of a JetStream consumer, stores them, and acknowledges them then."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from nats.js.api import ConsumerInfo

from penstock import AsyncReceiver, SourceStatus
from penstock.spi import text_of
from penstock_brokers import DeadLetter, readable
from penstock_nats.delivered import Delivered, column_reader
from penstock_nats.nats_errors import explained
from penstock_nats.nats_options import NatsOptions
from penstock_nats.nats_session import NatsSession, connected

# The longest wait for messages: as long as it takes to notice a stop.
_LONGEST_FETCH_S = 0.5
# The interval at which an idle source is asked how far the receiver is behind.
_ASK_S = 2.0


class NatsReceiver(AsyncReceiver[Any]):
    """Reads a stream through a durable pull consumer.

    Args:
        options: servers, stream, consumer, and how messages become records.
    """

    def __init__(self, options: NatsOptions) -> None:
        self._options = options
        # Totals of this launch.
        self._redelivered = 0
        self._dead_letters = 0

    async def receive(self) -> None:
        async with connected(self._options, self._on_error) as session:
            asked_s = 0.0
            while not self.isStopped():
                timeout_s = min(self.block_interval_ms / 1000, _LONGEST_FETCH_S)
                if messages := await session.fetch(self.fetch_hint(self._options.batch), timeout_s):
                    await self._take(session, messages)
                    self._report(messages[-1].pending, messages[-1].timestamp_ns)
                elif time.monotonic() - asked_s >= _ASK_S:
                    asked_s = time.monotonic()
                    self._report_idle(await session.info())

    async def _take(self, session: NatsSession, messages: Sequence[Delivered]) -> None:
        """Store messages and acknowledge them; give up or return those that cannot be stored."""
        options = self._options
        self._redelivered += sum(each.deliveries > 1 for each in messages)
        exhausted = [each for each in messages if options.is_exhausted(each.deliveries)]
        rest = [each for each in messages if not options.is_exhausted(each.deliveries)] if exhausted else messages
        tables, errors = readable(rest, column_reader(options))
        async with session.extended(messages):
            for table in tables:
                await self.astore_arrow(table)
        stored = [each for number, each in enumerate(rest) if number not in errors] if errors else list(rest)
        for each in exhausted:
            error = f"delivered {each.deliveries} times, more than max_deliveries={options.max_deliveries}"
            await session.give_up(each, DeadLetter("deliveries", error, each.deliveries, each.origin))
        undecodable = [rest[number] for number in errors]
        if options.dead_letter:
            for each, reason in zip(undecodable, errors.values(), strict=True):
                await session.give_up(each, DeadLetter("undecodable", text_of(reason), each.deliveries, each.origin))
            given_up = [*exhausted, *undecodable]
            self._dead_letters += len(given_up)
            await session.acknowledge([*stored, *given_up])
        else:
            await session.acknowledge(stored)
            await session.retry_later(undecodable)
        if undecodable:
            self._report_undecodable(undecodable[0], len(undecodable), next(iter(errors.values())))

    def _report_undecodable(self, first: Delivered, count: int, error: ValueError) -> None:
        options = self._options
        follows = (
            f"are in {options.dead_letter!r} now"
            if options.dead_letter
            else f"are delivered again after {options.retry_delay:g} s: set the option dead_letter to give them up"
        )
        self.reportError(
            f"{count} messages cannot be decoded as {options.value_as} and {follows}. The first is {first.origin}: "
            f"{text_of(error)}",
            error,
        )

    def _on_error(self, error: Exception) -> None:
        if not self.isStopped():
            self.reportError(str(explained(error, self._options)), error)

    def _report(self, pending: int, timestamp_ns: int) -> None:
        lag_s = time.time() - timestamp_ns / 1e9 if pending else 0.0
        self.report_source(SourceStatus(pending, lag_s, None, self._redelivered, self._dead_letters))

    def _report_idle(self, info: ConsumerInfo) -> None:
        # Nothing is held here: other receivers of the consumer, or a delay, hold what is not acknowledged.
        pending = info.num_pending or 0
        self.report_source(SourceStatus(pending, None if pending else 0.0, None, self._redelivered, self._dead_letters))

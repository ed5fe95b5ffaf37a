"""``NatsSession``: one connection with one pull consumer. Fetches, extends, acknowledges, and gives up messages."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, ConsumerInfo, DeliverPolicy

from penstock_brokers import DeadLetter
from penstock_nats.delivered import Delivered
from penstock_nats.nats_errors import CONSUMER_NOT_FOUND, NatsSourceError, continues_after, explaining
from penstock_nats.nats_options import NatsOptions
from penstock_nats.subjects import matches

# A server that does not answer this often is gone: a suspended one keeps the connection open.
_PING_S = 10
_PINGS = 2
# Every server is asked twice before the connection has failed.
_ATTEMPTS = 1
_RETRY_S = 0.2
_ACK_TIMEOUT_S = 5.0
_CLOSE_S = 2.0
# Bodies of one fetch.
_FETCH_BYTES = 32 << 20
_EXTENSIONS_PER_LEASE = 3


class NatsSession:
    """A session that ``connected`` has opened.

    Args:
        options: the receiver's options.
        client: connected.
        subscription: subscription of the consumer.
        info: describes the consumer when the session began.
    """

    def __init__(
        self,
        options: NatsOptions,
        client: Client,
        subscription: JetStreamContext.PullSubscription,
        info: ConsumerInfo,
    ) -> None:
        self._options = options
        self._client = client
        self._subscription = subscription
        self._js = client.jetstream(timeout=_ACK_TIMEOUT_S)
        self._lease_s = float(info.config.ack_wait or options.ack_wait)
        self._max_ack_pending = info.config.max_ack_pending or 0
        # Bytes of the largest message of the last fetch; at first of any.
        self._message_bytes = client.max_payload

    async def fetch(self, most: int, timeout_s: float) -> list[Delivered]:
        """Fetch the next messages: ``most``, or those that there are after the timeout."""
        if not self._client.is_connected:
            raise nats.errors.ConnectionClosedError
        count = min(most, max(1, _FETCH_BYTES // max(1, self._message_bytes)))
        if self._max_ack_pending > 0:
            # The server would hold back the rest until this receiver acknowledges.
            count = min(count, self._max_ack_pending)
        fetching = asyncio.create_task(self._subscription.fetch(count, timeout_s))
        try:
            messages = await asyncio.shield(fetching)
        except (TimeoutError, nats.errors.TimeoutError):
            return []
        except asyncio.CancelledError:
            await self._return(fetching)
            raise
        except nats.js.errors.ServiceUnavailableError:
            # Nobody answers for a consumer that is gone; this request raises what is.
            await self.info()
            raise
        if not messages:
            # The server has ended the request early: an error if the consumer is gone.
            await self.info()
            return []
        self._message_bytes = max(len(message.data) for message in messages)
        return [Delivered.of(message) for message in messages]

    async def _return(self, fetching: asyncio.Task[list[Msg]]) -> None:
        """Have messages that a stopped receiver has fetched delivered again at once, not at the end of the lease."""
        with contextlib.suppress(asyncio.TimeoutError, nats.errors.Error):
            for message in await fetching:
                await message.nak()

    async def info(self) -> ConsumerInfo:
        """The state of the consumer."""
        return await self._subscription.consumer_info()

    @contextlib.asynccontextmanager
    async def extended(self, messages: Sequence[Delivered]) -> AsyncIterator[None]:
        """Have the server not deliver messages again inside the context, however long it takes."""

        async def extend() -> None:
            while True:
                await asyncio.sleep(self._lease_s / _EXTENSIONS_PER_LEASE)
                for each in messages:
                    await each.message.in_progress()

        extending = asyncio.create_task(extend())
        try:
            yield
        finally:
            extending.cancel()
            # An acknowledgement shows what is wrong with the connection.
            await asyncio.gather(extending, return_exceptions=True)

    async def acknowledge(self, messages: Sequence[Delivered]) -> None:
        """Acknowledge messages, and return when the server has done so."""
        for each in messages[:-1]:
            await each.message.ack()
        for each in messages[-1:]:
            # Requests of a connection are handled in their order.
            await each.message.ack_sync(_ACK_TIMEOUT_S)

    async def retry_later(self, messages: Sequence[Delivered]) -> None:
        """Have the server deliver messages again after ``retry_delay``."""
        for each in messages:
            await each.message.nak(self._options.retry_delay)

    async def give_up(self, delivered: Delivered, letter: DeadLetter) -> None:
        """Publish a message to the dead-letter stream, and return when it is there."""
        headers = {**(delivered.message.headers or {}), **letter.headers()}
        # The server drops a second copy, if the acknowledgement is lost.
        headers["Nats-Msg-Id"] = f"{self._options.consumer}/{delivered.stream}/{delivered.sequence}"
        try:
            await self._js.publish(self._options.dead_letter, delivered.message.data, headers=headers)
        except nats.js.errors.APIError as error:
            raise NatsSourceError(
                f"the stream of dead_letter={self._options.dead_letter!r} at NATS {self._options.address} did not take "
                f"{delivered.origin}, which stays where it is: {error.description}"
            ) from error


@contextlib.asynccontextmanager
async def connected(options: NatsOptions, on_error: Callable[[Exception], object]) -> AsyncIterator[NatsSession]:
    """Connect, and create the consumer unless it exists.

    Args:
        options: the receiver's options.
        on_error: called with errors of the connection that no call raises, such as missing permissions.

    Raises:
        NatsSourceError: no server can be reached, or refuses something; also for errors inside the context.
        ConfigurationError: a file of TLS cannot be used.
        SecretError: a secret cannot be read.
    """
    client, failures = Client(), list[Exception]()

    async def note(error: Exception) -> None:
        if client.is_connected and continues_after(error):
            on_error(error)
        else:
            # A call will raise that the connection is closed, or that there is no server, and not why.
            failures.append(error)

    secrets = _secrets(options)
    try:
        with explaining(options, failures):
            await client.connect(
                list(options.servers),
                error_cb=note,
                name=f"penstock {options.consumer}",
                # The receiver restarts instead, with its back-off, and reports why.
                allow_reconnect=False,
                max_reconnect_attempts=_ATTEMPTS,
                reconnect_time_wait=_RETRY_S,  # type: ignore[arg-type]  # a fraction works
                connect_timeout=options.connect_timeout,  # type: ignore[arg-type]  # a fraction works
                ping_interval=_PING_S,
                max_outstanding_pings=_PINGS,
                tls=options.ssl_context(),
                **secrets,
            )
            yield await _session(options, client)
    finally:
        # A suspended server accepts nothing that is left to send.
        with contextlib.suppress(asyncio.TimeoutError, nats.errors.Error, OSError):
            await asyncio.wait_for(client.close(), _CLOSE_S)
        # If the server has ended the connection, one of the client's tasks closes the socket.
        if tasks := [task for task in asyncio.all_tasks() if _is_of_client(task)]:
            await asyncio.wait(tasks, timeout=_CLOSE_S)


def _is_of_client(task: asyncio.Task[Any]) -> bool:
    return getattr(task.get_coro(), "__qualname__", "").startswith(f"{Client.__name__}.")


def _secrets(options: NatsOptions) -> dict[str, Any]:
    secrets: dict[str, Any] = {}
    if options.user:
        secrets["user"] = options.user
    for name in ("password", "token"):
        if (secret := getattr(options, name)) is not None:
            secrets[name] = secret.read()
    if options.creds:
        path = Path(options.creds)
        if not path.is_file():
            raise NatsSourceError(f"creds={options.creds!r} is no file where the receiver runs")
        secrets["user_credentials"] = str(path)
    return secrets


async def _session(options: NatsOptions, client: Client) -> NatsSession:
    js = client.jetstream(timeout=options.connect_timeout)
    try:
        info = await js.consumer_info(options.stream, options.consumer)
    except nats.js.errors.NotFoundError as error:
        if error.err_code != CONSUMER_NOT_FOUND:
            raise
        info = await js.add_consumer(options.stream, config=new_consumer(options))
    check_consumer(info.config, options)
    if options.dead_letter:
        await _check_dead_letter(js, options)
    subscription = await js.pull_subscribe_bind(options.consumer, options.stream, pending_bytes_limit=0)
    return NatsSession(options, client, subscription, info)


async def _check_dead_letter(js: JetStreamContext, options: NatsOptions) -> None:
    try:
        stream = await js.find_stream_name_by_subject(options.dead_letter)
    except nats.js.errors.NotFoundError:
        raise nats.js.errors.NoStreamResponseError from None
    if stream == options.stream and not options.subjects:
        raise NatsSourceError(
            f"dead_letter={options.dead_letter!r} belongs to the stream {stream!r}, all of which the receiver reads: "
            "give dead letters a stream of their own, or set the option subjects"
        )


def new_consumer(options: NatsOptions) -> ConsumerConfig:
    """The configuration of a consumer that does not exist yet."""
    start = {"earliest": DeliverPolicy.ALL, "latest": DeliverPolicy.NEW}.get(options.start)
    return ConsumerConfig(
        durable_name=options.consumer,
        deliver_policy=start or DeliverPolicy.BY_START_TIME,
        opt_start_time=None if start else datetime.fromisoformat(options.start),
        # Not ALL: one acknowledgement would cover messages that another receiver of the consumer has not stored.
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=options.ack_wait,
        filter_subjects=list(options.subjects) or None,
        max_ack_pending=options.max_ack_pending,
        max_deliver=-1,
    )


def check_consumer(config: ConsumerConfig, options: NatsOptions) -> None:
    """Refuse a consumer with which messages would be lost or missing.

    Raises:
        NatsSourceError: says what is wrong with it.
    """
    filters = config.filter_subjects or ([config.filter_subject] if config.filter_subject else [])
    wrong = ""
    if config.deliver_subject:
        wrong = "it is a push consumer"
    elif config.ack_policy != AckPolicy.EXPLICIT:
        wrong = f"its acknowledgement policy is {config.ack_policy}, not explicit: messages could be lost"
    elif config.max_deliver is not None and config.max_deliver > 0:
        wrong = f"it drops messages after {config.max_deliver} deliveries (max_deliver): use the option dead_letter"
    elif options.subjects and sorted(filters) != sorted(options.subjects):
        wrong = f"its subjects are {', '.join(filters) or 'all'}, not {', '.join(options.subjects)}"
    elif options.dead_letter and any(matches(each, options.dead_letter) for each in filters):
        wrong = f"its subjects contain {options.dead_letter}, where dead letters go"
    if wrong:
        raise NatsSourceError(
            f"the consumer {options.consumer!r} of stream {options.stream!r} exists, and {wrong}. Choose another "
            "name, or delete it"
        )

"""The driver's side of the receiver protocol: a real endpoint that records what receivers send."""

from __future__ import annotations

from typing import Any

from tests.helpers.event_log import EventLog

from penstock import Receiver, StoredBlock
from penstock.conf import Settings
from penstock.receive.messages import (
    AddBlocks,
    DeregisterReceiver,
    Registered,
    RegisterReceiver,
    ReportError,
    UpdateRateLimit,
)
from penstock.receive.receiver_task import Driver, ReceiverTask
from penstock.wire.client import Client
from penstock.wire.endpoint import Endpoint
from penstock.wire.json_codec import Reply
from penstock.wire.token import Token

STREAM_ID, EPOCH = 2, 5


class FakeTracker:
    """Accepts one receiver (stream 2, epoch 5). Every message that it answers is in the log.

    Attributes:
        rate: the rate limit given at registration, in records/s; ``None`` for none given.
        accepts_blocks: False refuses blocks with "not wanted".
        fails_deregistration: True raises when a receiver reports its end.
    """

    def __init__(self, log: EventLog, host: str = "127.0.0.1") -> None:
        self.log = log
        self.token = Token.generate()
        self.rate: float | None = None
        self.accepts_blocks = True
        self.fails_deregistration = False
        self.endpoint = Endpoint(
            host,
            self.token,
            {
                RegisterReceiver: lambda message: self._note(message, Registered(True, "", self._desired())),
                AddBlocks: lambda message: self._note(message, Reply(self.accepts_blocks, "not wanted")),
                ReportError: lambda message: self._note(message, Reply()),
                DeregisterReceiver: self._on_deregister,
            },
        )
        self.location = self.token.location(host, self.endpoint.port)

    def _desired(self) -> UpdateRateLimit | None:
        return None if self.rate is None else UpdateRateLimit(self.rate, 0)

    def _on_deregister(self, message: object) -> object:
        if self.fails_deregistration:
            raise RuntimeError("not now")
        return self._note(message, Reply())

    def _note(self, message: object, reply: object) -> object:
        self.log.add(message)
        return reply

    def task(
        self, receiver: Receiver[Any], conf: dict[str, str] | None = None, log_directory: str = ""
    ) -> ReceiverTask:
        """The Spark task of a receiver that reports here."""
        driver = Driver(self.location, self.token, "app-1")
        return ReceiverTask(
            receiver,
            STREAM_ID,
            EPOCH,
            driver,
            Settings.parse(conf or {}),
            log_directory=log_directory,
        )

    def client(self) -> Client:
        """A client of the receiver, once it has registered."""
        registered = self.log.await_one(RegisterReceiver)
        return Client(self.token.location(registered.host, registered.port), self.token, 10_000)

    @property
    def blocks(self) -> list[StoredBlock]:
        """The blocks reported so far, in order."""
        return [block for message in self.log.of(AddBlocks) for block in message.blocks]

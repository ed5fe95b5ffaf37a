"""A plugin whose receiver has options with the names of the source's own."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from penstock import Receiver, ReceiverSpec, hookimpl


@frozen
class Options:
    durable: str
    address: str = "here"


class Subscription(Receiver[Any]):
    def __init__(self, options: Options) -> None:
        self.options = options


@hookimpl
def receivers() -> list[ReceiverSpec]:
    return [ReceiverSpec("subscription", Subscription, Options)]

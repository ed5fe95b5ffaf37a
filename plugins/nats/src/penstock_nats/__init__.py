"""A receiver for NATS JetStream, which acknowledges messages once they are stored."""

from __future__ import annotations

from collections.abc import Iterable

from penstock import Receiver, ReceiverSpec, hookimpl
from penstock_nats.nats_options import NatsOptions

__all__ = ["NatsOptions", "receivers"]


def _receiver(options: NatsOptions) -> Receiver[object]:
    # Imports the client, which a program that only lists plugins does not need.
    from penstock_nats.nats_receiver import NatsReceiver

    return NatsReceiver(options)


@hookimpl
def receivers() -> Iterable[ReceiverSpec]:
    """Offer the receiver ``nats``."""
    return (ReceiverSpec("nats", _receiver, NatsOptions, "messages of a NATS JetStream, acknowledged once stored"),)

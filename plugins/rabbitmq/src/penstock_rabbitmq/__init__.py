"""A receiver for RabbitMQ."""

from __future__ import annotations

from collections.abc import Iterable

from penstock import ReceiverSpec, hookimpl
from penstock_rabbitmq.rabbit_options import RabbitOptions
from penstock_rabbitmq.rabbit_receiver import RabbitReceiver

__all__ = ["RabbitOptions", "RabbitReceiver", "receivers"]


@hookimpl
def receivers() -> Iterable[ReceiverSpec]:
    """Offer the receiver ``rabbitmq``."""
    return (
        ReceiverSpec(
            "rabbitmq", RabbitReceiver, RabbitOptions, "messages of a RabbitMQ queue, acknowledged once stored"
        ),
    )

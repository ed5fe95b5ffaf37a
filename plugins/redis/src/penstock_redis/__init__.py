"""A receiver for Redis Streams, which acknowledges entries once they are stored."""

from __future__ import annotations

from collections.abc import Iterable

from penstock import Receiver, ReceiverSpec, hookimpl
from penstock_redis.options import RedisOptions

__all__ = ["RedisOptions", "receivers"]


def _make(options: RedisOptions) -> Receiver[object]:
    # Imports the client, which a program that only lists plugins does not need.
    from penstock_redis.redis_receiver import RedisReceiver

    return RedisReceiver(options)


@hookimpl
def receivers() -> Iterable[ReceiverSpec]:
    """Offer the receiver ``redis``."""
    return (ReceiverSpec("redis", _make, RedisOptions, "entries of Redis streams, acknowledged once stored"),)

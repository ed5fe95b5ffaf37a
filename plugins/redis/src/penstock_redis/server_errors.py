"""Explanations of errors of the server and of the connection, with advice."""

from __future__ import annotations

import redis

from penstock import PenstockError
from penstock.spi import text_of
from penstock_redis.options import RedisOptions


class RedisSourceError(PenstockError):
    """The server cannot be reached, or refused a command."""


class GroupGoneError(RedisSourceError):
    """A stream or its consumer group was deleted while the receiver read from it."""


def explained(error: redis.RedisError, options: RedisOptions) -> RedisSourceError:
    """The error with the server, the options that it concerns, and what to do."""
    text, server = text_of(error), f"Redis at {options.host}:{options.port}"
    user = options.username or "default"
    if isinstance(error, redis.AuthenticationError) or text.startswith(("NOAUTH", "WRONGPASS")):
        return RedisSourceError(f"{server} refused user {user!r}: {text}. Check the options username and password")
    if isinstance(error, redis.exceptions.NoPermissionError) or text.startswith("NOPERM"):
        return RedisSourceError(
            f"{server} does not permit a command to user {user!r}: {text}. The README lists what the ACL must allow"
        )
    if isinstance(error, redis.exceptions.OutOfMemoryError):
        return RedisSourceError(f"{server} has no memory left: {text} Raise its maxmemory, or trim or delete keys")
    if text.startswith("WRONGTYPE"):
        return RedisSourceError(f"a key of {options.streams!r} at {server} holds no stream: {text}")
    if text.startswith(("NOGROUP", "UNBLOCKED")):
        return GroupGoneError(
            f"a stream of {options.streams!r} at {server}, or its group {options.group!r}, was deleted. The receiver "
            "creates it again. Entries that were pending in it are not delivered again"
        )
    if isinstance(error, redis.exceptions.ReadOnlyError):
        return RedisSourceError(f"{server} is a replica, which accepts no acknowledgement: {text}")
    return RedisSourceError(f"{server}: {text}")

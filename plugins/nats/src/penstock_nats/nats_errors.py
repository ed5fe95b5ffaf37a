"""Explanations of errors of the client and the server, with advice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import nats.errors
import nats.js.errors

from penstock import PenstockError
from penstock.spi import summary_of, text_of
from penstock_nats.nats_options import NatsOptions

#: Code of the error for an unknown consumer.
CONSUMER_NOT_FOUND = 10014
_STREAM_NOT_FOUND = 10059
_NO_PERMISSION = "permissions violation"


class NatsSourceError(PenstockError):
    """A server of NATS cannot be reached, or refused a request."""


def explained(error: BaseException, options: NatsOptions) -> NatsSourceError:
    """The error with the servers, the options that it concerns, and what to do."""
    where, text = f"NATS at {options.address}", text_of(error)
    match error:
        case NatsSourceError():
            return error
        case nats.js.errors.NotFoundError(err_code=code) if code == _STREAM_NOT_FOUND:
            return NatsSourceError(f"{where} has no stream {options.stream!r}: create it, or correct the option stream")
        case nats.js.errors.NotFoundError(err_code=code) if code == CONSUMER_NOT_FOUND:
            return NatsSourceError(_consumer_gone(options, where))
        case nats.js.errors.ServiceUnavailableError(description=None) | nats.errors.NoRespondersError():
            return NatsSourceError(
                f"{where} answers no request for stream {options.stream!r}: JetStream is not enabled for this "
                "account, or the stream was deleted or has no leader now"
            )
        case nats.js.errors.NoStreamResponseError():
            return NatsSourceError(
                f"no stream of {where} takes the subject {options.dead_letter!r}: create one for the dead letters, or "
                "correct the option dead_letter"
            )
        case nats.js.errors.APIError():
            if error.code == 409 and "deleted" in str(error.description).lower():
                return NatsSourceError(_consumer_gone(options, where))
            return NatsSourceError(f"{where}, stream {options.stream!r}: {error.description} (code {error.code})")
        case nats.errors.AuthorizationError():
            return NatsSourceError(
                f"{where} refused the credentials: check the options user and password, token, or creds"
            )
        case nats.errors.MaxPayloadError():
            return NatsSourceError(f"a dead letter with its headers is larger than max_payload of {where}")
        case asyncio.TimeoutError() | nats.errors.TimeoutError():
            return NatsSourceError(f"{where} does not answer")
        case nats.errors.ConnectionClosedError() | nats.errors.StaleConnectionError() | nats.errors.UnexpectedEOF():
            return NatsSourceError(f"the connection to {where} is closed: {text}")
    if "authorization violation" in text.lower():
        return NatsSourceError(f"{where} refused the credentials: check the options user and password, token, or creds")
    if _NO_PERMISSION in text.lower():
        return NatsSourceError(
            f"{where} does not permit what the receiver needs: {text}. The README lists the subjects that the user "
            "must be allowed"
        )
    return NatsSourceError(f"{where}: {summary_of(error)}")


def _consumer_gone(options: NatsOptions, where: str) -> str:
    return (
        f"the consumer {options.consumer!r} of stream {options.stream!r} at {where} was deleted. The receiver creates "
        f"it again, and then starts at {options.start!r}"
    )


def continues_after(error: Exception) -> bool:
    """Whether the connection continues after an error that the client reports and no call raises."""
    return isinstance(error, nats.errors.SlowConsumerError) or _NO_PERMISSION in text_of(error).lower()


@contextmanager
def explaining(options: NatsOptions, failures: Sequence[Exception]) -> Iterator[None]:
    """Replace an error of the client by one that says what to do.

    Args:
        options: the receiver's options.
        failures: errors that ended the connection, so that calls raise that it is closed.
    """
    try:
        yield
    except (nats.errors.ConnectionClosedError, nats.errors.NoServersError) as error:
        raise explained(failures[-1] if failures else error, options) from error
    except (TimeoutError, nats.errors.Error, OSError) as error:
        raise explained(error, options) from error

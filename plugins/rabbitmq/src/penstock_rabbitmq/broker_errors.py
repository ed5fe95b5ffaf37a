"""``explained``: errors of pika as one error whose message says what happened and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pika.adapters.utils.connection_workflow import AMQPConnectionWorkflowFailed, AMQPConnectorPhaseErrorBase
from pika.exceptions import (
    AMQPConnectionError,
    AMQPHeartbeatTimeout,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from penstock.spi import text_of

if TYPE_CHECKING:
    from penstock_rabbitmq.rabbit_options import RabbitOptions

_ACCESS_REFUSED, _NOT_FOUND, _RESOURCE_LOCKED, _PRECONDITION_FAILED, _NOT_ALLOWED = 403, 404, 405, 406, 530


def explained(error: BaseException, options: RabbitOptions) -> OSError:
    """Return the error to raise for an error of pika."""
    error = _innermost(error)
    if isinstance(error, ProbableAuthenticationError):
        return _refused(options, text_of(error))
    if isinstance(error, ProbableAccessDeniedError):
        return _not_allowed(options, text_of(error))
    if isinstance(error, ChannelClosedByBroker | ConnectionClosedByBroker):
        code, text = error.reply_code, error.reply_text
        if code == _ACCESS_REFUSED and isinstance(error, ConnectionClosedByBroker):
            return _refused(options, text)
        if code == _NOT_FOUND:
            return FileNotFoundError(
                f"queue {options.queue!r} does not exist in virtual host {options.virtual_host!r} of "
                f"{options.broker}: declare it, or correct the option queue ({text})"
            )
        if code == _NOT_ALLOWED:
            return _not_allowed(options, text)
        if code == _PRECONDITION_FAILED and "acknowledgement" in text:
            return TimeoutError(
                f"{options.broker} closed the channel: a message was unacknowledged for longer than the "
                f"broker's consumer_timeout, because batches are late or paused. It redelivers these messages ({text})"
            )
        return ConnectionAbortedError(f"{options.broker} closed the consumer of {options.queue!r}: {text}")
    if isinstance(error, AMQPHeartbeatTimeout):
        return TimeoutError(f"{options.broker} sent no heartbeat: {text_of(error)}")
    if isinstance(error, OSError) and not isinstance(error, ConnectionError):
        return type(error)(f"{options.broker}: {text_of(error)}")
    return ConnectionError(f"connection to {options.broker} failed: {text_of(error)}")


def _refused(options: RabbitOptions, text: str) -> PermissionError:
    return PermissionError(
        f"{options.broker} refuses user {options.user!r}: check the options user and password ({text})"
    )


def _not_allowed(options: RabbitOptions, text: str) -> PermissionError:
    return PermissionError(
        f"{options.broker} does not let user {options.user!r} use virtual host {options.virtual_host!r}: correct the "
        f"option virtual_host, or grant the user access ({text})"
    )


def _innermost(error: BaseException) -> BaseException:
    """The error of the last attempt to connect."""
    while True:
        if isinstance(error, AMQPConnectionWorkflowFailed) and error.exceptions:
            error = error.exceptions[-1]
        elif isinstance(error, AMQPConnectorPhaseErrorBase) and error.exception is not None:
            error = error.exception
        elif type(error) is AMQPConnectionError and error.args and isinstance(error.args[0], Exception):
            error = error.args[0]
        else:
            return error

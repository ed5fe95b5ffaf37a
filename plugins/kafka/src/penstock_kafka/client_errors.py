"""``ClientErrors``: reports the errors of the client, each kind once a minute, or until records arrive again."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaError

from penstock import PenstockError

_AGAIN_S = 60.0
# A single connection failed; the client tries again, and says so when no broker is left.
_TRANSIENT = frozenset({KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._PARTITION_EOF})
_ADVICE = {
    KafkaError._ALL_BROKERS_DOWN: "is bootstrap_servers right, and does the broker run? The client keeps trying",
    KafkaError._RESOLVE: "is bootstrap_servers right?",
    KafkaError._AUTHENTICATION: "check sasl_mechanism, sasl_user and sasl_password",
    KafkaError._SSL: "check tls, tls_ca and the broker's certificate",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "it is read once it exists",
    KafkaError._UNKNOWN_TOPIC: "it is read once it exists",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the user may not read this topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "the user may not use this group_id",
    KafkaError._MAX_POLL_EXCEEDED: "the partitions went to other members, and come back with the next rebalance",
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: "other members of the group use another partition.assignment.strategy: "
    "set the same in settings",
}


class KafkaClientError(PenstockError):
    """The client cannot continue, so the receiver restarts with a new one."""


class ClientErrors:
    """Reports errors without repeating them. One thread uses it.

    Args:
        report: passes a message to the driver.
        now_s: a monotonic clock, seconds.
    """

    def __init__(self, report: Callable[[str], object], now_s: Callable[[], float]) -> None:
        self._report = report
        self._now_s = now_s
        self._reported_s: dict[tuple[int, str], float] = {}

    def clear(self) -> None:
        """Records arrive: the next error is a new one."""
        self._reported_s.clear()

    def take(self, error: KafkaError, topic: str = "") -> None:
        """Handle an error of the client, or of a topic.

        Raises:
            KafkaClientError: it is fatal.
        """
        code = error.code()
        message = message_of(error, topic)
        if error.fatal():
            raise KafkaClientError(message)
        if code in _TRANSIENT:
            return
        now_s, key = self._now_s(), (code, topic)
        if now_s - self._reported_s.get(key, -_AGAIN_S) >= _AGAIN_S:
            self._reported_s[key] = now_s
            self._report(message)


def message_of(error: KafkaError, topic: str = "") -> str:
    """One line that says what happened and what to do."""
    advice = _ADVICE.get(error.code())
    of = f" of topic {topic}" if topic and topic not in error.str() else ""
    return f"{error.name().lstrip('_')}{of}: {error.str()}" + (f"; {advice}" if advice else "")

"""``Keepalive``: when a client sends a sign of life, and when its broker counts as gone."""

from __future__ import annotations


class Keepalive:
    """The keepalive of one connection. Not thread-safe; times are in seconds of one monotonic clock.

    paho-mqtt breaks a connection whose answer it has not read in time, also while it was told not to read, or while
    the answer waits behind messages. Here the broker is alive as long as anything comes from it.

    Args:
        broker: for the error.
        interval_s: the broker expels a client that is silent for one and a half times as long.
        now_s: when the connection begins.
    """

    def __init__(self, broker: str, interval_s: float, now_s: float) -> None:
        self._broker = broker
        self._interval_s = interval_s
        self._sent_s = now_s
        # When the first request was sent after which nothing has come.
        self._unanswered_s: float | None = None

    def hear(self) -> None:
        """Note that bytes came, or that nobody reads them, so that silence means nothing."""
        self._unanswered_s = None

    def is_due(self, now_s: float) -> bool:
        """Whether to send a request now, which is then noted as sent: every half interval.

        Raises:
            TimeoutError: nothing came within an interval after a request.
        """
        if self._unanswered_s is not None and now_s - self._unanswered_s >= self._interval_s:
            raise TimeoutError(f"{self._broker} has not answered a keepalive within {self._interval_s:g} s")
        if now_s - self._sent_s < self._interval_s / 2:
            return False
        self._sent_s = now_s
        if self._unanswered_s is None:
            self._unanswered_s = now_s
        return True

"""``ReceiverHarness``: runs a receiver as on an executor, without Spark, and collects its blocks in memory."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from penstock import Block, ConfigurationError, Receiver, ReceiverHost, SourceStatus, StoreError
from penstock.spi import Clock, EngineThread, check_picklable, summary_of
from penstock_testing.columns import without_columns

# Reached only when something fails.
_STOP_MESSAGE = "the test is over"
_DEADLINE_S = 20.0
# Long enough for a busy machine: a receiver that is right needs milliseconds.
_STOP_S = 30.0
_POLL_S = 0.01
# Single records soon become a block, and a receiver that failed soon restarts.
_CONF = {"spark.streaming.blockInterval": "20ms", "spark.streaming.receiverRestartDelay": "10ms"}


class ReceiverHarness(ReceiverHost[Any]):
    """A ``ReceiverHost`` that collects the blocks, waits for results and checks them.

    It runs a pickled copy of the receiver, as an executor does; the copy is the attribute ``receiver``.

    Args:
        receiver: the receiver to run; use a new instance for each harness.
        conf: configuration by full key; the harness's own defaults are a block interval of 20 ms and a restart delay of
            10 ms.
        clock: the system clock by default; a ``ManualClock`` for behaviour that depends on time.
        pickled: ``False`` runs the instance itself, for a test that shares an object with it, such as a lock. Another
            test should then run it pickled.
        without_columns: the columns that ``records`` leaves out, such as an offset that the source assigns. A row with
            one other column is the value of this column.

    Raises:
        ConfigurationError: a value in ``conf`` is not valid, or the receiver cannot be pickled; names the attribute.
    """

    def __init__(
        self,
        receiver: Receiver[Any],
        conf: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        *,
        pickled: bool = True,
        without_columns: Sequence[str] = (),
    ) -> None:
        self._without_columns = without_columns
        self.receiver = receiver = _unpickled_copy(receiver) if pickled else receiver
        self._changed = threading.Condition()
        self._blocks: list[Block] = []
        # The answer to offered blocks, and the number of blocks accepted before the first is refused.
        self._answer = "accept"
        self._accepted_first = 0
        self._offers = 0
        self._expected: list[Any] | None = None
        #: The calls of store, store_all and store_arrow after the stop had ended; each was refused.
        self.late_stores: list[str] = []
        #: The last status of the source that the receiver has reported, and the number of these reports.
        self.source_status: SourceStatus | None = None
        self.source_reports = 0
        super().__init__(receiver, self._take, {**_CONF, **(conf or {})}, clock=clock)
        report_source = self.supervisor.report_source

        def reported(status: SourceStatus) -> None:
            self.source_status = status
            self.source_reports += 1
            report_source(status)

        self.supervisor.report_source = reported

    def __enter__(self) -> Self:
        """Start the receiver.

        Raises:
            BaseException: ``onStart`` raised it.
            TimeoutError: ``onStart`` did not return within 30 s.
        """
        self.start()
        if (error := self.supervisor.state.start_error) is not None:
            raise error
        return self

    def start(self) -> None:
        """Start the receiver; return when its ``onStart`` has returned. An error of ``onStart`` is in ``errors``.

        Raises:
            TimeoutError: ``onStart`` did not return within 30 s; the receiver is stopped.
        """
        starting = EngineThread("receiver start", super().start)
        starting.start()
        if not starting.finish(_STOP_S):
            self.supervisor.stop_soon("onStart did not return")
            raise TimeoutError(
                f"{type(self.receiver).__name__}.onStart did not return within {_STOP_S:g} s: it must only start what "
                "receives; derive from ThreadReceiver for a loop"
            )

    def __exit__(self, *error: object) -> None:
        """Stop the receiver."""
        if any(error):
            # The first error counts, not a missing record that follows from it.
            self._expected = None
        if self._answer == "hold":
            self.accept()
        self.stop()

    def reports(self) -> str:
        """The last errors of the receiver and the reason why it has ended by itself, for the messages of failures."""
        ends = [end for end in self.ends if _STOP_MESSAGE not in end]
        return f"reported errors: {self.errors[-3:]}" + (f"; the receiver has ended: {ends[-1]}" if ends else "")

    def stop(self, message: str = _STOP_MESSAGE, timeout_s: float | None = None) -> bool:
        """Stop the receiver and wait for its end; buffered records are stored first. Idempotent.

        Raises:
            TimeoutError: the receiver did not end within 30 s, because ``onStop`` does not wake a blocked call.
            AssertionError: the receiver has stored more records than the last ``until_records`` expected.
        """
        began = time.monotonic()
        has_ended = super().stop(message, timeout_s)
        for name in ("store", "store_all", "store_arrow"):
            self._record_late(name, getattr(self.supervisor, name))
        if time.monotonic() - began > _STOP_S:
            raise TimeoutError(
                f"{type(self.receiver).__name__} did not end within {_STOP_S:g} s of its stop: onStop is to wake "
                "whatever the receiver waits in"
            )
        expected, self._expected = self._expected, None
        if expected is not None:
            self._check(expected)
        return has_ended

    def restart(self) -> None:
        """Restart the receiver without a delay, as ``Receiver.restart`` does. Returns before it has."""
        self.supervisor.restart("the harness restarts it", delay_ms=0)

    def refuse(self, after: int = 0) -> None:
        """Refuse every block from now on, as a driver that accepts none.

        A store retries ``spark.penstock.receiver.storeRetries`` times before it fails.

        Args:
            after: accept this many blocks first.
        """
        with self._changed:
            self._accepted_first = after
        self._set_answer("refuse")

    def hold(self) -> None:
        """Let every block wait until ``accept`` or ``refuse``, as with a driver or disk that does not answer.

        The end of the ``with`` block accepts the waiting blocks. A block that waits for 20 s is refused.
        """
        self._set_answer("hold")

    def accept(self) -> None:
        """Accept every block from now on, and those that wait."""
        self._set_answer("accept")

    @property
    def offers(self) -> int:
        """The number of blocks offered so far: accepted, refused or waiting; each retry counts."""
        return self._offers

    @property
    def blocks(self) -> list[Block]:
        """The blocks stored so far, in order."""
        with self._changed:
            return list(self._blocks)

    @property
    def records(self) -> list[Any]:
        """The records of these blocks, as a batch would have them, without the columns to leave out."""
        return [without_columns(record, self._without_columns) for block in self.blocks for record in block.records()]

    @property
    def count(self) -> int:
        """The number of these records."""
        return sum(block.num_records for block in self.blocks)

    def until(self, condition: Callable[[], object], timeout_s: float = _DEADLINE_S) -> None:
        """Wait until a condition is true. It is checked after each block and every 10 ms.

        Args:
            condition: called repeatedly, must be quick.
            timeout_s: the deadline in seconds.

        Raises:
            TimeoutError: the condition is not true before the deadline, or when the receiver has ended by itself. The
                message has the receiver's errors.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            # Read in this order: the last block may make the condition true just before the end.
            ended, late = self.is_terminated, time.monotonic() > deadline
            if condition():
                return
            if ended or late:
                why = "the receiver has ended" if ended else f"not within {timeout_s:g} s"
                raise TimeoutError(f"{why}: {self.count} records, errors {self.errors[-3:]}, ends {self.ends[-3:]}")
            with self._changed:
                self._changed.wait(_POLL_S)

    def until_count(self, count: int) -> None:
        """Wait until at least this many records are stored.

        Raises:
            TimeoutError: they are not stored before the deadline, or the receiver ends first.
        """
        self._expected = None
        self.until(lambda: self.count >= count)

    def until_records(self, expected: list[Any]) -> None:
        """Wait for these records, and check that no others are stored. The stop of the harness checks it again.

        Raises:
            TimeoutError: fewer records are stored before the deadline, or before the receiver ends.
            AssertionError: other or more records are stored.
        """
        self.until_count(len(expected))
        self._check(expected)
        self._expected = list(expected)

    def until_error(self, words: str) -> None:
        """Wait until an error that contains these words is reported.

        Raises:
            TimeoutError: no such error is reported before the deadline, or before the receiver ends.
        """
        self.until(lambda: any(words in error for error in self.errors))

    def _check(self, expected: list[Any]) -> None:
        records = self.records
        if records != expected:
            raise AssertionError(f"expected {expected!r}, and there are {records!r}")

    def _record_late(self, name: str, store: Callable[..., None]) -> None:
        def late(*arguments: Any) -> None:
            self.late_stores.append(name)
            store(*arguments)

        setattr(self.supervisor, name, late)

    def _set_answer(self, answer: str) -> None:
        with self._changed:
            self._answer = answer
            self._changed.notify_all()

    def _take(self, block: Block) -> None:
        with self._changed:
            self._offers += 1
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._answer != "hold", _DEADLINE_S):
                raise StoreError(f"the harness has held block {block.block_id} for {_DEADLINE_S:g} s")
            if self._answer == "refuse" and not self._accepted_first:
                raise StoreError(f"the harness refuses block {block.block_id}")
            self._accepted_first = max(self._accepted_first - 1, 0)
            self._blocks.append(block)
            self._changed.notify_all()


def _unpickled_copy(receiver: Receiver[Any]) -> Receiver[Any]:
    """Return the copy that an executor would run."""
    data = check_picklable(receiver)
    try:
        copy: Receiver[Any] = pickle.loads(data)
    except Exception as error:
        raise ConfigurationError(
            f"receiver {type(receiver).__name__} cannot be unpickled on an executor: {summary_of(error)}"
        ) from error
    return copy

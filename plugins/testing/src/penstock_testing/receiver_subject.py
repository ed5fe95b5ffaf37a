"""``ReceiverSubject``, the argument of a receiver check: feeders, receivers in harnesses, waiting for records."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from penstock import Receiver
from penstock.spi import Clock
from penstock_testing.check import NotApplicable, fail
from penstock_testing.feeder import Feeder
from penstock_testing.leaks import is_busy
from penstock_testing.receiver_harness import ReceiverHarness
from penstock_testing.subject import Subject, encode_a_block

if TYPE_CHECKING:
    from penstock_testing.suites import ConformanceSuite

# Maximum time that a check waits for the receiver's stop: a stop that hangs fails only the checks of stopping.
_CLOSE_S = 3.0
# A receiver is idle when its threads need less than a fifth of the time in several windows in a row.
_WINDOW_S = 0.02
_QUIET_WINDOWS = 3
# The check that fails if the receiver cannot be pickled.
_PICKLED_BY = "PK-12"


class ReceiverSubject(Subject):
    """The receiver under test."""

    _assigned_columns: Sequence[str] = ()

    @classmethod
    def prepare(cls, suite: ConformanceSuite) -> None:
        encode_a_block()
        if isinstance(suite.feeder, type) and issubclass(suite.feeder, Feeder):
            suite.feeder.prepare()

    def feeder(self) -> Feeder:
        """A new feeder, closed when the check ends."""
        if self.suite.feeder is None:
            raise NotApplicable("the suite has no feeder")
        feeder: Feeder = self.enter(self.suite.feeder())
        # Harnesses leave these out; all feeders of a suite have the same.
        self._assigned_columns = feeder.assigned_columns
        return feeder

    def make(
        self,
        feeder: Feeder | None = None,
        position: Mapping[str, Any] | None = None,
        *,
        index: int = 0,
        count: int = 1,
    ) -> Receiver[Any]:
        """A new receiver: pickled and loaded again, as Spark does on the way to an executor.

        Args:
            feeder: the source; ``None`` makes a new feeder.
            position: a replayable receiver continues there: the merged metadata of the blocks stored so far, in which a
                later block's values replace earlier ones. ``None``: from the start.
            index: the number of this instance among those that share the source's partitions, from 0.
            count: the number of these instances.
        """
        if feeder is None and self.suite.feeder is not None:
            feeder = self.feeder()
        if position is not None and not self.takes("position"):
            fail(
                "make has no argument position, and Capabilities.replayable is set",
                change="declare make(feeder, position=None), and return a receiver that continues at this position",
            )
        instance = self.instance(*([] if feeder is None else [feeder]), position=position, index=index, count=count)
        try:
            receiver = cloudpickle.loads(cloudpickle.dumps(instance))
        except Exception as error:
            if self.check.id != _PICKLED_BY:
                raise NotApplicable(f"the receiver cannot be pickled: see {_PICKLED_BY}") from error
            fail(
                f"a new {type(instance).__name__} cannot be pickled: {type(error).__name__}: {error}",
                change="create clients, sockets, locks and threads in onStart, not in __init__",
            )
        if not isinstance(receiver, Receiver):
            fail(f"make returned a {type(receiver).__name__}", change="return an instance of a subclass of Receiver")
        return receiver

    def harness(
        self,
        receiver: Receiver[Any],
        clock: Clock | None = None,
        conf: Mapping[str, str] | None = None,
    ) -> ReceiverHarness:
        """A harness for a receiver, not started. It is stopped at the end of the check, even if that hangs."""
        conf = {**self.suite.conf, **(conf or {})}
        harness = ReceiverHarness(receiver, conf, clock, pickled=False, without_columns=self._assigned_columns)
        self.on_close(lambda: self.finishes(harness.stop, _CLOSE_S))
        self.on_close(harness.accept)
        return harness

    def run(
        self,
        receiver: Receiver[Any],
        clock: Clock | None = None,
        conf: Mapping[str, str] | None = None,
    ) -> ReceiverHarness:
        """Start a receiver in a harness, which stops it when the check ends."""
        harness = self.harness(receiver, clock, conf)
        harness.start()
        return harness

    def start(
        self, clock: Clock | None = None, conf: Mapping[str, str] | None = None
    ) -> tuple[Feeder, ReceiverHarness]:
        """Make a feeder and a receiver that reads from it, and start it."""
        feeder = self.feeder()
        return feeder, self.run(self.make(feeder), clock, conf)

    def arrives(self, count: Callable[[], int], goal: int, timeout_s: float = 5.0) -> bool:
        """Wait until a count reaches a goal; return false once it has not changed for the timeout.

        Args:
            count: returns the current count, such as the number of stored records.
            goal: the count to wait for.
            timeout_s: seconds without a change, before scaling.
        """
        while (before := count()) < goal:
            if not self.becomes(lambda: count() != before, timeout_s):  # called at once
                return False
        return True

    def is_quiet(self, timeout_s: float = 3.0) -> bool:
        """Wait until the receiver's threads are idle; return whether they are before the deadline."""
        deadline = time.monotonic() + self.deadline_s(timeout_s)
        quiet = 0
        while quiet < _QUIET_WINDOWS:
            if time.monotonic() > deadline:
                return False
            quiet = 0 if is_busy(self.leak_meter, _WINDOW_S) else quiet + 1
        return True

    def until_stored(self, harness: ReceiverHarness, records: Sequence[Any], timeout_s: float = 5.0) -> None:
        """Wait until these records are stored, each as often as it occurs among them. Others may be stored, too."""

        def missing() -> list[Any]:
            return list((Counter(records) - Counter(harness.records)).elements())

        def seen() -> str:
            lacks = f"{len(missing())} of {len(records)} records are not stored, the first is {missing()[:1]}"
            return f"{lacks}; {harness.reports()}"

        self.until(lambda: harness.count >= len(records) and not missing(), seen, timeout_s)
